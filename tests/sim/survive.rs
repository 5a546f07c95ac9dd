//! What survives, as the table in the README states it: one plain story for each cell that the
//! crashes at every call in `scenarios` show only among many others.

use crate::disk::{Fault, SimDisk};
use crate::script::Rng;
use crate::seeds::{are_all, seeds};
use crate::trust::{numbers, open, put};
use std::time::Duration;
use tubewell::{
    Advance, Clock, Durability, ManualClock, Queue, Retention, State, Task, TaskId, TaskInfo, Tube,
    TubeOptions,
};

const LEVELS: [Durability; 2] = [Durability::Durable, Durability::Relaxed];

/// How a process ends.
const ENDS: [fn(&SimDisk); 2] = [SimDisk::kill, SimDisk::cut_power];

/// The syncs since the last plan, and all calls that change something.
fn calls(disk: &SimDisk) -> (usize, usize) {
    let calls = disk.syncs();
    (calls.iter().filter(|is_sync| **is_sync).count(), calls.len())
}

#[test]
fn a_durable_call_returns_when_it_is_synced_and_nothing_undoes_it() {
    for end in ENDS {
        for seed in seeds(40) {
            let disk = SimDisk::new(seed);
            let (queue, tube) = open(&disk, Durability::Durable);
            (0..3).for_each(|number| put(&tube, number).unwrap());
            let task = tube.take().unwrap();
            disk.plan(Fault::None);
            task.ack().unwrap();
            assert_eq!(calls(&disk).0, 1);
            end(&disk);
            drop((queue, tube));
            assert_eq!(numbers(&open(&disk, Durability::Durable).0), [1, 2], "seed {seed}");
        }
    }
}

#[test]
fn a_relaxed_call_returns_when_it_is_written_and_no_kill_undoes_it() {
    let disk = SimDisk::new(1);
    let (queue, tube) = open(&disk, Durability::Relaxed);
    disk.plan(Fault::None);
    (0..20).for_each(|number| put(&tube, number).unwrap());
    tube.take().unwrap().ack().unwrap();
    assert_eq!(calls(&disk), (0, 22));
    disk.kill();
    drop((queue, tube));
    let (queue, _) = open(&disk, Durability::Relaxed);
    assert_eq!(numbers(&queue), (1..20).collect::<Vec<_>>());
}

/// By hand, so that no thread syncs: the callers themselves do.
#[test]
fn a_power_cut_undoes_a_flush_interval_of_relaxed_writes_as_a_suffix() {
    let interval = Duration::from_millis(50);
    let mut lost = 0;
    for seed in seeds(80) {
        let (disk, clock) = (SimDisk::new(seed), ManualClock::new());
        let builder = Queue::builder().durability(Durability::Relaxed).clock(clock.clone());
        let queue = builder.by_hand(true).disk(disk.lend()).open_disk().unwrap();
        let tube = queue.tube("t").unwrap();
        let mut rng = Rng::new(seed);
        let times: Vec<_> = (0..60)
            .map(|number| {
                clock.advance(Duration::from_millis(rng.below(20)));
                put(&tube, number).unwrap();
                clock.monotonic()
            })
            .collect();
        disk.cut_power();
        drop((queue, tube));
        let found = numbers(&open(&disk, Durability::Durable).0);
        assert_eq!(found, (0..found.len() as u64).collect::<Vec<_>>(), "seed {seed}: a prefix");
        let gone = &times[found.len()..];
        let early = gone.iter().filter(|time| **time + interval < clock.monotonic()).count();
        assert_eq!(early, 0, "seed {seed}: {early} of {} are too old to be lost", gone.len());
        lost += gone.len();
    }
    assert!(!are_all() || lost > 0, "no power cut took anything");
}

