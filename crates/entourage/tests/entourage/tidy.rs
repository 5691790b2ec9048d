//! Rules of the repository that a program can check. Each is a function over text, shown to fail on a planted line.

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use entourage_server::config::SETTINGS;

const LINES_MAX: usize = 600;
/// What the model may not know: storage, network, time, and whatever would bring them in.
const NOT_IN_THE_MODEL: &[&str] = &["tokio", "axum", "std::fs", "std::net", "SystemTime"];
/// Crates that only the wiring may name.
const ENGINES: &[&str] = &["entourage_memory", "entourage_embedded", "entourage_postgres"];
/// Split, so that this file does not break its own rule.
const UNFINISHED: &[&str] =
    &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("unimplemented", "!"), concat!("todo", "!")];
/// The only file that asks a store to commit.
const WRITER: &str = "service/src/writer.rs";
const NOT_OURS: &[&str] = &["target", ".git", "entourage-data", "data"];

#[test]
fn links_in_documents_lead_somewhere() {
    let root = root();
    let documents = files_under(&root, "md");
    assert!(documents.len() > 10, "only {} documents were found", documents.len());
    let read_link = |from: &Path, link: &str| -> Option<String> {
        let place = from.parent()?.join(link);
        if place.is_dir() {
            Some(String::new())
        } else {
            fs::read(place).ok().map(|b| String::from_utf8_lossy(&b).into())
        }
    };
    let wrong = documents.iter().flat_map(|path| {
        broken_links(&text(path), |link| read_link(path, link)).into_iter().map(move |link| at(path, &link))
    });
    nothing(wrong);
}

#[test]
fn source_files_are_short() {
    nothing(sources().iter().filter_map(|path| too_long(&text(path)).map(|problem| at(path, &problem))));
}

#[test]
fn the_model_knows_no_storage_network_or_time() {
    let files = files_under(&root().join("crates/model/src"), "rs");
    assert!(!files.is_empty());
    nothing(files.iter().flat_map(|path| uses(&text(path), NOT_IN_THE_MODEL).into_iter().map(|word| at(path, word))));
    let manifest = text(&root().join("crates/model/Cargo.toml"));
    nothing(["tokio", "axum"].into_iter().filter(|name| manifest.contains(name)).map(str::to_owned));
}

#[test]
fn only_the_wiring_names_engines() {
    let crates = root().join("crates");
    let wiring = crates.join("server/src/wire.rs");
    assert!(names_engines(&text(&wiring)), "the rule no longer sees what it is about");
    let files = ["server/src", "service/src"].map(|folder| files_under(&crates.join(folder), "rs")).concat();
    assert!(files.len() > 10);
    let wrong = files.iter().filter(|path| **path != wiring && names_engines(&text(path)));
    nothing(wrong.map(|path| at(path, "names an engine; only the wiring may")));
}

