//! Server-sent events, read line by line.

use std::io::BufRead;

/// One event; fields that were not sent are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) data: String,
}

/// The next event; `None` where the stream ends. Comments, which keep connections alive, are passed over, and so is an
/// event that was cut off.
pub(super) fn next(lines: &mut impl BufRead) -> std::io::Result<Option<Event>> {
    let (mut event, mut is_begun, mut line) = (Event::default(), false, String::new());
    loop {
        line.clear();
        if lines.read_line(&mut line)? == 0 || !line.ends_with('\n') {
            return Ok(None);
        }
        let text = line.trim_end_matches(['\r', '\n']);
        if text.is_empty() && is_begun {
            return Ok(Some(event));
        }
        let (field, value) = text.split_once(':').unwrap_or((text, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => event.id = value.to_owned(),
            "event" => event.name = value.to_owned(),
            "data" if event.data.is_empty() => event.data = value.to_owned(),
            "data" => event.data = format!("{}\n{value}", event.data),
            _ => continue,
        }
        is_begun = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(id: &str, name: &str, data: &str) -> Event {
        Event { id: id.to_owned(), name: name.to_owned(), data: data.to_owned() }
    }

    #[test]
    fn events_are_read_one_by_one() {
        let mut lines =
            &b":\n\nid: a\nevent: post\ndata: {\"n\":1}\n\n: still here\n\ndata:x\r\ndata: y:z\r\n\r\nid: cut"[..];
        let mut found = Vec::new();
        while let Some(event) = next(&mut lines).unwrap() {
            found.push(event);
        }
        assert_eq!(found, [event("a", "post", "{\"n\":1}"), event("", "", "x\ny:z")]);
    }
}
