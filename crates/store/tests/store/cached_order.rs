//! Changes of one edge that come out of their order: acks after later writes, events after later acks.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use entourage_model::{Key, Kind, Operation};
use entourage_store::{Answer, Store, StoreExt as _, layers::cached::Options};
use entourage_testkit::cached::*;
use entourage_testkit::conformance::block_on;

#[test]
fn late_and_early_outcomes_of_one_edge_end_as_the_last_one() {
    block_on(async {
        let layer =
            Arc::new(over(memory(), Options { interval: Duration::from_millis(1), ..Options::default() }).await);
        people(&*layer, 1..=20).await;
        for round in 0..30 {
            let tasks: Vec<_> = (0..8)
                .map(|task| {
                    let layer = Arc::clone(&layer);
                    tokio::spawn(async move {
                        for step in 0..20 {
                            let operation = match (task + step + round) % 4 {
                                0 => unfollow(1, 2),
                                1 => block(2, 1),
                                2 => Operation::Unblock { actor: Key(2), target: Key(1) },
                                _ => follow(1, 2),
                            };
                            let _ = layer.commit(operation.into()).await;
                            layer.get_edges(Kind::Follow, &[(Key(1), Key(2))]).await.unwrap();
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
            for kind in [Kind::Follow, Kind::Block] {
                for (a, b) in [(1, 2), (2, 1)] {
                    let exact = layer.scan(entourage_model::List::new(Key(a), plane(kind), SIDE), None, 9);
                    let active = exact.await.unwrap().edges.iter().any(|edge| edge.target == Key(b));
                    let wrong = if active { Answer::No } else { Answer::Yes };
                    assert_ne!(layer.peek(kind, Key(a), Key(b)), wrong, "{kind:?} {a} → {b} in round {round}");
                    layer.get_edges(kind, &[(Key(a), Key(b))]).await.unwrap();
                }
            }
        }
    });
}

/// A write that is acked after later ones were heard of, from this server or from the events, changes nothing any more.
#[test]
fn a_late_ack_does_not_undo_what_came_after_it() {
    block_on(async {
        for through_layer in [true, false] {
            let store = Between::over(memory());
            people(&*store, 1..=3).await;
            let layer = Arc::new(over(Arc::clone(&store) as _, by_hand()).await);
            assert!(!follows(&*layer, 1, 3).await);
            store.hooks.hold_acks.store(true, Ordering::SeqCst);
            let late = tokio::spawn({
                let layer = Arc::clone(&layer);
                async move { done(&*layer, follow(1, 2)).await }
            });
            store.hooks.acks.arrived.acquire().await.unwrap().forget();
            store.hooks.hold_acks.store(false, Ordering::SeqCst);
            if through_layer {
                done(&*layer, unfollow(1, 2)).await;
            } else {
                done(&*store, unfollow(1, 2)).await;
                layer.catch_up().await.unwrap();
            }
            assert_eq!(peek(&*layer, 1, 2), Answer::No);
            store.hooks.acks.released.add_permits(1);
            late.await.unwrap();
            assert_eq!(peek(&*layer, 1, 2), Answer::No, "through the layer: {through_layer}");
        }
    });
}

/// An event of another server that comes after this server's own later write of the same edge.
#[test]
fn a_late_event_does_not_undo_what_came_after_it() {
    block_on(async {
        let store = Between::over(memory());
        people(&*store, 1..=3).await;
        let layer = over(Arc::clone(&store) as _, by_hand()).await;
        assert!(!follows(&layer, 1, 3).await);
        done(&*store, follow(1, 2)).await;
        store.hooks.listed_to.store(store.last_event(0).await.unwrap().0, Ordering::SeqCst);
        done(&layer, unfollow(1, 2)).await;
        assert_eq!(peek(&layer, 1, 2), Answer::No);
        layer.catch_up().await.unwrap();
        assert_eq!(peek(&layer, 1, 2), Answer::No, "the follow was before");
        store.hooks.listed_to.store(u64::MAX, Ordering::SeqCst);
        layer.catch_up().await.unwrap();
        assert_eq!(peek(&layer, 1, 2), Answer::No);
    });
}

const SIDE: entourage_model::Side = entourage_model::Side::Following;

const fn plane(kind: Kind) -> entourage_model::Plane {
    match kind {
        Kind::Follow => entourage_model::Plane::Follow,
        Kind::Block => entourage_model::Plane::Block,
        Kind::Mute => entourage_model::Plane::Mute,
    }
}
