//! Commands for a running server: one request each, printed as a table or as JSON.

mod abuse;
mod access;
mod connection;
mod edges;
mod erase;
mod events;
mod feed;
mod jobs;
mod lists;
mod paging;
mod posts;
mod servers;
mod sse;
mod stats;
mod suggest;
mod table;
mod users;
mod watch;

use clap::Subcommand;

pub(crate) use self::{
    access::{Access, Authorities, is_https, unreachable},
    connection::{Connection, part},
};

#[derive(Subcommand, Debug)]
pub(crate) enum Verb {
    /// Let one user follow another.
    Follow(edges::FollowArguments),
    /// Let one user unfollow another, or take a request back.
    Unfollow(edges::PairArguments),
    /// List who follows a user.
    Followers(lists::Arguments),
    /// List whom a user follows.
    Following(lists::Arguments),
    /// Ask whether one user follows others.
    Check(edges::ManyArguments),
    /// Show how one user stands to others.
    Relation(edges::ManyArguments),
    /// Let one user block another.
    Block(edges::PairArguments),
    /// Take a block back.
    Unblock(edges::PairArguments),
    /// Let a user write a post.
    Post(posts::Arguments),
    /// Show a user's feed, or what an operator can do about it.
    Feed(feed::Arguments),
    /// Show whom a user may want to follow, and why.
    Suggest(suggest::Arguments),
    /// Print the posts of a user's feed as they are written.
    Watch(watch::Arguments),
    /// Show or write a user.
    #[command(subcommand)]
    User(users::Verb),
    /// Erase a user for good, also offline in a data folder.
    Erase(erase::Arguments),
    /// List what changed, oldest first.
    Events(events::Arguments),
    /// List cases of suspected abuse, and decide about them.
    #[command(subcommand)]
    Abuse(abuse::Verb),
    /// List jobs and scheduled tasks, or run a task now.
    Jobs(jobs::Arguments),
    /// List the servers of the store, and which of them does what.
    Servers(servers::Arguments),
    /// Show how the server stands.
    Stats(stats::Arguments),
}

impl Verb {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        match self {
            Self::Follow(arguments) => edges::follow(arguments),
            Self::Unfollow(arguments) => edges::unfollow(arguments),
            Self::Followers(arguments) => lists::run(arguments, "followers"),
            Self::Following(arguments) => lists::run(arguments, "following"),
            Self::Check(arguments) => edges::check(arguments),
            Self::Relation(arguments) => edges::relation(arguments),
            Self::Block(arguments) => edges::block(arguments),
            Self::Unblock(arguments) => edges::unblock(arguments),
            Self::Post(arguments) => posts::run(arguments),
            Self::Feed(arguments) => feed::run(arguments),
            Self::Suggest(arguments) => suggest::run(arguments),
            Self::Watch(arguments) => watch::run(arguments),
            Self::User(verb) => users::run(verb),
            Self::Erase(arguments) => erase::run(arguments),
            Self::Events(arguments) => events::run(arguments),
            Self::Abuse(verb) => abuse::run(verb),
            Self::Jobs(arguments) => jobs::run(arguments),
            Self::Servers(arguments) => servers::run(arguments),
            Self::Stats(arguments) => stats::run(arguments),
        }
    }
}
