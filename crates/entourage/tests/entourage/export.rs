//! `export` and back: what was written is what is there, in every format and packing.

use std::{fs, os::unix::fs::PermissionsExt};

use crate::import_kit::{exported, import, numbers};
use crate::server_kit::{Folder, Serving, check, run, text};

#[test]
fn an_imported_export_is_the_same_store() {
    let folder = Folder::new();
    let (data, source) = (folder.join("data"), folder.join("source.ndjson"));
    let mut lines = String::new();
    for user in 0..300 {
        let id = if user % 3 == 0 { format!("\"{user}\"") } else { format!("\"p, \\\"{user}\\\" é\"") };
        let flags = format!("\"private\":{},\"hide_lists\":{}", user % 7 == 0, user % 11 == 0);
        let name = if user % 5 == 0 { "null".to_owned() } else { format!("\"Name, {user}\"") };
        lines
            .push_str(&format!("{{\"id\":{id},\"name\":{name},{flags},\"registered_at\":{}}}\n", 1_500_000_000 + user));
        for other in 1..=12 {
            let target = (user + other * 17) % 300;
            let target = if target % 3 == 0 { format!("\"{target}\"") } else { format!("\"p, \\\"{target}\\\" é\"") };
            let time = 1_650_000_000_000u64 + user * 7_919 + other;
            lines.push_str(&format!(
                "{{\"follower\":{id},\"target\":{target},\"created_at\":{time},\"quiet\":{}}}\n",
                other % 6 == 0
            ));
        }
    }
    // Somebody who follows more than a page.
    for target in 0..2_500 {
        lines.push_str(&format!(
            "{{\"follower\":\"hub\",\"target\":\"t{target}\",\"created_at\":{}}}\n",
            1_600_000_000 + target
        ));
    }
    fs::write(&source, lines).unwrap();
    import(&data, &[text(&source)], 0);
    let (edges, users) = (exported(&data, "--edges"), exported(&data, "--users"));
    assert_eq!((edges.len(), users.len()), (300 * 12 + 2_500, 300 + 2_501));
    for (name, flags) in [("both.ndjson", vec![]), ("both.gz", vec!["--gzip"]), ("both.zst", vec!["--zstd"])] {
        let (file, back) = (folder.join(name), folder.join(&format!("{name}.data")));
        let arguments = ["export", "--format", "ndjson", "--json", "--data", text(&data), text(&file)];
        let report: serde_json::Value =
            serde_json::from_slice(&run(&[&arguments[..], &flags].concat()).stdout).unwrap();
        assert_eq!((&report["users"], &report["edges"]), (&users.len().into(), &edges.len().into()));
        let report = import(&back, &[text(&file)], 0);
        assert_eq!(numbers(&report, ["rejected", "users_added", "edges_created"]), [0, 0, edges.len() as u64]);
        assert_eq!((exported(&back, "--edges"), exported(&back, "--users")), (edges.clone(), users.clone()), "{name}");
    }
    assert_eq!(fs::metadata(folder.join("both.ndjson")).unwrap().permissions().mode() & 0o777, 0o600);
    let [user_file, edge_file, back] = ["users.csv", "edges.csv", "csv.data"].map(|name| folder.join(name));
    check(&["export", "--users", "--data", text(&data), text(&user_file)], 0, &["2801 users and 0 edges"], &[]);
    check(&["export", "--data", text(&data), text(&edge_file)], 0, &["0 users and 6100 edges"], &[]);
    import(&back, &[text(&user_file), text(&edge_file)], 0);
    assert_eq!((exported(&back, "--edges"), exported(&back, "--users")), (edges, users));
}

#[test]
fn exports_refuse_what_they_cannot_do() {
    let folder = Folder::new();
    let (data, missing) = (folder.join("data"), folder.join("missing"));
    check(&["export", "--data", text(&missing)], 3, &[], &["there is no folder"]);
    assert!(!missing.exists());
    let server = Serving::start(&data);
    check(&["export", "--data", text(&data)], 4, &[], &["a server is running"]);
    drop(server);
    check(&["export", "--users", "--edges", "--data", text(&data)], 2, &[], &["choose one"]);
    check(&["export", "--gzip", "--zstd", "--data", text(&data)], 2, &[], &["--zstd"]);
    check(&["export", "--data", text(&data), text(&folder.join("no/such/file"))], 1, &[], &["No such file"]);
    check(&["export", "--data", text(&data)], 0, &["follower,target,created_at,quiet"], &["0 edges"]);
}
