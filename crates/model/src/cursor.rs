//! List cursors: encrypted, versioned, all of one length, and valid for one list seen by one viewer only.

use crate::{Code, Error, Key, List, Place, Plane, Result, Sealer, Side, Version};

const FORMAT: u8 = 2;
const PURPOSE: &[u8] = b"cursor";
/// Planes fit below.
const SELECTION_SHIFT: u8 = 4;

/// What is shown of a list: all of it, or a selection of its rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Selection {
    #[default]
    All,
    Mutuals,
    NotFollowingBack,
    /// Rows that are also in this user's list of the same side.
    CommonWith(Key),
    /// Rows that follow this user.
    FollowersOf(Key),
    /// Users by rank; the list is unused.
    Leaderboard,
    /// Members of a group of the list's user.
    Members(Version),
    /// The list user's ended follows.
    History,
    /// Jobs of the server.
    Jobs,
    /// Notifications: the place is a day, and which kinds of it were shown.
    Notifications,
    /// A user's feed.
    Feed,
    /// The feed of a group.
    GroupFeed(Version),
    /// The list user's posts.
    Posts,
    /// Cases of suspected abuse; the list's user is their filter.
    Cases,
}

/// Which list a cursor belongs to, what is shown of it, and its viewer (`None`: a service).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CursorScope {
    pub list: List,
    pub selection: Selection,
    pub viewer: Option<Key>,
}

/// Where a page continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor(pub Place);

impl Cursor {
    pub fn encode(&self, sealer: &Sealer, scope: &CursorScope) -> String {
        let mut payload = Vec::with_capacity(64);
        payload.push(FORMAT);
        payload.extend_from_slice(&scope_bytes(scope));
        payload.extend_from_slice(&self.0.position.bits().to_be_bytes());
        payload.extend_from_slice(&self.0.key.0.to_be_bytes());
        sealer.seal(PURPOSE, &payload)
    }

    pub fn decode(text: &str, sealer: &Sealer, scope: &CursorScope) -> Result<Self> {
        let refuse = |detail: &'static str| Error::new(Code::InvalidCursor, detail);
        let payload = sealer
            .open(PURPOSE, text)
            .ok_or_else(|| refuse("the cursor was not made by this store; start without one"))?;
        let (format, rest) = payload.split_first().ok_or_else(|| refuse("the cursor is empty"))?;
        if *format != FORMAT {
            return Err(refuse("the cursor has a format this version does not know; start without one"));
        }
        let scope_part = scope_bytes(scope);
        let place = rest
            .strip_prefix(scope_part.as_slice())
            .ok_or_else(|| refuse("the cursor belongs to another list or another viewer"))?;
        let (position, key) = place
            .split_first_chunk::<8>()
            .and_then(|(position, key)| Some((position, key.first_chunk::<8>()?)))
            .ok_or_else(|| refuse("the cursor is cut"))?;
        Ok(Self(Place {
            position: Version::from_bits(u64::from_be_bytes(*position)),
            key: Key(i64::from_be_bytes(*key)),
        }))
    }
}

fn scope_bytes(scope: &CursorScope) -> Vec<u8> {
    let (selection, other) = match scope.selection {
        Selection::All => (0, None),
        Selection::Mutuals => (1, None),
        Selection::NotFollowingBack => (2, None),
        Selection::CommonWith(other) => (3, Some(other)),
        Selection::FollowersOf(other) => (4, Some(other)),
        Selection::Leaderboard => (5, None),
        Selection::Members(group) => (6, Some(Key(group.bits() as i64))),
        Selection::History => (7, None),
        Selection::Jobs => (8, None),
        Selection::Notifications => (9, None),
        Selection::Feed => (10, None),
        Selection::GroupFeed(group) => (11, Some(Key(group.bits() as i64))),
        Selection::Posts => (12, None),
        Selection::Cases => (14, None),
    };
    let mut bytes = Vec::with_capacity(27);
    bytes.push(selection << SELECTION_SHIFT | scope.list.plane as u8);
    bytes.push(scope.list.side as u8);
    bytes.push(u8::from(scope.viewer.is_some()));
    bytes.extend_from_slice(&scope.list.user.0.to_be_bytes());
    bytes.extend_from_slice(&scope.viewer.unwrap_or_default().0.to_be_bytes());
    bytes.extend_from_slice(&other.unwrap_or_default().0.to_be_bytes());
    bytes
}

