//! Bytes that are cut, broken, too many, or never end; and clients that take no answer.

use std::{
    io::{Read, Write},
    net::Shutdown,
    sync::Arc,
    time::{Duration, Instant},
};

use entourage_server::{Front, RespLimits};
use entourage_service::Rules;
use entourage_store::SystemClock;

use crate::kit::{
    server::{Server, memory_store},
    wire::{Wire, encoded},
};

fn server() -> Server {
    let server = Server::start();
    for id in ["1", "2"] {
        server.check(&format!("PUT /users/{id}"), "201");
    }
    server.check("PUT /users/1/following/2", "201");
    server
}

#[test]
fn requests_may_be_cut_anywhere() {
    let server = server();
    let input = [
        encoded(&["SISMEMBER", "following:1", "2"]),
        encoded(&["ECHO", "a\r\nb"]),
        b"PING inline\r\n".to_vec(),
        encoded(&["SMISMEMBER", "followers:2", "1", "9"]),
        b"*0\r\n\r\n".to_vec(),
        encoded(&["GET", "is_following:2:1"]),
    ]
    .concat();
    let mut wire = Wire::connect(server.resp);
    let expected = ["1", "\"a\r\nb\"", "\"inline\"", "[1 0]", "\"0\""];
    for cut in 0..=input.len() {
        wire.send(&input[..cut]);
        // What was sent so far is read by itself, at least now and then.
        if cut % 8 == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        wire.send(&input[cut..]);
        for expected in expected {
            assert_eq!(wire.reply().unwrap(), expected, "cut at {cut}");
        }
    }
    for byte in &input {
        wire.send(&[*byte]);
    }
    for expected in expected {
        assert_eq!(wire.reply().unwrap(), expected, "byte by byte");
    }
}

#[test]
fn what_makes_no_sense_is_said_and_ends_the_connection() {
    let server = server();
    let long = vec![b'x'; 1 << 20];
    let cases: [(&[u8], &str); 11] = [
        (b"*2147483647\r\n", "invalid multibulk length"),
        (b"*1025\r\n", "invalid multibulk length"),
        (b"*x\r\n", "invalid multibulk length"),
        (b"*1\r\n$999999999\r\n", "invalid bulk length"),
        (b"*1\r\n$-1\r\n", "invalid bulk length"),
        (b"*1\r\n$4\r\nPINGxx", "expected CR and LF"),
        (b"*1\r\n:4\r\n", "expected '$', got ':'"),
        (b"*2\r\n$4\r\nECHO\r\n\0\r\n", "expected '$', got '\\x00'"),
        (b"*00000000000000000000000000000", "too big count string"),
        (b"ECHO \"a\r\n", "unbalanced quotes in request"),
        (&long, "too big inline request"),
    ];
    for (bytes, wanted) in cases {
        let mut wire = Wire::connect(server.resp);
        // What came before is answered.
        wire.send(&encoded(&["SISMEMBER", "following:1", "2"]));
        let _ = wire.stream.write_all(bytes);
        assert_eq!(wire.reply().unwrap(), "1");
        assert_eq!(wire.reply().unwrap(), format!("-ERR Protocol error: {wanted}"));
        assert_eq!(wire.reply(), None, "{wanted}");
    }
    let words = vec!["x".repeat(16_000); 100];
    let mut wire = Wire::connect(server.resp);
    let _ = wire.stream.write_all(&encoded(&words));
    assert_eq!(wire.reply().unwrap(), "-ERR Protocol error: too big command");
}

/// As with Redis, an array of less than nothing is no command and no error.
#[test]
fn arrays_of_nothing_and_less_are_passed_over() {
    let server = server();
    let mut wire = Wire::connect(server.resp);
    for nothing in ["*0\r\n", "*-1\r\n", "*-10\r\n", "*-10\r\n*-5\r\n"] {
        wire.send(nothing.as_bytes());
        wire.send(&encoded(&["ECHO", "still here"]));
        assert_eq!(wire.reply().unwrap(), "\"still here\"", "{nothing:?}");
    }
}

#[test]
fn bytes_that_are_no_text_harm_nobody() {
    let server = server();
    let mut wire = Wire::connect(server.resp);
    let id: &[u8] = b"a\0b";
    wire.send(&encoded(&[b"ECHO".as_slice(), id]));
    assert_eq!(wire.reply().unwrap(), "\"a\0b\"");
    for words in [
        [b"SISMEMBER".as_slice(), b"following:1", id],
        [b"SISMEMBER".as_slice(), b"following:\xff", b"2"],
        [b"SADD".as_slice(), b"following:1", b"\xc3"],
        [b"EG.FOLLOW".as_slice(), b"1", b"a\nb"],
    ] {
        wire.send(&encoded(&words));
        let said = wire.reply().unwrap();
        assert!(said.starts_with("-INVALIDID "), "{said}");
    }
    wire.send(&encoded(&[b"X\r\n\xff".as_slice(), b"\r\n+OK\r\n"]));
    let said = wire.reply().unwrap();
    assert!(said.starts_with("-ERR unknown command 'X"), "{said}");
    wire.check("PING", "PONG");
}

