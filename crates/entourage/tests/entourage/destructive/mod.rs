//! Processes that are killed, disks that fail or fill, clocks that jump.

mod clock_jump;
mod fsync;
mod full_disk;
mod import_kill;
mod kill;
mod kill_abuse;
mod kill_feed;
mod kill_jobs;
mod kill_quarantine;
mod kill_retry;
