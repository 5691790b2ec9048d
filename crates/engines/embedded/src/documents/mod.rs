//! Records and history, in lists by owner: changes in an in-memory delta, the rest in blocks. The same layers as edges;
//! for each id the newest layer wins.

pub(crate) mod document_block;
pub(crate) mod history;

use std::{
    collections::BTreeMap,
    ops::Bound,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use entourage_model::{Ended, Key, Space, Version};
use hashbrown::HashMap;
use parking_lot::{Mutex, RwLock};

use crate::{
    blocks::files::{BlockFiles, Blocks},
    documents::document_block::{Collection, CollectionKey, Document, DocumentId, Named},
    fault::Fault,
    state::lists::BlockRef,
};

const SHARDS: usize = 64;
/// Attempts of a read whose blocks are moved meanwhile.
const RETRIES: usize = 16;
const REMOVALS_LIMIT: u32 = 8_192;

/// A block and the smallest id in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DocumentBlock {
    pub(crate) first: DocumentId,
    pub(crate) block: BlockRef,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct DocumentList {
    pub(crate) count: u64,
    /// Ordered by first id.
    pub(crate) blocks: Vec<DocumentBlock>,
    /// The owner was erased during a checkpoint: the frozen delta no longer counts.
    pub(crate) forgotten: bool,
    /// Tombstones in the delta, which scans have to skip.
    removals: u32,
}

impl DocumentList {
    /// The blocks from the one that may hold the first id above `after`, until they have more than `wanted` documents
    /// above it, and one more that marks the end.
    fn blocks_above(&self, after: &[u8], wanted: usize) -> &[DocumentBlock] {
        let first = self.blocks.partition_point(|bounded| *bounded.first <= *after).saturating_sub(1);
        let mut found = 0;
        // How many documents of the first block are above `after` is known only once it is read.
        let enough = self.blocks.iter().skip(first + 1).position(|bounded| {
            found += bounded.block.count as usize;
            found > wanted
        });
        let until = enough.map_or(self.blocks.len(), |enough| (first + enough + 3).min(self.blocks.len()));
        &self.blocks[first..until]
    }
}

/// Changes of a list by id; `None` is a tombstone. New documents come at either end: lists shown newest first have
/// descending ids.
pub(crate) type DocumentDelta = BTreeMap<DocumentId, Option<Document>>;

#[derive(Default)]
pub(crate) struct DocumentShard {
    pub(crate) lists: HashMap<CollectionKey, DocumentList>,
    delta: HashMap<CollectionKey, DocumentDelta>,
    pub(crate) frozen: Arc<HashMap<CollectionKey, DocumentDelta>>,
}

pub(crate) struct Documents {
    shards: Vec<RwLock<DocumentShard>>,
    /// Blocks of erased owners. Only the checkpoint writer counts them as dead: no file may die while a manifest is
    /// written.
    retired: Mutex<Vec<BlockRef>>,
    delta_bytes: AtomicU64,
    frozen_bytes: AtomicU64,
    lists: AtomicU64,
}

impl Default for Documents {
    fn default() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
            retired: Mutex::default(),
            delta_bytes: AtomicU64::new(0),
            frozen_bytes: AtomicU64::new(0),
            lists: AtomicU64::new(0),
        }
    }
}

impl DocumentShard {
    /// The newest delta entry for an id, if any.
    fn in_deltas(&self, key: CollectionKey, id: &[u8]) -> Option<&Option<Document>> {
        let newer = self.delta.get(&key).and_then(|delta| delta.get(id));
        newer.or_else(|| self.frozen_of(key)?.get(id))
    }

    fn frozen_of(&self, key: CollectionKey) -> Option<&DocumentDelta> {
        let forgotten = self.lists.get(&key).is_some_and(|list| list.forgotten);
        self.frozen.get(&key).filter(|_| !forgotten)
    }

