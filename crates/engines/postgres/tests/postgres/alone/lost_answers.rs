//! Commits whose answer is lost: a proxy between store and PostgreSQL cuts the connection around `COMMIT`.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::postgres_kit::{fresh_schema, url, words::*};
use entourage_model::{Code, Key, Kind, Reply};
use entourage_postgres as postgres;
use entourage_store::{Store, StoreExt as _, SystemClock};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::watch,
};
use tokio_postgres::config::Host;

const PASS: u8 = 0;
/// The next `COMMIT` of an event reaches PostgreSQL; nothing comes back.
const CUT_AFTER: u8 = 1;
/// The next one does not even reach it.
const CUT_BEFORE: u8 = 2;
/// As the first; then PostgreSQL cannot be reached at all.
const CUT_FOR_GOOD: u8 = 3;
const GONE: u8 = 4;

#[derive(Default)]
struct Proxy {
    mode: AtomicU8,
    cuts: AtomicU64,
    /// Everything that is connected breaks.
    gone: watch::Sender<bool>,
}

impl Proxy {
    /// The URL of a PostgreSQL behind it.
    async fn start() -> (Arc<Self>, String) {
        let config: tokio_postgres::Config = url().parse().unwrap();
        let Host::Tcp(host) = &config.get_hosts()[0] else { panic!("no TCP") };
        let behind: SocketAddr = format!("{host}:{}", config.get_ports()[0]).parse().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let proxy = Arc::new(Self::default());
        let shared = Arc::clone(&proxy);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if shared.mode.load(Ordering::SeqCst) == GONE {
                    continue;
                }
                let server = TcpStream::connect(behind).await.unwrap();
                tokio::spawn(Arc::clone(&shared).relay(client, server));
            }
        });
        let password = String::from_utf8(config.get_password().unwrap().to_vec()).unwrap();
        let (user, database) = (config.get_user().unwrap(), config.get_dbname().unwrap());
        (proxy, format!("postgres://{user}:{password}@127.0.0.1:{port}/{database}"))
    }

    async fn relay(self: Arc<Self>, mut client: TcpStream, mut server: TcpStream) {
        let (mut up, mut down) = (vec![0; 1 << 16], vec![0; 1 << 16]);
        let mut gone = self.gone.subscribe();
        loop {
            tokio::select! {
                () = async { drop(gone.wait_for(|gone| *gone).await) } => return,
                read = client.read(&mut up) => {
                    let Ok(length @ 1..) = read else { return };
                    let sent = &up[..length];
                    let is_commit = sent.windows(7).any(|bytes| bytes == b"COMMIT\0");
                    let mode = self.mode.load(Ordering::SeqCst);
                    if is_commit && mode != PASS {
                        let next = if mode == CUT_FOR_GOOD { GONE } else { PASS };
                        self.mode.store(next, Ordering::SeqCst);
                        self.cuts.fetch_add(1, Ordering::SeqCst);
                        if mode != CUT_BEFORE {
                            server.write_all(sent).await.unwrap();
                            // Its answer is read, and goes nowhere.
                            let rest = async { while let Ok(1..) = server.read(&mut down).await {} };
                            let _ = tokio::time::timeout(Duration::from_millis(300), rest).await;
                        }
                        self.gone.send_replace(mode == CUT_FOR_GOOD);
                        return;
                    }
                    if server.write_all(sent).await.is_err() {
                        return;
                    }
                }
                read = server.read(&mut down) => {
                    let Ok(length @ 1..) = read else { return };
                    if client.write_all(&down[..length]).await.is_err() {
                        return;
                    }
                }
            }
        }
    }
}

async fn behind(proxy_url: &str, schema: &str) -> Arc<dyn Store> {
    let clock = Arc::new(SystemClock);
    Arc::new(postgres::Store::connect(proxy_url, schema, postgres::Options::default(), clock).await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_whose_answer_was_lost_is_looked_up() {
    let (proxy, through) = Proxy::start().await;
    let store = behind(&through, &fresh_schema()).await;
    people(&*store, 0..=40).await;
    for (follower, mode) in (1..=20).zip([CUT_AFTER, CUT_BEFORE].into_iter().cycle()) {
        proxy.mode.store(mode, Ordering::SeqCst);
        let outcome = store.commit(follow(follower, 0).into()).await.unwrap();
        // Written once, and reported as it was: a second attempt would have found it done.
        assert!(matches!(outcome.reply, Reply::Edge { created: true, .. }), "{outcome:?}");
        assert!(store.has_seen(&outcome.watermark).await.unwrap());
        let edge = store.get_edges(Kind::Follow, &[(Key(follower), Key(0))]).await.unwrap()[0].unwrap();
        assert_eq!(edge.version, outcome.version);
    }
    assert_eq!(proxy.cuts.load(Ordering::SeqCst), 20);
    assert_eq!(counts(&*store, 0).await, (20, 0));
    events(&*store, 41 + 20).await;
    assert_clean(&*store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_nobody_can_be_asked_the_caller_is_told_so() {
    let (proxy, through) = Proxy::start().await;
    let store = behind(&through, &fresh_schema()).await;
    people(&*store, 1..=2).await;
    proxy.mode.store(CUT_FOR_GOOD, Ordering::SeqCst);
    let error = store.commit(follow(1, 2).into()).await.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable);
    assert_eq!(proxy.mode.load(Ordering::SeqCst), GONE);
    proxy.gone.send_replace(false);
    proxy.mode.store(PASS, Ordering::SeqCst);
    while store.is_away() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let edges = store.get_edges(Kind::Follow, &[(Key(1), Key(2))]).await.unwrap();
    assert!(edges[0].is_some(), "it did happen");
    assert_clean(&*store).await;
}
