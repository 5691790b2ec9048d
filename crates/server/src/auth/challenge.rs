//! Proofs that a challenge was solved: the application checks its CAPTCHA and signs a token for a few minutes.

use std::path::Path;

use entourage_model::{Millis, UserId};
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde::Deserialize;

use super::jwt::{Date, LEEWAY_SECONDS, bare_validation, read_keys, seconds, signed};
use crate::{config::ConfigError, file_watcher::FileWatcher};

const LIFE_MAX_SECONDS: u64 = 10 * 60;

pub(super) struct Challenges {
    keys: FileWatcher<Vec<DecodingKey>>,
    validation: Validation,
}

#[derive(Deserialize)]
struct Claims {
    sub: String,
    exp: Date,
}

impl Challenges {
    pub(super) fn open(file: &Path) -> Result<Self, ConfigError> {
        let parse = |files: &[Vec<u8>]| {
            let keys = files.iter().map(|file| read_keys(Algorithm::HS256, file)).collect::<Result<Vec<_>, _>>()?;
            Ok(keys.concat())
        };
        let mut validation = bare_validation(Algorithm::HS256);
        validation.set_required_spec_claims(&["exp", "sub"]);
        Ok(Self { keys: FileWatcher::open("limits.challenge_key_file", vec![file.to_owned()], parse)?, validation })
    }

    pub(super) fn reload(&self) {
        self.keys.reload();
    }

    pub(super) fn stale(&self) -> Option<&'static str> {
        self.keys.stale()
    }

    /// `None` for an invalid proof, which matters only where one is required.
    pub(super) fn solver(&self, proof: &str, now: Millis) -> Option<UserId> {
        let claims: Claims = signed(proof, &self.keys.get(), &self.validation).ok()?;
        let (now, Date(exp)) = (seconds(now), claims.exp);
        let is_current = now < exp.saturating_add(LEEWAY_SECONDS);
        let is_short = exp <= now.saturating_add(LIFE_MAX_SECONDS + LEEWAY_SECONDS);
        UserId::try_from(claims.sub.as_str()).ok().filter(|_| is_current && is_short)
    }
}
