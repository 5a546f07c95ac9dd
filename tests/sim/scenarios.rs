//! Short scripts, each with a crash at every write, change of length and sync; the same with a
//! second crash in the recovery; and with each of these calls failing, once and from then on.

use crate::beside::Beside;
use crate::disk::{Fault, SimDisk};
use crate::run::Run;
use crate::script::Rng;
use crate::seeds::{seeds, wants_more};
use crate::step::*;
use std::ops::Range;
use tubewell::{Durability, TubeKind};

const SECOND: u64 = 1_000_000;

struct Scenario {
    name: String,
    before: Vec<Step>,
    /// Where the faults are. None: the first opening itself.
    during: Option<Vec<Step>>,
}

fn put() -> Step {
    Step::Put { tube: 0, new: New::default() }
}

fn put_with(change: impl FnOnce(&mut New)) -> Step {
    let mut new = New::default();
    change(&mut new);
    Step::Put { tube: 0, new }
}

fn general() -> Step {
    Step::Create { tube: 0, opts: Opts::plain(TubeKind::General), if_not_exists: false }
}

fn transact(leases: &[u32], ending: Ending) -> Step {
    Step::Transact { tube: 0, leases: leases.to_vec(), ending }
}

fn times(count: usize, steps: &[Step]) -> Vec<Step> {
    std::iter::repeat_n(steps, count).flatten().cloned().collect()
}

fn scenarios() -> Vec<Scenario> {
    let take = Step::Take { tube: 0 };
    let ack = Step::Ack { lease: 0 };
    let many = |count| Step::PutMany { tube: 0, count };
    let advance = |by| Step::Clock(Turn::Advance(by));
    let of = |name: &str, before: Vec<Step>, during: Vec<Step>| Scenario {
        name: name.into(),
        before: [vec![general()], before].concat(),
        during: Some(during),
    };
    let mut all = vec![
        Scenario { name: "first open".into(), before: vec![], during: None },
        of("first put", vec![], vec![put()]),
        of("put batch", vec![put()], vec![many(5), many(7)]),
        of("take", vec![many(3)], vec![take.clone(), Step::TakeMany { tube: 0, count: 2 }]),
        of(
            "ack batch",
            vec![many(6), Step::TakeMany { tube: 0, count: 5 }],
            vec![Step::AckMany { leases: vec![0, 1, 2] }, ack.clone(), ack.clone()],
        ),
        of(
            "lease lapse",
            vec![put_with(|new| new.ttr = Some(SECOND)), put(), take.clone(), take.clone()],
            vec![advance(SECOND), Step::Tick, take.clone(), ack.clone()],
        ),
        of(
            "due wave",
            times(40, &[put_with(|new| new.delay = Some(SECOND))]),
            vec![advance(SECOND), Step::Tick, Step::TakeMany { tube: 0, count: 40 }],
        ),
        of(
            "growth past a checkpoint",
            vec![],
            [times(32, &[many(7)]), vec![Step::Checkpoint, put()]].concat(),
        ),
        of(
            "truncate and sweep",
            [times(30, &[many(7)]), vec![Step::Checkpoint]].concat(),
            vec![Step::Truncate { tube: 0 }, put(), Step::Tick, Step::Checkpoint, Step::Tick],
        ),
        of(
            "around the ring",
            vec![many(3)],
            times(
                32,
                &[
                    many(4),
                    Step::TakeMany { tube: 0, count: 4 },
                    Step::AckMany { leases: vec![0, 1, 2, 3] },
                ],
            ),
        ),
        of(
            "compaction",
            [times(20, &[many(7)]), vec![Step::Checkpoint, Step::Truncate { tube: 0 }]].concat(),
            vec![put(), Step::Compact, Step::TakeMany { tube: 0, count: 2 }, Step::Compact],
        ),
        of(
            "close",
            vec![many(5), take.clone(), take.clone(), ack.clone()],
            vec![Step::Reopen(End::Close), put(), take.clone()],
        ),
        of(
            "reopen after a kill",
            vec![many(5), take.clone(), put_with(|new| new.relaxed = true)],
            vec![Step::Reopen(End::Kill), put(), take.clone(), ack.clone()],
        ),
        of(
            "transactions",
            vec![many(6), take.clone(), take.clone(), take.clone()],
            vec![
                transact(&[0, 1], Ending::Commit),
                transact(&[0], Ending::Error),
                transact(&[0], Ending::Panic),
                put_with(|new| new.relaxed = true),
                transact(&[0], Ending::Commit),
            ],
        ),
        of(
            "transactions over what is due and what is in the base",
            [
                times(10, &[many(7), put_with(|new| new.delay = Some(SECOND))]),
                vec![Step::Checkpoint, take.clone(), take.clone()],
            ]
            .concat(),
            vec![
                advance(SECOND),
                transact(&[1], Ending::Panic),
                transact(&[1], Ending::Commit),
                take,
                transact(&[0, 1], Ending::Commit),
            ],
        ),
    ];
    all.extend(consumers());
    all.extend(checkpoints(&SOME_CALLS));
    all
}

