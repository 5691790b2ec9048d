//! The campaign: every kind of file is damaged in every way, in stores that were closed and stores that were killed. The
//! answer is right, or an error names the file; never are there fewer rows in silence.
//! `ENTOURAGE_SOAK=1` tries every bit and every cut.

use std::{
    collections::BTreeMap,
    sync::{PoisonError, RwLock},
};

use super::damage_kit::{
    harm::{KINDS, harms, kind_of},
    judge::{Noticed, judge},
    world::{Left, World},
};
use entourage_embedded::{Check, leave_out};

/// A check that is left out is left out everywhere: nobody else is judged meanwhile.
static CHECKS: RwLock<()> = RwLock::new(());

/// How many bits apart flips are.
fn step() -> usize {
    if std::env::var("ENTOURAGE_SOAK").is_ok_and(|soak| soak == "1") { 1 } else { 1_999 }
}

fn campaign(left: Left) {
    let _all_done = CHECKS.read().unwrap_or_else(PoisonError::into_inner);
    let world = World::new(left);
    let mut tally: BTreeMap<(&str, Noticed), usize> = BTreeMap::new();
    for file in world.files.keys() {
        let kind = kind_of(file).unwrap_or_else(|| panic!("{file} is of a kind that the campaign does not know"));
        for harm in harms(&world, file, step()) {
            let noticed = judge(&world, &harm).unwrap_or_else(|wrong| panic!("{left:?} {harm}: {wrong}"));
            *tally.entry((kind, noticed)).or_default() += 1;
        }
    }
    println!("{left:?}: {tally:#?}");
    for kind in KINDS {
        let noticed = tally.iter().filter(|((of, noticed), _)| *of == kind && *noticed != Noticed::Never);
        assert!(noticed.map(|(_, count)| count).sum::<usize>() >= 3, "no harm done to {kind} was noticed: {tally:#?}");
    }
}

#[test]
fn a_closed_store_is_right_or_names_the_damaged_file() {
    campaign(Left::Closed);
}

#[test]
fn a_killed_store_is_right_or_names_the_damaged_file() {
    campaign(Left::Killed);
}

/// The judge is one only if a store that leaves a check out is found guilty.
#[test]
fn every_check_that_is_left_out_is_missed() {
    let _others_wait = CHECKS.write().unwrap_or_else(PoisonError::into_inner);
    let worlds = [Left::Killed, Left::Closed].map(World::new);
    for check in Check::ALL {
        leave_out(Some(check));
        let guilty = worlds.iter().find_map(|world| {
            let mut all = world.files.keys().flat_map(|file| harms(world, file, step()));
            all.find_map(|harm| judge(world, &harm).err().map(|wrong| format!("{harm}: {wrong:.300}")))
        });
        leave_out(None);
        let guilty = guilty.unwrap_or_else(|| panic!("{check:?} is left out, and nobody misses it"));
        println!("without {check:?}: {guilty}");
    }
}
