//! The parameters of a URL that the driver does not know: `sslmode` with all its values, `sslrootcert`, and several hosts.

use std::{borrow::Cow, path::PathBuf};

use entourage_model::{Error, Result};
use percent_encoding::percent_decode_str;
use tokio_postgres::config::SslMode;

/// What `sslmode` says, as for every other client of PostgreSQL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mode {
    Disable,
    /// Encrypted where PostgreSQL offers that; whose certificate it is, is not asked.
    #[default]
    Prefer,
    /// Encrypted. With `sslrootcert` as `verify-ca`.
    Require,
    /// The certificate is signed by a CA that is trusted.
    VerifyCa,
    /// The same, and it is for the host that is connected to.
    VerifyFull,
}

impl Mode {
    const ALL: [(&'static str, Self); 5] = [
        ("disable", Self::Disable),
        ("prefer", Self::Prefer),
        ("require", Self::Require),
        ("verify-ca", Self::VerifyCa),
        ("verify-full", Self::VerifyFull),
    ];

    fn parse(text: &str) -> Result<Self> {
        let known = Self::ALL.into_iter().find(|(name, _)| *name == text);
        known.map(|(_, mode)| mode).ok_or_else(|| {
            let names = Self::ALL.map(|(name, _)| name).join(", ");
            Error::invalid(format!("store.url: sslmode={text} is unknown; it is one of {names}"))
        })
    }

    pub(super) const fn of_driver(self) -> SslMode {
        match self {
            Self::Disable => SslMode::Disable,
            Self::Prefer => SslMode::Prefer,
            Self::Require | Self::VerifyCa | Self::VerifyFull => SslMode::Require,
        }
    }
}

/// Which certificates are trusted to sign PostgreSQL's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Roots {
    /// Those of the machine.
    #[default]
    System,
    File(PathBuf),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) mode: Mode,
    pub(super) roots: Roots,
}

/// The URL for the driver, without what is ours, and what that says.
pub(super) fn split(url: &str) -> Result<(Cow<'_, str>, Options)> {
    let mut options = Options::default();
    let Some((place, query)) = url.split_once('?') else { return Ok((Cow::Borrowed(url), options)) };
    let mut kept: Vec<String> = Vec::new();
    for parameter in query.split('&') {
        let (name, raw) = parameter.split_once('=').unwrap_or((parameter, ""));
        let value = || {
            let text = percent_decode_str(raw).decode_utf8();
            text.map_err(|_| Error::invalid(format!("store.url: {name} is not UTF-8")))
        };
        match name {
            "sslmode" => options.mode = Mode::parse(&value()?)?,
            "sslrootcert" => {
                options.roots = match &*value()? {
                    "" => return Err(Error::invalid("store.url: sslrootcert= names a file in PEM, or is system")),
                    "system" => Roots::System,
                    file => Roots::File(PathBuf::from(file)),
                };
            }
            // The driver takes several of these, and no list in one.
            "host" => kept.extend(raw.split(',').map(|host| format!("host={host}"))),
            _ => kept.push(parameter.to_owned()),
        }
    }
    if options.mode == Mode::Require && options.roots != Roots::System {
        options.mode = Mode::VerifyCa;
    }
    let url = if kept.is_empty() { place.to_owned() } else { format!("{place}?{}", kept.join("&")) };
    Ok((Cow::Owned(url), options))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_are_taken_out_and_the_rest_stays() {
        let check = |url: &str, left: &str, mode: Mode, file: Option<&str>| {
            let (rest, options) = split(url).unwrap();
            let roots = file.map_or(Roots::System, |file| Roots::File(PathBuf::from(file)));
            assert_eq!((&*rest, options), (left, Options { mode, roots }), "{url}");
        };
        let (plain, host) = ("postgres://a:b%3F@h/d", "postgres://a:b%3F@h/d?target_session_attrs=any");
        check(plain, plain, Mode::Prefer, None);
        check(host, host, Mode::Prefer, None);
        check(&format!("{plain}?sslmode=disable"), plain, Mode::Disable, None);
        check(&format!("{plain}?sslmode=require&target_session_attrs=any"), host, Mode::Require, None);
        check(&format!("{plain}?sslmode=verify-ca"), plain, Mode::VerifyCa, None);
        let with_file = format!("{host}&sslrootcert=%2Ftmp%2Fmy%20ca.pem&sslmode=verify-full");
        check(&with_file, host, Mode::VerifyFull, Some("/tmp/my ca.pem"));
        check(&format!("{plain}?sslmode=verify-full&sslrootcert=system"), plain, Mode::VerifyFull, None);
        // As libpq does: whoever names a CA wants it to be checked.
        check(&format!("{plain}?sslmode=require&sslrootcert=ca.pem"), plain, Mode::VerifyCa, Some("ca.pem"));
    }

    #[test]
    fn a_wrong_value_is_told_what_is_right() {
        for value in ["", "on", "allow", "VERIFY-FULL", "verify_full"] {
            let error = split(&format!("postgres://h/d?sslmode={value}")).unwrap_err().to_string();
            assert!(error.contains("disable, prefer, require, verify-ca, verify-full"), "{error}");
        }
        assert!(split("postgres://h/d?sslrootcert=").unwrap_err().to_string().contains("sslrootcert"));
        assert!(split("postgres://h/d?sslrootcert=%ff").is_err());
    }
}