/// The sessions of named consumers.
fn consumers() -> Vec<Scenario> {
    let take = Step::Take { tube: 0 };
    let join = |grace| Step::Join { who: 0, grace };
    let take_by = Step::TakeBy { who: 0, tube: 0 };
    let resume = Step::Resume { who: 0, tube: 0 };
    let (leave, close) = (Step::Leave { who: 0 }, Step::CloseConsumer { who: 0 });
    let advance = |by| Step::Clock(Turn::Advance(by));
    let held = |grace| {
        let takes = times(3, std::slice::from_ref(&take_by));
        [vec![general(), Step::PutMany { tube: 0, count: 5 }, join(grace)], takes].concat()
    };
    let of =
        |name: &str, before, during| Scenario { name: name.into(), before, during: Some(during) };
    vec![
        of(
            "a consumer's grace",
            held(3 * SECOND),
            vec![leave.clone(), put(), advance(3 * SECOND), Step::Tick, take.clone()],
        ),
        of(
            "a consumer comes back",
            [held(60 * SECOND), vec![leave.clone()]].concat(),
            vec![
                join(60 * SECOND),
                resume.clone(),
                Step::Ack { lease: 1 },
                take_by.clone(),
                close.clone(),
            ],
        ),
        of("a consumer's end", held(0), vec![leave.clone(), put(), join(SECOND), close.clone()]),
        of(
            "a close in a grace",
            [held(60 * SECOND), vec![take]].concat(),
            vec![Step::Reopen(End::Close), join(60 * SECOND), resume, close],
        ),
    ]
}

/// Calls of a checkpoint during which verbs run, between the freeze and the new snapshot; the last
/// ones come after it. Faults of every kind strike at some of them, and crashes at all.
const SOME_CALLS: [u8; 5] = [1, 4, 7, 10, 13];
const OTHER_CALLS: [u8; 10] = [2, 3, 5, 6, 8, 9, 11, 12, 14, 15];

/// Checkpoints with verbs during them.
fn checkpoints(calls: &[u8]) -> Vec<Scenario> {
    let take = Step::Take { tube: 0 };
    let before = vec![
        general(),
        Step::PutMany { tube: 0, count: 7 },
        Step::TakeMany { tube: 0, count: 3 },
        Step::Checkpoint,
        put(),
        Step::Ack { lease: 0 },
        put_with(|new| new.relaxed = true),
    ];
    let beside = [
        put_with(|new| new.relaxed = true),
        Step::Ack { lease: 0 },
        Step::TakeMany { tube: 0, count: 4 },
        Step::Release { lease: 1, back: Back::default() },
        Step::BuryAny { tube: 0, task: 0 },
        put(),
        Step::Look,
        put_with(|new| new.relaxed = true),
    ];
    let of = |call: &u8| {
        let during = [
            vec![Step::BeginCheckpoint { at: At::Call(*call) }],
            beside.to_vec(),
            vec![Step::EndCheckpoint, Step::Flush, take.clone(), Step::Checkpoint],
        ];
        let name = format!("beside call {call} of a checkpoint");
        Scenario { name, before: before.clone(), during: Some(during.concat()) }
    };
    calls.iter().map(of).collect()
}

#[derive(Clone)]
struct Crash {
    fault: Fault,
    end: End,
    in_recovery: Vec<u64>,
    /// The seed of the disk's choices after a crash.
    disk_seed: u64,
}

/// The result of a scenario.
struct Played {
    /// The calls that its faulty part made: whether each was a sync.
    calls: Vec<bool>,
    /// How often the process was replaced.
    crashes: u64,
    was_struck: bool,
    /// Of the ends planned in recoveries, those that came only after the recovery.
    late_deaths: u64,
}

