//! Every number, time and duration that can come in, at its smallest, largest, zero, negative and overflowing value: a
//! setting, a query, a body, a command, a line of a file. A clear error or the right answer, and a server that goes on.
//! `ENTOURAGE_SOAK=1` also tries pairs, and every setting with a server of its own.

use crate::server_kit;

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use crate::server_kit::{Client, Folder, Serving, command, run, text};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};

const NUMBERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "-0",
    "200",
    "201",
    "2147483648",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999999999",
    "1e3",
    "1e999",
    "0.5",
    "NaN",
    "inf",
    "-inf",
    "",
];
const TIMES: &[&str] = &[
    "0000-01-01T00:00:00Z",
    "0001-01-01T00:00:00Z",
    "1969-12-31T23:59:59.999Z",
    "1999-12-31T23:59:59.999Z",
    "2000-01-01T00:00:00Z",
    "2069-09-06T15:47:35.551Z",
    "2069-09-06T15:47:35.552Z",
    "2136-02-07T06:28:15Z",
    "2136-02-07T06:28:16Z",
    "9999-12-31T23:59:59.999Z",
    "9999-12-31T23:59:60Z",
    "10000-01-01T00:00:00Z",
    "-0001-01-01T00:00:00Z",
    "2026-02-30T00:00:00Z",
    "2026-01-01T00:00:00+99:99",
    "2026-01-01T00:00:00-23:59",
];
/// Durations and sizes as settings have them.
const UNITS: &[&str] = &["ms", "s", "m", "h", "d", "B", "KiB", "MiB", "GiB", "TiB", ""];
const STOP: Duration = Duration::from_secs(40);

fn is_soak() -> bool {
    std::env::var_os("ENTOURAGE_SOAK").is_some_and(|value| value == "1")
}

/// Several at once: most of the time is spent waiting.
fn each<T: Sync>(all: &[T], work: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(one) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    work(one);
                }
            });
        }
    });
}

/// Settings that are numbers, times or sizes, with their defaults.
fn settings() -> Vec<(String, String)> {
    let printed: Value = serde_json::from_slice(&run(&["config", "print", "--json"]).stdout).unwrap();
    let all = printed.as_object().unwrap().iter();
    let all = all.map(|(name, entry)| (name.clone(), entry["value"].as_str().unwrap().to_owned()));
    // Addresses begin with a digit, too.
    let is_number = |value: &str| value.starts_with(|letter: char| letter.is_ascii_digit()) && !value.contains(':');
    let found: Vec<_> = all.filter(|(_, value)| is_number(value) || value == "auto").collect();
    assert!(found.len() > 25, "{found:?}");
    found
}

fn variable(name: &str) -> String {
    format!("ENTOURAGE_{}", name.replace('.', "__").to_uppercase())
}

/// Starts with these settings, writes, stops: in order and soon.
fn lives(values: &[(String, String)]) {
    let folder = Folder::new();
    let data = folder.join("data");
    let mut serve = command(&["serve", "--http", "127.0.0.1:0", "--data", text(&data)]);
    for (name, value) in values {
        serve.env(variable(name), value);
    }
    let mut server = Serving::start_as(&mut serve);
    let client = Client::new(&server.base);
    for user in ["a", "b"] {
        let heard = client.put_user(user, user).unwrap();
        assert!(matches!(heard.status, 201 | 429 | 503), "{values:?}: {}", heard.body);
    }
    let key = [("idempotency-key", "one"), ("entourage-actor", "a")];
    for _ in 0..2 {
        let heard = client.ask_with(&key, "POST", "/api/v1/users/b/follow", "").unwrap();
        assert!(heard.status != 500, "{values:?}: {}", heard.body);
    }
    assert_ne!(client.get("/api/v1/users/a/feed").status, 500, "{values:?}");
    server.signal("-TERM");
    let began = Instant::now();
    let (code, said) = server.wait();
    assert_eq!(code, Some(0), "{values:?}: {said}");
    assert!(began.elapsed() < STOP, "{values:?}: stopping took {:?}", began.elapsed());
    assert!(!said.contains("panicked"), "{values:?}: {said}");
}

