//! The people, their requests and their reads.

pub type Id = &'static str;

/// Numbers and names in turn, so that both signs of keys are in every list. The last one is never created.
pub const PEOPLE: [Id; 9] = ["1", "ann", "2", "bob", "3", "cleo", "44", "dora", "nobody"];

#[derive(Clone, Debug)]
pub enum Write {
    Put {
        user: Id,
        private: bool,
        hide_lists: bool,
    },
    Follow {
        follower: Id,
        target: Id,
        /// Not set: the current value stays.
        quiet: Option<bool>,
    },
    Unfollow {
        follower: Id,
        target: Id,
    },
    Accept {
        target: Id,
        follower: Id,
    },
    Reject {
        target: Id,
        follower: Id,
    },
    RemoveFollower {
        target: Id,
        follower: Id,
    },
    Block {
        user: Id,
        target: Id,
    },
    Unblock {
        user: Id,
        target: Id,
    },
    /// For this many minutes, or for good.
    Mute {
        user: Id,
        target: Id,
        minutes: Option<u64>,
    },
    Unmute {
        user: Id,
        target: Id,
    },
    /// Follows and unfollows only.
    Batch(Vec<Write>),
    Erase {
        user: Id,
    },
    AcceptAll {
        user: Id,
    },
    Suspend {
        user: Id,
        suspended: bool,
    },
    CreateGroup {
        owner: Id,
        name: Id,
    },
    /// Groups are identified by the number of newer ones.
    RenameGroup {
        owner: Id,
        nth: usize,
        name: Id,
    },
    DeleteGroup {
        owner: Id,
        nth: usize,
    },
    Member {
        owner: Id,
        nth: usize,
        member: Id,
        present: bool,
    },
    /// Never suggests somebody again.
    Dismiss {
        user: Id,
        target: Id,
    },
    /// Runs all jobs to their end.
    Work,
    /// Lets time pass where it matters.
    Wait {
        minutes: u64,
    },
}

#[derive(Clone, Debug)]
pub enum Read {
    Followers(Id),
    Following(Id),
    Requests(Id),
    Blocks(Id),
    Mutes(Id),
    Mutuals(Id),
    NotFollowingBack(Id),
    CommonFollowing(Id, Id),
    CommonFollowers(Id, Id),
    FollowersYouKnow(Id),
    Distance(Id, Id),
    Relationships(Id, Vec<Id>),
    /// The viewer's own, with the profile.
    Guarantees(Id),
    IsFollowing(Id, Id),
    Edge(Id, Id),
    Leaderboard,
    History(Id),
    Groups(Id),
    Members(Id, usize),
    Suggestions(Id),
}

/// The words of a relationship, in one order.
#[derive(Clone, Copy, Debug, Default)]
pub struct Relation {
    pub unknown: bool,
    pub following: bool,
    pub followed_by: bool,
    pub mutual: bool,
    pub requested: bool,
    pub blocking: bool,
    pub blocked_by: bool,
    pub muting: bool,
    pub quiet: bool,
    pub since: bool,
}

impl Relation {
    pub fn words(&self) -> String {
        let all = [
            (self.unknown, "unknown"),
            (self.following, "following"),
            (self.followed_by, "followed_by"),
            (self.mutual, "mutual"),
            (self.requested, "requested"),
            (self.blocking, "blocking"),
            (self.blocked_by, "blocked_by"),
            (self.muting, "muting"),
            (self.quiet, "quiet"),
            (self.since, "since"),
        ];
        let words: Vec<&str> = all.into_iter().filter(|(is, _)| *is).map(|(_, word)| word).collect();
        format!("({})", words.join(" "))
    }
}

pub fn list_words(ids: &[String], total: Option<u64>) -> String {
    let total = total.map(|total| format!(" of {total}")).unwrap_or_default();
    format!("200 [{}]{total}", ids.join(" "))
}

/// Users of equal rank may be in any order.
pub fn board_words(mut rows: Vec<(u64, String)>) -> String {
    rows.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let rows: Vec<String> = rows.into_iter().map(|(followers, id)| format!("{id}:{followers}")).collect();
    format!("200 [{}]", rows.join(" "))
}

/// Members are in an order of the store's own.
pub fn members_words(mut ids: Vec<String>) -> String {
    ids.sort_unstable();
    format!("200 [{}]", ids.join(" "))
}

/// One suggestion: who, why, how many, and who is named for it.
pub fn suggestion_words(id: &str, reason: &str, common: u64, named: &[&str]) -> String {
    format!("{id}:{reason}:{common}:{}", named.join("+"))
}

/// Whether a reply is what is expected. Rows with `|` between them may be in any order: that of keys, which are hashed.
pub fn agrees(expected: &str, said: &str) -> bool {
    if !expected.contains('|') {
        return expected == said;
    }
    let rows = |text: &str| -> Option<Vec<String>> {
        let inner = text.strip_prefix("200 [")?.strip_suffix(']')?;
        Some(inner.split_whitespace().map(str::to_owned).collect())
    };
    let (Some(groups), Some(said)) = (rows(expected), rows(said)) else { return false };
    let mut said = said.into_iter();
    let fits = groups.iter().all(|group| {
        let mut wanted: Vec<String> = group.split('|').map(str::to_owned).collect();
        let mut found: Vec<String> = said.by_ref().take(wanted.len()).collect();
        wanted.sort_unstable();
        found.sort_unstable();
        wanted == found
    });
    fits && said.next().is_none()
}
