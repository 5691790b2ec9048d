//! A row of what the viewer asks: an operation of the document or a command of RESP, with its lines.

type Lines = &'static [&'static str];

pub(crate) struct Row {
    /// The operation's id, or the command.
    pub(crate) name: &'static str,
    /// Asked one after the other, with the same people.
    pub(crate) lines: Lines,
    pub(crate) asks: Asks,
}

/// When its lines are asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Asks {
    /// Whenever, with either credential.
    Reads,
    /// One at a time, with what came of it looked at.
    Writes,
    /// With the viewer's own token only: a service may ask, and then it is not the viewer who does.
    NotForUsers,
    /// About the process or the connection: numbers are left out.
    Process,
    /// By another part of the run: it reads a stream, ends a connection, or ends the run.
    Elsewhere,
}

pub(crate) const fn reads(name: &'static str, lines: Lines) -> Row {
    Row { name, lines, asks: Asks::Reads }
}

pub(crate) const fn writes(name: &'static str, lines: Lines) -> Row {
    Row { name, lines, asks: Asks::Writes }
}

pub(crate) const fn refused(name: &'static str, lines: Lines) -> Row {
    Row { name, lines, asks: Asks::NotForUsers }
}

pub(crate) const fn process(name: &'static str, lines: Lines) -> Row {
    Row { name, lines, asks: Asks::Process }
}

pub(crate) const fn elsewhere(name: &'static str) -> Row {
    Row { name, lines: &[], asks: Asks::Elsewhere }
}
