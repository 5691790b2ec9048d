//! The service on a store of many homes, where lists and totals come some time after a write was answered.

use entourage_testkit::service::homes as homes_kit;

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use entourage_model::{Code, Event, EventPositions, UserId, UserPatch, Version};
use entourage_service::{Actor, Call, EventRow, FeedMessage, Limit, Limits, NotificationMessage, Rules, Service};
use entourage_store::{Store, StoreExt as _};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

use self::homes_kit::{gated, hasty, settle, settling};

const PEOPLE: i64 = 40;

fn id(number: i64) -> UserId {
    UserId::from(number)
}

async fn service(store: &Arc<dyn Store>) -> Arc<Service> {
    let rules = Rules { limits: Limits::NONE, audit_interval: None, ..Rules::default() };
    let service = Arc::new(Service::new(Arc::clone(store), rules));
    for number in 0..PEOPLE {
        service.graph.put_user(&Call::default(), id(number), UserPatch::default()).await.unwrap();
    }
    service
}

async fn follow(service: &Service, follower: i64, target: i64) -> String {
    let done = service.graph.follow(&Call::default(), &id(follower), &id(target), false).await.unwrap();
    done.receipt.unwrap().token
}

fn with(token: &str) -> Call {
    Call { token: Some(token.to_owned()), ..Call::default() }
}

async fn post(service: &Service, author: i64) -> Version {
    let call = Call { actor: Actor::User(id(author)), ..Call::default() };
    service.feeds.create_post(&call, "{}").await.unwrap().post.id
}