#[allow(dead_code, reason = "keeps the byte layout above in step with the enums")]
const LAYOUT: (u8, u8) = (Plane::Mute as u8, Side::Followers as u8);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Secret;

    fn sealer(seed: u8) -> Sealer {
        Sealer::new(&Secret::from_bytes([seed; 32]), 1)
    }

    fn scope(user: i64, side: Side) -> CursorScope {
        let list = List::new(Key(user), Plane::Follow, side);
        CursorScope { list, selection: Selection::All, viewer: None }
    }

    const CURSOR: Cursor = Cursor(Place { position: Version::from_bits(77), key: Key(-5) });

    #[test]
    fn reads_back_only_where_it_belongs() {
        let home = scope(1, Side::Followers);
        let text = CURSOR.encode(&sealer(1), &home);
        assert_eq!(Cursor::decode(&text, &sealer(1), &home).unwrap(), CURSOR);
        let viewer = CursorScope { viewer: Some(Key(0)), ..home };
        for (sealer, scope) in [
            (sealer(1), CursorScope { selection: Selection::Mutuals, ..home }),
            (sealer(1), scope(1, Side::Following)),
            (sealer(1), scope(2, Side::Followers)),
            (sealer(2), home),
            (sealer(1), viewer),
        ] {
            let error = Cursor::decode(&text, &sealer, &scope).unwrap_err();
            assert_eq!(error.code(), Code::InvalidCursor);
        }
    }

    #[test]
    fn selections_of_one_list_have_cursors_of_their_own() {
        let of = |selection| CursorScope { selection, ..scope(1, Side::Following) };
        let selections = [
            Selection::All,
            Selection::Mutuals,
            Selection::NotFollowingBack,
            Selection::CommonWith(Key(2)),
            Selection::CommonWith(Key(3)),
            Selection::FollowersOf(Key(2)),
            Selection::FollowersOf(Key(3)),
            Selection::Leaderboard,
            Selection::Members(Version::from_bits(2)),
            Selection::Members(Version::from_bits(3)),
            Selection::History,
            Selection::Jobs,
            Selection::Notifications,
        ];
        for made in selections {
            let text = CURSOR.encode(&sealer(1), &of(made));
            for used in selections {
                assert_eq!(Cursor::decode(&text, &sealer(1), &of(used)).is_ok(), made == used, "{made:?} as {used:?}");
            }
        }
    }

    #[test]
    fn all_cursors_have_one_length() {
        let viewers = [None, Some(Key(7))];
        let selections = [Selection::All, Selection::CommonWith(Key(2)), Selection::Members(Version::from_bits(3))];
        for (viewer, selection) in viewers.into_iter().zip(selections) {
            let scope = CursorScope { viewer, selection, ..scope(1, Side::Followers) };
            assert_eq!(CURSOR.encode(&sealer(1), &scope).len(), 98);
        }
    }

    #[test]
    fn an_unknown_format_is_refused() {
        let text = sealer(1).seal(PURPOSE, &[9; 44]);
        assert!(Cursor::decode(&text, &sealer(1), &scope(1, Side::Followers)).is_err());
    }

    #[test]
    fn a_token_is_not_a_cursor() {
        let text = crate::Token::new(1, crate::Watermark::at(crate::Sequence(5)), Version::ZERO).encode(&sealer(1));
        assert!(Cursor::decode(&text, &sealer(1), &scope(1, Side::Followers)).is_err());
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_refused() {
        let home = scope(1, Side::Followers);
        let text = CURSOR.encode(&sealer(1), &home);
        for at in 0..text.len() {
            for bit in 0..7 {
                let mut bytes = text.clone().into_bytes();
                bytes[at] ^= 1 << bit;
                let flipped = String::from_utf8(bytes).unwrap();
                assert!(Cursor::decode(&flipped, &sealer(1), &home).is_err(), "byte {at} bit {bit}");
            }
            assert!(Cursor::decode(&text[..at], &sealer(1), &home).is_err());
        }
    }

    proptest! {
        #[test]
        fn garbage_is_refused(text in ".{0,600}") {
            prop_assert!(Cursor::decode(&text, &sealer(1), &scope(1, Side::Followers)).is_err());
        }
    }
}
