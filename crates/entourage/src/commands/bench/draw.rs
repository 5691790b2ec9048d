//! The next request, drawn from a seed, so that two runs send the same.

use std::{borrow::Cow, path::Path};

use anyhow::{Context, bail, ensure};
use rand::{RngExt as _, rngs::SmallRng};

use super::Workload;

/// One request, independent of the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Question<'a> {
    Check {
        follower: Cow<'a, str>,
        target: Cow<'a, str>,
    },
    Follow {
        follower: Cow<'a, str>,
        target: Cow<'a, str>,
    },
    Unfollow {
        follower: Cow<'a, str>,
        target: Cow<'a, str>,
    },
    Followers(Cow<'a, str>),
    Following(Cow<'a, str>),
    Counts(Cow<'a, str>),
    /// The first page of a feed.
    Feed(Cow<'a, str>),
    Suggestions(Cow<'a, str>),
    /// The words of a RESP command.
    Command(Vec<Cow<'a, str>>),
}

/// Names of the kinds of requests, by number.
pub(super) const NAMES: [&str; 9] =
    ["check", "follow", "unfollow", "followers", "following", "counts", "command", "feed", "suggestions"];

impl Question<'_> {
    pub(super) const fn number(&self) -> usize {
        match self {
            Self::Check { .. } => 0,
            Self::Follow { .. } => 1,
            Self::Unfollow { .. } => 2,
            Self::Followers(_) => 3,
            Self::Following(_) => 4,
            Self::Counts(_) => 5,
            Self::Command(_) => 6,
            Self::Feed(_) => 7,
            Self::Suggestions(_) => 8,
        }
    }
}

/// Everybody there is.
#[derive(Debug)]
pub(super) enum Ids {
    Numbers(u64),
    Listed(Vec<String>),
}

impl Ids {
    pub(super) fn new(users: u64, file: Option<&Path>) -> anyhow::Result<Self> {
        let Some(file) = file else {
            ensure!(users > 1, "there are at least two users");
            return Ok(Self::Numbers(users));
        };
        let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
        let mut ids: Vec<String> = text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
        ids.sort_unstable();
        ids.dedup();
        ensure!(ids.len() > 1, "{} names fewer than two users", file.display());
        Ok(Self::Listed(ids))
    }

    pub(super) fn count(&self) -> u64 {
        match self {
            Self::Numbers(count) => *count,
            Self::Listed(ids) => ids.len() as u64,
        }
    }

    pub(super) fn get(&self, index: u64) -> Cow<'_, str> {
        match self {
            Self::Numbers(_) => Cow::Owned(index.to_string()),
            Self::Listed(ids) => ids.get(index as usize).map_or(Cow::Borrowed(""), |id| Cow::Borrowed(id)),
        }
    }
}

#[derive(Debug)]
pub(super) struct Draw {
    pub(super) workload: Workload,
    pub(super) command: Option<Template>,
    pub(super) negative: u8,
    pub(super) target: String,
    /// Follows that are there.
    pub(super) known: Vec<(String, String)>,
    pub(super) ids: Ids,
}

impl Draw {
    /// Whether some requests need existing follows.
    pub(super) fn wants_known(&self) -> bool {
        let checks = self
            .command
            .as_ref()
            .map_or(matches!(self.workload, Workload::Checks | Workload::Mixed), Template::names_a_check);
        checks && self.negative < 100
    }

    pub(super) fn next<'a>(&'a self, random: &mut SmallRng) -> Question<'a> {
        if let Some(template) = &self.command {
            return Question::Command(template.fill(self, random));
        }
        match self.workload {
            Workload::Checks => self.check(random),
            Workload::Storm => Question::Follow {
                follower: self.anybody_but(&self.target, random),
                target: Cow::Borrowed(&self.target),
            },
            Workload::Follows => self.follow(random),
            Workload::Pages if random.random() => Question::Followers(self.anybody(random)),
            Workload::Pages => Question::Following(self.anybody(random)),
            Workload::Mixed => self.mixed(random),
            Workload::Feeds => Question::Feed(self.anybody(random)),
            Workload::Suggestions => Question::Suggestions(self.anybody(random)),
        }
    }

    /// Of a hundred operations LinkBench has 51 on ranges of links, 5 counts, 13 reads of a node, 3 deletions, 17
    /// links added or changed, and 11 writes of nodes, which are reads of counts here.
    fn mixed<'a>(&'a self, random: &mut SmallRng) -> Question<'a> {
        match random.random_range(0..100) {
            0..26 => Question::Following(self.anybody(random)),
            26..51 => Question::Followers(self.anybody(random)),
            51..69 => Question::Counts(self.anybody(random)),
            69..80 => self.check(random),
            80..97 => self.follow(random),
            _ => {
                let (follower, target) = self.pair(random);
                Question::Unfollow { follower, target }
            }
        }
    }

    fn check<'a>(&'a self, random: &mut SmallRng) -> Question<'a> {
        let (follower, target) = self.pair(random);
        Question::Check { follower, target }
    }

    fn follow<'a>(&'a self, random: &mut SmallRng) -> Question<'a> {
        let follower = self.anybody(random);
        let target = self.anybody_but(&follower, random);
        Question::Follow { follower, target }
    }

    fn anybody<'a>(&'a self, random: &mut SmallRng) -> Cow<'a, str> {
        self.ids.get(random.random_range(0..self.ids.count()))
    }

    fn anybody_but<'a>(&'a self, one: &str, random: &mut SmallRng) -> Cow<'a, str> {
        loop {
            // There are at least two users.
            let other = self.anybody(random);
            if other != one {
                return other;
            }
        }
    }

    /// A pair that mostly does not follow each other.
    fn pair<'a>(&'a self, random: &mut SmallRng) -> (Cow<'a, str>, Cow<'a, str>) {
        if !self.known.is_empty() && random.random_range(0..100) >= self.negative {
            let (follower, target) = &self.known[random.random_range(0..self.known.len())];
            return (Cow::Borrowed(follower), Cow::Borrowed(target));
        }
        (self.anybody(random), self.anybody(random))
    }
}