#[test]
fn lines_are_commands_too() {
    let server = server();
    let mut wire = Wire::connect(server.resp);
    for (line, expected) in [
        ("PING\r\n", "PONG"),
        ("ping\n", "PONG"),
        ("  SISMEMBER   following:1 2\r\n", "1"),
        ("ECHO \"two words\\x21\"\r\n", "\"two words!\""),
        ("\r\n\r\nSISMEMBER followers:2 1\r\n", "1"),
        ("SADD following:2 1\r\n", "1"),
    ] {
        wire.send(line.as_bytes());
        assert_eq!(wire.reply().unwrap(), expected, "{line}");
    }
}

#[test]
fn a_browser_is_not_a_client() {
    let server = server();
    let mut wire = Wire::connect(server.resp);
    wire.send(b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\nSREM following:1 2\r\n");
    assert_eq!(wire.reply(), None);
    server.check("GET /users/1/is-following/2", r#"200 {"following": true}"#);
}

#[test]
fn a_client_that_has_said_everything_still_hears_the_answer() {
    let server = server();
    let mut wire = Wire::connect(server.resp);
    wire.send(&encoded(&["SISMEMBER", "following:1", "2"]));
    wire.send(&encoded(&["SADD", "following:2", "1"]));
    wire.stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!((wire.reply().unwrap().as_str(), wire.reply().unwrap().as_str()), ("1", "1"));
    assert_eq!(wire.reply(), None);
    // In the middle of a command there is nothing to answer.
    let mut wire = Wire::connect(server.resp);
    wire.send(b"*2\r\n$4\r\nECHO\r\n");
    wire.stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(wire.reply(), None);
    let mut wire = Wire::connect(server.resp);
    wire.check("QUIT", "OK");
    assert_eq!(wire.reply(), None);
}

#[test]
fn a_command_that_never_ends_is_given_up() {
    let server = server();
    let mut wire = Wire::connect(server.resp);
    wire.send(b"*2\r\n$4\r\nECHO\r\n$10\r\n");
    let began = Instant::now();
    let mut ended = false;
    // A byte now and then is no excuse.
    for byte in b"abcdefgh" {
        std::thread::sleep(Duration::from_millis(1_800));
        if wire.stream.write_all(&[*byte]).is_err() {
            ended = true;
            break;
        }
        wire.stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        if matches!(wire.stream.read(&mut [0]), Ok(0)) {
            ended = true;
            break;
        }
    }
    assert!(ended && began.elapsed() < Duration::from_secs(14), "{:?}", began.elapsed());
}

/// Bytes this process holds in memory.
fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4_096
}

#[test]
fn a_client_that_never_reads_fills_no_memory_and_is_given_up() {
    let server = server();
    let before = resident_bytes();
    let mut deaf = Wire::connect(server.resp);
    deaf.stream.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    // Replies are a thousand times as long as what asks for them.
    let command = encoded(&["EG.HELP"]).repeat(1_000);
    let began = Instant::now();
    let mut sent = 0;
    let mut other = Wire::connect(server.resp);
    loop {
        match deaf.stream.write(&command) {
            Ok(count) => sent += count,
            Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {}
            Err(_) => break,
        }
        let asked = Instant::now();
        other.check("SISMEMBER following:1 2", "1");
        assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
        assert!(began.elapsed() < Duration::from_secs(30), "it is still connected after {sent} bytes");
    }
    assert!(began.elapsed() > Duration::from_secs(5), "it was not given any time");
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes");
}

#[test]
fn a_client_that_takes_little_at_a_time_is_given_up_once_told_to_end() {
    let resp = RespLimits { idle: Some(Duration::from_secs(1)), ..RespLimits::default() };
    let front = Front { resp, ..Front::development(Arc::new(SystemClock)) };
    let server = Server::behind(front, memory_store(1), Rules::default());
    let mut slow = Wire::connect(server.resp);
    slow.stream.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    let command = encoded(&["EG.HELP"]).repeat(1_000);
    let began = Instant::now();
    // Taking nothing, until the server can send no more and has told it to end.
    while began.elapsed() < Duration::from_secs(3) {
        drop(slow.stream.write(&command));
    }
    let mut taken = vec![0; 64 << 10];
    while slow.stream.read_exact(&mut taken).is_ok() {
        std::thread::sleep(Duration::from_millis(100));
        assert!(began.elapsed() < Duration::from_secs(25), "it is still sent to");
    }
    assert!(began.elapsed() > Duration::from_secs(5), "it was not given any time");
}

#[test]
fn many_commands_at_once_are_answered_in_order() {
    let server = server();
    let mut wire = Wire::connect(server.resp);
    let mut input = Vec::new();
    for number in 0..20_000 {
        input.extend(match number % 4 {
            0 => encoded(&["SISMEMBER", "following:1", "2"]),
            1 => encoded(&["ECHO", &number.to_string()]),
            2 => encoded(&["GET", "is_following:2:1"]),
            _ => encoded(&["SISMEMBER", "following:2", "1"]),
        });
    }
    let mut writer = wire.stream.try_clone().unwrap();
    let sending = std::thread::spawn(move || writer.write_all(&input).unwrap());
    for number in 0..20_000 {
        let expected = match number % 4 {
            0 => "1".to_owned(),
            1 => format!("\"{number}\""),
            2 => "\"0\"".to_owned(),
            _ => "0".to_owned(),
        };
        assert_eq!(wire.reply().unwrap(), expected);
    }
    sending.join().unwrap();
}
