//! Full disks, block budget by block budget: a refused call changes nothing, promised calls work,
//! and with free space the same queue serves as before.

use crate::disk::{Fault, SimDisk};
use crate::seeds::{are_all, seeds};
use crate::trust::{numbers, open, open_at, open_on, put};
use redb::ReadableTable;
use std::collections::BTreeSet;
use std::time::Duration;
use tubewell::testing::Found;
use tubewell::{
    Durability, ErrorKind, ManualClock, Queue, Release, Result, State, Task, TaskId, Tube,
    TubeOptions,
};

/// Budgets are tried until so many in a row refused nothing: larger ones give the same result.
const AMPLE: u64 = 3;
/// Blocks from one budget to the next: odd, since every second budget is killed in the middle.
const STEP: usize = 13;
/// Numbers of the calls at which a crash or a lost sync comes.
const CRASHES: u64 = 30;

/// R3: a queue is made with as many blocks as it needs or not at all, which is reported, and then
/// the next creation works, with the same disk or after a power cut.
#[test]
fn r3_a_creation_at_every_block_budget() {
    for make in [SimDisk::new, SimDisk::with_a_folder] {
        let created = (1..).find(|budget| {
            let disk = make(*budget);
            disk.set_quota(*budget as usize - 1);
            let refused = open_on(disk.lend(), Durability::Durable).err();
            if let Some(error) = &refused {
                assert_eq!(error.kind(), ErrorKind::DiskFull, "budget {budget}: {error}");
                let found = disk.lend().found().unwrap();
                assert!(found != Found::Nothing || disk.blocks() == 0, "budget {budget}");
            }
            if budget % 2 == 0 {
                disk.cut_power();
            }
            disk.set_quota(usize::MAX);
            let (queue, tube) = open(&disk, Durability::Durable);
            tube.put(&7_u64.to_be_bytes()).unwrap();
            assert_eq!(numbers(&queue), [7], "budget {budget}");
            refused.is_none()
        });
        assert!(created > Some(16), "{created:?}");
    }
}

/// R3: from an almost empty disk to the full need of a queue, block by block: puts are refused once
/// it is full, acks work until the queue is empty, and with free space the same queue accepts puts
/// again. Confirmed changes last.
#[test]
fn r3_every_block_budget_of_a_full_disk() {
    let payload = |number: u64| {
        let mut bytes = vec![number as u8; 1500];
        bytes[..8].copy_from_slice(&number.to_be_bytes());
        bytes
    };
    let mut ample = 0;
    for budget in (0..).step_by(STEP) {
        if ample == AMPLE {
            assert!(budget > 100, "budget {budget}: everything went in");
            break;
        }
        let disk = SimDisk::new(budget as u64);
        let clock = ManualClock::new();
        let (queue, tube) = open_at(&disk, Durability::Durable, &clock);
        disk.set_quota(disk.blocks() + budget);
        let mut there = Vec::new();
        let mut refused = false;
        for number in 0..2000u64 {
            match tube.put(&payload(number)) {
                Ok(_) => there.push(number),
                Err(error) => {
                    assert!(error.is_full(), "budget {budget}: a put says {error}");
                    refused = true;
                    if there.len() as u64 + 3 < number {
                        break;
                    }
                }
            }
        }
        ample = if refused { 0 } else { ample + 1 };
        // Acks are promised at every budget, half of them one by one and half by tens.
        for round in 0.. {
            let most = if round % 2 == 0 { 1 } else { 10 };
            let tasks = tube.take_many(most).unwrap_or_else(|e| panic!("budget {budget}: {e}"));
            if tasks.is_empty() {
                break;
            }
            there.drain(..tasks.len());
            tube.ack_many(tasks).unwrap_or_else(|e| panic!("budget {budget}: {e}"));
            if budget % 2 == 1 && there.len() < 300 {
                // The process ends in the middle of it, and the disk is as full as before.
                break;
            }
        }
        if !there.is_empty() {
            disk.cut_power();
            drop((queue, tube));
            let (queue, tube) = open(&disk, Durability::Durable);
            assert_eq!(tube.len().unwrap(), there.len() as u64, "budget {budget}");
            while let Some(task) = tube.try_take().unwrap() {
                task.ack().unwrap_or_else(|e| panic!("budget {budget}: {e}"));
            }
            assert_eq!(queue.check().unwrap(), Vec::<String>::new());
            continue;
        }
        assert_eq!(tube.len().unwrap(), 0, "budget {budget}");
        disk.set_quota(usize::MAX);
        // Space was freed: the next checkpoint finds it, also one without rows, and at the latest
        // the first put a second after the last try.
        if budget % 4 == 0 {
            queue.checkpoint().unwrap_or_else(|e| panic!("budget {budget}: {e}"));
        } else if let Err(error) = tube.put(&payload(4)) {
            assert_eq!(error.kind(), ErrorKind::DiskFull, "budget {budget}");
            clock.advance(Duration::from_secs(1));
        } else {
            tube.take().unwrap().ack().unwrap();
        }
        let id = tube.put(&payload(5)).unwrap_or_else(|e| panic!("budget {budget}: {e}"));
        disk.cut_power();
        drop((queue, tube));
        let (queue, tube) = open(&disk, Durability::Durable);
        assert_eq!(queue.check().unwrap(), Vec::<String>::new());
        assert_eq!(tube.len().unwrap(), 1, "budget {budget}");
        assert_eq!(tube.try_take().unwrap().unwrap().id(), id);
    }
}

