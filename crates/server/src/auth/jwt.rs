//! Users' JSON Web Tokens. Algorithm, keys, issuer and audience come from the settings alone.

#[cfg(test)]
mod wycheproof;

use std::path::PathBuf;

use entourage_model::{Millis, UserId};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, Validation, decode};
use serde::{Deserialize, Deserializer, de::DeserializeOwned};

use crate::{config::ConfigError, file_watcher::FileWatcher};

pub(super) const LEEWAY_SECONDS: u64 = 60;
const TOKEN_MAX_BYTES: usize = 8 * 1024;
const KEYS_MAX: usize = 8;
const ADMIN: &str = "admin";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwtSettings {
    pub algorithm: Algorithm,
    /// Any of them may have signed a token: during key rotation there are two.
    pub key_files: Vec<PathBuf>,
    pub issuer: String,
    pub audience: String,
}

/// Whom a token stands for.
#[derive(Debug)]
pub(super) struct Bearer {
    pub(super) user: UserId,
    pub(super) admin: bool,
    /// The token's expiry, plus the leeway for one that has expired.
    pub(super) expires: Millis,
}

pub(super) struct Tokens {
    validation: Validation,
    keys: FileWatcher<Vec<DecodingKey>>,
}

impl Tokens {
    pub(super) fn open(settings: &JwtSettings) -> Result<Self, ConfigError> {
        let algorithm = settings.algorithm;
        let mut validation = bare_validation(algorithm);
        validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        validation.validate_aud = true;
        validation.set_issuer(&[&settings.issuer]);
        validation.set_audience(&[&settings.audience]);
        let parse = move |files: &[Vec<u8>]| {
            let keys = files.iter().map(|file| read_keys(algorithm, file)).collect::<Result<Vec<_>, _>>()?;
            let keys = keys.concat();
            if keys.len() > KEYS_MAX { Err(format!("at most {KEYS_MAX} keys")) } else { Ok(keys) }
        };
        Ok(Self { validation, keys: FileWatcher::open("auth.jwt.key_file", settings.key_files.clone(), parse)? })
    }

    pub(super) fn reload(&self) {
        self.keys.reload();
    }

    pub(super) fn stale(&self) -> Option<&'static str> {
        self.keys.stale()
    }

    pub(super) fn verify(&self, token: &str, now: Millis) -> Result<Bearer, &'static str> {
        let claims: Claims = signed(token, &self.keys.get(), &self.validation)?;
        let now = seconds(now);
        if now >= claims.exp.0.saturating_add(LEEWAY_SECONDS) {
            return Err("it has expired");
        }
        if claims.nbf.is_some_and(|nbf| now.saturating_add(LEEWAY_SECONDS) < nbf.0) {
            return Err("it is not valid yet");
        }
        let user = UserId::try_from(claims.sub.as_str()).map_err(|_| "its sub is no id")?;
        let end = if now < claims.exp.0 { claims.exp.0 } else { claims.exp.0.saturating_add(LEEWAY_SECONDS) };
        let expires = Millis::from_unix(i64::try_from(end.saturating_mul(1_000)).unwrap_or(i64::MAX));
        Ok(Bearer { user, admin: claims.scope.is_some_and(|scope| scope.has(ADMIN)), expires })
    }
}

/// Fixes the algorithm; times are checked against our own clock.
pub(super) fn bare_validation(algorithm: Algorithm) -> Validation {
    let mut validation = Validation::new(algorithm);
    (validation.validate_exp, validation.validate_nbf, validation.validate_aud) = (false, false, false);
    validation
}

/// The claims of a token that one of the keys signed. Key hints in its header are ignored.
pub(super) fn signed<T: DeserializeOwned>(
    token: &str,
    keys: &[DecodingKey],
    validation: &Validation,
) -> Result<T, &'static str> {
    if token.len() > TOKEN_MAX_BYTES {
        return Err("it is too long");
    }
    let data = keys.iter().find_map(|key| decode::<T>(token, key, validation).ok()).ok_or("it is not one of ours")?;
    let header = data.header;
    if header.crit.is_some() || header.enc.is_some() || header.zip.is_some() {
        return Err("its header asks for what is not known here");
    }
    Ok(data.claims)
}

