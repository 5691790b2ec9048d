//! Compares the lists with the edges, and the events with themselves.

use std::collections::{BTreeMap, HashSet};

use entourage_model::{Event, ExternalId, Plane, RecordId, Side, Space, external_post, post_author_value};

use super::Graph;
use entourage_store::Report;

pub(crate) fn verify<'a>(graph: &Graph, events: impl Iterator<Item = &'a Event> + Clone) -> Report {
    let mut report =
        Report { events: events.clone().filter(|event| event.is_public()).count() as u64, ..Report::default() };
    report.users = graph.users_above(None).count() as u64;
    let mut expected = HashSet::new();
    for edge in graph.edges() {
        report.edges += 1;
        let Some(plane) = Plane::of(edge.kind, edge.value.state) else { continue };
        expected.insert((edge.follower, plane, Side::Following, edge.target, edge.value.position));
        expected.insert((edge.target, plane, Side::Followers, edge.follower, edge.value.position));
    }
    for (list, place) in graph.rows() {
        if !expected.remove(&(list.user, list.plane, list.side, place.key, place.position)) {
            report.problem("mirror", format!("{list:?} shows {place:?} without an edge"));
        }
    }
    for missing in expected {
        report.problem("mirror", format!("no list shows {missing:?}"));
    }
    for (list, counted, listed) in graph.documents().lists() {
        report.records += listed;
        if counted != listed {
            report.problem("record", format!("{list:?} counts {counted} records and has {listed}"));
        }
    }
    posts(graph, &mut report);
    external_ids(graph, &mut report);
    for (index, event) in events.enumerate() {
        if event.sequence.0 != index as u64 + 1 {
            report.problem("events", format!("sequence {} stands at place {}", event.sequence, index + 1));
        }
    }
    report
}

/// Every post has the record of its author, and there is none without its post.
fn posts(graph: &Graph, report: &mut Report) {
    let documents = graph.documents();
    let servers =
        documents.lists().filter(|((_, space), ..)| *space == Space::PostAuthor).map(|((owner, _), ..)| owner);
    let mut authors: BTreeMap<RecordId, Box<[u8]>> = servers
        .flat_map(|server| documents.scan(Space::PostAuthor, server, None))
        .map(|record| (record.id, record.value))
        .collect();
    for ((owner, space), ..) in documents.lists() {
        for post in documents.scan(Space::Post, owner, None).filter(|_| space == Space::Post) {
            let found = post.id.version().and_then(|post| authors.remove(&RecordId::of_post_author(post)));
            if found.is_none_or(|found| found != post_author_value(owner)) {
                report.problem("post", format!("{:?} of {owner} is not found by its id", post.id));
            }
        }
    }
    for id in authors.into_keys() {
        report.problem("post", format!("{id:?} leads to no post"));
    }
}

/// Every external id leads to the post that has it, and there are no other such records. Erased users have none.
fn external_ids(graph: &Graph, report: &mut Report) {
    let documents = graph.documents();
    let (mut named, mut leading) = (BTreeMap::new(), BTreeMap::new());
    for ((owner, space), ..) in documents.lists().filter(|((owner, _), ..)| graph.has_user(*owner)) {
        for record in documents.scan(space, owner, None) {
            match space {
                Space::Post => {
                    let name = ExternalId::of_post(&record.value).map(|name| (owner, name.record_id()));
                    named.extend(name.zip(record.id.version()));
                }
                Space::PostExternal => {
                    leading.extend(external_post(&record.value).ok().map(|post| ((owner, record.id), post)));
                }
                _ => {}
            }
        }
    }
    if named != leading {
        report.problem("post", format!("external ids are of {named:?}; by their records of {leading:?}"));
    }
}
