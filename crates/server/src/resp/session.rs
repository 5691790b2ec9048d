//! The state of a connection (caller, token, transaction), and the way of every command from its words to its reply.

use std::sync::Arc;

use entourage_model::{Code, Error, Token};
use entourage_service::{Actor, Call, Caller, Service};
use entourage_store::share;
use tokio::time::timeout;

use super::{
    Shared,
    args::Args,
    checks::Checks,
    clients::Client,
    encode::{Out, Protocol},
    fail::{Done, Fail},
    limits::{ANSWER_TIMEOUT, Bounds, OUTPUT_BYTES},
    metrics::Tally,
    parse::{Parser, Step},
    table::{COMMANDS, Class, Command, Run, find},
    transaction::Transaction,
    writes::Writes,
};

/// Replies and collected commands.
#[derive(Debug, Default)]
pub(super) struct Work {
    pub(super) out: Out,
    checks: Checks,
    writes: Writes,
}

pub(super) struct Session {
    pub(super) shared: Arc<Shared>,
    pub(super) client: Arc<Client>,
    /// The authenticated service; `None` before `AUTH`.
    pub(super) caller: Option<Caller>,
    /// The context of every call of the service.
    pub(super) call: Call,
    pub(super) protocol: Protocol,
    pub(super) name: Box<str>,
    /// Name and version of the library, from `CLIENT SETINFO`.
    pub(super) library: [Box<str>; 2],
    pub(super) last_token: Option<Token>,
    pub(super) transaction: Option<Box<Transaction>>,
    /// The transaction that `EXEC` runs, and its next command.
    executing: Option<(Box<Transaction>, usize)>,
    pub(super) ending: bool,
    /// The previous command: most are alike.
    last: usize,
    tally: Tally,
}

impl Session {
    pub(super) fn new(shared: Arc<Shared>, client: Arc<Client>) -> Self {
        let mut session = Self {
            shared,
            client,
            caller: None,
            call: Call::default(),
            protocol: Protocol::Two,
            name: Box::default(),
            library: Default::default(),
            last_token: None,
            transaction: None,
            executing: None,
            ending: false,
            last: 0,
            tally: Tally::default(),
        };
        session.forget_caller();
        session
    }

    pub(super) fn service(&self) -> &Service {
        &self.shared.service
    }

    /// The parser's limits.
    fn bounds(&self) -> Bounds {
        self.shared.front.resp.bounds(self.caller.is_some())
    }

    /// Answers the commands in the input. True if it stopped to send replies first.
    pub(super) async fn answer(&mut self, parser: &mut Parser, input: &[u8], at: &mut usize, work: &mut Work) -> bool {
        let mut bounds = self.bounds();
        let mut full = false;
        while !full && (self.executing.is_some() || !self.ending) {
            if self.executing.is_some() {
                self.execute_on(work).await;
                full = work.out.bytes.len() > OUTPUT_BYTES;
                continue;
            }
            let step = parser.next(input.get(*at..).unwrap_or_default(), bounds);
            match step {
                Ok(Step::More) => break,
                Ok(Step::Nothing(length)) => *at += length,
                Ok(Step::Command(length)) => {
                    let args = Args::new(input, *at, parser.spans());
                    let found = self.lookup(args.get(0));
                    if !self.collect_at_once(found, args, work) {
                        self.execute(found, args, work).await;
                        share::spend(1).await;
                        bounds = self.bounds();
                    }
                    *at += length;
                }
                Ok(Step::Inline(length)) => {
                    self.flush(input, work).await;
                    let args = Args::new(parser.line(), 0, parser.spans());
                    let found = self.lookup(args.get(0));
                    self.execute(found, args, work).await;
                    self.flush(args.bytes(), work).await;
                    share::spend(1).await;
                    bounds = self.bounds();
                    *at += length;
                }
                Err(broken) => {
                    self.flush(input, work).await;
                    work.out.error(&format!("ERR {broken}"));
                    self.ending = true;
                }
            }
            full = work.out.bytes.len() > OUTPUT_BYTES;
        }
        self.flush(input, work).await;
        self.tally.flush(&self.shared.metrics);
        full && (self.executing.is_some() || !self.ending)
    }

