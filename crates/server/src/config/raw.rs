//! Settings as text with their origin. Unknown names are refused here, whatever their value.

use std::{collections::BTreeMap, fmt, path::Path};

use config::{FileFormat, Source, Value, ValueKind};

use super::{
    ConfigError, SETTINGS,
    secrets::without_secrets,
    table::{find, renamed},
};

const ENVIRONMENT_PREFIX: &str = "ENTOURAGE_";

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    Default,
    File(String),
    Environment(String),
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => f.write_str(path),
            Self::Environment(variable) => write!(f, "environment variable {variable}"),
            Self::Flag(flag) => write!(f, "flag {flag}"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawValue {
    pub text: String,
    pub origin: Origin,
}

impl RawValue {
    /// The text with secrets removed.
    pub fn shown(&self) -> String {
        without_secrets(&self.text)
    }
}

/// One text for each setting.
#[derive(Clone, Debug)]
pub struct Raw(BTreeMap<&'static str, RawValue>);

impl Default for Raw {
    fn default() -> Self {
        let value = |text: &str| RawValue { text: text.to_owned(), origin: Origin::Default };
        Self(SETTINGS.iter().map(|setting| (setting.name, value(setting.default))).collect())
    }
}

impl Raw {
    /// A later call beats an earlier one.
    pub fn set(&mut self, name: &str, text: impl Into<String>, origin: Origin) -> Result<(), ConfigError> {
        let Some(setting) = find(name) else {
            let (name, origin) = (name.to_owned(), origin.to_string());
            return Err(match renamed(&name) {
                Some(new) => ConfigError::Renamed { name, new, origin },
                None => ConfigError::Unknown { name, origin },
            });
        };
        self.0.insert(setting.name, RawValue { text: text.into(), origin });
        Ok(())
    }

    pub fn read_file(&mut self, path: &Path) -> Result<(), ConfigError> {
        let file = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|error| ConfigError::File { file: file.clone(), detail: error.to_string() })?;
        self.read_toml(&text, &file)
    }

    pub fn read_toml(&mut self, text: &str, file: &str) -> Result<(), ConfigError> {
        let broken = |detail: String| ConfigError::File { file: file.to_owned(), detail };
        let table = config::File::from_str(text, FileFormat::Toml).collect();
        let table = table.map_err(|error| broken(without_source(&error.to_string())))?;
        let mut found = Vec::new();
        for (name, value) in table {
            flatten(name, value, &mut found).map_err(broken)?;
        }
        found.into_iter().try_for_each(|(name, text)| self.set(&name, text, Origin::File(file.to_owned())))
    }

    /// `ENTOURAGE_SECTION__NAME`; an unknown setting is an error. Variables of another form are ignored, unless only an
    /// underscore is missing.
    pub fn read_environment(&mut self, variables: impl Iterator<Item = (String, String)>) -> Result<(), ConfigError> {
        for (variable, text) in variables {
            if let Some(rest) = variable.strip_prefix(ENVIRONMENT_PREFIX) {
                let name = rest.to_ascii_lowercase();
                let is_meant = SETTINGS.iter().any(|setting| setting.name.replace('.', "_") == name);
                if name.contains("__") || is_meant {
                    self.set(&name.replace("__", "."), text, Origin::Environment(variable.clone()))?;
                }
            }
        }
        Ok(())
    }

    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &RawValue)> {
        SETTINGS.iter().filter_map(|setting| Some((setting.name, self.0.get(setting.name)?)))
    }

    pub(super) fn checked<T>(
        &self,
        name: &'static str,
        expected: &'static str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, ConfigError> {
        let unknown = || ConfigError::Unknown { name: name.to_owned(), origin: "code".to_owned() };
        let value = self.0.get(name).ok_or_else(unknown)?;
        let (text, origin) = (value.shown(), value.origin.to_string());
        parse(&value.text).ok_or(ConfigError::Invalid { name, text, expected, origin })
    }
}

/// The error and its position without the source line, which may hold a password.
fn without_source(error: &str) -> String {
    let is_source = |line: &str| {
        line.trim_start().trim_start_matches(|letter: char| letter.is_ascii_digit()).trim_start().starts_with('|')
    };
    let lines: Vec<&str> =
        error.lines().map(str::trim_end).filter(|line| !line.is_empty() && !is_source(line)).collect();
    without_secrets(&lines.join(": "))
}

