//! A server on a free port of loopback, with a stop signal that the test owns.

use std::{net::SocketAddr, sync::Arc, thread::JoinHandle, time::Duration};

use entourage_memory as memory;
use entourage_model::{Clock, Secret, Uptime};
use entourage_server::{Front, Listeners, Stopped, bind, bind_resp, serve};
use entourage_service::{Rules, Service};
use entourage_store::{Identity, Store, SystemClock};
use tokio::sync::oneshot;

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    #[allow(dead_code, reason = "asked by the tests of RESP")]
    pub(crate) resp: SocketAddr,
    pub(crate) agent: ureq::Agent,
    service: Arc<Service>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Stopped>>,
}

pub(crate) fn memory_store(seed: u8) -> Arc<dyn Store> {
    memory_store_at(seed, Arc::new(SystemClock))
}

#[allow(dead_code, reason = "asked where time passes as it is told to")]
pub(crate) fn memory_store_at(seed: u8, clock: Arc<dyn Clock>) -> Arc<dyn Store> {
    let identity = Identity { epoch: u64::from(seed), secret: Secret::from_bytes([seed; 32]) };
    Arc::new(memory::Store::new(identity, clock))
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::with(memory_store(1), Rules::default())
    }

    pub(crate) fn with(store: Arc<dyn Store>, rules: Rules) -> Self {
        Self::behind(Front::development(Arc::new(SystemClock)), store, rules)
    }

    pub(crate) fn behind(front: Front, store: Arc<dyn Store>, rules: Rules) -> Self {
        Self::at(Arc::new(SystemClock), front, store, rules)
    }

    /// With a clock of its own to tell what is over.
    pub(crate) fn at(clock: Arc<dyn Clock>, front: Front, store: Arc<dyn Store>, rules: Rules) -> Self {
        Self::serving(front, store, rules, |service| service.with_clock(clock))
    }

    /// With one clock for everything.
    #[allow(dead_code, reason = "asked by the tests of non-interference")]
    pub(crate) fn timed(
        clock: Arc<dyn Clock>,
        passing: &Arc<dyn Uptime>,
        front: Front,
        store: Arc<dyn Store>,
        rules: Rules,
    ) -> Self {
        Self::serving(front, store, rules, |service| service.with_uptime(passing).with_clock(clock))
    }

    pub(crate) fn serving(
        front: Front,
        store: Arc<dyn Store>,
        rules: Rules,
        finish: impl FnOnce(Service) -> Service,
    ) -> Self {
        let (stop, stopped) = oneshot::channel();
        let (started, address) = std::sync::mpsc::channel();
        let service = Arc::new(finish(Service::new(Arc::clone(&store), rules)));
        let served = Arc::clone(&service);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            runtime.block_on(async move {
                let front = Arc::new(front);
                let free = "127.0.0.1:0".parse().unwrap();
                let http = bind(free, &front).await.unwrap();
                let resp = bind_resp(free, &front).await.unwrap();
                started.send((http.local_addr().unwrap(), resp.local_addr().unwrap())).unwrap();
                let shutdown = async move {
                    let _ = stopped.await;
                };
                serve(Listeners { http: Some(http), resp: Some(resp) }, served, store, front, shutdown).await
            })
        });
        let config =
            ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(Duration::from_secs(60)));
        let agent = config.build().new_agent();
        let (address, resp) = address.recv().unwrap();
        Self { address, resp, agent, service, stop: Some(stop), thread: Some(thread) }
    }

    /// For what a front has no request for.
    #[allow(dead_code, reason = "asked by the tests of RESP")]
    pub(crate) fn service(&self) -> &Arc<Service> {
        &self.service
    }

    /// Lets all jobs run to their end.
    pub(crate) async fn work(&self) {
        while self.service.jobs.work().await.unwrap() {}
    }

    pub(crate) fn work_now(&self) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(self.work());
    }

    /// Looks for abuse in everything that was written so far.
    #[allow(dead_code, reason = "asked by the tests of REST")]
    pub(crate) fn detect_now(&self) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(self.service.abuse.detect()).unwrap();
    }

    pub(crate) fn ask_to_stop(&mut self) {
        drop(self.stop.take());
    }

    pub(crate) fn wait(&mut self) -> Stopped {
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ask_to_stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