/// R3 without acks: a full queue refuses puts and keeps its tasks; with free space the same queue
/// accepts puts again, and everything confirmed is there, also after a power cut.
#[test]
fn r3_room_that_comes_back_is_used_by_the_queue_that_ran_full() {
    for budget in (8..200).step_by(16) {
        let (disk, clock) = (SimDisk::new(budget), ManualClock::new());
        let (queue, tube) = open_at(&disk, Durability::Durable, &clock);
        disk.set_quota(disk.blocks() + budget as usize);
        let (mut there, mut number) = (Vec::new(), 0);
        for round in 0..3 {
            let mut refused = 0;
            while refused < 3 {
                match put(&tube, number) {
                    Ok(()) => there.push(number),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::DiskFull, "budget {budget}: {error}");
                        refused += 1;
                    }
                }
                number += 1;
            }
            assert_eq!(numbers(&queue), there, "budget {budget}, round {round}");
            disk.set_quota(disk.blocks() + 256);
            clock.advance(Duration::from_secs(1));
            put(&tube, number).unwrap_or_else(|error| panic!("budget {budget}: {error}"));
            there.push(number);
            number += 1;
        }
        assert_eq!(numbers(&queue), there, "budget {budget}");
        disk.cut_power();
        drop((queue, tube));
        // An opening needs space, too.
        assert_eq!(numbers(&open(&disk, Durability::Durable).0), there, "budget {budget}");
    }
}

/// R3 for transactions: at every block budget each is done or refused as a whole, the tasks and the
/// application's rows together, and with free space the same queue commits them again.
#[test]
fn r3_a_transaction_at_every_block_budget_is_done_or_not() {
    const OWN: redb::TableDefinition<u64, &[u8]> = redb::TableDefinition::new("own");
    let own = |queue: &Queue| {
        let rows = queue.read(|reading| -> Result<Vec<u64>> {
            reading.table(OWN)?.iter()?.map(|row| Ok(row?.0.value())).collect()
        });
        // The table comes with the first row.
        rows.unwrap_or_default()
    };
    let bytes = [7; 20_000];
    let (mut refusals, mut ample) = (0, 0);
    for budget in (0..).step_by(STEP) {
        if ample == AMPLE {
            break;
        }
        let before = refusals;
        let disk = SimDisk::new(budget as u64);
        let (queue, tube) = open(&disk, Durability::Durable);
        disk.set_quota(disk.blocks() + budget);
        let transact = |number: u64| {
            queue.transact(|tx| {
                tx.table(OWN)?.insert(number, bytes.as_slice())?;
                tx.put(&tube, &number.to_be_bytes()).map(drop)
            })
        };
        let mut there = Vec::new();
        for number in 0..100 {
            match transact(number) {
                Ok(()) => there.push(number),
                Err(error) => {
                    let reported = error.kind();
                    let cause = error.into_source().and_then(|cause| cause.downcast().ok());
                    let reported =
                        cause.map_or(reported, |cause: Box<tubewell::Error>| cause.kind());
                    assert_eq!(reported, ErrorKind::DiskFull, "budget {budget}");
                    refusals += 1;
                }
            }
            if refusals % 8 == 1 {
                assert_eq!((numbers(&queue), own(&queue)), (there.clone(), there.clone()));
            }
        }
        ample = if refusals > before { 0 } else { ample + 1 };
        assert_eq!((numbers(&queue), own(&queue)), (there.clone(), there.clone()));
        if budget % 2 == 0 {
            disk.set_quota(usize::MAX);
            transact(100).unwrap_or_else(|error| panic!("budget {budget}: {error}"));
            there.push(100);
        }
        disk.cut_power();
        drop((queue, tube));
        let (queue, _) = open(&disk, Durability::Durable);
        assert_eq!((numbers(&queue), own(&queue)), (there.clone(), there), "budget {budget}");
    }
    assert!(refusals > 100, "{refusals}");
}