async fn feed(service: &Service, reader: i64) -> Vec<Version> {
    let page = service.feeds.feed(&Call::default(), &id(reader), None, Limit::LARGEST).await.unwrap();
    page.rows.iter().map(|row| row.post.id).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_honoured_by_truth_at_once_and_by_lists_when_they_have_settled() {
    let (store, gate) = gated();
    let service = service(&store).await;
    settle(&*store).await;
    gate.set(false);
    let token = follow(&service, 1, 2).await;
    let call = with(&token);
    let began = Instant::now();
    assert!(service.graph.is_following(&call, &id(1), &id(2)).await.unwrap().following);
    assert_eq!(service.graph.following(&call, &id(1), None, Limit::DEFAULT).await.unwrap().total, Some(1));
    assert!(service.graph.relationships(&call, &id(2), &[id(1)]).await.unwrap()[0].followed_by);
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    // Without a token the number is the list, as it was.
    let page = service.graph.followers(&Call::default(), &id(2), None, Limit::DEFAULT).await.unwrap();
    assert_eq!((page.total, page.rows.len()), (Some(0), 0));
    let followed = id(2);
    let (followers, user, board) = tokio::join!(
        service.graph.followers(&call, &followed, None, Limit::DEFAULT),
        service.graph.get_user(&call, &followed),
        service.graph.leaderboard(&call, None, Limit::DEFAULT),
    );
    for refused in [followers.err(), user.err(), board.err()] {
        assert_eq!(refused.map(|error| error.code()), Some(Code::Stale));
    }
    // Another home's lists have seen all there is for them, or will have in time.
    let asking = {
        let (service, call) = (Arc::clone(&service), call.clone());
        tokio::spawn(async move { service.graph.followers(&call, &id(2), None, Limit::DEFAULT).await })
    };
    tokio::time::sleep(Duration::from_millis(50)).await;
    gate.set(true);
    let page = asking.await.unwrap().unwrap();
    assert_eq!((page.total, page.rows.len()), (Some(1), 1), "who asked before is answered when it has settled");
    assert_eq!(service.graph.get_user(&call, &id(2)).await.unwrap().counts.followers, 1);
    assert_eq!(service.graph.leaderboard(&call, None, Limit::DEFAULT).await.unwrap().rows[0].id, id(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_board_has_what_settles_after_it_was_asked_for() {
    let (store, gate) = gated();
    let service = service(&store).await;
    settle(&*store).await;
    let ranks = async || service.graph.leaderboard(&Call::default(), None, Limit::DEFAULT).await.unwrap().rows.len();
    assert_eq!(ranks().await, 0);
    gate.set(false);
    follow(&service, 1, 2).await;
    assert_eq!(ranks().await, 0, "the board is what the lists are");
    gate.set(true);
    settle(&*store).await;
    assert_eq!(ranks().await, 1);
}

/// Somebody who follows is not in the list of followers yet when the author posts; what the queue knew is forgotten when
/// it is delivered.
async fn post_between_the_answer_and_the_list(is_hasty: bool) -> bool {
    let (store, gate) = gated();
    let seen = if is_hasty { hasty(Arc::clone(&store)) } else { Arc::clone(&store) };
    let service = service(&seen).await;
    settle(&*store).await;
    assert_eq!(feed(&service, 1).await, [], "there is an inbox");
    gate.set(false);
    follow(&service, 1, 2).await;
    assert_eq!(feed(&service, 1).await, [], "and what was posted before is in it");
    let posted = post(&service, 2).await;
    let delivered = {
        let service = Arc::clone(&service);
        tokio::spawn(async move { service.feeds.deliver_all().await })
    };
    tokio::time::sleep(Duration::from_millis(50)).await;
    if !is_hasty {
        assert_eq!(feed(&service, 1).await, [posted], "a post is in feeds from its answer on");
        assert!(!delivered.is_finished());
    }
    gate.set(true);
    settle(&*store).await;
    delivered.await.unwrap().unwrap();
    feed(&service, 1).await == [posted]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_post_between_a_follow_and_its_place_in_the_list_is_not_missed() {
    assert!(post_between_the_answer_and_the_list(false).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_that_does_not_wait_is_noticed() {
    assert!(!post_between_the_answer_and_the_list(true).await, "a hole in a feed goes unnoticed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_notifications_tells_when_the_list_has_the_follower() {
    let (store, gate) = gated();
    let service = service(&store).await;
    settle(&*store).await;
    let background = Arc::clone(&service);
    let background = tokio::spawn(async move { background.run().await });
    let mut stream = service.notifications.notification_stream(&Call::default(), &id(2), None).await.unwrap();
    assert_eq!(
        service.notifications.next_notification(&mut stream).await.unwrap(),
        Some(NotificationMessage::Unseen(0))
    );
    gate.set(false);
    follow(&service, 1, 2).await;
    let quiet = tokio::time::timeout(Duration::from_millis(100), async {
        service.notifications.next_notification(&mut stream).await
    })
    .await;
    assert!(quiet.is_err(), "{quiet:?}");
    gate.set(true);
    match tokio::time::timeout(Duration::from_secs(10), service.notifications.next_notification(&mut stream))
        .await
        .unwrap()
        .unwrap()
    {
        Some(NotificationMessage::New(told)) => assert_eq!(told.count, 1),
        other => panic!("{other:?}"),
    }
    service.end_streams();
    background.await.unwrap();
}

/// Writers in all homes at once.
async fn busy(service: &Arc<Service>, seed: u64, steps: usize) {
    let mut random = StdRng::seed_from_u64(seed);
    for _ in 0..steps {
        let (a, b) = (random.random_range(0..PEOPLE), random.random_range(0..PEOPLE));
        let call = Call::default();
        let _refused = match random.random_range(0..6) {
            0..3 => service.graph.follow(&call, &id(a), &id(b), false).await.map(drop),
            3 => service.graph.unfollow(&call, &id(a), &id(b)).await.map(drop),
            4 => service.graph.block(&call, &id(a), &id(b)).await.map(drop),
            _ => service.graph.unblock(&call, &id(a), &id(b)).await.map(drop),
        };
    }
}

fn all_busy(service: &Arc<Service>, steps: usize) -> Vec<tokio::task::JoinHandle<()>> {
    let start = |seed| {
        let service = Arc::clone(service);
        tokio::spawn(async move { busy(&service, seed, steps).await })
    };
    (0..4).map(start).collect()
}

async fn events_of(store: &dyn Store) -> Vec<Event> {
    events_after(store, EventPositions::start(store.lineage(), store.guarantees().partitions)).await
}

async fn events_after(store: &dyn Store, mut at: EventPositions) -> Vec<Event> {
    let mut all = Vec::new();
    loop {
        let page = store.events_since(&mut at, 1_000).await.unwrap();
        if page.is_empty() {
            return all;
        }
        page.iter().for_each(|(partition, event)| at.advance(*partition, event.sequence));
        all.extend(page.into_iter().map(|(_, event)| event).filter(Event::is_public));
    }
}

/// Every event once, and those of one follower in the order in which they happened.
fn compare(rows: &[EventRow], all: &[Event]) {
    let key = |event: &Event| (event.version, format!("{:?}", event.body));
    let (mut found, mut expected): (Vec<_>, Vec<_>) =
        (rows.iter().map(|row| key(&row.event)).collect(), all.iter().map(key).collect());
    found.sort();
    expected.sort();
    assert_eq!(found.len(), expected.len());
    assert!(found == expected, "each once");
    let mut last: HashMap<(&UserId, Option<&UserId>), Version> = HashMap::new();
    for row in rows {
        let Some(follower) = &row.follower else { continue };
        let before = last.insert((follower, row.target.as_ref()), row.event.version);
        assert!(before.is_none_or(|before| before <= row.event.version), "{row:?} after {before:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_cursor_leads_through_the_events_of_all_homes_while_they_are_written() {
    let store = settling();
    let service = service(&store).await;
    let writers = all_busy(&service, 300);
    let (mut rows, mut cursor, limit) = (Vec::new(), None::<String>, Limit::parse(Some("7")).unwrap());
    loop {
        let is_over = writers.iter().all(tokio::task::JoinHandle::is_finished);
        let page = service.events.events(&Call::default(), cursor.as_deref(), limit).await.unwrap();
        if let (Some(last), true) = (page.rows.last(), page.has_more) {
            assert_eq!(Some(&last.cursor), page.next_cursor.as_ref());
        }
        let is_end = page.rows.is_empty() && !page.has_more;
        rows.extend(page.rows);
        cursor = page.next_cursor.or(cursor);
        if is_end && is_over {
            break;
        }
    }
    compare(&rows, &events_of(&*store).await);
    // From the cursor of any event on, nothing is missed and nothing comes twice.
    for at in (0..rows.len()).step_by(101) {
        let (mut after, mut cursor) = (rows[..=at].to_vec(), Some(rows[at].cursor.clone()));
        loop {
            let page = service.events.events(&Call::default(), cursor.as_deref(), Limit::LARGEST).await.unwrap();
            after.extend(page.rows);
            cursor = page.next_cursor;
            if !page.has_more {
                break;
            }
        }
        compare(&after, &events_of(&*store).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_events_misses_nothing_of_any_home_over_reconnects() {
    let store = settling();
    let service = service(&store).await;
    let background = Arc::clone(&service);
    let background = tokio::spawn(async move { background.run().await });
    let before = store.last_events().await.unwrap();
    let mut stream = service.events.event_stream(&Call::default(), None).await.unwrap();
    let writers = all_busy(&service, 200);
    let mut rows: Vec<EventRow> = Vec::new();
    loop {
        let next = tokio::time::timeout(Duration::from_secs(1), service.events.next_events(&mut stream)).await;
        match next {
            Ok(some) => rows.extend(some.unwrap().unwrap()),
            Err(_) if writers.iter().all(tokio::task::JoinHandle::is_finished) => break,
            Err(_) => {}
        }
        if rows.len().is_multiple_of(3)
            && let Some(last) = rows.last()
        {
            stream = service.events.event_stream(&Call::default(), Some(&last.cursor)).await.unwrap();
        }
    }
    compare(&rows, &events_after(&*store, before).await);
    service.end_streams();
    background.await.unwrap();
}

/// Authors in many homes post at once; the reader connects again after every few posts.
#[tokio::test(flavor = "multi_thread")]
async fn a_live_feed_has_every_post_of_every_home_once_over_reconnects() {
    let store = settling();
    let service = service(&store).await;
    for author in 1..20 {
        follow(&service, 0, author).await;
    }
    let background = Arc::clone(&service);
    let background = tokio::spawn(async move { background.run().await });
    let mut stream = service.feeds.feed_stream(&Call::default(), &id(0), None).await.unwrap();
    let authors = (1..20).map(|author| {
        let service = Arc::clone(&service);
        tokio::spawn(async move {
            let mut posted = Vec::new();
            for _ in 0..15 {
                posted.push(post(&service, author).await);
            }
            posted
        })
    });
    let authors: Vec<_> = authors.collect();
    let (mut told, mut by_author): (Vec<Version>, HashMap<UserId, Version>) = (Vec::new(), HashMap::new());
    while told.len() < 19 * 15 {
        let next = tokio::time::timeout(Duration::from_secs(10), service.feeds.next_feed(&mut stream)).await;
        let next = next.unwrap_or_else(|_| panic!("nothing more after {} posts", told.len())).unwrap();
        let Some(FeedMessage::Post { cursor, row }) = next else { panic!("nothing was left out: {next:?}") };
        told.push(row.post.id);
        let before = by_author.insert(row.post.author.clone(), row.post.id);
        assert!(before.is_none_or(|before| before < row.post.id), "an author's posts come in their order");
        if told.len().is_multiple_of(4) {
            stream = service.feeds.feed_stream(&Call::default(), &id(0), Some(&cursor)).await.unwrap();
        }
    }
    let mut posted = Vec::new();
    for author in authors {
        posted.extend(author.await.unwrap());
    }
    told.sort_unstable();
    posted.sort_unstable();
    assert_eq!(told, posted);
    service.end_streams();
    background.await.unwrap();
}
