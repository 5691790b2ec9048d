//! A store that refuses, lags, hangs or panics, and a server that is told to stop.

use entourage_model::Code;
use entourage_server::Stopped;

use crate::kit::{
    faulty::{Fault, faulty},
    wire::{Wire, encoded},
};

#[test]
fn what_the_store_refuses_is_said_and_never_a_success() {
    let (store, server) = faulty();
    let mut wire = Wire::connect(server.resp);
    for code in [Code::Unavailable, Code::StorageFull, Code::MemoryFull, Code::Overloaded] {
        store.hooks.set(Fault::Refuse(code));
        let said = wire.ask("SADD following:a b");
        assert!(said.starts_with(&format!("-{} ", code.resp_prefix())) && said.contains("retry after 1 s"), "{said}");
        wire.check("SISMEMBER following:a b", "0");
    }
    store.hooks.set(Fault::Refuse(Code::Internal));
    wire.check("EG.FOLLOW a b", "-INTERNAL the server's log has more");
    store.hooks.set(Fault::None);
    wire.check("SADD following:a b", "1");
}

#[test]
fn a_panic_ends_one_connection_and_the_server_goes_on() {
    let (store, server) = faulty();
    let (mut wire, mut other) = (Wire::connect(server.resp), Wire::connect(server.resp));
    store.hooks.set(Fault::Panic);
    wire.send(&encoded(&["EG.FOLLOW", "a", "b"]));
    assert_eq!(wire.reply(), None);
    store.hooks.set(Fault::None);
    other.check("EG.FOLLOW a b", "[…");
}

#[test]
fn a_read_behind_its_token_is_stale_never_old() {
    let (store, server) = faulty();
    let mut wire = Wire::connect(server.resp);
    wire.check("SADD following:a b", "1");
    let token = wire.ask("EG.TOKEN").trim_matches('"').to_owned();
    store.hooks.set(Fault::Behind);
    let mut reader = Wire::connect(server.resp);
    reader.check("SISMEMBER following:a b", "1");
    reader.check(&format!("EG.TOKEN {token}"), "OK");
    for line in ["SISMEMBER following:a b", "GET is_following:a:b", "SMEMBERS following:a", "GET follower_count:b"] {
        reader.check(line, "-STALE …");
    }
    store.hooks.set(Fault::None);
    reader.check("SISMEMBER following:a b", "1");
}

#[test]
fn stopping_finishes_what_has_begun() {
    let (store, mut server) = faulty();
    let (mut wire, mut idle) = (Wire::connect(server.resp), Wire::connect(server.resp));
    idle.check("PING", "PONG");
    store.hooks.set(Fault::Hang);
    wire.send(&encoded(&["SADD", "following:a", "b"]));
    store.hooks.wait_for_a_commit();
    server.ask_to_stop();
    assert_eq!(idle.reply(), None);
    store.hooks.let_go();
    assert_eq!(wire.reply().unwrap(), "1");
    assert_eq!(wire.reply(), None);
    assert!(matches!(server.wait(), Stopped::AsAsked));
    assert!(*store.hooks.closed.lock().unwrap());
}
