//! Parses requests: arrays of bulk strings in place, inline lines with their quotes. An incomplete command is resumed
//! where parsing stopped, so that no byte is parsed twice.

use std::fmt;

use super::limits::Bounds;

/// The longest length field, sign included.
const NUMBER_MAX_BYTES: usize = 20;

/// A part of the input, relative to the start of its command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: u32,
    pub(super) end: u32,
}

/// A protocol error, after which the connection cannot be parsed further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    ArrayLength,
    BulkLength,
    NoBulk(u8),
    NoLineEnd,
    LongInline,
    LongNumber,
    LongCommand,
    Quotes,
}

impl fmt::Display for Broken {
    /// As Redis words it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Protocol error: ")?;
        match self {
            Self::ArrayLength => f.write_str("invalid multibulk length"),
            Self::BulkLength => f.write_str("invalid bulk length"),
            Self::NoBulk(byte) => write!(f, "expected '$', got '{}'", byte.escape_ascii()),
            Self::NoLineEnd => f.write_str("expected CR and LF"),
            Self::LongInline => f.write_str("too big inline request"),
            Self::LongNumber => f.write_str("too big count string"),
            Self::LongCommand => f.write_str("too big command"),
            Self::Quotes => f.write_str("unbalanced quotes in request"),
        }
    }
}

/// What [`Parser::next`] found at the start of its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The command is incomplete.
    More,
    /// An empty array or line of this many bytes.
    Nothing(usize),
    /// A command of this many bytes; [`Parser::spans`] are parts of them.
    Command(usize),
    /// A line of this many bytes; [`Parser::spans`] are parts of [`Parser::line`].
    Inline(usize),
}

#[derive(Debug, Default)]
pub(super) struct Parser {
    spans: Vec<Span>,
    /// Bulk strings of the array that are still to come.
    missing: usize,
    /// Where to resume.
    at: usize,
    line: Vec<u8>,
}

impl Parser {
    pub(super) fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// The words of an inline command, without quotes.
    pub(super) fn line(&self) -> &[u8] {
        &self.line
    }

    /// `input` must begin with the same command until that command is returned.
    pub(super) fn next(&mut self, input: &[u8], bounds: Bounds) -> Result<Step, Broken> {
        if self.missing == 0 {
            match input.first() {
                None => return Ok(Step::More),
                Some(b'*') => {}
                Some(_) => return self.inline(input, bounds),
            }
            let Some((count, at)) = number(input, 1, Broken::ArrayLength)? else { return Ok(Step::More) };
            if count > bounds.arguments as i64 {
                return Err(Broken::ArrayLength);
            }
            // A negative array length is skipped, as in Redis.
            if count <= 0 {
                return Ok(Step::Nothing(at));
            }
            self.spans.clear();
            (self.missing, self.at) = (count as usize, at);
        }
        let mut at = self.at;
        while self.missing > 0 {
            let Some(span) = bulk(input, at, bounds)? else {
                self.at = at;
                return Ok(Step::More);
            };
            self.spans.push(span);
            at = span.end as usize + 2;
            self.missing -= 1;
        }
        self.at = 0;
        Ok(Step::Command(at))
    }

    fn inline(&mut self, input: &[u8], bounds: Bounds) -> Result<Step, Broken> {
        let fresh = input.get(self.at..).unwrap_or_default();
        let Some(end) = fresh.iter().position(|byte| *byte == b'\n').map(|end| self.at + end) else {
            if input.len() > bounds.inline {
                return Err(Broken::LongInline);
            }
            self.at = input.len();
            return Ok(Step::More);
        };
        if end > bounds.inline {
            return Err(Broken::LongInline);
        }
        self.at = 0;
        self.spans.clear();
        self.line.clear();
        let line = input.get(..end).unwrap_or_default();
        split(line.strip_suffix(b"\r").unwrap_or(line), &mut self.line, &mut self.spans)?;
        if self.spans.len() > bounds.arguments {
            return Err(Broken::ArrayLength);
        }
        Ok(if self.spans.is_empty() { Step::Nothing(end + 1) } else { Step::Inline(end + 1) })
    }
}