/// What the run below does to a full queue, one verb after the other.
struct Full {
    queue: Queue,
    tube: Tube,
    /// Exactly the tasks in the tube.
    there: BTreeSet<TaskId>,
    /// Tubes that were made and not dropped again.
    made: Vec<String>,
    /// What the full disk refused.
    refused: Vec<&'static str>,
    budget: usize,
}

impl Full {
    /// Whether it was done; a full disk may refuse it, and no other error is allowed.
    fn may<T>(&mut self, verb: &'static str, done: Result<T>) -> Option<T> {
        let budget = self.budget;
        match done {
            Ok(done) => Some(done),
            Err(error) if error.kind() == ErrorKind::DiskFull => {
                self.refused.push(verb);
                None
            }
            Err(error) => panic!("budget {budget}: {verb}: {error}"),
        }
    }

    /// What is promised on every full disk.
    fn must<T>(&self, verb: &str, done: Result<T>) -> T {
        done.unwrap_or_else(|error| panic!("budget {}: {verb}: {error}", self.budget))
    }

    fn task(&self) -> Option<Task> {
        self.must("take", self.tube.try_take())
    }

    fn delete(&mut self, id: TaskId) {
        self.must("delete", self.tube.delete(id));
        assert!(self.there.remove(&id));
    }

    fn step(&mut self, step: u64) {
        let long = "r".repeat(4096);
        match step % 12 {
            0 | 6 => {
                let id = *self.there.first().unwrap();
                self.delete(id);
            }
            3 | 9 => {
                let id = *self.there.last().unwrap();
                self.delete(id);
            }
            1 => {
                if let Some(task) = self.task() {
                    self.may("retry", task.retry(&long));
                }
            }
            2 => {
                if let Some(task) = self.task() {
                    self.may("bury", task.bury(&long));
                }
            }
            4 => {
                if let Some(task) = self.task() {
                    self.must("renew", task.renew_for(Duration::from_secs(60)));
                    self.must("release", task.release());
                }
                if let Some(task) = self.task() {
                    let terms = Release::new().to_back();
                    self.may("release to the back", task.release_with(terms));
                }
            }
            5 => {
                let kicked = self.tube.kick(3);
                self.may("kick", kicked);
            }
            7 => {
                let id = *self.there.iter().nth(self.there.len() / 2).unwrap();
                self.may("bury by id", self.tube.bury(id, &long));
            }
            8 => {
                let name = format!("made at {step}");
                let made = self.queue.create_tube(&name, TubeOptions::default());
                if self.may("create_tube", made).is_some() {
                    self.made.push(name);
                }
            }
            10 => {
                if let Some(name) = self.made.pop() {
                    self.must("drop_tube", self.queue.drop_tube(&name));
                }
            }
            _ => {
                let joined = self.queue.consumer(&format!("joined at {step:0>200}"));
                let Some(consumer) = self.may("consumer", joined) else { return };
                if let Some(task) = self.must("take", self.tube.by(&consumer).try_take()) {
                    assert!(self.there.remove(&task.id()));
                    self.must("ack", task.ack());
                }
            }
        }
    }

