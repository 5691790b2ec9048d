//! Replies as bytes, in RESP2 or RESP3.

use entourage_model::{Code, Error};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Protocol {
    #[default]
    Two,
    Three,
}

/// What goes out with the next write.
#[derive(Debug, Default)]
pub(super) struct Out {
    pub(super) bytes: Vec<u8>,
    pub(super) protocol: Protocol,
}

/// As Redis words it.
pub(super) const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

impl Out {
    pub(super) fn ok(&mut self) {
        self.bytes.extend_from_slice(b"+OK\r\n");
    }

    /// A simple string, without line breaks.
    pub(super) fn simple(&mut self, text: &str) {
        self.bytes.push(b'+');
        self.bytes.extend_from_slice(text.as_bytes());
        self.end_line();
    }

    /// An error with its prefix, kept on one line because it may contain client input.
    pub(super) fn error(&mut self, text: &str) {
        self.bytes.push(b'-');
        self.bytes.extend(text.bytes().map(|byte| if byte.is_ascii_control() { b' ' } else { byte }));
        self.end_line();
    }

    /// A refusal of the service with its code's prefix, field errors and retry delay.
    pub(super) fn refusal(&mut self, error: &Error) {
        crate::metrics::refusal(error.code());
        // Internal details go to the log, not to clients.
        let detail = if error.code() == Code::Internal {
            tracing::error!(%error, "a command failed");
            "the server's log has more"
        } else {
            error.detail()
        };
        let mut text = format!("{} {detail}", error.code().resp_prefix());
        for field in error.fields() {
            text.push_str(": ");
            text.push_str(&field.detail);
        }
        if let Some(delay) = error.retry_delay() {
            text.push_str(&format!("; retry after {} s", delay.as_millis().div_ceil(1_000)));
        }
        self.error(&text);
    }

    pub(super) fn flag(&mut self, yes: bool) {
        self.bytes.extend_from_slice(&flag(yes));
    }

    /// As [`Self::flag`], one for each.
    pub(super) fn flags(&mut self, each: impl ExactSizeIterator<Item = bool>) {
        let start = self.bytes.len();
        self.bytes.resize(start + each.len() * FLAG_BYTES, 0);
        let (places, _) = self.bytes.get_mut(start..).unwrap_or_default().as_chunks_mut();
        for (place, yes) in places.iter_mut().zip(each) {
            *place = flag(yes);
        }
    }

    /// A boolean in RESP3, 1 or 0 in RESP2.
    pub(super) fn boolean(&mut self, yes: bool) {
        match (self.protocol, yes) {
            (Protocol::Two, yes) => self.flag(yes),
            (Protocol::Three, true) => self.bytes.extend_from_slice(b"#t\r\n"),
            (Protocol::Three, false) => self.bytes.extend_from_slice(b"#f\r\n"),
        }
    }

    pub(super) fn flag_text(&mut self, yes: bool) {
        self.bytes.extend_from_slice(if yes { b"$1\r\n1\r\n" } else { b"$1\r\n0\r\n" });
    }

    pub(super) fn integer(&mut self, number: i64) {
        self.bytes.push(b':');
        self.number(number);
        self.end_line();
    }

