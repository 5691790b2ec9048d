//! The words of one command.

use super::parse::Span;

#[derive(Clone, Copy, Debug)]
pub(super) struct Args<'a> {
    bytes: &'a [u8],
    spans: &'a [Span],
    /// Where the command begins; spans count from there.
    base: u32,
}

impl<'a> Args<'a> {
    pub(super) fn new(bytes: &'a [u8], base: usize, spans: &'a [Span]) -> Self {
        Self { bytes, spans, base: base as u32 }
    }

    /// The buffer that the spans point into.
    pub(super) const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    pub(super) const fn len(&self) -> usize {
        self.spans.len()
    }

    /// A word; empty beyond the last one.
    pub(super) fn get(&self, index: usize) -> &'a [u8] {
        self.spans.get(index).map_or(&[], |span| self.span(*span))
    }

    /// The words from this one on.
    pub(super) fn rest(&self, from: usize) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone + use<'a> {
        let this = *self;
        this.spans.get(from..).unwrap_or_default().iter().map(move |span| this.span(*span))
    }

    pub(super) fn is(&self, index: usize, word: &str) -> bool {
        self.get(index).eq_ignore_ascii_case(word.as_bytes())
    }

    /// Where the command begins in [`Self::bytes`], and its words from there.
    pub(super) const fn parts(&self) -> (usize, &'a [Span]) {
        (self.base as usize, self.spans)
    }

    #[inline]
    fn span(&self, span: Span) -> &'a [u8] {
        self.bytes.get((self.base + span.start) as usize..(self.base + span.end) as usize).unwrap_or_default()
    }
}