#[test]
fn a_setting_is_refused_by_its_name_or_the_server_lives_with_it() {
    let mut cases = Vec::new();
    for (name, default) in settings() {
        let unit = UNITS.iter().find(|unit| !unit.is_empty() && default.ends_with(**unit)).copied().unwrap_or_default();
        for number in NUMBERS.iter().chain(&["36500", "36501", "213503982334", "1000000000000", "1000000000001"]) {
            cases.push((name.clone(), format!("{number}{unit}")));
            if is_soak() {
                cases.extend(UNITS.iter().map(|unit| (name.clone(), format!("{number}{unit}"))));
            }
        }
    }
    let taken = std::sync::Mutex::new(Vec::new());
    each(&cases, |case @ (name, value)| {
        let output = command(&["config", "print"]).env(variable(name), value).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        match output.status.code() {
            Some(0) => taken.lock().unwrap().push(case.clone()),
            Some(2) => assert!(said.contains(name) && said.contains("expected"), "{name}={value}: {said}"),
            code => panic!("{name}={value}: {code:?} {said}"),
        }
    });
    let mut taken = taken.into_inner().unwrap();
    taken.sort();
    assert!(taken.len() > 60, "{taken:?}");
    // The smallest and the largest that is taken of each; all of them together where that says as much.
    let mut ends: Vec<Vec<(String, String)>> =
        taken.chunk_by(|one, other| one.0 == other.0).map(<[_]>::to_vec).collect();
    let amount = |(_, value): &(String, String)| {
        let digits: String = value.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u128>().unwrap_or_default()
    };
    ends.iter_mut().for_each(|values| values.sort_by_key(amount));
    let largest: Vec<_> = ends.iter().filter_map(|values| values.last().cloned()).collect();
    let smallest: Vec<_> = ends.iter().filter_map(|values| values.first().cloned()).collect();
    let memory = |(name, _): &(String, String)| name == "memory.budget";
    let mut runs = vec![largest.clone(), smallest.iter().filter(|one| !memory(one)).cloned().collect()];
    runs.extend(smallest.into_iter().filter(memory).map(|one| vec![one]));
    if is_soak() {
        runs.extend(taken.into_iter().map(|one| vec![one]));
    }
    each(&runs, |values| lives(values));
}

struct Parameter {
    method: String,
    /// With ids of people who are there.
    path: String,
    name: String,
}

/// Follows `$ref`.
fn resolved<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    match schema["$ref"].as_str() {
        Some(place) => document.pointer(place.trim_start_matches('#')).unwrap(),
        None => schema,
    }
}

fn with_ids(path: &str) -> String {
    let parts = path.split('/').map(|part| match part {
        "{id}" | "{a}" => "a",
        part if part.starts_with('{') => "b",
        part => part,
    });
    parts.collect::<Vec<_>>().join("/")
}

/// Parameters of queries and fields of bodies, of everything that is described.
fn described(document: &Value) -> (Vec<Parameter>, Vec<Parameter>) {
    let (mut queries, mut fields) = (Vec::new(), Vec::new());
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            // These do not end, or end everything.
            if path.ends_with("/stream")
                || path.contains("/backup")
                || path.contains("erase-now")
                || method == "parameters"
            {
                continue;
            }
            let found =
                |name: &str| Parameter { method: method.to_uppercase(), path: with_ids(path), name: name.to_owned() };
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                let parameter = resolved(document, parameter);
                if parameter["in"] == "query" {
                    queries.push(found(parameter["name"].as_str().unwrap()));
                }
            }
            let body = resolved(document, &operation["requestBody"]["content"]["application/json"]["schema"]);
            fields.extend(body["properties"].as_object().into_iter().flatten().map(|(name, _)| found(name)));
        }
    }
    assert!(queries.len() > 40 && fields.len() > 15, "{} and {}", queries.len(), fields.len());
    (queries, fields)
}

fn is_clear(heard: Option<server_kit::Heard>, what: &str) {
    let heard = heard.unwrap_or_else(|| panic!("no answer to {what}"));
    assert!(heard.status < 500, "{what}: {} {}", heard.status, heard.body);
    if heard.status == 400 {
        assert!(!heard.body["code"].is_null() && !heard.body["detail"].is_null(), "{what}: {}", heard.body);
    }
}

