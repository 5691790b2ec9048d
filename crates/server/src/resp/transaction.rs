//! The commands queued by `MULTI`, as they were sent.

use super::{
    args::Args,
    limits::{TRANSACTION_BYTES, TRANSACTION_COMMANDS},
    parse::Span,
    table::{COMMANDS, Command},
};

#[derive(Debug, Default)]
pub(super) struct Transaction {
    bytes: Vec<u8>,
    spans: Vec<Span>,
    /// The command's index in the table, and where its spans end.
    commands: Vec<(usize, usize)>,
    /// A command could not be queued.
    pub(super) failed: bool,
}

impl Transaction {
    /// False if it is full.
    pub(super) fn queue(&mut self, command: usize, args: Args<'_>) -> bool {
        // Short words cost memory too.
        let words = (self.spans.len() + args.len()) * size_of::<Span>();
        let bytes: usize = args.rest(0).map(<[u8]>::len).sum();
        if self.commands.len() >= TRANSACTION_COMMANDS || self.bytes.len() + bytes + words > TRANSACTION_BYTES {
            return false;
        }
        for word in args.rest(0) {
            let start = self.bytes.len() as u32;
            self.bytes.extend_from_slice(word);
            self.spans.push(Span { start, end: self.bytes.len() as u32 });
        }
        self.commands.push((command, self.spans.len()));
        true
    }

    pub(super) fn len(&self) -> usize {
        self.commands.len()
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn command(&self, index: usize) -> Option<(&'static Command, Args<'_>)> {
        let &(command, end) = self.commands.get(index)?;
        let from = index.checked_sub(1).and_then(|before| self.commands.get(before)).map_or(0, |(_, end)| *end);
        Some((COMMANDS.get(command)?, Args::new(&self.bytes, 0, self.spans.get(from..end)?)))
    }
}