/// What `cargo build` links: dependencies of tests are not among it.
#[test]
fn the_product_links_no_test_kit() {
    let tree = |edges: &str| {
        let arguments =
            ["tree", "--package", "entourage", "--edges", edges, "--prefix", "none", "--offline", "--locked"];
        let output = Command::new(env!("CARGO")).args(arguments).current_dir(root()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let links = |tree: &str, package: &str| tree.lines().any(|line| line.split(' ').next() == Some(package));
    let (product, with_tests) = (tree("normal,build"), tree("normal,build,dev"));
    assert!(links(&product, "entourage-embedded"), "the tree is not that of the product:\n{product}");
    assert!(links(&with_tests, "rcgen"), "the rule no longer sees what it is about");
    for package in ["entourage-testkit", "proptest", "rcgen"] {
        assert!(!links(&product, package), "the product links {package}");
    }
}

#[test]
fn only_the_writer_commits() {
    let crates = root().join("crates");
    let writer = crates.join(WRITER);
    assert!(commits(&text(&writer)), "the rule no longer sees what it is about");
    let folders = ["service/src", "server/src", "entourage/src"];
    let files = folders.map(|folder| files_under(&crates.join(folder), "rs")).concat();
    assert!(files.len() > 10);
    let wrong = files.iter().filter(|path| **path != writer && commits(&text(path)));
    nothing(wrong.map(|path| at(path, "commits; every write goes through the writer")));
}

#[test]
fn nothing_is_left_unfinished() {
    let files = [files_under(&root().join("crates"), "rs"), files_under(&root().join("crates"), "sql")].concat();
    nothing(files.iter().flat_map(|path| unfinished(&text(path)).into_iter().map(|line| at(path, &line))));
}

#[test]
fn every_setting_is_described_with_its_default() {
    let page = text(&root().join("docs/configuration.md"));
    let settings = SETTINGS.iter().map(|setting| (setting.name, setting.default));
    nothing(undescribed(&page, settings).into_iter());
}

#[test]
fn every_test_that_the_invariants_name_is_there() {
    let page = text(&root().join("docs/invariants.md"));
    let tests: HashSet<String> =
        files_under(&root().join("crates"), "rs").iter().flat_map(|path| tests_in(&text(path))).collect();
    assert!(tests.len() > 300, "only {} tests were found", tests.len());
    assert!(named_tests(&page).len() > 80, "the page names too few tests to mean anything");
    nothing(named_tests(&page).into_iter().filter(|name| !tests.contains(*name)).map(str::to_owned));
    let numbers: HashSet<&str> = page.lines().filter_map(|line| line.strip_prefix("| I")?.split(' ').next()).collect();
    for number in 1..=30_u32 {
        let holds = |row: &&str| match row.split_once("–I") {
            Some((first, last)) => (first.parse().unwrap()..=last.parse().unwrap()).contains(&number),
            None => row.parse() == Ok(number),
        };
        assert!(numbers.iter().any(holds), "I{number} has no row");
    }
}

/// Each step of a walk in ARCHITECTURE.md names a function that its file has, and the file of an earlier step names it.
#[test]
fn the_walks_go_where_they_say() {
    let page = text(&root().join("ARCHITECTURE.md"));
    let walks = walks(&page);
    // What each took when the walks were first counted.
    let bounds = [("follow", 32), ("check", 16), ("post", 10), ("feed read", 7)];
    assert!(walks.iter().map(|walk| walk.name).eq(bounds.map(|(name, _)| name)), "{walks:?}");
    for (walk, (name, most)) in walks.iter().zip(bounds) {
        let files: HashSet<&str> = walk.steps.iter().map(|(file, _)| *file).collect();
        assert!(files.len() < most, "a {name} passes through {} files", files.len());
        nothing(lost_steps(walk, |file| fs::read_to_string(root().join(file)).ok()).into_iter());
    }
}

/// What a request passes through, from file to file.
#[derive(Debug)]
struct Walk<'a> {
    name: &'a str,
    steps: Vec<(&'a str, &'a str)>,
}

/// Headings of the form "### A follow" with lines of the form "1. `path/to/file.rs` `function`: …" below them.
fn walks(markdown: &str) -> Vec<Walk<'_>> {
    let mut walks = Vec::new();
    for line in markdown.lines() {
        if let Some(name) = line.strip_prefix("### A ") {
            walks.push(Walk { name, steps: Vec::new() });
        } else if line.starts_with("## ") && !walks.is_empty() {
            break;
        } else if let (Some(walk), true) = (walks.last_mut(), line.starts_with(|first: char| first.is_ascii_digit())) {
            let mut spans = line.split('`').skip(1).step_by(2);
            walk.steps.extend(spans.next().zip(spans.next()));
        }
    }
    walks.retain(|walk| !walk.steps.is_empty());
    walks
}

fn lost_steps(walk: &Walk<'_>, read: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let mut lost = Vec::new();
    for (index, (file, function)) in walk.steps.iter().enumerate() {
        let Some(source) = read(file) else {
            lost.push(format!("{file} is not there"));
            continue;
        };
        if !has_word(&source, &format!("fn {function}")) {
            lost.push(format!("{file} has no function {function}"));
        }
        let earlier = || walk.steps.iter().take(index).filter_map(|(earlier, _)| read(earlier));
        if index > 0 && !earlier().any(|source| has_word(&without_comments(&source), function)) {
            lost.push(format!("nothing before {file} calls {function}"));
        }
    }
    lost
}

