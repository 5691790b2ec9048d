//! Compares the lists with the edges, and the events with themselves.

use std::collections::HashSet;

use entourage_model::{Event, Plane, Side};

use super::Graph;
use crate::Report;

pub(super) fn verify(graph: &Graph, events: &[Event]) -> Report {
    let mut report = Report { events: events.len() as u64, ..Report::default() };
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
    for (index, event) in events.iter().enumerate() {
        if event.sequence.0 != index as u64 + 1 {
            report.problem("events", format!("sequence {} stands at place {}", event.sequence, index + 1));
        }
    }
    report
}
