//! Numbers are reserved on the disk before a caller sees one.

use super::*;
use crate::engine::new_row::NewRow;
use crate::engine::put::PutTasks;
use crate::engine::settle::Settle;
use crate::engine::take::Take;
use crate::engine::tubes::{Create, Exists};
use crate::format::layer::WriteSet;
use crate::format::{RowOp, Value, key};
use crate::runtime::group_commit::GroupCommit;
use crate::store::{Access, Clocks, Config, Folder, MetaDelta, Store, StoreFailure};
use crate::words::clock::ManualClock;
use crate::words::limits::JOURNAL_BYTES_MIN;
use crate::words::limits::{NUMBER_BLOCK, TRANSACTION_NUMBERS};
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
    let gate = GroupCommit::new(opened.store.journal(), opened.store.health.clone());
    let mut state = EngineState::new(opened);
    let hub = Hub::default();
    let env = CommitEnv { clock: &clock, hub: &hub, gate: &gate };
    while state.store.note(MetaDelta::default()).is_ok() {}
    state.numbers.next.ids = state.numbers.end.ids;
    let batch = Numbers::of_ids(NUMBER_BLOCK);
    assert!(matches!(state.reserve(batch), Err(Undone::TryAfter(After::JournalSpace))));
    gate.flush().unwrap();
    assert!(!state.has_numbers(Numbers::of_ids(1), env.gate), "no record reserves them");
    assert!(state.has_numbers(Numbers::of_tokens(1), env.gate));
    state.store.checkpoint().unwrap();
    let Ok(mark) = state.reserve(batch) else { panic!("there is space after a checkpoint") };
    assert!(!state.has_numbers(batch, env.gate), "it is not synced yet");
    gate.wait(mark).unwrap();
    assert!(state.has_numbers(batch, env.gate));
}

/// An op inside a transaction gets its numbers while the ring has no space for rows: what is kept
/// free for a reservation is there. Where that is used up as well, it says what to do.
#[test]
fn numbers_are_drawn_while_the_ring_is_full() {
    let home = tempfile::tempdir().unwrap();
    let opened = opened(&home.path().join("q"));
    let gate = GroupCommit::new(opened.store.journal(), opened.store.health.clone());
    let mut state = EngineState::new(opened);
    let append = |state: &mut EngineState, name: &str, op: RowOp, adds: bool| {
        let mut writes = WriteSet::default();
        writes.write((key::name(name), op));
        state.store.append(&mut writes, state.advance(0), adds)
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
    state.draw(need, &gate).unwrap();
    assert!(state.numbers.left().covers(need));
    while state.store.note(MetaDelta::default()).is_ok() {}
    let more = need.plus(Numbers::both(4 * TRANSACTION_NUMBERS));
    let error = state.draw(more, &gate).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Full);
    assert!(error.to_string().contains("commit the transaction first"), "{error}");
    assert!(state.numbers.left().covers(need) && !state.numbers.left().covers(more));
    state.store.checkpoint().unwrap();
    state.draw(more, &gate).unwrap();
    assert!(state.numbers.left().covers(more));
}

/// Both need space in the ring, and a put has to wait for a checkpoint: an ack still gets it.
#[test]
fn an_ack_goes_before_a_put_that_waits_for_the_ring() {
    let home = tempfile::tempdir().unwrap();
    let opened = opened(&home.path().join("q"));
    let clock = ManualClock::new();
    let gate = GroupCommit::new(opened.store.journal(), opened.store.health.clone());
    let mut state = EngineState::new(opened);
    let hub = Hub::default();
    let env = CommitEnv { clock: &clock, hub: &hub, gate: &gate };
    let options = TubeOptions::default();
    let create = Create { name: "t", options: &options, exists: Exists::Refuse };
    let tube = done(&mut state, &env, &create).unwrap().number;
    let put = PutTasks {
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
    let taken = done(&mut state, &env, &Take { tube, most: 9, holder: 0 }).unwrap();
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
            Err(Undone::TryAfter(After::Numbers(mark))) => env.gate.wait(mark).unwrap(),
            Err(Undone::TryAfter(After::Yield)) => {}
            Err(Undone::TryAfter(After::JournalSpace)) => return None,
            Err(_) => panic!("it is refused"),
        }
    }
}