/// Names in code spans that look like those of tests.
fn named_tests(markdown: &str) -> Vec<&str> {
    let spans = markdown.split('`').skip(1).step_by(2);
    let is_name = |span: &&str| {
        span.matches('_').count() >= 2
            && span.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
    };
    spans.filter(is_name).collect()
}

/// Functions that are marked as tests, and cases of a list that a macro makes tests of: `name [C1 C2];`.
fn tests_in(source: &str) -> Vec<String> {
    let (mut found, mut marked) = (Vec::new(), false);
    for line in source.lines().map(str::trim) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            marked = true;
        } else if let Some((_, name)) = line.split_once("fn ").filter(|_| marked && !line.starts_with("//")) {
            found.extend(name.split('(').next().map(str::to_owned));
            marked = false;
        } else if let Some((name, rest)) = line.split_once(" [").filter(|_| line.ends_with(';')) {
            let is_case = rest.starts_with(|c: char| c.is_ascii_uppercase()) && rest.contains(']');
            found.extend(is_case.then(|| name.to_owned()));
        }
    }
    found
}

/// Settings without a row that has their name and default.
fn undescribed<'a>(page: &str, settings: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<String> {
    let row = |(name, default): (&str, &str)| format!("| `{name}` | `{default}` |");
    settings.map(row).filter(|row| !page.lines().any(|line| line.starts_with(row.as_str()))).collect()
}

/// Links of a document to files or headings that are not there. `read` gives a linked file's text, a folder's as empty.
fn broken_links(markdown: &str, read: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let is_broken = |link: &&str| {
        if link.contains("://") || link.starts_with("mailto:") {
            return false;
        }
        let (file, anchor) = link.split_once('#').map_or((*link, None), |(file, anchor)| (file, Some(anchor)));
        let target = if file.is_empty() { Some(markdown.to_owned()) } else { read(file) };
        match (target, anchor) {
            (None, _) => true,
            (Some(text), Some(anchor)) => !anchors(&text).contains(anchor),
            (Some(_), None) => false,
        }
    };
    let prose = without_code(markdown);
    let found = links(&prose);
    found.iter().map(String::as_str).filter(is_broken).map(str::to_owned).collect()
}

fn links(prose: &str) -> Vec<String> {
    let inline = prose.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link);
    let references = prose
        .lines()
        .filter(|line| line.starts_with('['))
        .filter_map(|line| line.split_once("]: "))
        .map(|(_, link)| link);
    inline.chain(references).filter_map(|link| link.split_whitespace().next()).map(str::to_owned).collect()
}

/// Fenced blocks and code spans hold examples, not links.
fn without_code(markdown: &str) -> String {
    let mut fenced = false;
    let mut prose = String::new();
    for line in markdown.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            prose.extend(line.split('`').step_by(2));
            prose.push('\n');
        }
    }
    prose
}

/// Names of headings as GitHub makes them, and explicit anchors.
fn anchors(markdown: &str) -> HashSet<String> {
    let heading = |line: &str| {
        let title = line.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
        title.chars().filter(|c| c.is_alphanumeric() || *c == '-' || *c == '_').collect::<String>()
    };
    let headings = markdown.lines().filter(|line| line.starts_with('#')).map(heading);
    let explicit = markdown.split("id=\"").skip(1).filter_map(|rest| Some(rest.split_once('"')?.0.to_owned()));
    headings.chain(explicit).collect()
}

fn too_long(source: &str) -> Option<String> {
    let lines = source.lines().count();
    (lines > LINES_MAX).then(|| format!("{lines} lines, {LINES_MAX} at most"))
}

