//! `PING ECHO SELECT AUTH HELLO CLIENT RESET QUIT`.

use std::time::Instant;

use entourage_model::Code;
use entourage_service::{Actor, Call, Caller, Credential};

use super::{integer, no_subcommand, text};
use crate::{
    audit::Record,
    resp::{
        args::Args,
        encode::{Out, Protocol},
        fail::{Done, Fail, SYNTAX},
        session::Session,
        table::{Run, commands},
    },
};

commands! {
    AUTH "AUTH" -2 Open None Connection "[name] key"
        "Shows a service key; the name, if one is given, is `default` or the key's own"
        Run::Now(Session::authenticate_as);
    CLIENT "CLIENT" -2 Plain None Connection "ID | GETNAME | SETNAME name | SETINFO field text | INFO | LIST [TYPE type | ID id …] | NO-EVICT ON|OFF | NO-TOUCH ON|OFF"
        "What the server knows of this connection; `LIST` shows this one alone"
        Run::Now(Session::client_command);
    ECHO "ECHO" 2 Plain None Connection "text"
        "The text"
        Run::Now(echo);
    HELLO "HELLO" -1 Open None Connection "[2|3 [AUTH name key] [SETNAME name]]"
        "Chooses the protocol and tells about the server"
        Run::Now(Session::hello);
    PING "PING" -1 Plain None Connection "[text]"
        "`PONG`, or the text"
        Run::Now(echo);
    QUIT "QUIT" -1 Always None Connection ""
        "Ends the connection"
        Run::Now(Session::quit);
    RESET "RESET" 1 Always None Connection ""
        "The connection as it was at first: nobody's, RESP2, no transaction"
        Run::Now(Session::reset);
    SELECT "SELECT" 2 Plain None Connection "0"
        "There is one database"
        Run::Now(select);
}

/// The user name of Redis clients that send a password alone.
const DEFAULT_NAME: &[u8] = b"default";
const NO_CLIENT_ID: &str = "ERR Invalid client ID";
/// The subcommands of `CLIENT`.
const SUBCOMMANDS: &[&str] = &["ID", "GETNAME", "SETNAME", "SETINFO", "INFO", "LIST", "NO-EVICT", "NO-TOUCH"];
const TEXT_MAX_BYTES: usize = 64;
const WRONG_PASS: &str = "WRONGPASS invalid username-password pair or user is disabled.";
const NO_PASSWORD: &str = "ERR AUTH <password> called without any password configured for the default user. Are you \
                           sure your configuration is correct?";

fn echo(_: &mut Session, args: Args<'_>, out: &mut Out) -> Done {
    match args.len() {
        1 => out.simple("PONG"),
        2 => out.bulk(args.get(1)),
        _ => return Err("ERR wrong number of arguments for 'ping' command".into()),
    }
    Ok(())
}

fn select(_: &mut Session, args: Args<'_>, out: &mut Out) -> Done {
    if integer(args.get(1))? != 0 {
        return Err("ERR DB index is out of range".into());
    }
    out.ok();
    Ok(())
}

impl Session {
    fn authenticate_as(&mut self, args: Args<'_>, out: &mut Out) -> Done {
        match args.len() {
            2 => self.authenticate(DEFAULT_NAME, args.get(1))?,
            3 => self.authenticate(args.get(1), args.get(2))?,
            _ => return Err(SYNTAX.into()),
        }
        out.ok();
        Ok(())
    }

    fn authenticate(&mut self, name: &[u8], key: &[u8]) -> Done {
        let access = &self.shared.front.access;
        if access.is_development() {
            return Err(NO_PASSWORD.into());
        }
        let found = access.service_key(text(key)).filter(|key| name == DEFAULT_NAME || name == key.name.as_bytes());
        let Some(key) = found else {
            self.audit_refusal();
            return Err(WRONG_PASS.into());
        };
        let credential = Credential::ServiceKey(key.name.as_str().into());
        self.caller = Some(Caller { actor: Actor::Service, admin: key.admin, credential });
        self.client.authenticated(Some(key));
        self.act_for(Actor::Service);
        Ok(())
    }

    fn audit_refusal(&self) {
        let front = &self.shared.front;
        let address = Some(self.client.address.ip());
        let Some(left_out) = front.audit.throttle.admit(address, Instant::now()) else { return };
        front.audit.note(&Record {
            time: front.clock.now().to_rfc3339(),
            action: "authenticate",
            actor: None,
            credential: "none",
            key: None,
            method: "AUTH",
            target: "resp",
            result: Code::Unauthenticated.as_str(),
            request_id: &format!("resp-{}", self.client.id),
            source: &self.client.address.to_string(),
            left_out,
        });
    }

    /// A service that acts for a user has that user's rights only.
    pub(super) fn act_for(&mut self, actor: Actor) {
        let caller = self.caller.clone().unwrap_or_default();
        let admin = caller.admin && actor == Actor::Service;
        let token = self.call.token.take();
        self.call = Call { token, ..Call::from(Caller { actor, admin, ..caller }) };
    }

    /// Unauthenticated; in development mode, the service itself.
    pub(in crate::resp) fn forget_caller(&mut self) {
        let is_development = self.shared.front.access.is_development();
        self.caller = is_development.then(Caller::default);
        self.call = Call::from(self.caller.clone().unwrap_or_default());
        if is_development {
            self.client.authenticated(None);
        } else {
            self.client.deauthenticated(self.shared.clients.now());
        }
    }

