//! Numbers are reserved on the disk before a caller sees one.

use super::*;
use crate::engine::due::CatchUp;
use crate::engine::new_row::NewRow;
use crate::engine::put::PutTasks;
use crate::engine::settings::ChangeSetting;
use crate::engine::settle::Settle;
use crate::engine::take::Take;
use crate::engine::tubes::{Create, Exists, Pause, Truncate};
use crate::format::layer::WriteSet;
use crate::format::{Range, RowOp, Tag, Value, key};
use crate::runtime::group_commit::GroupCommit;
use crate::runtime::wake::{WaitPlace, Waiting};
use crate::store::{Access, Burden, Clocks, Config, Folder, MetaDelta, Store, StoreFailure};
use crate::words::clock::{ManualClock, NEVER};
use crate::words::limits::JOURNAL_BYTES_MIN;
use crate::words::limits::{DUE_OF_TURN, NUMBER_BLOCK, TRANSACTION_NUMBERS};
use crate::words::options::TubeOptions;
use crate::words::sync::Arc;
use crate::words::verb::Verdict;
use std::ops::ControlFlow;

fn opened(path: &std::path::Path) -> Opened {
    let config = Config {
        journal_bytes: JOURNAL_BYTES_MIN,
        cache_bytes: 1 << 20,
        accept_loss: false,
        access: Access::Write,
        known: &[],
    };
    let clocks = Clocks { clock: &ManualClock::new(), gap_max: 0 };
    let disk = Arc::new(Folder::at(path));
    Store::open(disk, config, &clocks, &mut |_| ControlFlow::Continue(())).unwrap()
}

/// Regression: a reservation that was not written for lack of space counted after the sync of an
/// earlier mark. With two batches of 65 536 and a power cut, an id was given twice.
#[test]
fn a_reservation_that_was_not_written_gives_no_numbers() {
    let home = tempfile::tempdir().unwrap();
    let opened = opened(&home.path().join("q"));
    let clock = ManualClock::new();
    let group_commit = GroupCommit::new(opened.store.journal(), opened.store.health.clone());
    let mut state = EngineState::new(opened);
    let hub = Hub::default();
    let env = CommitEnv { clock: &clock, hub: &hub, group_commit: &group_commit };
    while state.store.note(MetaDelta::default()).is_ok() {}
    state.numbers.next.ids = state.numbers.end.ids;
    let batch = Numbers::of_ids(NUMBER_BLOCK);
    assert!(matches!(state.reserve(batch), Err(Undone::TryAfter(Need::JournalSpace))));
    group_commit.flush().unwrap();
    assert!(!state.has_numbers(Numbers::of_ids(1), env.group_commit), "no record reserves them");
    assert!(state.has_numbers(Numbers::of_tokens(1), env.group_commit));
    state.store.checkpoint().unwrap();
    let Ok(mark) = state.reserve(batch) else { panic!("there is space after a checkpoint") };
    assert!(!state.has_numbers(batch, env.group_commit), "it is not synced yet");
    group_commit.wait(mark).unwrap();
    assert!(state.has_numbers(batch, env.group_commit));
}

/// An op inside a transaction gets its numbers while the ring has no space for rows: what is kept
/// free for a reservation is there. Where that is used up as well, it says what to do.
#[test]
fn numbers_are_drawn_while_the_ring_is_full() {
    let home = tempfile::tempdir().unwrap();
    let opened = opened(&home.path().join("q"));
    let group_commit = GroupCommit::new(opened.store.journal(), opened.store.health.clone());
    let mut state = EngineState::new(opened);
    let append = |state: &mut EngineState, name: &str, op: RowOp, adds: bool| {
        let mut writes = WriteSet::default();
        writes.write((key::name(name), op));
        state.store.append(&mut writes, state.advance(0), adds.then_some(Burden::Adds))
    };
    let row = || RowOp::Add(Value::from(&[7; 400][..]));
    let mut names = (0..).map(|number: u32| number.to_string());
    let refused = loop {
        if let Err(refused) = append(&mut state, &names.next().unwrap(), row(), true) {
            break refused;
        }
    };
    assert!(matches!(refused, StoreFailure::NoRoom));
    // The record of a row that goes needs space as well, and still gets it.
    append(&mut state, "1", RowOp::Remove, false).unwrap();
    let need = Numbers::of_ids(2 * NUMBER_BLOCK);
    assert!(!state.numbers.left().covers(need));
    state.draw(need, &group_commit).unwrap();
    assert!(state.numbers.left().covers(need));
    while state.store.note(MetaDelta::default()).is_ok() {}
    let more = need.plus(Numbers::both(4 * TRANSACTION_NUMBERS));
    let error = state.draw(more, &group_commit).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Full);
    assert!(error.to_string().contains("commit the transaction first"), "{error}");
    assert!(state.numbers.left().covers(need) && !state.numbers.left().covers(more));
    state.store.checkpoint().unwrap();
    state.draw(more, &group_commit).unwrap();
    assert!(state.numbers.left().covers(more));
}

