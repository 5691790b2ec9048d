//! The service itself as a front of feeds.

use std::{collections::HashMap, sync::Arc};

use entourage_model::{Clock, Code, Error, ExternalId, ManualClock, Millis, UserId, UserPatch, Version};
use entourage_service::{
    Actor, Call, FeedPage, FeedRules, Limit, Limits, Pin, Rules, Service,
    import::{Form, Import, Source},
};
use entourage_store::{Store, SystemClock};

use super::{Act, Asked, CELEBRITY_FOLLOWERS, FeedFront, INBOX_CAP, Id, PULL_ABOVE, Row, body};

const MINUTE: u64 = 60_000;

pub struct ServiceFront {
    store: Arc<dyn Store>,
    clock: Arc<ManualClock>,
    pub service: Arc<Service>,
    /// Whether fan-out runs concurrently.
    runs: bool,
    background: Option<tokio::task::JoinHandle<()>>,
    groups: HashMap<Id, Version>,
}

pub fn id(number: Id) -> UserId {
    UserId::from(number)
}

pub fn rules() -> Rules {
    let feed = FeedRules {
        celebrity_followers: CELEBRITY_FOLLOWERS,
        inbox_cap: INBOX_CAP,
        pull_above_following: Some(PULL_ABOVE),
        ..FeedRules::default()
    };
    Rules { limits: Limits::NONE, audit_interval: None, feed, ..Rules::default() }
}

impl ServiceFront {
    pub fn new(store: Arc<dyn Store>, runs: bool) -> Self {
        let whole = SystemClock.now().since_2000() / 1_000 * 1_000;
        let clock = Arc::new(ManualClock::new(Millis::from_since_2000(whole)));
        let service = Self::start(&store, &clock);
        let mut front = Self { store, clock, service, runs, background: None, groups: HashMap::new() };
        front.run();
        front
    }

    fn start(store: &Arc<dyn Store>, clock: &Arc<ManualClock>) -> Arc<Service> {
        Arc::new(Service::new(Arc::clone(store), rules()).with_clock(Arc::clone(clock) as _))
    }

    fn run(&mut self) {
        let service = Arc::clone(&self.service);
        self.background = self.runs.then(|| tokio::spawn(async move { service.run().await }));
    }

    pub async fn stop(&mut self) {
        self.service.end_streams();
        if let Some(background) = self.background.take() {
            background.await.unwrap();
        }
    }

    async fn try_act(&mut self, act: Act, post: Option<u64>) -> entourage_model::Result<Option<u64>> {
        let (call, service) = (Call::default(), Arc::clone(&self.service));
        let post = post.map(Version::from_bits);
        match act {
            Act::Put(user) => drop(service.graph.put_user(&call, id(user), UserPatch::default()).await?),
            Act::Follow(a, b) => drop(service.graph.follow(&call, &id(a), &id(b), false).await?),
            Act::Unfollow(a, b) => drop(service.graph.unfollow(&call, &id(a), &id(b)).await?),
            Act::Block(a, b) => drop(service.graph.block(&call, &id(a), &id(b)).await?),
            Act::Unblock(a, b) => drop(service.graph.unblock(&call, &id(a), &id(b)).await?),
            Act::Mute(a, b, minutes) => {
                let until = minutes.map(|minutes| self.clock.now().plus(minutes * MINUTE));
                drop(service.graph.mute(&call, &id(a), &id(b), until).await?);
            }
            Act::Unmute(a, b) => drop(service.graph.unmute(&call, &id(a), &id(b)).await?),
            Act::Wait(minutes) => self.clock.advance(minutes * MINUTE),
            Act::Post(author, number) => {
                let call = Call { actor: Actor::User(id(author)), ..call };
                return Ok(Some(service.feeds.create_post(&call, &body(number)).await?.post.id.bits()));
            }
            Act::Import(author, number, _, before) => {
                return import(&service, &id(author), number, post, before).await.map(Some);
            }
            Act::Replace(_, number) => drop(service.feeds.replace_post(&call, post.unwrap(), &body(number)).await?),
            Act::Delete(_) => drop(service.feeds.delete_post(&call, post.unwrap()).await?),
            Act::Pin(author, mode) => {
                drop(service.feeds.pin_fanout(&call, &id(author), Pin::parse(mode).unwrap()).await?)
            }
            Act::Member(owner, member, present) => {
                let group = match self.groups.get(&owner) {
                    Some(group) => *group,
                    None => service.graph.create_group(&call, &id(owner), "friends").await?.group.id,
                };
                self.groups.insert(owner, group);
                if present {
                    drop(service.graph.add_member(&call, &id(owner), group, &id(member)).await?);
                } else {
                    drop(service.graph.remove_member(&call, &id(owner), group, &id(member)).await?);
                }
            }
            Act::Evict(reader) => match reader.map(id) {
                Some(reader) if service.graph.get_user(&call, &reader).await.is_err() => {}
                reader => service.feeds.clear_feeds(&call, reader.as_ref()).await?,
            },
            Act::Deliver => service.feeds.deliver_all().await?,
            Act::Erase(user) => {
                drop(service.jobs.erase(&call, &id(user)).await?);
                self.groups.remove(&user);
            }
            Act::Work => while service.jobs.work().await? {},
            Act::Restart => {
                self.stop().await;
                self.service = Self::start(&self.store, &self.clock);
                self.run();
            }
        }
        Ok(None)
    }
}

