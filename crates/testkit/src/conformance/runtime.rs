//! The one runtime of all cases: what a shared store spawned in one case still runs in the next.

use std::{future::Future, sync::OnceLock};

use tokio::runtime::{Builder, Runtime};

pub fn block_on<F: Future>(work: F) -> F::Output {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME
        .get_or_init(|| Builder::new_multi_thread().worker_threads(4).enable_all().build().expect("the runtime starts"))
        .block_on(work)
}
