//! Lineage: which writes a home has lost for good; nothing of them counts any more.

use entourage_model::Sequence;

use super::home::End;

/// A home continued from an earlier state: what it had committed after `last` is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fork {
    pub home: usize,
    pub last: Sequence,
    /// How many commits it had made until then, including those without an event.
    pub commits: u64,
}

/// Every fork of every home, oldest first. A lineage is their number.
#[derive(Clone, Debug, Default)]
pub struct Forks(Vec<Fork>);

impl Forks {
    pub fn lineage(&self) -> u64 {
        self.0.len() as u64
    }

    #[cfg(feature = "planted")]
    pub fn add(&mut self, fork: Fork) {
        self.0.push(fork);
    }

    /// Whether a home has lost some of what it had committed at a moment.
    pub fn lost_of(&self, end: &End) -> bool {
        let since = self.0.iter().skip(usize::try_from(end.lineage).unwrap_or(usize::MAX));
        since.filter(|fork| fork.home == end.home).any(|fork| fork.commits < end.commits)
    }

    /// Whether a home has lost what it committed as `sequence` in that lineage; then what is left below it.
    pub fn lost(&self, lineage: u64, home: usize, sequence: Sequence) -> Option<Sequence> {
        let since = self.0.iter().skip(usize::try_from(lineage).unwrap_or(usize::MAX));
        since.filter(|fork| fork.home == home && fork.last < sequence).map(|fork| fork.last).min()
    }
}

#[cfg(all(test, feature = "planted"))]
mod tests {
    use super::*;

    #[test]
    fn what_lies_above_a_fork_of_its_home_is_lost() {
        let mut forks = Forks::default();
        let fork = |home, last| Fork { home, last: Sequence(last), commits: last };
        forks.add(fork(1, 10));
        forks.add(fork(0, 3));
        forks.add(fork(1, 7));
        let lost = |lineage, home, sequence| forks.lost(lineage, home, Sequence(sequence)).map(|last| last.0);
        assert_eq!(forks.lineage(), 3);
        assert_eq!([lost(0, 1, 7), lost(0, 1, 8), lost(0, 1, 11)], [None, Some(7), Some(7)]);
        assert_eq!([lost(1, 1, 11), lost(3, 1, 11)], [Some(7), None]);
        assert_eq!([lost(0, 0, 3), lost(0, 0, 4), lost(2, 0, 4)], [None, Some(3), None]);
        assert_eq!(lost(0, 2, 100), None);
        let end = |lineage, home, commits| End { home, last: Sequence::ZERO, lineage, commits };
        assert!(forks.lost_of(&end(0, 1, 8)) && forks.lost_of(&end(2, 1, 8)));
        assert!(!forks.lost_of(&end(0, 1, 7)) && !forks.lost_of(&end(3, 1, 8)) && !forks.lost_of(&end(0, 2, 8)));
    }
}
