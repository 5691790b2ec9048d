//! Random runs of feeds against the plain feed, on PostgreSQL, also with two servers on one store.

use entourage_testkit::service::feed as feed_kit;

use std::{sync::Arc, time::Duration};

use entourage_model::{Code, UserPatch};
use entourage_postgres as postgres;
use entourage_postgres::Options;
use entourage_service::{Actor, Call, Limit};
use entourage_store::{Store, SystemClock};

use self::feed_kit::{
    body, run,
    service::{ServiceFront, id},
};

async fn store(schema: &str) -> Arc<dyn Store> {
    // A suite that cannot run is red, not skipped.
    let url = std::env::var("ENTOURAGE_TEST_POSTGRES")
        .expect("ENTOURAGE_TEST_POSTGRES names no PostgreSQL: run `make test`, or `scripts/postgres start`");
    let store = postgres::Store::connect(&url, schema, Options::default(), Arc::new(SystemClock)).await;
    Arc::new(store.expect("the store opens"))
}

fn schema() -> String {
    format!("test_{:016x}", rand::random::<u64>())
}

#[tokio::test(flavor = "multi_thread")]
async fn feeds_are_the_plain_feed() {
    for seed in 0..2 {
        let mut front = ServiceFront::new(store(&schema()).await, seed == 1);
        run(&mut front, seed, 120, None).await.unwrap();
        front.stop().await;
    }
}

/// What one server writes, a reader of the other with its token sees at once, and anybody soon.
#[tokio::test(flavor = "multi_thread")]
async fn a_post_on_one_server_is_in_feeds_on_the_other() {
    let schema = schema();
    let (mut one, mut other) =
        (ServiceFront::new(store(&schema).await, true), ServiceFront::new(store(&schema).await, true));
    let (author, reader) = (id(1), id(2));
    let call = Call::default();
    for user in [&author, &reader] {
        one.service.graph.put_user(&call, user.clone(), UserPatch::default()).await.unwrap();
    }
    one.service.graph.follow(&call, &reader, &author, false).await.unwrap();
    let limit = Limit::parse(Some("5")).unwrap();
    // An inbox on the other server, built before there is anything.
    assert!(other.service.feeds.feed(&call, &reader, None, limit).await.unwrap().rows.is_empty());
    for number in 0..20 {
        let acting = Call { actor: Actor::User(author.clone()), ..Call::default() };
        let written = one.service.feeds.create_post(&acting, &body(number)).await.unwrap();
        let call = Call { token: Some(written.receipt.token), ..Call::default() };
        let page = loop {
            match other.service.feeds.feed(&call, &reader, None, limit).await {
                Err(error) if error.code() == Code::Stale => tokio::time::sleep(Duration::from_millis(10)).await,
                other => break other.unwrap(),
            }
        };
        assert_eq!(page.rows[0].post.id, written.post.id, "with the token of the post");
    }
    one.stop().await;
    other.stop().await;
}
