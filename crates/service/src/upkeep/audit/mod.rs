//! The audit: in the background everybody's lists are compared with their counts, and both directions with each other.
//! It reports and repairs nothing: the healer hears of edges, and a recount is asked for.

mod compare;
mod pace;

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use entourage_model::{Error, Millis, Result, User, UserId};
use entourage_store::{Recounted, Report, Sweep};
use metrics::{counter, gauge, histogram};
use parking_lot::Mutex;

use self::compare::Doubt;
pub(crate) use self::pace::Pace;
use crate::{Call, Upkeep, ids::user_not_found};

const USERS_CHUNK: usize = 10_000;
/// A doubt counts as drift only if it is the same at every look: between two reads of one look somebody may write.
const LOOKS: usize = 3;
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// How many drifts a report names; it counts all.
const DRIFTS_NAMED: usize = 100;
/// Above this part of all users an alert is raised.
const ALERT_ABOVE: f64 = 0.01;

/// Something of a user that does not agree with itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drift {
    pub user: UserId,
    /// `followers`, `following`, `requests` and so on.
    pub list: &'static str,
    /// `count`, `quiet_count`, `missing_mirror`, `different_mirror`.
    pub cause: &'static str,
    pub detail: String,
}

/// One pass over everybody.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AuditReport {
    pub started_at: Millis,
    pub finished_at: Millis,
    pub users: u64,
    pub edges: u64,
    /// Users with at least one drift.
    pub drifted: u64,
    /// Users whose lists changed at every look, so that nothing can be said of them.
    pub unsettled: u64,
    /// The first hundred.
    pub drifts: Vec<Drift>,
}

impl AuditReport {
    /// The part of users that drifted.
    pub fn drift_ratio(&self) -> f64 {
        if self.users == 0 { 0.0 } else { self.drifted as f64 / self.users as f64 }
    }

    /// More than 1 % of users drifted.
    pub fn is_alert(&self) -> bool {
        self.drift_ratio() > ALERT_ABOVE
    }
}

#[derive(Debug, Default)]
pub(crate) struct Auditor {
    last: Mutex<Option<AuditReport>>,
    /// How fast the next pass goes; `None` before the first, and while one runs.
    pace: Mutex<Option<Pace>>,
}

impl Upkeep {
    /// What the last whole pass found, if there was one.
    pub fn last_audit(&self, call: &Call) -> Result<Option<AuditReport>> {
        call.must_be_admin()?;
        Ok(self.auditor.last.lock().clone())
    }

    /// A whole pass, as fast as it goes.
    pub async fn audit(&self, call: &Call) -> Result<AuditReport> {
        call.must_be_admin()?;
        self.pass(&mut Pace::unlimited()).await
    }

    /// Compares everything with everything, as `entourage verify` does.
    pub async fn verify(&self, call: &Call) -> Result<Report> {
        call.must_be_admin()?;
        self.context.store.verify().await
    }

    /// Counts the lists of one user, or of everybody, and sets right what the counts say.
    pub async fn recount(&self, call: &Call, user: Option<&UserId>) -> Result<Recounted> {
        call.must_be_admin()?;
        let Some(maintenance) = &self.maintenance else {
            return Err(Error::invalid("this server's store has no counts beside its lists"));
        };
        let key = match user {
            Some(id) => Some(self.context.find_user(id).await?.ok_or_else(user_not_found)?.key),
            None => None,
        };
        let recounted = maintenance.recount(key).await?;
        if recounted.corrected > 0 {
            tracing::warn!(lists = recounted.corrected, "counts were set right");
        }
        Ok(recounted)
    }

    /// A whole pass beside requests, within the interval if it can be: it rests as much as the last one left it.
    pub(crate) async fn audit_within_interval(&self) -> Result<AuditReport> {
        let began = Instant::now();
        let known = self.auditor.pace.lock().take();
        let mut pace =
            known.unwrap_or_else(|| self.context.rules.audit_interval.map_or_else(Pace::unlimited, Pace::within));
        let result = self.pass(&mut pace).await;
        pace.next_pass();
        *self.auditor.pace.lock() = Some(pace);
        match &result {
            Ok(report) => say(report, began.elapsed()),
            Err(error) => tracing::warn!(code = error.code().as_str(), "the audit ended: {}", error.detail()),
        }
        result
    }

    async fn pass(&self, pace: &mut Pace) -> Result<AuditReport> {
        entourage_store::fail_point("audit");
        let mut report = AuditReport { started_at: self.context.clock.now(), ..AuditReport::default() };
        let audited = counter!("entourage_audit_users_total");
        let mut sweep = Sweep::default();
        while let Some(users) = sweep.next(&*self.context.store, USERS_CHUNK).await? {
            for user in users {
                self.audit_user(&user, &mut report, pace).await?;
                audited.increment(1);
            }
        }
        report.finished_at = self.context.clock.now();
        *self.auditor.last.lock() = Some(report.clone());
        Ok(report)
    }

    async fn audit_user(&self, user: &User, report: &mut AuditReport, pace: &mut Pace) -> Result<()> {
        report.users += 1;
        let (mut doubts, edges) = self.compare_user(user.key, pace).await?;
        report.edges += edges;
        let doubted = !doubts.is_empty();
        for _ in 1..LOOKS {
            if doubts.is_empty() {
                break;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
            let (again, _) = self.compare_user(user.key, pace).await?;
            doubts = doubts.intersection(&again).cloned().collect::<BTreeSet<Doubt>>();
        }
        // Who was erased meanwhile has nothing that could be wrong.
        if doubted && self.context.find_user(&user.id).await?.is_none() {
            return Ok(());
        }
        self.healer.tell(doubts.iter().filter_map(Doubt::edge));
        report.drifted += u64::from(!doubts.is_empty());
        report.unsettled += u64::from(doubted && doubts.is_empty());
        let room = DRIFTS_NAMED.saturating_sub(report.drifts.len());
        report.drifts.extend(doubts.into_iter().take(room).map(|doubt| doubt.drift(user.id.clone())));
        Ok(())
    }
}

fn say(report: &AuditReport, took: Duration) {
    let AuditReport { users, edges, drifted, unsettled, .. } = *report;
    histogram!("entourage_audit_seconds").record(took.as_secs_f64());
    gauge!("entourage_audit_drifted_users").set(drifted as f64);
    gauge!("entourage_audit_alert").set(f64::from(u8::from(report.is_alert())));
    for drift in &report.drifts {
        let Drift { user, list, cause, detail } = drift;
        tracing::error!(user = user.as_str(), list, cause, "the store does not agree with itself: {detail}");
    }
    if report.is_alert() {
        tracing::error!(users, drifted, "more than 1 % of users drifted; run `entourage reconcile`");
    } else {
        tracing::info!(users, edges, drifted, unsettled, "everybody was audited");
    }
}
