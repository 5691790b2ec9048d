//! A store that is away: memory answers with its age, up to a bound, and only then.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use entourage_model::{Code, EdgeValue, Error, Key, Kind, Result, Watermark};
use entourage_store::{Answer, Covered, Named, Progress, Store, StoreExt as _, Whose};
use entourage_testkit::cached::{by_hand, clock, done, follow, follows, memory, on_clock, peek, people};
use entourage_testkit::conformance::{
    block_on,
    hooked::{Hooked, Hooks},
};

/// A store that fails at once, and says so or not.
#[derive(Default)]
struct Fails {
    fails: AtomicBool,
    says_so: AtomicBool,
}

impl Fails {
    fn refuse(&self) -> Result<()> {
        if self.fails.load(Ordering::SeqCst) { Err(Error::unavailable("away")) } else { Ok(()) }
    }

    fn set(&self, fails: bool, says_so: bool) {
        self.fails.store(fails, Ordering::SeqCst);
        self.says_so.store(says_so, Ordering::SeqCst);
    }
}

#[async_trait]
impl Hooks for Fails {
    fn peek_all(&self, _: &dyn Store, _: Kind, _: &[(Key, Key)], answers: &mut [Answer]) {
        answers.fill(Answer::Unknown);
    }

    fn is_away(&self, _: &dyn Store) -> bool {
        self.says_so.load(Ordering::SeqCst)
    }

    async fn get_edges(&self, inner: &dyn Store, kind: Kind, pairs: &[(Key, Key)]) -> Result<Vec<Option<EdgeValue>>> {
        self.refuse()?;
        inner.get_edges(kind, pairs).await
    }

    async fn progress(&self, inner: &dyn Store, partition: u16) -> Result<Progress> {
        self.refuse()?;
        inner.progress(partition).await
    }

    async fn covers(&self, inner: &dyn Store, watermark: &Watermark, whose: Whose<'_>) -> Result<Covered> {
        self.refuse()?;
        inner.covers(watermark, whose).await
    }
}

fn ask(store: &dyn Store, pairs: &[(i64, i64)]) -> (Option<u64>, Vec<Answer>) {
    let ids: Vec<[String; 2]> = pairs.iter().map(|(one, other)| [one.to_string(), other.to_string()]).collect();
    let mut named = Vec::new();
    for (&(one, other), [first, second]) in pairs.iter().zip(&ids) {
        let named_as = |key: i64, id| Named { key: Key(key), id };
        named.push((named_as(one, first.as_bytes()), named_as(other, second.as_bytes())));
    }
    let mut answers = vec![Answer::Unknown; pairs.len()];
    let age = store.peek_away(Kind::Follow, &named, &mut answers);
    (age.map(|age| age.as_millis() as u64), answers)
}

#[test]
fn memory_answers_for_a_store_that_is_away_and_says_how_old_it_is() {
    block_on(async {
        let (store, clock) = (Arc::new(Hooked::new(memory(), Fails::default())), clock());
        people(&*store, 1..=4).await;
        let layer = on_clock(Arc::clone(&store) as _, by_hand(), &clock).await;
        done(&layer, follow(1, 2)).await;
        layer.catch_up().await.unwrap();
        assert!(follows(&layer, 1, 2).await && !follows(&layer, 1, 3).await);
        let pairs = [(1, 2), (1, 3), (4, 1)];
        assert_eq!(ask(&layer, &pairs).0, None, "the store answers");
        store.hooks.set(true, false);
        clock.advance(2_001);
        assert_eq!(peek(&layer, 1, 2), Answer::Unknown);
        assert_eq!(ask(&layer, &pairs).0, None, "it fails, and nobody knows why");
        assert!(layer.get_edges(Kind::Follow, &[(Key(1), Key(2))]).await.is_err());
        store.hooks.set(true, true);
        let known = vec![Answer::Yes, Answer::No, Answer::Unknown];
        assert_eq!(ask(&layer, &pairs), (Some(2_001), known.clone()), "what is not held is unknown");
        assert_eq!(peek(&layer, 1, 2), Answer::Unknown, "to whom it may not be old it is not said");
        layer.catch_up().await.unwrap_err();
        clock.advance(57_999);
        assert_eq!(ask(&layer, &pairs), (Some(60_000), known));
        clock.advance(1);
        assert_eq!(ask(&layer, &pairs).0, None, "too old");
        store.hooks.set(false, false);
        layer.catch_up().await.unwrap();
        assert_eq!((peek(&layer, 1, 2), ask(&layer, &pairs).0), (Answer::Yes, None));
        assert_eq!(layer.figures().stale, 4);
    });
}

#[test]
fn a_token_that_memory_does_not_cover_is_not_covered_while_the_store_is_away() {
    block_on(async {
        let (store, clock) = (Arc::new(Hooked::new(memory(), Fails::default())), clock());
        people(&*store, 1..=4).await;
        let layer = on_clock(Arc::clone(&store) as _, by_hand(), &clock).await;
        let heard = store.commit(follow(1, 2).into()).await.unwrap().watermark;
        layer.catch_up().await.unwrap();
        // Another server's, of which nothing was heard.
        let unheard = store.commit(follow(1, 3).into()).await.unwrap().watermark;
        let covers = async |watermark: &Watermark| layer.covers(watermark, Whose::NOBODY).await;
        store.hooks.set(true, false);
        assert_eq!(covers(&unheard).await.unwrap_err().code(), Code::Unavailable);
        store.hooks.set(true, true);
        assert_eq!(covers(&heard).await.unwrap(), Covered::Yes);
        assert_eq!(covers(&unheard).await.unwrap(), Covered::NotYet);
        store.hooks.set(false, false);
        layer.catch_up().await.unwrap();
        assert_eq!(covers(&unheard).await.unwrap(), Covered::Yes);
    });
}

/// A key that is a hash may be that of another id.
#[test]
fn a_yes_counts_only_for_the_ids_that_are_known() {
    block_on(async {
        let (store, clock) = (Arc::new(Hooked::new(memory(), Fails::default())), clock());
        people(&*store, -2..=-1).await;
        let layer = on_clock(Arc::clone(&store) as _, by_hand(), &clock).await;
        done(&layer, follow(-1, -2)).await;
        layer.catch_up().await.unwrap();
        assert!(follows(&layer, -1, -2).await);
        store.hooks.set(true, true);
        clock.advance(5_000);
        assert_eq!(ask(&layer, &[(-1, -2)]), (Some(5_000), vec![Answer::Unknown]), "nobody has read their ids");
        store.hooks.set(false, false);
        layer.catch_up().await.unwrap();
        layer.get_users(&[Key(-1), Key(-2)]).await.unwrap();
        store.hooks.set(true, true);
        clock.advance(5_000);
        assert_eq!(ask(&layer, &[(-1, -2)]), (Some(5_000), vec![Answer::Yes]));
        let named = |key: i64, id: &'static str| Named { key: Key(key), id: id.as_bytes() };
        let mut answers = [Answer::Yes];
        let age = layer.peek_away(Kind::Follow, &[(named(-1, "another"), named(-2, "-2"))], &mut answers);
        assert_eq!((age, answers), (Some(Duration::from_secs(5)), [Answer::Unknown]));
    });
}