/// Plays a scenario once.
fn play(scenario: &Scenario, durability: Durability, crash: &Crash) -> Played {
    let disk = SimDisk::new(crash.disk_seed);
    let mut run = Run::new(Some(disk.clone()), durability);
    if matches!(crash.fault, Fault::ReadOnce(_) | Fault::ReadSticky(_)) {
        run.world.cache_bytes = 0;
    }
    run.after_death = crash.end;
    run.deaths_in_recovery.clone_from(&crash.in_recovery);
    let mut played = Played { calls: Vec::new(), crashes: 0, was_struck: false, late_deaths: 0 };
    let mut verdict = (|| {
        match &scenario.during {
            None => {
                disk.plan(crash.fault);
                run.open()?;
            }
            Some(during) => {
                run.open()?;
                run.play(&scenario.before)?;
                disk.plan(crash.fault);
                run.play(during)?;
                // A call that returned may have left the queue broken.
                run.step(&Step::Look)?;
            }
        }
        // A new process plans again.
        let was_struck = run.crashes > 0 || disk.strikes() > 0;
        let (crashes, late_deaths) = (run.crashes, run.late_deaths);
        played = Played { calls: disk.syncs(), crashes, was_struck, late_deaths };
        if let Fault::Die(at) = crash.fault
            && run.deaths.first() != Some(&at)
        {
            return Err(format!("it was to die at call {at}, and died at {:?}", run.deaths));
        }
        disk.plan(Fault::None);
        run.step(&Step::Look)?;
        run.check()
    })();
    // After every outcome the queue serves, and its results last.
    if verdict.is_ok() {
        let later = [general(), put(), Step::Reopen(End::Cut), Step::Take { tube: 0 }, Step::Look];
        verdict = run.play(&later);
    }
    if let Err(why) = verdict {
        let Crash { fault, end, in_recovery, disk_seed } = crash;
        panic!(
            "{}, {durability:?}, {fault:?}, {end:?}, {in_recovery:?}, seed {disk_seed}: {why}\n{}",
            scenario.name,
            run.trace.join("\n")
        );
    }
    played
}

fn whole(scenario: &Scenario, durability: Durability) -> Vec<bool> {
    let crash = Crash { fault: Fault::None, end: End::Kill, in_recovery: vec![], disk_seed: 0 };
    play(scenario, durability, &crash).calls
}

/// Recoveries of a scenario, from crashes anywhere in it.
const RECOVERIES: u64 = 2;
/// Between two reads of a scenario that fail there are fewer than this.
const READS_APART: u64 = 7;
const LEVELS: [Durability; 2] = [Durability::Durable, Durability::Relaxed];

#[test]
fn the_last_of_the_calls_is_after_the_end_of_the_checkpoint() {
    let before = checkpoints(&[1]).remove(0).before;
    let ends_before = |call: u8| {
        let disk = SimDisk::new(1);
        let mut run = Run::new(Some(disk.clone()), Durability::Durable);
        run.open().and_then(|()| run.play(&before)).unwrap();
        match Beside::begin(run.world.queue(), &disk, At::Call(call)) {
            Ok(beside) => beside.end().map(|()| false).unwrap(),
            Err(done) => done.map(|()| true).unwrap(),
        }
    };
    let last = SOME_CALLS.into_iter().chain(OTHER_CALLS).max().unwrap();
    assert!(!ends_before(1) && ends_before(last));
}

/// Of `count` variants of a fault at one call, the numbers of those to play. A usual run has time
/// for one, drawn for each call, so that none follows the rhythm of a script.
/// `TUBEWELL_TIMES=2` asks for all.
fn variants(no: usize, at: u64, count: u64) -> Range<u64> {
    if wants_more() {
        return 0..count;
    }
    let end = Rng::new((no as u64) << 32 | at).below(count);
    end..end + 1
}

// Two tests, because otherwise one thread would do all the work.
#[test]
fn s1_s2_s5_s6_a_crash_at_every_write_and_sync_durable() {
    crashes_at_every_call(Durability::Durable);
}

#[test]
fn s1_s2_s5_s6_a_crash_at_every_write_and_sync_relaxed() {
    crashes_at_every_call(Durability::Relaxed);
}

fn crashes_at_every_call(durability: Durability) {
    let all = scenarios().into_iter().chain(checkpoints(&OTHER_CALLS));
    for (no, scenario) in all.enumerate() {
        let calls = whole(&scenario, durability);
        for at in 1..=calls.len() as u64 {
            let cuts = if durability == Durability::Durable { 2 } else { 1 };
            for cut in variants(no, at, cuts + 1) {
                let end = if cut == 0 { End::Kill } else { End::Cut };
                let (fault, disk_seed) = (Fault::Die(at), cut + 8 * at);
                play(&scenario, durability, &Crash { fault, end, in_recovery: vec![], disk_seed });
            }
        }
    }
}