    /// The delta entries above `after` with up to `enough` documents, and the id up to which they are complete, `None`
    /// for the end.
    fn above(&self, key: CollectionKey, after: &[u8], enough: usize) -> (DocumentDelta, Option<DocumentId>) {
        let (mut words, older) = begin(self.frozen_of(key), after, enough);
        let (newest, newer) = begin(self.delta.get(&key), after, enough);
        words.extend(newest);
        (words, [newer, older].into_iter().flatten().min())
    }
}

/// [`DocumentShard::above`] for one delta.
fn begin(delta: Option<&DocumentDelta>, after: &[u8], enough: usize) -> (DocumentDelta, Option<DocumentId>) {
    let (mut words, mut live) = (DocumentDelta::new(), 0);
    let rest = delta.map(|delta| delta.range::<[u8], _>((Bound::Excluded(after), Bound::Unbounded)));
    for (id, document) in rest.into_iter().flatten() {
        live += usize::from(document.is_some());
        if live > enough {
            let last = words.last_key_value().map_or_else(|| after.into(), |(last, _)| last.clone());
            return (words, Some(last));
        }
        words.insert(id.clone(), document.clone());
    }
    (words, None)
}

impl Documents {
    pub(crate) fn shards(&self) -> &[RwLock<DocumentShard>] {
        &self.shards
    }

    pub(crate) fn shard(&self, key: CollectionKey) -> &RwLock<DocumentShard> {
        &self.shards[key.hash() as usize % SHARDS]
    }

    /// Writes or removes a document. `grows` is the change in the number of documents. Returns whether scans have so
    /// many tombstones to skip that a checkpoint is due.
    pub(crate) fn set(&self, key: CollectionKey, id: &[u8], document: Option<Document>, grows: i64) -> bool {
        let bytes = 96 + id.len() + document.as_ref().map_or(0, |document| document.value.len());
        self.delta_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        let mut shard = self.shard(key).write();
        let list = shard.lists.entry(key).or_insert_with(|| {
            self.lists.fetch_add(1, Ordering::Relaxed);
            DocumentList::default()
        });
        list.count = list.count.saturating_add_signed(grows);
        list.removals += u32::from(document.is_none());
        let crowded = list.removals >= REMOVALS_LIMIT;
        shard.delta.entry(key).or_default().insert(id.into(), document);
        crowded
    }

    pub(crate) fn remember(&self, follower: Key, ended: &Ended) {
        let key = CollectionKey { owner: follower, collection: Collection::History };
        let document = Document { version: ended.ended, value: history::encode(ended) };
        self.set(key, &history::id(ended.ended), Some(document), 1);
    }