/// Both need space in the ring, and a put has to wait for a checkpoint: an ack still gets it.
#[test]
fn an_ack_goes_before_a_put_that_waits_for_the_ring() {
    let home = tempfile::tempdir().unwrap();
    let opened = opened(&home.path().join("q"));
    let clock = ManualClock::new();
    let group_commit = GroupCommit::new(opened.store.journal(), opened.store.health.clone());
    let mut state = EngineState::new(opened);
    let hub = Hub::default();
    let env = CommitEnv { clock: &clock, hub: &hub, group_commit: &group_commit };
    let options = TubeOptions::default();
    let create = Create { name: "t", options: &options, exists: Exists::Refuse };
    let tube = done(&mut state, &env, &create).unwrap().number;
    let put = PutTasks {
        earlier: None,
        tube,
        tasks: &[NewRow { payload: &[7; 400], ..NewRow::PLAIN }],
        staged: &[],
        is_batch: false,
        payload_bytes_max: 1 << 20,
        durable_bytes_max: u64::MAX,
        others_wait: false,
    };
    for _ in 0..9 {
        done(&mut state, &env, &put).unwrap();
    }
    let taken = done(&mut state, &env, &Take::new(tube, 9, 0)).unwrap();
    for task in taken {
        // What a rest of a page leaves is used as well.
        while done(&mut state, &env, &put).is_some() {}
        let settle = Settle { tube, tickets: &[task.ticket()], verdict: Verdict::Ack };
        done(&mut state, &env, &settle).expect("the ack has space");
    }
    state.store.checkpoint().unwrap();
    done(&mut state, &env, &put).expect("there is space after a checkpoint");
}

/// What the op did; `None` if it has to wait for space in the ring.
fn done<O: Op>(state: &mut EngineState, env: &CommitEnv<'_>, op: &O) -> Option<O::Done> {
    loop {
        match state.execute(op, &mut Attempts::default(), env) {
            Ok((done, _)) => return Some(done),
            Err(Undone::TryAfter(Need::Numbers(mark))) => env.group_commit.wait(mark).unwrap(),
            Err(Undone::TryAfter(Need::Yield)) => {}
            Err(Undone::TryAfter(Need::JournalSpace)) => return None,
            Err(_) => panic!("it is refused"),
        }
    }
}

/// How many takers of the tube the op wakes.
fn woken<O: Op>(tube: &crate::Tube, op: &O) -> usize {
    let core = &tube.inner.core;
    // While none waits it is not counted.
    let at = WaitPlace::Set(u32::MAX);
    let _waits =
        core.takers.register(Waiting { at, holder: 0, since: 0, until: NEVER, is_choosy: false });
    let mut state = core.state.lock();
    let Ok(_) = state.execute(op, &mut Attempts::default(), &core.env()) else {
        panic!("it is refused")
    };
    let outbox = std::mem::take(&mut state.derived.outbox);
    outbox.tubes.iter().filter(|woken| woken.tube == tube.number).map(|woken| woken.ready).sum()
}

