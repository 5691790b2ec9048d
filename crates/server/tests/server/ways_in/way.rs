//! The ways a follow can come in.

use std::{
    io::Write,
    net::{Shutdown, TcpStream},
    sync::Arc,
    time::{Duration, Instant},
};

use entourage_model::Code;
use entourage_service::import::Form;
use entourage_store::Store;

use crate::kit::{server::Server, wire::Wire};
use entourage_testkit::service::import::Place;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Post,
    Put,
    Batch,
    /// The same request again, with its key.
    Retry,
    /// A client that does not wait for its answer.
    HangUp,
    Sadd,
    EgFollow,
    /// Two at once, without waiting for the first.
    Pipeline,
    Transaction,
    Import,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Asked {
    pub(crate) follower: &'static str,
    pub(crate) target: &'static str,
    pub(crate) quiet: Option<bool>,
}

impl Way {
    pub(crate) const ALL: [Self; 10] = [
        Self::Post,
        Self::Put,
        Self::Batch,
        Self::Retry,
        Self::HangUp,
        Self::Sadd,
        Self::EgFollow,
        Self::Pipeline,
        Self::Transaction,
        Self::Import,
    ];

    pub(crate) fn can_be_quiet(self) -> bool {
        !matches!(self, Self::Sadd | Self::Pipeline | Self::Transaction)
    }

    /// The code of the refusal, if it was refused and says so.
    pub(crate) fn follow(self, server: &Server, store: &Arc<dyn Store>, asked: Asked) -> Option<String> {
        let Asked { follower, target, quiet } = asked;
        let body = quiet.map_or("{}".to_owned(), |quiet| format!("{{\"quiet\": {quiet}}}"));
        let post = format!("POST /users/{target}/follow {body}");
        let sadd = format!("SADD following:{follower} {target}");
        match self {
            Self::Post => over_rest(server, &format!("@{follower} {post}")),
            Self::Put => over_rest(server, &format!("PUT /users/{follower}/following/{target} {body}")),
            Self::Batch => {
                let quiet = quiet.map_or(String::new(), |quiet| format!(", \"quiet\": {quiet}"));
                let operation =
                    format!("{{\"op\": \"follow\", \"follower\": \"{follower}\", \"target\": \"{target}\"{quiet}}}");
                let reply = server.check(&format!("POST /follows:batch {{\"operations\": [{operation}]}}"), "200 {}");
                reply.body["results"][0]["code"].as_str().map(str::to_owned)
            }
            Self::Retry => {
                let first = over_rest(server, &format!("@{follower} ^idempotency-key=again {post}"));
                assert_eq!(over_rest(server, &format!("@{follower} ^idempotency-key=again {post}")), first);
                first
            }
            Self::HangUp => {
                hang_up(server, follower, target, &body);
                None
            }
            Self::Sadd => refusal(&Wire::connect(server.resp).ask(&sadd)),
            Self::EgFollow => {
                let quiet = if quiet == Some(true) { " QUIET" } else { "" };
                refusal(&Wire::connect(server.resp).ask(&format!("EG.FOLLOW {follower} {target}{quiet}")))
            }
            Self::Pipeline => {
                let mut wire = Wire::connect(server.resp);
                wire.send(format!("{sadd}\r\n{sadd}\r\n").as_bytes());
                let [first, second] = [(); 2].map(|()| refusal(&wire.reply().unwrap()));
                assert_eq!(first, second);
                first
            }
            Self::Transaction => {
                let mut wire = Wire::connect(server.resp);
                wire.check("MULTI", "OK");
                let said = refusal(&wire.ask(&sadd));
                wire.check("EXEC", "-EXECABORT…");
                said
            }
            Self::Import => {
                let line = format!("follower,target,quiet\n{follower},{target},{}\n", quiet == Some(true));
                let place = Place::on(Arc::clone(store));
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                let (_, rejects) = runtime.block_on(place.import_with_rejects(&line, Form::default()));
                rejects.into_values().next()
            }
        }
    }
}

fn over_rest(server: &Server, request: &str) -> Option<String> {
    let reply = server.ask(request);
    reply.body["code"].as_str().map(str::to_owned)
}

/// The code behind the first word of an error, or that word.
fn refusal(said: &str) -> Option<String> {
    let word = said.strip_prefix('-')?.split(' ').next()?;
    let code = Code::ALL.iter().find(|code| code.resp_prefix() == word);
    Some(code.map_or(word, |code| code.as_str()).to_owned())
}

/// Sends a request and goes away, sooner or later, until one was taken up: an edge or a request shows it, and a refusal
/// shows nothing.
fn hang_up(server: &Server, follower: &str, target: &str, body: &str) {
    let head =
        format!("POST /api/v1/users/{target}/follow HTTP/1.1\r\nHost: localhost\r\nEntourage-Actor: {follower}\r\n");
    let rest = format!("Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    for patience in [0, 1, 3, 10, 30].map(Duration::from_millis) {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.write_all(format!("{head}{rest}").as_bytes()).unwrap();
        std::thread::sleep(patience);
        stream.shutdown(Shutdown::Both).unwrap();
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(50) {
            let state = server.ask(&format!("GET /users/{follower}/relationships?id={target}")).text;
            if state.contains("\"following\":true") || state.contains("\"requested\":true") {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
