//! Right, or refused with the name of the file: everything else is a verdict.

use entourage_embedded::Store;
use entourage_model::{Key, Kind};
use entourage_store::{Store as _, StoreExt as _};
use entourage_testkit::{conformance::block_on, crash_disk::CrashDisk};

use super::{
    harm::Harm,
    questions::{Answers, ask},
    world::{World, disk_with, follow, options},
};
use crate::embedded_kit::open_on;

/// What was noticed of a harm, in the order in which it would be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Noticed {
    AtStart,
    WhenRead,
    ByVerify,
    /// It was to a seal, and the other one is enough.
    Never,
}

/// `Err`: something is wrong that nobody was told.
pub(crate) fn judge(world: &World, harm: &Harm) -> Result<Noticed, String> {
    let disk = disk_with(&harm.done_to(&world.files));
    let store = match open_on(&disk, options()) {
        Ok(store) => store,
        Err(fault) => return named(&fault.to_string(), harm).map(|()| Noticed::AtStart),
    };
    block_on(judge_open(store, &disk, world, harm))
}

async fn judge_open(store: Store, disk: &CrashDisk, world: &World, harm: &Harm) -> Result<Noticed, String> {
    let mut noticed = compare(&world.answers, &ask(&store).await, harm)?;
    if noticed == Noticed::Never {
        noticed = match store.verify().await {
            Ok(report) if report.is_clean() && is_spare(harm) => Noticed::Never,
            Ok(report) if report.is_clean() => return Err("nothing was noticed".into()),
            Ok(report) => return Err(format!("verify: {:?}", report.problems)),
            Err(error) => named(error.detail(), harm).map(|()| Noticed::ByVerify)?,
        };
    } else if store.verify().await.is_ok_and(|report| report.is_clean()) {
        return Err("verify is content with what cannot be read".into());
    }
    retry(&store, world, harm).await?;
    go_on(store, disk, world, harm).await?;
    Ok(noticed)
}

/// Whoever does not know whether a request was done sends it again: it is done once.
async fn retry(store: &Store, world: &World, harm: &Harm) -> Result<(), String> {
    for (write, reply) in &world.keyed {
        match store.commit(write.clone()).await {
            Ok(outcome) if outcome.replayed && outcome.reply == *reply => {}
            Ok(outcome) => return Err(format!("a retry was done again: {outcome:?}")),
            Err(error) => named(error.detail(), harm)?,
        }
    }
    Ok(())
}

/// Another write, a checkpoint over what is there, and a start: damage is not made right by being copied.
async fn go_on(store: Store, disk: &CrashDisk, world: &World, harm: &Harm) -> Result<(), String> {
    let written = store.commit(follow(13, 6).into()).await.is_ok();
    let before = ask(&store).await;
    let closed = store.close().await;
    if let Err(error) = &closed {
        named(error.detail(), harm)?;
    }
    drop(store);
    let store = match open_on(disk, options()) {
        Ok(store) => store,
        Err(fault) => return named(&fault.to_string(), harm),
    };
    let after = ask(&store).await;
    compare(&before, &after, harm)?;
    let edges = store.get_edges(Kind::Follow, &[(Key(13), Key(6))]).await;
    if written && edges.is_ok_and(|edges| edges[0].is_none()) {
        return Err("an acked follow is gone".into());
    }
    retry(&store, world, harm).await
}

/// Every answer is the right one, or says which file it cannot be had from.
fn compare(right: &Answers, given: &Answers, harm: &Harm) -> Result<Noticed, String> {
    let mut noticed = Noticed::Never;
    if right.len() != given.len() {
        return Err(format!("{} questions, and not {}", given.len(), right.len()));
    }
    for ((question, right), (_, given)) in right.iter().zip(given) {
        match given {
            Ok(_) if given == right => {}
            // What could not be told before may be told now.
            Ok(_) if right.is_err() => {}
            Ok(wrong) => return Err(format!("{question}: {wrong}\nis not: {right:?}")),
            Err(error) => {
                named(error, harm).map_err(|error| format!("{question}: {error}"))?;
                noticed = Noticed::WhenRead;
            }
        }
    }
    Ok(noticed)
}

/// There are two seals, and all else is there once.
fn is_spare(harm: &Harm) -> bool {
    harm.file == "seals"
}

fn named(error: &str, harm: &Harm) -> Result<(), String> {
    if error.contains(&harm.file) { Ok(()) } else { Err(format!("does not name the file: {error}")) }
}
