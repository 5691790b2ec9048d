//! JSON bodies: one object, no unknown or repeated field, and a pointer to whatever is wrong.

use axum::http::{HeaderMap, header};
use entourage_model::{Code, Error, Result};
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_path_to_error::Segment;

pub(super) fn parse<T: DeserializeOwned>(headers: &HeaderMap, bytes: &[u8]) -> Result<T> {
    check_type(headers)?;
    // Serde would take an array for an object, field by field.
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err(Error::invalid("the body is not a JSON object").at("", "a JSON object"));
    }
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| refuse(&error))?;
    json.end().map_err(|error| Error::invalid("the body goes on after its object").at("", error.to_string()))?;
    Ok(value)
}

fn check_type(headers: &HeaderMap) -> Result<()> {
    let given = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = given.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if essence == "application/json" {
        return Ok(());
    }
    Err(Error::new(Code::UnsupportedMediaType, "send the body with Content-Type: application/json"))
}

fn refuse(error: &serde_path_to_error::Error<serde_json::Error>) -> Error {
    let detail = error.inner().to_string();
    if error.inner().is_syntax() || error.inner().is_eof() {
        return Error::invalid("the body is not valid JSON").at("", detail);
    }
    let mut pointer: String = error.path().iter().map(segment).collect();
    // These are found at the object, and name the field in their text only.
    let names_field = ["unknown field `", "duplicate field `", "missing field `"];
    let named = names_field.iter().find_map(|start| detail.strip_prefix(start)?.split('`').next());
    if let Some(name) = named.map(escape)
        && !pointer.ends_with(&format!("/{name}"))
    {
        pointer.push('/');
        pointer.push_str(&name);
    }
    // The model's own refusals keep their code.
    let code = if detail.starts_with("invalid_id: ") { Code::InvalidId } else { Code::InvalidRequest };
    let detail = detail.strip_prefix("invalid_id: ").unwrap_or(&detail);
    let detail = detail.split(" at line ").next().unwrap_or(detail);
    Error::new(code, "a field of the body is not valid").at(pointer, detail)
}

fn segment(segment: &Segment) -> String {
    match segment {
        Segment::Seq { index } => format!("/{index}"),
        Segment::Map { key } => format!("/{}", escape(key)),
        Segment::Enum { variant } => format!("/{}", escape(variant)),
        Segment::Unknown => String::new(),
    }
}

/// As RFC 6901 says.
fn escape(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// A field that may be missing but not `null`.
pub(super) fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// A field that may be missing, or `null` to clear it.
pub(super) fn clearable<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// For routes that take nothing.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}
