//! Keys and tokens for tests, in a folder that goes when the test ends, and a clock that the test moves.

use std::{path::PathBuf, sync::Arc};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use entourage_model::{Clock, ManualClock, Millis};
use entourage_server::{
    Audit, Front,
    auth::{Access, JwtSettings, ServiceKey},
    config::AuthSettings,
};
use jsonwebtoken::{Algorithm, EncodingKey, crypto};
use serde_json::{Value, json};

pub(crate) const SECRET: &[u8] = b"an HMAC secret of more than 64 bytes, which only tests have and nobody else";
pub(crate) const CHALLENGE_SECRET: &[u8] = b"another secret, which signs solved challenges";
pub(crate) const ISSUER: &str = "https://issuer.example";
pub(crate) const AUDIENCE: &str = "entourage";

pub(crate) struct Credentials {
    folder: PathBuf,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) settings: AuthSettings,
    /// A key for services, and one that is also an admin's.
    pub(crate) service_key: String,
    pub(crate) admin_key: String,
}

impl Credentials {
    /// Tokens with HS256, two service keys, and challenges.
    pub(crate) fn new() -> Self {
        Self::with(Algorithm::HS256, &[SECRET])
    }

    pub(crate) fn with(algorithm: Algorithm, keys: &[&[u8]]) -> Self {
        let folder = std::env::temp_dir().join(format!("entourage-access-{:032x}", rand::random::<u128>()));
        std::fs::create_dir(&folder).unwrap();
        let write = |name: &str, bytes: &[u8]| {
            let path = folder.join(name);
            std::fs::write(&path, bytes).unwrap();
            path
        };
        let clock = Arc::new(ManualClock::new(Millis::parse_rfc3339("2026-11-15T12:00:00Z").unwrap()));
        let (web, service_key) = ServiceKey::generate("web", false, clock.now()).unwrap();
        let (boss, admin_key) = ServiceKey::generate("boss", true, clock.now()).unwrap();
        let key_files = keys.iter().enumerate().map(|(n, key)| write(&format!("jwt-{n}"), key)).collect();
        let settings = AuthSettings {
            jwt: Some(JwtSettings { algorithm, key_files, issuer: ISSUER.to_owned(), audience: AUDIENCE.to_owned() }),
            service_keys_file: Some(write("service-keys", format!("# for tests\n{web}\n{boss}\n").as_bytes())),
            service_keys: Vec::new(),
            challenge_key_file: Some(write("challenge", CHALLENGE_SECRET)),
        };
        Self { folder, clock, settings, service_key, admin_key }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub(crate) fn front(&self) -> Front {
        self.front_with(Audit::default())
    }

    pub(crate) fn front_with(&self, audit: Audit) -> Front {
        let clock = Arc::clone(&self.clock);
        let access = Access::open(&self.settings, Arc::clone(&clock) as _).unwrap();
        Front { access, audit, ..Front::development(clock) }
    }

    pub(crate) fn now(&self) -> i64 {
        self.clock.now().to_unix() / 1_000
    }

    /// What a good token says.
    pub(crate) fn claims(&self, user: &str) -> Value {
        json!({ "sub": user, "iss": ISSUER, "aud": AUDIENCE, "exp": self.now() + 300 })
    }

    pub(crate) fn token(&self, user: &str) -> String {
        hs256(SECRET, &self.claims(user).to_string())
    }

    /// A good token with one claim put in, or taken out by `null`.
    pub(crate) fn token_with(&self, name: &str, value: Value) -> String {
        let mut claims = self.claims("alice");
        match value {
            Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
            value => claims[name] = value,
        }
        hs256(SECRET, &claims.to_string())
    }

    pub(crate) fn proof(&self, user: &str, seconds: i64) -> String {
        hs256(CHALLENGE_SECRET, &json!({ "sub": user, "exp": self.now() + seconds }).to_string())
    }
}

impl Drop for Credentials {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

pub(crate) fn hs256(secret: &[u8], claims: &str) -> String {
    signed(Algorithm::HS256, &EncodingKey::from_secret(secret), r#"{"alg":"HS256","typ":"JWT"}"#, claims)
}

/// Any header and any claims, signed as the algorithm says, whatever the header says.
pub(crate) fn signed(algorithm: Algorithm, key: &EncodingKey, header: &str, claims: &str) -> String {
    let message = format!("{}.{}", encode(header), encode(claims));
    let signature = crypto::sign(message.as_bytes(), key, algorithm).unwrap();
    format!("{message}.{signature}")
}

pub(crate) fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}
