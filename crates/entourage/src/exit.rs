//! Exit codes: 0 ok, 1 failure, 2 usage, 3 not found, 4 unreachable.

use std::{io::Write, process::ExitCode};

use entourage_embedded::Fault;
use entourage_model::Code;
use entourage_server::config::ConfigError;

const FAILURE: u8 = 1;
const USAGE: u8 = 2;
const NOT_FOUND: u8 = 3;
const UNREACHABLE: u8 = 4;

/// Prints the error, if there is one, and chooses the code.
pub(crate) fn code(result: anyhow::Result<()>) -> ExitCode {
    let Err(error) = result else { return ExitCode::SUCCESS };
    // Nothing to do if standard error cannot be written.
    let _ = writeln!(std::io::stderr(), "error: {}", text(&error));
    ExitCode::from(number(&error))
}

/// The error with its causes, without repetition: an error often includes the text of its cause.
fn text(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let said = match cause.downcast_ref::<entourage_model::Error>() {
            Some(error) => error.detail().to_owned(),
            None => cause.to_string(),
        };
        if text.is_empty() {
            text = said;
        } else if !text.ends_with(&said) {
            text = format!("{text}: {said}");
        }
    }
    text
}

fn number(error: &anyhow::Error) -> u8 {
    if error.is::<ConfigError>() {
        return USAGE;
    }
    // A folder in use by another process is unreachable for now; any other problem with a local folder is a failure.
    if let Some(fault) = error.chain().find_map(|cause| cause.downcast_ref::<Fault>()) {
        return if matches!(fault, Fault::InUse(_)) { UNREACHABLE } else { FAILURE };
    }
    match error.downcast_ref::<entourage_model::Error>().map(entourage_model::Error::code) {
        Some(Code::InvalidRequest | Code::InvalidId) => USAGE,
        Some(Code::NotFound | Code::UserNotFound | Code::ActorNotFound | Code::PostNotFound | Code::GroupNotFound) => {
            NOT_FOUND
        }
        Some(Code::Unavailable) => UNREACHABLE,
        _ => FAILURE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_choose_their_code() {
        let model = |code| anyhow::Error::from(entourage_model::Error::new(code, "why"));
        assert_eq!(number(&model(Code::InvalidRequest)), USAGE);
        assert_eq!(number(&model(Code::UserNotFound)), NOT_FOUND);
        assert_eq!(number(&model(Code::Unavailable).context("opening the store")), UNREACHABLE);
        assert_eq!(number(&model(Code::Internal)), FAILURE);
        assert_eq!(number(&anyhow::anyhow!("anything")), FAILURE);
        let unknown = ConfigError::Unknown { name: "x".to_owned(), origin: "y".to_owned() };
        assert_eq!(number(&anyhow::Error::from(unknown)), USAGE);
        let in_use = || anyhow::Error::from(entourage_model::Error::from(Fault::InUse("data".to_owned())));
        assert_eq!(number(&in_use()), UNREACHABLE);
        assert_eq!(number(&in_use().context("opening the store")), UNREACHABLE);
        let broken = entourage_model::Error::from(Fault::from(std::io::Error::other("no luck")));
        assert_eq!(number(&anyhow::Error::from(broken)), FAILURE);
    }

    #[test]
    fn causes_are_said_once() {
        let fault = Fault::from(std::io::Error::other("no luck"));
        assert_eq!(text(&anyhow::Error::from(entourage_model::Error::from(fault.clone()))), "no luck");
        let error = entourage_model::Error::unavailable("data.dir x").caused_by(fault);
        assert_eq!(text(&anyhow::Error::from(error).context("opening")), "opening: data.dir x: no luck");
    }
}
