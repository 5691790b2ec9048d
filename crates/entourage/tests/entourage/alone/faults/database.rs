//! PostgreSQL goes away: killed, stopped, restarted, cut off, and replaced by its standby.

use std::time::Duration;

use super::{
    Fault, Run, lasting,
    world::{Replication, Setup},
};
use crate::cluster_kit::wait_for;

const PATIENCE: Duration = Duration::from_secs(30);
/// From the cut to the end of the primary: what is acked meanwhile has no copy.
const ALONE: Duration = Duration::from_millis(1_500);

pub(super) const ASYNCHRONOUS: Setup =
    Setup { standby: Some(Replication::Asynchronous), network: false, clocks: false, settings: &[] };
pub(super) const SYNCHRONOUS: Setup = Setup { standby: Some(Replication::Synchronous), ..ASYNCHRONOUS };

const GONE: &str = "503 at once, back in 10 s, nothing lost";
const SILENT: &str = "503 after 3 s, then at once, back in 10 s, nothing lost";
/// A refused connection is known at once, one without an answer after a second and two more; machines are busy.
const AT_ONCE: Duration = Duration::from_secs(2);
const SOON: Duration = Duration::from_secs(6);

fn notes_breakers(run: &Run<'_>) {
    let open = run.world.open_breakers();
    run.check(open == 2, || format!("{open} of 2 servers know that PostgreSQL is away"));
}

pub(super) fn killed() -> Fault {
    Fault::new("primary killed -9", GONE)
        .refuses(AT_ONCE, |_| true)
        .inject(|run| run.world.primary.kill_nine())
        .lasts(Duration::from_secs(3))
        .heal(|run| {
            notes_breakers(run);
            run.world.primary.start();
        })
}

pub(super) fn stopped() -> Fault {
    let lasts = lasting(5, 20);
    Fault::new(format!("primary stopped {} s", lasts.as_secs()), SILENT)
        .refuses(SOON, |_| true)
        .inject(|run| run.world.primary.signal("-STOP"))
        .lasts(lasts)
        .heal(|run| {
            notes_breakers(run);
            run.world.primary.signal("-CONT");
        })
}

pub(super) fn restarted() -> Fault {
    Fault::new("primary restarted under load", GONE)
        .refuses(AT_ONCE, |_| true)
        .inject(|run| run.world.primary.stop_fast())
        .lasts(Duration::from_secs(1))
        .heal(|run| run.world.primary.start())
}

pub(super) fn packets_dropped() -> Fault {
    let network = |run: &Run<'_>, swallows| run.world.network.as_ref().expect("a network").swallow(swallows);
    Fault::new("packets dropped", SILENT)
        .refuses(SOON, |_| true)
        .inject(move |run| network(run, true))
        .lasts(lasting(5, 20))
        .heal(move |run| {
            notes_breakers(run);
            network(run, false);
        })
}

/// The standby hears nothing any more.
fn cut_off(run: &Run<'_>) {
    let (world, standby) = (run.world, run.world.standby.as_ref().expect("a standby"));
    world.query_on(standby, "ALTER SYSTEM SET primary_conninfo = ''");
    world.query_on(standby, "SELECT pg_reload_conf()");
    wait_for("the standby is cut off", PATIENCE, || {
        (world.query_on(standby, "SELECT count(*) FROM pg_stat_wal_receiver") == ["0"]).then_some(())
    });
}

fn acked(run: &Run<'_>) -> usize {
    (0..2).map(|server| run.load.acked_by(server)).sum()
}

fn promote(run: &Run<'_>) {
    run.world.standby.as_ref().expect("a standby").promote();
    run.world.is_promoted.set(true);
}

pub(super) fn asynchronous_failover() -> Fault {
    let expected = "503, back in 10 s; what the standby never got is lost, its tokens are 503 stale";
    let mut fault = Fault::new("asynchronous standby promoted", expected)
        .refuses(Duration::from_secs(8), |_| true)
        .inject(|run| {
            run.cut.set(Some(run.load.now()));
            cut_off(run);
            let before = acked(run);
            std::thread::sleep(ALONE);
            let alone = acked(run) - before;
            run.check(alone > 0, || "nothing was acked without the standby".to_owned());
            run.world.primary.kill_nine();
            run.note(format!("{alone} acked without the standby"));
        })
        .heal(promote);
    fault.allowed.loses = true;
    fault
}

pub(super) fn synchronous_failover() -> Fault {
    Fault::new("synchronous standby promoted", "nothing acked without the standby; 503, back in 10 s, nothing lost")
        .refuses(Duration::from_secs(8), |_| true)
        .prepare(|world, _| {
            let state = "SELECT sync_state FROM pg_stat_replication";
            wait_for("the standby is synchronous", PATIENCE, || (world.query(state) == ["sync"]).then_some(()));
        })
        .inject(|run| {
            cut_off(run);
            // Answers that were on their way.
            std::thread::sleep(Duration::from_millis(200));
            let before = acked(run);
            std::thread::sleep(ALONE);
            let alone = acked(run) - before;
            run.check(alone == 0, || format!("{alone} acked without the standby"));
            run.world.primary.kill_nine();
            run.note(format!("{alone} acked without the standby"));
        })
        .heal(promote)
}