/// No call is woken that could not have a task: not by a put behind a closed gate, and by a place
/// that becomes free only as many as there are tasks for.
#[test]
fn as_many_takers_are_woken_as_a_gate_lets_through() {
    let queue = crate::Queue::builder().by_hand(true).in_memory().unwrap();
    let tube = queue.create_tube("t", TubeOptions::default().limit(2)).unwrap();
    let number = tube.number;
    let put = |tasks: usize| {
        let tasks: Vec<_> = (0..tasks).map(|_| NewRow { payload: b"x", ..NewRow::PLAIN }).collect();
        let op = PutTasks {
            tube: number,
            tasks: &tasks,
            staged: &[],
            is_batch: true,
            payload_bytes_max: 1 << 20,
            durable_bytes_max: u64::MAX,
            others_wait: false,
            earlier: None,
        };
        woken(&tube, &op)
    };
    assert_eq!(put(1), 1);
    assert_eq!(put(5), 2, "two places are free");
    let mut taken = tube.take_many(9).unwrap();
    assert_eq!((taken.len(), put(3)), (2, 0));
    let settle = |task: &crate::Task, verdict: Verdict<'_>| {
        let tickets = &[task.ticket()];
        woken(&tube, &Settle { tube: number, tickets, verdict })
    };
    assert_eq!(settle(&taken.remove(0), Verdict::Ack), 1);
    assert_eq!(settle(&taken.remove(0), Verdict::Release(crate::words::verb::Release::new())), 1);
    let rest = tube.take_many(2).unwrap();
    let change = |limit: u64| {
        let value = limit.into();
        let op = ChangeSetting { owner: number, name: "limit", value: Some(&value) };
        woken(&tube, &op)
    };
    assert_eq!([change(1), change(2), change(4), change(3)], [0, 0, 2, 1]);
    drop(rest);
    tube.take_many(9).unwrap().into_iter().for_each(|task| _ = task.detach());
    assert_eq!(woken(&tube, &Truncate { tube: number }), 0, "there is nothing to take");
    tube.pause().unwrap();
    assert_eq!(put(1), 0);
    assert_eq!(woken(&tube, &Pause { tube: number, terms: None }), 1);
}

/// The time of the next task of a rate wakes one taker, and nothing looks before it.
#[test]
fn a_rate_wakes_a_taker_for_each_task_that_it_lets_through() {
    let (clock, second) = (ManualClock::new(), std::time::Duration::from_secs(1));
    let builder = crate::Queue::builder().clock(clock.clone()).by_hand(true);
    let queue = builder.in_memory().unwrap();
    let rate = crate::Rate::new(1).per(60 * second).burst(2);
    let tube = queue.create_tube("t", TubeOptions::default().rate(rate)).unwrap();
    tube.put_many([&b"x"[..]; 9]).unwrap();
    let now = || {
        let mut state = tube.inner.core.state.lock();
        (state.now(&clock).queue, state.derived.first_due().delay)
    };
    let look = || woken(&tube, &CatchUp { tube: tube.number });
    assert_eq!((tube.take_many(9).unwrap().len(), look()), (2, 0));
    let (at, due) = now();
    assert_eq!(due - at, 60_000_000);
    clock.advance(59 * second);
    assert_eq!((look(), now().1), (0, due));
    clock.advance(second);
    assert_eq!((look(), now().1), (1, NEVER), "it is open, and no deadline is left");
    assert_eq!(woken(&tube, &Take::new(tube.number, 1, 0)), 0);
    assert_eq!(now().1, due + 60_000_000);
    clock.advance(600 * second);
    assert_eq!(look(), 2, "as many as the burst");
    assert_eq!(woken(&tube, &Take::new(tube.number, 1, 0)), 1, "the next looks");
}

/// On a full disk the due work of a tube is left out while a take can free space. With a rate it is
/// what wakes the takers.
#[test]
fn the_due_work_of_a_rate_is_not_left_to_takes() {
    let queue = crate::Queue::builder().by_hand(true).in_memory().unwrap();
    let has_ready = |options| {
        let tube = queue.create_tube("t", options).unwrap();
        tube.put(b"x").unwrap();
        let has_ready = tube.inner.core.state.lock().has_ready(tube.number);
        queue.force_drop_tube("t").unwrap();
        has_ready
    };
    let plain = TubeOptions::default();
    assert!(has_ready(plain.clone()));
    assert!(has_ready(plain.clone().limit(1)));
    assert!(!has_ready(plain.rate(crate::Rate::new(1))));
}

