//! Every verb against everything that can be full: the disk, the ring, the bytes of durable and of
//! temporary tubes, a tube's capacity, and that with callers who wait for room and for tasks. Each
//! verb answers within a bounded number of changes to the disk, only what adds may be refused, and
//! what was accepted is there, also after a power cut, until it is taken and acked.
//!
//! A full temporary tube once refused `take`, `delete` and even `close`, and a put inside a
//! transaction went past the checks of a full disk.

mod in_a_transaction;
mod of_a_task;
mod of_the_queue;
mod put_and_take;
mod reads;
mod stage;
mod verbs;

use crate::disk::Fault;
use crate::methods;
use crate::seeds::wants_more;
use stage::{LIMITS, Limit, Stage, WAVE_AT, payload};
use tubewell::{ErrorKind, State};
use verbs::{May, Verb, long, verbs};

/// No verbs of an open queue, or they touch no row: how a full disk is opened is in
/// [`full_disk`](crate::full_disk).
const OTHERS: [&str; 9] = [
    "encode",
    "in_memory",
    "open",
    "open_disk",
    "set_callback",
    "synced",
    "table",
    "weighted",
    "weighted_by_name",
];

/// How many plain puts the ring takes after the others until it begins at its start again.
fn ring_room() -> usize {
    let stage = Stage::new(Limit::Ring, 0);
    let before = stage.queue.space().unwrap().checkpoints;
    let puts = (0..).take_while(|_| {
        stage.tube.put(&payload()).unwrap();
        stage.queue.space().unwrap().checkpoints == before
    });
    puts.count()
}

fn play((verb, may, call): Verb, limit: Limit, ring: usize, is_cut: bool) -> bool {
    let mut stage = Stage::new(limit, ring);
    stage.disk.plan(Fault::None);
    let taken = stage.taken();
    let done = call(&mut stage);
    stage.is_bounded(verb);
    let (is_refused, is_dropped) = match done {
        Ok(change) => {
            stage.there.extend(change.added);
            stage.there.retain(|id| !change.gone.contains(id));
            (false, change.is_dropped)
        }
        Err(error) => {
            let kind = error.kind();
            let is_fair = match (may, limit) {
                (May::Never, _) | (_, Limit::Ring) => false,
                (_, Limit::Disk) => kind == ErrorKind::DiskFull,
                (May::Bytes | May::Payload, Limit::TemporaryBytes)
                | (May::Payload, Limit::DurableBytes) => kind == ErrorKind::Full,
                (May::Bytes | May::Payload, _) => false,
                (May::Always, _) => kind == ErrorKind::Full,
                (May::Disk | May::Row, _) => false,
            };
            assert!(is_fair, "{verb}, {limit:?}: {error}");
            (true, false)
        }
    };
    // What brings bytes and no task is refused where bytes are full.
    let is_full = match may {
        May::Row => limit == Limit::Disk,
        May::Bytes => matches!(limit, Limit::Disk | Limit::TemporaryBytes),
        May::Payload => {
            matches!(limit, Limit::Disk | Limit::TemporaryBytes | Limit::DurableBytes)
        }
        May::Never | May::Disk | May::Always => false,
    };
    assert!(is_refused || !is_full, "{verb}, {limit:?}: was not refused");
    if is_refused {
        stage.are_taken(verb, &taken);
    }
    stage.look(verb);
    if is_cut && !is_dropped && limit != Limit::Waiters {
        stage.held = None;
        stage.disk.cut_power();
        (stage.queue, stage.tube) = Stage::open(limit, &stage.disk, &stage.clock);
        stage.side = stage.queue.tube("side").unwrap();
        if limit == Limit::TemporaryBytes {
            stage.there.clear();
        }
        stage.look(verb);
        stage.drain(verb, false);
    } else {
        stage.drain(verb, is_dropped);
    }
    is_refused
}

#[test]
fn every_method_that_can_fail_is_a_verb_here() {
    let files = ["of_a_task", "of_the_queue", "put_and_take", "reads"];
    let files = files.map(|name| format!("sim/full/{name}.rs"));
    let missing = methods::uncalled(&files.each_ref().map(String::as_str));
    assert_eq!(missing, OTHERS.map(str::to_owned).into());
}

