//! Opening, updating and closing cases, and showing them to administrators.

use entourage_model::{
    CaseMark, Code, Condition, Cursor, CursorScope, Error, Key, List, Millis, Operation, Place, Record, RecordId,
    Result, Selection, Space, Version,
};
use entourage_store::{StoreExt as _, Whose};

use super::{
    Abuse, Case, CaseKind, CaseState,
    case::{Document, Finding},
    index::Standing,
};
use crate::{Call, Limit, Receipt};

/// Beyond this many open cases no other one is opened: somebody has to look at them first.
pub const OPEN_CASES_MAX: usize = 10_000;
/// A case is written at most this often because of new evidence.
const UPDATE_EVERY_MILLIS: u64 = 60_000;
/// Closed cases are kept for 90 days.
const CLOSED_KEPT_MILLIS: u64 = 90 * 24 * 60 * 60 * 1_000;
/// Findings that wait for their case to be written again.
const WAITING_MAX: usize = 4_096;
const SCAN: usize = 200;
/// How often one change is tried again because somebody else wrote the same case.
const ROUNDS_MAX: u64 = 8;

#[derive(Clone, Debug, PartialEq)]
pub struct CasePage {
    pub rows: Vec<Case>,
    pub next_cursor: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CaseClosed {
    pub case: Case,
    /// It was open until now.
    pub changed: bool,
    pub receipt: Receipt,
}

/// Which cases are listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CaseFilter {
    pub state: Option<CaseState>,
    pub kind: Option<CaseKind>,
}

impl CaseFilter {
    fn shows(&self, document: &Document) -> bool {
        self.state.is_none_or(|state| state == document.state)
            && self.kind.is_none_or(|kind| kind == document.subject.kind)
    }

    /// A cursor belongs to its filter.
    fn scope(self) -> CursorScope {
        let state = self.state.map_or(0, |state| 1 + state as i64);
        let kind = self.kind.map_or(0, |kind| 1 + kind as i64);
        CursorScope { list: List::following(Key(state << 8 | kind)), selection: Selection::Cases, viewer: None }
    }
}

pub(super) fn put(id: Version, value: Option<Box<[u8]>>, condition: Condition) -> Operation {
    let (space, owner, id) = (Space::Case, Key::SERVER, RecordId::of_version(id));
    Operation::PutRecord { space, owner, id, value, condition, cap: None }
}

/// A case with its id. One that cannot be read must not stop the others: it is left out, said and counted.
fn readable(record: &Record) -> Option<(Version, Document)> {
    let id = record.id.version()?;
    match Document::read(record) {
        Ok(document) => Some((id, document)),
        Err(error) => {
            metrics::counter!("entourage_abuse_unreadable_total").increment(1);
            tracing::error!(case = id.bits(), %error, "a case of suspected abuse is left out");
            None
        }
    }
}

impl Abuse {
    /// Newest first.
    pub async fn list(&self, call: &Call, filter: CaseFilter, cursor: Option<&str>, limit: Limit) -> Result<CasePage> {
        call.must_be_admin()?;
        self.context.catch_up(call, Whose::NOBODY).await?;
        let scope = filter.scope();
        let after = cursor.map(|text| Cursor::decode(text, &self.context.sealer, &scope)).transpose()?;
        let mut after = after.map(|Cursor(place)| RecordId::of_version(place.position));
        let mut found: Vec<(Version, Version, Document)> = Vec::new();
        while found.len() <= limit.get() {
            let page = self.scan(after.as_ref(), SCAN).await?;
            let is_last = page.len() < SCAN;
            after = page.last().map(|record| record.id.clone());
            for record in page {
                let Some((id, document)) = readable(&record) else { continue };
                if filter.shows(&document) {
                    found.push((id, record.version, document));
                }
            }
            if is_last {
                break;
            }
        }
        let has_more = found.len() > limit.get();
        found.truncate(limit.get());
        let last = found.last().filter(|_| has_more).map(|(id, ..)| Place { position: *id, key: Key::SERVER });
        let next_cursor = last.map(|place| Cursor(place).encode(&self.context.sealer, &scope));
        let mut rows = Vec::with_capacity(found.len());
        for (id, updated, document) in found {
            rows.push(self.shown(id, updated, &document).await?);
        }
        Ok(CasePage { rows, next_cursor })
    }

    pub async fn get(&self, call: &Call, id: Version) -> Result<Case> {
        call.must_be_admin()?;
        self.context.catch_up(call, Whose::NOBODY).await?;
        let (record, document) = self.stored(id).await?;
        self.shown(id, record.version, &document).await
    }

