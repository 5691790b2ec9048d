//! The connections of one thread, which waits for the first response or for the next request that is due.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use rand::{SeedableRng as _, rngs::SmallRng};
use rustix::{
    buffer::spare_capacity,
    event::{PollFd, PollFlags, Timespec, epoll, poll},
    io::retry_on_intr,
};

use super::{
    draw::Draw,
    drive::{Plan, Stats, Times},
    supply::Supply,
    wire::{Connection, Protocol, TIMEOUT},
};

pub(super) struct Lane<'a> {
    plan: &'a Plan,
    lines: Vec<Line<'a>>,
    watched: OwnedFd,
}

/// One connection and its share of the schedule.
struct Line<'a> {
    index: usize,
    connection: Connection<'a>,
    supply: Supply<'a>,
    /// Requests that were answered.
    done: u64,
    /// When requests in flight were sent, the kind of each, and how many were answered.
    asked: Instant,
    kinds: Vec<usize>,
    answered: usize,
}

impl<'a> Lane<'a> {
    pub(super) fn connect(
        protocol: &'a Protocol,
        draw: &'a Draw,
        plan: &'a Plan,
        indexes: impl Iterator<Item = usize>,
    ) -> Result<Self> {
        let supply = |index: usize| {
            let random = SmallRng::seed_from_u64(plan.seed ^ (index as u64 + 1) << 32);
            Ok((index, Supply::new(protocol, draw, random, plan.prepare)?))
        };
        // Drawing may take a while, and servers close idle connections.
        let supplies: Vec<(usize, Supply<'a>)> = indexes.map(supply).collect::<Result<_>>()?;
        let watched = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut lines = Vec::with_capacity(supplies.len());
        for (index, supply) in supplies {
            let connection = protocol.connect()?;
            epoll::add(&watched, &connection, epoll::EventData::new_u64(lines.len() as u64), epoll::EventFlags::IN)?;
            let (asked, kinds) = (Instant::now(), Vec::new());
            lines.push(Line { index, connection, supply, done: 0, asked, kinds, answered: 0 });
        }
        Ok(Self { plan, lines, watched })
    }

    pub(super) fn run(self, times: Times) -> Result<Stats> {
        let (later, open) = (BinaryHeap::new(), self.lines.len());
        let mut running = Running { stats: Stats::new(times.began)?, lane: self, times, later, open };
        (0..open).try_for_each(|at| running.go_on(at))?;
        let mut events = Vec::with_capacity(open);
        while running.open > 0 {
            running.wait(&mut events)?;
            for event in events.drain(..) {
                running.receive(event.data.u64() as usize)?;
            }
            running.ask_due()?;
        }
        Ok(running.stats)
    }
}

struct Running<'a> {
    lane: Lane<'a>,
    times: Times,
    stats: Stats,
    /// Idle connections, by when their next request is due.
    later: BinaryHeap<Reverse<(Instant, usize)>>,
    /// How many have not finished the schedule.
    open: usize,
}

impl Running<'_> {
    /// Waits until a response arrives or a request is due.
    fn wait(&self, events: &mut Vec<epoll::Event>) -> Result<()> {
        let watched = &self.lane.watched;
        let mut left = Timespec::try_from(TIMEOUT)?;
        if let Some(Reverse((due, _))) = self.later.peek() {
            // Polling has millisecond resolution; this does not.
            let until = Timespec::try_from(due.saturating_duration_since(Instant::now()))?;
            retry_on_intr(|| poll(&mut [PollFd::new(watched, PollFlags::IN)], Some(&until)))?;
            left = Timespec::try_from(Duration::ZERO)?;
        }
        retry_on_intr(|| epoll::wait(watched, spare_capacity(events), Some(&left)))?;
        let is_late = |line: &Line<'_>| line.answered < line.kinds.len() && line.asked.elapsed() > TIMEOUT;
        ensure!(!events.is_empty() || !self.lane.lines.iter().any(is_late), "the server did not answer in time");
        Ok(())
    }

    fn ask_due(&mut self) -> Result<()> {
        while let Some(&Reverse((due, at))) = self.later.peek()
            && due <= Instant::now()
        {
            self.later.pop();
            self.ask(at)?;
        }
        Ok(())
    }

    /// Everything is answered: the next request is sent as soon as it is due.
    fn go_on(&mut self, at: usize) -> Result<()> {
        let line = &self.lane.lines[at];
        let due = self.lane.plan.due(&self.times, line.index, line.done);
        if due >= self.times.end {
            self.open -= 1;
            epoll::delete(&self.lane.watched, &line.connection)?;
        } else if due <= Instant::now() {
            self.ask(at)?;
        } else {
            self.later.push(Reverse((due, at)));
        }
        Ok(())
    }

    /// Nothing else is in flight on this connection, so the socket has room.
    fn ask(&mut self, at: usize) -> Result<()> {
        let line = &mut self.lane.lines[at];
        line.asked = Instant::now();
        let batch = line.supply.take(self.lane.plan.due_by(&self.times, line.index, line.asked, line.done))?;
        line.connection.send(batch.bytes)?;
        line.kinds.clear();
        line.kinds.extend_from_slice(batch.kinds);
        line.answered = 0;
        Ok(())
    }

    fn receive(&mut self, at: usize) -> Result<()> {
        let line = &mut self.lane.lines[at];
        line.connection.receive().context("while load was made")?;
        while let Some(&kind) = line.kinds.get(line.answered) {
            let Some(answer) = line.connection.take().context("while load was made")? else { return Ok(()) };
            let due = match self.lane.plan.rate {
                0 => line.asked,
                _ => self.lane.plan.due(&self.times, line.index, line.done + line.answered as u64),
            };
            let answered = Instant::now();
            if due >= self.times.began {
                self.stats.record(kind, answered.saturating_duration_since(due), answer.error);
                self.stats.last = Some(answered);
            }
            line.answered += 1;
        }
        line.done += line.kinds.len() as u64;
        self.go_on(at)
    }
}
