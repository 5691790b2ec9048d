//! Service keys: lines of a file or a setting, each a name and the hash of a key that was shown once.

use std::{fmt, path::Path};

use entourage_model::Millis;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::{
    config::{AuthSettings, ConfigError},
    file_watcher::FileWatcher,
};

/// How a service key begins; no token of a user does.
pub(super) const PREFIX: &str = "eg_";
const NAME_MAX_BYTES: usize = 64;
const HASH: &str = "sha256:";

/// One line of the file. The key is 32 random bytes, so a plain hash is enough.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceKey {
    pub name: String,
    pub admin: bool,
    pub created: Millis,
    hash: [u8; 32],
}

impl ServiceKey {
    /// A new key: its line, and the text that clients send.
    pub fn generate(name: &str, admin: bool, created: Millis) -> Result<(Self, String), String> {
        check_name(name)?;
        let secret = format!("{PREFIX}{}", hex(&rand::random::<[u8; 32]>()));
        let hash = Sha256::digest(secret.as_bytes()).into();
        Ok((Self { name: name.to_owned(), admin, created, hash }, secret))
    }

    fn parse(line: &str) -> Result<Self, String> {
        let mut words = line.split_whitespace();
        let (Some(name), Some(hash), Some(scope), Some(created), None) =
            (words.next(), words.next(), words.next(), words.next(), words.next())
        else {
            return Err("expected: name, hash, scope, time".to_owned());
        };
        check_name(name)?;
        let hash = hash.strip_prefix(HASH).and_then(unhex).ok_or("expected sha256: and 64 digits")?;
        let admin = match scope {
            "service" => false,
            "admin" => true,
            _ => return Err("a scope is service or admin".to_owned()),
        };
        let created = Millis::parse_rfc3339(created).map_err(|error| error.detail().to_owned())?;
        Ok(Self { name: name.to_owned(), admin, created, hash })
    }
}

impl fmt::Display for ServiceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scope = if self.admin { "admin" } else { "service" };
        write!(f, "{} {HASH}{} {scope} {}", self.name, hex(&self.hash), self.created)
    }
}

/// The keys of a file. Empty lines and lines that begin with `#` are ignored.
pub fn parse_keys(text: &str) -> Result<Vec<ServiceKey>, String> {
    let mut keys: Vec<ServiceKey> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let at = |detail: String| format!("line {}: {detail}", number + 1);
        let key = ServiceKey::parse(line).map_err(at)?;
        if keys.iter().any(|other| other.name == key.name) {
            return Err(at(format!("the name {} stands twice", key.name)));
        }
        keys.push(key);
    }
    Ok(keys)
}

/// Keys of the settings, and keys of a watched file.
pub(super) struct Keys {
    set: Vec<ServiceKey>,
    file: Option<FileWatcher<Vec<ServiceKey>>>,
}

impl Keys {
    /// `None` without keys in settings or a file.
    pub(super) fn open(settings: &AuthSettings) -> Result<Option<Self>, ConfigError> {
        let set = settings.service_keys.clone();
        let file = settings.service_keys_file.as_deref().map(|file| watch(file, set.clone())).transpose()?;
        Ok((file.is_some() || !set.is_empty()).then_some(Self { set, file }))
    }

    pub(super) fn reload(&self) {
        self.file.as_ref().inspect(|file| file.reload());
    }

    /// The digest of the file in use.
    pub(super) fn digest(&self) -> Option<String> {
        self.file.as_ref()?.digest()
    }

    pub(super) fn stale(&self) -> Option<&'static str> {
        self.file.as_ref()?.stale()
    }

    pub(super) fn hold(&self, key: &ServiceKey) -> bool {
        self.set.contains(key) || self.file.as_ref().is_some_and(|file| file.get().contains(key))
    }

    /// Compares with every key, each in constant time.
    pub(super) fn find(&self, secret: &str) -> Option<ServiceKey> {
        let hash: [u8; 32] = Sha256::digest(secret.as_bytes()).into();
        let file = self.file.as_ref().map(FileWatcher::get);
        let mut found = None;
        for key in self.set.iter().chain(file.iter().flat_map(|keys| keys.iter())) {
            if bool::from(key.hash.ct_eq(&hash)) {
                found = Some(key);
            }
        }
        found.cloned()
    }
}

/// Refuses a name that the settings have too: a key revoked in one place must not stay valid in the other.
fn watch(file: &Path, set: Vec<ServiceKey>) -> Result<FileWatcher<Vec<ServiceKey>>, ConfigError> {
    let parse = move |files: &[Vec<u8>]| {
        let texts = files.iter().map(|file| String::from_utf8_lossy(file)).collect::<Vec<_>>();
        let keys = parse_keys(&texts.concat())?;
        match keys.iter().find(|key| set.iter().any(|other| other.name == key.name)) {
            Some(twice) => Err(format!("the name {} stands in auth.service_keys as well", twice.name)),
            None => Ok(keys),
        }
    };
    FileWatcher::open("auth.service_keys_file", vec![file.to_owned()], parse)
}

fn check_name(name: &str) -> Result<(), String> {
    let is_sane = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if (1..=NAME_MAX_BYTES).contains(&name.len()) && name.bytes().all(is_sane) {
        return Ok(());
    }
    Err(format!("a name has 1 to {NAME_MAX_BYTES} letters, digits, '-', '_' or '.'"))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * index..2 * index + 2)?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_holds_everything_but_the_key() {
        let (key, secret) = ServiceKey::generate("web-1", true, Millis::from_since_2000(5_000)).unwrap();
        assert!(!key.to_string().contains(&secret[PREFIX.len()..]));
        assert_eq!(parse_keys(&format!("# keys\n\n{key}\n")).unwrap(), [key]);
        let (other, another) = ServiceKey::generate("web-2", false, Millis::from_since_2000(5_000)).unwrap();
        assert_ne!(secret, another);
        assert!(other.to_string().contains(" service "));
        assert_eq!(parse_keys(&format!("{other}\n{other}")).unwrap_err(), "line 2: the name web-2 stands twice");
    }

    #[test]
    fn broken_lines_are_named_by_number() {
        let hash = "0".repeat(64);
        for line in [
            "web".to_owned(),
            format!("web sha256:{hash} service"),
            format!("web md5:{hash} service 2026-01-01T00:00:00Z"),
            format!("web sha256:{}x service 2026-01-01T00:00:00Z", &hash[1..]),
            format!("web sha256:{hash} root 2026-01-01T00:00:00Z"),
            format!("we/b sha256:{hash} service 2026-01-01T00:00:00Z"),
            format!("web sha256:{hash} service yesterday"),
            format!("web sha256:{hash} service 2026-01-01T00:00:00Z more"),
        ] {
            assert!(parse_keys(&format!("\n{line}\n")).unwrap_err().starts_with("line 2: "), "{line}");
        }
        assert!(ServiceKey::generate("", false, Millis::default()).is_err());
        assert!(ServiceKey::generate(&"x".repeat(65), false, Millis::default()).is_err());
    }
}