    /// The ids of the tube's tasks, in every state.
    fn found(&self) -> BTreeSet<TaskId> {
        let states = [State::Ready, State::Taken, State::Delayed, State::Buried];
        let tasks = states.into_iter().flat_map(|state| self.tube.tasks(state));
        tasks.map(|task| task.unwrap().id).collect()
    }
}

/// R3 for the other verbs: a full queue is emptied by deletes while tasks are buried and retried
/// with long texts, released and kicked, tubes made, truncated and dropped, and consumers join. The
/// full disk may refuse verbs that add to the queue; nothing else is refused, and nothing is lost.
#[test]
fn r3_a_full_queue_is_emptied_by_deletes_among_all_other_verbs() {
    let (mut ample, mut refused) = (0, BTreeSet::new());
    for budget in (0..).step_by(48) {
        if ample == 2 {
            assert!(budget > 100, "budget {budget}: everything went in");
            break;
        }
        let disk = SimDisk::new(budget as u64);
        let clock = ManualClock::new();
        let (queue, tube) = open_at(&disk, Durability::Durable, &clock);
        let sides = ["cut", "dropped"].map(|name| queue.tube(name).unwrap());
        for side in &sides {
            side.put_many((0..100).map(|_| vec![5; 100])).unwrap();
        }
        disk.set_quota(disk.blocks() + budget);
        let mut full = Full {
            queue,
            tube,
            there: BTreeSet::new(),
            made: Vec::new(),
            refused: Vec::new(),
            budget,
        };
        while full.refused.len() < 3 && full.there.len() < 2000 {
            let put = full.tube.put(&[3; 1500]);
            if let Some(id) = full.may("put", put) {
                full.there.insert(id);
            }
        }
        ample = if full.refused.is_empty() { ample + 1 } else { 0 };
        full.refused.clear();
        let [cut, dropped] = sides;
        // At first nothing is deleted, so that the long texts need space.
        for step in 0.. {
            if full.there.is_empty() {
                break;
            }
            let grows = step < 3000 && full.refused.len() < 60;
            if !(grows && step % 3 == 0) {
                full.step(step);
            }
            if step == 20 {
                assert_eq!(full.must("truncate", cut.truncate()), 100);
            }
            if step == 40 {
                full.must("drop_tube", full.queue.drop_tube("dropped"));
                assert!(dropped.len().is_err());
            }
            if step == 60 && budget % 96 == 0 {
                // The process ends in the middle of it, and the disk is as full as before.
                disk.cut_power();
                let (queue, tube) = open_at(&disk, Durability::Durable, &clock);
                (full.queue, full.tube) = (queue, tube);
                assert_eq!(full.found(), full.there, "budget {budget}");
            }
        }
        assert_eq!(full.tube.len().unwrap(), 0, "budget {budget}");
        assert_eq!(full.queue.check().unwrap(), Vec::<String>::new(), "budget {budget}");
        refused.extend(full.refused.drain(..));

        disk.set_quota(usize::MAX);
        clock.advance(Duration::from_secs(1));
        let id = full.tube.put(&[4; 400]).unwrap_or_else(|e| panic!("budget {budget}: {e}"));
        disk.cut_power();
        drop(full);
        let (queue, tube) = open(&disk, Durability::Durable);
        assert_eq!(queue.check().unwrap(), Vec::<String>::new());
        assert_eq!(tube.len().unwrap(), 1, "budget {budget}");
        assert_eq!(tube.try_take().unwrap().unwrap().id(), id);
    }
    for verb in ["retry", "bury", "bury by id", "create_tube", "consumer"] {
        assert!(refused.contains(verb), "{verb} never reached the full disk: {refused:?}");
    }
    assert!(!refused.contains("kick"), "it adds nothing");
}