/// A bulk string; `None` if incomplete.
#[inline]
fn bulk(input: &[u8], at: usize, bounds: Bounds) -> Result<Option<Span>, Broken> {
    let head = input.get(at..).and_then(<[u8]>::first_chunk);
    // Nearly all have one digit.
    let (length, start) = if let Some(&[b'$', one @ b'0'..=b'9', b'\r', b'\n']) = head {
        (digit(one), at + 4)
    } else {
        match input.get(at) {
            None => return Ok(None),
            Some(b'$') => {}
            Some(other) => return Err(Broken::NoBulk(*other)),
        }
        let Some(found) = number(input, at + 1, Broken::BulkLength)? else { return Ok(None) };
        found
    };
    if length < 0 || length > bounds.bulk as i64 {
        return Err(Broken::BulkLength);
    }
    let end = start + length as usize;
    if end > bounds.command {
        return Err(Broken::LongCommand);
    }
    match input.get(end..end + 2) {
        None => Ok(None),
        Some(b"\r\n") => Ok(Some(Span { start: start as u32, end: end as u32 })),
        Some(_) => Err(Broken::NoLineEnd),
    }
}

/// The number on a line, and where the next line begins; `None` if incomplete.
#[inline]
fn number(input: &[u8], from: usize, wrong: Broken) -> Result<Option<(i64, usize)>, Broken> {
    let rest = input.get(from..).unwrap_or_default();
    // Nearly all have one digit or two.
    match *rest {
        [one @ b'0'..=b'9', b'\r', b'\n', ..] => return Ok(Some((digit(one), from + 3))),
        [ten @ b'0'..=b'9', one @ b'0'..=b'9', b'\r', b'\n', ..] => {
            return Ok(Some((digit(ten) * 10 + digit(one), from + 4)));
        }
        _ => {}
    }
    let (negative, digits) = match rest.split_first() {
        Some((b'-', digits)) => (true, digits),
        _ => (false, rest),
    };
    let mut value: i64 = 0;
    for (index, byte) in digits.iter().enumerate() {
        match byte {
            b'0'..=b'9' if index < NUMBER_MAX_BYTES => {
                value = value.checked_mul(10).and_then(|v| v.checked_add(digit(*byte))).ok_or(wrong)?;
            }
            b'\r' if index > 0 => {
                return match digits.get(index + 1) {
                    None => Ok(None),
                    Some(b'\n') => {
                        let next = from + usize::from(negative) + index + 2;
                        Ok(Some((if negative { -value } else { value }, next)))
                    }
                    Some(_) => Err(Broken::NoLineEnd),
                };
            }
            b'0'..=b'9' => return Err(Broken::LongNumber),
            _ => return Err(wrong),
        }
    }
    Ok(None)
}

const fn digit(byte: u8) -> i64 {
    (byte - b'0') as i64
}

/// Words separated by blanks. Double quotes allow `\n \r \t \b \a \\ \" \xHH`, single ones `\'` alone.
fn split(line: &[u8], into: &mut Vec<u8>, spans: &mut Vec<Span>) -> Result<(), Broken> {
    let mut bytes = line.iter().copied().peekable();
    loop {
        while bytes.next_if(|byte| byte.is_ascii_whitespace() || *byte == 0).is_some() {}
        let Some(first) = bytes.peek().copied() else { return Ok(()) };
        let start = into.len() as u32;
        match first {
            b'"' | b'\'' => {
                bytes.next();
                loop {
                    match bytes.next().ok_or(Broken::Quotes)? {
                        byte if byte == first => break,
                        b'\\' if first == b'"' => into.push(escaped(&mut bytes)?),
                        b'\\' if bytes.next_if_eq(&b'\'').is_some() => into.push(b'\''),
                        byte => into.push(byte),
                    }
                }
                // A closing quote ends its word.
                if bytes.peek().is_some_and(|byte| !byte.is_ascii_whitespace()) {
                    return Err(Broken::Quotes);
                }
            }
            _ => {
                while let Some(byte) = bytes.next_if(|byte| !byte.is_ascii_whitespace()) {
                    if byte == b'"' || byte == b'\'' {
                        return Err(Broken::Quotes);
                    }
                    into.push(byte);
                }
            }
        }
        spans.push(Span { start, end: into.len() as u32 });
    }
}

fn escaped(bytes: &mut std::iter::Peekable<impl Iterator<Item = u8> + Clone>) -> Result<u8, Broken> {
    let byte = bytes.next().ok_or(Broken::Quotes)?;
    if byte == b'x' {
        let mut ahead = bytes.clone();
        let mut digit = || ahead.next().and_then(|byte| char::from(byte).to_digit(16));
        if let (Some(high), Some(low)) = (digit(), digit()) {
            bytes.next();
            bytes.next();
            return Ok((high * 16 + low) as u8);
        }
    }
    Ok(match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'a' => 7,
        other => other,
    })
}

#[cfg(test)]
mod tests;
