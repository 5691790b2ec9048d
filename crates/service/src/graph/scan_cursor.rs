//! A list in pages with a number as cursor, as SCAN wants it: pages end where a millisecond ends, or, where very many
//! rows have the same one, where a part of them ends.

use entourage_model::{Edge, Error, Key, Millis, Result, Side, UserId};
use tokio::task::yield_now;

use super::range::{CHUNK, below};
use crate::{
    Call, Graph, UserRow,
    visibility::{Visibility, VisibleList},
};

/// Up to how many rows of one millisecond come together.
const MILLISECOND_ROWS_MAX: usize = 10_000;
/// Up to how many of them are looked at for a page: each page looks at all.
const CROWD_ROWS_MAX: usize = 1_000_000;
/// How many parts the rows of a crowded millisecond are in.
const PARTS: u16 = 1 << PART_BITS;
const PART_BITS: u32 = 11;
/// For a millisecond and one.
const TIME_BITS: u32 = 42;

/// A page of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScanPage {
    pub rows: Vec<UserRow>,
    /// Where the list goes on; `None` at its end.
    pub next: Option<ScanCursor>,
}

/// Where a list goes on. It says nothing of any row, so that whichever goes meanwhile nobody else is missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanCursor {
    millis: Millis,
    /// The first part of this millisecond that is not read; 0 when nothing of it is left.
    part: u16,
}

impl ScanCursor {
    /// Never 0, and below 2^53: not every client has more bits.
    pub const fn number(self) -> u64 {
        ((self.part as u64) << TIME_BITS) | (self.millis.since_2000() + 1)
    }

    /// `None` for what no cursor has as its number.
    pub fn from_number(number: u64) -> Option<Self> {
        let millis = (number & ((1 << TIME_BITS) - 1)).checked_sub(1)?;
        let part = u16::try_from(number >> TIME_BITS).ok().filter(|part| *part < PARTS)?;
        Some(Self { millis: Millis::from_since_2000(millis), part })
    }
}

/// Which part a row is in: the same on every server and for ever, and even for keys in a row.
const fn part_of(key: Key) -> u16 {
    ((key.0 as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - PART_BITS)) as u16
}

impl Graph {
    /// About `about` rows from the cursor on, newest first; all rows of one millisecond come together unless they are too
    /// many. Who is in the list from the first page to the last is in one of them.
    pub async fn scan_page(
        &self,
        call: &Call,
        side: Side,
        id: &UserId,
        from: Option<ScanCursor>,
        about: usize,
    ) -> Result<ScanPage> {
        let (viewer, list) = self.open_list(call, side, id).await?;
        let visible = self.context.visible_list(viewer, list).await?;
        let mut visibility = self.context.visibility(viewer);
        let (edges, next) = match from {
            Some(ScanCursor { millis, part }) if part > 0 => {
                self.parts(&mut visibility, &visible, millis, part, about).await?
            }
            from => self.milliseconds(&mut visibility, &visible, from.map(|cursor| cursor.millis), about).await?,
        };
        Ok(ScanPage { rows: self.context.rows(list, &edges).await?, next })
    }

    /// Whole milliseconds before this one.
    async fn milliseconds(
        &self,
        visibility: &mut Visibility<'_>,
        visible: &VisibleList,
        before: Option<Millis>,
        about: usize,
    ) -> Result<(Vec<Edge>, Option<ScanCursor>)> {
        let list = visible.list;
        let mut after = before.map(below);
        let mut edges: Vec<Edge> = Vec::new();
        loop {
            yield_now().await;
            let wanted = if edges.len() < about { about - edges.len() + 1 } else { CHUNK };
            let page = self.context.scan_shown(visibility, visible, after, wanted.min(CHUNK)).await?;
            after = page.edges.last().map(|edge| list.place(edge));
            for edge in page.edges {
                let last = edges.last().map(|last| last.value.position.millis());
                if edges.len() >= about && last != Some(edge.value.position.millis()) {
                    return Ok((edges, last.map(|millis| ScanCursor { millis, part: 0 })));
                }
                edges.push(edge);
            }
            let Some(last) = after.filter(|_| page.more) else { return Ok((edges, None)) };
            if edges.len() > about + MILLISECOND_ROWS_MAX {
                // It begins a page of its own.
                let crowded = last.position.millis();
                edges.retain(|edge| edge.value.position.millis() != crowded);
                let Some(last) = edges.last() else { return self.parts(visibility, visible, crowded, 0, about).await };
                let next = ScanCursor { millis: last.value.position.millis(), part: 0 };
                return Ok((edges, Some(next)));
            }
        }
    }

