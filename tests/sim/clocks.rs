//! Every jump of a clock, at every step of ten short scripts, also while the queue is closed. The
//! expected effect is in the model alone, which knows the three measures of time and says after
//! each step what is due, held and removed: nothing becomes due twice, no acked task returns, no
//! lease ends early (T1); delayed tasks follow the boot clock, leases do not advance during a
//! suspend, and only `run_at` follows the wall clock (T2); a wave of due tasks stays bounded (T3);
//! no delayed task is early (O4).

use crate::disk::SimDisk;
use crate::run::Run;
use crate::step::*;
use tubewell::{Durability, TubeKind};

const MILLI: u64 = 1000;
const SECOND: u64 = 1000 * MILLI;
const HOUR: u64 = 3600 * SECOND;
const DAY: u64 = 24 * HOUR;
const YEAR: u64 = 365 * DAY;

fn jumps() -> Vec<Vec<Turn>> {
    let set = |by: u64| vec![vec![Turn::SetWall(by as i64)], vec![Turn::SetWall(-(by as i64))]];
    let mut jumps: Vec<Vec<Turn>> =
        [MILLI, SECOND, HOUR, 10 * YEAR].into_iter().flat_map(set).collect();
    // Back to before the epoch, and forward again.
    jumps.push(vec![Turn::SetWall(-(60 * YEAR as i64))]);
    jumps.push(vec![Turn::SetWall(-(60 * YEAR as i64)), Turn::SetWall(60 * YEAR as i64)]);
    // Five seconds at ±500 ppm.
    jumps.push(vec![Turn::Advance(5 * SECOND), Turn::SetWall(2500)]);
    jumps.push(vec![Turn::Advance(5 * SECOND), Turn::SetWall(-2500)]);
    jumps.push(vec![Turn::FreezeWall(SECOND)]);
    jumps.push(vec![Turn::FreezeWall(HOUR)]);
    for by in [SECOND, HOUR, 30 * DAY] {
        jumps.push(vec![Turn::Suspend(by)]);
    }
    // Forward and back before any call; and a suspend that is noticed when the clock is set.
    jumps.push(vec![Turn::SetWall(HOUR as i64), Turn::SetWall(-(HOUR as i64))]);
    jumps.push(vec![Turn::Suspend(DAY), Turn::SetWall(-(DAY as i64))]);
    jumps.push(vec![Turn::Advance(SECOND), Turn::SetWall(-(SECOND as i64)), Turn::Advance(SECOND)]);
    jumps
}

/// Those of a machine that starts again, which no queue lives through: with a wall clock that is
/// right, one that stands still, is back by years, and is ahead by more than an opening counts.
fn reboots() -> Vec<Vec<Turn>> {
    let mut jumps: Vec<_> = [0, SECOND, HOUR, 29 * DAY, 31 * DAY, 10 * YEAR]
        .map(|after| vec![Turn::Reboot(after)])
        .to_vec();
    jumps.push(vec![Turn::Advance(SECOND), Turn::Reboot(SECOND), Turn::Suspend(SECOND)]);
    jumps.push(vec![Turn::SetWall(-(10 * YEAR as i64)), Turn::Reboot(SECOND)]);
    jumps.push(vec![Turn::Reboot(HOUR), Turn::SetWall(-(HOUR as i64)), Turn::Reboot(SECOND)]);
    jumps.push(vec![Turn::SetWall(-(60 * YEAR as i64)), Turn::Reboot(0)]);
    jumps
}