/// A command with placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Template(Vec<Word>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Word {
    /// Text and placeholders in turn.
    Parts(Vec<Part>),
    Targets(usize),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Follower,
    Target,
    User,
    /// Anybody but the user before.
    Other,
}

impl Template {
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        let words: Vec<Word> = text.split_whitespace().map(Word::parse).collect::<anyhow::Result<_>>()?;
        ensure!(!words.is_empty(), "the command has no word");
        Ok(Self(words))
    }

    fn names_a_check(&self) -> bool {
        let names = |word: &Word| matches!(word, Word::Parts(parts) if parts.contains(&Part::Target));
        self.0.iter().any(names)
    }

    fn fill<'a>(&'a self, draw: &'a Draw, random: &mut SmallRng) -> Vec<Cow<'a, str>> {
        let (follower, target) = draw.pair(random);
        let mut words = Vec::with_capacity(self.0.len());
        let mut user = Cow::Borrowed("");
        for word in &self.0 {
            match word {
                Word::Targets(count) => words.extend((0..*count).map(|_| draw.anybody(random))),
                Word::Parts(parts) => match parts.as_slice() {
                    [Part::Text(text)] => words.push(Cow::Borrowed(text.as_str())),
                    parts => words.push(Cow::Owned(
                        parts
                            .iter()
                            .map(|part| match part {
                                Part::Text(text) => Cow::Borrowed(text.as_str()),
                                Part::Follower => follower.clone(),
                                Part::Target => target.clone(),
                                Part::User => {
                                    user = draw.anybody(random);
                                    user.clone()
                                }
                                Part::Other => draw.anybody_but(&user, random),
                            })
                            .collect(),
                    )),
                },
            }
        }
        words
    }
}

impl Word {
    fn parse(text: &str) -> anyhow::Result<Self> {
        if let Some(count) = text.strip_prefix("{targets:").and_then(|rest| rest.strip_suffix('}')) {
            return Ok(Self::Targets(count.parse().with_context(|| format!("{text}: how many?"))?));
        }
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once('{') {
            if !before.is_empty() {
                parts.push(Part::Text(before.to_owned()));
            }
            let (name, after) = behind.split_once('}').with_context(|| format!("{text}: a brace is not closed"))?;
            parts.push(match name {
                "follower" => Part::Follower,
                "target" => Part::Target,
                "user" => Part::User,
                "other" => Part::Other,
                wrong => bail!("{{{wrong}}} is none of {{follower}}, {{target}}, {{user}}, {{other}}, {{targets:N}}"),
            });
            rest = after;
        }
        if !rest.is_empty() || parts.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        Ok(Self::Parts(parts))
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;

    use super::*;

    fn draw(command: Option<&str>, workload: Workload) -> Draw {
        Draw {
            workload,
            command: command.map(|text| Template::parse(text).unwrap()),
            negative: 80,
            target: "0".to_owned(),
            known: vec![("a".to_owned(), "b".to_owned())],
            ids: Ids::Numbers(100),
        }
    }

    #[test]
    fn one_in_five_checks_is_a_follow_that_is_there() {
        let (draw, mut random) = (draw(None, Workload::Checks), SmallRng::seed_from_u64(7));
        let is_known =
            |question: &Question<'_>| matches!(question, Question::Check { follower, .. } if follower == "a");
        let known = (0..10_000).filter(|_| is_known(&draw.next(&mut random))).count();
        assert!((1_800..2_200).contains(&known), "{known}");
    }

    #[test]
    fn the_same_seed_asks_the_same_and_nobody_follows_themselves() {
        let draw = draw(None, Workload::Mixed);
        let [mut one, mut other] = [1, 1].map(SmallRng::seed_from_u64);
        for _ in 0..2_000 {
            let question = draw.next(&mut one);
            assert_eq!(question, draw.next(&mut other));
            if let Question::Follow { follower, target } = question {
                assert_ne!(follower, target);
            }
        }
    }

    #[test]
    fn a_command_is_filled_where_it_says() {
        let draw = draw(Some("SMISMEMBER following:{user} x {targets:3} {follower}-{target}"), Workload::Checks);
        let Question::Command(words) = draw.next(&mut SmallRng::seed_from_u64(3)) else { panic!("a command") };
        assert_eq!(words.len(), 7);
        assert!(words[0] == "SMISMEMBER" && words[1].starts_with("following:") && words[2] == "x");
        assert!(words[3].parse::<u64>().unwrap() < 100 && words[6].contains('-'));
        assert!(draw.wants_known());
        let two = self::draw(Some("{user} {other}"), Workload::Checks);
        for seed in 0..500 {
            let Question::Command(words) = two.next(&mut SmallRng::seed_from_u64(seed)) else { panic!("a command") };
            assert_ne!(words[0], words[1]);
        }
        for wrong in ["", "GET {who}", "GET {user"] {
            assert!(Template::parse(wrong).is_err(), "{wrong}");
        }
    }
}
