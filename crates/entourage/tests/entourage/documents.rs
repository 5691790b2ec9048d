//! Every example of the documents, run as a reader would run it, and every "not there" looked for.

use crate::server_kit;

use std::fs;

use crate::documents_kit::{
    blocks::{Block, blocks, examples, settled},
    reader::Reader,
};
use crate::server_kit::{Folder, run, text};

fn document(name: &str) -> String {
    fs::read_to_string(format!("{}/../../{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// What is in blocks of documents, and who looks at it.
const LANGUAGES: &[(&str, &str)] = &[
    ("sh", "run here"),
    ("bash", "run by the tests of a PostgreSQL that is backed up"),
    ("console", "run here, and what it prints is compared"),
    ("toml", "read as a configuration here"),
    ("rest", "run by the tests of the REST front"),
    ("js", "for a browser"),
    ("json", "a line of a log"),
    ("text", "a drawing, or an answer"),
    ("rust", "a part of the source"),
    ("sql", "a part of the schema"),
];

/// The commands of `docs/growing.md` need PostgreSQL: the tests of the binary over PostgreSQL run them.
const READ_HERE: &[&str] = &[
    "README.md",
    "docs/guide.md",
    "docs/operations.md",
    "docs/resp.md",
    "docs/configuration.md",
    "docs/api.md",
    "docs/growing.md",
];

#[test]
fn the_tour_of_the_readme_is_true() {
    let mut reader = Reader::new();
    reader.read("README.md");
    assert!(reader.commands > 35, "only {} commands were found", reader.commands);
}

#[test]
fn the_examples_of_the_guide_work() {
    let mut reader = Reader::new();
    fs::write(reader.path("follows.csv"), "follower,target,created_at\n1,2,2024-05-01T10:00:00Z\n").unwrap();
    fs::write(reader.path("scores.csv"), "user,suggested,score\nann,ben,0.5\n").unwrap();
    reader.prepare(&["echo '{\"id\": \"1\", \"name\": \"One\"}' | gzip > users.ndjson.gz"]);
    reader.read("docs/guide.md");
    assert!(reader.commands > 15, "only {} commands were found", reader.commands);
}

#[test]
fn the_examples_for_operators_work() {
    let mut reader = Reader::new();
    let people = ["alice", "bob", "carol"].map(|name| format!("entourage user put {name}"));
    reader.prepare(&people.each_ref().map(String::as_str));
    // A store that is not in a folder; the tests of PostgreSQL run the same command on theirs.
    let store = r#"printf '[store]\nurl = "memory:"\n' > entourage.toml"#;
    reader.prepare(&["entourage follow alice bob", store, "printf 'alice\\nbob\\ncarol\\n' > ids.txt"]);
    reader.read("docs/operations.md");
    assert!(reader.commands > 15, "only {} commands were found", reader.commands);
}

#[test]
fn the_examples_of_the_other_pages_work() {
    for (name, least) in [("docs/resp.md", 3), ("docs/configuration.md", 4), ("docs/api.md", 2)] {
        let mut reader = Reader::new();
        reader.prepare(&["printf '[data]\\ndir = \"here\"\\n' > entourage.toml", "entourage user put alice"]);
        reader.read(name);
        assert!(reader.commands >= least, "only {} commands were found in {name}", reader.commands);
    }
}

#[test]
fn configurations_of_documents_are_valid_and_no_block_is_passed_over() {
    let folder = Folder::new();
    let mut configurations = 0;
    for name in READ_HERE {
        for Block { language, text: content } in blocks(&document(name)) {
            assert!(LANGUAGES.iter().any(|(known, _)| *known == language), "{name}: who looks at {language:?}?");
            if language == "toml" {
                let file = folder.join("entourage.toml");
                fs::write(&file, &content).unwrap();
                let output = run(&["config", "print", "--config", text(&file)]);
                assert!(output.status.success(), "{name}\n{content}{output:?}");
                configurations += 1;
            }
        }
    }
    assert!(configurations > 1);
}

#[test]
fn a_difference_is_found() {
    let block = |language: &str, text: &str| Block { language: language.to_owned(), text: text.to_owned() };
    let console = block("console", "$ a $ b\n1\n2\n$ c\n");
    let found: Vec<_> = examples(&console).into_iter().map(|found| (found.command, found.printed.unwrap())).collect();
    assert_eq!(found, [("a $ b".to_owned(), "1\n2\n".to_owned()), ("c".to_owned(), String::new())]);
    let shell = block("sh", "# a comment\n\na \\\n  b   # more\nc\n");
    let found: Vec<_> = examples(&shell).into_iter().map(|found| found.command).collect();
    assert_eq!(found, ["a    b   # more", "c"]);
    let same = [
        ("date: Sun, 15 Nov 2026\r\nx: 1", "date: Mon, 16 Nov 2026\nx: 1"),
        (
            r#"{"at":"2026-11-15T09:40:23.195Z","version":"3556982959930081280"}"#,
            r#"{"at":"2026-11-16T00:00:00.000Z","version":"3556982959930081281"}"#,
        ),
        (r#""follows";r=99;t=18"#, r#""follows";r=99;t=17"#),
        (
            r#"{"request_id":"c2aacf23819ee181ba5c788d24137824"}"#,
            r#"{"request_id":"00aacf23819ee181ba5c788d24137824"}"#,
        ),
    ];
    for (one, other) in same {
        assert_eq!(settled(one), settled(other));
    }
    for (one, other) in
        [("a: 1", "a: 2"), (r#"{"id":"alice"}"#, r#"{"id":"bob"}"#), (r#"r=99;t=1"#, r#"r=98;t=1"#), ("1\n2", "1")]
    {
        assert_ne!(settled(one), settled(other));
    }
}

/// How to find out that something is still not there.
enum Absent {
    /// No such route.
    Routes(&'static [&'static str]),
    /// No such setting.
    Settings(&'static [&'static str]),
    /// No such scheme of `store.url`.
    Stores(&'static [&'static str]),
}

/// What documents say is not there. Whatever is built takes its row from here and its sentence from the document.
const ABSENT: &[(&str, &str, Absent)] = &[
    ("README.md", "Kafka", Absent::Settings(&["log.url"])),
    ("README.md", "a console", Absent::Routes(&["/console"])),
    ("README.md", "Cassandra, a shared cache, clusters", Absent::Stores(&["cassandra://host/keyspace"])),
    ("CHANGELOG.md", "A shared cache", Absent::Settings(&["cache.url", "log.url"])),
    ("ARCHITECTURE.md", "a shared cache", Absent::Settings(&["cache.url"])),
    ("docs/growing.md", "with Redis and Kafka", Absent::Settings(&["cache.url", "log.url"])),
    ("docs/growing.md", "Cassandra", Absent::Stores(&["cassandra://host/keyspace"])),
];

/// Lines about a moment and not about the program.
const OTHER_LINES: &[&str] = &[
    "has not accepted yet",
    "was not seen yet",
    "more is there yet",
    "not been answered yet",
    "not released yet",
    "released versions yet",
    "are not checked yet",
    "constants in this version",
    "does not exist yet",
    "cannot yet",
    "do not cover yet",
    "not yet numbered",
    "not yet folded",
    "is not there yet; the first start",
    "not built yet",
    "there are none yet",
    "not all of it is gone yet",
    "What this version protects",
    "no version makes it yet",
];

#[test]
fn what_documents_say_is_not_there_is_not_there() {
    let folder = Folder::new();
    let server = server_kit::Serving::start(&folder.join("data"));
    let client = server_kit::Client::new(&server.base);
    for (name, words, absent) in ABSENT {
        assert!(document(name).contains(words), "{name} does not say {words:?} any more: take the row out");
        match absent {
            Absent::Routes(paths) => {
                for path in *paths {
                    let heard = client.get(path);
                    let detail = heard.body["detail"].as_str().unwrap_or_default();
                    assert_eq!((heard.status, detail), (404, "no such route"), "{name}: {words} is there: {path}");
                }
            }
            Absent::Settings(settings) => {
                let known = String::from_utf8(run(&["config", "print"]).stdout).unwrap();
                let found = settings.iter().find(|setting| known.contains(&format!("\n{setting} = ")));
                assert_eq!(found, None, "{name}: {words} is there");
            }
            Absent::Stores(urls) => {
                for url in *urls {
                    let mut serve = server_kit::command(&["doctor", "--http", "127.0.0.1:0"]);
                    let output = serve.env("ENTOURAGE_STORE__URL", url).output().unwrap();
                    let said = String::from_utf8(output.stdout).unwrap();
                    assert!(said.contains("there is no store"), "{name}: {words} is there: {said}");
                }
            }
        }
    }
    let pages = ["README.md", "SECURITY.md", "CHANGELOG.md", "ARCHITECTURE.md"]
        .into_iter()
        .chain(READ_HERE[1..].iter().copied());
    for name in pages {
        for line in document(name).lines() {
            let words: Vec<&str> = line.split(|letter: char| !letter.is_alphanumeric()).collect();
            let claims = words.contains(&"yet") || line.contains("n this version") || line.contains("for now");
            let is_other = OTHER_LINES.iter().any(|known| line.contains(known));
            let is_checked = ABSENT.iter().any(|(page, words, _)| *page == name && line.contains(words));
            let heads_a_list = line.contains("not there yet") && (line.starts_with('|') || line.starts_with("###"));
            let heads_a_list = heads_a_list || line.to_lowercase().starts_with("### not there yet");
            let lists_what_follows = line.starts_with("- **Not yet, and therefore not here:**");
            assert!(
                !claims || is_other || is_checked || heads_a_list || lists_what_follows,
                "{name}: nothing looks whether this is true: {line}"
            );
        }
    }
}
