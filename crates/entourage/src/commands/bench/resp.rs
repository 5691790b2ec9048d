//! Requests as RESP commands, and where replies end. Works with other servers too: replies are not interpreted.

use std::io::Write as _;

use anyhow::{Context, bail};

use super::{draw::Question, wire::Answer};

pub(super) fn write(question: &Question<'_>, out: &mut Vec<u8>) {
    match question {
        Question::Check { follower, target } => words(&["SISMEMBER", &key("following", follower), target], out),
        Question::Follow { follower, target } => words(&["SADD", &key("following", follower), target], out),
        Question::Unfollow { follower, target } => words(&["SREM", &key("following", follower), target], out),
        Question::Followers(user) => words(&["ZREVRANGE", &key("followers", user), "0", "49"], out),
        Question::Following(user) => words(&["ZREVRANGE", &key("following", user), "0", "49"], out),
        Question::Counts(user) => words(&["MGET", &key("follower_count", user), &key("following_count", user)], out),
        Question::Feed(user) => words(&["EG.FEED", user, "LIMIT", "20"], out),
        Question::Suggestions(user) => words(&["LRANGE", &key("suggestions", user), "0", "19"], out),
        Question::Command(own) => words(own, out),
    }
}

fn key(name: &str, user: &str) -> String {
    format!("{name}:{user}")
}

fn words(words: &[impl AsRef<str>], out: &mut Vec<u8>) {
    // Writing into memory does not fail.
    let _ = write!(out, "*{}\r\n", words.len());
    for word in words {
        let word = word.as_ref();
        let _ = write!(out, "${}\r\n{word}\r\n", word.len());
    }
}

/// The first reply in these bytes, if complete.
pub(super) fn read(bytes: &[u8]) -> anyhow::Result<Option<Answer>> {
    let mut at = 0;
    let mut left = 1u64;
    let mut error = None;
    while left > 0 {
        let Some(end) = line_end(&bytes[at..]) else { return Ok(None) };
        let line = &bytes[at..at + end];
        at += end + 2;
        left -= 1;
        let Some((kind, rest)) = line.split_first() else { bail!("the answer is not RESP") };
        match kind {
            b'+' | b':' | b'_' | b',' | b'#' | b'(' => {}
            b'-' => {
                let word = rest.split(|byte| *byte == b' ').next().unwrap_or(rest);
                error.get_or_insert_with(|| String::from_utf8_lossy(word).into_owned());
            }
            b'$' | b'=' | b'!' => {
                let length = number(rest)?;
                if length >= 0 {
                    at += length as usize + 2;
                    if at > bytes.len() {
                        return Ok(None);
                    }
                }
            }
            b'*' | b'~' | b'>' => left += number(rest)?.max(0) as u64,
            b'%' => left += 2 * number(rest)?.max(0) as u64,
            other => bail!("the answer is not RESP: it begins with {:?}", char::from(*other)),
        }
    }
    Ok(Some(Answer { bytes: at, error }))
}

fn line_end(bytes: &[u8]) -> Option<usize> {
    bytes.windows(2).position(|pair| pair == b"\r\n")
}

fn number(text: &[u8]) -> anyhow::Result<i64> {
    std::str::from_utf8(text)?.parse().context("a length in the answer is no number")
}

/// The bulk strings of a complete reply.
pub(super) fn strings(mut bytes: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    while let Some(end) = line_end(bytes) {
        let (line, rest) = (&bytes[..end], &bytes[end + 2..]);
        bytes = rest;
        let length = line.strip_prefix(b"$").and_then(|text| number(text).ok()).and_then(|it| usize::try_from(it).ok());
        if let Some(text) = length.and_then(|length| rest.get(..length)) {
            found.push(String::from_utf8_lossy(text).into_owned());
            bytes = rest.get(text.len() + 2..).unwrap_or_default();
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_arrays_of_strings() {
        let mut out = Vec::new();
        write(&Question::Check { follower: "1".into(), target: "é".into() }, &mut out);
        assert_eq!(out, "*3\r\n$9\r\nSISMEMBER\r\n$11\r\nfollowing:1\r\n$2\r\né\r\n".as_bytes());
    }

    #[test]
    fn answers_of_every_kind_end_where_they_end() {
        let cases: &[(&str, Option<&str>)] = &[
            (":1\r\n", None),
            ("+OK\r\n", None),
            ("-BLOCKED either blocks the other\r\n", Some("BLOCKED")),
            ("$-1\r\n", None),
            ("$5\r\na\r\nbc\r\n", None),
            ("*-1\r\n", None),
            ("*3\r\n:1\r\n*2\r\n$1\r\na\r\n_\r\n#t\r\n", None),
            ("%1\r\n+a\r\n*0\r\n", None),
        ];
        for (text, error) in cases {
            let more = format!("{text}:0\r\n");
            let answer = read(more.as_bytes()).unwrap().unwrap();
            assert_eq!((answer.bytes, answer.error.as_deref()), (text.len(), *error), "{text:?}");
            for end in 0..text.len() {
                assert!(read(&text.as_bytes()[..end]).unwrap().is_none(), "{text:?} to {end}");
            }
        }
        assert!(read(b"HTTP/1.1 400\r\n").is_err());
        assert_eq!(strings(b"*2\r\n$1\r\na\r\n$3\r\nb\r\n\r\n"), ["a", "b\r\n"]);
    }
}
