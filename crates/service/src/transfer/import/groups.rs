//! Which group a line means: by the id that an export wrote, or by its name; in the store, or earlier in the files.

use std::collections::HashMap;

use entourage_model::{Key, Result, Space, Version};
use entourage_store::StoreExt as _;

use crate::{
    Context,
    graph::group::{GROUPS_MAX, read},
};

/// At least this many are remembered. Those that are on their way into the store are far fewer.
const REMEMBERED: usize = 200_000;

type Names = HashMap<(Key, Box<str>), Version>;

#[derive(Default)]
pub(super) struct Groups {
    newer: Names,
    older: Names,
}

impl Groups {
    pub(super) fn add(&mut self, owner: Key, id: Version, name: &str) {
        if self.newer.len() >= REMEMBERED {
            self.older = std::mem::take(&mut self.newer);
        }
        // A group whose name is the id of another one has to be meant by its own id.
        self.newer.entry((owner, name.into())).or_insert(id);
        self.newer.insert((owner, id.to_string().into()), id);
    }

    pub(super) async fn find(&mut self, context: &Context, owner: Key, group: &str) -> Result<Option<Version>> {
        if let Some(known) = self.known(owner, group) {
            return Ok(Some(known));
        }
        for record in context.store.scan_records(Space::Group, owner, None, GROUPS_MAX as usize).await? {
            let group = read(&record)?;
            self.add(owner, group.id, &group.name);
        }
        Ok(self.known(owner, group))
    }

    fn known(&self, owner: Key, group: &str) -> Option<Version> {
        let wanted = (owner, group.into());
        self.newer.get(&wanted).or_else(|| self.older.get(&wanted)).copied()
    }
}