    fn hello(&mut self, args: Args<'_>, out: &mut Out) -> Done {
        let protocol = match (args.len(), args.get(1)) {
            (1, _) => self.protocol,
            (_, b"2") => Protocol::Two,
            (_, b"3") => Protocol::Three,
            (_, version) => {
                integer(version).map_err(|_| Fail::from("ERR Protocol version is not an integer or out of range"))?;
                return Err("NOPROTO unsupported protocol version".into());
            }
        };
        let (mut name, mut credential) = (None, None);
        let mut at = 2;
        while at < args.len() {
            if args.is(at, "AUTH") && at + 2 < args.len() {
                credential = Some((args.get(at + 1), args.get(at + 2)));
                at += 3;
            } else if args.is(at, "SETNAME") && at + 1 < args.len() {
                name = Some(visible(args.get(at + 1))?);
                at += 2;
            } else {
                return Err(format!("ERR Syntax error in HELLO option '{}'", text(args.get(at))).into());
            }
        }
        // Only once all options are parsed.
        if let Some((user, key)) = credential {
            self.authenticate(user, key)?;
        }
        if self.caller.is_none() {
            return Err("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO \
                        <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP \
                        protocol version at the same time"
                .into());
        }
        self.name = name.unwrap_or(std::mem::take(&mut self.name));
        self.protocol = protocol;
        out.protocol = protocol;
        out.map(7);
        out.text("server");
        out.text("entourage");
        out.text("version");
        out.text(env!("CARGO_PKG_VERSION"));
        out.text("proto");
        out.integer(if protocol == Protocol::Three { 3 } else { 2 });
        out.text("id");
        out.integer(self.client.id as i64);
        out.text("mode");
        out.text("standalone");
        out.text("role");
        out.text("master");
        out.text("modules");
        out.array(0);
        Ok(())
    }

    fn client_command(&mut self, args: Args<'_>, out: &mut Out) -> Done {
        let is = |word: &str, length: usize| args.is(1, word) && args.len() == length;
        if is("ID", 2) {
            out.integer(self.client.id as i64);
        } else if is("GETNAME", 2) {
            if self.name.is_empty() { out.null() } else { out.text(&self.name) }
        } else if is("SETNAME", 3) {
            self.name = visible(args.get(2))?;
            out.ok();
        } else if is("SETINFO", 4) {
            let slot = match () {
                () if args.is(2, "LIB-NAME") => 0,
                () if args.is(2, "LIB-VER") => 1,
                () => return Err(format!("ERR Unrecognized option '{}'", text(args.get(2))).into()),
            };
            self.library[slot] = visible(args.get(3))?;
            out.ok();
        } else if is("INFO", 2) {
            out.verbatim(&self.described());
        } else if args.is(1, "LIST") {
            let lists_this = self.is_listed(args)?;
            out.verbatim(&if lists_this { self.described() } else { String::new() });
        } else if is("NO-EVICT", 3) || is("NO-TOUCH", 3) {
            if !(args.is(2, "ON") || args.is(2, "OFF")) {
                return Err(SYNTAX.into());
            }
            out.ok();
        } else {
            return Err(no_subcommand(args, SUBCOMMANDS));
        }
        Ok(())
    }

    /// Whether `CLIENT LIST` with these words shows this connection.
    fn is_listed(&self, args: Args<'_>) -> Done<bool> {
        match args.len() {
            2 => Ok(true),
            4 if args.is(2, "TYPE") => {
                let kinds = ["normal", "master", "replica", "slave", "pubsub"];
                let kind = kinds.iter().find(|kind| args.is(3, kind));
                let unknown = || format!("ERR Unknown client type '{}'", text(args.get(3)));
                Ok(*kind.ok_or_else(unknown)? == "normal")
            }
            4.. if args.is(2, "ID") => {
                let ids: Vec<i64> = args.rest(3).map(integer).collect::<Done<_>>().map_err(|_| NO_CLIENT_ID)?;
                if ids.iter().any(|id| *id <= 0) {
                    return Err(NO_CLIENT_ID.into());
                }
                Ok(ids.contains(&(self.client.id as i64)))
            }
            _ => Err(SYNTAX.into()),
        }
    }

    fn described(&self) -> String {
        let now = self.shared.clients.uptime().as_secs();
        let (age, database) = (self.client.age(now), 0);
        let [library, version] = &self.library;
        let user = match self.caller.as_ref().map(|caller| &caller.credential) {
            Some(Credential::ServiceKey(name)) => name,
            _ => "default",
        };
        format!(
            "id={} addr={} name={} age={age} idle=0 db={database} user={user} lib-name={library} lib-ver={version} resp={}\n",
            self.client.id,
            self.client.address,
            self.name,
            if self.protocol == Protocol::Three { 3 } else { 2 },
        )
    }

    fn reset(&mut self, _: Args<'_>, out: &mut Out) -> Done {
        self.transaction = None;
        self.protocol = Protocol::Two;
        out.protocol = Protocol::Two;
        self.name = Box::default();
        self.last_token = None;
        self.forget_caller();
        out.simple("RESET");
        Ok(())
    }

    fn quit(&mut self, _: Args<'_>, out: &mut Out) -> Done {
        self.ending = true;
        out.ok();
        Ok(())
    }
}

/// Text that may appear in `CLIENT LIST`.
fn visible(bytes: &[u8]) -> Done<Box<str>> {
    if bytes.len() > TEXT_MAX_BYTES || !bytes.iter().all(u8::is_ascii_graphic) {
        return Err(
            "ERR Client names cannot contain spaces, newlines or special characters, nor be longer than 64 bytes"
                .into(),
        );
    }
    Ok(text(bytes).into())
}
