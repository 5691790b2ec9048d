//! Header timeouts. The first request, and the rest of each one that has begun, must arrive soon; between requests there
//! is more time, so that clients and proxies can keep connections open.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

use hyper::rt::{Sleep, Timer};
use hyper_util::rt::TokioTimer;

/// Between a response and the first byte of the next request.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(75);

/// What a connection has received so far.
#[derive(Debug, Default)]
pub(crate) struct Received {
    bytes: AtomicU64,
    /// Whether a whole request head has arrived.
    request: AtomicBool,
}

impl Received {
    pub(crate) fn bytes(&self, count: usize) {
        self.bytes.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(crate) fn request(&self) {
        self.request.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_request(&self) -> bool {
        self.request.load(Ordering::Relaxed)
    }
}

/// The timer of hyper's header timeout.
pub(crate) struct HeaderTimer {
    pub(crate) received: Arc<Received>,
    pub(crate) timeout: Duration,
}

impl Timer for HeaderTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        TokioTimer::new().sleep(duration)
    }

    fn now(&self) -> Instant {
        tokio::time::Instant::now().into_std()
    }

    /// Called when the headers of a request are read next.
    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        let has_begun = !self.received.has_request();
        let deadline = if has_begun { deadline } else { self.now() + KEEP_ALIVE };
        Box::pin(HeaderSleep {
            sleep: Box::pin(tokio::time::sleep_until(deadline.into())),
            received: Arc::clone(&self.received),
            before: self.received.bytes.load(Ordering::Relaxed),
            has_begun,
            timeout: self.timeout,
        })
    }
}

/// Waits for a request to begin, and then for its headers.
struct HeaderSleep {
    sleep: Pin<Box<tokio::time::Sleep>>,
    received: Arc<Received>,
    before: u64,
    has_begun: bool,
    timeout: Duration,
}

impl Sleep for HeaderSleep {}

impl Future for HeaderSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if !self.has_begun && self.received.bytes.load(Ordering::Relaxed) != self.before {
            self.has_begun = true;
            let deadline = tokio::time::Instant::now() + self.timeout;
            self.sleep.as_mut().reset(deadline);
        }
        self.sleep.as_mut().poll(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(10);

    async fn waited(received: &Arc<Received>, byte_after: Option<Duration>) -> Duration {
        let timer = HeaderTimer { received: Arc::clone(received), timeout: TIMEOUT };
        let (began, mut sleep) = (tokio::time::Instant::now(), timer.sleep_until(timer.now() + TIMEOUT));
        if let Some(after) = byte_after {
            tokio::select! {
                () = &mut sleep => return began.elapsed(),
                () = tokio::time::sleep(after) => received.bytes(1),
            }
        }
        sleep.await;
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn between_requests_there_is_more_time_than_within_one() {
        let received = Arc::new(Received::default());
        let seconds = Duration::from_secs;
        let about = |wanted: u64, found: Duration| found.as_secs_f64().round() as u64 == wanted;
        assert!(about(10, waited(&received, None).await), "nobody asks");
        assert!(about(10, waited(&received, Some(seconds(7))).await), "the first request is slow");
        received.request();
        assert!(about(75, waited(&received, None).await), "nobody asks again");
        assert!(about(40, waited(&received, Some(seconds(30))).await), "the next request is slow");
    }
}
