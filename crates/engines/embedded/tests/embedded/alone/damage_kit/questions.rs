//! Everything that can be asked of a store, one question at a time: damage may cost an answer, and only that one.

use entourage_model::{Error, Event, Key, Kind, List, Place, Plane, Result, Sequence, Side, Space};
use entourage_store::{Store, StoreExt as _};

use super::world::USERS;

const PAGE: usize = 40;

/// What was asked, and what was said.
pub(crate) type Answers = Vec<(String, Result<String, String>)>;

pub(crate) async fn ask(store: &dyn Store) -> Answers {
    let mut answers = Answers::new();
    let mut note = |question: String, answer: Result<String>| {
        answers.push((question, answer.map_err(|error| error.detail().to_owned())));
    };
    note("users".into(), store.sweep_all().await.map(|users| format!("{users:?}")));
    for number in 0..USERS {
        let user = Key(number);
        note(format!("counts of {number}"), store.get_counts(user).await.map(|counts| format!("{counts:?}")));
        for list in Plane::ALL.into_iter().flat_map(|plane| Side::BOTH.map(|side| List::new(user, plane, side))) {
            for list in [list, list.open()] {
                note(format!("{list:?}"), whole(store, list).await);
                note(
                    format!("{list:?} from the oldest"),
                    store.scan_up(list, None, 1_000).await.map(|p| format!("{p:?}")),
                );
            }
        }
        for kind in Kind::ALL {
            let pairs: Vec<(Key, Key)> = (0..USERS).map(|other| (user, Key(other))).collect();
            let edges = store.get_edges(kind, &pairs).await.map(|edges| format!("{edges:?}"));
            note(format!("{kind:?} edges of {number}"), edges);
            let checks: Vec<_> = pairs.iter().map(|&(one, other)| store.peek(kind, one, other)).collect();
            note(format!("{kind:?} checks of {number}"), Ok(format!("{checks:?}")));
        }
        note(format!("history of {number}"), store.scan_history(user, None, 1_000).await.map(|h| format!("{h:?}")));
    }
    for owner in (0..USERS).map(Key).chain([Key::SERVER]) {
        for space in Space::ALL {
            let records = store.scan_records(space, owner, None, usize::MAX).await;
            let count = store.count_records(space, owner).await;
            note(format!("{space:?} of {owner}"), records.and_then(|records| Ok(format!("{} {records:?}", count?))));
        }
    }
    events(store, &mut note).await;
    answers
}

async fn whole(store: &dyn Store, list: List) -> Result<String> {
    let (mut text, mut after): (String, Option<Place>) = (String::new(), None);
    loop {
        let page = store.scan(list, after, 7).await?;
        text.push_str(&format!("{page:?}"));
        after = page.edges.last().map(|edge| list.place(edge));
        if !page.more {
            return Ok(text);
        }
    }
}

/// From several places on, as consumers that come back have them: every event, each once, none left out.
async fn events(store: &dyn Store, note: &mut impl FnMut(String, Result<String>)) {
    let last = store.last_event(0).await;
    let end = last.as_ref().map_or(0, |last| last.0);
    note("last event".into(), last.map(|last| last.to_string()));
    for start in (0..=end).step_by(53) {
        let mut page = store.events_after(Sequence(start), PAGE).await;
        let is_gapless =
            |events: &Vec<Event>| (start + 1..).zip(events).all(|(wanted, e)| e.sequence == Sequence(wanted));
        if page.as_ref().is_ok_and(|events| !is_gapless(events)) {
            page = Err(Error::internal("the events have a gap"));
        }
        note(format!("events after {start}"), page.map(|events| format!("{events:?}")));
    }
}