fn flatten(name: String, value: Value, found: &mut Vec<(String, String)>) -> Result<(), String> {
    match value.kind {
        ValueKind::Table(table) => {
            table.into_iter().try_for_each(|(part, value)| flatten(format!("{name}.{part}"), value, found))
        }
        ValueKind::Array(values) if find(&name).is_some_and(|setting| setting.is_list) => {
            let texts = values.into_iter().map(|value| text(&name, value)).collect::<Result<Vec<_>, _>>()?;
            found.push((name, texts.join(", ")));
            Ok(())
        }
        _ => {
            found.push((name.clone(), text(&name, value)?));
            Ok(())
        }
    }
}

fn text(name: &str, value: Value) -> Result<String, String> {
    value.into_string().map_err(|_| format!("{name} is neither text, number nor boolean"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;

    #[test]
    fn later_sources_win_and_origins_are_kept() {
        let mut raw = Raw::default();
        raw.read_toml("[http]\nlisten = \"127.0.0.1:1\"\n[users]\nauto_create = true\n", "a.toml").unwrap();
        let variables = [("ENTOURAGE_HTTP__LISTEN", "127.0.0.1:2"), ("PATH", "/bin")];
        raw.read_environment(variables.map(|(name, text)| (name.to_owned(), text.to_owned())).into_iter()).unwrap();
        let origin = |raw: &Raw, name: &str| raw.0[name].clone();
        assert_eq!(origin(&raw, "http.listen").text, "127.0.0.1:2");
        assert_eq!(origin(&raw, "users.auto_create").text, "true");
        raw.set("http.listen", "127.0.0.1:3", Origin::Flag("--http")).unwrap();
        assert_eq!(origin(&raw, "http.listen").origin, Origin::Flag("--http"));
        assert_eq!(origin(&raw, "data.dir").origin, Origin::Default);
    }

    #[test]
    fn passwords_are_not_shown() {
        let (address, canary) = ("postgres://me@host/db?password=canary", "canary");
        assert_eq!(
            RawValue { text: address.to_owned(), origin: Origin::Default }.shown(),
            address.replace(canary, "…")
        );
        let mut raw = Raw::default();
        raw.set("logging.level", address, Origin::Flag("--set")).unwrap();
        let error = raw.checked("logging.level", "a level", |_| None::<()>).unwrap_err().to_string();
        assert!(error.contains("logging.level") && !error.contains(canary), "{error}");
        for broken in ["\"", " \"\"", "\"\nurl = 7", " ]"] {
            let toml = format!("[store]\nurl = \"{address}{broken}\n");
            let error = raw.read_toml(&toml, "a.toml").map(|()| Settings::check(&raw)).err();
            let Some(error) = error.map(|error| error.to_string()) else { continue };
            assert!(error.contains("line") && !error.contains(canary), "{error}");
        }
    }

    #[test]
    fn unknown_names_are_errors_that_name_them() {
        let mut raw = Raw::default();
        let error = raw.read_toml("[limits]\nfollowing_mx = 3\n", "a.toml").unwrap_err().to_string();
        assert!(error.contains("limits.following_mx") && error.contains("a.toml"), "{error}");
        let error = raw.read_toml("[surprise.deep]\nkey = 1\n", "a.toml").unwrap_err().to_string();
        assert!(error.contains("surprise.deep.key"), "{error}");
        assert!(raw.read_toml("[http]\nlisten = [1]\n", "a.toml").is_err());
        assert!(raw.read_toml("[http]\ncors_origins = [[\"https://a.example\"]]\n", "a.toml").is_err());
        assert!(raw.read_toml("[http\n", "a.toml").is_err());
        let variable = [("ENTOURAGE_HTTP__LISTN".to_owned(), "x".to_owned())];
        let error = raw.read_environment(variable.into_iter()).unwrap_err().to_string();
        assert!(error.contains("http.listn") && error.contains("ENTOURAGE_HTTP__LISTN"), "{error}");
        let error = raw.read_toml("[log]\nlevel = \"warn\"\n", "a.toml").unwrap_err().to_string();
        assert_eq!(error, "a.toml: log.level is called logging.level now");
        let variable = [("ENTOURAGE_LOG__FORMAT".to_owned(), "json".to_owned())];
        let error = raw.read_environment(variable.into_iter()).unwrap_err().to_string();
        assert_eq!(error, "environment variable ENTOURAGE_LOG__FORMAT: log.format is called logging.format now");
        for (variable, fine) in [("ENTOURAGE_HTTP_LISTEN", false), ("ENTOURAGE_TEST_PLACE", true)] {
            let read = raw.read_environment([(variable.to_owned(), "x".to_owned())].into_iter());
            assert_eq!(read.is_ok(), fine, "{variable}");
        }
    }
}
