//! Lists: their order, their pages, and pages under concurrent writes.

use std::{
    collections::HashSet,
    future::{Future, poll_fn},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use entourage_model::{Key, Kind, List, Millis, Plane, Sequence, Side, Space};

use super::{operations::*, world::World};
use entourage_store::{NewestFollows, Store, StoreExt as _};

const SIZES: [usize; 6] = [1, 2, 5, 16, 53, 100];

pub(super) async fn pages_of_every_size_are_newest_first(world: World) {
    let users = world.many_users(108).await;
    let (hub, others) = (users[0], &users[1..]);
    world.all_done(others.iter().map(|&other| follow(hub, other)).collect()).await;
    world.all_done(others.iter().map(|&other| follow(other, hub)).collect()).await;
    let newest_first: Vec<Key> = others.iter().rev().copied().collect();
    for list in [List::following(hub), List::followers(hub)] {
        for size in SIZES {
            let shown: Vec<Key> = world.paged(list, size).await.iter().map(|edge| list.other(edge)).collect();
            assert_eq!(shown, newest_first, "{list:?} at {size} a page");
        }
        let exact = world.store.scan(list, None, 107).await.expect("the list can be read");
        assert!(!exact.more && exact.edges.len() == 107, "a page that holds the whole list has no more");
        let short = world.store.scan(list, None, 106).await.expect("the list can be read");
        assert!(short.more && short.edges.len() == 106);
    }
}

pub(super) async fn equal_positions_are_ordered_by_key(world: World) {
    let users = world.many_users(31).await;
    let (hub, others) = (users[0], &users[1..]);
    let at = |index: usize| Millis::from_since_2000(1_000 + index as u64 / 10);
    let both = |(index, &other): (usize, &Key)| [import(hub, other, at(index)), import(other, hub, at(index))];
    world.all_done(others.iter().enumerate().flat_map(both).collect()).await;
    let mut expected: Vec<(Millis, Key)> =
        others.iter().enumerate().map(|(index, &other)| (at(index), other)).collect();
    expected.sort_unstable_by(|a, b| b.cmp(a));
    for list in [List::following(hub), List::followers(hub)] {
        for size in SIZES {
            let edges = world.paged(list, size).await;
            let shown: Vec<_> = edges.iter().map(|edge| (edge.value.position.millis(), list.other(edge))).collect();
            assert_eq!(shown, expected, "{list:?} at {size} a page");
        }
    }
}

pub(super) async fn read_from_the_oldest_up_they_are_the_same(world: World) {
    let users = world.many_users(70).await;
    let (hub, others) = (users[0], &users[1..]);
    let at = |index: usize| Millis::from_since_2000(1_000 + index as u64 / 10);
    let both = |(index, &other): (usize, &Key)| [import(hub, other, at(index)), import(other, hub, at(index))];
    world.all_done(others.iter().take(40).enumerate().flat_map(both).collect()).await;
    for (index, &other) in others.iter().enumerate().skip(40) {
        let follows = if index % 3 == 0 { follow_quietly } else { follow };
        world.all_done(vec![follows(hub, other), follows(other, hub)]).await;
    }
    for &other in others.iter().step_by(7) {
        world.all_done(vec![unfollow(hub, other), unfollow(other, hub)]).await;
    }
    for list in [List::following(hub), List::followers(hub)].into_iter().flat_map(|list| [list, list.open()]) {
        let mut expected = world.paged(list, 100).await;
        expected.reverse();
        for size in SIZES {
            assert_eq!(world.paged_up(list, size).await, expected, "{list:?} at {size} a page");
        }
    }
    // From a row that is gone, and from above all.
    let list = List::followers(hub);
    let whole = world.paged_up(list, 100).await;
    let (gone, next) = (&whole[5], &whole[6]);
    world.done(unfollow(gone.follower, hub)).await;
    let page = world.store.scan_up(list, Some(list.place(gone)), 1).await.expect("the list can be read");
    assert_eq!((page.edges, page.more, page.total), (vec![*next], true, whole.len() as u64 - 1));
    let newest = whole.last().map(|edge| list.place(edge));
    let page = world.store.scan_up(list, newest, 5).await.expect("the list can be read");
    assert!(page.edges.is_empty() && !page.more);
    let unknown = world.store.scan_up(List::followers(world.stranger()), None, 5).await.expect("the list can be read");
    assert!(unknown.edges.is_empty() && unknown.total == 0);
}

pub(super) async fn the_newest_of_many_are_what_pages_show(world: World) {
    let users = world.many_users(40).await;
    let (hubs, others) = users.split_at(4);
    for (index, &hub) in hubs.iter().enumerate() {
        for (place, &other) in others.iter().enumerate().skip(index * 9) {
            let follows = if place % 5 == 2 { follow_quietly } else { follow };
            world.done(follows(hub, other)).await;
        }
        world.done(unfollow(hub, others[30])).await;
    }
    world.done(follow(hubs[0], hubs[1])).await;
    let mut asked: Vec<Key> = hubs.to_vec();
    asked.extend([world.stranger(), others[0]]);
    let mut without: Vec<Key> = others.iter().copied().skip(20).step_by(4).collect();
    without.sort_unstable();
    let mut found = NewestFollows::default();
    for (limit, without) in
        [(0, &[][..]), (1, &[]), (7, &[]), (7, &without), (25, &without), (500, &[]), (500, &without)]
    {
        found.clear();
        // What is there already stays as it is.
        for some in asked.chunks(2) {
            world.store.newest_follows(some, limit, without, &mut found).await.expect("the lists can be read");
        }
        assert_eq!(found.lists().count(), asked.len());
        for (list, &user) in found.lists().zip(&asked) {
            assert!(list.iter().all(|number| *number < found.bound()));
            let keys = world.store.keys_of(&found, list);
            let pages = world.paged(List::following(user).open(), 100).await;
            let shown = pages.iter().map(|edge| edge.target).filter(|target| !without.contains(target));
            let (mut keys, mut shown): (Vec<Key>, Vec<Key>) = (keys, shown.take(limit).collect());
            keys.sort_unstable();
            shown.sort_unstable();
            assert_eq!(keys, shown, "{limit} without {}", without.len());
        }
        let numbers: Vec<u32> = found.targets().to_vec();
        let followers = world.store.public_followers(&found, &numbers).await.expect("followers can be counted");
        let counts = world.store.get_all_counts(&world.store.keys_of(&found, &numbers)).await.expect("counts");
        let public = counts.into_iter().map(|counts| counts.map_or(0, |all| all.followers - all.followers_quiet));
        assert_eq!(followers, public.collect::<Vec<u64>>());
    }
}

pub(super) async fn whole_rows_of_many_are_what_pages_show(world: World) {
    let mut users = world.many_users(30).await;
    users[3] = world.private_user().await;
    let (hubs, others) = users.split_at(4);
    for (index, &hub) in hubs.iter().enumerate() {
        for &other in others.iter().skip(index * 6) {
            world.done(follow(hub, other)).await;
        }
        world.done(unfollow(hub, others[24])).await;
        world.done(mute(hub, others[3])).await;
    }
    for (place, &other) in others.iter().enumerate().take(9) {
        let follows = if place % 3 == 0 { follow_parked } else { follow };
        world.done(follows(other, hubs[3])).await;
        world.done(block(hubs[place % 2], others[20 - place])).await;
    }
    world.done(accept(hubs[3], others[1])).await;
    // Edges of whoever is gone are there until they are taken away.
    let gone = [hubs[2], others[22], others[23]];
    for user in gone {
        world.done(erase(user)).await;
    }
    let asked: Vec<Key> = hubs.iter().rev().chain(&others[..10]).copied().chain([world.stranger(), hubs[0]]).collect();
    let mut edges = 0;
    for (kind, side) in Kind::ALL.into_iter().flat_map(|kind| Side::BOTH.map(|side| (kind, side))) {
        for limit in [usize::MAX, 7] {
            let rows = world.store.get_rows(kind, side, &asked, limit).await.expect("rows can be read");
            assert_eq!(rows.len(), asked.len());
            for (row, &user) in rows.into_iter().zip(&asked) {
                let (mut active, mut waiting) = (Vec::new(), Vec::new());
                for &plane in Plane::of_kind(kind) {
                    let list = List::new(user, plane, side);
                    let shown = world.paged(list, 100).await.into_iter().map(|edge| list.other(&edge));
                    if matches!(plane, Plane::Request | Plane::Parked) {
                        waiting.extend(shown)
                    } else {
                        active.extend(shown)
                    }
                }
                let Some(mut row) = row else {
                    assert!(active.len() + waiting.len() > limit, "{kind:?} {side:?} is no large row");
                    continue;
                };
                assert!(row.edges() <= limit);
                edges += row.edges();
                let mut left_behind: Vec<Key> = active.iter().copied().filter(|key| gone.contains(key)).collect();
                for keys in [&mut active, &mut waiting, &mut left_behind] {
                    keys.sort_unstable();
                }
                for keys in [&mut row.active, &mut row.waiting, &mut row.left_behind] {
                    keys.sort_unstable();
                }
                assert_eq!((&row.active, &row.waiting, &row.left_behind), (&active, &waiting, &left_behind));
                assert!(row.is_empty() || row.owner_there != gone.contains(&user), "{kind:?} {side:?}");
            }
        }
    }
    assert!(edges > 100, "{edges} edges");
}

pub(super) async fn the_row_of_a_cursor_may_be_gone(world: World) {
    let users = world.many_users(9).await;
    let (hub, others) = (users[0], &users[1..]);
    world.all_done(others.iter().map(|&other| follow(other, hub)).collect()).await;
    let list = List::followers(hub);
    let first = world.store.scan(list, None, 3).await.expect("the list can be read");
    let last = *first.edges.last().expect("the page is full");
    // The row of the cursor and the one after it go, and the row of the cursor comes back at the top.
    world.done(unfollow(last.follower, hub)).await;
    world.done(unfollow(others[4], hub)).await;
    world.done(follow(last.follower, hub)).await;
    let second = world.store.scan(list, Some(list.place(&last)), 100).await.expect("the list can be read");
    let shown: Vec<Key> = second.edges.iter().map(|edge| edge.follower).collect();
    assert_eq!(shown, [others[3], others[2], others[1], others[0]]);
    assert_eq!((second.more, second.total), (false, 7));
    let bottom = list.place(second.edges.last().expect("the page is full"));
    let past = world.store.scan(list, Some(bottom), 5).await.expect("the list can be read");
    assert!(past.edges.is_empty() && !past.more);
}

pub(super) async fn paging_while_others_write_misses_nobody(world: World) {
    let users = world.many_users(61).await;
    let hub = users[0];
    let (steady, flickering) = users[1..].split_at(30);
    let interleaved = steady.iter().zip(flickering).flat_map(|(&a, &b)| [follow(a, hub), follow(b, hub)]);
    world.all_done(interleaved.collect()).await;
    let list = List::followers(hub);
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = flickering
        .chunks(8)
        .map(|chunk| {
            let (store, chunk, stop) = (Arc::clone(&world.store), chunk.to_vec(), Arc::clone(&stop));
            tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    for &follower in &chunk {
                        store.commit(unfollow(follower, hub).into()).await.expect("unfollow");
                        store.commit(follow(follower, hub).into()).await.expect("follow");
                        tokio::task::yield_now().await;
                    }
                }
            })
        })
        .collect();
    for size in SIZES {
        for _ in 0..5 {
            let shown = read_while_written(&*world.store, list, size).await;
            for follower in steady {
                assert!(shown.contains(follower), "{follower} was there throughout; {size} a page");
            }
        }
    }
    stop.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.expect("the writer ends");
    }
    assert_eq!(world.paged(list, 7).await.len(), 60);
}

