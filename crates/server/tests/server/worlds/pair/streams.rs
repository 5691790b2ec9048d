//! The viewer's streams: what both worlds do while they are open, and what is told of it.

use serde_json::Value;

use super::{Pair, plan::Step, planted};
use crate::kit::streaming::{Message, Stream};

const REQUEST_ID: &str = "^x-request-id=stream";

impl Pair {
    pub(super) fn listen(&mut self) -> Result<(), String> {
        let (viewer, heralds) = (self.cast.viewer.clone(), self.cast.heralds.clone());
        self.take(&Step::both(format!(r#"PUT /users/{viewer}/following/{} {{"quiet": false}}"#, heralds[3])))?;
        let path = format!("{REQUEST_ID} /users/{viewer}/notifications/stream");
        let mut streams = self.open(&path);
        self.told(&mut streams, |message| message.name == "unseen")?;
        for herald in &heralds[..2] {
            self.whispers(herald)?;
            self.take(&Step::both(format!(r#"PUT /users/{herald}/following/{viewer} {{"quiet": false}}"#)))?;
            self.told(&mut streams, |message| is_by(&message.data["actors"], herald))?;
            self.told(&mut streams, |message| message.name == "unseen")?;
        }
        self.posts(&viewer, &heralds[3])
    }

    fn posts(&mut self, viewer: &str, author: &str) -> Result<(), String> {
        let path = format!("/users/{viewer}/feed/stream");
        let mut streams = self.open(&format!("{REQUEST_ID} {path}"));
        let is_last = |message: &Message| message.data["author"] == author;
        let mut last = [String::new(), String::new()];
        for _ in 0..2 {
            self.whispers(author)?;
            self.take(&Step::both(format!(r#"@{author} POST /posts {{"body": {{"text": "here"}}}}"#)))?;
            last = self.told(&mut streams, is_last)?;
        }
        drop(streams);
        // What happened meanwhile is told to whoever comes back.
        for _ in 0..2 {
            self.whispers(author)?;
            self.take(&Step::both(format!(r#"@{author} POST /posts {{"body": {{"text": "away"}}}}"#)))?;
        }
        let mut again = last.map(|last| format!("{REQUEST_ID} ^last-event-id={last} {path}")).into_iter();
        let mut streams = self.worlds.each_ref().map(|world| world.stream(&again.next().unwrap()));
        self.began(&path, &streams);
        self.told(&mut streams, is_last)?;
        self.told(&mut streams, is_last).map(|_| ())
    }

    /// In the first world alone: of no concern to the viewer, whoever listens.
    fn whispers(&mut self, herald: &str) -> Result<(), String> {
        const WHY: &str = "nobody is told of what is hidden from them";
        let (viewer, whisperer) = (self.cast.viewer.clone(), self.cast.heralds[2].clone());
        let mut lines: Vec<String> =
            self.cast.unread().iter().map(|author| format!(r#"@{author} POST /posts {{"body": {{}}}}"#)).collect();
        lines.push(format!("PUT /users/{whisperer}/mutes/{viewer}"));
        lines.push(format!(r#"PUT /users/{whisperer}/following/{herald} {{"quiet": true}}"#));
        if self.worlds[0].service(&format!("GET /users/{viewer}")).body["private"] == false {
            lines.push(format!(r#"PUT /users/{whisperer}/following/{viewer} {{"quiet": true}}"#));
            lines.push(format!("PUT /users/{whisperer}/following/{viewer}"));
        }
        self.take(&Step::apart(WHY, lines, vec![]))
    }

    fn open(&mut self, path: &str) -> [Stream; 2] {
        let streams = self.worlds.each_ref().map(|world| world.stream(path));
        self.began(path, &streams);
        streams
    }

    fn began(&mut self, path: &str, streams: &[Stream; 2]) {
        let [first, second] = streams.each_ref().map(|stream| {
            let is_time = |line: &&str| line.starts_with("date:") || line.starts_with("server-timing:");
            let headers: Vec<&str> = stream.headers.lines().filter(|line| !is_time(line)).collect();
            format!("{} {} {}", stream.status, headers.join("\n"), stream.problem)
        });
        self.compare("how a stream begins", path.to_owned(), &first, &second);
    }

    /// Everything up to a message that both have to get; the id of it in each.
    fn told(&mut self, streams: &mut [Stream; 2], is_last: impl Fn(&Message) -> bool) -> Result<[String; 2], String> {
        self.tick();
        let (mut shown, mut last) = (Vec::new(), Vec::new());
        for (index, stream) in streams.iter_mut().enumerate() {
            let mut messages = Vec::new();
            while !messages.last().is_some_and(&is_last) {
                messages.push(stream.next().ok_or("a stream ended")?);
            }
            planted::told(&self.worlds[index], &mut messages);
            last.push(messages.last().map(|message| message.id.clone()).unwrap_or_default());
            let sealed = &mut self.sealed[index];
            let line = |Message { id, name, data }: &Message| sealed.hide("event", &format!("{name} {id} {data}"));
            shown.push(messages.iter().map(line).collect::<Vec<_>>().join("\n"));
        }
        let (second, first) = (shown.pop().unwrap_or_default(), shown.pop().unwrap_or_default());
        self.compare("messages of a stream", "what comes next".to_owned(), &first, &second);
        last.try_into().map_err(|_| "two streams".to_owned())
    }
}

fn is_by(actors: &Value, id: &str) -> bool {
    actors.as_array().is_some_and(|actors| actors.iter().any(|actor| actor["id"] == id))
}