/// A verb by its name.
type Verb = (&'static str, fn(&Tube));

const HOLDERS_VERBS: [Verb; 4] = [
    ("take", |tube| {
        tube.take().unwrap().detach();
    }),
    ("touch", |tube| {
        let task = tube.take().unwrap();
        task.touch(Duration::from_secs(9)).unwrap();
        task.detach();
    }),
    ("release", |tube| tube.take().unwrap().release().unwrap()),
    ("drop", |tube| drop(tube.take().unwrap())),
];

/// What a holder says of its work without bringing bytes.
const REPORTS: [Verb; 4] = [
    ("start", |tube| {
        let task = tube.take().unwrap();
        task.start("pid 1").unwrap();
        task.detach();
    }),
    ("progress", |tube| {
        let task = tube.take().unwrap();
        task.progress(40, "line 1000").unwrap();
        task.detach();
    }),
    ("log", |tube| {
        let task = tube.take().unwrap();
        task.log("line 1000").unwrap();
        task.detach();
    }),
    ("renew", |tube| {
        let task = tube.take().unwrap();
        task.renew_for(Duration::from_secs(90)).unwrap();
        task.detach();
    }),
];

/// A task before one of these verbs, after it, and after the end and the opening that followed.
fn held(level: Durability, verb: fn(&Tube), end: fn(&SimDisk), seed: u64) -> [TaskInfo; 3] {
    let disk = SimDisk::new(seed);
    let (queue, tube) = open(&disk, level);
    let id = tube.task(&[7; 8]).ttr(Duration::from_secs(60)).put().unwrap();
    put(&tube, 8).unwrap();
    // The first entry of a history and the first report enter a feature each, once for the queue
    // and with a sync.
    tube.log(id, "first").unwrap();
    let task = tube.take().unwrap();
    task.start("first").unwrap();
    task.release().unwrap();
    queue.flush().unwrap();
    let before = tube.peek(id).unwrap();
    disk.plan(Fault::None);
    verb(&tube);
    let (syncs, writes) = calls(&disk);
    assert!(syncs == 0 && writes > 0, "{syncs} syncs, {writes} writes");
    let after = tube.peek(id).unwrap();
    end(&disk);
    drop((queue, tube));
    let (queue, tube) = open(&disk, level);
    assert_eq!(numbers(&queue), [u64::from_be_bytes([7; 8]), 8]);
    [before, after, tube.peek(id).unwrap()]
}

fn counts(task: &TaskInfo) -> (u32, u32, u32, Option<Duration>) {
    (task.deliveries, task.attempts, task.releases, task.ttr)
}

#[test]
fn a_kill_undoes_no_take_touch_release_or_drop() {
    for level in LEVELS {
        for (name, verb) in HOLDERS_VERBS {
            let [before, after, found] = held(level, verb, SimDisk::kill, 1);
            assert_ne!(counts(&before), counts(&after), "{name} changes something");
            assert_eq!(counts(&found), counts(&after), "{name}, {level:?}");
            assert_eq!(found.state, State::Ready, "{name}: every lease is void");
        }
    }
}

#[test]
fn a_power_cut_undoes_a_lease_and_its_attempt_and_nothing_else() {
    for level in LEVELS {
        for (name, verb) in HOLDERS_VERBS {
            let mut taken_back = 0;
            for seed in seeds(40) {
                let [before, after, found] = held(level, verb, SimDisk::cut_power, seed);
                assert_eq!((found.state, &found.payload), (State::Ready, &before.payload));
                let attempts = [before.attempts, after.attempts, before.attempts + 1];
                assert!(attempts.contains(&found.attempts), "{name}, {level:?}: {found:?}");
                taken_back += usize::from(counts(&found) == counts(&before));
            }
            assert!(!are_all() || taken_back > 0, "{name}, {level:?}: it is not waited for");
        }
    }
}

#[test]
fn a_kill_undoes_no_report() {
    for level in LEVELS {
        for (name, verb) in REPORTS {
            let [_, after, found] = held(level, verb, SimDisk::kill, 1);
            assert_eq!(counts(&found), counts(&after), "{name}, {level:?}");
            assert_eq!(found.progress, after.progress, "{name}, {level:?}");
            assert_eq!(found.history, after.history, "{name}, {level:?}");
            assert_eq!((found.state, &found.phase), (State::Ready, &None), "{name}");
        }
    }
}

#[test]
fn a_power_cut_undoes_a_report_and_its_attempt_and_nothing_else() {
    for level in LEVELS {
        for (name, verb) in REPORTS {
            let mut taken_back = 0;
            for seed in seeds(40) {
                let [before, after, found] = held(level, verb, SimDisk::cut_power, seed);
                assert_eq!((found.state, &found.payload), (State::Ready, &before.payload));
                let is_before = found.progress == before.progress;
                assert!(is_before || found.progress == after.progress, "{name}, {level:?}");
                assert!(found.history >= before.history, "{name}, {level:?}: {found:?}");
                taken_back += usize::from(counts(&found) == counts(&before) && is_before);
            }
            assert!(!are_all() || taken_back > 0, "{name}, {level:?}: it is not waited for");
        }
    }
}

/// A verb that brings bytes, and whether they are there.
type Bringing = (&'static str, fn(Task, &Tube), fn(&Tube, TaskId) -> bool);

const BRINGING: [Bringing; 4] = [
    (
        "checkpoint",
        |task, _| {
            task.checkpoint(b"from here").unwrap();
            task.detach();
        },
        |tube, id| tube.last_checkpoint(id).unwrap().is_some(),
    ),
    (
        "renew",
        |mut task, _| {
            task.with_payload(b"new").renew().unwrap();
            task.detach();
        },
        |tube, id| tube.peek(id).unwrap().payload == b"new",
    ),
    (
        "ack_with",
        |task, _| task.ack_with(b"new").unwrap(),
        |tube, id| tube.peek(id).unwrap().result.is_some(),
    ),
    (
        "advance_with",
        |mut task, tube| task.advance_with(tube, Advance::new().result(b"new")).unwrap(),
        |tube, id| tube.peek(id).unwrap().passed.is_some(),
    ),
];

/// Whether what a verb has brought to a task is there after the end that follows it.
fn is_brought(level: Durability, bringing: Bringing, end: fn(&SimDisk), seed: u64) -> bool {
    let (name, verb, is_there) = bringing;
    let disk = SimDisk::new(seed);
    let (queue, _) = open(&disk, level);
    let options = TubeOptions::default().keep_finished(Retention::new());
    let tube = queue.create_tube("kept", options).unwrap();
    // The first verb of each kind enters a feature, with a sync.
    tube.put(b"first").unwrap();
    verb(tube.take().unwrap(), &tube);
    let id = tube.put(b"old").unwrap();
    let task = tube.claim(id).unwrap();
    queue.flush().unwrap();
    disk.plan(Fault::None);
    verb(task, &tube);
    let is_durable = level == Durability::Durable;
    assert_eq!(calls(&disk).0, usize::from(is_durable), "{name}: as a put");
    end(&disk);
    drop((queue, tube));
    let (queue, _) = open(&disk, level);
    assert_eq!(queue.check().unwrap(), Vec::<String>::new());
    is_there(&queue.tube("kept").unwrap(), id)
}

#[test]
fn nothing_undoes_a_durable_verb_that_brings_bytes_and_no_kill_a_relaxed_one() {
    use Durability::{Durable, Relaxed};
    let [kill, cut_power] = ENDS;
    for bringing in BRINGING {
        for seed in seeds(20) {
            for (level, end) in [(Durable, kill), (Durable, cut_power), (Relaxed, kill)] {
                let brought = is_brought(level, bringing, end, seed);
                assert!(brought, "{}, {level:?}, seed {seed}", bringing.0);
            }
            // A power cut takes back a relaxed one at most as a whole; what is left is sound.
            is_brought(Relaxed, bringing, cut_power, seed);
        }
    }
}

#[test]
fn either_end_removes_the_tasks_of_a_temporary_tube_and_keeps_the_tube() {
    let options = TubeOptions::default().temporary(true);
    for end in ENDS {
        for level in LEVELS {
            let disk = SimDisk::new(1);
            let (queue, tube) = open(&disk, level);
            put(&tube, 1).unwrap();
            let temporary = queue.create_tube("temporary", options.clone()).unwrap();
            queue.flush().unwrap();
            disk.plan(Fault::None);
            put(&temporary, 2).unwrap();
            put(&temporary, 3).unwrap();
            temporary.take().unwrap().ack().unwrap();
            assert_eq!(calls(&disk), (0, 0), "they never touch the disk");
            end(&disk);
            drop((queue, tube, temporary));
            let (queue, _) = open(&disk, level);
            assert_eq!(numbers(&queue), [1]);
            let temporary = queue.find_tube("temporary").unwrap().unwrap();
            assert_eq!(temporary.info().unwrap().options, options);
            assert!(temporary.is_empty().unwrap());
        }
    }
}
