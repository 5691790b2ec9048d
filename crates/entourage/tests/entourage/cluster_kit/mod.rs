//! Several real servers on one PostgreSQL schema.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    postgres_kit::Database,
    server_kit::{Client, Folder, Serving, command, text},
};

const BATCH: usize = 1_000;

/// A database with servers on it, each with a folder of its own.
pub(crate) struct Cluster {
    pub(crate) servers: Vec<Serving>,
    pub(crate) database: Database,
    folder: Folder,
}

impl Cluster {
    /// One server for each of these roles, with the same settings.
    pub(crate) fn start(roles: &[&str], settings: &[(&str, &str)]) -> Self {
        let mut cluster = Self { servers: Vec::new(), database: Database::new(), folder: Folder::new() };
        for roles in roles {
            cluster.add(roles, settings);
        }
        cluster
    }

    pub(crate) fn add(&mut self, roles: &str, settings: &[(&str, &str)]) {
        let data = self.folder.join(&format!("server-{}", self.servers.len()));
        self.servers.push(serve(&self.database.url, &data, roles, settings));
    }

    pub(crate) fn client(&self, index: usize) -> Client {
        Client::new(&self.servers[index].base)
    }

    pub(crate) fn verify(&self) {
        let output = self.database.run(&["verify"]);
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("clean"), "{output:?}");
    }
}

/// A server on this PostgreSQL.
pub(crate) fn serve(url: &str, data: &Path, roles: &str, settings: &[(&str, &str)]) -> Serving {
    let mut command = command(&["serve", "--http", "127.0.0.1:0", "--data", text(data), "--roles", roles]);
    command.env("ENTOURAGE_STORE__URL", url).env("ENTOURAGE_USERS__AUTO_CREATE", "true");
    command.envs(settings.iter().map(|(name, value)| (format!("ENTOURAGE_{name}"), *value)));
    Serving::start_as(&mut command)
}

pub(crate) fn is_soak() -> bool {
    std::env::var_os("ENTOURAGE_SOAK").is_some_and(|value| value == "1")
}

pub(crate) fn id_of(client: &Client) -> String {
    let seen = client.get("/api/v1/admin/servers").body;
    let this = seen["data"].as_array().unwrap().iter().find(|server| server["this"] == true).cloned().unwrap();
    this["id"].as_str().unwrap().to_owned()
}

/// The epoch of a lease, and who holds it.
pub(crate) fn lease(client: &Client, name: &str) -> (u64, String) {
    let seen = client.get("/api/v1/admin/servers").body;
    let lease = seen["leases"].as_array().unwrap().iter().find(|lease| lease["name"] == name).cloned().unwrap();
    (lease["epoch"].as_u64().unwrap(), lease["holder"].as_str().unwrap_or_default().to_owned())
}

/// Asks again and again until there is an answer to give; how long that took.
pub(crate) fn wait_for<T>(what: &str, at_most: Duration, mut look: impl FnMut() -> Option<T>) -> (T, Duration) {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return (found, began.elapsed());
        }
        assert!(began.elapsed() < at_most, "{what}: not within {at_most:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

pub(crate) fn follow(client: &Client, who: &str, target: &str) -> (u16, String) {
    let heard = client.ask("PUT", &format!("/api/v1/users/{who}/following/{target}"), "").expect("an answer");
    (heard.status, heard.code().to_owned())
}

/// Lets one follow all of them, over all servers at once.
pub(crate) fn follows_all(cluster: &Cluster, follower: &str, targets: &[String]) {
    in_batches(cluster, targets, |target| json!({ "op": "follow", "follower": follower, "target": target }));
}

fn in_batches(cluster: &Cluster, ids: &[String], operation: impl Fn(&String) -> Value + Sync) {
    let batch = (ids.len().div_ceil(8)).clamp(1, BATCH);
    std::thread::scope(|scope| {
        for (index, some) in ids.chunks(batch).enumerate() {
            let (client, operation) = (cluster.client(index % cluster.servers.len()), &operation);
            scope.spawn(move || {
                for some in some.chunks(200) {
                    let operations: Vec<Value> = some.iter().map(operation).collect();
                    let body = json!({ "operations": operations }).to_string();
                    let heard = client.ask("POST", "/api/v1/follows:batch", &body).expect("an answer");
                    let refused = heard.body["results"].as_array().unwrap().iter().find(|one| !one["code"].is_null());
                    assert_eq!(refused, None);
                }
            });
        }
    });
}
