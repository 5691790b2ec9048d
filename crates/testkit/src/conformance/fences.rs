//! Writes of workers: a fenced one changes nothing, and progress is stored with its effect.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use entourage_model::{Code, Condition, Fence, Key, Lease, Operation, Record, RecordId, Space, WorkProgress, Write};

use super::{
    operations::*,
    world::{World, own_request},
};
use entourage_store::StoreExt as _;

fn own_lease() -> Lease {
    Lease::new(&own_request().scope).expect("the name is valid")
}

fn fenced(operation: Operation, lease: &Lease, epoch: u64) -> Write {
    Write { fence: Some(Box::new(Fence { lease: lease.clone(), epoch })), ..Write::from(operation) }
}

fn with_progress(write: impl Into<Write>, id: &RecordId, value: Option<&[u8]>, condition: Condition) -> Write {
    let progress = WorkProgress { id: id.clone(), value: value.map(Into::into), condition };
    Write { progress: Some(Box::new(progress)), ..write.into() }
}

impl World {
    async fn progress(&self, about: Key, id: &RecordId) -> Option<Record> {
        self.store.get_record(Space::Job, self.server(about), id).await.expect("records can be read")
    }
}

pub(super) async fn an_older_epoch_changes_nothing(world: World) {
    let [a, b] = world.users().await;
    let (lease, other) = (own_lease(), own_lease());
    world.done(fenced(follow(a, b), &lease, 3)).await;
    world.done(fenced(unfollow(a, b), &lease, 3)).await;
    world
        .done(fenced(Operation::Follow { follower: a, target: b, quiet: None, cap: Some(9), park: false }, &lease, 4))
        .await;
    let (_, mark) = world.user_at_mark().await;
    for epoch in [0, 3] {
        world.refused(fenced(unfollow(a, b), &lease, epoch), Code::Fenced).await;
        world.refused(fenced(block(a, b), &lease, epoch), Code::Fenced).await;
        // Also where it would have been a no-op.
        world.refused(fenced(follow(a, b), &lease, epoch), Code::Fenced).await;
    }
    assert!(world.follows(a, b).await && world.events(mark, &[a, b]).await.is_empty());
    // Other leases, and writes without one, go on.
    world.done(fenced(unfollow(a, b), &other, 1)).await;
    world.done(follow(a, b)).await;
    world.done(fenced(unfollow(a, b), &lease, 4)).await;
    // A refused write takes nothing over.
    world.refused(fenced(follow(a, a), &lease, 9), Code::SelfFollow).await;
    world.done(fenced(follow(a, b), &lease, 4)).await;
    // A no-op does.
    world.done(fenced(follow(a, b), &lease, u64::MAX)).await;
    world.refused(fenced(unfollow(a, b), &lease, 4), Code::Fenced).await;
    // A fenced worker gets no replay either.
    let key = own_request();
    let keyed = |epoch| Write { idempotency: Some(key), ..fenced(unfollow(a, b), &other, epoch) };
    world.done(keyed(1)).await;
    assert!(world.done(keyed(1)).await.replayed);
    world.done(fenced(follow(a, b), &other, 2)).await;
    world.refused(keyed(1), Code::Fenced).await;
}

pub(super) async fn once_taken_over_no_older_write_comes_through(world: World) {
    let users = world.many_users(9).await;
    let (a, lease, taken) = (users[0], own_lease(), Arc::new(AtomicBool::new(false)));
    world.done(fenced(follow(a, users[1]), &lease, 1)).await;
    let late = world
        .race(8, |index, store| {
            let (users, lease, taken) = (users.clone(), lease.clone(), Arc::clone(&taken));
            async move {
                let mut late = 0;
                for round in 0..40 {
                    if index == 0 && round == 20 {
                        store.commit(fenced(block(a, users[8]), &lease, 2)).await.expect("it takes over");
                        taken.store(true, Ordering::SeqCst);
                    }
                    let is_late = taken.load(Ordering::SeqCst);
                    let target = users[1 + index % 7];
                    let operation = if round % 2 == 0 { follow(a, target) } else { unfollow(a, target) };
                    let made = store.commit(fenced(operation, &lease, 1)).await;
                    late += usize::from(is_late && made.is_ok());
                    tokio::task::yield_now().await;
                }
                late
            }
        })
        .await;
    assert_eq!(late.into_iter().sum::<usize>(), 0, "writes of the one before came through");
    world.refused(fenced(follow(a, users[7]), &lease, 1), Code::Fenced).await;
}

pub(super) async fn progress_stands_with_its_effect(world: World) {
    let [a, b] = world.users().await;
    let (lease, id) = (own_lease(), RecordId::new(&own_request().scope).expect("it is an id"));
    let first = world.done(with_progress(follow(a, b), &id, Some(b"1"), Condition::Absent)).await;
    let noted = world.progress(a, &id).await.expect("it is noted");
    assert_eq!((&*noted.value, noted.version), (&b"1"[..], first.version));
    // Neither where the operation is refused, nor where the progress has changed, nor for a fenced worker.
    world.refused(with_progress(follow(a, a), &id, Some(b"2"), Condition::Any), Code::SelfFollow).await;
    for condition in [Condition::Absent, Condition::Version(entourage_model::Version::from_bits(7))] {
        world.refused(with_progress(unfollow(a, b), &id, Some(b"2"), condition), Code::RequestInProgress).await;
    }
    world.done(fenced(mute(a, b), &lease, 2)).await;
    let zombie = with_progress(fenced(unfollow(a, b), &lease, 1), &id, Some(b"2"), Condition::Any);
    world.refused(zombie, Code::Fenced).await;
    let large = vec![0; entourage_model::RECORD_MAX_BYTES + 1];
    world.refused(with_progress(unfollow(a, b), &id, Some(&large), Condition::Any), Code::InvalidRequest).await;
    assert!(world.follows(a, b).await);
    assert_eq!(world.progress(a, &id).await.as_ref(), Some(&noted));
    // Also for a no-op; and not twice for a retry.
    let key = own_request();
    let write = with_progress(follow(a, b), &id, Some(b"2"), Condition::Version(noted.version));
    let write = Write { idempotency: Some(key), ..write };
    world.done(write.clone()).await;
    assert_eq!(&*world.progress(a, &id).await.expect("it is noted").value, b"2");
    world.done(with_progress(unfollow(a, b), &id, Some(b"3"), Condition::Any)).await;
    assert!(world.done(write).await.replayed);
    assert_eq!(&*world.progress(a, &id).await.expect("it is noted").value, b"3");
    let last = with_progress(fenced(follow(a, b), &lease, 5), &id, None, Condition::Any);
    world.done(last).await;
    assert!(world.follows(a, b).await && world.progress(a, &id).await.is_none());
    world.refused(fenced(unfollow(a, b), &lease, 4), Code::Fenced).await;
}

pub(super) async fn they_survive_reopening(world: World) {
    let [a, b] = world.users().await;
    let (lease, id) = (own_lease(), RecordId::new(&own_request().scope).expect("it is an id"));
    world.done(with_progress(fenced(follow(a, b), &lease, 7), &id, Some(b"half"), Condition::Absent)).await;
    let world = world.reopened().await;
    world.refused(fenced(unfollow(a, b), &lease, 6), Code::Fenced).await;
    assert_eq!(&*world.progress(a, &id).await.expect("it is noted").value, b"half");
    world.done(fenced(unfollow(a, b), &lease, 7)).await;
}
