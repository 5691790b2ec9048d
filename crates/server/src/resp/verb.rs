//! What a command does, apart from its name.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    As,
    Auth,
    Client,
    Command,
    Config,
    Discard,
    Echo,
    Exec,
    Exists,
    Expire,
    Feed,
    Follow,
    Get,
    Hello,
    Help,
    Info,
    List,
    MGet,
    Multi,
    Ping,
    Quit,
    Relation,
    Reset,
    SAdd,
    SCard,
    SInter,
    SInterCard,
    SIsMember,
    SMIsMember,
    SMembers,
    SRem,
    SScan,
    Select,
    Token,
    Ttl,
    Type,
    Unfollow,
    Unwatch,
    Watch,
    ZCard,
    ZInter,
    ZInterCard,
    ZRange,
    ZRangeByScore,
    ZRevRange,
    ZRevRangeByScore,
    ZScore,
}

impl Verb {
    /// Whether its first word says how many keys follow.
    pub(super) const fn counts_its_keys(self) -> bool {
        matches!(self, Self::SInterCard | Self::ZInter | Self::ZInterCard)
    }
}
