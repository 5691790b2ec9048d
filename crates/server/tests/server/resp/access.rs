//! Who may ask: keys, names, what a connection may do before it has shown one, and how it ends.

use std::{io::Write, sync::Arc, time::Duration};

use entourage_server::{Audit, Connections, Front, RespLimits};
use entourage_service::Rules;
use entourage_store::SystemClock;

use crate::kit::{
    credentials::Credentials,
    server::{Server, memory_store},
    wire::{Wire, encoded, words},
};

fn guarded(credentials: &Credentials) -> Server {
    Server::behind(credentials.front(), memory_store(1), Rules::default())
}

#[test]
fn a_key_opens_the_door() {
    let credentials = Credentials::new();
    let server = guarded(&credentials);
    let (key, admin) = (credentials.service_key.as_str(), credentials.admin_key.as_str());
    server.check(&format!("!{key} PUT /users/alice"), "201");
    server.check(&format!("!{key} PUT /users/bob"), "201");
    let mut wire = Wire::connect(server.resp);
    const NOAUTH: &str = "-NOAUTH Authentication required.";
    const WRONG: &str = "-WRONGPASS invalid username-password pair or user is disabled.";
    for line in ["PING", "SISMEMBER following:alice bob", "INFO", "COMMAND", "EG.AS alice", "MULTI", "CLIENT ID"] {
        wire.check(line, NOAUTH);
    }
    wire.check("HELLO 3", "-NOAUTH HELLO must be called…");
    for line in ["AUTH wrong", "AUTH other KEY", "AUTH web wrong", "HELLO 3 AUTH default wrong"] {
        wire.check(&line.replace("KEY", key), WRONG);
        wire.check("PING", NOAUTH);
    }
    wire.check(&format!("AUTH {}", credentials.token("alice")), WRONG);
    wire.check(&format!("AUTH {key} more words"), "-ERR syntax error");
    for line in ["AUTH KEY", "AUTH default KEY", "AUTH web KEY"] {
        wire.check(&line.replace("KEY", key), "OK");
        wire.check("SADD following:alice bob", if line == "AUTH KEY" { "1" } else { "0" });
        wire.check("RESET", "RESET");
        wire.check("PING", NOAUTH);
    }
    wire.check(&format!("HELLO 3 AUTH boss {admin} SETNAME me"), "{…");
    wire.check("CLIENT GETNAME", "\"me\"");
    let info = wire.ask("CLIENT INFO");
    assert!(info.contains("user=boss") && info.contains("resp=3") && info.contains("name=me"), "{info}");
    assert!(!info.contains(admin), "a key is shown to nobody");
}

#[test]
fn acting_for_somebody_takes_rights_away() {
    let server = Server::start();
    for id in ["alice", "bob"] {
        server.check(&format!("PUT /users/{id}"), "201");
    }
    let mut wire = Wire::connect(server.resp);
    wire.check_all(&[
        ("EG.AS", "nil"),
        ("EG.AS alice", "OK"),
        ("EG.AS", "\"alice\""),
        ("SADD following:bob alice", "-FORBIDDEN …"),
        ("SADD following:alice bob", "1"),
        ("EG.AS bob", "OK"),
        ("SREM following:alice bob", "-FORBIDDEN …"),
        ("EG.AS \"\"", "OK"),
        ("EG.AS", "nil"),
        ("SREM following:alice bob", "1"),
        ("EG.AS alice bob", "-ERR syntax error"),
        ("EG.AS nobody", "OK"),
        ("EG.FOLLOW nobody bob", "-ACTORNOTFOUND …"),
        ("RESET", "RESET"),
        ("EG.AS", "nil"),
        ("AUTH anything", "-ERR AUTH <password> called without any password configured…"),
    ]);
}

