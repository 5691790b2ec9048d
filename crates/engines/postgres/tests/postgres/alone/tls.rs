//! Encrypted connections to PostgreSQL: who is believed, and what is said to whom it is not.

use std::{path::PathBuf, sync::Arc};

use crate::postgres_kit::{cluster::Server, words::*};
use entourage_postgres as postgres;
use entourage_postgres::Options;
use entourage_store::{StoreExt as _, SystemClock};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

const SCHEMA: &str = "entourage";
const ENCRYPTED: &str = "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
    WHERE application_name LIKE 'entourage %'";

struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// A PostgreSQL with a certificate for this host.
    fn server_for(&self, host: &str) -> Server {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new([host.to_owned()]).unwrap().signed_by(&key, &self.issuer).unwrap();
        let files = [("server.crt", certificate.pem()), ("server.key", key.serialize_pem())];
        let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
        Server::primary_with("ssl = on", &files)
    }

    /// What clients are told to trust.
    fn file(&self) -> PathBuf {
        let file = std::env::temp_dir().join(format!("entourage-ca-{:016x}.pem", rand::random::<u64>()));
        std::fs::write(&file, &self.pem).unwrap();
        file
    }
}

fn url(server: &Server, host: &str, parameters: &str) -> String {
    format!("postgres://entourage@{host}:{}/postgres?{parameters}", server.port)
}

async fn open(url: &str) -> Result<postgres::Store, String> {
    let opened = postgres::Store::connect(url, SCHEMA, Options::default(), Arc::new(SystemClock)).await;
    opened.map_err(|error| error.to_string())
}

/// Works, and every connection is encrypted or none is.
async fn works(server: &Server, url: &str, encrypted: bool) {
    let store = open(url).await.unwrap_or_else(|error| panic!("{url}: {error}"));
    people(&store, 1..=2).await;
    store.commit(follow(1, 2).into()).await.unwrap();
    store.commit(unfollow(1, 2).into()).await.unwrap();
    let row = server.raw().await.query_one(ENCRYPTED, &[]).await.unwrap();
    assert_eq!(row.get::<_, Option<bool>>(0), Some(encrypted), "{url}");
    entourage_store::Store::close(&store).await.unwrap();
    assert!(postgres::look(url, SCHEMA).await.is_ok());
}

async fn fails(url: &str, said: &str) {
    let error = open(url).await.err().unwrap_or_else(|| panic!("{url} is let in"));
    assert!(error.contains(said), "{url}: {error}");
    let error = postgres::look(url, SCHEMA).await.unwrap_err().to_string();
    assert!(error.contains(said), "{url}: {error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn whom_a_connection_believes() {
    let (authority, other) = (Authority::new(), Authority::new());
    let (trusted, wrong) = (authority.file(), other.file());
    let server = authority.server_for("localhost");
    let with = |mode: &str, file: &PathBuf| format!("sslmode={mode}&sslrootcert={}", file.display());

    works(&server, &url(&server, "localhost", &with("verify-full", &trusted)), true).await;
    works(&server, &url(&server, "127.0.0.1", &with("verify-ca", &trusted)), true).await;
    works(&server, &url(&server, "127.0.0.1", "sslmode=require"), true).await;
    works(&server, &url(&server, "127.0.0.1", "sslmode=prefer"), true).await;
    works(&server, &url(&server, "127.0.0.1", "target_session_attrs=read-write"), true).await;
    works(&server, &url(&server, "127.0.0.1", "sslmode=disable"), false).await;
    // Two hosts, of which the first is not there.
    let two = format!(
        "postgres://entourage@localhost:1,localhost:{}/postgres?target_session_attrs=read-write&{}",
        server.port,
        with("verify-full", &trusted)
    );
    works(&server, &two, true).await;

    fails(&url(&server, "127.0.0.1", &with("verify-full", &trusted)), "for another host").await;
    let unknown = "not signed by a CA that sslrootcert";
    for mode in ["verify-full", "verify-ca", "require"] {
        fails(&url(&server, "localhost", &with(mode, &wrong)), unknown).await;
    }
    fails(&url(&server, "localhost", "sslmode=verify-full"), unknown).await;
    fails(&url(&server, "localhost", "sslmode=verify-full&sslrootcert=/nowhere.pem"), "sslrootcert=/nowhere.pem").await;
    fails(&url(&server, "localhost", "sslmode=on"), "disable, prefer, require, verify-ca, verify-full").await;

    let plain = Server::primary();
    for mode in ["require", "verify-ca", "verify-full"] {
        fails(&url(&plain, "localhost", &with(mode, &trusted)), "does not offer TLS").await;
    }
    works(&plain, &url(&plain, "127.0.0.1", "sslmode=prefer"), false).await;
    for file in [trusted, wrong] {
        std::fs::remove_file(file).unwrap();
    }
}
