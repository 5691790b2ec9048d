//! Tokens that are forged or broken: every one of them is 401, and the good one beside them is not.

use entourage_model::Code;
use entourage_server::auth::Access;
use entourage_service::Rules;
use jsonwebtoken::{Algorithm, EncodingKey, crypto};
use rcgen::KeyPair;
use serde_json::{Value, json};

use super::{
    credentials::{AUDIENCE, Credentials, ISSUER, SECRET, encode, hs256, signed},
    server::{Server, memory_store},
};

const GOOD_HEADER: &str = r#"{"alg":"HS256","typ":"JWT"}"#;

fn serving(credentials: &Credentials) -> Server {
    let server = Server::behind(credentials.front(), memory_store(1), Rules::default());
    server.check(&format!("!{} PUT /users/alice", credentials.service_key), "201");
    server
}

fn refuse_all(server: &Server, forged: &[(&str, String)]) {
    for (name, token) in forged {
        let reply = server.ask(&format!("!{token} GET /users/alice"));
        assert_eq!(reply.status, 401, "{name} got in: {}", reply.text);
        assert_eq!(reply.body["code"], "unauthenticated", "{name}");
        assert!(reply.header("www-authenticate").starts_with("Bearer "), "{name}");
        assert!(!reply.text.contains(token.as_str()) || token.is_empty(), "{name} is repeated");
    }
}

