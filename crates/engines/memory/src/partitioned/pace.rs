//! When the next step of a write, a relay or an applier is taken, and what becomes of a commit that is sent to a home.

use async_trait::async_trait;

/// What is about to happen. Between any two of these others may write, and the process may end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    /// Reads what lies in another home.
    Look,
    /// Reads the own home and decides.
    Decide,
    /// Commits what was decided, if nothing has changed.
    Commit,
    /// Finds out what became of a commit that was not answered.
    Doubt,
    /// Takes a block, or its end, to the home of its target.
    Mirror,
    /// Publishes halves.
    Publish,
    /// Notes that they were published.
    Advance,
    /// Reads published halves.
    Read,
    /// Carries a judgement out in the follower's home.
    Correct,
    /// Changes a list and its total.
    Apply,
}

/// What becomes of one commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Answered,
    /// Done, but the answer is lost.
    Unanswered,
    /// On its way for longer than anybody waits: it may still be done.
    Late,
    Lost,
}

#[async_trait]
pub trait Pace: Send + Sync + 'static {
    async fn pause(&self, step: Step);

    fn fate(&self) -> Fate;
}

/// One step after the other, and every commit is answered.
#[derive(Clone, Copy, Debug)]
pub struct Straight;

#[async_trait]
impl Pace for Straight {
    async fn pause(&self, _step: Step) {}

    fn fate(&self) -> Fate {
        Fate::Answered
    }
}