#[test]
fn s6_a_crash_in_the_recovery_from_a_crash() {
    for scenario in scenarios() {
        for durability in LEVELS {
            let calls = whole(&scenario, durability);
            // Every call of some recoveries, and a few after their end.
            for seed in seeds(RECOVERIES) {
                let mut rng = Rng::new(seed);
                let fault = Fault::Die(1 + rng.below(calls.len() as u64));
                let (end, disk_seed) = (rng.of(&[End::Kill, End::Cut, End::Cut]), rng.next());
                let mut at = 1;
                loop {
                    let again = rng.one_in(3).then(|| 1 + rng.below(20));
                    let in_recovery: Vec<_> = [Some(at), again].into_iter().flatten().collect();
                    let planned = in_recovery.len() as u64;
                    let crash = Crash { fault, end, in_recovery, disk_seed };
                    if play(&scenario, durability, &crash).late_deaths == planned {
                        break;
                    }
                    at += 1;
                    assert!(at < 500, "{}: {fault:?} has no recovery", scenario.name);
                }
                assert!(at > 8, "{}: {fault:?}, {at} calls of a recovery", scenario.name);
            }
        }
    }
}

#[test]
fn s6_an_error_at_every_call_once_and_from_then_on_durable() {
    errors_at_every_call(Durability::Durable);
}

#[test]
fn s6_an_error_at_every_call_once_and_from_then_on_relaxed() {
    errors_at_every_call(Durability::Relaxed);
}

/// Regression in the model: the write at the end of a grace failed, and a part of it or all of it
/// was on the disk. The model ended the grace with the clock, before anything was written. It did
/// not know the queue in which the leases are left for the next opening, and again for the one
/// after it, if the power fails before a sync.
#[test]
fn a_failed_write_at_the_end_of_a_grace_may_be_on_the_disk() {
    let scenario = consumers().swap_remove(0);
    for disk_seed in 0..50 {
        let (fault, end) = (Fault::Sticky(3), End::Kill);
        let crash = Crash { fault, end, in_recovery: vec![], disk_seed };
        assert_eq!(play(&scenario, Durability::Relaxed, &crash).crashes, 1);
    }
}

fn errors_at_every_call(durability: Durability) {
    for (no, scenario) in scenarios().into_iter().enumerate() {
        let calls = whole(&scenario, durability);
        for (at, is_sync) in (1..).zip(calls) {
            let lost = is_sync.then_some(Fault::LoseSync(at));
            let failing = [Fault::Once(at), Fault::Sticky(at)];
            let failing = variants(no, at | 1 << 31, 2).map(|which| failing[which as usize]);
            for fault in failing.chain(lost) {
                for end in variants(no, at, 2) {
                    let end = [End::Kill, End::Cut][end as usize];
                    let crash = Crash { fault, end, in_recovery: vec![], disk_seed: at };
                    // A process that goes on has no end of another kind.
                    if play(&scenario, durability, &crash).crashes == 0 {
                        break;
                    }
                }
            }
        }
    }
}

#[test]
fn s6_an_error_at_a_read_once_and_from_then_on_durable() {
    errors_at_reads(Durability::Durable);
}

#[test]
fn s6_an_error_at_a_read_once_and_from_then_on_relaxed() {
    errors_at_reads(Durability::Relaxed);
}

/// Without a cache a scenario reads hundreds of times. A usual run has time for a part of them.
fn errors_at_reads(durability: Durability) {
    let mut struck = 0;
    for (no, scenario) in scenarios().into_iter().enumerate() {
        let mut rng = Rng::new(no as u64);
        let mut at = 1;
        loop {
            let mut was_struck = false;
            for fails in variants(no, at, 2) {
                let fault = [Fault::ReadOnce, Fault::ReadSticky][fails as usize](at);
                let end = [End::Kill, End::Cut][at as usize % 2];
                let crash = Crash { fault, end, in_recovery: vec![], disk_seed: at };
                was_struck |= play(&scenario, durability, &crash).was_struck;
            }
            if !was_struck {
                break;
            }
            struck += 1;
            at += if wants_more() { 1 } else { 1 + rng.below(READS_APART) };
        }
    }
    assert!(struck > 150, "{struck} reads failed");
}