#[test]
fn a_key_that_is_taken_away_ends_its_connections() {
    let credentials = Credentials::new();
    let server = guarded(&credentials);
    let (mut gone, mut stays) = (Wire::connect(server.resp), Wire::connect(server.resp));
    gone.check(&format!("AUTH {}", credentials.service_key), "OK");
    stays.check(&format!("AUTH {}", credentials.admin_key), "OK");
    let path = credentials.path("service-keys");
    let text = std::fs::read_to_string(&path).unwrap();
    let kept: Vec<&str> = text.lines().filter(|line| !line.starts_with("web ")).collect();
    std::fs::write(&path, kept.join("\n")).unwrap();
    assert!(gone.ends_within(Duration::from_secs(10)), "the key is no longer good");
    stays.check("PING", "PONG");
}

#[test]
fn who_says_nothing_is_not_kept() {
    let credentials = Credentials::new();
    let server = guarded(&credentials);
    let mut silent = Wire::connect(server.resp);
    let mut wrong = Wire::connect(server.resp);
    let mut half = Wire::connect(server.resp);
    half.send(b"*2\r\n$4\r\nAUTH\r\n$6");
    let mut known = Wire::connect(server.resp);
    known.check(&format!("AUTH {}", credentials.service_key), "OK");
    let started = std::time::Instant::now();
    wrong.check("AUTH wrong", "-WRONGPASS …");
    // Talking is not showing a key.
    let mut talking: Vec<(Wire, &str)> = ["RESET", "PING", "HELLO 3", "HELLO", "AUTH wrong", "NOTHING", "QUIT?"]
        .map(|line| (Wire::connect(server.resp), line))
        .into_iter()
        .collect();
    while !talking.is_empty() {
        assert!(started.elapsed() <= Duration::from_secs(11), "{} are kept", talking.len());
        talking
            .retain_mut(|(wire, line)| wire.stream.write_all(&encoded(&words(line))).is_ok() && wire.reply().is_some());
        // Whoever has shown one has its time anew when it is taken back.
        known.check("RESET", "RESET");
        known.check(&format!("AUTH {}", credentials.service_key), "OK");
        std::thread::sleep(Duration::from_millis(200));
    }
    assert!(started.elapsed() >= Duration::from_secs(6), "{:?}", started.elapsed());
    for wire in [&mut silent, &mut wrong, &mut half] {
        assert!(wire.ends_within(Duration::from_secs(15)));
    }
    assert!(started.elapsed() <= Duration::from_secs(11), "{:?}", started.elapsed());
    known.check("RESET", "RESET");
    assert!(!known.ends_within(Duration::from_secs(4)), "it has its time");
    assert!(known.ends_within(Duration::from_secs(6)));
}

#[test]
fn little_is_let_in_before_a_key_is_shown() {
    let credentials = Credentials::new();
    let server = guarded(&credentials);
    for bytes in [
        b"*17\r\n".to_vec(),
        b"*2\r\n$4\r\nAUTH\r\n$513\r\n".to_vec(),
        vec![b'x'; 5_000],
        [b"*16\r\n".to_vec(), format!("$512\r\n{}\r\n", "x".repeat(512)).into_bytes().repeat(9)].concat(),
    ] {
        let mut wire = Wire::connect(server.resp);
        wire.send(&bytes);
        let said = wire.reply().unwrap();
        assert!(said.starts_with("-ERR Protocol error: "), "{said}");
        assert_eq!(wire.reply(), None);
    }
    let mut wire = Wire::connect(server.resp);
    wire.check(&format!("AUTH {}", credentials.service_key), "OK");
    wire.send(&encoded(&[b"ECHO".to_vec(), vec![b'x'; 16_384]]));
    assert_eq!(wire.reply().unwrap().len(), 16_386);
    wire.send(&encoded(&[b"ECHO".to_vec(), vec![b'x'; 16_385]]));
    assert_eq!(wire.reply().unwrap(), "-ERR Protocol error: invalid bulk length");
}

#[test]
fn a_wrong_key_is_written_down() {
    let credentials = Credentials::new();
    let path = credentials.path("audit");
    let front = credentials.front_with(Audit::open(Some(&path)).unwrap());
    let server = Server::behind(front, memory_store(1), Rules::default());
    let mut wire = Wire::connect(server.resp);
    wire.check("AUTH eg_secret", "-WRONGPASS …");
    let record = std::fs::read_to_string(&path).unwrap();
    for part in ["\"action\":\"authenticate\"", "\"method\":\"AUTH\"", "\"result\":\"unauthenticated\"", "127.0.0.1:"] {
        assert!(record.contains(part), "{record}");
    }
    assert!(!record.contains("eg_secret"), "{record}");
}