    /// Dismisses an open case, or confirms it: nothing else is done to anybody but that pauses end.
    pub async fn close(&self, call: &Call, id: Version, state: CaseState) -> Result<CaseClosed> {
        call.must_be_admin()?;
        let mark = match state {
            CaseState::Dismissed => CaseMark::Dismissed,
            CaseState::Confirmed => CaseMark::Confirmed,
            CaseState::Open => return Err(Error::invalid("a case is dismissed or confirmed")),
        };
        for _ in 0..ROUNDS_MAX {
            let (record, mut document) = self.stored(id).await?;
            let was_open = document.state == CaseState::Open;
            if document.state == state {
                // Said again: nothing changes, and the caller gets a receipt.
                let value = Some(record.value.clone());
                let operation = put(id, value, Condition::Version(record.version));
                let (_, receipt) = self.context.writer.write(call, operation).await?;
                let case = self.shown(id, record.version, &document).await?;
                return Ok(CaseClosed { case, changed: false, receipt });
            }
            document.state = state;
            document.closed_at = Some(self.context.clock.now());
            let operation = put(id, Some(document.encode(mark)?), Condition::Version(record.version));
            match self.context.writer.write(call, operation).await {
                Err(error) if error.code() == Code::RequestInProgress && call.retry.is_none() => {}
                Err(error) => return Err(error),
                Ok((_, receipt)) => {
                    self.index.learn(id, receipt.version.millis(), &document);
                    self.findings.lock().remove(&document.subject);
                    metrics::counter!("entourage_abuse_cases_total", "kind" => document.subject.kind.as_str(), "state" => state.as_str())
                        .increment(1);
                    let (version, document) = self.release_all(id, receipt.version, document).await?;
                    let case = self.shown(id, version, &document).await?;
                    return Ok(CaseClosed { case, changed: was_open, receipt });
                }
            }
        }
        Err(Error::new(Code::RequestInProgress, "the case is being updated; try again"))
    }

    /// What a detector found becomes a case, or goes into the one there is. What cannot be written waits.
    pub(super) async fn found(&self, finding: Finding, is_final: bool) -> Result<()> {
        let (now, cool_down) = (self.context.clock.now(), self.context.rules.abuse.cool_down.as_millis() as u64);
        let written = match self.index.standing(&finding.subject, finding.at, now, cool_down) {
            Standing::CoolsDown => return Ok(()),
            Standing::None => self.open(&finding).await,
            // Events may be read twice.
            Standing::Open { last_seen, .. } if finding.at <= last_seen => return Ok(()),
            Standing::Open { case, written, .. } => {
                let age = now.since_2000().abs_diff(written.since_2000());
                if !is_final && age < UPDATE_EVERY_MILLIS {
                    self.wait(finding);
                    return Ok(());
                }
                self.update(case, &finding).await
            }
        };
        if written.is_err() {
            self.wait(finding);
        }
        written
    }

    fn wait(&self, finding: Finding) {
        let mut findings = self.findings.lock();
        if findings.len() < WAITING_MAX || findings.contains_key(&finding.subject) {
            findings.insert(finding.subject, finding);
        }
    }

    /// Writes what waits and is due, or all of it.
    pub(super) async fn flush(&self, is_final: bool) -> Result<()> {
        let mut waiting = std::mem::take(&mut *self.findings.lock()).into_values();
        while let Some(finding) = waiting.next() {
            if let Err(error) = self.found(finding, is_final).await {
                waiting.for_each(|finding| self.wait(finding));
                return Err(error);
            }
        }
        Ok(())
    }