    fn lookup(&mut self, name: &[u8]) -> Option<usize> {
        let is_last = COMMANDS.get(self.last).is_some_and(|command| command.is_named(name));
        let found = if is_last { Some(self.last) } else { find(name) };
        self.last = found.unwrap_or(self.last);
        self.tally.add(found, &self.shared.metrics);
        found
    }

    fn collect_at_once(&self, found: Option<usize>, args: Args<'_>, work: &mut Work) -> bool {
        let Some(command) = found.and_then(|index| COMMANDS.get(index)) else { return false };
        self.caller.is_some()
            && self.transaction.is_none()
            && command.takes(args.len())
            && self.collect(command, args, work)
    }

    /// Collects a command with those like it. False if it must be answered by itself.
    fn collect(&self, command: &Command, args: Args<'_>, work: &mut Work) -> bool {
        let Work { checks, writes, .. } = work;
        match command.run {
            Run::Check { collect, .. } => writes.is_empty() && collect(checks, self.service(), args),
            Run::Write { collect, .. } => checks.is_empty() && collect(writes, args),
            _ => false,
        }
    }

    /// Answers collected commands, whose words point into `bytes`.
    async fn flush(&mut self, bytes: &[u8], work: &mut Work) {
        if !work.checks.is_empty() {
            let in_memory = matches!(self.call.actor, Actor::Service) && self.call.token.is_none();
            if !(in_memory && work.checks.answer_now(&self.shared.service, bytes, &mut work.out)) {
                Box::pin(self.flush_checks(bytes, work)).await;
            }
        }
        if !work.writes.is_empty() {
            Box::pin(self.flush_writes(work)).await;
        }
    }

    async fn flush_checks(&mut self, bytes: &[u8], work: &mut Work) {
        let Work { out, checks, .. } = work;
        let answer = checks.answer(&self.shared.service, &self.call, bytes, out);
        if timeout(ANSWER_TIMEOUT, answer).await.is_err() {
            checks.give_up(&late(Class::Read), out);
        }
    }

    async fn flush_writes(&mut self, work: &mut Work) {
        let Work { out, writes, .. } = work;
        match timeout(ANSWER_TIMEOUT, writes.answer(&self.shared.service, &self.call, out)).await {
            Ok(token) => self.last_token = token.or(self.last_token.take()),
            Err(_) => writes.give_up(&late(Class::Write), out),
        }
    }

    async fn execute(&mut self, found: Option<usize>, args: Args<'_>, work: &mut Work) {
        let admitted = self.admit(found, args);
        if !matches!(admitted, Ok(Admitted::Run(_))) {
            self.flush(args.bytes(), work).await;
        }
        match admitted {
            Ok(Admitted::Run(command)) => self.step(command, args, work).await,
            Ok(Admitted::Queued) => work.out.simple("QUEUED"),
            Ok(Admitted::Exec) => self.exec(work),
            Ok(Admitted::Ok) => work.out.ok(),
            Ok(Admitted::Abort) => {
                self.transaction = None;
                work.out.error(ABORTED_BY_EXEC);
            }
            Ok(Admitted::OutOfPlace(text)) => work.out.error(text),
            Err(fail) => {
                if let Some(transaction) = &mut self.transaction {
                    transaction.failed = true;
                }
                if !self.ending {
                    fail.say(&mut work.out);
                }
            }
        }
    }

