//! Abuse through the service, on a clock that the test moves: what is found, what is not, and what is done about it.

mod cases;
mod large;
mod quota;
mod restart;
mod scenarios;
mod servers;
mod surge;
mod worlds;

use std::{path::PathBuf, sync::Arc};

use entourage_memory as memory;
use entourage_model::{Code, ManualClock, Millis, Secret, UserId, UserPatch};
use entourage_service::{AbuseRules, Call, Case, CaseFilter, CaseKind, CaseState, Limit, Limits, Rules, Service};
use entourage_store::{Identity, Store};

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const START: u64 = 800_000_000_000;

struct World {
    service: Service,
    clock: Arc<ManualClock>,
}

fn id(text: impl ToString) -> UserId {
    UserId::try_from(text.to_string().as_str()).unwrap()
}

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(Millis::from_since_2000(START)))
}

fn memory(clock: &Arc<ManualClock>) -> Arc<dyn Store> {
    let identity = Identity { epoch: 1, secret: Secret::from_bytes([1; 32]) };
    Arc::new(memory::Store::new(identity, Arc::clone(clock) as _))
}

fn rules(abuse: AbuseRules) -> Rules {
    Rules { limits: Limits::NONE, audit_interval: None, following_max: None, abuse, ..Rules::default() }
}

impl World {
    async fn new() -> Self {
        Self::with(AbuseRules::default()).await
    }

    async fn with(abuse: AbuseRules) -> Self {
        let clock = clock();
        Self::over(memory(&clock), clock, abuse).await
    }

    /// Looks for abuse from here on.
    async fn over(store: Arc<dyn Store>, clock: Arc<ManualClock>, abuse: AbuseRules) -> Self {
        let service = Service::new(store, rules(abuse)).with_clock(Arc::clone(&clock) as _);
        let world = Self { service, clock };
        world.detect().await;
        world
    }

    async fn detect(&self) {
        self.service.abuse.detect().await.unwrap();
    }

    /// Registered so long ago.
    async fn user(&self, name: impl ToString, age: u64) {
        self.named(name, age, None).await;
    }

    async fn named(&self, user: impl ToString, age: u64, name: Option<&str>) {
        let registered_at = Some(Millis::from_since_2000(self.clock_now().saturating_sub(age)));
        let patch = UserPatch { registered_at, name: Some(name.map(Into::into)), ..UserPatch::default() };
        self.service.graph.put_user(&Call::default(), id(user), patch).await.unwrap();
    }

    fn clock_now(&self) -> u64 {
        entourage_model::Clock::now(&*self.clock).since_2000()
    }

    async fn follow(&self, follower: impl ToString, target: impl ToString) -> Result<(), Code> {
        let done = self.service.graph.follow(&Call::default(), &id(follower), &id(target), false).await;
        done.map(drop).map_err(|error| error.code())
    }

    async fn unfollow(&self, follower: impl ToString, target: impl ToString) {
        self.service.graph.unfollow(&Call::default(), &id(follower), &id(target)).await.unwrap();
    }

    async fn list(&self, state: Option<CaseState>, kind: Option<CaseKind>) -> Vec<Case> {
        let (filter, limit) = (CaseFilter { state, kind }, Limit::parse(Some("200")).unwrap());
        let (mut cases, mut cursor) = (Vec::new(), None::<String>);
        loop {
            let page = self.service.abuse.list(&Call::default(), filter, cursor.as_deref(), limit).await.unwrap();
            cases.extend(page.rows);
            cursor = page.next_cursor;
            if cursor.is_none() {
                return cases;
            }
        }
    }

    /// Everything that was found, by kind.
    async fn kinds(&self) -> Vec<CaseKind> {
        self.detect().await;
        let mut kinds: Vec<CaseKind> = self.list(None, None).await.iter().map(|case| case.kind).collect();
        kinds.sort_unstable();
        kinds
    }

    async fn only_case(&self) -> Case {
        self.detect().await;
        let mut cases = self.list(None, None).await;
        let found: Vec<CaseKind> = cases.iter().map(|case| case.kind).collect();
        assert_eq!(cases.len(), 1, "{found:?}");
        cases.pop().unwrap()
    }

    /// Lets this time pass in equal steps, one for each call of `step`.
    async fn over_time(&self, span: u64, steps: u64, step: impl AsyncFn(u64)) {
        for number in 0..steps {
            step(number).await;
            self.clock.advance(span / steps.max(1));
        }
    }
}

fn ids(users: &[entourage_service::CaseUser]) -> Vec<String> {
    users.iter().map(|user| user.id.as_ref().map_or_else(String::new, UserId::to_string)).collect()
}

fn figure(case: &Case, name: &str) -> f64 {
    case.figures.iter().find(|(known, _)| &**known == name).unwrap_or_else(|| panic!("no {name}: {case:?}")).1
}