#[test]
fn what_is_not_a_signed_token_is_refused() {
    let credentials = Credentials::new();
    let server = serving(&credentials);
    let good = credentials.token("alice");
    server.check(&format!("!{good} GET /users/alice"), "200");
    let claims = credentials.claims("alice").to_string();
    let (head, signature) = good.rsplit_once('.').unwrap();
    let (header, payload) = head.split_once('.').unwrap();
    let with_header = |header: &str| signed(Algorithm::HS256, &EncodingKey::from_secret(SECRET), header, &claims);
    let unsigned = |alg: &str| format!("{}.{}.", encode(json!({ "alg": alg }).to_string()), encode(&claims));
    let hs = |alg: Algorithm, header: &str| signed(alg, &EncodingKey::from_secret(SECRET), header, &claims);
    let other_last = |text: &str| {
        let (rest, last) = text.split_at(text.len() - 1);
        // The last letter of 32 bytes has two bits that must be zero.
        let other = char::from(last.as_bytes()[0] + 1);
        format!("{rest}{other}")
    };
    let escalated =
        encode(json!({ "sub": "admin", "iss": ISSUER, "aud": AUDIENCE, "exp": 9_999_999_999_u64 }).to_string());
    refuse_all(
        &server,
        &[
            ("alg none", unsigned("none")),
            ("alg None", unsigned("None")),
            ("alg nOnE", unsigned("nOnE")),
            ("alg empty", unsigned("")),
            ("alg none, signed", with_header(r#"{"alg":"none"}"#)),
            ("alg missing", with_header(r#"{"typ":"JWT"}"#)),
            ("alg a number", with_header(r#"{"alg":256}"#)),
            ("alg null", with_header(r#"{"alg":null}"#)),
            ("alg twice", with_header(r#"{"alg":"none","alg":"HS256"}"#)),
            ("alg in small letters", with_header(r#"{"alg":"hs256"}"#)),
            ("HS384 with the same secret", hs(Algorithm::HS384, r#"{"alg":"HS384"}"#)),
            ("HS512 with the same secret", hs(Algorithm::HS512, r#"{"alg":"HS512"}"#)),
            ("HS512 called HS256", hs(Algorithm::HS512, GOOD_HEADER)),
            ("HS256 called RS256", with_header(r#"{"alg":"RS256"}"#)),
            ("another secret", hs256(b"a secret of the attacker, which is long enough", &claims)),
            ("an empty secret", hs256(b"", &claims)),
            ("the secret with a line's end", hs256(&[SECRET, b"\n"].concat(), &claims)),
            ("the secret cut off", hs256(&SECRET[..SECRET.len() - 1], &claims)),
            ("no signature", head.to_owned()),
            ("an empty signature", format!("{head}.")),
            ("a signature cut off", good[..good.len() - 1].to_owned()),
            ("half a signature", format!("{head}.{}", &signature[..signature.len() / 2])),
            ("a signature of zeros", format!("{head}.{}", encode([0_u8; 32]))),
            ("bits after the signature's end", other_last(&good)),
            ("a signature with padding", format!("{good}=")),
            ("a signature twice as long", format!("{good}{signature}")),
            ("other claims", format!("{header}.{escalated}.{signature}")),
            ("no claims", format!("{header}..{signature}")),
            ("another header", format!("{}.{payload}.{signature}", encode(r#"{"alg":"HS256"}"#))),
            ("no header", format!(".{payload}.{signature}")),
            ("four parts", format!("{good}.{payload}")),
            ("five parts", format!("{header}.{payload}.{signature}.{payload}.{signature}")),
            ("only dots", "..".to_owned()),
            ("JSON serialization", json!({ "payload": payload, "protected": header, "signature": signature }).to_string()),
            ("letters of another base64", good.replace(['-', '_'], "+") + "+"),
            ("a long one", hs256(SECRET, &json!({ "sub": "alice", "iss": ISSUER, "aud": AUDIENCE, "exp": 9_999_999_999_u64, "x": "x".repeat(8_192) }).to_string())),
            ("a service key that nobody has", format!("eg_{}", "0".repeat(64))),
            ("a service key's name", "web".to_owned()),
        ],
    );
}

#[test]
fn what_a_header_says_of_keys_is_not_believed() {
    let credentials = Credentials::new();
    let server = serving(&credentials);
    let claims = credentials.claims("alice").to_string();
    let mine = b"a secret of the attacker, which is long enough";
    let jwk = json!({ "kty": "oct", "alg": "HS256", "k": encode(mine) });
    let forge = |secret: &[u8], header: Value| {
        signed(Algorithm::HS256, &EncodingKey::from_secret(secret), &header.to_string(), &claims)
    };
    refuse_all(
        &server,
        &[
            ("a key of its own", forge(mine, json!({ "alg": "HS256", "jwk": jwk }))),
            ("an address of keys", forge(mine, json!({ "alg": "HS256", "jku": "https://evil.example/keys" }))),
            ("a certificate's address", forge(mine, json!({ "alg": "HS256", "x5u": "https://evil.example/cert" }))),
            ("a certificate", forge(mine, json!({ "alg": "HS256", "x5c": [encode(mine)] }))),
            ("a file of nothing", forge(b"", json!({ "alg": "HS256", "kid": "../../../../dev/null" }))),
            ("a query", forge(b"x", json!({ "alg": "HS256", "kid": "0' union select 'x" }))),
            ("a command", forge(b"", json!({ "alg": "HS256", "kid": "/x|cat /etc/passwd" }))),
            ("critical things", forge(SECRET, json!({ "alg": "HS256", "crit": ["exp"] }))),
            ("no base64", forge(SECRET, json!({ "alg": "HS256", "crit": ["b64"], "b64": false }))),
            ("compressed", forge(SECRET, json!({ "alg": "HS256", "zip": "DEF" }))),
        ],
    );
    // A name alone does no harm: it chooses nothing.
    let named = forge(SECRET, json!({ "alg": "HS256", "kid": "2026", "jku": "https://evil.example/keys" }));
    server.check(&format!("!{named} GET /users/alice"), "200");
}

#[test]
fn claims_must_be_there_once_and_say_what_is_expected() {
    let credentials = Credentials::new();
    let server = serving(&credentials);
    let now = credentials.now();
    let with = |name: &str, value: Value| credentials.token_with(name, value);
    let text = |claims: String| hs256(SECRET, &claims);
    let rest = format!(r#""iss":"{ISSUER}","aud":"{AUDIENCE}""#);
    refuse_all(
        &server,
        &[
            ("no exp", with("exp", Value::Null)),
            ("exp is text", with("exp", json!((now + 300).to_string()))),
            ("exp is null", text(format!(r#"{{"sub":"alice","exp":null,{rest}}}"#))),
            ("exp is negative", with("exp", json!(-1))),
            ("exp is a list", with("exp", json!([now + 300]))),
            ("exp is endless", text(format!(r#"{{"sub":"alice","exp":1e400,{rest}}}"#))),
            ("exp is long ago", with("exp", json!(now - 3_600))),
            ("exp is past its leeway", with("exp", json!(now - 60))),
            ("exp twice, then good", text(format!(r#"{{"sub":"alice","exp":1,"exp":9999999999,{rest}}}"#))),
            ("exp twice, first good", text(format!(r#"{{"sub":"alice","exp":9999999999,"exp":1,{rest}}}"#))),
            ("nbf is later than its leeway", with("nbf", json!(now + 61))),
            ("nbf is text", with("nbf", json!("0"))),
            ("nbf is null", text(format!(r#"{{"sub":"alice","exp":9999999999,"nbf":null,{rest}}}"#))),
            ("no aud", with("aud", Value::Null)),
            ("another aud", with("aud", json!("another"))),
            ("part of the aud", with("aud", json!("entourag"))),
            ("aud in capitals", with("aud", json!("ENTOURAGE"))),
            ("a list without the aud", with("aud", json!(["another", "third"]))),
            ("an empty list of aud", with("aud", json!([]))),
            ("aud is a number", with("aud", json!(1))),
            ("aud twice", text(format!(r#"{{"sub":"alice","exp":9999999999,"aud":"x",{rest}}}"#))),
            ("no iss", with("iss", Value::Null)),
            ("another iss", with("iss", json!("https://evil.example"))),
            ("a longer iss", with("iss", json!(format!("{ISSUER}/")))),
            ("a list of iss", with("iss", json!([ISSUER]))),
            ("no sub", with("sub", Value::Null)),
            ("an empty sub", with("sub", json!(""))),
            ("sub is a number", with("sub", json!(7))),
            ("a sub with a line's end", with("sub", json!("alice\nadmin"))),
            ("a sub of 129 bytes", with("sub", json!("x".repeat(129)))),
            ("sub twice", text(format!(r#"{{"sub":"bob","sub":"alice","exp":9999999999,{rest}}}"#))),
            ("claims are a list", text("[]".to_owned())),
            ("claims are text", text(r#""alice""#.to_owned())),
            ("claims are no JSON", text("{".to_owned())),
            ("claims are empty", text(String::new())),
            ("a scope that is a number", with("scope", json!(1))),
        ],
    );
    for (name, token) in [
        ("exp within its leeway", with("exp", json!(now - 59))),
        ("exp with a fraction", with("exp", json!(now as f64 + 10.5))),
        ("nbf within its leeway", with("nbf", json!(now + 60))),
        ("one of several aud", with("aud", json!(["another", AUDIENCE]))),
        ("a sub of 128 bytes", with("sub", json!("x".repeat(128)))),
        ("claims that are not known", with("email", json!("alice@example.org"))),
    ] {
        assert_eq!(server.ask(&format!("!{token} GET /users/alice")).status, 200, "{name}");
    }
}

#[test]
fn time_passes_for_tokens() {
    let credentials = Credentials::new();
    let server = serving(&credentials);
    let token = credentials.token("alice");
    server.check(&format!("!{token} GET /users/alice"), "200");
    credentials.clock.advance(359_000);
    server.check(&format!("!{token} GET /users/alice"), "200");
    credentials.clock.advance(1_000);
    let reply = server.check(&format!("!{token} GET /users/alice"), "401 unauthenticated");
    assert!(reply.body["detail"].as_str().unwrap().contains("expired"));
}

#[test]
fn a_public_key_is_no_secret_and_other_signatures_are_refused() {
    let ours = KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, rcgen::RsaKeySize::_2048).unwrap();
    let theirs = KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, rcgen::RsaKeySize::_2048).unwrap();
    let public = ours.public_key_pem();
    let credentials = Credentials::with(Algorithm::RS256, &[public.as_bytes()]);
    let server = serving(&credentials);
    let claims = credentials.claims("alice").to_string();
    let key = |pair: &KeyPair| EncodingKey::from_rsa_pem(pair.serialize_pem().as_bytes()).unwrap();
    let rsa = r#"{"alg":"RS256"}"#;
    let good = signed(Algorithm::RS256, &key(&ours), rsa, &claims);
    server.check(&format!("!{good} GET /users/alice"), "200");
    let head = good.rsplit_once('.').unwrap().0;
    refuse_all(
        &server,
        &[
            ("HS256 with the public key", hs256(public.as_bytes(), &claims)),
            ("HS256 with the public key, trimmed", hs256(public.trim_end().as_bytes(), &claims)),
            ("HS256 with the key's bytes", hs256(ours.public_key_raw(), &claims)),
            (
                "HS256 with the public key, called RS256",
                signed(Algorithm::HS256, &EncodingKey::from_secret(public.as_bytes()), rsa, &claims),
            ),
            ("another key", signed(Algorithm::RS256, &key(&theirs), rsa, &claims)),
            ("RS512", signed(Algorithm::RS512, &key(&ours), r#"{"alg":"RS512"}"#, &claims)),
            ("PS256", signed(Algorithm::PS256, &key(&ours), r#"{"alg":"PS256"}"#, &claims)),
            ("PS256 called RS256", signed(Algorithm::PS256, &key(&ours), rsa, &claims)),
            ("a signature of zeros", format!("{head}.{}", encode([0_u8; 256]))),
            ("a signature that is one", format!("{head}.{}", encode([[0_u8; 255].as_slice(), &[1]].concat()))),
        ],
    );
}

#[test]
fn curves_sign_too_and_their_empty_signatures_do_not() {
    let ec = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
    let ed = KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    let ec_key = EncodingKey::from_ec_pem(ec.serialize_pem().as_bytes()).unwrap();
    let ed_key = EncodingKey::from_ed_pem(ed.serialize_pem().as_bytes()).unwrap();
    for (algorithm, pair, key, alg) in
        [(Algorithm::ES256, &ec, &ec_key, "ES256"), (Algorithm::EdDSA, &ed, &ed_key, "EdDSA")]
    {
        let public = pair.public_key_pem();
        let credentials = Credentials::with(algorithm, &[public.as_bytes()]);
        let server = serving(&credentials);
        let claims = credentials.claims("alice").to_string();
        let header = json!({ "alg": alg }).to_string();
        let good = signed(algorithm, key, &header, &claims);
        server.check(&format!("!{good} GET /users/alice"), "200");
        let head = good.rsplit_once('.').unwrap().0;
        let other = if alg == "ES256" { (Algorithm::EdDSA, &ed_key) } else { (Algorithm::ES256, &ec_key) };
        let mut flipped = signature_bytes(head, key, algorithm);
        flipped[40] ^= 1;
        refuse_all(
            &server,
            &[
                ("zeros", format!("{head}.{}", encode([0_u8; 64]))),
                ("one and one", format!("{head}.{}", encode([[0_u8; 31].as_slice(), &[1], &[0; 31], &[1]].concat()))),
                ("too short", format!("{head}.{}", encode([1_u8; 63]))),
                ("one bit", format!("{head}.{}", encode(flipped))),
                ("another curve", signed(other.0, other.1, &header, &claims)),
                ("HS256 with the public key", hs256(public.as_bytes(), &claims)),
            ],
        );
    }
}

fn signature_bytes(head: &str, key: &EncodingKey, algorithm: Algorithm) -> Vec<u8> {
    use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
    URL_SAFE_NO_PAD.decode(crypto::sign(head.as_bytes(), key, algorithm).unwrap()).unwrap()
}

#[test]
fn two_keys_are_good_while_they_are_changed() {
    let new = b"the next HMAC secret, which is also long enough for tests";
    let credentials = Credentials::with(Algorithm::HS256, &[SECRET, new]);
    let server = serving(&credentials);
    let claims = credentials.claims("alice").to_string();
    let [old, fresh] = [SECRET, new.as_slice()].map(|secret| hs256(secret, &claims));
    server.check(&format!("!{old} GET /users/alice"), "200");
    server.check(&format!("!{fresh} GET /users/alice"), "200");
    // The old one goes, without a restart.
    std::fs::write(credentials.path("jwt-0"), new).unwrap();
    let gone = (0..50).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        server.ask(&format!("!{old} GET /users/alice")).status == 401
    });
    assert!(gone, "the old key is still good");
    server.check(&format!("!{fresh} GET /users/alice"), "200");
    // A file that cannot be used changes nothing.
    std::fs::write(credentials.path("jwt-0"), "short").unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1_200));
    server.check(&format!("!{fresh} GET /users/alice"), "200");
}

#[test]
fn keys_that_are_too_weak_or_of_another_kind_are_refused_at_the_start() {
    let ec = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
    let [public, private] = [ec.public_key_pem(), ec.serialize_pem()];
    for (algorithm, key, why) in [
        (Algorithm::HS256, &b"0123456789012345678901234567890"[..], "at least 32 bytes, this has 31"),
        (Algorithm::HS256, b"0123456789012345678901234567890\n", "at least 32 bytes, this has 31"),
        (Algorithm::HS384, &[7; 47], "at least 48 bytes"),
        (Algorithm::HS512, &[7; 63], "at least 64 bytes"),
        (Algorithm::HS256, public.as_bytes(), "not a PEM file"),
        (Algorithm::ES256, private.as_bytes(), "only the public one"),
        (Algorithm::RS256, public.as_bytes(), "no public key for RS256"),
        (Algorithm::ES256, b"nothing", "no public key for ES256"),
        (Algorithm::EdDSA, &[0xff; 40], "PEM"),
    ] {
        let credentials = Credentials::with(algorithm, &[key]);
        let opened = Access::open(&credentials.settings, std::sync::Arc::clone(&credentials.clock) as _);
        let error = opened.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains(why) && error.contains("jwt-0"), "{algorithm:?}: {error}");
    }
    let both = [public.as_bytes(), KeyPair::generate().unwrap().public_key_pem().as_bytes()].concat();
    let credentials = Credentials::with(Algorithm::ES256, &[&both]);
    let server = serving(&credentials);
    let key = EncodingKey::from_ec_pem(private.as_bytes()).unwrap();
    let token = signed(Algorithm::ES256, &key, r#"{"alg":"ES256"}"#, &credentials.claims("alice").to_string());
    server.check(&format!("!{token} GET /users/alice"), "200");
    assert_eq!(Code::Unauthenticated.http_status(), 401);
}