#[test]
fn queries_and_bodies_are_refused_or_answered() {
    let folder = Folder::new();
    let mut serve = command(&["serve", "--http", "127.0.0.1:0", "--data", text(&folder.join("data"))]);
    let mut server = Serving::start_as(&mut serve);
    let people = |client: &Client| {
        for user in ["a", "b"] {
            client.put_user(user, user).unwrap();
        }
        client.ask("PUT", "/api/v1/users/a/following/b", "").unwrap();
    };
    people(&Client::new(&server.base));
    let document: Value = serde_json::from_str(&Client::new(&server.base).text("/openapi.json")).unwrap();
    let (queries, fields) = described(&document);
    let values: Vec<&str> = NUMBERS.iter().chain(TIMES).copied().collect();
    each(&queries, |Parameter { method, path, name }| {
        let client = Client::new(&server.base);
        for value in &values {
            let query = format!("{path}?{name}={}", utf8_percent_encode(value, NON_ALPHANUMERIC));
            is_clear(client.ask_with(&[("entourage-actor", "a")], method, &query, "{}"), &format!("{method} {query}"));
        }
    });
    each(&fields, |Parameter { method, path, name }| {
        let client = Client::new(&server.base);
        for value in &values {
            // As text, and as a number where it is one.
            let number: Option<Value> = serde_json::from_str(value).ok();
            for value in [Some(json!(value)), number].into_iter().flatten() {
                let body = Value::Object(Map::from_iter([(name.clone(), value)])).to_string();
                for headers in [&[("entourage-actor", "a")][..], &[]] {
                    is_clear(client.ask_with(headers, method, path, &body), &format!("{method} {path} {body}"));
                }
            }
        }
        people(&client);
    });
    let client = Client::new(&server.base);
    people(&client);
    // A time that is taken is the time that is shown.
    for at in TIMES {
        let body = json!({ "expires_at": at }).to_string();
        let heard = client.ask("PUT", "/api/v1/users/a/mutes/b", &body).unwrap();
        let is_taken = *at == "2069-09-06T15:47:35.551Z";
        assert_eq!(heard.status / 100, if is_taken { 2 } else { 4 }, "{at}: {}", heard.body);
        if is_taken {
            assert!(heard.body["expires_at"].as_str().unwrap().starts_with("2069-09-06T15:47:35"), "{}", heard.body);
        } else {
            assert_eq!(heard.body["errors"][0]["pointer"], "/expires_at", "{}", heard.body);
        }
    }
    // Ids at the ends of their numbers are people like others.
    for id in ["-9223372036854775808", "9223372036854775807", "0", "-1", "9223372036854775808", "18446744073709551616"]
    {
        assert_eq!(client.put_user(id, "n").unwrap().status, 201, "{id}");
        assert_eq!(client.get(&format!("/api/v1/users/{id}")).body["id"], *id);
        assert_eq!(client.ask("PUT", &format!("/api/v1/users/{id}/following/a"), "").unwrap().status, 201, "{id}");
    }
    server.signal("-TERM");
    let (code, said) = server.wait();
    assert!(code == Some(0) && !said.contains("panicked"), "{code:?} {said}");
}

/// Reads one reply to its end; its first line.
fn reply(wire: &mut BufReader<TcpStream>) -> String {
    let mut line = String::new();
    assert!(wire.read_line(&mut line).unwrap() > 0, "the connection ended");
    let line = line.trim_end().to_owned();
    let count = || line[1..].parse::<i64>().unwrap();
    match line.as_bytes()[0] {
        b'$' if count() >= 0 => {
            let mut bytes = vec![0; count() as usize + 2];
            wire.read_exact(&mut bytes).unwrap();
        }
        b'*' if count() > 0 => (0..count()).for_each(|_| drop(reply(wire))),
        _ => {}
    }
    line
}

