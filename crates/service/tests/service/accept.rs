//! Accepting many requests: in the order of asking, and counted exactly.

use std::sync::Arc;

use entourage_memory as memory;
use entourage_model::{Clock, Key, ManualClock, Millis, Operation, Overwrite, Secret, UserId, UserPatch, Write};
use entourage_service::{Call, JobState, Limit, Limits, Rules, Service};
use entourage_store::{Identity, Store};

const STAR: Key = Key(1_000_000);
const START: Millis = Millis::from_since_2000(800_000_000_000);

struct World {
    store: Arc<dyn Store>,
    service: Service,
}

impl World {
    /// A private star, and so many others.
    async fn new(people: i64) -> Self {
        let identity = Identity { epoch: 1, secret: Secret::from_bytes([3; 32]) };
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::new(START));
        let store: Arc<dyn Store> = Arc::new(memory::Store::new(identity, Arc::clone(&clock)));
        let rules = Rules { following_max: None, limits: Limits::NONE, ..Rules::default() };
        let world = Self { service: Service::new(Arc::clone(&store), rules).with_clock(clock), store };
        let put = |key: Key, private| {
            let patch = UserPatch { private: Some(private), ..UserPatch::default() };
            Operation::PutUser { key, id: UserId::from(key.0), patch, overwrite: Overwrite::Keep }
        };
        world.commit([put(STAR, true)].into_iter().chain((0..people).map(|key| put(Key(key), false)))).await;
        world
    }

    async fn commit(&self, operations: impl Iterator<Item = Operation>) {
        for result in self.store.commit_all(operations.map(Write::from).collect()).await {
            result.unwrap();
        }
    }

    async fn ask(&self, followers: impl Iterator<Item = i64>) {
        let follow =
            |follower| Operation::Follow { follower: Key(follower), target: STAR, quiet: None, cap: None, park: false };
        self.commit(followers.map(follow)).await;
    }

    /// Newest first.
    async fn followers(&self) -> Vec<i64> {
        let (call, star) = (Call::default(), UserId::from(STAR.0));
        let (mut found, mut cursor) = (Vec::new(), None::<String>);
        loop {
            let page = self.service.graph.followers(&call, &star, cursor.as_deref(), Limit::DEFAULT).await.unwrap();
            found.extend(page.rows.iter().map(|row| row.id.as_number().unwrap()));
            cursor = page.next_cursor;
            if cursor.is_none() {
                return found;
            }
        }
    }

    async fn only_job(&self) -> (JobState, u64) {
        while self.service.jobs.work().await.unwrap() {}
        let call = Call { admin: true, ..Call::default() };
        let jobs = self.service.jobs.list(&call, None, Limit::DEFAULT).await.unwrap();
        let [job] = &jobs.rows[..] else { panic!("one job, not {:?}", jobs.rows) };
        (job.state, job.edges)
    }
}

#[tokio::test]
async fn the_order_of_the_list_is_the_order_of_asking() {
    for asked in [1, 999, 1_000, 1_001, 25_500] {
        let world = World::new(asked).await;
        world.ask(0..asked).await;
        world.service.jobs.accept_all(&Call::default(), &UserId::from(STAR.0)).await.unwrap();
        assert_eq!(world.only_job().await, (JobState::Done, asked as u64));
        assert!(world.followers().await.into_iter().eq((0..asked).rev()), "{asked} asked");
    }
}
