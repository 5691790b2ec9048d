//! The campaign: every kind of file is damaged in every way, in stores that were closed and stores that were killed. The
//! answer is right, or an error names the file; never are there fewer rows in silence.
//! `ENTOURAGE_SOAK=1` tries every bit and every cut.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking"
)]

mod damage_kit;
mod embedded_kit;

use std::collections::BTreeMap;

use damage_kit::{
    harm::{KINDS, harms, kind_of},
    judge::{Noticed, judge},
    world::{Left, World},
};

/// How many bits apart flips are.
fn step() -> usize {
    if std::env::var("ENTOURAGE_SOAK").is_ok_and(|soak| soak == "1") { 1 } else { 1_999 }
}

fn campaign(left: Left) {
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
