//! Background work: jobs, and whatever is due.

use std::{future::Future, pin::pin, time::Duration};

use entourage_service::Service;
use tokio::time::sleep;

/// Works until `stop` completes, and finishes the current chunk of each job.
pub async fn work(service: &Service, stop: impl Future<Output = ()>) {
    let mut stop = pin!(stop);
    let mut said = None;
    loop {
        let pause = match service.jobs.work().await {
            Ok(true) => Duration::ZERO,
            Ok(false) => {
                said = None;
                service.jobs.look_interval()
            }
            Err(error) => {
                // A store that is unreachable for long is reported once.
                if said != Some(error.code()) {
                    tracing::warn!(%error, "jobs cannot go on; they are tried again");
                }
                said = Some(error.code());
                service.jobs.look_interval()
            }
        };
        tokio::select! {
            biased;
            () = &mut stop => return,
            () = sleep(pause) => {}
            () = service.jobs.wait_for_work() => {}
        }
    }
}
