//! Fenced blocks of a document, and what in them is run.

/// One command, and what it must print; `None` where the document does not say.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Example {
    pub(crate) command: String,
    pub(crate) printed: Option<String>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) language: String,
    pub(crate) text: String,
}

pub(crate) fn blocks(markdown: &str) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let mut is_open = false;
    for line in markdown.lines() {
        match (line.strip_prefix("```"), is_open) {
            (Some(language), false) => {
                found.push(Block { language: language.trim().to_owned(), text: String::new() });
                is_open = true;
            }
            (Some(_), true) => is_open = false,
            (None, true) => {
                let block = found.last_mut().unwrap();
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, false) => {}
        }
    }
    assert!(!is_open, "a block has no end");
    found
}

/// Lines of `sh`, each a command; in `console`, those behind `$`, with what they print below.
pub(crate) fn examples(block: &Block) -> Vec<Example> {
    match block.language.as_str() {
        "sh" => {
            let joined = block.text.replace("\\\n", " ");
            let lines = joined.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
            lines.map(|line| Example { command: line.to_owned(), printed: None }).collect()
        }
        "console" => {
            let mut found: Vec<Example> = Vec::new();
            for line in block.text.lines() {
                if let Some(command) = line.strip_prefix("$ ") {
                    found.push(Example { command: command.to_owned(), printed: Some(String::new()) });
                } else if let Some(printed) = found.last_mut().and_then(|last| last.printed.as_mut()) {
                    printed.push_str(line);
                    printed.push('\n');
                }
            }
            found
        }
        _ => Vec::new(),
    }
}

/// What differs from one run to the next, left out of what is printed.
pub(crate) fn settled(printed: &str) -> String {
    let mut lines = Vec::new();
    for line in printed.lines().map(|line| line.trim_end()) {
        let name = line.split_once(": ").map_or("", |(name, _)| name);
        let varies =
            ["date", "x-request-id", "server-timing", "entourage-token", "x-ratelimit-reset", "content-length"];
        lines.push(if varies.contains(&name) { format!("{name}: …") } else { words(line) });
    }
    lines.join("\n").trim().to_owned()
}

/// Words of letters and digits that are a time, a version, an id of a request or a quota's rest become dots.
fn words(line: &str) -> String {
    let is_part = |character: char| character.is_ascii_alphanumeric() || "-_:.".contains(character);
    let mut out = String::new();
    let mut word = String::new();
    for character in line.chars().chain(['\n']) {
        if is_part(character) {
            word.push(character);
            continue;
        }
        let is_time = word.len() >= 20 && word.ends_with('Z') && word.contains('T') && word.starts_with("20");
        let is_long = word.len() >= 16
            && word.chars().all(|letter| letter.is_ascii_alphanumeric())
            && word.contains(|letter: char| letter.is_ascii_digit());
        let is_rest = out.ends_with("t=") && word.chars().all(|letter| letter.is_ascii_digit());
        out.push_str(if is_time || is_long || is_rest { "…" } else { &word });
        word.clear();
        out.push(character);
    }
    out.trim_end().to_owned()
}