/// R3, regression: all tasks of a full queue fall due at once, and no other is ready. Each is taken
/// and acked. Takes found none, because due tasks moved only while puts had space.
#[test]
fn r3_tasks_that_fall_due_at_every_block_budget_are_taken() {
    for budget in (8..400).step_by(STEP) {
        let (disk, clock) = (SimDisk::new(budget), ManualClock::new());
        let (queue, tube) = open_at(&disk, Durability::Durable, &clock);
        disk.set_quota(disk.blocks() + budget as usize);
        let minute = Duration::from_secs(60);
        let put = |_: &u64| tube.task(&[6; 300]).delay(minute).put().is_ok();
        let there = (0..2000).take_while(put).count();
        clock.advance(minute);
        for left in (0..there).rev() {
            let task = tube.try_take().unwrap_or_else(|e| panic!("budget {budget}: {e}"));
            let task = task.unwrap_or_else(|| panic!("budget {budget}: {left} tasks and more"));
            task.ack().unwrap_or_else(|e| panic!("budget {budget}: {e}"));
        }
        assert!(tube.try_take().unwrap().is_none());
        assert_eq!(queue.check().unwrap(), Vec::<String>::new(), "budget {budget}");
    }
}

/// R3, regression: a paused tube of ready tasks was taken for one that a take can empty. Where the
/// journal had little space left its pause did not end.
#[test]
fn r3_pauses_end_while_the_journal_of_a_full_disk_fills_and_is_carried() {
    let (disk, clock) = (SimDisk::new(1), ManualClock::new());
    let (queue, busy) = open_at(&disk, Durability::Durable, &clock);
    let minute = Duration::from_secs(60);
    let paused: Vec<_> = (1..=70)
        .map(|number: u32| {
            let tube = queue.tube(&number.to_string()).unwrap();
            tube.put(b"x").unwrap();
            tube.pause_for(minute * number).unwrap();
            tube
        })
        .collect();
    disk.set_quota(disk.blocks() + 50);
    while put(&busy, 1).is_ok() {}
    for (number, tube) in paused.iter().enumerate() {
        for _ in 0..7 {
            busy.take().unwrap().release().unwrap();
        }
        clock.advance(minute);
        let task = tube.try_take().unwrap_or_else(|e| panic!("pause {number}: {e}"));
        task.unwrap_or_else(|| panic!("pause {number} did not end")).ack().unwrap();
    }
    assert_eq!(queue.check().unwrap(), Vec::<String>::new());
}

/// R3, regression: a put inside `transact` skipped the checks of the plain verbs. A full disk must
/// refuse it like any other put, and the space kept for acks stays.
#[test]
fn r3_a_put_inside_a_transaction_is_refused_by_a_full_disk() {
    for budget in (8..200).step_by(16) {
        let (disk, clock) = (SimDisk::new(budget), ManualClock::new());
        let (queue, tube) = open_at(&disk, Durability::Durable, &clock);
        disk.set_quota(disk.blocks() + budget as usize);
        let there = (0..).take_while(|number| put(&tube, *number).is_ok()).count();
        for number in 0..10_u64 {
            let mut kind = None;
            let done = queue.transact(|tx| -> Result<()> {
                let put = tube.put_in(tx, &number.to_be_bytes());
                kind = put.as_ref().err().map(tubewell::Error::kind);
                put.map(drop)
            });
            assert!(done.is_err());
            assert_eq!(kind, Some(ErrorKind::DiskFull), "budget {budget}");
        }
        assert_eq!(tube.len().unwrap(), there as u64, "budget {budget}");
        if budget % 32 == 8 {
            // No other call asks whether there is room again.
            disk.set_quota(usize::MAX);
            clock.advance(Duration::from_secs(1));
            let put = queue.transact(|tx| tube.put_in(tx, &9_u64.to_be_bytes()).map(drop));
            put.unwrap_or_else(|e| panic!("budget {budget}: {e}"));
        }
        while let Some(task) = tube.try_take().unwrap() {
            task.ack().unwrap_or_else(|e| panic!("budget {budget}: {e}"));
        }
    }
}

/// A payload that names its number.
fn long(number: u64) -> Vec<u8> {
    let mut bytes = vec![number as u8; 1500];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    bytes
}

fn number_of(payload: &[u8]) -> u64 {
    u64::from_be_bytes(payload[..8].try_into().unwrap())
}

