//! Counts equal lists.

use entourage_model::{Counts, List};

use super::{operations::*, world::World};
use entourage_store::StoreExt as _;

pub(super) async fn counts_follow_every_change(world: World) {
    let (a, b, private) = (world.user().await, world.user().await, world.private_user().await);
    let none = Counts::default();
    // The operation, and the counts of a, of b and of the private user afterwards.
    let steps = [
        (
            follow_quietly(a, b),
            Counts { following: 1, following_quiet: 1, ..none },
            Counts { followers: 1, followers_quiet: 1, ..none },
            none,
        ),
        (follow(a, b), Counts { following: 1, ..none }, Counts { followers: 1, ..none }, none),
        (
            follow(a, private),
            Counts { following: 1, requested: 1, ..none },
            Counts { followers: 1, ..none },
            Counts { requests: 1, ..none },
        ),
        (
            accept(private, a),
            Counts { following: 2, ..none },
            Counts { followers: 1, ..none },
            Counts { followers: 1, ..none },
        ),
        (block(b, a), Counts { following: 1, ..none }, none, Counts { followers: 1, ..none }),
        (unblock(b, a), Counts { following: 1, ..none }, none, Counts { followers: 1, ..none }),
        (unfollow(a, private), none, none, none),
        (unfollow(a, private), none, none, none),
    ];
    for (operation, of_a, of_b, of_private) in steps {
        world.done(operation.clone()).await;
        let counts = (world.counts(a).await, world.counts(b).await, world.counts(private).await);
        assert_eq!(counts, (of_a, of_b, of_private), "after {operation:?}");
    }
}

pub(super) async fn counts_equal_lists_while_others_write(world: World) {
    let users = world.many_users(9).await;
    let hub = users[0];
    let others = users[1..].to_vec();
    world.all_done(others.iter().map(|&other| follow(other, hub)).collect()).await;
    // Each writer has at most one edge removed at a time, so the count lies between none gone and all gone.
    let results = world
        .race(others.len() + 1, |index, store| {
            let follower = others.get(index).copied();
            async move {
                for _ in 0..40 {
                    match follower {
                        Some(follower) => {
                            store.commit(unfollow(follower, hub).into()).await.expect("unfollow");
                            store.commit(follow(follower, hub).into()).await.expect("follow");
                        }
                        None => {
                            let page = store.scan(List::followers(hub), None, 100).await.expect("the list");
                            assert_eq!(page.total, page.edges.len() as u64, "one read shows one moment");
                            let counts = store.get_counts(hub).await.expect("counts").expect("the user exists");
                            assert!(counts.followers <= 8, "{counts:?}");
                        }
                    }
                }
            }
        })
        .await;
    assert_eq!(results.len(), 9);
    assert_eq!(world.totals(hub).await, (8, 0));
    assert_eq!(world.paged(List::followers(hub), 3).await.len(), 8);
}

pub(super) async fn repeated_removals_never_count_twice(world: World) {
    let [a, b, c] = world.users().await;
    world.done(follow(c, b)).await;
    let removals = [unfollow(a, b), remove_follower(b, a), unfollow(a, b), block(a, b), unfollow(a, b), unblock(a, b)];
    for operation in removals {
        world.done(operation.clone()).await;
        assert_eq!(world.totals(b).await, (1, 0), "after {operation:?}");
        assert_eq!(world.totals(a).await, (0, 0), "after {operation:?}");
    }
}

pub(super) async fn unknown_users_have_no_counts(world: World) {
    assert_eq!(world.store.get_counts(world.stranger()).await.expect("counts can be read"), None);
    let user = world.user().await;
    assert_eq!(world.counts(user).await, Counts::default());
}

pub(super) async fn counts_of_many_are_those_of_each(world: World) {
    let users = world.many_users(9).await;
    for (index, &user) in users.iter().enumerate() {
        for other in users.iter().take(index) {
            world.done(follow(user, *other)).await;
        }
    }
    let stranger = world.stranger();
    let asked: Vec<_> = users.iter().rev().chain(&[stranger, users[3], users[3]]).copied().collect();
    let mut expected = Vec::new();
    for &user in &asked {
        expected.push(world.store.get_counts(user).await.expect("counts can be read"));
    }
    assert!(expected.contains(&None) && expected.iter().flatten().any(|counts| counts.followers == 8));
    assert_eq!(world.store.get_all_counts(&asked).await.expect("counts can be read"), expected);
    assert_eq!(world.store.get_all_counts(&[]).await.expect("counts can be read"), Vec::new());
}