/// The verdicts that settle a task are methods of several types, by a macro.
#[test]
fn every_verdict_is_a_verb_here_of_a_task_and_in_a_transaction() {
    let read = |path: &str| {
        std::fs::read_to_string(format!("{}/{path}", env!("CARGO_MANIFEST_DIR"))).unwrap()
    };
    let verdicts = read("src/api/verdicts.rs");
    let settling = verdicts.split("\n    keeps {").next().unwrap().lines();
    let settling = settling.filter(|line| line.contains("=> Verdict"));
    let names: Vec<_> = settling.map(|line| line.trim().split('(').next().unwrap()).collect();
    assert!(names.len() > 10, "{names:?}");
    for (file, receiver) in [("of_a_task", ""), ("in_a_transaction", "tx")] {
        let here = read(&format!("tests/sim/full/{file}.rs"));
        let missing = names.iter().find(|name| !here.contains(&format!("{receiver}.{name}(")));
        assert_eq!(missing, None, "{file}");
    }
}

#[test]
fn r3_every_verb_against_everything_that_can_be_full() {
    let ring = ring_room();
    assert!(ring > 4, "{ring}");
    for limit in LIMITS {
        let mut refused = 0;
        for (no, verb) in verbs().into_iter().enumerate() {
            for is_cut in [false, true] {
                // A usual run has time for one of them, each at every second limit.
                let is_next = is_cut == (no + limit as usize).is_multiple_of(2);
                if is_next || wants_more() {
                    refused += usize::from(play(verb, limit, ring, is_cut));
                }
            }
        }
        // Else nothing was full.
        assert_eq!(refused == 0, limit == Limit::Ring, "{limit:?}");
    }
}

/// A fire takes room as a put does: on a full disk it waits, and is made when acks have made room.
#[test]
fn r3_schedules_fall_due_when_everything_is_full() {
    let ring = ring_room();
    for limit in LIMITS.into_iter().filter(|limit| *limit != Limit::Waiters) {
        let mut stage = Stage::new(limit, ring);
        let made = stage.queue.schedule_named("plan");
        stage.disk.plan(Fault::None);
        stage.clock.advance(WAVE_AT * 9);
        stage.queue.tick().unwrap();
        stage.is_bounded("fire");
        let info = made.info().unwrap();
        let is_made = info.children == 1;
        assert!(is_made || limit == Limit::Disk, "{limit:?}: {info:?}");
        assert_eq!(info.missed_fires, 0, "{limit:?}");
        stage.held = None;
        while let Some(task) = stage.tube.try_take().unwrap() {
            task.ack().unwrap();
        }
        stage.clock.advance(WAVE_AT);
        stage.queue.tick().unwrap();
        let info = made.info().unwrap();
        assert_eq!((info.children, info.missed_fires), (1, 0), "{limit:?}");
        assert_eq!(stage.queue.check().unwrap(), Vec::<String>::new());
    }
}

/// Workers that fail on a full disk return their tasks one by one, each with a long error, of which
/// little is kept: errors of 4 KiB would use up what a full disk has left for acks. When nothing is
/// left for more rows the verdict is refused, the task is free again with its guard, and the acks
/// go on.
#[test]
fn r3_tasks_in_hand_are_returned_on_a_full_disk() {
    let mut stage = Stage::new(Limit::Disk, ring_room());
    let taken = stage.tube.take_many(1000).unwrap();
    assert!(taken.len() > 200, "{} tasks", taken.len());
    let (mut returned, mut refused) = (0, 0);
    for (at, task) in taken.into_iter().enumerate() {
        let id = task.id();
        let done = match at % 3 {
            0 => task.retry(long()),
            1 => task.bury(long()),
            _ => task.fail("group", long()),
        };
        let found = stage.tube.peek(id).unwrap();
        if let Err(error) = done {
            assert_eq!((error.kind(), found.state), (ErrorKind::DiskFull, State::Ready));
            refused += 1;
        } else {
            let failure = found.last_failure.as_ref();
            let text = failure.map_or(64, |failure| failure.message.len());
            let reason = found.reason.as_ref().map_or(0, |reason| reason.to_string().len());
            assert!(text == 64 && reason < 100, "{text} {reason}");
            returned += 1;
        }
    }
    assert!(returned > 10 && refused > 0, "{returned} returned, {refused} refused");
    // Until here nothing is lost, and takes and acks make room.
    stage.held = None;
    stage.look("returned");
    stage.tube.release_all().unwrap();
    for _ in 0..3 {
        stage.clock.advance(WAVE_AT);
        stage.tube.kick(u64::MAX).unwrap();
        // With room the timer lets a blocked task through.
        stage.queue.tick().unwrap();
        while let Some(task) = stage.tube.try_take().unwrap() {
            task.ack().unwrap();
        }
    }
    stage.tube.empty_trash().unwrap();
    assert_eq!(stage.tube.len().unwrap(), 0);
    assert_eq!(stage.queue.check().unwrap(), Vec::<String>::new());
    stage.queue.close().unwrap();
}
