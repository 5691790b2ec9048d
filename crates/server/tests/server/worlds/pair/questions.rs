//! The viewer asks both worlds the same, over REST and over RESP, and hears the same.

use rand::{RngExt, seq::IndexedRandom};

use super::{
    Pair,
    answer::Answer,
    by, commands, routes,
    row::{Asks, Row},
    world::{By, World},
};
use crate::kit::wire::words;

/// How many rows a page has at most.
const LIMITS: [usize; 4] = [1, 2, 5, 50];
/// As much as a request needs by the quota of an end user, and more.
const TICK_MILLIS: u64 = 150;
/// No list of these worlds has more pages.
const PAGES_MAX: usize = 300;

impl Pair {
    /// Every route and every command that changes nothing.
    pub(super) fn look_around(&mut self) {
        for row in routes::ROWS.iter().filter(|row| matches!(row.asks, Asks::Reads | Asks::NotForUsers)) {
            for line in row.lines {
                if self.is_decided() {
                    return;
                }
                let by = if row.asks == Asks::NotForUsers { By::Token } else { by(&mut self.random) };
                self.read(by, line);
            }
        }
        for row in commands::ROWS.iter().filter(|row| row.asks != Asks::Writes) {
            let [first, second] = self.filled(&row.lines.join("\n"));
            first.lines().zip(second.lines()).for_each(|(first, second)| self.command(row, [first, second]));
        }
    }

    /// Every route and every command by which the viewer changes something, and after each a look at a few things.
    pub(super) fn change_everything(&mut self) {
        let routes = routes::ROWS.iter().filter(|row| row.asks == Asks::Writes);
        let mut writes: Vec<(&str, Option<&Row>)> =
            routes.flat_map(|row| row.lines).flat_map(|line| [(*line, None); 2]).collect();
        for row in commands::ROWS.iter().filter(|row| row.asks == Asks::Writes) {
            writes.extend(row.lines.iter().map(|line| (*line, Some(row))));
        }
        let reads: Vec<&str> =
            routes::ROWS.iter().filter(|row| row.asks == Asks::Reads).flat_map(|row| row.lines).copied().collect();
        while !writes.is_empty() && !self.is_decided() {
            let (line, row) = writes.swap_remove(self.random.random_range(0..writes.len()));
            match row {
                Some(row) => {
                    let [first, second] = self.filled(line);
                    self.command(row, [&first, &second]);
                }
                None => self.write(line),
            }
            // Posts are brought to their readers, and some requests are answered by jobs.
            if ["/posts", "private", ":accept-all"].iter().any(|part| line.contains(part)) {
                self.settle();
            }
            for _ in 0..2 {
                let line = *reads.choose(&mut self.random).unwrap();
                let by = by(&mut self.random);
                self.read(by, line);
            }
        }
    }

    /// The viewer is erased, and then somebody asks in their name. With them their blocks are gone, and what those hid.
    pub(super) fn leave(&mut self) {
        self.write("DELETE /users/{v}");
        self.settle();
        for line in ["GET /users/{v}", "GET /users/{u}", "GET /users/{v}/feed", "POST /users/{u}/follow"] {
            self.read(By::Token, line);
        }
    }

    fn read(&mut self, by: By, template: &str) {
        let Some(list) = template.strip_prefix("pages ") else {
            let lines = self.filled(template);
            self.ask(by, template, &lines);
            return;
        };
        let lists = self.filled(list);
        for limit in LIMITS {
            let mut lines = lists.each_ref().map(|line| format!("{line}?limit={limit}"));
            for page in 0.. {
                assert!(page < PAGES_MAX, "{list} has no end");
                let next = self.ask(by, template, &lines).map(|answer| answer.next_cursor());
                let [Some(first), Some(second)] = next else { break };
                lines = [first, second].map(|cursor| format!("?limit={limit}&cursor={cursor}"));
                lines.iter_mut().zip(&lists).for_each(|(line, list)| line.insert_str(0, list));
            }
        }
    }