/// Puts and acks so many times. Whatever is refused for another reason than a full disk ends it,
/// and what that call was about is in doubt.
fn churn(tube: &Tube, there: &mut BTreeSet<u64>, from: u64, times: u64) -> Option<u64> {
    for number in from..from + times {
        match tube.put(&long(number)) {
            Ok(_) => drop(there.insert(number)),
            Err(error) if error.kind() == ErrorKind::DiskFull => {}
            Err(_) => return Some(number),
        }
        for _ in 0..2 {
            let Ok(Some(task)) = tube.try_take() else { return None };
            let number = number_of(&task);
            if task.ack().is_err() {
                return Some(number);
            }
            there.remove(&number);
        }
    }
    None
}

/// R3: the process dies at a call of what is done on a full disk, or a sync of it is lost. What was
/// answered is there, and it stays so when the ring is written over and the power fails. A slot of
/// the carry and a length of the base that were only in the system's memory passed for synced.
#[test]
fn r3_a_crash_or_a_lost_sync_at_every_call_on_a_full_disk_loses_nothing() {
    let fill = |seed: u64, most: usize| {
        let disk = SimDisk::new(seed);
        let (queue, tube) = open(&disk, Durability::Durable);
        disk.set_quota(disk.blocks() + 50);
        let there = (0..).take_while(|number| tube.put(&long(*number)).is_ok()).take(most);
        let there: BTreeSet<u64> = there.collect();
        (disk, queue, tube, there)
    };
    let (disk, queue, .., all) = fill(1, usize::MAX);
    drop((queue, disk));
    // The last puts before the refusal, with the calls that they and the first refusals make.
    let last = |seed| fill(seed, all.len() - 4);
    let calls = {
        let (disk, _queue, tube, mut there) = last(1);
        disk.plan(Fault::None);
        assert_eq!(churn(&tube, &mut there, 5000, 20), None);
        disk.syncs().len() as u64
    };
    assert!(calls > 100, "{calls} calls");
    let mut struck = 0;
    for seed in seeds(CRASHES) {
        let at = 1 + seed * calls / CRASHES;
        for fault in [Fault::Die(at), Fault::LoseSync(at), Fault::Once(at)] {
            let (disk, queue, tube, mut there) = last(seed);
            disk.plan(fault);
            let doubt = churn(&tube, &mut there, 5000, 20);
            struck += disk.strikes();
            disk.plan(Fault::None);
            match (fault, seed % 2) {
                (Fault::LoseSync(_), _) | (_, 0) => disk.kill(),
                _ => disk.cut_power(),
            }
            drop((queue, tube));
            for round in 0..3 {
                let (queue, tube) = open(&disk, Durability::Durable);
                assert_eq!(queue.check().unwrap(), Vec::<String>::new(), "{fault:?}");
                let tasks = [State::Ready, State::Taken].map(|state| tube.tasks(state));
                let found =
                    tasks.into_iter().flatten().map(|task| number_of(&task.unwrap().payload));
                let found: BTreeSet<u64> = found.collect();
                let differ: Vec<_> = found.symmetric_difference(&there).copied().collect();
                let doubted = doubt.filter(|_| round == 0);
                assert!(differ.is_empty() || differ == doubted.as_slice(), "{fault:?}: {differ:?}");
                there = found;
                let times = 1 + seed % 40;
                assert_eq!(churn(&tube, &mut there, 6000 + 100 * round, times), None, "{fault:?}");
                disk.cut_power();
                drop((queue, tube));
            }
        }
    }
    assert!(!are_all() || struck > 2 * CRASHES, "{struck}");
}

/// A full disk whose takes have reached their margin, with a session whose task the disk does not
/// let return, as its return buries it.
fn with_a_session_that_cannot_end(
    end: impl FnOnce(&SimDisk, &ManualClock, Queue, Tube, Vec<Task>),
) {
    let (disk, clock) = (SimDisk::new(1), ManualClock::new());
    let (queue, _) = open_at(&disk, Durability::Durable, &clock);
    let tube = queue.create_tube("once", TubeOptions::default().max_attempts(1)).unwrap();
    let other = queue.tube("other").unwrap();
    other.put(b"x").unwrap();
    let mut held = vec![other.take().unwrap()];
    for _ in 0..80 {
        tube.put_many(vec![[6; 60]; 64]).unwrap();
    }
    let session = queue.session();
    tube.by(&session).take().unwrap().detach();
    disk.set_quota(disk.blocks() + 8);
    let mut refused = 0;
    while refused < 3 {
        refused += usize::from(tube.put(&[6; 300]).is_err());
    }
    let full = loop {
        match tube.try_take() {
            Ok(Some(task)) => held.push(task),
            Ok(None) => break false,
            Err(error) => break error.kind() == ErrorKind::DiskFull,
        }
    };
    assert!(full, "the takes did not reach their margin; put more tasks");
    drop(session);
    end(&disk, &clock, queue, tube, held);
}