async fn read_while_written(store: &dyn Store, list: List, size: usize) -> HashSet<Key> {
    let (mut shown, mut after) = (HashSet::new(), None);
    loop {
        let page = store.scan(list, after, size).await.expect("the list can be read");
        for edge in &page.edges {
            let place = list.place(edge);
            assert!(after.is_none_or(|after| place < after), "{place:?} is not below {after:?}");
            after = Some(place);
            assert!(shown.insert(list.other(edge)), "{} is shown twice", list.other(edge));
            tokio::task::yield_now().await;
        }
        assert!(page.total >= page.edges.len() as u64);
        if !page.more {
            return shown;
        }
    }
}

pub(super) async fn totals_are_what_paging_counts(world: World) {
    let users = world.many_users(7).await;
    let hub = users[0];
    let private = world.private_user().await;
    for &other in &users[1..] {
        world.done(follow_quietly(other, hub)).await;
        world.done(follow(other, private)).await;
        world.done(mute(hub, other)).await;
    }
    world.done(follow(users[1], hub)).await;
    world.done(unfollow(users[2], hub)).await;
    world.done(block(hub, users[3])).await;
    world.done(reject(private, users[4])).await;
    for user in users.iter().copied().chain([private]) {
        for plane in Plane::ALL {
            for side in Side::BOTH {
                world.paged(List::new(user, plane, side), 2).await;
            }
        }
    }
    let page = world.store.scan(List::followers(hub), None, 1).await.expect("the list can be read");
    assert_eq!((page.total, page.quiet), (4, 3));
}

