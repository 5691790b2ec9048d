//! `suggest` and `import --suggestions` as a person runs them.

use std::fs;

use crate::import_kit::{import, numbers, verify};
use crate::server_kit::{Folder, Serving, check, run, text};

fn ids(base: &str, more: &[&str]) -> Vec<String> {
    let output = run(&[&["suggest", "alice", "--json", "--server", base], more].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    answer["data"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn suggestions_are_shown_imported_and_dismissed() {
    let folder = Folder::new();
    let (data, edges, scores) = (folder.join("data"), folder.join("edges.csv"), folder.join("scores.csv"));
    let follows = "follower,target,created_at\nalice,bob,1700000000\nalice,carol,1700000001\nbob,dave,\ncarol,dave,\n\
                   bob,erin,\nfrank,alice,\n";
    fs::write(&edges, follows).unwrap();
    import(&data, &[text(&edges)], 0);
    fs::write(&scores, "alice,gina,0.5\nalice,frank,2\nalice,alice,1\nalice,dave,9\n").unwrap();
    import(&data, &["--suggestions", text(&scores), "--dry-run"], 0);
    // Nobody is made by a file of suggestions.
    let names = ["lines", "suggestions_created", "rejected", "users_added"];
    assert_eq!(numbers(&import(&data, &["--suggestions", text(&scores)], 0), names), [4, 2, 2, 0]);
    fs::write(&scores, "{\"user\": \"alice\", \"suggested\": \"frank\", \"score\": 3}\n").unwrap();
    let report = import(&data, &["--suggestions", text(&scores)], 0);
    assert_eq!(numbers(&report, ["lines", "suggestions_updated", "rejected"]), [1, 1, 0]);
    assert_eq!(verify(&data)["clean"], true);
    let server = Serving::start(&data);
    let base = ["--server", &server.base];
    assert_eq!(ids(&server.base, &[]), ["dave", "erin", "frank"]);
    assert_eq!(ids(&server.base, &["--limit", "1", "--ranker", "recent"]), ["dave"]);
    let asked = [&["suggest", "alice"][..], &base].concat();
    check(&asked, 0, &["WHY", "followed by carol and bob", "followed by bob", "from an imported list"], &[]);
    check(&[&asked[..], &["--dismiss", "dave"]].concat(), 0, &["dismissed", "true"], &[]);
    assert_eq!(ids(&server.base, &[]), ["erin", "frank"]);
    check(&[&["suggest", "nobody"][..], &base].concat(), 3, &[], &["no user"]);
    check(&[&asked[..], &["--ranker", "best"]].concat(), 2, &[], &["adamic_adar"]);
}
