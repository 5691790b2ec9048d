//! Errors of commands: refusals of the service, or errors in the protocol's own words.

use std::borrow::Cow;

use entourage_model::Error;

use super::{encode::Out, key::NoKey};

#[derive(Debug)]
pub(super) enum Fail {
    Refused(Error),
    /// A whole error, with its prefix.
    Said(Cow<'static, str>),
}

pub(super) type Done<T = ()> = Result<T, Fail>;

pub(super) const SYNTAX: &str = "ERR syntax error";
pub(super) const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";

impl Fail {
    pub(super) fn say(&self, out: &mut Out) {
        match self {
            Self::Refused(error) => out.refusal(error),
            Self::Said(text) => out.error(text),
        }
    }
}

impl From<Error> for Fail {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl From<NoKey> for Fail {
    fn from(no_key: NoKey) -> Self {
        Self::Said(no_key.text().into())
    }
}

impl From<&'static str> for Fail {
    fn from(text: &'static str) -> Self {
        Self::Said(text.into())
    }
}

impl From<String> for Fail {
    fn from(text: String) -> Self {
        Self::Said(text.into())
    }
}