    /// Checks that precede every command.
    fn admit(&mut self, found: Option<usize>, args: Args<'_>) -> Done<Admitted> {
        let Some((index, command)) = found.and_then(|index| Some((index, COMMANDS.get(index)?))) else {
            // A browser that was tricked into connecting speaks HTTP: end the connection.
            self.ending |= args.is(0, "POST") || args.is(0, "HOST:");
            return Err(unknown(args).into());
        };
        let name = || command.name.to_ascii_lowercase();
        if !command.takes(args.len()) {
            return match command.run {
                Run::Frame { aborts_if_misused: true, .. } if self.transaction.is_some() => Ok(Admitted::Abort),
                _ => Err(format!("ERR wrong number of arguments for '{}' command", name()).into()),
            };
        }
        if self.caller.is_none() && !matches!(command.class, Class::Open | Class::Always) {
            return Err("NOAUTH Authentication required.".into());
        }
        match (command.run, &mut self.transaction) {
            (Run::Frame { enter, .. }, _) => enter(self),
            (_, Some(_)) if command.class == Class::Write => {
                Err(format!("ERR '{}' is a write, and MULTI takes reads only: send it by itself", name()).into())
            }
            (_, Some(transaction)) if command.class != Class::Always => {
                let queued = transaction.queue(index, args).then_some(Admitted::Queued);
                queued.ok_or("ERR the transaction is too large".into())
            }
            _ => Ok(Admitted::Run(command)),
        }
    }

    /// Collects a command, or answers it by itself.
    async fn step(&mut self, command: &'static Command, args: Args<'_>, work: &mut Work) {
        if self.collect(command, args, work) {
            return;
        }
        self.flush(args.bytes(), work).await;
        if self.collect(command, args, work) {
            return;
        }
        let length = work.out.bytes.len();
        let began = self.shared.service.begin_read(&self.call);
        let done = match command.run {
            Run::Now(run) => run(self, args, &mut work.out),
            Run::Later(run) | Run::Check { alone: run, .. } | Run::Write { alone: run, .. } => {
                let answer = timeout(ANSWER_TIMEOUT, run(self, args, &mut work.out)).await;
                answer.unwrap_or_else(|_| Err(Fail::Refused(late(command.class))))
            }
            // `admit` handles these.
            Run::Frame { .. } => Err("ERR out of place".into()),
        };
        let done = match done {
            Ok(()) if command.class == Class::Read => {
                self.shared.service.confirm_read(&self.call, began).await.map_err(Fail::Refused)
            }
            other => other,
        };
        if let Err(fail) = done {
            work.out.bytes.truncate(length);
            fail.say(&mut work.out);
        }
    }

    fn exec(&mut self, work: &mut Work) {
        let Some(transaction) = self.transaction.take() else { return };
        if transaction.failed {
            return work.out.error("EXECABORT Transaction discarded because of previous errors.");
        }
        work.out.array(transaction.len());
        self.executing = Some((transaction, 0));
    }

    /// Answers commands of a transaction until the end, or until replies must be sent first.
    async fn execute_on(&mut self, work: &mut Work) {
        let Some((transaction, mut next)) = self.executing.take() else { return };
        while work.out.bytes.len() <= OUTPUT_BYTES
            && let Some((command, args)) = transaction.command(next)
        {
            self.step(command, args, work).await;
            share::spend(1).await;
            next += 1;
        }
        self.flush(transaction.bytes(), work).await;
        if next < transaction.len() {
            self.executing = Some((transaction, next));
        }
    }
}

const ABORTED_BY_EXEC: &str =
    "EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command";

/// What to do with a valid command.
pub(super) enum Admitted {
    Run(&'static Command),
    Queued,
    Exec,
    /// Answered with OK.
    Ok,
    /// An error that does not abort a transaction, as in Redis.
    OutOfPlace(&'static str),
    /// `EXEC` with too many words aborts the transaction.
    Abort,
}

fn late(class: Class) -> Error {
    let detail = if class == Class::Write {
        "no answer within 10 seconds; the write may or may not have happened"
    } else {
        "no answer within 10 seconds"
    };
    Error::new(Code::Overloaded, detail)
}

fn unknown(args: Args<'_>) -> String {
    const SHOWN_BYTES: usize = 128;
    let shown =
        |word: &[u8]| String::from_utf8_lossy(word.get(..SHOWN_BYTES.min(word.len())).unwrap_or_default()).into_owned();
    let mut text = format!("ERR unknown command '{}', with args beginning with: ", shown(args.get(0)));
    for word in args.rest(1) {
        if text.len() > 2 * SHOWN_BYTES {
            break;
        }
        text.push_str(&format!("'{}' ", shown(word)));
    }
    text
}