    /// Whole parts of one millisecond, from this one on. Each page looks at all of its rows.
    async fn parts(
        &self,
        visibility: &mut Visibility<'_>,
        visible: &VisibleList,
        millis: Millis,
        from: u16,
        about: usize,
    ) -> Result<(Vec<Edge>, Option<ScanCursor>)> {
        let list = visible.list;
        let wanted = about.max(CHUNK);
        let mut after = Some(below(millis.plus(1)));
        let (mut kept, mut end): (Vec<(u16, Edge)>, _) = (Vec::new(), PARTS);
        let mut looked = 0;
        let has_older = loop {
            // A store in memory never waits by itself, and others want to be served meanwhile.
            yield_now().await;
            let page = self.context.scan_shown(visibility, visible, after, CHUNK).await?;
            looked += page.edges.len();
            if looked > CROWD_ROWS_MAX + CHUNK {
                return Err(Error::invalid(
                    "too many rows have the same time for reading the list in pieces; page through it with a cursor",
                ));
            }
            after = page.edges.last().map(|edge| list.place(edge));
            let count = page.edges.partition_point(|edge| edge.value.position.millis() >= millis);
            let has_older = count < page.edges.len();
            let rows = page.edges.into_iter().take(count).map(|edge| (part_of(list.other(&edge)), edge));
            kept.extend(rows.filter(|(part, _)| (from..end).contains(part)));
            if kept.len() > 4 * wanted && end - from > 1 {
                end = cut(&mut kept, wanted, end);
            }
            if has_older || !page.more || after.is_none() {
                break has_older;
            }
        };
        let next = match cut(&mut kept, wanted, end) {
            PARTS => has_older.then_some(ScanCursor { millis, part: 0 }),
            part => Some(ScanCursor { millis, part }),
        };
        Ok((kept.into_iter().map(|(_, edge)| edge).collect(), next))
    }
}

/// Keeps the first parts, as many as have the rows that are wanted, and tells before which part they end.
fn cut(kept: &mut Vec<(u16, Edge)>, wanted: usize, end: u16) -> u16 {
    if kept.len() <= wanted {
        return end;
    }
    kept.sort_by_key(|(part, _)| *part);
    let end = kept.get(wanted - 1).map_or(end, |(part, _)| part + 1);
    kept.retain(|(part, _)| *part < end);
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_its_number() {
        for since_2000 in [0, 1, 845_000_000_000, (1 << 41) - 1] {
            for part in [0, 1, PARTS - 1] {
                let cursor = ScanCursor { millis: Millis::from_since_2000(since_2000), part };
                assert!((1..1 << 53).contains(&cursor.number()), "{cursor:?}");
                assert_eq!(ScanCursor::from_number(cursor.number()), Some(cursor));
            }
        }
        for number in [0, 1 << TIME_BITS, 1 << 53, u64::MAX] {
            assert_eq!(ScanCursor::from_number(number), None, "{number}");
        }
    }

    #[test]
    fn parts_are_even_for_numbers_in_a_row_and_for_steps() {
        for step in [1, 2, 10, 1_000, 1 << 22] {
            let mut counts = [0_u32; PARTS as usize];
            for number in 0..100_000_i64 {
                counts[usize::from(part_of(Key(number * step)))] += 1;
            }
            let most = counts.into_iter().max().unwrap();
            assert!(most < 500, "steps of {step}: {most} of 100,000 in one part");
        }
    }
}
