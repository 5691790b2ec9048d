//! The end of a server, as those hear of it who wait for a client that may never finish what it has begun.

use std::time::Duration;

use tokio::{sync::watch, time::sleep};

/// How long a request that is on its way is waited for.
const GRACE: Duration = Duration::from_millis(500);

pub struct Stopping(watch::Sender<bool>);

impl Default for Stopping {
    fn default() -> Self {
        Self(watch::Sender::new(false))
    }
}

impl Stopping {
    pub(crate) fn begin(&self) {
        self.0.send_replace(true);
    }

    /// Completes a moment after the server began to stop.
    pub(crate) async fn has_waited(&self) {
        // The sender is here, so that it does not go away.
        let _ = self.0.subscribe().wait_for(|stopping| *stopping).await;
        sleep(GRACE).await;
    }
}