/// Which of these names the code uses, grouped imports included, comments left out.
fn uses<'a>(source: &str, names: &[&'a str]) -> Vec<&'a str> {
    let code = without_comments(source);
    let grouped = grouped_imports(&code);
    let is_used = |name: &&&str| has_word(&code, name) || grouped.iter().any(|path| path == *name);
    names.iter().filter(is_used).copied().collect()
}

/// `use std::{fs, io::Read}` as `std::fs` and `std::io`.
fn grouped_imports(code: &str) -> Vec<String> {
    let mut paths = Vec::new();
    for group in code.split("std::{").skip(1) {
        let mut depth = 0usize;
        let mut item = String::new();
        for character in group.chars() {
            match character {
                '}' if depth == 0 => break,
                ',' if depth == 0 => paths.push(std::mem::take(&mut item)),
                '{' => depth += 1,
                '}' => depth -= 1,
                _ if depth == 0 && !character.is_whitespace() => item.push(character),
                _ => {}
            }
        }
        paths.push(item);
    }
    paths.iter().filter_map(|item| item.split("::").next()).map(|first| format!("std::{first}")).collect()
}

fn names_engines(source: &str) -> bool {
    let source = without_comments(source);
    ENGINES.iter().any(|engine| has_word(&source, engine))
}

/// Whether a store is asked to commit, however the call is spelled or broken over lines.
fn commits(source: &str) -> bool {
    let code: String = without_comments(source).split_whitespace().collect();
    [".commit(", "::commit(", ".commit_all(", "::commit_all("].iter().any(|call| code.contains(call))
}

fn unfinished(source: &str) -> Vec<String> {
    let marked = |line: &&str| UNFINISHED.iter().any(|mark| line.contains(mark));
    source.lines().filter(marked).map(|line| line.trim().to_owned()).collect()
}