/// Regression: the note that all is synced is the next record after a reservation was asked for,
/// and does not contain it.
#[test]
fn the_note_that_all_is_synced_gives_no_numbers() {
    let home = tempfile::tempdir().unwrap();
    let opened = opened(&home.path().join("q"));
    let group_commit = GroupCommit::new(opened.store.journal(), opened.store.health.clone());
    let mut state = EngineState::new(opened);
    let mut writes = WriteSet::default();
    writes.write((key::name("a"), RowOp::Add(Value::from(&[7; 400][..]))));
    state.store.append(&mut writes, state.advance(0), Some(Burden::Adds)).unwrap();
    group_commit.flush().unwrap();
    state.numbers.next.ids = state.numbers.end.ids - 1;
    // As before an op that is refused, or that writes to a temporary tube only.
    assert!(state.has_numbers(Numbers::of_ids(1), &group_commit));
    let written = state.store.written();
    assert!(state.idle());
    assert_eq!(state.store.written(), written + 1, "the note");
    group_commit.flush().unwrap();
    assert!(!state.has_numbers(Numbers::of_ids(2), &group_commit), "no record reserves them");
}

/// Regression: a call that waited between two of its turns, for a checkpoint, a sync or a machine
/// that slept, did what had become due meanwhile in one turn of the lock, however much that was.
#[test]
fn what_becomes_due_between_two_turns_of_a_call_goes_in_turns_too() {
    let clock = ManualClock::new();
    let queue = crate::Queue::builder().clock(clock.clone()).by_hand(true).in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    let second = std::time::Duration::from_secs(1);
    for (tasks, delay) in [(2 * SWEEP_TASKS, second), (10_000, 2 * second)] {
        (0..tasks).for_each(|_| _ = tube.task(b"a").delay(delay).put().unwrap());
    }
    let core = &tube.inner.core;
    let (take, env, mut attempts) = (Take::new(tube.number, 1, 0), core.env(), Attempts::default());
    let delayed = |state: &EngineState| state.store.count(Range::of(Tag::Delayed)) as usize;
    clock.advance(second);
    let mut state = core.state.lock();
    let first = state.execute(&take, &mut attempts, &env);
    assert!(matches!(first, Err(Undone::TryAfter(Need::Yield))), "more is due than one turn does");
    drop(core.release(state));
    clock.advance(second);
    loop {
        let mut state = core.state.lock();
        let before = delayed(&state);
        let done = state.execute(&take, &mut attempts, &env);
        let moved = before - delayed(&state);
        drop(core.release(state));
        assert!(moved <= SWEEPS_OF_TURN * SWEEP_TASKS, "{moved} tasks in one turn of the lock");
        match done {
            Ok((taken, _)) => break assert_eq!(taken.len(), 1),
            Err(Undone::TryAfter(Need::Yield)) => {}
            Err(_) => panic!("refused"),
        }
    }
}

/// Regression: a take from many tubes looked in one turn of the lock through all other tubes in
/// which work was due.
#[test]
fn a_take_from_many_tubes_passes_others_that_are_due_in_turns() {
    let clock = ManualClock::new();
    let queue = crate::Queue::builder().clock(clock.clone()).by_hand(true).in_memory().unwrap();
    let second = std::time::Duration::from_secs(1);
    for number in 0..2 * DUE_OF_TURN {
        let tube = queue.tube(&format!("other {number}")).unwrap();
        tube.task(b"x").delay(second).put().unwrap();
    }
    let mails: Vec<_> = (0..2 * SWEEP_TASKS).map(|number| format!("mail {number}")).collect();
    for name in &mails {
        queue.tube(name).unwrap().task(b"x").delay(2 * second).put().unwrap();
    }
    let tubes = queue.tubes_with_prefix("mail ").unwrap();
    assert!(tubes.try_take().unwrap().is_none());
    clock.advance(2 * second);
    {
        let mut state = queue.inner.core.state.lock();
        let (now, sets) = (state.now(&clock), state.derived.sets.as_ref().unwrap());
        let set = (0..2).find(|number| sets.get(*number).is_some()).unwrap();
        let (mut walk, mut turns, mut found) = (Walk::default(), 0, Vec::new());
        loop {
            turns += 1;
            let (due, cut) = state.due_of_set(set, now, SWEEP_TASKS, &mut walk).unwrap();
            found.extend(due);
            if cut != Cut::Looks {
                break;
            }
        }
        assert_eq!(
            (turns, found.len()),
            (3, SWEEP_TASKS),
            "the first of its tubes, after the others"
        );
    }
    let taken: Vec<_> = (0..mails.len()).map(|_| tubes.try_take().unwrap().unwrap()).collect();
    assert!(tubes.try_take().unwrap().is_none());
    assert_eq!(taken.len(), mails.len());
    queue.tick().unwrap();
    assert_eq!(queue.check().unwrap(), [""; 0]);
}