#[test]
fn commands_are_refused_or_answered() {
    let folder = Folder::new();
    let mut server = Serving::start(&folder.join("data"));
    let client = Client::new(&server.base);
    for user in ["a", "b", "c"] {
        client.put_user(user, user).unwrap();
    }
    for target in ["b", "c"] {
        client.ask("PUT", &format!("/api/v1/users/a/following/{target}"), "").unwrap();
    }
    client.ask_with(&[("entourage-actor", "b")], "POST", "/api/v1/posts", r#"{"body":{}}"#).unwrap();
    let commands: Vec<String> = ["following:a", "followers:b", "feed:a", "posts:b", "nothing:here"]
        .iter()
        .flat_map(|key| {
            [
                format!("ZRANGE {key} # ##"),
                format!("ZRANGE {key} # ## BYSCORE LIMIT 0 1"),
                format!("ZRANGE {key} -inf +inf BYSCORE LIMIT # ##"),
                format!("ZREVRANGE {key} # ## WITHSCORES"),
                format!("ZRANGEBYSCORE {key} # ##"),
                format!("ZRANGEBYSCORE {key} (# (##"),
                format!("ZREVRANGEBYSCORE {key} +inf -inf LIMIT # ##"),
                format!("ZCOUNT {key} # ##"),
                format!("ZADD {key} # b"),
                format!("SSCAN {key} # COUNT ##"),
                format!("ZSCAN {key} # COUNT ##"),
                format!("SRANDMEMBER {key} #"),
                format!("EXPIRE {key} #"),
                format!("EG.LIST {key} LIMIT #"),
                format!("SINTERCARD # {key} LIMIT ##"),
                format!("ZINTERCARD # {key} LIMIT ##"),
            ]
        })
        .chain(
            ["EG.FEED a LIMIT #", "SELECT #", "HELLO #", "CLIENT LIST ID #", "EG.TOKEN #", "EG.FOLLOW # ##"]
                .map(str::to_owned),
        )
        .collect();
    each(&commands, |template| {
        let mut wire = BufReader::new(TcpStream::connect(&server.resp).unwrap());
        wire.get_ref().set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let pairs = |first: &&'static str| {
            let second =
                if is_soak() && template.contains("##") { NUMBERS } else { &["-1", "9223372036854775807"][..] };
            second.iter().map(|second| (*first, *second)).collect::<Vec<_>>()
        };
        for (first, second) in NUMBERS.iter().flat_map(pairs) {
            let words = template.split(' ').map(|word| word.replace("##", second).replace('#', first));
            let words: Vec<String> = words.collect();
            let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
            for word in &words {
                bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
            }
            wire.get_mut().write_all(&bytes).unwrap();
            let said = reply(&mut wire);
            assert!(!said.to_ascii_lowercase().contains("internal"), "{words:?}: {said}");
        }
    });
    server.signal("-TERM");
    let (code, said) = server.wait();
    assert!(code == Some(0) && !said.contains("panicked"), "{code:?} {said}");
}

#[test]
fn lines_of_files_are_counted_one_by_one() {
    let folder = Folder::new();
    let (file, data) = (folder.join("edges.csv"), folder.join("data"));
    let times: Vec<String> = NUMBERS.iter().chain(TIMES).map(|time| (*time).to_owned()).collect();
    let mut lines = "follower,target,created_at,quiet\n".to_owned();
    for (number, time) in times.iter().enumerate() {
        lines.push_str(&format!("u{number},v{number},{time},\n"));
    }
    lines.push_str("last,one,2024-05-01T10:00:00Z,false\n");
    std::fs::write(&file, lines).unwrap();
    let output = run(&["import", "--json", "--data", text(&data), text(&file)]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let number = |name: &str| report["total"][name].as_u64().unwrap_or_else(|| panic!("{name} in {report}"));
    assert_eq!(number("edges_created") + number("rejected"), times.len() as u64 + 1, "{report}");
    let export = String::from_utf8(run(&["export", "--data", text(&data)]).stdout).unwrap();
    assert!(export.contains("last,one,2024-05-01T10:00:00.000Z,false"), "the last line was read: {export}");
    // Nothing is from a time to come.
    assert!(!export.contains(",2136-") && !export.contains(",9999-"), "{export}");
}

#[test]
fn flags_are_refused_or_taken() {
    let folder = Folder::new();
    let secret = folder.join("secret");
    std::fs::write(&secret, "0123456789abcdef0123456789abcdef").unwrap();
    for number in NUMBERS {
        for unit in ["s", "d", ""] {
            let ttl = format!("--ttl={number}{unit}");
            let token = ["token", "--sub", "a", "--algorithm", "HS256", "--issuer", "i", "--audience", "u", &ttl];
            let output = run(&[&token[..], &["--key-file", text(&secret)]].concat());
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(matches!(output.status.code(), Some(0 | 2)) && !said.contains("panicked"), "{ttl}: {said}");
        }
        for arguments in [["feed", "a", "--limit"], ["events", "--limit", ""], ["watch", "a", "--count"]] {
            let mut all: Vec<&str> = arguments.into_iter().filter(|word| !word.is_empty()).collect();
            let flag = format!("{}={number}", all.pop().unwrap());
            let output = run(&[&all[..], &[&flag, "--server", "http://127.0.0.1:1"]].concat());
            assert!(matches!(output.status.code(), Some(2 | 4)), "{flag}: {output:?}");
        }
    }
}
