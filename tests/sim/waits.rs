//! Scripts with calls that wait for a task or for room, and with callbacks of tubes, against the
//! model, which says what ends each wait and which callback is there.

use crate::disk::SimDisk;
use crate::run::{Run, Way};
use crate::script::{Profile, script};
use crate::seeds::are_all;
use crate::step::*;
use crate::world::Verdict;
use crate::{LOOK_EVERY, scripts};
use std::cell::RefCell;
use std::collections::BTreeMap;
use tubewell::Durability;

const SCRIPTS: u64 = 300;
const SCRIPTS_ON_DISK: u64 = 80;

/// How often calls have ended in each way at least, over all scripts.
const LEAST: [(Way, u64); 8] = [
    ((false, Over::AtOnce, true), 200),
    ((false, Over::Then, true), 50),
    ((false, Over::Then, false), 60),
    ((false, Over::Stop, false), 330),
    ((true, Over::AtOnce, true), 900),
    ((true, Over::Then, true), 60),
    ((true, Over::Then, false), 30),
    ((true, Over::Stop, false), 60),
];

fn play(run: &mut Run, steps: &[Step]) -> Verdict<()> {
    run.open()?;
    for part in steps.chunks(LOOK_EVERY) {
        run.play(part)?;
        run.step(&Step::Look)?;
        run.check()?;
    }
    Ok(())
}

#[test]
fn waits_and_callbacks_against_the_model() {
    let ended = RefCell::new(BTreeMap::new());
    scripts(SCRIPTS, |seed, trace| {
        let mut run = Run::new(None, Durability::Durable);
        let verdict = play(&mut run, &script(seed, Profile::WAITS));
        run.waits.iter().for_each(|(way, count)| {
            *ended.borrow_mut().entry(*way).or_insert(0) += count;
        });
        *trace = run.trace;
        verdict
    });
    let ended = ended.into_inner();
    println!("{ended:?}");
    for (way, least) in LEAST {
        assert!(!are_all() || ended[&way] >= least, "{way:?}: {ended:?}");
    }
}

/// The process ends between the calls, by a close or a kill.
#[test]
fn waits_and_callbacks_on_a_disk() {
    scripts(SCRIPTS_ON_DISK, |seed, trace| {
        let mut run = Run::new(Some(SimDisk::new(seed)), Durability::Durable);
        let verdict = play(&mut run, &script(seed, Profile::WAITS_ON_DISK));
        *trace = run.trace;
        verdict
    });
}
