//! The viewer asks both worlds the same, over REST and over RESP, and hears the same.

use rand::{RngExt, seq::IndexedRandom};
use serde_json::json;

use super::{
    Pair,
    answer::Answer,
    by, commands,
    routes::{self, Asks},
    world::{By, World},
};
use crate::wire::words;

/// How many rows a page has at most.
const LIMITS: [usize; 4] = [1, 2, 5, 50];
/// As much as a request needs by the quota of an end user, and more.
const TICK_MILLIS: u64 = 150;
/// No list of these worlds has more pages.
const PAGES_MAX: usize = 300;

impl Pair {
    /// Every route and every command that changes nothing, `times` times with other people.
    pub(super) fn look_around(&mut self, times: usize) {
        for _ in 0..times {
            for row in routes::ROWS.iter().filter(|row| matches!(row.asks, Asks::Reads | Asks::NotForUsers)) {
                for line in row.lines {
                    let by = if row.asks == Asks::NotForUsers { By::Token } else { by(&mut self.random) };
                    self.read(by, line);
                }
            }
            for row in commands::ROWS.iter().filter(|row| row.asks != commands::Asks::Writes) {
                let filled = self.filled(&row.lines.join("\n"));
                filled.lines().for_each(|line| self.command(row, line));
            }
        }
    }

    /// Every route and every command by which the viewer changes something, and after each a look at a few things.
    pub(super) fn change_everything(&mut self) {
        let routes = routes::ROWS.iter().filter(|row| row.asks == Asks::Writes);
        let mut writes: Vec<(&str, Option<&commands::Row>)> =
            routes.flat_map(|row| row.lines).flat_map(|line| [(*line, None); 2]).collect();
        for row in commands::ROWS.iter().filter(|row| row.asks == commands::Asks::Writes) {
            writes.extend(row.lines.iter().map(|line| (*line, Some(row))));
        }
        let reads: Vec<&str> =
            routes::ROWS.iter().filter(|row| row.asks == Asks::Reads).flat_map(|row| row.lines).copied().collect();
        while !writes.is_empty() {
            let (line, row) = writes.swap_remove(self.random.random_range(0..writes.len()));
            match row {
                Some(row) => {
                    let line = self.filled(line);
                    self.command(row, &line);
                }
                None => self.write(line),
            }
            // Posts are brought to their readers, and some requests are answered by jobs.
            if ["/posts", "private", ":accept-all"].iter().any(|part| line.contains(part)) {
                self.settle();
            }
            for _ in 0..3 {
                let line = *reads.choose(&mut self.random).unwrap();
                let by = by(&mut self.random);
                self.read(by, line);
            }
        }
    }

    /// The viewer is erased, and then somebody asks in their name.
    pub(super) fn leave(&mut self) {
        self.write("DELETE /users/{v}");
        self.settle();
        for line in ["GET /users/{v}", "GET /users/{u}", "pages GET /users/{u}/followers", "GET /users/{v}/feed"] {
            self.read(By::Token, line);
        }
    }

    fn read(&mut self, by: By, template: &str) {
        let Some(list) = template.strip_prefix("pages ") else {
            let line = self.filled(template);
            self.ask(by, template, &line, &Default::default());
            return;
        };
        let line = self.filled(list);
        for limit in LIMITS {
            let mut cursors = [String::new(), String::new()];
            for page in 0.. {
                assert!(page < PAGES_MAX, "{line} has no end");
                let answers = self.ask(by, template, &format!("{line}?limit={limit}{{cursor}}"), &cursors);
                let [Some(first), Some(second)] = answers.map(|answer| answer.next_cursor()) else { break };
                cursors = [first, second].map(|cursor| format!("&cursor={cursor}"));
            }
        }
    }

    /// Some are sent a second time with their Idempotency-Key, and then with another body.
    fn write(&mut self, template: &str) {
        let (by, line) = (by(&mut self.random), self.filled(template));
        if self.random.random_bool(0.4) {
            self.ask(by, template, &line, &Default::default());
            return;
        }
        let line = format!("^idempotency-key=key-{} {line}", self.random.random::<u32>());
        let other = match line.split_once(" {") {
            Some((head, body)) => format!("{head} {{ {body}"),
            None => format!("{line} {{}}"),
        };
        for line in [&line, &line, &other] {
            self.ask(by, template, line, &Default::default());
        }
    }

