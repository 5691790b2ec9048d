//! The real binary killed in the middle of concurrent writes, again and again: whatever it acked is there afterwards.
//! `ENTOURAGE_SOAK=1` kills it 2,000 times instead of 100; `ENTOURAGE_SEED` repeats a run's choices.

use std::{
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use crate::kill_kit::{Clients, acked_over_resp, judge, open, users_of};
use crate::server_kit::{Folder, Serving, check, command, text};
use entourage_testkit::conformance::history::{Ending, Record};
use rand::{RngExt, SeedableRng, rngs::StdRng};

/// Each has users of its own, so that no edge has too long a history.
const EPOCHS: usize = 10;
const CLIENTS: usize = 12;

fn is_soak() -> bool {
    std::env::var_os("ENTOURAGE_SOAK").is_some_and(|value| value == "1")
}

fn seed() -> u64 {
    std::env::var("ENTOURAGE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or_else(rand::random)
}

/// Small segments and few entries: rotations and checkpoints are under way when the process dies.
fn serving(data: &Path) -> Command {
    let mut command = command(&["serve", "--http", "127.0.0.1:0", "--data", text(data)]);
    command.env("ENTOURAGE_LOG__SEGMENT_BYTES", "64KiB").env("ENTOURAGE_CHECKPOINT__ENTRIES", "300");
    command
}

fn serve(data: &Path) -> Serving {
    Serving::start_as(&mut serving(data))
}

fn acked(records: &[Record]) -> usize {
    records.iter().filter(|record| matches!(record.ending, Ending::Ok { .. })).count()
}

#[test]
fn nothing_acked_is_lost_by_killing_the_process() {
    let (kills, seed) = (if is_soak() { 2_000 } else { 100 }, seed());
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let folder = Folder::new();
    let data = folder.join("data");
    let (mut records, mut restarts, mut killed, mut rounds_over_resp) = (Vec::new(), Vec::new(), 0, 0);
    let mut clients = Clients::new(CLIENTS, seed);
    let began = Instant::now();
    for epoch in 0..EPOCHS {
        let users = users_of(epoch);
        for _ in 0..kills / EPOCHS {
            if random.random_bool(0.2) {
                // During recovery, too.
                Serving::start_and_kill(&mut serving(&data), Duration::from_millis(random.random_range(0..40)));
                killed += 1;
            }
            let mut server = serve(&data);
            restarts.push(server.started_in);
            assert_eq!(clients.find_names(&server.base), Vec::<String>::new(), "seed {seed}, after {killed} kills");
            clients.make_users(&server.base, &users);
            let life = Duration::from_millis(random.random_range(5..=150));
            let heard = clients.drive(&mut server, &users, |server| {
                std::thread::sleep(life);
                server.kill();
            });
            rounds_over_resp += usize::from(acked_over_resp(&heard) > 0);
            records.extend(heard);
            killed += 1;
        }
        // Also what a clean stop leaves: every other epoch begins from a checkpoint of everything.
        let problems = judge(&data, &records, epoch % 2 == 0);
        assert_eq!(problems, Vec::<String>::new(), "seed {seed}, after {killed} kills");
    }
    let server = serve(&data);
    assert_eq!(clients.find_names(&server.base), Vec::<String>::new(), "seed {seed}");
    drop(server);
    check(&["verify", "--data", text(&data)], 0, &["clean"], &[]);
    restarts.sort_unstable();
    let (checkpoints, segments) = (newest(&data, "checkpoint-"), newest(&data, "log-"));
    println!(
        "{killed} kills in {:.1} s; {} requests acked ({} over RESP, in {rounds_over_resp} rounds), 0 lost, {} without an answer; users written {} times; \
         {checkpoints} checkpoints, {segments} segments; a restart takes {} ms in the middle, {} ms at most",
        began.elapsed().as_secs_f64(),
        acked(&records),
        acked_over_resp(&records),
        records.iter().filter(|record| record.ending == Ending::Info).count(),
        clients.names_acked(),
        restarts[restarts.len() / 2].as_millis(),
        restarts.last().unwrap().as_millis(),
    );
    assert!(checkpoints > EPOCHS as u64 && segments > 3, "no file was being made when the process died");
    assert!(acked(&records) > killed * 10, "too little happened between the kills to mean anything");
    assert!(acked_over_resp(&records) > killed * 5, "too little was acked over RESP to mean anything");
    // A server may be killed before it has answered anybody.
    assert!(rounds_over_resp > restarts.len() * 3 / 4, "{rounds_over_resp} of {} rounds", restarts.len());
}

/// The number of the newest file of its kind.
fn newest(data: &Path, prefix: &str) -> u64 {
    let names = std::fs::read_dir(data).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let number = |name: String| name.strip_prefix(prefix)?.trim_end_matches(".segment").parse().ok();
    names.filter_map(number).max().unwrap()
}

/// The same judgement finds a loss when there is one: the log is cut behind the back of the store.
#[test]
fn a_lost_write_is_noticed() {
    let folder = Folder::new();
    let data = folder.join("data");
    let mut server = Serving::start(&data);
    let (mut clients, users) = (Clients::new(4, 7), users_of(0));
    assert_eq!(clients.find_names(&server.base), Vec::<String>::new());
    server.kill();
    let older = folder.join("older");
    copy(&data, &older);
    let mut server = Serving::start(&data);
    clients.make_users(&server.base, &users);
    let records = clients.drive(&mut server, &users, |server| {
        std::thread::sleep(Duration::from_millis(300));
        server.kill();
    });
    assert_eq!(judge(&data, &records, false), Vec::<String>::new());
    let mut invented = records.clone();
    let unheard = invented.iter_mut().find(|record| matches!(record.ending, Ending::Ok { changed: false, .. }));
    unheard.unwrap().ending = Ending::Ok { changed: true, version: None, watermark: None };
    assert!(!judge(&data, &invented, false).is_empty(), "a change that was never made was believed");
    // Damage to a part of it would be refused; of a whole folder nobody can tell that it is an older one.
    std::fs::remove_dir_all(&data).unwrap();
    copy(&older, &data);
    assert!(!judge(&data, &records, false).is_empty(), "the log lost its end and nobody noticed");
    let server = Serving::start(&data);
    assert!(!clients.find_names(&server.base).is_empty(), "users lost their names and nobody noticed");
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

#[test]
fn stopping_on_a_signal_under_load_ends_well_and_loses_nothing() {
    let folder = Folder::new();
    let data = folder.join("data");
    let (mut clients, users) = (Clients::new(CLIENTS, 3), users_of(0));
    let mut records = Vec::new();
    for _ in 0..5 {
        let mut server = serve(&data);
        assert_eq!(clients.find_names(&server.base), Vec::<String>::new());
        clients.make_users(&server.base, &users);
        let mut ended = None;
        records.extend(clients.drive(&mut server, &users, |server| {
            std::thread::sleep(Duration::from_millis(200));
            server.signal("-TERM");
            ended = Some(server.wait());
        }));
        let (code, said) = ended.unwrap();
        assert_eq!(code, Some(0), "{said}");
    }
    assert_eq!(judge(&data, &records, false), Vec::<String>::new());
    drop(open(&data));
    check(&["verify", "--data", text(&data)], 0, &["clean"], &[]);
    assert!(acked(&records) > 100);
}
