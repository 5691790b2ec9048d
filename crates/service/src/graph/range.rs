//! Parts of a list by rank or by time.

use entourage_model::{Key, List, Millis, Place, Result, Side, UserId, Version};
use entourage_store::Whose;

use crate::{Call, Graph, UserRow, visibility::lists_hidden};

/// How many rows one look at the store takes at most.
pub(crate) const CHUNK: usize = 1_000;

/// From which end a list is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    NewestFirst,
    OldestFirst,
}

impl Order {
    #[must_use]
    pub const fn reversed(self) -> Self {
        match self {
            Self::NewestFirst => Self::OldestFirst,
            Self::OldestFirst => Self::NewestFirst,
        }
    }
}

/// Which rows of a list: those not newer and not older, without the first `skip`, at most `take`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub newest: Option<Millis>,
    pub oldest: Option<Millis>,
    pub skip: usize,
    pub take: usize,
    pub order: Order,
}

impl Window {
    pub const ALL: Self = Self { newest: None, oldest: None, skip: 0, take: usize::MAX, order: Order::NewestFirst };
}

/// What was found in a window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Windowed {
    pub rows: Vec<UserRow>,
    /// The window has more rows than were to be taken.
    pub more: bool,
}

impl Graph {
    pub async fn window(&self, call: &Call, side: Side, id: &UserId, window: Window) -> Result<Windowed> {
        entourage_store::fail_point("window");
        let (viewer, list) = self.open_list(call, side, id).await?;
        let visible = self.context.visible_list(viewer, list).await?.in_order(window.order);
        let mut visibility = self.context.visibility(viewer);
        let mut after = match window.order {
            Order::NewestFirst => window.newest.map(|newest| below(newest.plus(1))),
            Order::OldestFirst => window.oldest.and_then(above),
        };
        let is_past = |millis: Millis| match window.order {
            Order::NewestFirst => window.oldest.is_some_and(|oldest| millis < oldest),
            Order::OldestFirst => window.newest.is_some_and(|newest| millis > newest),
        };
        let (mut skip, mut rows): (_, Vec<UserRow>) = (window.skip, Vec::new());
        let mut more = false;
        'reading: loop {
            // One more than is taken tells whether there is more.
            let wanted = (window.take - rows.len()).saturating_add(skip).saturating_add(1);
            let page = self.context.scan_shown(&mut visibility, &visible, after, wanted.min(CHUNK)).await?;
            after = page.edges.last().map(|edge| list.place(edge));
            // Who is being erased has no rank.
            for row in self.context.rows(list, &page.edges).await? {
                if is_past(row.created_at) {
                    break 'reading;
                }
                if skip > 0 {
                    skip -= 1;
                } else if rows.len() < window.take {
                    rows.push(row);
                } else {
                    more = true;
                    break 'reading;
                }
            }
            if !page.more || after.is_none() {
                break;
            }
        }
        Ok(Windowed { rows, more })
    }

    pub(crate) async fn open_list(&self, call: &Call, side: Side, id: &UserId) -> Result<(Option<Key>, List)> {
        self.context.catch_up(call, Whose::Of(&[self.context.keys.key(id)])).await?;
        let viewer = self.context.viewer(call).await?;
        let owner = self.context.stored_user(id).await?;
        if !self.context.visibility(viewer).are_lists_open(&owner).await? {
            return Err(lists_hidden());
        }
        Ok((viewer, side.list(owner.key)))
    }
}

/// The place that every row of this millisecond and of later ones is above; `None` where that is every row.
fn above(millis: Millis) -> Option<Place> {
    let before = Version::of_millis(millis).bits().checked_sub(1)?;
    Some(Place { position: Version::from_bits(before), key: Key::MAX })
}

/// The place that every row of this millisecond and of later ones is at or above.
pub(crate) const fn below(millis: Millis) -> Place {
    Place { position: Version::of_millis(millis), key: Key::MIN }
}