#[test]
fn one_client_too_many_is_told_so() {
    let resp = RespLimits { connections: Connections { max: 2, per_address: None }, ..RespLimits::default() };
    let front = Front { resp, ..Front::development(Arc::new(SystemClock)) };
    let server = Server::behind(front, memory_store(1), Rules::default());
    let mut wires = [Wire::connect(server.resp), Wire::connect(server.resp)];
    for wire in &mut wires {
        wire.check("PING", "PONG");
    }
    let mut third = Wire::connect(server.resp);
    assert_eq!(third.reply().unwrap(), "-ERR max number of clients reached");
    assert_eq!(third.reply(), None);
    let [first, mut second] = wires;
    second.check("PING", "PONG");
    drop(first);
    // A place that was left is there again, if not at once.
    let found = (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        let mut wire = Wire::connect(server.resp);
        wire.send(&encoded(&["PING"]));
        wire.reply().as_deref() == Some("PONG")
    });
    assert!(found);
}

#[test]
fn a_silent_connection_ends_after_its_time() {
    let resp = RespLimits { idle: Some(Duration::from_secs(2)), ..RespLimits::default() };
    let front = Front { resp, ..Front::development(Arc::new(SystemClock)) };
    let server = Server::behind(front, memory_store(1), Rules::default());
    let (mut idle, mut busy) = (Wire::connect(server.resp), Wire::connect(server.resp));
    idle.check("PING", "PONG");
    for _ in 0..30 {
        busy.check("PING", "PONG");
        std::thread::sleep(Duration::from_millis(200));
    }
    assert!(idle.ends_within(Duration::from_millis(100)));
}

/// In the words of Redis 7.
#[test]
fn what_a_connection_says_of_itself_is_worded_as_redis_does() {
    let server = Server::start();
    let mut wire = Wire::connect(server.resp);
    let id = wire.ask("CLIENT ID");
    wire.check_all(&[
        ("HELLO x", "-ERR Protocol version is not an integer or out of range"),
        ("HELLO 2.0", "-ERR Protocol version is not an integer or out of range"),
        ("HELLO 4", "-NOPROTO unsupported protocol version"),
        ("HELLO -1", "-NOPROTO unsupported protocol version"),
        ("HELLO 2 SETNAME", "-ERR Syntax error in HELLO option 'SETNAME'"),
        ("HELLO 3 SETNAME a b", "-ERR Syntax error in HELLO option 'b'"),
        ("SELECT x", "-ERR value is not an integer or out of range"),
        ("SELECT 1", "-ERR DB index is out of range"),
        ("CLIENT", "-ERR wrong number of arguments for 'client' command"),
        ("CLIENT FOO", "-ERR unknown subcommand 'FOO'. Try …"),
        ("CLIENT ID x", "-ERR wrong number of arguments for 'client|id' command"),
        ("client setname", "-ERR wrong number of arguments for 'client|setname' command"),
        ("CLIENT INFO x", "-ERR wrong number of arguments for 'client|info' command"),
        ("CLIENT NO-EVICT", "-ERR wrong number of arguments for 'client|no-evict' command"),
        ("CLIENT NO-EVICT x", "-ERR syntax error"),
        ("CLIENT LIST x", "-ERR syntax error"),
        ("CLIENT LIST TYPE normal", "\"id=…"),
        ("CLIENT LIST TYPE pubsub", "\"\""),
        ("CLIENT LIST TYPE x", "-ERR Unknown client type 'x'"),
        ("CLIENT LIST ID x", "-ERR Invalid client ID"),
        ("CLIENT LIST ID 99999 0", "-ERR Invalid client ID"),
        ("CLIENT LIST ID 99999", "\"\""),
    ]);
    wire.check(&format!("CLIENT LIST ID 99999 {id}"), &format!("\"id={id} …"));
}