/// Regression: each call in a tube, also an ack in another one, was refused with the return, so
/// nothing made space.
#[test]
fn r3_a_session_whose_tasks_cannot_return_stops_no_ack() {
    with_a_session_that_cannot_end(|_, _, queue, tube, held| {
        held.into_iter().for_each(|task| task.ack().unwrap());
        queue.tick().unwrap();
        assert_eq!(tube.stats().unwrap().taken, 0, "there is room for its return now");
    });
}

/// Regression: returns add no task, so the timer did not find out that there was room again, and
/// takes were refused until the next put.
#[test]
fn r3_a_session_ends_when_another_program_makes_room() {
    with_a_session_that_cannot_end(|disk, clock, queue, tube, held| {
        assert_eq!(tube.stats().unwrap().taken, held.len() as u64, "with that of the session");
        disk.set_quota(disk.blocks() + 10_000);
        clock.advance(Duration::from_secs(2));
        queue.tick().unwrap();
        assert_eq!(tube.stats().unwrap().taken, held.len() as u64 - 1);
        tube.take().unwrap().ack().unwrap();
    });
}

/// Regression: where the journal had no room for another put, a retry, a bury and a fail had none
/// either. Now tasks in hand come back until there is only room for takes.
#[test]
fn r3_errors_of_tasks_in_hand_have_room_after_the_last_put() {
    let disk = SimDisk::new(1);
    let (queue, tube) = open(&disk, Durability::Durable);
    for _ in 0..80 {
        tube.put_many(vec![[6; 60]; 64]).unwrap();
    }
    disk.set_quota(disk.blocks() + 8);
    let mut refused = 0;
    while refused < 3 {
        refused += usize::from(tube.put(&[6; 300]).is_err());
    }
    // Takes go on after what would add something is refused.
    let mut held = Vec::new();
    while held.len() < 3 || queue.set_throttle(&held.len().to_string(), 1).is_ok() {
        held.push(tube.try_take().unwrap().expect("there are tasks"));
    }
    let mut held = held.into_iter();
    held.next().unwrap().retry_after("no answer", Duration::ZERO).unwrap();
    held.next().unwrap().bury("no answer").unwrap();
    held.next().unwrap().fail("post", "no answer").unwrap();
    assert!(
        tube.fail_by_id(tube.peek_next(State::Ready).unwrap().unwrap().id, "post", "no").unwrap()
    );
    let _last = tube.try_take().unwrap();
}

/// R3 for transactions: rows of the application use the space that there is, also if it is less
/// than redb asks for at once. Regression: it asked again at each insert, and the base never grew.
#[test]
fn r3_a_transaction_uses_the_space_that_there_is() {
    const OWN: redb::TableDefinition<u64, &[u8]> = redb::TableDefinition::new("own");
    let disk = SimDisk::new(1);
    let (queue, tube) = open(&disk, Durability::Durable);
    let bytes = [7; 20_000];
    let transact = |number: u64| {
        queue.transact(|tx| -> Result<()> {
            let mut own = tx.table(OWN)?;
            for row in 0..30 {
                own.insert(number * 100 + row, bytes.as_slice())?;
            }
            tx.put(&tube, &number.to_be_bytes()).map(drop)
        })
    };
    // Some 10 MiB: redb wants more at once than the 4 MiB that are left then.
    (0..10).for_each(|number| transact(number).unwrap());
    let quota = disk.blocks() + 1024;
    disk.set_quota(quota);
    let (mut number, mut refused) = (10, 0);
    while refused < 8 {
        match transact(number) {
            Ok(()) => (number, refused) = (number + 1, 0),
            Err(_) => refused += 1,
        }
    }
    let left = quota - disk.blocks();
    assert!(left < 256, "{left} of 1024 blocks are free");
}
