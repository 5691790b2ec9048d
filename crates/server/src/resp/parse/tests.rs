use proptest::{collection::vec, prelude::*};
use redis_protocol::resp2::{
    decode::decode,
    encode::encode,
    types::{OwnedFrame, Resp2Frame},
};

use super::*;

const BOUNDS: Bounds = Bounds { arguments: 8, bulk: 100, command: 200, inline: 64 };

fn words(input: &[u8]) -> Result<(Step, Vec<Vec<u8>>), Broken> {
    let mut parser = Parser::default();
    let step = parser.next(input, BOUNDS)?;
    let bytes = if matches!(step, Step::Inline(_)) { parser.line().to_vec() } else { input.to_vec() };
    let found = match step {
        Step::Command(_) | Step::Inline(_) => {
            parser.spans().iter().map(|span| bytes[span.start as usize..span.end as usize].to_vec()).collect()
        }
        _ => Vec::new(),
    };
    Ok((step, found))
}

#[test]
fn commands_are_found_in_place() {
    let (step, found) = words(b"*2\r\n$3\r\nGET\r\n$0\r\n\r\nrest").unwrap();
    assert_eq!((step, found), (Step::Command(19), vec![b"GET".to_vec(), Vec::new()]));
    assert_eq!(words(b"*0\r\nrest").unwrap().0, Step::Nothing(4));
    assert_eq!(words(b"*-10\r\nrest").unwrap().0, Step::Nothing(6));
    assert_eq!(words(b"*-9223372036854775807\r\nrest").unwrap().0, Step::Nothing(23));
    assert_eq!(words(b"\r\nrest").unwrap().0, Step::Nothing(2));
}

#[test]
fn lines_have_words_and_quotes() {
    let cases: [(&str, &[&str]); 6] = [
        ("PING\r\n", &["PING"]),
        ("  get   a\tb \n", &["get", "a", "b"]),
        ("set \"a b\" 'c d'\r\n", &["set", "a b", "c d"]),
        ("echo \"\\x41\\n\\\"\\\\\\q\"\r\n", &["echo", "A\n\"\\q"]),
        ("echo 'it\\'s' \"\"\r\n", &["echo", "it's", ""]),
        ("echo \"\\xzz\"\r\n", &["echo", "xzz"]),
    ];
    for (line, wanted) in cases {
        let (step, found) = words(line.as_bytes()).unwrap();
        assert_eq!(step, Step::Inline(line.len()), "{line}");
        assert_eq!(found, wanted.iter().map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>(), "{line}");
    }
    for line in ["echo \"a\r\n", "echo 'a\r\n", "echo \"a\"b\r\n", "echo a\"b\"\r\n"] {
        assert_eq!(words(line.as_bytes()), Err(Broken::Quotes), "{line}");
    }
}

#[test]
fn what_is_too_much_or_makes_no_sense_is_said() {
    let cases: [(&[u8], Broken); 13] = [
        (b"*9\r\n", Broken::ArrayLength),
        (b"*2147483647\r\n", Broken::ArrayLength),
        (b"*99999999999999999999\r\n", Broken::ArrayLength),
        (b"*\r\n", Broken::ArrayLength),
        (b"*1x\r\n", Broken::ArrayLength),
        (b"*0000000000000000000001\r\n", Broken::LongNumber),
        (b"*1\rx", Broken::NoLineEnd),
        (b"*1\r\n:5\r\n", Broken::NoBulk(b':')),
        (b"*1\r\n$999999999\r\n", Broken::BulkLength),
        (b"*1\r\n$-1\r\n", Broken::BulkLength),
        (b"*1\r\n$101\r\n", Broken::BulkLength),
        (b"*1\r\n$1\r\nabc", Broken::NoLineEnd),
        (&[b'x'; 65], Broken::LongInline),
    ];
    for (input, wanted) in cases {
        assert_eq!(words(input), Err(wanted), "{}", input.escape_ascii());
    }
    let long = [b"*3\r\n".to_vec(), b"$100\r\n".to_vec(), vec![b'a'; 100], b"\r\n$100\r\n".to_vec()].concat();
    assert_eq!(words(&long), Err(Broken::LongCommand));
}

