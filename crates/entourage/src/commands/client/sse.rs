//! Server-sent events, read line by line. A line ends with CR, LF or both.

use std::io::{BufRead, Error, ErrorKind, Result};

/// Our servers send no longer lines.
const LINE_MAX_BYTES: usize = 1 << 20;

/// One event; fields that were not sent are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) data: String,
}

pub(super) struct Events<R> {
    source: R,
    line: Vec<u8>,
    /// The last line ended with CR: an LF that follows belongs to it.
    after_cr: bool,
}

impl<R: BufRead> Events<R> {
    pub(super) const fn new(source: R) -> Self {
        Self { source, line: Vec::new(), after_cr: false }
    }

    /// The next event; `None` at the end. Skips comments, which keep connections alive, and incomplete events.
    pub(super) fn next(&mut self) -> Result<Option<Event>> {
        let (mut event, mut is_begun, mut has_data) = (Event::default(), false, false);
        while self.read_line()? {
            let text = String::from_utf8_lossy(&self.line);
            if text.is_empty() && is_begun {
                return Ok(Some(event));
            }
            let (field, value) = text.split_once(':').unwrap_or((&text, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "id" => event.id = value.to_owned(),
                "event" => event.name = value.to_owned(),
                "data" => {
                    if std::mem::replace(&mut has_data, true) {
                        event.data.push('\n');
                    }
                    event.data.push_str(value);
                }
                _ => continue,
            }
            is_begun = true;
        }
        Ok(None)
    }

    /// Reads the next complete line without its end; returns whether there was one.
    fn read_line(&mut self) -> Result<bool> {
        self.line.clear();
        loop {
            let found = self.source.fill_buf()?;
            let Some(&first) = found.first() else { return Ok(false) };
            if std::mem::take(&mut self.after_cr) && first == b'\n' {
                self.source.consume(1);
                continue;
            }
            let end = found.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
            let (text, _) = found.split_at(end.unwrap_or(found.len()));
            if self.line.len() + text.len() > LINE_MAX_BYTES {
                return Err(Error::new(ErrorKind::InvalidData, "a line of the stream is too long"));
            }
            self.line.extend_from_slice(text);
            self.after_cr = end.and_then(|end| found.get(end)) == Some(&b'\r');
            let used = text.len() + usize::from(end.is_some());
            self.source.consume(used);
            if end.is_some() {
                return Ok(true);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    fn event(id: &str, name: &str, data: &str) -> Event {
        Event { id: id.to_owned(), name: name.to_owned(), data: data.to_owned() }
    }

    /// However the bytes arrive.
    fn read(text: &str) -> Vec<Event> {
        let read = |capacity: usize| {
            let mut events = Events::new(BufReader::with_capacity(capacity, text.as_bytes()));
            std::iter::from_fn(|| events.next().unwrap()).collect::<Vec<_>>()
        };
        let found = read(4_096);
        for capacity in 1..8 {
            assert_eq!(read(capacity), found, "{capacity} bytes at a time");
        }
        found
    }

    #[test]
    fn events_are_read_one_by_one() {
        let lines = ":\n\nid: a\nevent: post\ndata: {\"n\":1}\n\n: still here\n\ndata:x\r\ndata: y:z\r\n\r\nid: cut";
        assert_eq!(read(lines), [event("a", "post", "{\"n\":1}"), event("", "", "x\ny:z")]);
    }

    #[test]
    fn a_line_ends_with_cr_lf_or_both() {
        for end in ["\n", "\r", "\r\n"] {
            let lines = ["id: a", "data: 1", "data: 2", "", "data", "", ""].join(end);
            assert_eq!(read(&lines), [event("a", "", "1\n2"), event("", "", "")], "{end:?}");
        }
        // As a body with CR, and with CRLF, between its tokens comes.
        assert_eq!(read("data: {\rdata: }\n\n"), [event("", "", "{\n}")]);
        assert_eq!(read("data: {\rdata: \ndata: }\n\n"), [event("", "", "{\n\n}")]);
        assert_eq!(read("data: a\n\r\ndata: b\r\r"), [event("", "", "a"), event("", "", "b")]);
        assert_eq!(read(&format!("data: {}", "x".repeat(100))), []);
    }

    #[test]
    fn a_line_without_an_end_does_not_fill_memory() {
        let mut events = Events::new(BufReader::new(std::io::Read::take(std::io::repeat(b'x'), 3 << 20)));
        assert_eq!(events.next().unwrap_err().kind(), ErrorKind::InvalidData);
    }
}
