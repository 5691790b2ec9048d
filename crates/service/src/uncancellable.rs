//! Work that runs to its end although its caller is gone.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use tokio::runtime::Handle;

/// Runs in the task that awaits it. If that is dropped half-way, a task of its own takes over.
pub(crate) struct Uncancellable<F>
where
    F: Future<Output: Send> + Send + 'static,
{
    work: Option<Pin<Box<F>>>,
}

impl<F> Uncancellable<F>
where
    F: Future<Output: Send> + Send + 'static,
{
    pub(crate) fn new(work: F) -> Self {
        Self { work: Some(Box::pin(work)) }
    }
}

impl<F> Future for Uncancellable<F>
where
    F: Future<Output: Send> + Send + 'static,
{
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // Taken out, so that work which panicked is never polled again.
        let Some(mut work) = self.work.take() else { return Poll::Pending };
        let polled = work.as_mut().poll(context);
        if polled.is_pending() {
            self.work = Some(work);
        }
        polled
    }
}

impl<F> Drop for Uncancellable<F>
where
    F: Future<Output: Send> + Send + 'static,
{
    fn drop(&mut self) {
        // Without a runtime the process is ending.
        if let Some(work) = self.work.take()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(work);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        panic::AssertUnwindSafe,
        sync::{
            Arc,
            atomic::{AtomicU32, Ordering},
        },
        time::Duration,
    };

    use tokio::{sync::oneshot, time::timeout};

    use super::*;

    #[tokio::test]
    async fn the_caller_gets_the_outcome() {
        assert_eq!(Uncancellable::new(async { 7 }).await, 7);
    }

    #[tokio::test]
    async fn dropped_work_goes_on() {
        let (begin, begun) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let work = Uncancellable::new(async move {
            let begun: u32 = begun.await.unwrap();
            end.send(begun + 1).unwrap();
        });
        assert!(timeout(Duration::from_millis(1), work).await.is_err());
        begin.send(1).unwrap();
        assert_eq!(ended.await.unwrap(), 2);
    }

    #[tokio::test]
    async fn work_that_panicked_is_not_polled_again() {
        let polls = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&polls);
        let mut work = Uncancellable::new(std::future::poll_fn(move |_| -> Poll<()> {
            counted.fetch_add(1, Ordering::SeqCst);
            panic!("work went wrong");
        }));
        let mut context = Context::from_waker(std::task::Waker::noop());
        let polled = std::panic::catch_unwind(AssertUnwindSafe(|| Pin::new(&mut work).poll(&mut context).is_ready()));
        assert!(polled.is_err());
        drop(work);
        tokio::task::yield_now().await;
        assert_eq!(polls.load(Ordering::SeqCst), 1);
    }
}
