//! Signatures from Project Wycheproof against this verifier: what is called invalid there is refused here, by the
//! signature and not by what the token says.

use std::{path::PathBuf, str::FromStr};

use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use jsonwebtoken::{decode_header, errors::ErrorKind};
use serde::de::IgnoredAny;

use super::*;

const VECTORS: &str = include_str!("../../../tests/vectors/json_web_signature.json");
/// Called valid, and refused here: two are signed with PS384 under a key for PS256, two have letters in them that are
/// not of base64.
const STRICTER: [u32; 4] = [346, 350, 372, 373];
/// An algorithm that no token may have here.
const NOT_OURS: &str = "ES521";

#[derive(Deserialize)]
struct Vectors {
    groups: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    comment: String,
    key: Jwk,
    tests: Vec<Case>,
}

#[derive(Deserialize)]
struct Jwk {
    alg: String,
    #[serde(default)]
    k: String,
    #[serde(default)]
    n: String,
    #[serde(default)]
    e: String,
    #[serde(default)]
    x: String,
    #[serde(default)]
    y: String,
}

#[derive(Deserialize)]
struct Case {
    id: u32,
    comment: String,
    jws: String,
    valid: bool,
}

/// A value of DER with its tag and length.
fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let length = content.len();
    let head = match length {
        0..128 => vec![tag, length as u8],
        128..256 => vec![tag, 0x81, length as u8],
        _ => vec![tag, 0x82, (length >> 8) as u8, length as u8],
    };
    [head, content].concat()
}

/// A positive number: no more zeros in front than keep it from being negative.
fn integer(text: &str) -> Vec<u8> {
    let bytes = URL_SAFE_NO_PAD.decode(text).unwrap();
    let zero: &[u8] = if bytes[0] >= 0x80 { &[0] } else { &[] };
    der(2, &[zero, &bytes])
}

impl Jwk {
    /// As a file of the settings holds it: a secret, or a public key in PEM.
    fn file(&self) -> Vec<u8> {
        const RSA: &[u8] = &[0x30, 0x0d, 6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1, 5, 0];
        const P_256: &[u8] =
            &[0x30, 0x13, 6, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1, 6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
        let bytes = |text: &str| URL_SAFE_NO_PAD.decode(text).unwrap();
        let key = match &self.alg[..2] {
            "HS" => return bytes(&self.k),
            "ES" => der(0x30, &[P_256, &der(3, &[&[0, 4], &bytes(&self.x), &bytes(&self.y)])]),
            _ => der(0x30, &[RSA, &der(3, &[&[0], &der(0x30, &[&integer(&self.n), &integer(&self.e)])])]),
        };
        format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", STANDARD.encode(key)).into_bytes()
    }
}

/// Whether the signature is good. What these tokens say is no JSON, which is found only after that.
fn is_signed(token: &str, key: &DecodingKey, validation: &Validation) -> bool {
    match decode::<IgnoredAny>(token, key, validation) {
        Ok(_) => true,
        Err(error) => matches!(error.kind(), ErrorKind::Json(_) | ErrorKind::Utf8(_)) && decode_header(token).is_ok(),
    }
}

/// A verifier with this key in a file, as settings make it.
fn opened(algorithm: Algorithm, key: &[u8]) -> (Tokens, PathBuf) {
    let file = std::env::temp_dir().join(format!("entourage-key-{:032x}", rand::random::<u128>()));
    std::fs::write(&file, key).unwrap();
    let (issuer, audience) = ("issuer".to_owned(), "audience".to_owned());
    let settings = JwtSettings { algorithm, key_files: vec![file.clone()], issuer, audience };
    (Tokens::open(&settings).unwrap(), file)
}

#[test]
fn signatures_that_wycheproof_calls_invalid_are_refused() {
    let vectors: Vectors = serde_json::from_str(VECTORS).unwrap();
    let (mut valid, mut invalid, mut wrong) = (0, 0, Vec::new());
    for group in vectors.groups.iter().filter(|group| group.key.alg != NOT_OURS) {
        let algorithm = Algorithm::from_str(&group.key.alg).unwrap();
        let (tokens, file) = opened(algorithm, &group.key.file());
        std::fs::remove_file(file).unwrap();
        // Some are called invalid for a padding that their text has lost: letter for letter they are valid ones.
        let is_contradicted =
            |case: &Case| !case.valid && group.tests.iter().any(|other| other.valid && other.jws == case.jws);
        for case in group.tests.iter().filter(|case| !is_contradicted(case)) {
            let signed = tokens.keys.get().iter().any(|key| is_signed(&case.jws, key, &tokens.validation));
            if signed != (case.valid && !STRICTER.contains(&case.id)) {
                wrong.push(format!("{} {} {}: {signed}", group.comment, case.id, case.comment));
            }
            // None of them says who it is for, so that none gets in.
            assert!(tokens.verify(&case.jws, Millis::default()).is_err(), "{} got in", case.id);
            if case.valid { valid += 1 } else { invalid += 1 }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(valid > 30 && invalid > 300, "{valid} valid, {invalid} invalid");
}
