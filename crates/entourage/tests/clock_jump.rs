//! The real binary on a machine whose clock jumps by an hour between starts: versions go on rising, nothing is lost.
//! `libfaketime` moves the clock.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests fail as tests do"
)]

mod server_kit;

use std::path::PathBuf;

use server_kit::{Client, Folder, Serving, check, command, text};

fn libfaketime() -> PathBuf {
    let folders = std::fs::read_dir("/usr/lib").unwrap().map(|entry| entry.unwrap().path());
    let mut found = folders.map(|folder| folder.join("faketime/libfaketimeMT.so.1")).filter(|path| path.exists());
    found.next().expect("libfaketime is needed; install the package faketime")
}

#[test]
fn versions_rise_whatever_the_clock_does() {
    let library = libfaketime();
    let folder = Folder::new();
    let data = folder.join("data");
    let (mut versions, mut times) = (Vec::<u64>::new(), Vec::new());
    for (round, jump) in ["+0", "-1h", "+1h", "+0", "-1h", "+2h"].into_iter().enumerate() {
        let mut command = command(&["serve", "--http", "127.0.0.1:0", "--data", text(&data)]);
        command.env("LD_PRELOAD", &library).env("FAKETIME", jump).env("DONT_FAKE_MONOTONIC", "1");
        command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        let mut server = Serving::start_as(&mut command);
        let client = Client::new(&server.base);
        for number in 0..20 {
            let heard = client.put_user(&format!("u{round}-{number}"), "somebody").unwrap();
            assert_eq!(heard.status, 201, "{heard:?}");
            versions.push(heard.body["version"].as_str().unwrap().parse().unwrap());
        }
        for earlier in 0..=round {
            for number in 0..20 {
                assert_eq!(client.get(&format!("/api/v1/users/u{earlier}-{number}")).status, 200);
            }
        }
        let newest = client.get(&format!("/api/v1/users/u{round}-19"));
        times.push(newest.body["created_at"].as_str().unwrap().to_owned());
        // A clean stop and a kill recover by different ways.
        if round % 2 == 0 {
            server.kill();
        } else {
            server.signal("-TERM");
            assert_eq!(server.wait().0, Some(0));
        }
    }
    println!("times given: {times:?}");
    assert!(versions.is_sorted_by(|earlier, later| earlier < later), "{versions:?}");
    let hour = |text: &str| text[..13].to_owned();
    assert_ne!(hour(&times[1]), hour(&times[2]), "the clock did not jump: {times:?}");
    assert_ne!(hour(&times[4]), hour(&times[5]), "the clock did not jump: {times:?}");
    check(&["verify", "--data", text(&data)], 0, &["clean: 120 users"], &[]);
}