    async fn open(&self, finding: &Finding) -> Result<()> {
        if self.index.open_cases() >= OPEN_CASES_MAX {
            metrics::counter!("entourage_abuse_refused_total").increment(1);
            return Ok(());
        }
        let users = self.users_of(finding).await?;
        let subject = finding.subject;
        let is_gone = |key: Option<Key>| key.is_some_and(|key| !users.contains_key(&key));
        if is_gone(subject.actor) || is_gone(subject.target) {
            return Ok(());
        }
        let mut document = Document::new(finding, &users);
        self.hold(&mut document, &users);
        let newest = finding.traces.iter().map(|trace| trace.version).max();
        let first = newest.unwrap_or_else(|| Version::of_millis(finding.at)).bits();
        // Servers of one store that found the same from the same events write the same record, and one of them does.
        for round in 0..ROUNDS_MAX {
            let id = Version::from_bits(first + subject.kind as u64 + round * CaseKind::ALL.len() as u64);
            let operation = put(id, Some(document.encode(CaseMark::Open)?), Condition::Absent);
            match self.context.writer.write_one(operation).await {
                Ok(outcome) => {
                    self.index.learn(id, outcome.version.millis(), &document);
                    metrics::counter!("entourage_abuse_cases_total", "kind" => subject.kind.as_str(), "state" => "open")
                        .increment(1);
                    tracing::info!(case = id.bits(), kind = subject.kind.as_str(), "a case of suspected abuse is open");
                    return self.pause_all(&document).await;
                }
                Err(error) if error.code() == Code::RequestInProgress => {
                    // A record that cannot be read keeps its id.
                    let Some((record, there)) = self.known(id).await? else { continue };
                    self.index.learn(id, record.version.millis(), &there);
                    if there.subject == subject {
                        return Ok(());
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn update(&self, id: Version, finding: &Finding) -> Result<()> {
        let users = self.users_of(finding).await?;
        for _ in 0..ROUNDS_MAX {
            let Some((record, mut document)) = self.known(id).await? else {
                self.index.forget(id);
                return Ok(());
            };
            if document.state != CaseState::Open {
                self.index.learn(id, record.version.millis(), &document);
                return Ok(());
            }
            document.merge(finding, &users);
            self.hold(&mut document, &users);
            let operation = put(id, Some(document.encode(CaseMark::Open)?), Condition::Version(record.version));
            match self.context.writer.write_one(operation).await {
                Err(error) if error.code() == Code::RequestInProgress => {}
                Err(error) => return Err(error),
                Ok(outcome) => {
                    self.index.learn(id, outcome.version.millis(), &document);
                    return self.pause_all(&document).await;
                }
            }
        }
        Ok(())
    }

    async fn users_of(&self, finding: &Finding) -> Result<hashbrown::HashMap<Key, entourage_model::User>> {
        let subject = [finding.subject.actor, finding.subject.target].into_iter().flatten();
        let mut keys: Vec<Key> = subject.chain(finding.actors.iter().chain(&finding.targets).copied()).collect();
        keys.sort_unstable();
        keys.dedup();
        self.context.users_by_key(&keys).await
    }

    /// What an administrator asks for by its id.
    pub(super) async fn stored(&self, id: Version) -> Result<(Record, Document)> {
        let record = self.record(id).await?;
        let record = record.ok_or_else(|| Error::new(Code::NotFound, "there is no such case"))?;
        let document = Document::read(&record)?;
        Ok((record, document))
    }

    /// `None`: there is none, or it cannot be read.
    pub(super) async fn known(&self, id: Version) -> Result<Option<(Record, Document)>> {
        let record = self.record(id).await?;
        Ok(record.and_then(|record| readable(&record).map(|(_, document)| (record, document))))
    }

    async fn record(&self, id: Version) -> Result<Option<Record>> {
        self.context.store.get_record(Space::Case, Key::SERVER, &RecordId::of_version(id)).await
    }

    async fn shown(&self, id: Version, updated: Version, document: &Document) -> Result<Case> {
        let traced = document.traces.iter().flat_map(|trace| [trace.follower, trace.target]);
        let mut keys: Vec<Key> = document.people().map(|person| person.key).chain(traced).collect();
        keys.sort_unstable();
        keys.dedup();
        let users = self.context.users_by_key(&keys).await?;
        Ok(document.shown(id, updated, &users))
    }

    pub(super) async fn scan(&self, after: Option<&RecordId>, limit: usize) -> Result<Vec<Record>> {
        let after = after.map_or(RecordId::BELOW_VERSIONS, RecordId::as_bytes);
        self.context.store.scan_records(Space::Case, Key::SERVER, Some(after), limit).await
    }

    /// Learns all cases that are kept.
    pub(super) async fn read_cases(&self) -> Result<()> {
        let mut after: Option<RecordId> = None;
        loop {
            let page = self.scan(after.as_ref(), SCAN).await?;
            for record in &page {
                if let Some((id, document)) = readable(record) {
                    self.index.learn(id, record.version.millis(), &document);
                }
            }
            match page.last() {
                Some(last) if page.len() == SCAN => after = Some(last.id.clone()),
                _ => return Ok(()),
            }
        }
    }

    /// Removes cases that were closed long ago.
    pub(super) async fn remove_old_cases(&self) -> Result<()> {
        let now = self.context.clock.now();
        let kept_since = Millis::from_since_2000(now.since_2000().saturating_sub(CLOSED_KEPT_MILLIS));
        for id in self.index.closed_before(kept_since) {
            self.context.writer.write_one(put(id, None, Condition::Any)).await?;
            self.index.forget(id);
        }
        Ok(())
    }
}
