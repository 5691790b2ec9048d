//! Settings of authentication and TLS, checked together because some need each other.

use std::path::PathBuf;

use super::{ConfigError, Raw, units::list};
use crate::auth::{JwtSettings, ServiceKey, parse_keys};

/// Without tokens and without keys it is development mode.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthSettings {
    pub jwt: Option<JwtSettings>,
    pub service_keys_file: Option<PathBuf>,
    /// Keys given in the settings themselves.
    pub service_keys: Vec<ServiceKey>,
    pub challenge_key_file: Option<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSettings {
    pub cert_file: PathBuf,
    pub key_file: PathBuf,
}

impl AuthSettings {
    pub(super) fn check(raw: &Raw) -> Result<Self, ConfigError> {
        Ok(Self {
            jwt: jwt(raw)?,
            service_keys_file: file(raw, "auth.service_keys_file")?,
            service_keys: service_keys(raw)?,
            challenge_key_file: file(raw, "limits.challenge_key_file")?,
        })
    }
}

/// Lines of a key file, as a list.
fn service_keys(raw: &Raw) -> Result<Vec<ServiceKey>, ConfigError> {
    let expected = "what `entourage key new --print` prints, each name once, with commas between";
    raw.checked("auth.service_keys", expected, |text| parse_keys(&list(text).collect::<Vec<_>>().join("\n")).ok())
}

fn jwt(raw: &Raw) -> Result<Option<JwtSettings>, ConfigError> {
    const EXPECTED: &str = "all of auth.jwt.algorithm, key_file, issuer and audience, or none";
    let names = ["auth.jwt.algorithm", "auth.jwt.key_file", "auth.jwt.issuer", "auth.jwt.audience"];
    let mut is_set = false;
    for name in names {
        is_set |= !raw.checked(name, "", |text| Some(text.is_empty()))?;
    }
    if !is_set {
        return Ok(None);
    }
    let given = |name| raw.checked(name, EXPECTED, |text| (!text.is_empty()).then(|| text.to_owned()));
    for name in names {
        given(name)?;
    }
    let expected = "HS256, HS384, HS512, RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384 or EdDSA";
    Ok(Some(JwtSettings {
        algorithm: raw.checked(names[0], expected, |text| text.parse().ok())?,
        key_files: raw.checked(names[1], "a file, or several with commas between", |text| {
            let files: Vec<PathBuf> = text.split(',').map(|file| PathBuf::from(file.trim())).collect();
            files.iter().all(|file| !file.as_os_str().is_empty()).then_some(files)
        })?,
        issuer: given(names[2])?,
        audience: given(names[3])?,
    }))
}

pub(super) fn tls(raw: &Raw) -> Result<Option<TlsSettings>, ConfigError> {
    let names = ["tls.cert_file", "tls.key_file"];
    let [cert_file, key_file] = [file(raw, names[0])?, file(raw, names[1])?];
    match (cert_file, key_file) {
        (Some(cert_file), Some(key_file)) => Ok(Some(TlsSettings { cert_file, key_file })),
        (None, None) => Ok(None),
        (missing, _) => {
            let name = if missing.is_none() { names[0] } else { names[1] };
            raw.checked(name, "both tls.cert_file and tls.key_file, or none", |_| None)
        }
    }
}

/// Empty text is no file.
pub(super) fn file(raw: &Raw, name: &'static str) -> Result<Option<PathBuf>, ConfigError> {
    raw.checked(name, "a path", |text| Some((!text.is_empty()).then(|| PathBuf::from(text))))
}

#[cfg(test)]
mod tests {
    use entourage_model::Millis;

    use super::*;
    use crate::config::Origin;

    fn with(pairs: &[(&str, &str)]) -> Raw {
        let mut raw = Raw::default();
        for (name, text) in pairs {
            raw.set(name, *text, Origin::Flag("--test")).unwrap();
        }
        raw
    }

    #[test]
    fn tokens_are_set_whole_or_not_at_all() {
        assert_eq!(AuthSettings::check(&Raw::default()).unwrap(), AuthSettings::default());
        let whole = [
            ("auth.jwt.algorithm", "ES256"),
            ("auth.jwt.key_file", "old.pem, new.pem"),
            ("auth.jwt.issuer", "me"),
            ("auth.jwt.audience", "entourage"),
        ];
        let jwt = AuthSettings::check(&with(&whole)).unwrap().jwt.unwrap();
        assert_eq!(jwt.key_files, [PathBuf::from("old.pem"), PathBuf::from("new.pem")]);
        for left_out in 0..whole.len() {
            let mut part = whole.to_vec();
            let (name, _) = part.remove(left_out);
            let error = AuthSettings::check(&with(&part)).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("or none"), "{error}");
        }
        for (name, text) in [("auth.jwt.algorithm", "none"), ("auth.jwt.key_file", "a.pem,,b.pem")] {
            let mut wrong = whole.to_vec();
            wrong.push((name, text));
            let error = AuthSettings::check(&with(&wrong)).unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
        }
    }

    #[test]
    fn service_keys_can_be_settings() {
        let [web, boss] = [("web", false), ("boss", true)]
            .map(|(name, admin)| ServiceKey::generate(name, admin, Millis::from_since_2000(5_000)).unwrap().0);
        let keys = |text: String| {
            AuthSettings::check(&with(&[("auth.service_keys", &text)])).map(|settings| settings.service_keys)
        };
        assert_eq!(keys(String::new()).unwrap(), []);
        assert_eq!(keys(format!("{web}, {boss}")).unwrap(), [web.clone(), boss.clone()]);
        assert_eq!(keys(format!("{web}\n{boss}\n")).unwrap(), [web.clone(), boss.clone()]);
        let mut raw = Raw::default();
        raw.read_toml(&format!("[auth]\nservice_keys = [\"{web}\", \"{boss}\"]\n"), "a.toml").unwrap();
        assert_eq!(AuthSettings::check(&raw).unwrap().service_keys, [web.clone(), boss]);
        for wrong in [format!("{web}, {web}"), "web".to_owned(), format!("{web} {web}")] {
            let error = keys(wrong).unwrap_err().to_string();
            assert!(error.contains("auth.service_keys") && error.contains("entourage key new --print"), "{error}");
        }
    }

    #[test]
    fn a_certificate_needs_its_key() {
        assert_eq!(tls(&Raw::default()).unwrap(), None);
        assert!(tls(&with(&[("tls.cert_file", "a"), ("tls.key_file", "b")])).unwrap().is_some());
        for (given, missing) in [("tls.cert_file", "tls.key_file"), ("tls.key_file", "tls.cert_file")] {
            let error = tls(&with(&[(given, "a")])).unwrap_err().to_string();
            assert!(error.contains(&format!("{missing} = \"\"")), "{error}");
        }
    }
}