fn without_comments(source: &str) -> String {
    source.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

fn has_word(text: &str, word: &str) -> bool {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    text.match_indices(word).any(|(at, _)| {
        !text[..at].chars().next_back().is_some_and(is_part)
            && !text[at + word.len()..].chars().next().is_some_and(is_part)
    })
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn sources() -> Vec<PathBuf> {
    let mut found = files_under(&root().join("crates"), "rs");
    found.retain(|path| path.components().any(|part| part.as_os_str() == "src"));
    assert!(found.len() > 50, "only {} sources were found", found.len());
    found
}

fn files_under(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.unwrap().path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() && !NOT_OURS.contains(&name) {
            found.extend(files_under(&path, extension));
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
    found
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn at(path: &Path, problem: &str) -> String {
    format!("{}: {problem}", path.strip_prefix(root()).unwrap_or(path).display())
}

fn nothing(problems: impl Iterator<Item = String>) {
    let problems: Vec<_> = problems.collect();
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

mod planted {
    use super::*;

    #[test]
    fn broken_links_are_found() {
        let read = |link: &str| (link == "there.md").then(|| "# A place\n<a id=\"spot\"></a>".to_owned());
        let fine = "[a](there.md) [b](there.md#a-place) [c](there.md#spot) [d](https://example.org/x) [e](#own-title)\n\
                    `[f](code.md)`\n```\n[g](fenced.md)\n```\n# Own title\n[h]: there.md\n";
        assert_eq!(broken_links(fine, read), Vec::<String>::new());
        for link in ["gone.md", "there.md#nowhere", "#nowhere", "there.txt", "../there.md"] {
            assert_eq!(broken_links(&format!("see [x]({link}) now"), read), [link]);
        }
        assert_eq!(broken_links("![picture](gone.png \"title\")\n[x]: gone.md\n", read), ["gone.png", "gone.md"]);
    }

    #[test]
    fn a_line_too_many_is_found() {
        assert_eq!(too_long(&"x\n".repeat(LINES_MAX)), None);
        assert!(too_long(&"x\n".repeat(LINES_MAX + 1)).is_some());
    }

    #[test]
    fn impure_imports_are_found() {
        for (line, name) in [
            ("use tokio::sync::Mutex;", "tokio"),
            ("fn f(_: axum::Router) {}", "axum"),
            ("use std::fs;", "std::fs"),
            ("let x = std::net::TcpStream::connect(a);", "std::net"),
            ("use std::{fmt, net::IpAddr};", "std::net"),
            ("use std::{\n    collections::{BTreeMap, HashMap},\n    fs,\n};", "std::fs"),
            ("let now = std::time::SystemTime::now();", "SystemTime"),
        ] {
            assert_eq!(uses(line, NOT_IN_THE_MODEL), [name], "{line}");
        }
        let fine = "use std::{fmt, sync::Arc};\n// tokio and std::fs stay outside\nuse std::{io::{self, fs_like}};\nlet tokio_like = 1;";
        assert_eq!(uses(fine, NOT_IN_THE_MODEL), Vec::<&str>::new());
    }

    #[test]
    fn named_engines_are_found() {
        assert!(names_engines("use entourage_embedded::Options;"));
        assert!(names_engines("let store = entourage_postgres::Store::connect(url);"));
        assert!(!names_engines("// entourage_memory is elsewhere\nuse entourage_store::Store;"));
    }

    #[test]
    fn commits_around_the_writer_are_found() {
        for line in [
            "let outcome = self.store.commit(write).await?;",
            "let outcomes = service\n    .store\n    .commit_all(writes)\n    .await;",
            "StoreExt::commit(&*store, write).await",
            "let all = Store::commit_all(&*store, writes);",
        ] {
            assert!(commits(line), "{line}");
        }
        let fine = "// store.commit(write) is the writer's\nmod commit;\nuse super::commit::{Settled, settle};\n\
                    let commit = self.writer.write_all(writes);\nlet done = commit.await;";
        assert!(!commits(fine));
    }

    #[test]
    fn settings_without_a_row_are_found() {
        let page = "| setting | default |\n| `a.b` | `1` | one |\n";
        assert_eq!(undescribed(page, [("a.b", "1")].into_iter()), Vec::<String>::new());
        assert_eq!(undescribed(page, [("a.b", "2"), ("a.c", "1")].into_iter()).len(), 2);
    }

    #[test]
    fn tests_that_are_not_there_are_found() {
        let source = "#[test]\nfn one_test_here() {\n}\nfn no_test_here() {}\n#[tokio::test(flavor = \"x\")]\n\
                      #[ignore]\nasync fn another_test_here() {}\n    a_case_here [C1 C2] if durable;\nlet x = [1];\n";
        assert_eq!(tests_in(source), ["one_test_here", "another_test_here", "a_case_here"]);
        let page = "| `one_test_here`, `no_test_here` | `setting.name` `x` |";
        assert_eq!(named_tests(page), ["one_test_here", "no_test_here"]);
    }

    #[test]
    fn steps_that_lead_nowhere_are_found() {
        let page = "### A follow\n\n1. `a.rs` `begin`: it begins\n2. `b.rs` `end`\n\n## Other\n\n1. `c.rs` `no_step`";
        let [walk] = &walks(page)[..] else { panic!("one walk") };
        assert_eq!((walk.name, &walk.steps[..]), ("follow", &[("a.rs", "begin"), ("b.rs", "end")][..]));
        let files = |a: &'static str, b: Option<&'static str>| {
            move |file: &str| if file == "a.rs" { Some(a.to_owned()) } else { b.map(str::to_owned) }
        };
        let begin = "fn begin() { end(); }";
        assert_eq!(lost_steps(walk, files(begin, Some("fn end() {}"))), Vec::<String>::new());
        for (a, b) in [(begin, None), (begin, Some("fn other() {}")), ("fn begin() {} // end", Some("fn end() {}"))] {
            assert_eq!(lost_steps(walk, files(a, b)).len(), 1, "{a} {b:?}");
        }
    }

    #[test]
    fn unfinished_lines_are_found() {
        for mark in UNFINISHED {
            assert_eq!(unfinished(&format!("fn f() {{\n    // {mark} later\n}}")).len(), 1, "{mark}");
        }
        assert_eq!(unfinished("fn todo_list() {}"), Vec::<String>::new());
    }
}
