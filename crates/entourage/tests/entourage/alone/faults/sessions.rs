//! What others do in the same PostgreSQL: transactions that stay open, locks, ended sessions; and a pool that is too small.

use std::time::{Duration, Instant};

use super::{
    DEADLINE, Fault, Run, is_write, lasting,
    load::{bystander, hot, is_hot},
    world::World,
};
use crate::cluster_kit::{follow, wait_for};

const PATIENCE: Duration = Duration::from_secs(30);
const END_SESSIONS: &str = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
    WHERE application_name LIKE 'entourage %'";
/// Advisory locks that commits share: those of users' records.
const SHARED: &str = "SELECT (classid::bigint << 32) | objid::bigint FROM pg_locks JOIN pg_stat_activity USING (pid) \
    WHERE locktype = 'advisory' AND mode = 'ShareLock' AND granted AND application_name LIKE 'entourage %'";
const READERS: usize = 32;
const READS: usize = 20;

pub(super) fn open_elsewhere() -> Fault {
    Fault::new("transaction open in another database", "nobody notices")
        .prepare(|world, _| drop(world.query("CREATE DATABASE elsewhere")))
        .inject(|run| {
            let write = "CREATE TABLE IF NOT EXISTS held (number int); BEGIN; INSERT INTO held VALUES (1)";
            run.world.hold("elsewhere", write);
        })
        .lasts(lasting(4, 30))
        .heal(|run| run.world.release())
}

/// Takes the record locks of a follow of the hot user, as they are seen while one waits for a table.
fn lock_hot(world: &World, run: u64) -> Vec<String> {
    let client = world.client(0);
    let (fan, star) = (bystander(run, 1).to_string(), hot(run).to_string());
    assert_eq!(follow(&client, &fan, &star).0, 201);
    let gone = client.ask("DELETE", &format!("/api/v1/users/{fan}/following/{star}"), "").expect("an answer");
    assert_eq!(gone.status, 200);
    world.hold("postgres", "BEGIN; LOCK TABLE entourage.edges IN EXCLUSIVE MODE");
    let waiting = std::thread::spawn(move || follow(&client, &fan, &star).0);
    let mut before = Vec::new();
    let (locks, _) = wait_for("the follow has its locks", PATIENCE, || {
        // Those of other commits come and go.
        let now = world.query(SHARED);
        let stay: Vec<String> = now.iter().filter(|lock| before.contains(*lock)).cloned().collect();
        before = now;
        (stay.len() >= 2).then_some(stay)
    });
    world.release();
    assert_eq!(waiting.join().unwrap(), 201);
    locks
}

pub(super) fn hot_lock() -> Fault {
    let locks = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let seen = std::rc::Rc::clone(&locks);
    Fault::new(
        "lock held on a hot user",
        "writes to that user are 503 in 10 s; no other write and no read is refused; back in 10 s, nothing lost",
    )
    .refuses(DEADLINE, |refusal| is_write(refusal) && is_hot(refusal.edge))
    .prepare(move |world, run| *locks.borrow_mut() = lock_hot(world, run))
    .inject(move |run| {
        let take: Vec<String> =
            seen.borrow().iter().map(|number| format!("SELECT pg_advisory_xact_lock({number})")).collect();
        run.world.hold("postgres", &format!("BEGIN; {}", take.join("; ")));
    })
    .lasts(Duration::from_secs(8))
    .heal(|run| run.world.release())
}

pub(super) fn terminated() -> Fault {
    let mut fault = Fault::new(
        "pg_terminate_backend in a loop",
        "no breaker opens, writes go on; what is refused is 503 in 10 s; nothing lost",
    )
    .refuses(DEADLINE, |_| true)
    .inject(|run| {
        let (began, before, trips) = (Instant::now(), acked(run), run.world.breaker_trips());
        let (mut ended, mut away) = (0, 0);
        while began.elapsed() < lasting(5, 20) {
            std::thread::sleep(Duration::from_millis(60));
            ended += run.world.query(END_SESSIONS)[0].parse::<usize>().unwrap();
            away += run.world.open_breakers();
        }
        let acked = acked(run) - before;
        run.check(ended > 20, || format!("only {ended} sessions were ended"));
        run.check(acked > 20, || format!("only {acked} writes were acked meanwhile"));
        let trips = run.world.breaker_trips() - trips;
        run.check(trips == 0, || format!("a breaker opened {trips} times"));
        run.check(away == 0, || format!("a breaker was said to be open {away} times, and opened {trips} times"));
        run.note(format!("{ended} sessions ended, {acked} acked meanwhile"));
    });
    fault.allowed.is_noticed = false;
    fault
}

fn acked(run: &Run<'_>) -> usize {
    (0..2).map(|server| run.load.acked_by(server)).sum()
}

/// Readers of lists, which memory does not hold, beside the load.
pub(super) fn pool_of_one() -> Fault {
    Fault::new("pool of 1", "everybody is answered in turn, within 10 s").inject(|run| {
        let bases = run.world.bases();
        let path = format!("/api/v1/users/{}/followers?limit=10", hot(run.number));
        let answers: Vec<(u16, Duration)> = std::thread::scope(|scope| {
            let ask = |reader: usize| {
                let client = crate::server_kit::Client::new(&bases[reader % bases.len()]);
                let path = &path;
                scope.spawn(move || {
                    let ask = |_| {
                        let began = Instant::now();
                        (client.ask("GET", path, "").map_or(0, |heard| heard.status), began.elapsed())
                    };
                    (0..READS).map(ask).collect::<Vec<_>>()
                })
            };
            let readers: Vec<_> = (0..READERS).map(ask).collect();
            readers.into_iter().flat_map(|reader| reader.join().expect("a reader ends")).collect()
        });
        let longest = answers.iter().map(|(_, took)| *took).max().unwrap_or_default();
        let refused = answers.iter().filter(|(status, _)| *status != 200).count();
        run.check(refused == 0 && longest < DEADLINE, || format!("{refused} lists refused, longest {longest:.1?}"));
        run.note(format!("{} lists read, longest {:.1} s", answers.len(), longest.as_secs_f64()));
    })
}
