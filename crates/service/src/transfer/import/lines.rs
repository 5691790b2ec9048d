//! Lines of a stream within bounded memory: what is longer than a line may be is passed over, not kept.

use std::io::{self, Read};

/// The longest line that is looked at.
pub(super) const LINE_MAX_BYTES: usize = 64 << 10;
const BUFFER_BYTES: usize = 512 << 10;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    Whole(&'a [u8]),
    /// Its beginning.
    TooLong(&'a [u8]),
}

/// Where reading stands: after a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FilePosition {
    /// Bytes of the text, after unpacking.
    pub(super) offset: u64,
    /// The number of the last line that was read; the first is 1.
    pub(super) line: u64,
}

pub(super) struct Lines<R> {
    input: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    stand: FilePosition,
}

impl<R: Read> Lines<R> {
    /// `input` stands at `stand`.
    pub(super) fn new(input: R, stand: FilePosition) -> Self {
        Self { input, buffer: vec![0; BUFFER_BYTES], start: 0, end: 0, stand }
    }

    pub(super) fn stand(&self) -> FilePosition {
        self.stand
    }

    /// Without its end; `None` at the end of the stream.
    pub(super) fn read(&mut self) -> io::Result<Option<Line<'_>>> {
        let mut looked_at = 0;
        loop {
            let waiting = &self.buffer[self.start..self.end];
            if let Some(found) = memchr::memchr(b'\n', &waiting[looked_at..]) {
                let length = looked_at + found;
                return Ok(Some(if length > LINE_MAX_BYTES {
                    let line = self.take(LINE_MAX_BYTES, length + 1);
                    Line::TooLong(&self.buffer[line])
                } else {
                    let line = self.take(length, length + 1);
                    Line::Whole(self.trimmed(line))
                }));
            }
            looked_at = waiting.len();
            if looked_at > LINE_MAX_BYTES {
                let kept = self.start..self.start + LINE_MAX_BYTES;
                self.pass_over()?;
                return Ok(Some(Line::TooLong(&self.buffer[kept])));
            }
            if !self.fill()? {
                if looked_at == 0 {
                    return Ok(None);
                }
                let line = self.take(looked_at, looked_at);
                return Ok(Some(Line::Whole(self.trimmed(line))));
            }
        }
    }

    /// Whether there was more.
    fn fill(&mut self) -> io::Result<bool> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let got = read_some(&mut self.input, &mut self.buffer[self.end..])?;
        self.end += got;
        Ok(got > 0)
    }

    fn take(&mut self, length: usize, consumed: usize) -> std::ops::Range<usize> {
        let line = self.start..self.start + length;
        self.start += consumed;
        self.stand.offset += consumed as u64;
        self.stand.line += 1;
        line
    }

    fn trimmed(&self, line: std::ops::Range<usize>) -> &[u8] {
        let text = &self.buffer[line];
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        if self.stand.line == 1 { text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text) } else { text }
    }

    /// Goes to the end of a line whose beginning stands in the buffer and stays there.
    fn pass_over(&mut self) -> io::Result<()> {
        let room = self.start + LINE_MAX_BYTES;
        self.stand.offset += (self.end - self.start) as u64;
        loop {
            let got = read_some(&mut self.input, &mut self.buffer[room..])?;
            let read = &self.buffer[room..room + got];
            match memchr::memchr(b'\n', read) {
                Some(found) => {
                    self.stand.offset += found as u64 + 1;
                    (self.start, self.end) = (room + found + 1, room + got);
                    break;
                }
                None if got == 0 => {
                    (self.start, self.end) = (room, room);
                    break;
                }
                None => self.stand.offset += got as u64,
            }
        }
        self.stand.line += 1;
        Ok(())
    }
}

fn read_some(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match input.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives a few bytes at a time, so that lines fall apart in every place.
    struct Drops<'a>(&'a [u8], usize);

    impl Read for Drops<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.1.min(self.0.len()).min(buffer.len());
            let (now, later) = self.0.split_at(count);
            buffer[..count].copy_from_slice(now);
            self.0 = later;
            Ok(count)
        }
    }

    fn all(text: &[u8], step: usize) -> Vec<(bool, Vec<u8>, FilePosition)> {
        let mut lines = Lines::new(Drops(text, step), FilePosition::default());
        let mut found = Vec::new();
        while let Some(line) = lines.read().unwrap() {
            let (whole, text) = match line {
                Line::Whole(text) => (true, text.to_vec()),
                Line::TooLong(text) => (false, text.to_vec()),
            };
            found.push((whole, text, lines.stand()));
        }
        found
    }

    #[test]
    fn lines_are_the_same_however_they_arrive() {
        let long = "y".repeat(LINE_MAX_BYTES);
        let text =
            format!("\u{feff}a\r\n\nbc\n{long}\n{long}x\n{long}{long}{long}{long}{long}{long}{long}{long}{long}\nlast");
        let whole = all(text.as_bytes(), usize::MAX);
        let wanted: Vec<(bool, &str)> =
            vec![(true, "a"), (true, ""), (true, "bc"), (true, &long), (false, &long), (false, &long), (true, "last")];
        let found: Vec<_> =
            whole.iter().map(|(is_whole, text, _)| (*is_whole, std::str::from_utf8(text).unwrap())).collect();
        assert_eq!(found, wanted);
        assert_eq!(whole.last().unwrap().2, FilePosition { offset: text.len() as u64, line: 7 });
        for step in [1_000, 65_535, 65_536, 65_537, 524_288] {
            assert_eq!(all(text.as_bytes(), step), whole, "{step}");
        }
        assert_eq!(all(b"", 1), []);
        assert_eq!(all(b"x\n", 1).len(), 1);
        assert_eq!(all("z".repeat(LINE_MAX_BYTES + 9).as_bytes(), 7)[0].2.offset, LINE_MAX_BYTES as u64 + 9);
    }

    #[test]
    fn reading_goes_on_from_a_stand() {
        let text = b"one\ntwo\nthree\n";
        let stand = all(text, 5)[1].2;
        let mut lines = Lines::new(&text[stand.offset as usize..], stand);
        assert_eq!(lines.read().unwrap(), Some(Line::Whole(b"three")));
        assert_eq!(lines.stand().line, 3);
    }
}
