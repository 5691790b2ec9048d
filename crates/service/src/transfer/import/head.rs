//! The first lines of a file: comments are passed over, and two lines with content tell how it is written.

use std::io::{self, Read};

use super::{
    Format,
    lines::{FilePosition, Line, Lines},
};

const MARKS: [u8; 2] = [b'#', b'%'];
/// How many lines are looked at for the second one with content.
const LINES_MAX: usize = 16;

/// What stands at the beginning.
#[derive(Debug, Default)]
pub(super) struct Head {
    /// The first comment.
    pub(super) comment: Option<Vec<u8>>,
    /// From the first line with content to the second one, remarks between them included.
    pub(super) lines: Vec<HeadLine>,
}

#[derive(Debug)]
pub(super) struct HeadLine {
    text: Vec<u8>,
    is_whole: bool,
    /// Behind it.
    pub(super) stand: FilePosition,
}

impl HeadLine {
    pub(super) fn line(&self) -> Line<'_> {
        if self.is_whole { Line::Whole(&self.text) } else { Line::TooLong(&self.text) }
    }
}

impl Head {
    /// `None` when there is no line with content.
    pub(super) fn read<R: Read>(lines: &mut Lines<R>, format: Format) -> io::Result<Option<Self>> {
        let mut head = Self::default();
        while head.second().is_none() && head.lines.len() < LINES_MAX {
            let Some(line) = lines.read()? else { break };
            let is_whole = matches!(line, Line::Whole(_));
            let (Line::Whole(text) | Line::TooLong(text)) = line;
            let text = text.to_vec();
            if text.trim_ascii().is_empty() {
                continue;
            }
            if head.lines.is_empty() && is_comment(&text, format) {
                head.comment.get_or_insert(text);
                continue;
            }
            head.lines.push(HeadLine { text, is_whole, stand: lines.stand() });
        }
        Ok((!head.lines.is_empty()).then_some(head))
    }

    pub(super) fn first(&self) -> &[u8] {
        self.lines.first().map(|line| line.text.as_slice()).unwrap_or_default()
    }

    /// The next one that is no remark.
    pub(super) fn second(&self) -> Option<&[u8]> {
        self.lines.iter().skip(1).map(|line| line.text.as_slice()).find(|text| !is_remark(text))
    }
}

/// Before the first line with content. Where columns could follow, only what surely is no id.
fn is_comment(text: &[u8], format: Format) -> bool {
    let text = text.trim_ascii_start();
    let Some((mark, rest)) = text.split_first().filter(|(mark, _)| MARKS.contains(mark)) else { return false };
    let is_apart = rest.first().is_none_or(|next| next.is_ascii_whitespace() || next == mark);
    match format {
        Format::Snap => true,
        Format::Csv | Format::Ndjson => false,
        Format::Auto => is_apart || !text.iter().any(|byte| b",;\"".contains(byte)),
    }
}

/// Whether a line between words is a comment.
pub(super) fn is_remark(line: &[u8]) -> bool {
    line.trim_ascii_start().first().is_some_and(|first| MARKS.contains(first))
}
