//! Randomised simulation. A script is drawn from a seed, run against the library and the model, and
//! judged. `TUBEWELL_SEED=n` runs one seed of each test that uses seeds, and prints its script if
//! it has one. The counts of seeds are what a run of all tests has time for; `TUBEWELL_TIMES=n`
//! runs n times as many.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]
#![allow(missing_docs, unreachable_pub)]

mod beside;
mod clocks;
mod crash;
mod days;
mod dependencies;
mod disk;
mod failures;
mod fans;
mod files;
mod first_use;
mod full;
mod full_disk;
mod gates;
mod interval;
mod judge;
mod merges;
#[path = "../methods/mod.rs"]
mod methods;
mod model;
mod openings;
mod pieces;
mod put_all;
mod reading;
mod reads;
mod regressions;
mod repairs;
mod run;
mod scenarios;
mod schedules;
mod script;
#[path = "../seeds/mod.rs"]
mod seeds;
mod sessions;
mod several;
mod step;
mod survive;
mod told;
mod trust;
mod unknown;
mod verbs;
mod waits;
mod world;

use disk::{Fault, SimDisk};
use run::Run;
use script::{Profile, Rng, script};
use seeds::{are_all, seeds};
use std::cell::Cell;
use step::{End, Step, Turn};
use tubewell::Durability;
use world::Verdict;

/// Scripts against the model, in memory.
const SCRIPTS: u64 = 4_000;
/// Steps between two comparisons of everything visible, each with the queue's own check.
const LOOK_EVERY: usize = 16;
/// Scripts on a disk that crashes; a fault is planned in each of three parts, and not all strike.
const CRASHING_SCRIPTS: u64 = 2_000;
/// Ends of a process caused by a fault, over all of these.
const CRASHES_MIN: u64 = 4_400;

/// Plays the scripts of so many seeds.
fn scripts(count: u64, play: impl Fn(u64, &mut Vec<String>) -> Verdict<()>) {
    for seed in seeds(count) {
        let mut trace = Vec::new();
        let verdict = play(seed, &mut trace);
        if !are_all() {
            println!("{}", trace.join("\n"));
        }
        if let Err(why) = verdict {
            let from = trace.len().saturating_sub(60);
            panic!("{}\n{why}", trace[from..].join("\n"));
        }
    }
}

/// Finishes everything that is left: nothing may be stuck (L3).
fn calm() -> Vec<Step> {
    let mut steps =
        vec![Step::EndCheckpoint, Step::Clock(Turn::Advance(86_400_000_000)), Step::Tick];
    for tube in 0..4 {
        steps.push(Step::Pause { tube, length: None });
        steps.push(Step::Kick { tube, count: step::EVER });
        steps.push(Step::ReleaseAll { tube });
        for _ in 0..30 {
            steps.push(Step::TakeMany { tube, count: 4 });
            steps.extend((0..4).map(|_| Step::Ack { lease: 0 }));
        }
    }
    steps.push(Step::Look);
    steps
}

#[test]
fn s1_to_s8_o1_to_o4_scripts_against_the_model() {
    scripts(SCRIPTS, |seed, trace| {
        let mut run = Run::new(None, Durability::Durable);
        let verdict = run.open().and_then(|()| {
            for part in script(seed, Profile::MEMORY).chunks(LOOK_EVERY) {
                run.play(part)?;
                run.step(&Step::Look)?;
                run.check()?;
            }
            if seed.is_multiple_of(8) {
                run.play(&calm())?;
                run.check()?;
            }
            Ok(())
        });
        *trace = run.trace;
        verdict
    });
}

#[test]
fn s1_to_s8_crashes_anywhere_in_a_script() {
    let crashes = Cell::new(0);
    scripts(CRASHING_SCRIPTS, |seed, trace| {
        let mut rng = Rng::new(seed ^ 0xc4a5);
        let disk = SimDisk::new(seed);
        let durability = rng.of(&[Durability::Durable, Durability::Relaxed]);
        let mut run = Run::new(Some(disk.clone()), durability);
        let verdict = (|| {
            run.open()?;
            for generation in 0..3 {
                run.after_death = rng.of(&[End::Kill, End::Cut, End::Cut]);
                if rng.one_in(4) {
                    run.deaths_in_recovery = vec![1 + rng.below(12)];
                }
                let at = 1 + rng.below(60);
                let fault = match rng.below(8) {
                    0 => Fault::Once(at),
                    1 => Fault::Sticky(at),
                    2 => Fault::LoseSync(at),
                    _ => Fault::Die(at),
                };
                let plan = format!("{durability:?}, {fault:?}, {:?}", run.after_death);
                run.trace.push(format!("-- {plan}, {:?}", run.deaths_in_recovery));
                disk.plan(fault);
                let steps = Profile { steps: 40, ..Profile::DISK };
                run.play(&script(seed * 4 + generation, steps))?;
            }
            disk.plan(Fault::None);
            run.play(&calm())?;
            run.check()
        })();
        crashes.set(crashes.get() + run.crashes);
        *trace = run.trace;
        verdict
    });
    println!("{} crashes", crashes.get());
    assert!(!are_all() || crashes.get() >= CRASHES_MIN, "{} crashes", crashes.get());
}

#[test]
fn a_script_is_the_same_every_time() {
    assert_eq!(script(7, Profile::MEMORY), script(7, Profile::MEMORY));
}
