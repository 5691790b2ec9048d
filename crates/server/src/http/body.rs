//! JSON bodies: one object, no unknown or repeated fields, and a pointer to each error.

use std::{fmt, marker::PhantomData};

use axum::http::{HeaderMap, header};
use entourage_model::{Code, Error, Result};
use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeOwned, IntoDeserializer, MapAccess, Unexpected, Visitor, value::MapAccessDeserializer},
};
use serde_path_to_error::Segment;

pub(super) fn parse<T: DeserializeOwned>(headers: &HeaderMap, bytes: &[u8]) -> Result<T> {
    check_type(headers)?;
    // Serde would accept an array for an object, field by field.
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
    // Serde reports these at the object and names the field in the text only.
    if let Some(name) = named_field(&detail).map(escape)
        && !pointer.ends_with(&format!("/{name}"))
    {
        pointer.push('/');
        pointer.push_str(&name);
    }
    // Refusals of the model keep their code.
    let code = if detail.starts_with("invalid_id: ") { Code::InvalidId } else { Code::InvalidRequest };
    let detail = detail.strip_prefix("invalid_id: ").unwrap_or(&detail);
    let detail = detail.split(" at line ").next().unwrap_or(detail);
    Error::new(code, "a field of the body is not valid").at(pointer, detail)
}

/// The unknown, duplicate or missing field in serde's message.
pub(super) fn named_field(detail: &str) -> Option<&str> {
    let starts = ["unknown field `", "duplicate field `", "missing field `"];
    starts.iter().find_map(|start| detail.strip_prefix(start)?.split('`').next())
}

fn segment(segment: &Segment) -> String {
    match segment {
        Segment::Seq { index } => format!("/{index}"),
        Segment::Map { key } => format!("/{}", escape(key)),
        Segment::Enum { variant } => format!("/{}", escape(variant)),
        Segment::Unknown => String::new(),
    }
}

/// As in RFC 6901.
pub(super) fn escape(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// A nested object: serde would accept an array for it, field by field.
pub(super) struct Object<T>(pub(super) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor(PhantomData))
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = Object<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Object)
    }
}

/// An enum as text only: serde would also accept an object with one field.
pub(super) fn word<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    let text = String::deserialize(deserializer)?;
    T::deserialize(text.into_deserializer())
}

/// A whole number: to JSON Schema `7.0` is one, and some languages write it so.
pub(super) struct Whole(pub(super) u32);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Expected;

        impl Visitor<'_> for Expected {
            type Value = Whole;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a whole number from 0 to 4294967295")
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Whole, E> {
                let wrong = || E::invalid_value(Unexpected::Unsigned(number), &self);
                u32::try_from(number).map(Whole).map_err(|_| wrong())
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Whole, E> {
                let wrong = || E::invalid_value(Unexpected::Signed(number), &self);
                u32::try_from(number).map(Whole).map_err(|_| wrong())
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Whole, E> {
                if number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number) {
                    return Ok(Whole(number as u32));
                }
                Err(E::invalid_value(Unexpected::Float(number), &self))
            }
        }

        deserializer.deserialize_any(Expected)
    }
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

/// For routes without a body.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}