    /// One request to both, with the cursors that each gave.
    fn ask(&mut self, by: By, template: &str, line: &str, cursors: &[String; 2]) -> [Answer; 2] {
        self.tick();
        let mut cursors = cursors.iter();
        let answers =
            self.worlds.each_mut().map(|world| world.ask(by, &line.replace("{cursor}", cursors.next().unwrap())));
        let [first, second] = [0, 1].map(|index| answers[index].shown(&mut self.sealed[index]));
        self.compare(template, format!("{line} by {by:?}"), &first, &second);
        answers
    }

    /// A command to both; `walk` goes on with the cursor of its reply.
    fn command(&mut self, row: &commands::Row, line: &str) {
        let (line, walks) = line.strip_prefix("walk ").map_or((line, false), |line| (line, true));
        let mut lines = [line.to_owned(), line.to_owned()];
        for page in 0.. {
            assert!(page < PAGES_MAX, "{line} has no end");
            self.tick();
            let mut sent = lines.iter();
            let replies = self.worlds.each_mut().map(|world| world.command(&words(sent.next().unwrap())));
            let kind = if line.starts_with("EG.TOKEN") { "token" } else { "cursor" };
            let [first, second] = [0, 1].map(|index| {
                let text = String::from_utf8_lossy(&replies[index]).into_owned();
                let is_of_process = row.asks == commands::Asks::Process;
                if is_of_process { without_numbers(&text) } else { self.sealed[index].hide(kind, &text) }
            });
            self.compare(row.command, lines[0].clone(), &first, &second);
            let next = replies.map(|reply| next_cursor(&reply).filter(|_| walks));
            let [Some(first), Some(second)] = next else { return };
            lines = [first, second].map(|cursor| with_cursor(line, &cursor));
        }
    }

    /// Time goes on from request to request.
    pub(super) fn tick(&mut self) {
        self.common.clock.advance(TICK_MILLIS);
        self.sealed.iter_mut().for_each(|sealed| sealed.asked += 1);
    }

    fn anybody(&mut self) -> String {
        let chance = self.random.random_range(0..100);
        let all = self.cast.everybody();
        let from = if chance < 70 { &self.plan.focus } else { &all };
        if chance > 96 { "nobody".to_owned() } else { from.choose(&mut self.random).unwrap().clone() }
    }

    /// With people and things in place of what stands for them.
    fn filled(&mut self, line: &str) -> String {
        let (one, other) = (self.anybody(), self.anybody());
        let viewer = self.cast.viewer.clone();
        let mut line = line.replace("{v}", &viewer).replace("{u}", &one).replace("{w}", &other);
        let mut put = |name: &str, value: &mut dyn FnMut() -> String| {
            if line.contains(name) {
                line = line.replace(name, &value());
            }
        };
        put("{key}", &mut || {
            format!("{}:{}", ["followers", "following"].choose(&mut self.random).unwrap(), self.anybody())
        });
        put("{all}", &mut || json!(self.cast.everybody()).to_string());
        put("{pairs}", &mut || {
            let pairs: Vec<[String; 2]> = (0..150).map(|_| [self.anybody(), self.anybody()]).collect();
            json!(pairs).to_string()
        });
        put("{known}", &mut || loop {
            let id = self.anybody();
            if !self.cast.blocked.contains(&id) {
                break id;
            }
        });
        put("{g}", &mut || {
            let groups = self.worlds[0].service(&format!("GET /users/{viewer}/groups")).body["data"].clone();
            let ids: Vec<String> =
                groups.as_array().unwrap().iter().map(|group| group["id"].as_str().unwrap().to_owned()).collect();
            ids.choose(&mut self.random).cloned().unwrap_or_else(|| "7".to_owned())
        });
        put("{p}", &mut || {
            let posts: Vec<String> = self.worlds.iter().flat_map(|world| world.posts.clone()).collect();
            posts.choose(&mut self.random).unwrap().clone()
        });
        put("{n}", &mut || {
            let told = self.worlds[0].service(&format!("GET /users/{viewer}/notifications")).body["data"].clone();
            told[0]["id"].as_str().unwrap_or("7.follow").to_owned()
        });
        line
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