pub(super) async fn an_open_list_leaves_quiet_follows_out(world: World) {
    let users = world.many_users(12).await;
    let hub = users[0];
    // Quiet ones after, between and before the others.
    for (number, &other) in users.iter().enumerate().skip(1) {
        let follow = if number % 3 == 0 { follow(other, hub) } else { follow_quietly(other, hub) };
        world.done(follow).await;
    }
    let list = List::followers(hub);
    for size in [1, 2, 50] {
        let open: Vec<Key> = world.paged(list.open(), size).await.iter().map(|edge| edge.follower).collect();
        assert_eq!(open, [users[9], users[6], users[3]], "pages of {size}");
        assert_eq!(world.paged(list, size).await.len(), 11);
    }
    let last = world.paged(list.open(), 50).await.pop().expect("three are open");
    let page = world.store.scan(list.open(), Some(list.place(&last)), 1).await.expect("the list can be read");
    assert_eq!((page.edges.len(), page.more, page.total, page.quiet), (0, false, 3, 0));
    let own = List::following(users[1]);
    assert_eq!((world.shown(own).await, world.shown(own.open()).await), (vec![hub], vec![]));
    // Changing the flag moves the edge from one list to the other, at the same place.
    world.done(follow(users[1], hub)).await;
    world.done(follow_quietly(users[9], hub)).await;
    assert_eq!(world.shown(list.open()).await, [users[6], users[3], users[1]]);
    assert_eq!(world.shown(list).await.len(), 11);
    assert_eq!(world.shown(own.open()).await, [hub]);
}

