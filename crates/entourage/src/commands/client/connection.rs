//! A server, and on whose behalf requests are made.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    time::Duration,
};

use anyhow::Context;
use clap::Args;
use entourage_model::{Code, Error};
use entourage_server::config::without_secrets;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, value::RawValue};
use ureq::{
    Body,
    config::ConfigBuilder,
    http::{Method, Request, Response, request},
    typestate::AgentScope,
};

use super::access::{Access, unreachable};

const TIMEOUT: Duration = Duration::from_secs(30);
const LONG_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);
/// Characters that need no escaping in a path.
const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// How long a stream is read before reconnecting, which detects connections that died silently.
const STREAM_TIMEOUT: Duration = Duration::from_secs(300);

#[derive(Args, Clone, Debug)]
pub(crate) struct Connection {
    /// The server.
    #[arg(long, value_name = "URL", env = "ENTOURAGE_SERVER", default_value = "http://127.0.0.1:7070")]
    server: String,
    /// The acting user; without one the view is a service's.
    #[arg(long, value_name = "ID")]
    actor: Option<String>,
    #[command(flatten)]
    access: Access,
    /// Print JSON.
    #[arg(long)]
    pub(super) json: bool,
}

impl Connection {
    /// For a command with its own flag for the server.
    pub(crate) const fn new(server: String, access: Access, json: bool) -> Self {
        Self { server, actor: None, access, json }
    }

    pub(super) fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.ask(Method::GET, path, None)
    }

    pub(super) fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
        self.read(&self.text(method, &format!("/api/v1{path}"), body)?)
    }

    /// Without a timeout, for requests that copy or write everything.
    pub(crate) fn ask_patiently(&self, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
        self.read(&self.send(Method::POST, &format!("/api/v1{path}"), body, LONG_TIMEOUT)?)
    }

    fn read(&self, text: &str) -> anyhow::Result<Value> {
        read(text).with_context(|| format!("the answer of {} is not JSON", self.shown()))
    }

    pub(super) fn text(&self, method: Method, path: &str, body: Option<&Value>) -> anyhow::Result<String> {
        self.send(method, path, body, TIMEOUT)
    }

    fn send(&self, method: Method, path: &str, body: Option<&Value>, timeout: Duration) -> anyhow::Result<String> {
        let request = self.request(method, path)?;
        let request = if body.is_some() { request.header("content-type", "application/json") } else { request };
        let config = ureq::Agent::config_builder().timeout_global(Some(timeout));
        let mut reply = self.begin(request, body.map(Value::to_string).unwrap_or_default(), config)?;
        Ok(reply.body_mut().read_to_string().map_err(|error| self.unreachable(&error))?)
    }

    /// Sends JSON exactly as given.
    pub(super) fn send_text(&self, method: Method, path: &str, json: String) -> anyhow::Result<Value> {
        let request = self.request(method, &format!("/api/v1{path}"))?.header("content-type", "application/json");
        let config = ureq::Agent::config_builder().timeout_global(Some(TIMEOUT));
        let mut reply = self.begin(request, json, config)?;
        self.read(&reply.body_mut().read_to_string().map_err(|error| self.unreachable(&error))?)
    }

    /// Opens a stream after an event, or from now on.
    pub(super) fn stream(&self, path: &str, last_event_id: Option<&str>) -> anyhow::Result<impl BufRead + use<>> {
        let mut request = self.request(Method::GET, &format!("/api/v1{path}"))?.header("accept", "text/event-stream");
        if let Some(id) = last_event_id {
            request = request.header("last-event-id", id);
        }
        let config = ureq::Agent::config_builder()
            .timeout_connect(Some(TIMEOUT))
            .timeout_recv_response(Some(TIMEOUT))
            .timeout_recv_body(Some(STREAM_TIMEOUT));
        let reply = self.begin(request, String::new(), config)?;
        Ok(BufReader::new(reply.into_body().into_reader()))
    }

    /// The same server with this acting user.
    pub(super) fn acting_for(&self, user: &str) -> anyhow::Result<Self> {
        match &self.actor {
            Some(actor) if actor != user => {
                Err(Error::invalid(format!("--actor {actor} cannot do this for {user}")).into())
            }
            _ => Ok(Self { actor: Some(user.to_owned()), ..self.clone() }),
        }
    }

    fn request(&self, method: Method, path: &str) -> anyhow::Result<request::Builder> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.base()));
        if let Some(actor) = &self.actor {
            request = request.header("entourage-actor", actor.as_bytes());
        }
        if let Some(key) = self.access.key()? {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        Ok(request)
    }

    fn unreachable(&self, error: &ureq::Error) -> Error {
        unreachable(self.base(), error, "name it with --server")
    }

    /// A successful response with an unread body.
    fn begin(
        &self,
        request: request::Builder,
        body: String,
        config: ConfigBuilder<AgentScope>,
    ) -> anyhow::Result<Response<Body>> {
        let request = request.body(body).map_err(|error| Error::invalid(format!("this cannot be asked: {error}")))?;
        let tls = self.access.authorities.for_ureq(&self.server)?;
        let agent = config.http_status_as_error(false).tls_config(tls).build().new_agent();
        let mut reply = agent.run(request).map_err(|error| self.unreachable(&error))?;
        let (base, status) = (self.shown(), reply.status());
        if status.is_success() {
            return Ok(reply);
        }
        let text = reply.body_mut().read_to_string().map_err(|error| self.unreachable(&error))?;
        let problem: Value = serde_json::from_str(&text).unwrap_or_default();
        let code = problem["code"].as_str().and_then(Code::parse).unwrap_or(Code::Internal);
        let detail = problem["detail"].as_str().map_or_else(|| format!("{base} answered {status}"), str::to_owned);
        Err(Error::new(code, format!("{} ({})", detail, code.as_str())).into())
    }

    fn base(&self) -> &str {
        self.server.trim_end_matches('/').trim_end_matches("/api/v1")
    }

    /// The address as it may be printed.
    fn shown(&self) -> String {
        without_secrets(self.base())
    }

    /// Prints JSON, or the text that `show` returns.
    pub(super) fn print(&self, value: &Value, show: impl FnOnce(&Value) -> String) -> anyhow::Result<()> {
        let text = if self.json { value.to_string() } else { show(value) };
        Ok(writeln!(std::io::stdout(), "{}", text.trim_end())?)
    }
}