    /// Some are sent a second time with their Idempotency-Key, and then with another body.
    fn write(&mut self, template: &str) {
        let (by, lines) = (by(&mut self.random), self.filled(template));
        if self.random.random_bool(0.4) {
            self.ask(by, template, &lines);
            return;
        }
        let key = self.random.random::<u32>();
        let lines = lines.map(|line| format!("^idempotency-key=key-{key} {line}"));
        self.ask(by, template, &lines);
        self.ask(by, template, &lines);
        let others = lines.map(|line| match line.split_once(" {") {
            Some((head, body)) => format!("{head} {{ {body}"),
            None => format!("{line} {{}}"),
        });
        self.ask(by, template, &others);
    }

    /// One request to both.
    fn ask(&mut self, by: By, template: &str, lines: &[String; 2]) -> [Answer; 2] {
        self.tick();
        let mut sent = lines.iter();
        let answers = self.worlds.each_mut().map(|world| world.ask(by, sent.next().unwrap()));
        let [first, second] = [0, 1].map(|index| answers[index].shown(&mut self.sealed[index]));
        self.compare(template, format!("{} by {by:?}", lines[0]), &first, &second);
        let posts = answers.each_ref().map(|answer| answer.body()["id"].as_str().map(str::to_owned));
        if let ([Some(first), Some(second)], "POST /posts") = (posts, &template[..template.len().min(11)]) {
            self.posts.push([first, second]);
        }
        answers
    }

    /// A command to both; `walk` goes on with the cursor of its reply.
    fn command(&mut self, row: &Row, lines: [&str; 2]) {
        let walks = lines[0].starts_with("walk ");
        let first = lines.map(|line| line.trim_start_matches("walk ").to_owned());
        let mut lines = first.clone();
        for page in 0.. {
            assert!(page < PAGES_MAX, "{first:?} has no end");
            self.tick();
            let mut sent = lines.iter();
            let replies = self.worlds.each_mut().map(|world| world.command(&words(sent.next().unwrap())));
            let kind = if row.name == "EG.TOKEN" { "token" } else { "cursor" };
            let [one, other] = [0, 1].map(|index| {
                let text = String::from_utf8_lossy(&replies[index]).into_owned();
                let is_of_process = row.asks == Asks::Process;
                if is_of_process { without_numbers(&text) } else { self.sealed[index].hide(kind, &text) }
            });
            self.compare(row.name, lines[0].clone(), &one, &other);
            let next = replies.map(|reply| next_cursor(&reply).filter(|_| walks));
            let [Some(one), Some(other)] = next else { return };
            lines = [with_cursor(&first[0], &one), with_cursor(&first[1], &other)];
        }
    }

    /// Time goes on from request to request.
    pub(super) fn tick(&mut self) {
        self.common.clock.advance(TICK_MILLIS);
        self.sealed.iter_mut().for_each(|sealed| sealed.asked += 1);
    }
}

/// Each run of digits is a sign.
fn without_numbers(text: &str) -> String {
    let mut shown = String::new();
    for c in text.chars() {
        match c {
            '0'..='9' if shown.ends_with('#') => {}
            '0'..='9' => shown.push('#'),
            c => shown.push(c),
        }
    }
    shown
}

/// Of a reply that begins with one: `*2`, or `*3`, and then a text that is not "0".
fn next_cursor(reply: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(reply).ok()?;
    let mut lines = text.split("\r\n");
    let is_page = lines.next().is_some_and(|line| line == "*2" || line == "*3");
    let length = lines.next().filter(|line| is_page && line.starts_with('$') && *line != "$-1")?;
    let cursor = lines.next().filter(|cursor| length.len() > 1 && *cursor != "0")?;
    Some(cursor.to_owned())
}

/// `SSCAN` has its cursor as a word of its own, the others by name.
fn with_cursor(line: &str, cursor: &str) -> String {
    if line.starts_with("SSCAN") {
        line.replacen(" 0", &format!(" {cursor}"), 1)
    } else {
        format!("{line} CURSOR {cursor}")
    }
}

impl World {
    /// The names of all commands there are.
    pub(super) fn command_names(&mut self) -> Vec<String> {
        let reply = String::from_utf8(self.command(&["COMMAND", "LIST"])).unwrap();
        reply
            .split("\r\n")
            .filter(|line| !line.is_empty() && !line.starts_with(['*', '$']))
            .map(str::to_ascii_uppercase)
            .collect()
    }
}
