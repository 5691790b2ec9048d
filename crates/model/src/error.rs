//! The one error struct: what went wrong, what would be right, when to retry.

use std::{borrow::Cow, fmt, sync::Arc, time::Duration};

use serde::Serialize;

use crate::Code;

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// One invalid field: a JSON pointer into the request, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FieldError {
    pub pointer: String,
    pub detail: String,
}

/// A refusal or a failure. The code decides how each front says it.
#[derive(Clone, Debug)]
pub struct Error {
    code: Code,
    detail: Cow<'static, str>,
    fields: Vec<FieldError>,
    retry_after: Option<Duration>,
    /// For expired events: the cursor to resume from.
    resume: Option<String>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    pub fn new(code: Code, detail: impl Into<Cow<'static, str>>) -> Self {
        let retry_after = code.is_retryable().then_some(Duration::from_secs(1));
        Self { code, detail: detail.into(), fields: Vec::new(), retry_after, resume: None, source: None }
    }

    pub fn invalid(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::InvalidRequest, detail)
    }

    pub fn unavailable(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::Unavailable, detail)
    }

    pub fn internal(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::Internal, detail)
    }

    #[must_use]
    pub fn at(mut self, pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        self.fields.push(FieldError { pointer: pointer.into(), detail: detail.into() });
        self
    }

    #[must_use]
    pub fn retry_after(mut self, delay: Duration) -> Self {
        self.retry_after = Some(delay);
        self
    }

    #[must_use]
    pub fn resume_from(mut self, cursor: String) -> Self {
        self.resume = Some(cursor);
        self
    }

    #[must_use]
    pub fn caused_by(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    pub const fn code(&self) -> Code {
        self.code
    }

    pub fn detail(&self) -> &str {
        &self.detail
    }

    pub fn fields(&self) -> &[FieldError] {
        &self.fields
    }

    pub const fn retry_delay(&self) -> Option<Duration> {
        self.retry_after
    }

    pub fn resume(&self) -> Option<&str> {
        self.resume.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.as_str(), self.detail)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
