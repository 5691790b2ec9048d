//! What a server does when nobody asks: jobs, and what has come to its time.

use std::{future::Future, pin::pin, time::Duration};

use entourage_service::Service;
use tokio::time::sleep;

/// How often to look for what another server left, and for what is due.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Works until `stop` completes; what has begun then is finished first, and it is no more than a chunk of each job.
pub async fn work(service: &Service, stop: impl Future<Output = ()>) {
    let mut stop = pin!(stop);
    let mut said = None;
    loop {
        let pause = match service.work().await {
            Ok(true) => Duration::ZERO,
            Ok(false) => {
                said = None;
                LOOK_INTERVAL
            }
            Err(error) => {
                // A store that is out of reach for long is said once.
                if said != Some(error.code()) {
                    tracing::warn!(%error, "jobs cannot go on; they are tried again");
                }
                said = Some(error.code());
                LOOK_INTERVAL
            }
        };
        tokio::select! {
            biased;
            () = &mut stop => return,
            () = sleep(pause) => {}
            () = service.wait_for_work() => {}
        }
    }
}
