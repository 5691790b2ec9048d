//! Imports and exports of a store in memory, without a process around them.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use entourage_memory as memory;
use entourage_model::{Clock, Key, KeyHasher, Operation, Outcome, Secret, UserId};
use entourage_service::{
    Export, ExportFormat, ExportKind, Limits, Rules, Service,
    import::{Form, Import, Rejects, Source, Tally},
};
use entourage_store::{Identity, Store, StoreExt as _, SystemClock};

pub const SECRET: [u8; 32] = [3; 32];

/// A store with its service, and a folder for files.
pub struct Place {
    pub store: Arc<dyn Store>,
    pub service: Arc<Service>,
    folder: PathBuf,
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Default for Place {
    fn default() -> Self {
        Self::with_secret(SECRET)
    }
}

impl Place {
    pub fn with_secret(secret: [u8; 32]) -> Self {
        let identity = Identity { epoch: 1, secret: Secret::from_bytes(secret) };
        Self::on(Arc::new(memory::Store::new(identity, Arc::new(SystemClock))))
    }

    pub fn on(store: Arc<dyn Store>) -> Self {
        let rules = Rules { limits: Limits::NONE, audit_interval: None, ..Rules::default() };
        let service = Arc::new(Service::new(Arc::clone(&store), rules));
        let folder = std::env::temp_dir().join(format!("entourage-import-{:016x}", rand::random::<u64>()));
        std::fs::create_dir_all(&folder).unwrap();
        Self { store, service, folder }
    }

    pub fn key(&self, id: &str) -> Key {
        KeyHasher::new(&self.store.identity().secret).key(&UserId::try_from(id).unwrap())
    }

    pub async fn commit(&self, operation: Operation) -> Outcome {
        self.store.commit(operation.into()).await.unwrap()
    }

    pub async fn import(&self, text: &str, form: Form) -> Tally {
        self.import_with_rejects(text, form).await.0
    }

    /// The counts of the lines, and the reason of each reject by its line.
    pub async fn import_with_rejects(&self, text: &str, form: Form) -> (Tally, BTreeMap<u64, String>) {
        let file = self.folder.join(format!("{:016x}", rand::random::<u64>()));
        let listed = file.with_extension("rejects");
        std::fs::write(&file, text).unwrap();
        let import = Import {
            sources: vec![Source::File(file)],
            form,
            create_users: true,
            following_max: None,
            now: SystemClock.now(),
        };
        let mut rejects = Rejects::open(&listed, 0).unwrap();
        let imported = import.run(&self.service.transfer, None, Some(&mut rejects), |_| {}).await.unwrap();
        let lines = std::fs::read_to_string(&listed).unwrap();
        let reason = |line: &str| {
            let words: Vec<&str> = line.split(',').collect();
            (words[1].parse().unwrap(), words[2].to_owned())
        };
        (imported.total(), lines.lines().skip(1).map(reason).collect())
    }

    /// The lines of an export, sorted.
    pub async fn export(&self, export: Export) -> Vec<String> {
        let mut out = Vec::new();
        export.run(&self.service.transfer, &mut out, |_| {}).await.unwrap();
        let mut lines: Vec<String> = String::from_utf8(out).unwrap().lines().map(str::to_owned).collect();
        lines.sort();
        lines
    }

    pub async fn edges(&self) -> Vec<String> {
        let export = Export { format: ExportFormat::Csv, kinds: vec![ExportKind::Follows] };
        self.export(export).await.into_iter().filter(|line| !line.starts_with("follower,")).collect()
    }
}
