//! Parts of a list by rank or by time.

use entourage_model::{Edge, Key, List, Millis, Place, Result, Side, UserId, Version};

use crate::{Call, Service, UserRow, visibility::lists_hidden};

/// How many rows one look at the store takes at most.
pub(crate) const CHUNK: usize = 1_000;

/// Which rows of a list: those not newer and not older, without so many of the newest, at most so many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub newest: Option<Millis>,
    pub oldest: Option<Millis>,
    pub skip: usize,
    pub take: usize,
}

/// What was found in a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Windowed {
    pub rows: Vec<UserRow>,
    /// The window has more rows than were to be taken.
    pub more: bool,
}

impl Service {
    pub async fn window(&self, call: &Call, side: Side, id: &UserId, window: Window) -> Result<Windowed> {
        let (viewer, list) = self.open_list(call, side, id).await?;
        let visible = self.visible_list(viewer, list).await?;
        let mut eyes = self.eyes(viewer);
        let mut after = window.newest.map(|newest| below(newest.plus(1)));
        let (mut skip, mut edges): (_, Vec<Edge>) = (window.skip, Vec::new());
        let mut more = false;
        'reading: loop {
            // One more than is taken tells whether there is more.
            let wanted = (skip + window.take - edges.len()).saturating_add(1);
            let page = self.scan_shown(&mut eyes, &visible, after, wanted.min(CHUNK)).await?;
            after = page.edges.last().map(|edge| list.place(edge));
            let is_past = window.oldest.zip(after).is_some_and(|(oldest, last)| last.position.millis() < oldest);
            for edge in page.edges {
                if window.oldest.is_some_and(|oldest| edge.value.position.millis() < oldest) {
                    break 'reading;
                }
                if skip > 0 {
                    skip -= 1;
                } else if edges.len() < window.take {
                    edges.push(edge);
                } else {
                    more = true;
                    break 'reading;
                }
            }
            if !page.more || is_past || after.is_none() {
                break;
            }
        }
        Ok(Windowed { rows: self.rows(list, &edges).await?, more })
    }

    pub(crate) async fn open_list(&self, call: &Call, side: Side, id: &UserId) -> Result<(Option<Key>, List)> {
        self.catch_up(call).await?;
        let viewer = self.viewer(call).await?;
        let owner = self.stored_user(id).await?;
        if !self.eyes(viewer).are_lists_open(&owner).await? {
            return Err(lists_hidden());
        }
        let list = match side {
            Side::Following => List::following(owner.key),
            Side::Followers => List::followers(owner.key),
        };
        Ok((viewer, list))
    }
}

/// The place that every row of this millisecond and of later ones is at or above.
pub(crate) const fn below(millis: Millis) -> Place {
    Place { position: Version::of_millis(millis), key: Key::MIN }
}