    /// Drops everything of an owner at once, except posts, which are removed one by one.
    pub(crate) fn forget(&self, owner: Key) {
        for collection in Collection::all().filter(|collection| *collection != Collection::Records(Space::Post)) {
            let key = CollectionKey { owner, collection };
            let mut shard = self.shard(key).write();
            shard.delta.remove(&key);
            let set_aside = shard.frozen.contains_key(&key);
            let Some(list) = shard.lists.get_mut(&key) else { continue };
            self.retired.lock().extend(list.blocks.drain(..).map(|bounded| bounded.block));
            (list.count, list.removals) = (0, 0);
            list.forgotten = set_aside;
            if !set_aside {
                shard.lists.remove(&key);
                self.lists.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    pub(crate) fn count(&self, key: CollectionKey) -> u64 {
        self.shard(key).read().lists.get(&key).map_or(0, |list| list.count)
    }

    pub(crate) fn get<'a>(
        &self,
        files: impl Into<Blocks<'a>>,
        key: CollectionKey,
        id: &[u8],
    ) -> Result<Option<Document>, Fault> {
        let files = files.into();
        retry(|| {
            let block = {
                let shard = self.shard(key).read();
                let Some(list) = shard.lists.get(&key) else { return Ok(None) };
                if let Some(word) = shard.in_deltas(key, id) {
                    return Ok(word.clone());
                }
                let at = list.blocks.partition_point(|block| *block.first <= *id);
                match at.checked_sub(1).and_then(|at| list.blocks.get(at)) {
                    Some(bounded) => bounded.block,
                    None => return Ok(None),
                }
            };
            let found = files.read_documents(key, block)?.into_iter().find(|(known, _)| **known == *id);
            Ok(found.map(|(_, document)| document))
        })
    }

    /// Up to `limit` documents with ids above `after`, in id order.
    pub(crate) fn scan<'a>(
        &self,
        files: impl Into<Blocks<'a>>,
        key: CollectionKey,
        after: &[u8],
        limit: usize,
    ) -> Result<Vec<Named>, Fault> {
        let files = files.into();
        retry(|| self.scan_once(files, key, after, limit))
    }

    fn scan_once(
        &self,
        files: Blocks<'_>,
        key: CollectionKey,
        after: &[u8],
        limit: usize,
    ) -> Result<Vec<Named>, Fault> {
        let mut reach = limit;
        loop {
            let (found, whole) = self.scan_deltas(files, key, after, limit, reach)?;
            if found.len() >= limit || whole {
                return Ok(found);
            }
            // Tombstones of a newer layer hid too many.
            reach = reach.saturating_mul(16).saturating_add(64);
        }
    }

    /// Scans up to `reach` documents of each delta. Also returns whether that was everything.
    fn scan_deltas(
        &self,
        files: Blocks<'_>,
        key: CollectionKey,
        after: &[u8],
        limit: usize,
        reach: usize,
    ) -> Result<(Vec<Named>, bool), Fault> {
        let (mut words, horizon, blocks) = {
            let shard = self.shard(key).read();
            let Some(list) = shard.lists.get(&key) else { return Ok((Vec::new(), true)) };
            let (words, horizon) = shard.above(key, after, reach);
            let removed = words.values().filter(|document| document.is_none()).count();
            (words, horizon, list.blocks_above(after, limit.saturating_add(removed)).to_vec())
        };
        for (index, bounded) in blocks.iter().enumerate() {
            for (id, document) in files.read_documents(key, bounded.block)? {
                if *id > *after {
                    words.entry(id).or_insert(Some(document));
                }
            }
            let Some(next) = blocks.get(index + 1) else { break };
            let sure = words.range(..next.first.clone()).filter(|(_, document)| document.is_some()).take(limit);
            if sure.count() == limit {
                break;
            }
        }
        let known = words.into_iter().take_while(|(id, _)| horizon.as_ref().is_none_or(|horizon| id <= horizon));
        let found = known.filter_map(|(id, document)| Some((id, document?))).take(limit).collect();
        Ok((found, horizon.is_none()))
    }

    /// Freezes the deltas for a checkpoint.
    pub(crate) fn freeze(&self) {
        for shard in &self.shards {
            let DocumentShard { lists, delta, frozen } = &mut *shard.write();
            for key in delta.keys() {
                if let Some(list) = lists.get_mut(key) {
                    list.removals = 0;
                }
            }
            *frozen = Arc::new(std::mem::take(delta));
        }
        self.frozen_bytes.store(self.delta_bytes.swap(0, Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Drops a shard's frozen deltas, which are in blocks now, except those in `left`.
    pub(crate) fn thaw(&self, shard: &RwLock<DocumentShard>, left: HashMap<CollectionKey, DocumentDelta>) {
        let mut shard = shard.write();
        let frozen = std::mem::replace(&mut shard.frozen, Arc::new(left));
        let DocumentShard { lists, delta, frozen: left } = &mut *shard;
        for key in frozen.keys().filter(|key| !left.contains_key(*key)) {
            if let Some(list) = lists.get_mut(key) {
                list.forgotten = false;
                if list.blocks.is_empty() && !delta.contains_key(key) {
                    lists.remove(key);
                    self.lists.fetch_sub(1, Ordering::Relaxed);
                }
            }
        }
        drop(shard);
        drop(frozen);
    }

    /// Drops history blocks whose newest document is past retention, and lists that become empty.
    pub(crate) fn drop_old_history(&self, shard: &RwLock<DocumentShard>, files: &BlockFiles, begins: Version) {
        let mut shard = shard.write();
        let DocumentShard { lists, delta, frozen } = &mut *shard;
        lists.retain(|key, list| {
            if key.collection != Collection::History {
                return true;
            }
            let is_old = |bounded: &DocumentBlock| history::ended(&bounded.first).is_some_and(|ended| ended < begins);
            let kept = list.blocks.partition_point(|bounded| !is_old(bounded));
            for bounded in list.blocks.drain(kept..) {
                list.count = list.count.saturating_sub(u64::from(bounded.block.count));
                files.retire(bounded.block);
            }
            let is_kept = !list.blocks.is_empty() || delta.contains_key(key) || frozen.contains_key(key);
            if !is_kept {
                self.lists.fetch_sub(1, Ordering::Relaxed);
            }
            is_kept
        });
    }

    pub(crate) fn thawed(&self) {
        self.frozen_bytes.store(0, Ordering::Relaxed);
    }

    pub(crate) fn take_retired(&self) -> Vec<BlockRef> {
        std::mem::take(&mut *self.retired.lock())
    }

    /// Recovery only: opens a list of a checkpoint.
    pub(crate) fn open(&self, key: CollectionKey, blocks: Vec<DocumentBlock>) {
        let count = blocks.iter().map(|bounded| u64::from(bounded.block.count)).sum();
        self.lists.fetch_add(1, Ordering::Relaxed);
        let list = DocumentList { count, blocks, ..DocumentList::default() };
        self.shard(key).write().lists.insert(key, list);
    }

    /// Memory for the lists themselves, without documents.
    pub(crate) fn lists_estimate(&self) -> u64 {
        self.lists.load(Ordering::Relaxed) * 160
    }

    pub(crate) fn deltas_estimate(&self) -> u64 {
        self.delta_bytes.load(Ordering::Relaxed) + self.frozen_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn keys(&self) -> Vec<CollectionKey> {
        let mut keys: Vec<CollectionKey> =
            self.shards.iter().flat_map(|shard| shard.read().lists.keys().copied().collect::<Vec<_>>()).collect();
        keys.sort_unstable();
        keys
    }

    /// A follower's ended follows since `oldest`, newest first.
    pub(crate) fn history<'a>(
        &self,
        files: impl Into<Blocks<'a>>,
        follower: Key,
        before: Option<Version>,
        oldest: Version,
        limit: usize,
    ) -> Result<Vec<Ended>, Fault> {
        let key = CollectionKey { owner: follower, collection: Collection::History };
        let after = before.map(history::id);
        let found = self.scan(files, key, after.as_ref().map_or(&[], |id| &id[..]), limit)?;
        let ended = |(_, document): Named| history::decode(document.version, &document.value);
        let ended = found.into_iter().map(ended).collect::<Result<Vec<_>, _>>();
        let mut ended = ended.map_err(|corrupt| Fault::damaged("document blocks", 0, corrupt.0))?;
        ended.retain(|ended| ended.ended >= oldest);
        Ok(ended)
    }
}

fn retry<T>(mut read: impl FnMut() -> Result<T, Fault>) -> Result<T, Fault> {
    for _ in 1..RETRIES {
        match read() {
            Err(Fault::Moved) => {}
            other => return other,
        }
    }
    read()
}

type Word<'a> = (&'a DocumentId, &'a Option<Document>);

/// Merges changes into the documents of a block, if there is one.
pub(crate) fn merge(old: Vec<Named>, changes: &[Word<'_>]) -> Vec<Named> {
    let mut merged: BTreeMap<DocumentId, Document> = old.into_iter().collect();
    for &(id, document) in changes {
        match document {
            Some(document) => drop(merged.insert(id.clone(), document.clone())),
            None => drop(merged.remove(id)),
        }
    }
    merged.into_iter().collect()
}

/// Folds a delta into a list. Returns its new blocks and those that are dead now. `seed` is that of the file `append`
/// writes to.
pub(crate) fn fold(
    key: CollectionKey,
    old: &[DocumentBlock],
    delta: &DocumentDelta,
    files: &BlockFiles,
    seed: u64,
    mut append: impl FnMut(&[u8], u32) -> std::io::Result<BlockRef>,
) -> Result<(Vec<DocumentBlock>, Vec<BlockRef>), Fault> {
    let words: Vec<Word<'_>> = delta.iter().collect();
    let (mut blocks, mut retired, mut rest) = (Vec::with_capacity(old.len() + 1), Vec::new(), words.as_slice());
    let mut write = |documents: &[Named], blocks: &mut Vec<DocumentBlock>| -> Result<(), Fault> {
        for part in document_block::cut(documents) {
            let block = append(&document_block::encode(key.hash() ^ seed, part), part.len() as u32)?;
            blocks.push(DocumentBlock { first: part[0].0.clone(), block });
        }
        Ok(())
    };
    for (index, bounded) in old.iter().enumerate() {
        let own = match old.get(index + 1) {
            Some(next) => rest.partition_point(|(id, _)| **id < next.first),
            None => rest.len(),
        };
        let (mine, others) = rest.split_at(own);
        rest = others;
        if mine.is_empty() {
            blocks.push(bounded.clone());
            continue;
        }
        let merged = merge(Blocks::from(files).read_documents(key, bounded.block)?, mine);
        retired.push(bounded.block);
        write(&merged, &mut blocks)?;
    }
    if !rest.is_empty() {
        write(&merge(Vec::new(), rest), &mut blocks)?;
    }
    Ok((blocks, retired))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: CollectionKey = CollectionKey { owner: Key(7), collection: Collection::Records(Space::Seen) };

    fn set(documents: &Documents, id: u8, value: Option<u8>) {
        let version = Version::from_bits(u64::from(id) + 1);
        let document = value.map(|value| Document { version, value: [value].into() });
        documents.set(KEY, &[id], document, if value.is_some() { 1 } else { -1 });
    }

    fn ids(documents: &Documents, after: &[u8], limit: usize) -> Vec<u8> {
        let found = documents.scan(&BlockFiles::default(), KEY, after, limit).unwrap();
        found.iter().map(|(id, _)| id[0]).collect()
    }

    #[test]
    fn what_a_newer_layer_removed_hides_nothing_behind_it() {
        let documents = Documents::default();
        (0..200).for_each(|id| set(&documents, id, Some(1)));
        documents.freeze();
        (0..150).for_each(|id| set(&documents, id, None));
        set(&documents, 149, Some(2));
        for limit in [1, 2, 50] {
            assert_eq!(ids(&documents, &[], limit), (149..200).take(limit).collect::<Vec<u8>>());
        }
        assert!(ids(&documents, &[], 0).is_empty());
        assert_eq!(ids(&documents, &[170], 3), [171, 172, 173]);
        assert!(ids(&documents, &[199], 3).is_empty());
        assert_eq!(documents.count(KEY), 51);
    }

    #[test]
    fn the_forgotten_are_gone_from_every_layer() {
        let documents = Documents::default();
        set(&documents, 1, Some(1));
        documents.freeze();
        set(&documents, 2, Some(1));
        documents.forget(KEY.owner);
        assert_eq!((ids(&documents, &[], 9), documents.count(KEY)), (vec![], 0));
        set(&documents, 3, Some(1));
        assert_eq!((ids(&documents, &[], 9), documents.count(KEY)), (vec![3], 1));
        documents.shards().iter().for_each(|shard| documents.thaw(shard, HashMap::new()));
        assert_eq!((ids(&documents, &[], 9), documents.count(KEY)), (vec![3], 1));
    }
}
