//! `POST /signals`: who looked at whose profile.

use std::sync::Arc;

use axum::{extract::State, http::StatusCode};
use entourage_model::{Code, Error, Millis, Result, UserId};
use entourage_service::{SIGNAL_COUNT_MAX, SIGNALS_MAX, Service, Signal};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    body::{Object, Whole, present, word},
    openapi::{
        Access, Group, post,
        schema::{Id, Time},
    },
    request::ApiRequest,
    response::{Answer, json},
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SignalsBody {
    #[schemars(with = "Vec<SignalBody>", length(max = SIGNALS_MAX))]
    signals: Vec<Object<SignalBody>>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Signal")]
struct SignalBody {
    #[schemars(with = "Id")]
    viewer: UserId,
    #[schemars(with = "Id")]
    viewed: UserId,
    #[serde(rename = "type", deserialize_with = "word")]
    kind: SignalKind,
    /// How often; once, where it is left out.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "u32", range(min = 1, max = SIGNAL_COUNT_MAX))]
    count: Option<Whole>,
    /// When; now, where it is left out or lies ahead.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Time")]
    at: Option<String>,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum SignalKind {
    ProfileView,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Signalled")]
struct SignalledJson {
    /// Signals that count.
    accepted: u64,
    /// Signals of unknown users, of oneself, or from before `suggestions.signal_days`.
    ignored: u64,
}

pub(super) fn group() -> Group {
    let operations = vec![
        post("/api/v1/signals", Access::Service, signal)
            .named("signal", "Report who looked at whose profile")
            .about("Counted in memory, and saved every few minutes and when the server stops.")
            .reads()
            .body::<SignalsBody>()
            .large_body()
            .answers::<SignalledJson>(StatusCode::OK, "Counted")
            .refuses(&[Code::InvalidId]),
    ];
    Group::new("Signals", "Hints for suggestions that follows do not give.", operations)
}

pub(super) async fn signal(State(service): State<Arc<Service>>, request: ApiRequest) -> Answer {
    let SignalsBody { signals } = request.body()?;
    let signals: Vec<Signal> = signals.into_iter().enumerate().map(read).collect::<Result<_>>()?;
    let done = service.signals.signal(&request.call, &signals).await?;
    json(StatusCode::OK, SignalledJson { accepted: done.accepted, ignored: done.ignored })
}

fn read((index, Object(body)): (usize, Object<SignalBody>)) -> Result<Signal> {
    let SignalBody { viewer, viewed, kind: SignalKind::ProfileView, count, at } = body;
    let at = at.map(|text| {
        let path = format!("/signals/{index}/at");
        let wrong = |_| Error::invalid("this is no time").at(path, "such as 2026-01-31T12:00:00.000Z");
        Millis::parse_rfc3339(&text).map_err(wrong)
    });
    Ok(Signal { viewer, viewed, count: count.map_or(1, |Whole(count)| count), at: at.transpose()? })
}
