//! Two real servers on a real PostgreSQL under a small load, and everything that can go wrong between them. Each fault has
//! an expectation; the run prints what was expected and seen as one table, and fails where they differ.
//! `ENTOURAGE_SOAK=1` lets faults last as long as they do in practice.

mod database;
mod history;
mod judge;
mod load;
mod machine;
mod planted;
mod sessions;
mod table;
mod world;

use std::{
    cell::{Cell, RefCell},
    time::Duration,
};

use self::{
    history::{Ending, Moments, Refusal, Request},
    judge::{Allowed, Verdict, judge},
    load::{Load, read_once},
    table::Table,
    world::{SERVERS, Setup, World},
};
use crate::cluster_kit::{is_soak, wait_for};

/// Before a fault, so that there is something to lose; after it, so that an old answer would be heard.
const BEFORE: Duration = Duration::from_millis(800);
const AFTER: Duration = Duration::from_millis(800);
/// The answer of a request that was under way when the fault came.
const DEADLINE: Duration = Duration::from_secs(10);
/// When nobody hopes any more; what is late is said in the table.
const GIVEN_UP: Duration = Duration::from_secs(60);

type Prepare = Box<dyn Fn(&World, u64)>;
type Step = Box<dyn Fn(&Run<'_>)>;

/// One row of the table.
struct Fault {
    name: String,
    expected: String,
    allowed: Allowed,
    /// Between the fault and its healing.
    lasts: Duration,
    /// Before there is any load.
    prepare: Prepare,
    inject: Step,
    heal: Step,
}

impl Fault {
    /// One that nobody notices, until something else is said.
    fn new(name: impl Into<String>, expected: &str) -> Self {
        Self {
            name: name.into(),
            expected: expected.to_owned(),
            allowed: Allowed {
                refusals: Box::new(|_| false),
                is_noticed: false,
                noticed_within: DEADLINE,
                longest_refusal: DEADLINE,
                back_within: DEADLINE,
                loses: false,
            },
            lasts: Duration::ZERO,
            prepare: Box::new(|_, _| ()),
            inject: Box::new(|_| ()),
            heal: Box::new(|_| ()),
        }
    }

    /// These are refused, and the first of them within this time.
    fn refuses(mut self, within: Duration, refusals: impl Fn(&Refusal) -> bool + 'static) -> Self {
        self.allowed.refusals = Box::new(refusals);
        (self.allowed.is_noticed, self.allowed.noticed_within) = (true, within);
        self
    }

    fn lasts(self, lasts: Duration) -> Self {
        Self { lasts, ..self }
    }

    fn prepare(self, prepare: impl Fn(&World, u64) + 'static) -> Self {
        Self { prepare: Box::new(prepare), ..self }
    }

    fn inject(self, inject: impl Fn(&Run<'_>) + 'static) -> Self {
        Self { inject: Box::new(inject), ..self }
    }

    fn heal(self, heal: impl Fn(&Run<'_>) + 'static) -> Self {
        Self { heal: Box::new(heal), ..self }
    }
}

/// A fault under load.
struct Run<'a> {
    world: &'a World,
    load: &'a Load,
    number: u64,
    cut: Cell<Option<Duration>>,
    /// What this fault alone shows.
    notes: RefCell<Vec<String>>,
    problems: RefCell<Vec<String>>,
}

impl Run<'_> {
    fn note(&self, note: String) {
        self.notes.borrow_mut().push(note);
    }

    fn check(&self, is_right: bool, problem: impl FnOnce() -> String) {
        if !is_right {
            self.problems.borrow_mut().push(problem());
        }
    }
}

fn run(world: &World, number: u64, fault: &Fault, table: &mut Table) {
    (fault.prepare)(world, number);
    let load = Load::start(&world.bases(), number);
    wait_for("everybody writes", GIVEN_UP, || load.all_acked_since(Duration::ZERO).then_some(()));
    std::thread::sleep(BEFORE);
    let run = Run {
        world,
        load: &load,
        number,
        cut: Cell::new(None),
        notes: RefCell::default(),
        problems: RefCell::default(),
    };
    let injected = load.now();
    (fault.inject)(&run);
    std::thread::sleep(fault.lasts);
    (fault.heal)(&run);
    let healed = load.now();
    while !load.all_acked_since(healed) && load.now() < healed + GIVEN_UP {
        std::thread::sleep(Duration::from_millis(10));
    }
    let moments = Moments { injected, healed, back: load.now(), cut: run.cut.get() };
    std::thread::sleep(AFTER);
    let open = world.open_breakers();
    run.check(open == 0, || format!("{open} servers still say that PostgreSQL is away"));
    let (notes, mut problems) = (run.notes.into_inner(), run.problems.into_inner());
    let verdict = judge_run(world, load, &moments, &fault.allowed, &mut problems);
    table.add(&fault.name, &fault.expected, seen(&verdict, &notes), &problems);
}

/// Stops the load, reads everything that was acked again, and judges all of it.
fn judge_run(world: &World, load: Load, moments: &Moments, allowed: &Allowed, problems: &mut Vec<String>) -> Verdict {
    let began = load.began();
    let mut history = load.stop();
    let stored = world.stored();
    let is_last = |place: usize| {
        let edge = history.writes[place].edge;
        !history.writes[place + 1..].iter().any(|later| later.edge == edge)
    };
    let is_read = |place: &usize| {
        let after_cut = moments.cut.is_some_and(|cut| history.writes[*place].completed >= cut);
        history.writes[*place].is_acked() && (after_cut || is_last(*place))
    };
    let mut last_reads = Vec::new();
    for place in (0..history.writes.len()).filter(is_read) {
        let write = &history.writes[place];
        let Ending::Done(token) = &write.ending else { continue };
        for server in 0..SERVERS {
            let client = world.client(server);
            last_reads.push(read_once(began, &client, server, write.edge, Some((place, token))));
        }
    }
    history.last_reads = last_reads;
    let verdict = judge(&history, moments, allowed, &stored);
    problems.extend(verdict.problems.iter().cloned());
    problems.extend(world.verify().map(|said| format!("verify is not clean: {said}")));
    // What earlier faults left alone is as it was.
    let mut kept = world.kept.borrow_mut();
    let changed = kept.iter().filter(|(edge, follows)| stored.contains(edge) != **follows);
    problems.extend(changed.map(|(edge, _)| format!("an acked write of an earlier fault is lost: {edge:?}")));
    // An edge whose last write was not acked may still change.
    for write in &history.writes {
        match write.is_acked() {
            true => kept.insert(write.edge, stored.contains(&write.edge)),
            false => kept.remove(&write.edge),
        };
    }
    verdict
}

fn seen(verdict: &Verdict, notes: &[String]) -> String {
    let seconds = |time: Duration| format!("{:.1} s", time.as_secs_f64());
    let mut seen = vec![
        verdict.noticed.map_or("not noticed".to_owned(), |noticed| format!("noticed after {}", seconds(noticed))),
        format!("refused {}, longest {}", verdict.refused, seconds(verdict.longest_refusal)),
        format!("back after {}", seconds(verdict.back)),
        format!("acked {}, lost {}", verdict.acked, verdict.lost),
        format!("stale answers {}", verdict.stale_answers),
    ];
    seen.extend((verdict.aged > 0).then(|| format!("{} with their age", verdict.aged)));
    seen.extend(notes.iter().cloned());
    seen.join("; ")
}

fn is_write(refusal: &Refusal) -> bool {
    refusal.request == Request::Write
}

#[test]
fn after_every_fault_nothing_acked_is_lost_and_no_answer_is_silently_old() {
    let plain = Setup::default();
    let short = vec![database::killed(), sessions::open_elsewhere(), sessions::hot_lock()];
    let long = vec![
        (plain, vec![database::stopped(), database::restarted(), sessions::terminated()]),
        (plain, machine::paused()),
        (Setup { network: true, ..plain }, vec![database::packets_dropped()]),
        (database::ASYNCHRONOUS, vec![database::asynchronous_failover()]),
        (database::SYNCHRONOUS, vec![database::synchronous_failover()]),
        (Setup { clocks: true, ..plain }, machine::clocks()),
        (Setup { settings: &[("STORE__CONNECTIONS", "1")], ..plain }, vec![sessions::pool_of_one()]),
    ];
    let mut worlds: Vec<(Setup, Vec<Fault>)> = vec![(plain, short)];
    if is_soak() {
        worlds.extend(long);
    }
    let (mut table, mut number) = (Table::default(), 0);
    for (setup, faults) in worlds {
        let world = World::start(setup);
        for fault in faults {
            number += 1;
            run(&world, number, &fault, &mut table);
        }
    }
    assert!(table.differences.is_empty(), "\n{}", table.differences.join("\n"));
}

fn lasting(short: u64, in_a_soak: u64) -> Duration {
    Duration::from_secs(if is_soak() { in_a_soak } else { short })
}
