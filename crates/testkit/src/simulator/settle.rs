//! Without further faults everything completes, and all agree.

use entourage_model::Key;

use super::{
    checks,
    clients::{Clients, PEOPLE},
    explain,
    schedule::Work,
    world::World,
};

impl World {
    pub(super) fn settle(&mut self, clients: &mut Clients) -> Result<(), String> {
        self.dice.doubt_one_in(0);
        self.finish(clients)?;
        while !self.engine.late.lock().is_empty() {
            self.engine.arrive(0);
            self.look()?;
        }
        self.drain(clients)?;
        if self.has_clients {
            self.erase_all(clients)?;
        }
        self.replica.catch_up(&self.engine)?;
        self.tokens.settled(&self.engine, &self.chronicle)?;
        self.memory.settled();
        self.history.settled();
        if self.has_clients {
            checks::settled(&self.engine)?;
            self.feed.lock().settled(PEOPLE, &self.engine, &self.chronicle)?;
            if let Some(wrong) = explain::nobodys(&self.history, &self.chronicle, self.engine.homes.len()) {
                return Err(wrong);
            }
        }
        self.dice.doubt_one_in(self.faults.doubt_one_in);
        Ok(())
    }

    /// What is left of erased people goes, too, and every post is delivered.
    fn erase_all(&mut self, clients: &mut Clients) -> Result<(), String> {
        let gone = (0..PEOPLE).map(Key).filter(|key| self.engine.user(*key).is_none());
        self.jobs = gone.collect();
        for key in self.jobs.clone() {
            self.spawn_work(Work::Job(key));
        }
        self.finish(clients)?;
        self.drain(clients)?;
        for _ in 0..3 {
            let waiting = self.feed.lock().waiting();
            for post in waiting {
                self.spawn_work(Work::FanOut(post));
            }
            self.finish(clients)?;
        }
        match self.feed.lock().waiting().len() {
            0 => Ok(()),
            left => Err(format!("{left} posts are never delivered")),
        }
    }

    pub(super) fn finish(&mut self, clients: &mut Clients) -> Result<(), String> {
        for task in &mut self.tasks {
            task.asleep_until = 0;
        }
        for _ in 0..200_000 {
            if self.tasks.is_empty() {
                return Ok(());
            }
            self.step += 1;
            self.step_one(clients)?;
            self.look()?;
        }
        let left: Vec<Work> = self.tasks.iter().map(|task| task.work).collect();
        Err(format!("does not come to an end: {left:?}"))
    }

    fn drain(&mut self, clients: &mut Clients) -> Result<(), String> {
        for _ in 0..2_000 {
            for home in self.unmended.clone() {
                self.spawn_work(Work::Mend(home));
            }
            if !self.unmended.is_empty() {
                self.finish(clients)?;
                continue;
            }
            if self.is_drained() {
                return Ok(());
            }
            for home in 0..self.engine.homes.len() {
                self.spawn_work(Work::Relay(home));
                self.spawn_work(Work::Apply(home));
            }
            self.finish(clients)?;
        }
        Err("does not settle".to_owned())
    }

    fn is_drained(&self) -> bool {
        self.engine.homes.iter().zip(&self.engine.halves).all(|(home, log)| {
            let home = home.lock();
            home.outbox.is_empty() && home.applied == log.lock().end()
        })
    }
}
