//! `entourage token`: a JWT for trying things out, signed with the key that the server checks with.

use std::{io::Write, path::PathBuf, time::Duration};

use anyhow::Context;
use clap::Args;
use entourage_model::{Clock, Error, UserId};
use entourage_server::config::{self, Raw};
use entourage_store::SystemClock;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde::Serialize;
use serde_json::json;

use crate::{output::Output, settings::DataArguments};

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Whose token it is.
    #[arg(long, value_name = "ID")]
    sub: String,
    /// With the scope admin.
    #[arg(long)]
    admin: bool,
    /// How long it is good for.
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = duration)]
    ttl: Duration,
    #[command(flatten)]
    data: DataArguments,
    /// The secret, in a file (default: auth.jwt.key_file).
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// HS256, HS384 or HS512 (default: auth.jwt.algorithm).
    #[arg(long)]
    algorithm: Option<String>,
    /// The claim iss (default: auth.jwt.issuer).
    #[arg(long)]
    issuer: Option<String>,
    /// The claim aud (default: auth.jwt.audience).
    #[arg(long)]
    audience: Option<String>,
    #[command(flatten)]
    output: Output,
}

#[derive(Serialize)]
struct Claims<'a> {
    sub: &'a str,
    iss: &'a str,
    aud: &'a str,
    iat: i64,
    exp: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<&'static str>,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let raw = arguments.data.raw()?;
    let given = |flag: Option<String>, name: &str, option: &str| {
        let missing = || Error::invalid(format!("say {option}, or set auth.jwt.{name}"));
        flag.or_else(|| configured(&raw, &format!("auth.jwt.{name}"))).ok_or_else(missing)
    };
    UserId::try_from(arguments.sub.as_str())?;
    let algorithm = given(arguments.algorithm.clone(), "algorithm", "--algorithm HS256")?;
    let key_file = given(arguments.key_file.as_ref().map(|path| path.display().to_string()), "key_file", "--key-file")?;
    let issuer = given(arguments.issuer.clone(), "issuer", "--issuer")?;
    let audience = given(arguments.audience.clone(), "audience", "--audience")?;
    let algorithm = match algorithm.parse() {
        Ok(algorithm @ (Algorithm::HS256 | Algorithm::HS384 | Algorithm::HS512)) => algorithm,
        _ => {
            let detail = "tokens are made here with a shared secret only: HS256, HS384 or HS512; \
                          whoever has the private key of another algorithm signs with that";
            return Err(Error::invalid(detail).into());
        }
    };
    let secret = secret(algorithm, &key_file)?;
    let iat = SystemClock.now().to_unix() / 1_000;
    let exp = iat.saturating_add_unsigned(arguments.ttl.as_secs());
    let scope = arguments.admin.then_some("admin");
    let claims = Claims { sub: &arguments.sub, iss: &issuer, aud: &audience, iat, exp, scope };
    let token =
        encode(&Header::new(algorithm), &claims, &EncodingKey::from_secret(&secret)).context("signing the token")?;
    arguments.output.print(
        || json!({ "token": token, "sub": arguments.sub, "expires_at": exp, "scope": scope }),
        |out| writeln!(out, "{token}"),
    )
}

/// As the server reads it: the whole file without its final newline. With several files, the first.
fn secret(algorithm: Algorithm, files: &str) -> anyhow::Result<Vec<u8>> {
    let file = files.split(',').next().unwrap_or_default().trim();
    let mut secret = std::fs::read(file).with_context(|| file.to_owned())?;
    for end in [b'\n', b'\r'] {
        if secret.last() == Some(&end) {
            secret.pop();
        }
    }
    let least_bytes = match algorithm {
        Algorithm::HS384 => 48,
        Algorithm::HS512 => 64,
        _ => 32,
    };
    if secret.len() < least_bytes {
        let detail = format!("{file}: a secret for {algorithm:?} has at least {least_bytes} bytes");
        return Err(Error::invalid(detail).into());
    }
    Ok(secret)
}

fn configured(raw: &Raw, name: &str) -> Option<String> {
    raw.iter().find(|(known, _)| *known == name).map(|(_, value)| value.text.clone()).filter(|text| !text.is_empty())
}

fn duration(text: &str) -> Result<Duration, String> {
    let right = || "a number with s, m, h or d, such as 1h, at most 36500d".to_owned();
    config::duration(text).filter(|time| time.subsec_nanos() == 0).ok_or_else(right)
}
