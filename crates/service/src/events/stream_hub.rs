//! One reader of the log for all streams: it wakes those that an event is for, and nobody else.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use entourage_model::{Cause, Code, Event, EventBody, EventPositions, Key, Kind, Result, State, Version};
use entourage_store::StoreExt as _;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use super::Events;
use crate::{NotificationKind, notifications::is_seen_record};

/// How long an event that another process wrote waits at most. This one's own wake the reader at once.
const POLL: Duration = Duration::from_millis(500);
const CHUNK: usize = 1_000;
/// How many hints wait for one stream; what comes on top is found by looking.
const HINTS_MAX: usize = 64;

/// Something that may be told: to be looked at before it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hint {
    pub(crate) kind: NotificationKind,
    pub(crate) actor: Key,
    pub(crate) version: Version,
}

#[derive(Debug, Default)]
pub(crate) struct Hints {
    pub(crate) hints: Vec<Hint>,
    /// More came than were kept.
    pub(crate) too_many: bool,
    pub(crate) seen_changed: bool,
}

/// Where a stream of notifications hears of what is for its user.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    hints: Mutex<Hints>,
    filled: Notify,
}

impl Inbox {
    fn put(&self, change: impl FnOnce(&mut Hints)) {
        change(&mut self.hints.lock());
        self.filled.notify_one();
    }

    pub(crate) async fn filled(&self) {
        self.filled.notified().await;
    }

    pub(crate) fn take(&self) -> Hints {
        std::mem::take(&mut self.hints.lock())
    }
}

#[derive(Debug)]
pub(crate) struct StreamHub {
    /// Whether somebody listens: then commits wake the reader.
    wanted: AtomicBool,
    wake: Notify,
    listeners: Mutex<Listeners>,
    /// What the reader has read; `None` while it does not read.
    read_to: watch::Sender<Option<EventPositions>>,
    closed: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct Listeners {
    streams: usize,
    inboxes: HashMap<Key, Vec<Arc<Inbox>>>,
}

impl Default for StreamHub {
    fn default() -> Self {
        Self {
            wanted: AtomicBool::new(false),
            wake: Notify::new(),
            listeners: Mutex::default(),
            read_to: watch::Sender::new(None),
            closed: watch::Sender::new(false),
        }
    }
}

/// Held by a stream for as long as it listens.
#[derive(Debug)]
pub(crate) struct Listening {
    hub: Arc<StreamHub>,
    inbox: Option<(Key, Arc<Inbox>)>,
    pub(crate) read_to: watch::Receiver<Option<EventPositions>>,
    pub(crate) closed: watch::Receiver<bool>,
}

impl Listening {
    pub(crate) fn inbox(&self) -> Option<&Inbox> {
        self.inbox.as_ref().map(|(_, inbox)| &**inbox)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let mut listeners = self.hub.listeners.lock();
        listeners.streams -= 1;
        let Some((key, own)) = &self.inbox else { return };
        if let Some(inboxes) = listeners.inboxes.get_mut(key) {
            inboxes.retain(|inbox| !Arc::ptr_eq(inbox, own));
            if inboxes.is_empty() {
                listeners.inboxes.remove(key);
            }
        }
    }
}

impl StreamHub {
    /// After every commit: nothing at all while nobody listens.
    pub(crate) fn wake(&self) {
        if self.wanted.load(Ordering::SeqCst) {
            self.wake.notify_one();
        }
    }

    pub(crate) fn close(&self) {
        self.closed.send_replace(true);
    }

    pub(crate) fn closed(&self) -> watch::Receiver<bool> {
        self.closed.subscribe()
    }

    /// Returns when the reader reads: whatever is committed from then on is heard of.
    pub(crate) async fn listen(hub: &Arc<Self>, user: Option<Key>) -> Listening {
        let inbox = user.map(|user| (user, Arc::<Inbox>::default()));
        let (mut read_to, closed) = {
            let mut listeners = hub.listeners.lock();
            listeners.streams += 1;
            if let Some((user, inbox)) = &inbox {
                listeners.inboxes.entry(*user).or_default().push(Arc::clone(inbox));
            }
            (hub.read_to.subscribe(), hub.closed())
        };
        let listening = Listening { hub: Arc::clone(hub), inbox, read_to: read_to.clone(), closed };
        hub.wanted.store(true, Ordering::SeqCst);
        hub.wake.notify_one();
        let mut closing = hub.closed();
        tokio::select! {
            _ = read_to.wait_for(Option::is_some) => {}
            _ = closing.wait_for(|closed| *closed) => {}
        }
        listening
    }

