//! The next requests of a connection: drawn when sent, or drawn beforehand and repeated, so that drawing costs nothing
//! during the measurement.

use anyhow::Result;
use rand::rngs::SmallRng;

use super::{draw::Draw, wire::Protocol};

pub(super) struct Supply<'a> {
    protocol: &'a Protocol,
    draw: &'a Draw,
    random: SmallRng,
    /// Requests as bytes, and where each ends.
    bytes: Vec<u8>,
    ends: Vec<usize>,
    kinds: Vec<usize>,
    /// The next of those that were drawn beforehand.
    at: usize,
    prepared: bool,
}

/// Requests sent together.
pub(super) struct Batch<'a> {
    pub(super) bytes: &'a [u8],
    /// The kind of each, by its number.
    pub(super) kinds: &'a [usize],
}

impl<'a> Supply<'a> {
    pub(super) fn new(protocol: &'a Protocol, draw: &'a Draw, random: SmallRng, prepare: usize) -> Result<Self> {
        let (bytes, ends, kinds) = (Vec::new(), Vec::new(), Vec::new());
        let mut supply = Self { protocol, draw, random, bytes, ends, kinds, at: 0, prepared: prepare > 0 };
        supply.fill(prepare)?;
        Ok(supply)
    }

    fn fill(&mut self, count: usize) -> Result<()> {
        self.bytes.clear();
        self.ends.clear();
        self.kinds.clear();
        for _ in 0..count {
            let question = self.draw.next(&mut self.random);
            self.protocol.write(&question, &mut self.bytes)?;
            self.ends.push(self.bytes.len());
            self.kinds.push(question.number());
        }
        Ok(())
    }

    /// `count` of them, or fewer where those drawn beforehand begin anew.
    pub(super) fn take(&mut self, count: usize) -> Result<Batch<'_>> {
        if !self.prepared {
            self.fill(count)?;
            return Ok(Batch { bytes: &self.bytes, kinds: &self.kinds });
        }
        let from = if self.at < self.ends.len() { self.at } else { 0 };
        let to = (from + count).min(self.ends.len());
        self.at = to;
        let start = from.checked_sub(1).map_or(0, |before| self.ends[before]);
        Ok(Batch { bytes: &self.bytes[start..self.ends[to - 1]], kinds: &self.kinds[from..to] })
    }
}