    pub(super) fn count(&mut self, count: usize) {
        self.integer(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// A double, nearly always a whole number.
    pub(super) fn score(&mut self, score: f64) {
        let mut digits = Digits::default();
        let (whole, other);
        let text = if score.fract() == 0.0 && score.abs() < WHOLE_MAX {
            whole = digits.of(score as i64);
            whole
        } else {
            other = double(score);
            other.as_bytes()
        };
        match self.protocol {
            Protocol::Two => self.bulk(text),
            Protocol::Three => {
                self.bytes.push(b',');
                self.bytes.extend_from_slice(text);
                self.end_line();
            }
        }
    }

    pub(super) fn bulk_number(&mut self, number: i64) {
        let mut digits = Digits::default();
        self.bulk(digits.of(number));
    }

    pub(super) fn bulk(&mut self, bytes: &[u8]) {
        self.header(b'$', bytes.len());
        self.bytes.extend_from_slice(bytes);
        self.end_line();
    }

    pub(super) fn text(&mut self, text: &str) {
        self.bulk(text.as_bytes());
    }

    /// Text of several lines; a verbatim string in RESP3.
    pub(super) fn verbatim(&mut self, text: &str) {
        match self.protocol {
            Protocol::Two => self.text(text),
            Protocol::Three => {
                self.header(b'=', text.len() + 4);
                self.bytes.extend_from_slice(b"txt:");
                self.bytes.extend_from_slice(text.as_bytes());
                self.end_line();
            }
        }
    }

    pub(super) fn null(&mut self) {
        self.bytes.extend_from_slice(match self.protocol {
            Protocol::Two => b"$-1\r\n",
            Protocol::Three => b"_\r\n",
        });
    }

    pub(super) fn array(&mut self, length: usize) {
        self.header(b'*', length);
    }

    pub(super) fn set(&mut self, length: usize) {
        self.header(if self.protocol == Protocol::Three { b'~' } else { b'*' }, length);
    }

    /// The header of a map with this many pairs.
    pub(super) fn map(&mut self, pairs: usize) {
        match self.protocol {
            Protocol::Two => self.header(b'*', 2 * pairs),
            Protocol::Three => self.header(b'%', pairs),
        }
    }

    fn header(&mut self, kind: u8, length: usize) {
        self.bytes.push(kind);
        self.number(i64::try_from(length).unwrap_or(i64::MAX));
        self.end_line();
    }

    fn number(&mut self, number: i64) {
        let mut digits = Digits::default();
        self.bytes.extend_from_slice(digits.of(number));
    }

    fn end_line(&mut self) {
        self.bytes.extend_from_slice(b"\r\n");
    }
}

const FLAG_BYTES: usize = 4;

/// Doubles from here on have an exponent.
const WHOLE_MAX: f64 = 1e17;
/// And doubles below this.
const POINT_MIN: f64 = 1e-4;

/// As C prints doubles, in the fewest digits that are exact.
fn double(number: f64) -> String {
    if number.is_infinite() || (POINT_MIN..WHOLE_MAX).contains(&number.abs()) {
        return number.to_string();
    }
    let text = format!("{number:e}");
    match text.split_once('e') {
        Some((digits, power)) => match power.strip_prefix('-') {
            Some(power) => format!("{digits}e-{power:0>2}"),
            None => format!("{digits}e+{power:0>2}"),
        },
        None => text,
    }
}

const fn flag(yes: bool) -> [u8; FLAG_BYTES] {
    if yes { *b":1\r\n" } else { *b":0\r\n" }
}

/// Room for the longest number there is.
#[derive(Default)]
struct Digits([u8; 20]);

impl Digits {
    fn of(&mut self, number: i64) -> &[u8] {
        let mut rest = number.unsigned_abs();
        let mut at = self.0.len();
        loop {
            at -= 1;
            self.0[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if number < 0 {
            at -= 1;
            self.0[at] = b'-';
        }
        &self.0[at..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(protocol: Protocol, say: impl FnOnce(&mut Out)) -> String {
        let mut out = Out { protocol, ..Out::default() };
        say(&mut out);
        String::from_utf8(out.bytes).unwrap()
    }

    #[test]
    fn numbers_are_written_whole() {
        for number in [0, 7, -1, 10, 1_000_000, i64::MAX, i64::MIN] {
            assert_eq!(said(Protocol::Two, |out| out.integer(number)), format!(":{number}\r\n"));
        }
        assert_eq!(said(Protocol::Two, |out| out.bulk_number(-12)), "$3\r\n-12\r\n");
    }

    #[test]
    fn many_flags_are_each_of_them() {
        assert_eq!(said(Protocol::Two, |out| out.flags([true, false, true].into_iter())), ":1\r\n:0\r\n:1\r\n");
        let mut out = Out::default();
        out.flag(false);
        out.flags([].into_iter());
        out.flags([true].into_iter());
        assert_eq!(out.bytes, b":0\r\n:1\r\n");
    }

    #[test]
    fn the_protocols_differ_where_they_must() {
        type Say = fn(&mut Out);
        let cases: [(Say, &str, &str); 6] = [
            (|out| out.null(), "$-1\r\n", "_\r\n"),
            (|out| out.set(2), "*2\r\n", "~2\r\n"),
            (|out| out.map(2), "*4\r\n", "%2\r\n"),
            (|out| out.score(15.0), "$2\r\n15\r\n", ",15\r\n"),
            (|out| out.boolean(true), ":1\r\n", "#t\r\n"),
            (|out| out.verbatim("a"), "$1\r\na\r\n", "=5\r\ntxt:a\r\n"),
        ];
        for (say, two, three) in cases {
            assert_eq!((said(Protocol::Two, say), said(Protocol::Three, say)), (two.to_owned(), three.to_owned()));
        }
    }

    #[test]
    fn doubles_are_written_as_in_c() {
        for (number, text) in [
            (0.0, "0"),
            (-7.0, "-7"),
            (0.5, "0.5"),
            (1_700_000_000_000.25, "1700000000000.25"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (-2.5e300, "-2.5e+300"),
            (1e-4, "0.0001"),
            (2e-5, "2e-05"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(said(Protocol::Three, |out| out.score(number)), format!(",{text}\r\n"));
        }
    }

    #[test]
    fn an_error_stays_on_its_line() {
        assert_eq!(said(Protocol::Two, |out| out.error("ERR a\r\n+OK\r\n")), "-ERR a  +OK  \r\n");
        let error = Error::new(Code::RateLimited, "slower").at("/x", "at most 3");
        assert_eq!(
            said(Protocol::Two, |out| out.refusal(&error)),
            "-RATELIMITED slower: at most 3; retry after 1 s\r\n"
        );
    }
}