/// Writes a post into a file and imports it, with a time this many milliseconds before another; returns its id.
pub async fn import(
    service: &Arc<Service>,
    author: &UserId,
    number: u32,
    other: Option<Version>,
    before: u64,
) -> entourage_model::Result<u64> {
    let now = SystemClock.now().to_unix() - 1;
    let at = other.map_or(now, |other| other.millis().to_unix()).min(now) - before as i64;
    let name = format!("{number}-{:016x}", rand::random::<u64>());
    let line = format!(
        r#"{{"type":"post","author":"{author}","created_at":{at},"external_id":"{name}","body":{}}}"#,
        body(number)
    );
    let file = std::env::temp_dir().join(format!("entourage-post-{name}"));
    std::fs::write(&file, line).unwrap();
    let import = Import {
        sources: vec![Source::File(file.clone())],
        // The service's clock is not the store's.
        form: Form { clamps_times: true, ..Form::default() },
        create_users: false,
        following_max: None,
        now: SystemClock.now(),
    };
    let done = import.run(&service.transfer, None, None, |_| {}).await;
    std::fs::remove_file(&file).unwrap();
    let tally = done?.total();
    if tally.posts_created != 1 {
        return Err(Error::new(Code::ActorNotFound, format!("{tally:?}")));
    }
    let name = ExternalId::new(&name)?;
    let found = service.feeds.posts_named(&Call::default(), author, &name).await?;
    Ok(found.rows[0].id.bits())
}

impl FeedFront for ServiceFront {
    async fn act(&mut self, act: Act, post: Option<u64>) -> Result<Option<u64>, String> {
        self.try_act(act, post).await.map_err(|error| format!("{}: {}", error.code().as_str(), error.detail()))
    }

    async fn page(
        &self,
        asked: Asked,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<Row>, Option<String>), String> {
        let limit = Limit::parse(Some(&limit.to_string())).unwrap();
        let call = Call { actor: Actor::User(id(asked.reader())), ..Call::default() };
        let page = match asked {
            Asked::Feed(reader) => self.service.feeds.feed(&call, &id(reader), cursor, limit).await,
            Asked::Group(reader) => match self.groups.get(&reader) {
                Some(group) => self.service.feeds.group_feed(&call, &id(reader), *group, cursor, limit).await,
                None => Ok(FeedPage { rows: Vec::new(), next_cursor: None, is_partial: false }),
            },
        };
        let page = page.map_err(|error| format!("{}: {}", error.code().as_str(), error.detail()))?;
        assert!(!page.is_partial);
        let row = |row: entourage_service::FeedRow| {
            (row.post.id.bits(), row.post.author.as_str().parse().unwrap(), String::from(row.post.body))
        };
        Ok((page.rows.into_iter().map(row).collect(), page.next_cursor))
    }
}
