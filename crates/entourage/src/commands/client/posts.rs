//! `post`, and how posts are shown.

use std::io::Read;

use clap::Args;
use serde_json::{Map, Value, json};
use ureq::http::Method;

use super::{connection::Connection, table};

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Who writes it.
    user: String,
    /// A JSON object, or a text, which becomes {"text": …}; `-` reads either from standard input.
    body: String,
    /// The application's own name of it; repeated, it is the post that is there.
    #[arg(long, value_name = "ID")]
    external_id: Option<String>,
    #[command(flatten)]
    connection: Connection,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let Arguments { user, body, external_id, connection } = arguments;
    let body = match body.as_str() {
        "-" => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text)?;
            object(text.trim_end_matches(['\r', '\n']))
        }
        text => object(text),
    };
    let named = external_id.as_ref().map(|id| format!(r#","external_id":{}"#, Value::from(id.as_str())));
    let text = format!(r#"{{"body":{body}{}}}"#, named.unwrap_or_default());
    let made = connection.acting_for(user)?.send_text(Method::POST, "/posts", text)?;
    connection.print(&made, table::fields)
}

/// An object is sent as written.
fn object(text: &str) -> String {
    match serde_json::from_str::<Map<String, Value>>(text) {
        Ok(_) => text.to_owned(),
        Err(_) => json!({ "text": text }).to_string(),
    }
}

/// A post's body on one line: its text if it has one, else the whole body.
pub(super) fn words(post: &Value) -> String {
    let body = &post["body"];
    printable(body["text"].as_str().map_or_else(|| body.to_string(), str::to_owned).trim())
}

/// Removes control characters: other people's text must not control the terminal.
pub(super) fn printable(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_become_objects_and_objects_stay_as_they_are() {
        for (text, expected) in [
            ("hello", r#"{"text":"hello"}"#),
            (r#"{ "a" :1}"#, r#"{ "a" :1}"#),
            ("[1]", r#"{"text":"[1]"}"#),
            ("{oops", r#"{"text":"{oops"}"#),
            ("7", r#"{"text":"7"}"#),
            ("", r#"{"text":""}"#),
        ] {
            assert_eq!(object(text), expected, "{text}");
        }
    }

    #[test]
    fn a_post_stays_on_its_line() {
        assert_eq!(words(&json!({ "body": { "text": "a\nb\u{1b}[31m" } })), "a b [31m");
        assert_eq!(words(&json!({ "body": { "n": 1 } })), r#"{"n":1}"#);
    }
}
