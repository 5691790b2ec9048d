//! Cursors that were cut, changed or made for another list, user or viewer; limits that are none.

use super::{Ground, Sample};

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// A list with the parameter that its cursor goes into, and a cursor of its second page.
struct Paged {
    sample: Sample,
    parameter: &'static str,
    cursor: String,
}

impl Paged {
    fn with(&self, cursor: &str) -> String {
        format!("{}GET {}?{}={cursor}", self.sample.head, self.sample.path, self.parameter)
    }
}

fn paged(ground: &Ground) -> Vec<Paged> {
    let lists = ground.samples().filter_map(|sample| {
        let parameter = sample.query_names().find(|name| ["cursor", "after"].contains(name))?;
        (!sample.path.ends_with("/stream")).then_some((sample, parameter))
    });
    let paged = lists.map(|(sample, parameter)| {
        let reply = ground.server.check(&format!("{}GET {}?limit=1", sample.head, sample.path), "200 {}");
        let cursor = reply.body["next_cursor"].as_str();
        let cursor = cursor.unwrap_or_else(|| panic!("{} has one page only: {}", sample.id, reply.text)).to_owned();
        Paged { sample, parameter, cursor }
    });
    let paged: Vec<_> = paged.collect();
    assert!(paged.len() >= 14, "{}", paged.len());
    paged
}

#[test]
fn a_cursor_that_was_cut_or_changed_is_none() {
    let ground = Ground::new();
    let mut table = Vec::new();
    for list in paged(&ground) {
        ground.server.check(&list.with(&list.cursor), "200");
        for end in 0..list.cursor.len() {
            table.push(list.with(&list.cursor[..end]));
        }
        for (at, letter) in list.cursor.bytes().enumerate() {
            let number = LETTERS.iter().position(|each| *each == letter).unwrap();
            let changed = char::from(LETTERS[number ^ (1 << (at % 6))]);
            table.push(list.with(&format!("{}{changed}{}", &list.cursor[..at], &list.cursor[at + 1..])));
        }
        for more in ["A", "=", "AAAA", "%00", "%20", "."] {
            table.push(list.with(&format!("{}{more}", list.cursor)));
        }
        for other in ["x", "0", "%F0%9F%98%80", "null", "..%2F..", &"A".repeat(4_000)] {
            table.push(list.with(other));
        }
    }
    ground.refuses(table.into_iter().map(|request| (request, "400 invalid_cursor".to_owned())));
}

#[test]
fn a_cursor_is_good_for_its_own_list_alone() {
    let ground = Ground::new();
    let (lists, mut table) = (paged(&ground), Vec::new());
    for list in &lists {
        for other in lists.iter().filter(|other| other.sample.id != list.sample.id) {
            table.push(list.with(&other.cursor));
        }
    }
    ground.refuses(table.into_iter().map(|request| (request, "400 invalid_cursor".to_owned())));
}

#[test]
fn a_cursor_is_good_for_its_own_user_and_viewer_alone() {
    let ground = Ground::new();
    let mut table = Vec::new();
    for list in paged(&ground).iter().filter(|list| list.sample.path.contains("/own/")) {
        // A group belongs to its owner, so that another owner has none of this id.
        if ["list_members", "get_group_feed"].contains(&list.sample.id) {
            continue;
        }
        table.push((list.with(&list.cursor).replace("/own/", "/x1/"), "400 invalid_cursor".to_owned()));
        if list.sample.head.is_empty() {
            let viewer = format!("@own {}", list.with(&list.cursor));
            // What is for admins no user asks, with whatever cursor.
            let is_admins = list.sample.path.starts_with("/admin/");
            table.push((viewer, if is_admins { "403 forbidden" } else { "400 invalid_cursor" }.to_owned()));
        }
    }
    ground.refuses(table);
}

#[test]
fn every_limit_is_from_one_to_two_hundred() {
    let ground = Ground::new();
    let mut table = Vec::new();
    let mut lists = 0;
    for sample in ground.samples().filter(|sample| sample.query_names().any(|name| name == "limit")) {
        lists += 1;
        let ask = |limit: &str| format!("{}GET {}?limit={limit}", sample.head, sample.path);
        for limit in ["0", "201", "-1", "text", "", "1.5", "1e2", "0x10", "99999999999999999999", "%2010", "10%00"] {
            table.push((ask(limit), "400 invalid_request /limit".to_owned()));
        }
        table.push((ask("%D9%A1"), "400 invalid_request /limit".to_owned()));
        table.push((ask("1&limit=2"), "400 invalid_request /limit".to_owned()));
        // There are at most fifty suggestions.
        let most = if sample.path.ends_with("/suggestions") { 50 } else { 200 };
        table.push((ask(&(most + 1).to_string()), "400 invalid_request /limit".to_owned()));
        for limit in ["1".to_owned(), most.to_string()] {
            ground.server.check(&ask(&limit), "200");
        }
    }
    assert!(lists >= 14, "{lists}");
    ground.refuses(table);
}