/// Skips and reports rows that cannot be parsed, so that they do not hide the others.
fn read(text: &str) -> anyhow::Result<Value> {
    let whole = match serde_json::from_str(text) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    let Ok(fields) = serde_json::from_str::<BTreeMap<String, &RawValue>>(text) else { return Err(whole.into()) };
    let mut answer = Map::new();
    for (name, field) in fields {
        let value = match (serde_json::from_str(field.get()), name.as_str()) {
            (Ok(value), _) => value,
            (Err(_), "data") => Value::Array(readable(serde_json::from_str(field.get())?)?),
            (Err(error), _) => return Err(error.into()),
        };
        answer.insert(name, value);
    }
    Ok(answer.into())
}

fn readable(rows: Vec<&RawValue>) -> anyhow::Result<Vec<Value>> {
    let mut found = Vec::with_capacity(rows.len());
    for row in rows {
        match serde_json::from_str(row.get()) {
            Ok(value) => found.push(value),
            Err(error) => writeln!(std::io::stderr(), "a row was skipped, which cannot be read: {error}")?,
        }
    }
    Ok(found)
}

/// An id as a part of a path or query.
pub(crate) fn part(id: &str) -> String {
    // A segment of dots alone would be resolved as a path step.
    if id.chars().all(|letter| letter == '.') {
        return id.replace('.', "%2E");
    }
    utf8_percent_encode(id, KEPT).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_cannot_be_read_does_not_hide_the_others() {
        let deep = format!("{}1{}", r#"{"a":"#.repeat(130), "}".repeat(130));
        let page = format!(r#"{{"data":[{{"id":"1"}},{{"id":"2","body":{deep}}},{{"id":"3"}}],"has_more":false}}"#);
        let page = read(&page).unwrap();
        assert_eq!(page, serde_json::json!({ "data": [{ "id": "1" }, { "id": "3" }], "has_more": false }));
        assert!(read("{").is_err() && read(&format!(r#"{{"other":{deep}}}"#)).is_err() && read("nonsense").is_err());
    }

    #[test]
    fn ids_stay_one_part_of_a_path() {
        for (id, wanted) in
            [("alice-1", "alice-1"), ("a/b", "a%2Fb"), ("..", "%2E%2E"), ("é?", "%C3%A9%3F"), ("a%", "a%25")]
        {
            assert_eq!(part(id), wanted);
        }
    }
}
