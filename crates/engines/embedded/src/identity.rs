//! The store's identity: created once, in a file of its own.

use std::io;

use entourage_model::Secret;
use rand::Rng;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::fault::Fault;
use entourage_store::{
    Identity,
    disk::{Disk, read_all},
};

pub(crate) const NAME: &str = "identity";
const UNFINISHED: &str = "unfinished-identity";
const MAGIC: &[u8; 4] = b"EGID";
pub(crate) const FORMAT: u16 = 1;

/// A new random identity.
pub fn random() -> Identity {
    let mut random = rand::rng();
    let mut secret = [0; 32];
    random.fill_bytes(&mut secret);
    Identity { epoch: random.next_u64(), secret: Secret::from_bytes(secret) }
}

/// A checksum seed that nobody can predict without the store's secret. The epoch is visible in tokens, and with
/// predictable checksums a client could write bytes that pass for the store's own.
pub(crate) fn seed(identity: &Identity, purpose: &[u8; 4], numbers: &[u64]) -> u64 {
    let mut hash = Xxh3::with_seed(identity.epoch);
    hash.update(identity.secret.bytes());
    hash.update(purpose);
    numbers.iter().for_each(|number| hash.update(&number.to_le_bytes()));
    hash.digest()
}

/// Reads the identity, or creates it in an empty folder. A folder with data and no identity is refused: a new one would
/// make all data unreadable.
pub(crate) fn open(disk: &dyn Disk, fresh: impl FnOnce() -> Identity) -> Result<Identity, Fault> {
    match disk.open(NAME) {
        Ok(file) => decode(&read_all(&*file)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if let Some(name) = disk.list()?.iter().find(|name| *name != UNFINISHED) {
                return Err(Fault::damaged(NAME, 0, format!("the file is missing, though {name} is there")));
            }
            let identity = fresh();
            let file = disk.create(UNFINISHED)?;
            file.write_at(&encode(&identity), 0)?;
            file.sync()?;
            disk.rename(UNFINISHED, NAME)?;
            disk.sync_folder()?;
            Ok(identity)
        }
        Err(error) => Err(error.into()),
    }
}

fn encode(identity: &Identity) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&FORMAT.to_le_bytes());
    bytes.extend_from_slice(&identity.epoch.to_le_bytes());
    bytes.extend_from_slice(identity.secret.bytes());
    bytes.extend_from_slice(&xxh3_64(&bytes).to_le_bytes());
    bytes
}

fn decode(bytes: &[u8]) -> Result<Identity, Fault> {
    let damaged = || Fault::damaged(NAME, 0, "checksum");
    if let (Some(magic), Some(format)) = (bytes.get(..4), bytes.get(4..6)) {
        let format = u16::from_le_bytes([format[0], format[1]]);
        if magic == MAGIC && format > FORMAT {
            return Err(Fault::Format { file: NAME.into(), found: format, known: FORMAT });
        }
    }
    let (body, sum) = bytes.split_last_chunk::<8>().ok_or_else(damaged)?;
    if xxh3_64(body) != u64::from_le_bytes(*sum) || body.len() != 46 || body[..4] != *MAGIC {
        return Err(damaged());
    }
    let mut epoch = [0; 8];
    epoch.copy_from_slice(&body[6..14]);
    let mut secret = [0; 32];
    secret.copy_from_slice(&body[14..46]);
    Ok(Identity { epoch: u64::from_le_bytes(epoch), secret: Secret::from_bytes(secret) })
}
