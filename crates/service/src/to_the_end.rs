//! Work that goes on when whoever waits for it goes away.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use tokio::runtime::Handle;

/// Runs where it is waited for; a task of its own takes over what is given up half-way.
pub(crate) struct ToTheEnd<F>
where
    F: Future<Output: Send> + Send + 'static,
{
    work: Option<Pin<Box<F>>>,
}

impl<F> ToTheEnd<F>
where
    F: Future<Output: Send> + Send + 'static,
{
    pub(crate) fn new(work: F) -> Self {
        Self { work: Some(Box::pin(work)) }
    }
}

impl<F> Future for ToTheEnd<F>
where
    F: Future<Output: Send> + Send + 'static,
{
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // Taken out, so that work which panics is not gone on with.
        let Some(mut work) = self.work.take() else { return Poll::Pending };
        let polled = work.as_mut().poll(context);
        if polled.is_pending() {
            self.work = Some(work);
        }
        polled
    }
}

impl<F> Drop for ToTheEnd<F>
where
    F: Future<Output: Send> + Send + 'static,
{
    fn drop(&mut self) {
        // Without a runtime the whole process is at its end.
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
    async fn whoever_waits_has_what_came_of_it() {
        assert_eq!(ToTheEnd::new(async { 7 }).await, 7);
    }

    #[tokio::test]
    async fn what_is_given_up_half_way_goes_on() {
        let (begin, begun) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let work = ToTheEnd::new(async move {
            let begun: u32 = begun.await.unwrap();
            end.send(begun + 1).unwrap();
        });
        assert!(timeout(Duration::from_millis(1), work).await.is_err());
        begin.send(1).unwrap();
        assert_eq!(ended.await.unwrap(), 2);
    }

    #[tokio::test]
    async fn work_that_panics_is_not_gone_on_with() {
        let polls = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&polls);
        let mut work = ToTheEnd::new(std::future::poll_fn(move |_| -> Poll<()> {
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
