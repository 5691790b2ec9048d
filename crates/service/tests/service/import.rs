//! What an import does to a store, and what an export says of one, beside what the command does around them.

use entourage_testkit::service::import as import_kit;

use entourage_model::{Kind, Operation, State};
use entourage_service::import::Form;
use entourage_store::StoreExt as _;

use self::import_kit::Place;

fn follow(place: &Place, follower: &str, target: &str) -> Operation {
    let (follower, target) = (place.key(follower), place.key(target));
    Operation::Follow { follower, target, quiet: Some(false), cap: None, park: false }
}

#[tokio::test]
async fn who_waits_for_an_account_that_a_file_makes_public_follows_it() {
    let place = Place::default();
    place.import("id,private\nann,true\nbob,false\ncy,false\nkept,true\n", Form::default()).await;
    for (follower, target) in [("bob", "ann"), ("cy", "ann"), ("bob", "kept")] {
        place.commit(follow(&place, follower, target)).await;
    }
    let tally = place.import("id,name,private\nann,Ann,false\nkept,Kept,\n", Form::default()).await;
    assert_eq!((tally.users_updated, tally.rejected), (2, 0));
    let pairs = [("bob", "ann"), ("cy", "ann"), ("bob", "kept")].map(|(a, b)| (place.key(a), place.key(b)));
    let states: Vec<_> = place.store.get_edges(Kind::Follow, &pairs).await.unwrap();
    let states: Vec<State> = states.into_iter().flatten().map(|value| value.state).collect();
    assert_eq!(states, [State::Active, State::Active, State::Pending]);
    let counts = place.store.get_counts(place.key("ann")).await.unwrap().unwrap();
    assert_eq!((counts.requests, counts.followers), (0, 2));
}

#[tokio::test]
async fn an_id_that_is_being_erased_is_a_reject_and_is_not_exported() {
    let place = Place::default();
    place.import("follower,target\n1,2\n3,2\n2,3\nann,bob\n", Form::default()).await;
    for key in [place.key("2"), place.key("bob")] {
        place.commit(Operation::Erase { key, created: None }).await;
    }
    let edges = place.edges().await;
    assert!(edges.is_empty(), "{edges:?} would bring the erased back");
    let file = "follower,target\n1,2\n1,3\nbob,1\n";
    let (tally, rejects) = place.import_with_rejects(file, Form::default()).await;
    assert_eq!((tally.lines, tally.edges_created, tally.rejected), (3, 1, 2));
    assert_eq!(rejects.into_iter().collect::<Vec<_>>(), [(2, "being_erased".into()), (4, "being_erased".into())]);
    let (tally, rejects) = place.import_with_rejects("id,name\n2,Two\nann,Ann\n", Form::default()).await;
    assert_eq!((tally.users_updated, tally.rejected), (1, 1));
    assert_eq!(rejects[&2], "being_erased");
}

#[tokio::test]
async fn an_undirected_file_is_followed_both_ways() {
    let place = Place::default();
    let form = Form { undirected: true, ..Form::default() };
    let (tally, rejects) = place.import_with_rejects("1 2 1700000000\n2 1\n3 3\n1 3\n", form.clone()).await;
    let counts = (tally.lines, tally.edges_created, tally.edges_unchanged, tally.rejected);
    assert_eq!(counts, (4, 4, 2, 1));
    assert_eq!(rejects[&3], "self_follow");
    let edges: Vec<String> = place.edges().await.iter().map(|line| line[..23].to_owned()).collect();
    assert_eq!(edges.len(), 4);
    assert!(edges.contains(&"1,2,2023-11-14T22:13:20".to_owned()), "{edges:?}");
    assert!(edges.contains(&"2,1,2023-11-14T22:13:20".to_owned()), "{edges:?}");
    let again = place.import("1 2 1700000000\n2 1\n1 3\n", form).await;
    assert_eq!((again.edges_created, again.edges_unchanged), (0, 6));
}

#[tokio::test]
async fn a_mark_of_byte_order_is_part_of_an_id_behind_the_first_line() {
    let place = Place::default();
    place.import("\u{feff}id,name\nbom,One\n\u{feff}bom,Two\n", Form::default()).await;
    let keys = [place.key("bom"), place.key("\u{feff}bom")];
    let users = place.store.get_users(&keys).await.unwrap();
    let names: Vec<_> = users.into_iter().flatten().map(|user| user.name.unwrap()).collect();
    assert_eq!(names, ["One".into(), "Two".into()]);
}

#[tokio::test]
async fn times_that_cannot_be_are_rejects_or_clamped() {
    let place = Place::default();
    let file = "follower,target,created_at\n1,2,1700000000000000\n1,3,1999-01-01T00:00:00Z\n1,4,-9223372036854775808\n\
                1,5,7\n1,6,2024-01-01T00:00:00Z\n";
    let (tally, rejects) = place.import_with_rejects(file, Form::default()).await;
    assert_eq!((tally.edges_created, tally.rejected), (1, 4));
    let reasons: Vec<String> = rejects.into_values().collect();
    assert_eq!(reasons, ["time_in_future", "time_before_2000", "invalid_time", "invalid_time"]);
    let clamped = Form { clamps_times: true, ..Form::default() };
    let (tally, rejects) = place.import_with_rejects(file, clamped).await;
    assert_eq!((tally.edges_created, tally.edges_unchanged, tally.rejected), (2, 1, 2));
    assert_eq!(rejects.into_values().collect::<Vec<_>>(), ["invalid_time", "invalid_time"]);
    assert!(place.edges().await.contains(&"1,3,2000-01-01T00:00:00.000Z,false".to_owned()));
}