pub(super) async fn unknown_users_have_empty_lists(world: World) {
    let unknown = world.stranger();
    for plane in Plane::ALL {
        for side in Side::BOTH {
            let page = world.store.scan(List::new(unknown, plane, side), None, 10).await.expect("an empty list");
            assert_eq!(page, entourage_model::Page::default());
        }
    }
}

pub(super) async fn whoever_reads_on_and_on_gives_way(world: World) {
    const READS: usize = 200;
    let users = world.many_users(101).await;
    let (hub, others) = (users[0], &users[1..]);
    world.all_done(others.iter().map(|&other| follow(hub, other)).collect()).await;
    world.all_done((0..100).map(|id| put_record(Space::Notification, hub, &[id], b"value")).collect()).await;
    let pairs: Vec<(Key, Key)> = others.iter().map(|&other| (hub, other)).collect();
    let store = &*world.store;
    let scans = async {
        for _ in 0..READS {
            store.scan(List::following(hub), None, 100).await.expect("the list can be read");
        }
    };
    let users = async {
        for _ in 0..READS {
            store.get_users(others).await.expect("users can be read");
        }
    };
    let edges = async {
        for _ in 0..READS {
            store.get_edges(Kind::Follow, &pairs).await.expect("edges can be read");
        }
    };
    let records = async {
        for _ in 0..READS {
            store.scan_records(Space::Notification, hub, None, 100).await.expect("records can be read");
        }
    };
    let events = async {
        for _ in 0..READS {
            store.events_after(Sequence(0), 100).await.expect("events can be read");
        }
    };
    assert!(turns(scans).await > 1, "scan");
    assert!(turns(users).await > 1, "get_users");
    assert!(turns(edges).await > 1, "get_edges");
    assert!(turns(records).await > 1, "scan_records");
    assert!(turns(events).await > 1, "events");
}

/// How often the read yielded, plus once.
async fn turns(work: impl Future<Output = ()>) -> usize {
    let (mut work, mut turns) = (pin!(work), 0);
    poll_fn(|context| {
        turns += 1;
        work.as_mut().poll(context)
    })
    .await;
    turns
}
