//! Which column holds what: the names that a header may use, and what the rows of a file are about.

/// What a column can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Follower,
    Target,
    CreatedAt,
    Quiet,
    Id,
    Name,
    AvatarUrl,
    Private,
    HideLists,
    RegisteredAt,
    Requester,
    Blocker,
    Blocked,
    Muter,
    Muted,
    ExpiresAt,
    Owner,
    Group,
    Member,
    Author,
    Body,
    ExternalId,
    EditedAt,
    User,
    Suggested,
    Score,
}

/// The first name of each is the one that exports use; the others are those of REST answers and of public data sets.
const NAMES: [(Field, &[&str]); 26] = [
    (Field::Follower, &["follower", "follower_id", "source", "from", "src", "id_1", "id1", "node_1", "fromnodeid"]),
    (
        Field::Target,
        &["target", "target_id", "followee", "followee_id", "to", "dst", "dest", "id_2", "id2", "node_2", "tonodeid"],
    ),
    (Field::CreatedAt, &["created_at", "timestamp", "time"]),
    (Field::Quiet, &["quiet"]),
    (Field::Id, &["id"]),
    (Field::Name, &["name"]),
    (Field::AvatarUrl, &["avatar_url"]),
    (Field::Private, &["private"]),
    (Field::HideLists, &["hide_lists"]),
    (Field::RegisteredAt, &["registered_at"]),
    (Field::Requester, &["requester"]),
    (Field::Blocker, &["blocker"]),
    (Field::Blocked, &["blocked"]),
    (Field::Muter, &["muter"]),
    (Field::Muted, &["muted"]),
    (Field::ExpiresAt, &["expires_at"]),
    (Field::Owner, &["owner"]),
    (Field::Group, &["group"]),
    (Field::Member, &["member"]),
    (Field::Author, &["author"]),
    (Field::Body, &["body"]),
    (Field::ExternalId, &["external_id"]),
    (Field::EditedAt, &["edited_at"]),
    (Field::User, &["user", "user_id"]),
    (Field::Suggested, &["suggested", "suggested_id"]),
    (Field::Score, &["score"]),
];

/// What each row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    Follow,
    Request,
    Block,
    Mute,
    GroupMember,
    Group,
    Post,
    Suggestion,
    User,
}

impl Subject {
    /// By the `type` of an object.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "user" => Self::User,
            "follow" => Self::Follow,
            "request" => Self::Request,
            "block" => Self::Block,
            "mute" => Self::Mute,
            "group" => Self::Group,
            "group_member" => Self::GroupMember,
            "post" => Self::Post,
            "suggestion" => Self::Suggestion,
            _ => return None,
        })
    }

    /// The fields without which there is no such row. Of two that fit the earlier one is meant.
    const NEEDS: [(Self, &[Field]); 9] = [
        (Self::Follow, &[Field::Follower, Field::Target]),
        (Self::Request, &[Field::Requester, Field::Target]),
        (Self::Block, &[Field::Blocker, Field::Blocked]),
        (Self::Mute, &[Field::Muter, Field::Muted]),
        (Self::GroupMember, &[Field::Owner, Field::Group, Field::Member]),
        (Self::Group, &[Field::Owner, Field::Name]),
        (Self::Post, &[Field::Author, Field::Body]),
        (Self::Suggestion, &[Field::User, Field::Suggested]),
        (Self::User, &[Field::Id]),
    ];
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Columns {
    pub(super) subject: Subject,
    /// By field.
    places: [Option<usize>; NAMES.len()],
    /// How many columns are named.
    pub(super) width: usize,
}

impl Columns {
    /// What these names say; `None` when they describe no row. Names that say nothing are passed over.
    pub(super) fn named<'a>(names: impl Iterator<Item = &'a str>) -> Option<Self> {
        let names: Vec<String> = names.map(|name| name.trim().trim_matches('"').trim().to_ascii_lowercase()).collect();
        let place = |known: &[&str]| names.iter().position(|name| known.contains(&name.as_str()));
        let places = NAMES.map(|(_, known)| place(known));
        let has = |field: &Field| places.get(*field as usize).is_some_and(Option::is_some);
        let (subject, _) = Subject::NEEDS.into_iter().find(|(_, needs)| needs.iter().all(has))?;
        Some(Self { subject, places, width: names.len() })
    }

    /// Those of follows, as exports order them.
    pub(super) fn of_follows() -> Self {
        Self::ordered(Subject::Follow, &[Field::Follower, Field::Target, Field::CreatedAt, Field::Quiet])
    }

    /// Those of users, as exports order them.
    pub(super) fn of_users() -> Self {
        let fields = [Field::Id, Field::Name, Field::AvatarUrl, Field::Private, Field::HideLists, Field::RegisteredAt];
        Self::ordered(Subject::User, &fields)
    }

    /// Those of suggestions.
    pub(super) fn of_suggestions() -> Self {
        Self::ordered(Subject::Suggestion, &[Field::User, Field::Suggested, Field::Score])
    }

    fn ordered(subject: Subject, fields: &[Field]) -> Self {
        let place = |wanted: Field| fields.iter().position(|field| *field == wanted);
        Self { subject, places: NAMES.map(|(field, _)| place(field)), width: fields.len() }
    }

    pub(super) fn place(&self, field: Field) -> Option<usize> {
        self.places.get(field as usize).copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(header: &str) -> Option<(Subject, [Option<usize>; 4])> {
        let columns = Columns::named(header.split(','))?;
        let fields = [Field::Follower, Field::Target, Field::CreatedAt, Field::Quiet];
        Some((columns.subject, fields.map(|field| columns.place(field))))
    }

    #[test]
    fn fields_stand_where_their_numbers_say() {
        for (index, (field, names)) in NAMES.iter().enumerate() {
            assert_eq!(*field as usize, index);
            assert!(!names.is_empty());
        }
    }

    #[test]
    fn headers_of_public_data_sets_are_known() {
        let pair = Some((Subject::Follow, [Some(0), Some(1), None, None]));
        for header in ["follower,target", "source,target", "id_1,id_2", "from,to", "FromNodeId,ToNodeId", "SRC, dst"] {
            assert_eq!(places(header), pair, "{header}");
        }
        let rated = Some((Subject::Follow, [Some(0), Some(1), Some(3), None]));
        assert_eq!(places("SOURCE,TARGET,RATING,TIME"), rated);
        assert_eq!(places("id,source,target,weight"), Some((Subject::Follow, [Some(1), Some(2), None, None])));
        assert_eq!(places("id,name,source"), Some((Subject::User, [Some(2), None, None, None])));
        assert_eq!(places("user,friend"), None);
        let subjects = [
            ("requester,target", Subject::Request),
            ("blocker,blocked,created_at", Subject::Block),
            ("muter,muted,expires_at", Subject::Mute),
            ("owner,group,member", Subject::GroupMember),
            ("owner,id,name,created_at", Subject::Group),
            ("author,id,created_at,body", Subject::Post),
            ("user,suggested,score", Subject::Suggestion),
            ("id,name", Subject::User),
        ];
        for (header, subject) in subjects {
            assert_eq!(Columns::named(header.split(',')).map(|columns| columns.subject), Some(subject), "{header}");
        }
    }
}
