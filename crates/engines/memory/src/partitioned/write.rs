//! A write: reads from other homes, is decided and committed in one, and takes its second half to the other.

use entourage_model::{
    Error, Half, Judgement, Key, Kind, Operation, Outcome, RecordId, Result, Space, User, Version, View, Write,
};
use smallvec::SmallVec;

use super::{
    bug::Bug,
    engine::{Engine, NOT_WRITTEN, Sent, unknown},
    home::{End, Outgoing},
    inbound::Link,
    look::Others,
    pace::Step,
};

/// The outcome of a write, and the progress of the homes that it concerned.
#[derive(Debug)]
pub struct Written {
    pub outcome: Outcome,
    pub ends: SmallVec<[End; 2]>,
}

impl Written {
    pub fn new(outcome: Outcome, end: End) -> Self {
        Self { outcome, ends: SmallVec::from_iter([end]) }
    }
}

/// The outcome of the second half of a block.
#[derive(Debug)]
enum Mirrored {
    Taken(Box<Outcome>, End),
    /// The target's home has it, or something newer.
    Known(End),
    /// The target does not exist.
    Refused,
}

impl Engine {
    pub async fn write(&self, write: &Write) -> Result<Outcome> {
        let mut written = match write.operation {
            Operation::Block { actor, target }
            | Operation::Unblock { actor, target }
            | Operation::ImportBlock { actor, target, .. } => self.write_block(write, actor, target).await?,
            Operation::EraseEdges { key, .. } => self.erase_edges(write, key).await?,
            _ => self.write_one(write).await?,
        };
        // Of both, changed or not: otherwise a watermark would reveal private facts.
        if !self.has(Bug::TokenTells) || !written.outcome.changes.is_empty() {
            let (one, other) = write.operation.parties();
            for key in [Some(one), other].into_iter().flatten() {
                let home = self.home_of(key);
                if !written.ends.iter().any(|known| known.home == home) {
                    written.ends.push(self.home(key).lock().end());
                }
            }
        }
        // A home may lose it before it is answered.
        let watermark = self.watermark(&written.ends).ok_or_else(unknown)?;
        Ok(Outcome { watermark, ..written.outcome })
    }

    /// In the home of one user.
    async fn write_one(&self, write: &Write) -> Result<Written> {
        let at = match (&write.operation, &write.idempotency, &write.fence, &write.progress) {
            // It belongs to nobody: it may lie anywhere, and must not all lie in one place.
            (Operation::Nothing, Some(key), None, None) => {
                Key(i64::from_be_bytes(*key.scope.first_chunk().unwrap_or(&[0; 8])))
            }
            (operation, ..) => operation.home(),
        };
        let (index, home) = (self.home_of(at), self.home(at));
        loop {
            let others = self.look(write, index).await;
            self.pace.pause(Step::Decide).await;
            let (prepared, end) = {
                let mut home = home.lock();
                (home.prepare(at, self.now(index), write, others)?, home.end())
            };
            if !prepared.writes() {
                return Ok(Written::new(prepared.outcome, end));
            }
            match self.send(prepared).await {
                Sent::Made(outcome, end) => return Ok(Written::new(*outcome, end)),
                Sent::Outrun => {}
                Sent::NotMade => return Err(Error::unavailable(NOT_WRITTEN)),
                Sent::Unknown => return Err(unknown()),
            }
        }
    }

    /// What a decision in `home` needs from other homes.
    pub async fn look(&self, write: &Write, home: usize) -> Others {
        self.pace.pause(Step::Look).await;
        let mut others = Others::default();
        if let Some(key) = &write.idempotency {
            let now = Version::of_millis(self.now(home));
            let elsewhere = self.homes.iter().enumerate().filter(|(index, _)| *index != home);
            others.reply = elsewhere.filter_map(|(_, home)| home.lock().out.idempotency(&key.scope, now)).next();
        }
        match write.operation {
            Operation::Follow { target, .. }
            | Operation::Import { target, .. }
            | Operation::ImportRequest { target, .. }
            | Operation::Block { target, .. }
            | Operation::ImportBlock { target, .. }
            | Operation::Mute { target, .. }
            | Operation::ImportMute { target, .. }
            | Operation::Accept { target, .. }
            | Operation::Reject { target, .. }
            | Operation::Release { target, .. }
            | Operation::RemoveFollower { target, .. } => others.users.push((target, self.user(target))),
            Operation::GroupMember { owner, member, .. } => {
                let home = self.home(member).lock();
                others.users.push((member, home.out.user(member)));
                others.edges.push(((member, owner), home.out.edge(Kind::Follow, member, owner)));
            }
            Operation::ImportPost { at, id, .. } => {
                let start = id.unwrap_or(Version::of_millis(at));
                let end = id.unwrap_or(Version::of_millis(at.plus(1)));
                for (home, server) in self.homes.iter().zip(self.buckets().all()) {
                    let (first, last) = (RecordId::of_post_author(start), RecordId::of_post_author(end));
                    let home = home.lock();
                    others
                        .authors
                        .extend(home.out.record(Space::PostAuthor, server, &first).map(|one| (one.id.clone(), one)));
                    let all = home.out.documents().scan(Space::PostAuthor, server, Some(first.as_bytes()));
                    others.authors.extend(all.take_while(|one| one.id <= last).map(|one| (one.id.clone(), one)));
                }
            }
            _ => {}
        }
        others
    }

    pub fn user(&self, key: Key) -> Option<User> {
        self.home(key).lock().out.user(key)
    }