fn lives() -> Vec<(&'static str, Vec<Step>)> {
    let put = |change: &dyn Fn(&mut New)| {
        let mut new = New::default();
        change(&mut new);
        Step::Put { tube: 0, new }
    };
    let take = || Step::Take { tube: 0 };
    let ack = || Step::Ack { lease: 0 };
    let pass = |by| Step::Clock(Turn::Advance(by));
    vec![
        ("plain", vec![put(&|_| ()), take(), ack(), take()]),
        (
            "delay",
            vec![
                put(&|new| new.delay = Some(2 * SECOND)),
                take(),
                pass(SECOND),
                take(),
                pass(SECOND),
                take(),
                ack(),
            ],
        ),
        (
            "delay and ttl",
            vec![
                put(&|new| (new.delay, new.ttl) = (Some(2 * SECOND), Some(2 * SECOND))),
                pass(2 * SECOND),
                take(),
                Step::Release { lease: 0, back: Back { delay: Some(SECOND), ..Back::default() } },
                pass(SECOND),
                take(),
                pass(2 * SECOND),
                ack(),
            ],
        ),
        (
            "ttr",
            vec![
                put(&|new| new.ttr = Some(5 * SECOND)),
                take(),
                pass(4 * SECOND),
                pass(SECOND),
                take(),
                ack(),
            ],
        ),
        (
            "ttr and ttl",
            vec![
                put(&|new| (new.ttr, new.ttl) = (Some(SECOND), Some(3 * SECOND))),
                take(),
                pass(SECOND),
                take(),
                pass(2 * SECOND),
                take(),
            ],
        ),
        (
            "run at",
            vec![
                put(&|new| new.run_in = Some(2 * SECOND as i64)),
                take(),
                pass(2 * SECOND),
                take(),
                ack(),
            ],
        ),
        (
            "run at and ttl",
            vec![
                put(&|new| (new.run_in, new.ttl) = (Some(SECOND as i64), Some(SECOND))),
                pass(SECOND),
                Step::Tick,
                pass(SECOND),
                take(),
            ],
        ),
        (
            "retry",
            vec![
                put(&|_| ()),
                take(),
                Step::Retry { lease: 0, after: None, grouped: false },
                pass(SECOND),
                take(),
                Step::Retry { lease: 0, after: Some(HOUR), grouped: true },
                pass(HOUR),
                take(),
                ack(),
            ],
        ),
        (
            "touch and renew",
            vec![
                put(&|new| new.ttr = Some(2 * SECOND)),
                take(),
                Step::Touch { lease: 0, by: SECOND },
                pass(2 * SECOND),
                Step::Renew { lease: 0 },
                pass(2 * SECOND),
                Step::RenewFor { lease: 0, by: SECOND },
                pass(SECOND),
                ack(),
            ],
        ),
        (
            "buried",
            vec![
                put(&|new| new.ttl = Some(3 * SECOND)),
                take(),
                Step::Bury { lease: 0, priority: None },
                pass(SECOND),
                Step::Kick { tube: 0, count: 1 },
                Step::Delete { tube: 0, task: ANY, only: None },
                pass(2 * SECOND),
                take(),
            ],
        ),
    ]
}

#[test]
fn t1_t2_t3_o4_every_jump_at_every_step() {
    let created =
        Step::Create { tube: 0, opts: Opts::plain(TubeKind::General), if_not_exists: false };
    for (name, life) in lives() {
        let (jumps, reboots) = (jumps(), reboots());
        for (no, jump) in jumps.iter().chain(&reboots).enumerate() {
            for at in 0..=life.len() {
                // Noticed by the verb itself, by the timer first, or not before a reopening; or
                // no process was there when it happened.
                let ways = ["closed meanwhile", "verb", "timer", "closed after"];
                for how in &ways[..if no < jumps.len() { 4 } else { 1 }] {
                    let disk = how.starts_with("closed").then(|| SimDisk::new(1));
                    let mut run = Run::new(disk, Durability::Relaxed);
                    let mut steps = vec![created.clone()];
                    steps.extend(life[..at].iter().cloned());
                    if *how == "closed meanwhile" {
                        run.while_closed.clone_from(jump);
                    } else {
                        steps.extend(jump.iter().map(|turn| Step::Clock(turn.clone())));
                    }
                    steps.extend(match *how {
                        "verb" => None,
                        "timer" => Some(Step::Tick),
                        _ => Some(Step::Reopen(End::Close)),
                    });
                    for step in &life[at..] {
                        steps.extend([step.clone(), Step::Look]);
                    }
                    if let Err(why) = run.open().and_then(|()| run.play(&steps)) {
                        let trace = run.trace.join("\n");
                        panic!("{name}, jump {no} {jump:?} at {at}, {how}: {why}\n{trace}");
                    }
                }
            }
        }
    }
}