pub(super) fn seconds(now: Millis) -> u64 {
    u64::try_from(now.to_unix() / 1_000).unwrap_or(0)
}

/// An HMAC secret is the whole file without its final newline; a file of public keys may hold several.
pub(super) fn read_keys(algorithm: Algorithm, file: &[u8]) -> Result<Vec<DecodingKey>, String> {
    let secret_bytes = match algorithm {
        Algorithm::HS256 => 32,
        Algorithm::HS384 => 48,
        Algorithm::HS512 => 64,
        _ => return read_public_keys(algorithm, file),
    };
    let secret = file.strip_suffix(b"\n").unwrap_or(file);
    let secret = secret.strip_suffix(b"\r").unwrap_or(secret);
    if secret.starts_with(b"-----BEGIN") {
        return Err(format!("a secret for {algorithm:?} is random bytes, not a PEM file"));
    }
    if secret.len() < secret_bytes {
        return Err(format!("a secret for {algorithm:?} has at least {secret_bytes} bytes, this has {}", secret.len()));
    }
    Ok(vec![DecodingKey::from_secret(secret)])
}

fn read_public_keys(algorithm: Algorithm, file: &[u8]) -> Result<Vec<DecodingKey>, String> {
    const BEGIN: &str = "-----BEGIN";
    let text = std::str::from_utf8(file).map_err(|_| "a public key is a PEM file".to_owned())?;
    if text.contains("PRIVATE KEY-----") {
        return Err("this holds a private key; only the public one belongs here".to_owned());
    }
    let read = |pem: String| match algorithm.family() {
        AlgorithmFamily::Rsa => DecodingKey::from_rsa_pem(pem.as_bytes()),
        AlgorithmFamily::Ec => DecodingKey::from_ec_pem(pem.as_bytes()),
        _ => DecodingKey::from_ed_pem(pem.as_bytes()),
    };
    let keys = text.split(BEGIN).skip(1).map(|rest| read(format!("{BEGIN}{rest}")));
    let keys = keys.collect::<Result<Vec<_>, _>>().map_err(|_| format!("this is no public key for {algorithm:?}"))?;
    if keys.is_empty() { Err(format!("there is no public key for {algorithm:?}, in PEM")) } else { Ok(keys) }
}

/// The library compares issuer and audience; this checks their form. A repeated claim is an error.
#[derive(Deserialize)]
struct Claims {
    sub: String,
    exp: Date,
    #[serde(default, deserialize_with = "present")]
    nbf: Option<Date>,
    #[serde(rename = "iss")]
    _iss: String,
    #[serde(rename = "aud")]
    _aud: Texts,
    #[serde(default, deserialize_with = "present")]
    scope: Option<Texts>,
}

fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Texts {
    One(String),
    Many(Vec<String>),
}

impl Texts {
    /// One text is a list with spaces.
    fn has(&self, wanted: &str) -> bool {
        match self {
            Self::One(text) => text.split(' ').any(|word| word == wanted),
            Self::Many(texts) => texts.iter().any(|text| text == wanted),
        }
    }
}

/// Seconds since 1970, whole or not.
#[derive(Clone, Copy)]
pub(super) struct Date(pub(super) u64);

impl<'de> Deserialize<'de> for Date {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = serde_json::Number::deserialize(deserializer)?;
        let whole = number.as_u64().or_else(|| {
            let seconds = number.as_f64().filter(|seconds| (0.0..9e15).contains(seconds))?;
            Some(seconds as u64)
        });
        whole.map(Self).ok_or_else(|| serde::de::Error::custom("not a time"))
    }
}