/// Every command of the input, however it is cut into reads, and what is wrong at its end.
fn read(input: &[u8], cuts: &[usize], bounds: Bounds) -> (Vec<Vec<Vec<u8>>>, Option<Broken>) {
    let (mut parser, mut found, mut begin) = (Parser::default(), Vec::new(), 0);
    let ends = cuts.iter().copied().filter(|cut| *cut < input.len()).chain([input.len()]);
    for end in ends {
        while begin < end {
            let here = &input[begin..end];
            let (length, bytes) = match parser.next(here, bounds) {
                Ok(Step::More) => break,
                Ok(Step::Nothing(length)) => {
                    begin += length;
                    continue;
                }
                Ok(Step::Command(length)) => (length, here.to_vec()),
                Ok(Step::Inline(length)) => (length, parser.line().to_vec()),
                Err(broken) => return (found, Some(broken)),
            };
            let word = |span: &Span| bytes[span.start as usize..span.end as usize].to_vec();
            found.push(parser.spans().iter().map(word).collect());
            begin += length;
        }
    }
    (found, None)
}

/// What another implementation makes of the first frame, if it is a command within the bounds.
fn oracle(input: &[u8]) -> Oracle {
    match decode(input) {
        Ok(None) => Oracle::More,
        Err(_) => Oracle::Other,
        Ok(Some((OwnedFrame::Array(frames), length))) => {
            let words = frames.into_iter().map(|frame| match frame {
                OwnedFrame::BulkString(bytes) if bytes.len() <= BOUNDS.bulk => Some(bytes),
                _ => None,
            });
            match words.collect::<Option<Vec<_>>>() {
                Some(words) if (1..=BOUNDS.arguments).contains(&words.len()) && length <= BOUNDS.command => {
                    Oracle::Command(words, length)
                }
                _ => Oracle::Other,
            }
        }
        Ok(Some(_)) => Oracle::Other,
    }
}

#[derive(Debug, PartialEq)]
enum Oracle {
    More,
    Command(Vec<Vec<u8>>, usize),
    Other,
}

fn command() -> impl Strategy<Value = Vec<Vec<u8>>> {
    vec(vec(any::<u8>(), 0..20), 1..=BOUNDS.arguments)
}

fn encoded(command: &[Vec<u8>]) -> Vec<u8> {
    let words = command.iter().map(|word| OwnedFrame::BulkString(word.clone())).collect();
    let frame = OwnedFrame::Array(words);
    let mut bytes = vec![0; frame.encode_len(false)];
    encode(&mut bytes, &frame, false).unwrap();
    bytes
}

/// A command with a few bytes changed, put in or left out.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let change = (
        any::<prop::sample::Index>(),
        0..3_u8,
        prop_oneof![any::<u8>(), prop::sample::select(b"*$\r\n-0123456789:".to_vec())],
    );
    (command(), vec(change, 0..4)).prop_map(|(command, changes)| {
        let mut bytes = encoded(&command);
        for (at, how, byte) in changes {
            let at = at.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ if bytes.len() > 1 => drop(bytes.remove(at)),
                _ => {}
            }
        }
        bytes
    })
}

proptest! {
    #[test]
    fn commands_are_the_same_wherever_reads_are_cut(
        commands in vec(command(), 1..6),
        cuts in vec(0..400_usize, 0..20),
    ) {
        let input: Vec<u8> = commands.iter().flat_map(|command| encoded(command)).collect();
        let mut cuts = cuts;
        cuts.sort_unstable();
        prop_assert_eq!(read(&input, &cuts, BOUNDS), (commands.clone(), None));
        let every: Vec<usize> = (0..input.len()).collect();
        prop_assert_eq!(read(&input, &every, BOUNDS), (commands, None));
    }

    #[test]
    fn what_is_a_command_is_one_for_others_too(input in damaged()) {
        if input.first() == Some(&b'*') {
            let mut parser = Parser::default();
            match (parser.next(&input, BOUNDS), oracle(&input)) {
                (Ok(Step::Command(length)), found) => {
                    let word = |span: &Span| input[span.start as usize..span.end as usize].to_vec();
                    let words: Vec<_> = parser.spans().iter().map(word).collect();
                    prop_assert_eq!(found, Oracle::Command(words, length));
                }
                (Ok(Step::More), found) => prop_assert_eq!(found, Oracle::More),
                // The other one takes more than it should: signs, and anything where a line must end.
                (refused, Oracle::Command(words, length)) => {
                    prop_assert_ne!(encoded(&words), input[..length].to_vec(), "{:?}", refused);
                }
                _ => {}
            }
        }
    }

    #[test]
    fn damage_looks_the_same_wherever_reads_are_cut(input in damaged()) {
        let every: Vec<usize> = (0..input.len()).collect();
        prop_assert_eq!(read(&input, &[], BOUNDS), read(&input, &every, BOUNDS));
    }

    #[test]
    fn any_bytes_are_read_without_harm(input in vec(any::<u8>(), 0..300)) {
        read(&input, &[], BOUNDS);
    }
}