    /// Stops reading when nobody listens; decided under the lock under which others begin to.
    fn is_idle(&self) -> bool {
        let listeners = self.listeners.lock();
        if listeners.streams > 0 {
            return false;
        }
        self.wanted.store(false, Ordering::SeqCst);
        self.read_to.send_replace(None);
        true
    }

    fn tell(&self, events: &[(u16, Event)]) {
        let listeners = self.listeners.lock();
        if listeners.inboxes.is_empty() {
            return;
        }
        for (_, event) in events {
            if let Some(inboxes) = is_seen_record(&event.body).and_then(|owner| listeners.inboxes.get(&owner)) {
                inboxes.iter().for_each(|inbox| inbox.put(|hints| hints.seen_changed = true));
            }
            let Some((user, hint)) = hint(event) else { continue };
            for inbox in listeners.inboxes.get(&user).into_iter().flatten() {
                inbox.put(|hints| match hints.hints.len() {
                    HINTS_MAX => hints.too_many = true,
                    _ => hints.hints.push(hint),
                });
            }
        }
    }

    fn tell_everybody_to_look(&self) {
        let listeners = self.listeners.lock();
        listeners.inboxes.values().flatten().for_each(|inbox| inbox.put(|hints| hints.too_many = true));
    }
}

/// Whom an event may be told, and as what.
fn hint(event: &Event) -> Option<(Key, Hint)> {
    let EventBody::Edge { kind: Kind::Follow, follower, target, cause, before, after, quiet: false, .. } = event.body
    else {
        return None;
    };
    if cause == Cause::Import {
        return None;
    }
    let (user, actor, kind) = match (before, after) {
        (None | Some(State::Parked), Some(State::Active)) => (target, follower, NotificationKind::Follow),
        (None | Some(State::Parked), Some(State::Pending)) => (target, follower, NotificationKind::FollowRequest),
        (Some(State::Pending), Some(State::Active)) => (follower, target, NotificationKind::RequestAccepted),
        _ => return None,
    };
    Some((user, Hint { kind, actor, version: event.version }))
}

impl Events {
    /// Reads the log while somebody listens.
    pub(crate) async fn run_hub(&self) {
        let hub = &self.context.hub;
        let mut closed = hub.closed();
        let (mut at, mut said) = (None, None);
        loop {
            // Without listeners there is nothing to poll for.
            let pause = async {
                match at {
                    Some(_) => tokio::time::sleep(POLL).await,
                    None => std::future::pending().await,
                }
            };
            let is_asked = tokio::select! {
                () = hub.wake.notified() => true,
                () = pause => false,
                _ = closed.wait_for(|closed| *closed) => return,
            };
            if hub.is_idle() {
                at = None;
                continue;
            }
            // While nothing happens, a store that looks by itself is not asked as well.
            if !is_asked && at.as_ref().is_some_and(|at| self.context.store.quiet_for(at).is_some()) {
                continue;
            }
            match self.read_on(&mut at).await {
                Ok(()) => said = None,
                Err(error) => {
                    // A store that is unreachable for long is reported once.
                    if said != Some(error.code()) {
                        tracing::warn!(code = error.code().as_str(), "streams wait for the log: {}", error.detail());
                    }
                    said = Some(error.code());
                    tokio::time::sleep(POLL).await;
                    hub.wake.notify_one();
                }
            }
        }
    }

    async fn read_on(&self, at: &mut Option<EventPositions>) -> Result<()> {
        entourage_store::fail_point("tail");
        let mut from = match at {
            Some(from) => from.clone(),
            None => {
                let last = self.context.store.last_events().await?;
                *at = Some(last.clone());
                self.context.hub.read_to.send_replace(at.clone());
                last
            }
        };
        loop {
            let events = match self.context.store.events_since(&mut from, CHUNK).await {
                Err(error) if error.code() == Code::EventsExpired => {
                    *at = None;
                    self.context.hub.tell_everybody_to_look();
                    self.context.hub.wake.notify_one();
                    return Ok(());
                }
                other => other?,
            };
            if events.is_empty() {
                *at = Some(from);
                return Ok(());
            }
            events.iter().for_each(|(partition, event)| from.advance(*partition, event.sequence));
            self.context.hub.tell(&events);
            *at = Some(from.clone());
            self.context.hub.read_to.send_replace(at.clone());
        }
    }
}
