//! The machine of a server: the process is paused with transactions open, or its clock is wrong.

use std::{
    cell::Cell,
    rc::Rc,
    time::{Duration, Instant},
};

use super::{Fault, Run, is_write};
use crate::cluster_kit::{id_of, is_soak, lease};

/// A paused holder of leases is replaced, and its sessions are ended. Promised are 15 s.
const ENDED_WITHIN: Duration = Duration::from_secs(20);
/// What a client waits for a server that says nothing.
const CLIENT_GIVES_UP: Duration = Duration::from_secs(32);
const TRIES: usize = 200;
const OPEN: &str = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'entourage %' \
    AND state LIKE 'idle in transaction%' AND state_change < clock_timestamp() - interval '200 ms'";

fn open_transactions(run: &Run<'_>) -> usize {
    run.world.query(OPEN)[0].parse().unwrap()
}

/// Stops the process at a moment at which it has a transaction open.
fn pause_in_a_transaction(run: &Run<'_>, server: usize) -> usize {
    let process = &run.world.servers[server];
    for _ in 0..TRIES {
        process.signal("-STOP");
        std::thread::sleep(Duration::from_millis(250));
        let open = open_transactions(run);
        if open > 0 {
            return open;
        }
        process.signal("-CONT");
        std::thread::sleep(Duration::from_millis(23));
    }
    0
}

/// Which server does the jobs: that one is replaced.
fn holder(run: &Run<'_>) -> usize {
    let ids = [0, 1].map(|server| id_of(&run.world.client(server)));
    let (_, holder) = lease(&run.world.client(0), "jobs");
    ids.iter().position(|id| *id == holder).unwrap_or_default()
}

pub(super) fn paused() -> Vec<Fault> {
    let lengths: &[u64] = if is_soak() { &[20, 60, 130] } else { &[20] };
    lengths.iter().map(|seconds| paused_for(Duration::from_secs(*seconds))).collect()
}

fn paused_for(lasts: Duration) -> Fault {
    let paused = Rc::new(Cell::new(0));
    let (refused, injected, healed) = (Rc::clone(&paused), Rc::clone(&paused), paused);
    let expected = "the other server refuses nobody; open transactions are ended in 20 s, back in 10 s, nothing lost";
    let mut fault = Fault::new(format!("server paused {} s in a transaction", lasts.as_secs()), expected)
        .refuses(lasts + CLIENT_GIVES_UP, move |refusal| refusal.server == refused.get())
        .inject(move |run| {
            injected.set(holder(run));
            let open = pause_in_a_transaction(run, injected.get());
            run.check(open > 0, || "it was never paused in a transaction".to_owned());
            let (began, before) = (Instant::now(), run.load.acked_by(1 - injected.get()));
            while open_transactions(run) > 0 && began.elapsed() < lasts {
                std::thread::sleep(Duration::from_millis(100));
            }
            let ended = began.elapsed();
            run.check(ended < ENDED_WITHIN.min(lasts), || format!("its transactions are open after {ended:.1?}"));
            std::thread::sleep(lasts.saturating_sub(began.elapsed()));
            let acked = run.load.acked_by(1 - injected.get()) - before;
            run.check(acked > 20, || format!("the other server acked {acked}"));
            run.note(format!(
                "{open} open, ended after {:.1} s; {acked} acked by the other server",
                ended.as_secs_f64()
            ));
        })
        .heal(move |run| run.world.servers[healed.get()].signal("-CONT"));
    // Whether its callers are refused or answered late depends on how long they wait.
    fault.allowed.is_noticed = false;
    fault.allowed.longest_refusal = lasts + CLIENT_GIVES_UP;
    fault
}

pub(super) fn clocks() -> Vec<Fault> {
    [("+10 min", "+10m"), ("+8 days", "+8d"), ("\u{2212}1 h", "-1h")].map(|(name, by)| clock(name, by)).into()
}

fn clock(name: &str, by: &'static str) -> Fault {
    let oldest = |run: &Run<'_>| run.world.query("SELECT min(sequence) FROM entourage.events");
    Fault::new(
        format!("clock of a server {name}"),
        "its writes are 503 in 5 s, its reads go on, nothing expires; back in 10 s, nothing lost",
    )
    .refuses(Duration::from_secs(5), |refusal| is_write(refusal) && refusal.server == 0)
    .inject(move |run| {
        run.world.clocks[0].set(by);
        std::thread::sleep(Duration::from_secs(3));
        let ready = run.world.client(0).get("/readyz");
        let reason = ready.body["reason"].as_str().unwrap_or_default().to_owned();
        run.check(ready.status == 503 && reason.contains("wrong clock"), || format!("/readyz says {}", ready.body));
        let before = run.load.acked_by(0);
        std::thread::sleep(Duration::from_secs(1));
        let stored = run.load.acked_by(0) - before;
        run.check(stored == 0, || format!("it stored {stored} writes with a wrong clock"));
        let other = run.world.client(1).get("/readyz").status;
        run.check(other == 200, || format!("the other server's /readyz is {other}"));
    })
    .heal(move |run| {
        let oldest = oldest(run);
        run.check(oldest == ["1"], || format!("events expired: the oldest is {oldest:?}"));
        run.world.clocks[0].set("+0");
    })
}