    /// In both homes, and acked after both: a caller that finds the block existing, or replays an earlier reply, also
    /// waits until the target's home has it.
    async fn write_block(&self, write: &Write, actor: Key, target: Key) -> Result<Written> {
        let mut written = self.write_one(write).await?;
        let is_new = !written.outcome.changes.is_empty();
        if self.has(Bug::AcksBlockEarly) || (!is_new && self.has(Bug::ReplaySkipsSecondHalf)) {
            return Ok(written);
        }
        let lineage = self.lineage().0;
        let from = self.home(actor).lock().block(actor, target, lineage);
        if let Some(from) = from
            && let Some((parted, end)) = self.mirror(from, self.has(Bug::TakesLateBlock)).await?
        {
            // What a block of another write ended is not part of this one.
            if is_new && written.outcome.version == from.half.after.version {
                written.outcome.changes.extend(parted.into_iter().flat_map(|outcome| outcome.changes));
            }
            written.ends.push(end);
        }
        match self.is_ahead_of_truth((Kind::Block, actor, target)) {
            true => Err(unknown()),
            false => Ok(written),
        }
    }

    /// Whether the target's home has a newer edge than its own: that one went back, and has not republished yet.
    fn is_ahead_of_truth(&self, link: Link) -> bool {
        let truth = self.home(link.1).lock().out.known_edge(link).map(|truth| truth.version);
        self.home(link.2).lock().inbound.known(link).map(|known| known.version) > truth
    }

    /// As a replay must find it: a block that a home made at this version is complete.
    pub async fn finish_block(&self, index: usize, version: Version) -> Result<()> {
        let Some(home) = self.homes.get(index) else { return Ok(()) };
        let lineage = self.lineage().0;
        let from = {
            let home = home.lock();
            let pair = home.unmirrored.iter().find(|(_, made)| **made == version).map(|(pair, _)| *pair);
            pair.and_then(|(actor, target)| home.block(actor, target, lineage))
        };
        if let Some(from) = from {
            self.mirror(from, false).await?;
        }
        Ok(())
    }

    /// Brings a block, or its end, into the home of its target, and notes that in the actor's. Returns what it ended
    /// there, and the progress of that home; `None` if the target does not exist.
    pub async fn mirror(&self, from: Outgoing, is_forced: bool) -> Result<Option<(Option<Outcome>, End)>> {
        let half = &from.half;
        let (parted, end) = match self.mirror_once(from, is_forced).await? {
            Mirrored::Taken(outcome, end) => (Some(*outcome), end),
            Mirrored::Known(end) => (None, end),
            Mirrored::Refused => {
                self.correct(half, Judgement::TakeBack, None).await?;
                return Ok(None);
            }
        };
        self.pace.pause(Step::Mirror).await;
        self.home(half.follower).lock().set_mirrored(half);
        Ok(Some((parted, end)))
    }

    async fn mirror_once(&self, from: Outgoing, is_forced: bool) -> Result<Mirrored> {
        let half = from.half;
        let (index, home) = (self.home_of(half.target), self.home(half.target));
        loop {
            self.pace.pause(Step::Mirror).await;
            if self.is_lost(&from) {
                return Err(unknown());
            }
            let prepared = {
                let mut home = home.lock();
                let known = home.inbound.known((half.kind, half.follower, half.target)).map(|known| known.version);
                let known = known.filter(|_| !is_forced);
                // What is known stays until the edges of an erased user go, even if it is published again.
                let is_new = known.is_none_or(|known| known < half.after.version);
                if is_new && half.judge(home.out.user(half.target).as_ref()) == Judgement::TakeBack {
                    return Ok(Mirrored::Refused);
                }
                let (now, floor) = (self.now(index), half.after.version);
                home.prepare_half(half.target, now, floor, Others::default(), |look, version| {
                    Ok(half.mirror(look, known, version))
                })?
            };
            let Some(prepared) = prepared else {
                // An applier may have been faster.
                let home = home.lock();
                let (parted, end) = (home.parted(half.follower, half.target, half.after.version), home.end());
                return Ok(match parted {
                    Some(outcome) => Mirrored::Taken(Box::new(outcome), end),
                    None => Mirrored::Known(end),
                });
            };
            match self.send(prepared.mirroring(from, is_forced)).await {
                Sent::Made(outcome, end) => return Ok(Mirrored::Taken(outcome, end)),
                Sent::Outrun | Sent::NotMade => {}
                Sent::Unknown => return Err(unknown()),
            }
        }
    }

    /// Carries out a judgement about a half in the home of its follower.
    pub async fn correct(&self, half: &Half, judgement: Judgement, target: Option<User>) -> Result<Option<Outcome>> {
        let (index, home) = (self.home_of(half.follower), self.home(half.follower));
        #[cfg(feature = "planted")]
        self.corrected.lock().insert(((half.kind, half.follower, half.target), half.after.version));
        loop {
            self.pace.pause(Step::Correct).await;
            let others = target.clone().map_or_else(Others::default, |user| Others::of_user(half.target, Some(user)));
            let (now, floor) = (self.now(index), target.as_ref().map(|user| user.version).unwrap_or_default());
            let prepared = home.lock().prepare_half(half.follower, now, floor, others, |look, version| {
                half.correct(look, judgement, version).map(Some)
            })?;
            let Some(prepared) = prepared.filter(|prepared| prepared.writes()) else { return Ok(None) };
            match self.send(prepared).await {
                Sent::Made(outcome, _) => return Ok(Some(*outcome)),
                Sent::Outrun | Sent::NotMade => {}
                Sent::Unknown => return Err(unknown()),
            }
        }
    }
}
