//! A read that has to wait for the disk holds up nobody: whatever else runs on its thread goes on.

use std::{future::Future, io, pin::pin, sync::Arc, time::Duration};

use crate::embedded_kit::{identity, still_clock};
use entourage_embedded::{Options, Store};
use entourage_model::{
    Condition, IdempotencyKey, Key, Kind, List, Operation, Overwrite, Plane, RecordId, Sequence, Side, Space, UserId,
    UserPatch, Write,
};
use entourage_store::{Answer, Store as _, StoreExt as _, disk::DiskFile};
use entourage_testkit::{
    crash_disk::CrashDisk,
    hooked_disk::{DiskHooks, HookedDisk},
};
use parking_lot::{Condvar, Mutex};

/// So long a read waits before it fails: a test that waits for itself ends.
const PATIENCE: Duration = Duration::from_secs(5);

/// Nothing is read while it is closed.
#[derive(Default)]
struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Default)]
struct GateState {
    closed: bool,
    waiting: usize,
}

impl Gate {
    fn close(&self) {
        self.state.lock().closed = true;
    }

    fn open(&self) {
        self.state.lock().closed = false;
        self.changed.notify_all();
    }

    fn waiting(&self) -> usize {
        self.state.lock().waiting
    }

    fn pass(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        state.waiting += 1;
        let in_time = !self.changed.wait_while_for(&mut state, |state| state.closed, PATIENCE).timed_out();
        state.waiting -= 1;
        if in_time { Ok(()) } else { Err(io::ErrorKind::TimedOut.into()) }
    }
}

impl DiskHooks for Gate {
    fn read_at(&self, inner: &dyn DiskFile, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.pass()?;
        inner.read_at(buffer, offset)
    }

    fn try_read_at(&self, inner: &dyn DiskFile, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if self.state.lock().closed {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        inner.try_read_at(buffer, offset)
    }
}

const USERS: i64 = 300;
const KEY: IdempotencyKey = IdempotencyKey { scope: [9; 16], request: 9 };

fn record_id() -> RecordId {
    RecordId::new(b"a group").unwrap()
}

/// Everybody follows user 0, user 1 no longer does; a record, a post and a retry; all of it in blocks.
async fn fill(store: &Store) {
    let write = async |operation: Operation| store.commit(operation.into()).await.unwrap();
    for number in 0..USERS {
        let (key, id, patch) = (Key(number), UserId::from(number), UserPatch::default());
        write(Operation::PutUser { key, id, patch, overwrite: Overwrite::Replace }).await;
    }
    for number in 1..USERS {
        write(Operation::Follow { follower: Key(number), target: Key(0), quiet: None, cap: None, park: false }).await;
    }
    write(Operation::Unfollow { follower: Key(1), target: Key(0) }).await;
    let value = Some(b"friends".as_slice().into());
    let (space, owner, condition) = (Space::Group, Key(3), Condition::Any);
    write(Operation::PutRecord { space, owner, id: record_id(), value, condition, cap: None }).await;
    write(Operation::Post { author: Key(4), value: entourage_model::Post::new(false, "hello").encode() }).await;
    store.commit(Write { idempotency: Some(KEY), ..Operation::Nothing.into() }).await.unwrap();
    store.checkpoint().await.unwrap();
}

/// One thread for everything but what waits.
fn on_one_thread(test: impl AsyncFnOnce(Arc<Store>, Arc<Gate>)) {
    let gate = Arc::new(Gate::default());
    let disk = HookedDisk::over(CrashDisk::new(), &gate);
    let store = Store::open_as(disk, "the test disk", Options::tiny(), still_clock(), identity).unwrap();
    let store = Arc::new(store);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        fill(&store).await;
        test(Arc::clone(&store), Arc::clone(&gate)).await;
        store.close().await.unwrap();
    });
}

/// A read meets a closed gate: it waits, others go on, and when the gate opens it says what it says otherwise.
async fn holds_up_nobody<T: std::fmt::Debug>(gate: &Gate, what: &str, read: impl AsyncFn() -> T) {
    let expected = format!("{:?}", read().await);
    gate.close();
    let mut waiting = pin!(read());
    for _ in 0..20 {
        tokio::select! {
            biased;
            early = &mut waiting => panic!("{what} ended behind a closed gate: {early:?}"),
            () = tokio::time::sleep(Duration::from_millis(1)) => {}
        }
    }
    assert_eq!(gate.waiting(), 1, "{what} has read nothing");
    gate.open();
    let found = tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("{what} never ended"));
    assert_eq!(format!("{found:?}"), expected, "{what}");
}

#[test]
fn reads_that_wait_for_the_disk_hold_up_nobody() {
    on_one_thread(async |store, gate| {
        let followers = List::new(Key(0), Plane::Follow, Side::Followers);
        holds_up_nobody(&gate, "scan", async || store.scan(followers, None, 10).await.unwrap()).await;
        holds_up_nobody(&gate, "scan_up", async || store.scan_up(followers, None, 10).await.unwrap()).await;
        let pairs = [(Key(2), Key(0)), (Key(5), Key(6)), (Key(1), Key(0))];
        holds_up_nobody(&gate, "get_edges", async || store.get_edges(Kind::Follow, &pairs).await.unwrap()).await;
        holds_up_nobody(&gate, "events", async || store.events_after(Sequence(5), 10).await.unwrap()).await;
        holds_up_nobody(&gate, "history", async || store.scan_history(Key(1), None, 10).await.unwrap()).await;
        let ids = [(Key(3), record_id())];
        holds_up_nobody(&gate, "get_records", async || store.get_records(Space::Group, &ids).await.unwrap()).await;
        let posts = async || store.scan_each(Space::Post, &[Key(4)], None, 10).await.unwrap();
        holds_up_nobody(&gate, "posts", posts).await;
        holds_up_nobody(&gate, "replay", async || store.replay(KEY).await.unwrap()).await;
    });
}

#[test]
fn what_memory_answers_asks_no_disk() {
    on_one_thread(async |store, gate| {
        gate.close();
        assert_eq!(store.peek(Kind::Follow, Key(2), Key(0)), Answer::Yes);
        let mut reads = pin!(async {
            assert_eq!(store.get_counts(Key(0)).await.unwrap().unwrap().followers, USERS as u64 - 2);
            assert!(store.get_users(&[Key(7)]).await.unwrap()[0].is_some());
            assert_eq!(store.sweep(0, None, 10).await.unwrap().users.len(), 10);
            assert_eq!(store.get_edges(Kind::Follow, &[(Key(0), Key(2))]).await.unwrap(), [None]);
            assert!(
                store.scan(List::new(Key(0), Plane::Follow, Side::Following), None, 5).await.unwrap().edges.is_empty()
            );
            assert!(store.events_after(store.last_event(0).await.unwrap(), 5).await.unwrap().is_empty());
        });
        // It needs no thread but this one.
        let mut polls = 0;
        std::future::poll_fn(|context| {
            polls += 1;
            reads.as_mut().poll(context)
        })
        .await;
        assert_eq!((polls, gate.waiting()), (1, 0));
        gate.open();
    });
}
