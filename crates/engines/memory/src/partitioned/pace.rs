//! The schedule of the steps of writes, relays and appliers, and the fate of each commit sent to a home.

use async_trait::async_trait;

/// The next step. Between any two of these others may write, and the process may end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    /// Reads from another home.
    Look,
    /// Reads its own home and decides.
    Decide,
    /// Commits the decision, if nothing has changed.
    Commit,
    /// Finds the outcome of an unanswered commit.
    Doubt,
    /// Takes a block, or its end, to the home of its target.
    Mirror,
    /// Publishes halves.
    Publish,
    /// Notes that they were published.
    Advance,
    /// Reads published halves.
    Read,
    /// Carries out a judgement in the follower's home.
    Correct,
    /// Changes a list and its total.
    Apply,
}

/// The fate of one commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Answered,
    /// Done, but the answer is lost.
    Unanswered,
    /// In flight for longer than anybody waits: it may still be done.
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
