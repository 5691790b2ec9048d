//! Tells those who wait for a client that the server shuts down.

use std::time::Duration;

use tokio::{sync::watch, time::sleep};

/// How long shutdown waits for a request that is being received.
const GRACE: Duration = Duration::from_millis(500);

pub struct Shutdown(watch::Sender<bool>);

impl Default for Shutdown {
    fn default() -> Self {
        Self(watch::Sender::new(false))
    }
}

impl Shutdown {
    pub(crate) fn begin(&self) {
        self.0.send_replace(true);
    }

    /// Completes a grace period after shutdown began.
    pub(crate) async fn after_grace(&self) {
        // The sender is `self`, so this cannot fail.
        let _ = self.0.subscribe().wait_for(|stopping| *stopping).await;
        sleep(GRACE).await;
    }
}
