//! The real binary on a small disk that fills up: writes are refused with the reason, reads go on, and writes come back
//! with the space. The disk is a tmpfs, which takes root to mount.

use std::{
    fs::File,
    io::{ErrorKind, Write},
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use crate::server_kit::{Client, Folder, Heard, Serving, check, command, text};

/// A disk of its own, gone with the test however that ends.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: PathBuf, size: &str) -> Self {
        std::fs::create_dir(&at).unwrap();
        let options = format!("size={size},mode=700");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs", text(&at)]).output().unwrap();
        assert!(mounted.status.success(), "a tmpfs cannot be mounted; run this as root: {mounted:?}");
        Self(at)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(&self.0).status();
        if !unmounted.is_ok_and(|status| status.success()) {
            let _ = Command::new("umount").arg("-l").arg(&self.0).status();
        }
    }
}

/// Takes whatever space is left.
fn fill(path: &Path) {
    let mut file = File::create(path).unwrap();
    for chunk in [64 << 10, 4 << 10] {
        let zeros = vec![0; chunk];
        loop {
            match file.write_all(&zeros) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::StorageFull => break,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// A user as large as one may be: the log is soon full.
fn put_large(client: &Client, number: usize) -> Heard {
    let picture = format!("https://example.org/{}", "p".repeat(2_000));
    let body = serde_json::json!({ "name": "n".repeat(500), "avatar_url": picture }).to_string();
    client.ask("PUT", &format!("/api/v1/users/u{number}"), &body).unwrap()
}

fn write_until_full(client: &Client, next: &mut usize) -> Heard {
    for _ in 0..5_000 {
        let heard = put_large(client, *next);
        if heard.status != 201 {
            return heard;
        }
        *next += 1;
    }
    panic!("the disk never was full");
}

#[test]
fn a_full_disk_refuses_writes_until_there_is_space() {
    let folder = Folder::new();
    let disk = SmallDisk::mount(folder.join("disk"), "6m");
    let (data, ballast) = (disk.0.join("data"), disk.0.join("ballast"));
    let start = || {
        let mut command = command(&["serve", "--http", "127.0.0.1:0", "--data", text(&data)]);
        Serving::start_as(command.env("ENTOURAGE_LOG__SEGMENT_BYTES", "256KiB"))
    };
    let mut server = start();
    let mut next = 0;
    for round in 0..3 {
        let client = Client::new(&server.base);
        assert_eq!(put_large(&client, next).status, 201);
        next += 1;
        fill(&ballast);
        let heard = write_until_full(&client, &mut next);
        assert_eq!((heard.status, heard.code()), (503, "storage_full"), "{heard:?}");
        assert!(heard.retry_after.is_some(), "{heard:?}");
        assert_eq!(put_large(&client, next).code(), "storage_full");
        assert_eq!(client.get("/api/v1/users/u0").status, 200);
        assert_eq!(client.get("/api/v1/events?limit=5").status, 200);
        assert_eq!(client.get("/healthz").status, 200);
        let ready = client.get("/readyz");
        assert_eq!((ready.status, &ready.body["status"]), (503, &"degraded".into()), "{ready:?}");
        assert!(ready.body["reason"].as_str().unwrap().contains("storage full"), "{ready:?}");
        if round == 1 {
            // A full disk is no reason not to stop well, nor not to start and to answer.
            server.signal("-TERM");
            assert_eq!(server.wait().0, Some(0));
            server = start();
            assert_eq!(Client::new(&server.base).get("/api/v1/users/u0").status, 200);
        }
        let client = Client::new(&server.base);
        std::fs::remove_file(&ballast).unwrap();
        let freed = Instant::now();
        while put_large(&client, next).status != 201 {
            assert!(freed.elapsed() < Duration::from_secs(10), "there is space and writes are refused");
            std::thread::sleep(Duration::from_millis(20));
        }
        next += 1;
        println!(
            "round {round}: {next} users, a write is taken {} ms after there is space",
            freed.elapsed().as_millis()
        );
        assert_eq!(client.get("/readyz").status, 200);
    }
    drop(server);
    check(&["verify", "--data", text(&data)], 0, &["clean: ", &format!("{next} users")], &[]);
}
