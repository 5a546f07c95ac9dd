//! A crash or an error at every single call of the store to the disk.

use super::disk::{Plan, SimDisk};
use super::*;
use crate::store::disk::FileName;
use crate::words::error::ErrorKind;

/// Runs a scenario with a crash at its first call that changes something, then at its second, and
/// so on, until the scenario completes. `after` checks the state.
fn at_every_call(
    plan: Plan,
    prepare: impl Fn(&SimDisk),
    scenario: impl Fn(&SimDisk) -> Result<()>,
    after: impl Fn(&SimDisk, bool),
) -> u64 {
    for at in 0..10_000 {
        let mut through = true;
        for power in [false, true] {
            let disk = SimDisk::new(at);
            prepare(&disk);
            disk.plan(at, plan);
            let calls = disk.calls();
            let done = scenario(&disk).is_ok();
            through = disk.calls() - calls <= at;
            disk.no_plan();
            if power {
                disk.power_cut();
            } else {
                disk.kill();
            }
            after(&disk, done);
        }
        if through {
            return at;
        }
    }
    panic!("it never ends");
}

#[test]
fn an_opening_may_end_at_every_call() {
    for plan in [Plan::Crash, Plan::FailOnce, Plan::FailOn] {
        let calls = at_every_call(plan, prepared, |disk| open(disk).map(drop), stands);
        assert!(calls >= 6, "{calls}");
    }
}

#[test]
fn a_checkpoint_may_end_at_every_call() {
    a_checkpoint_ends_at_every_call(Store::checkpoint, 20);
}

#[test]
fn a_checkpoint_in_pieces_may_end_at_every_call() {
    a_checkpoint_ends_at_every_call(checkpoint_in_pieces, 30);
}

fn a_checkpoint_ends_at_every_call(checkpoint: fn(&mut Store) -> Result<()>, least: u64) {
    for plan in [Plan::Crash, Plan::FailOnce, Plan::FailOn, Plan::FullOnce] {
        let calls = at_every_call(
            plan,
            prepared,
            |disk| {
                let mut store = open(disk)?;
                checkpoint(&mut store)?;
                write(&mut store, vec![add(500, b"x")])?;
                write(&mut store, vec![remove(500)])?;
                checkpoint(&mut store)
            },
            |disk, _| {
                // The short-lived row may be the last of a prefix.
                let store = open(disk).unwrap();
                let short = numbers(&store).contains(&500);
                let mut store = store;
                if short {
                    write(&mut store, vec![remove(500)]).unwrap();
                }
                store.close().unwrap();
                stands(disk, true);
            },
        );
        assert!(calls >= least, "{calls}");
    }
}

#[test]
fn a_close_may_end_at_every_call() {
    for plan in [Plan::Crash, Plan::FailOnce, Plan::FailOn, Plan::FullOnce] {
        at_every_call(plan, prepared, |disk| open(disk)?.close(), stands);
    }
}

/// After every outcome of the call the rows are unchanged, and the store goes on unless it reports
/// that it has stopped. A failed sync always stops it.
#[test]
fn a_compaction_may_end_at_every_call() {
    let hollow = SimDisk::new(18);
    let mut store = open(&hollow).unwrap();
    for number in 0..140 {
        write(&mut store, vec![add(number, &[1; 5_000])]).unwrap();
    }
    store.checkpoint().unwrap();
    write(&mut store, (0..130).map(remove).collect()).unwrap();
    sync(&store).unwrap();
    hollow.kill();
    drop(store);
    let (rows, bytes) = ((130..140).collect::<Vec<_>>(), hollow.file(FileName::Base).shown.len());
    for plan in [Plan::Crash, Plan::FailOnce, Plan::FailOn, Plan::FullOnce, Plan::FailSync] {
        let calls = at_every_call(
            plan,
            |disk| disk.copy(&hollow),
            |disk| {
                let mut store = open(disk)?;
                let done = store.compact();
                if plan != Plan::Crash {
                    disk.no_plan();
                }
                if disk.sync_failed() {
                    let kinds = [done.map(drop), write(&mut store, vec![remove(139)]).map(drop)]
                        .map(|stopped| stopped.unwrap_err().kind());
                    assert_eq!(kinds, [ErrorKind::Broken; 2]);
                    return Err(Error::new(ErrorKind::Broken));
                }
                let stopped = done.as_ref().is_err_and(|e| e.kind() == ErrorKind::Broken);
                assert!(!stopped || matches!(plan, Plan::Crash | Plan::FailOn), "{plan:?}");
                if !stopped && plan != Plan::Crash {
                    write(&mut store, vec![add(700, b"x")]).unwrap();
                    assert_eq!(numbers(&store).len(), 11);
                    write(&mut store, vec![remove(700)]).unwrap();
                    while store.compact().unwrap() {}
                    checked(&mut store);
                    assert_eq!(numbers(&store), rows);
                }
                done.map(drop)
            },
            |disk, done| {
                let mut store = open(disk).unwrap();
                assert_eq!(numbers(&store), rows);
                checked(&mut store);
                write(&mut store, vec![remove(130)]).unwrap();
                while store.compact().unwrap() {}
                assert!(store.space().base_bytes < bytes as u64 / 2, "done: {done}");
                store.close().unwrap();
                assert_eq!(numbers(&open(disk).unwrap()), rows[1..]);
                disk.kill();
            },
        );
        assert!(calls >= 20, "{calls}");
    }
}

/// Until the loss is accepted on the medium, every opening refuses; after that none does.
#[test]
fn an_opening_that_accepts_a_loss_may_end_at_every_call() {
    let damaged = SimDisk::new(4);
    let starts = rows_then_kill(&damaged, 20);
    damaged.poke(FileName::Journal, |bytes| bytes[HEAD_BYTES + starts[7] as usize + 50] ^= 1);
    let lossy = Config { accept_loss: true, ..config() };
    for plan in [Plan::Crash, Plan::FailOnce, Plan::FailOn, Plan::FullOnce, Plan::FailSync] {
        let asked = std::cell::Cell::new(0);
        let calls = at_every_call(
            plan,
            |disk| disk.copy(&damaged),
            |disk| open_with(disk, lossy.clone()).map(drop),
            |disk, done| {
                let mut store = open(disk).or_else(|error| {
                    assert!(!done, "an accepted loss is not asked for again");
                    assert_eq!(error.kind(), ErrorKind::Damaged);
                    asked.set(asked.get() + 1);
                    disk.kill();
                    open_with(disk, lossy.clone())
                });
                let store = store.as_mut().unwrap();
                assert_eq!(numbers(store), (0..7).collect::<Vec<_>>());
                checked(store);
                write(store, vec![add(100, b"on it goes")]).unwrap();
                sync(store).unwrap();
                let failed = disk.sync_failed();
                disk.power_cut();
                // After a failed sync nothing shows that the loss was accepted.
                let store = open(disk).or_else(|error| {
                    assert!(failed, "{error}");
                    disk.kill();
                    open_with(disk, lossy.clone())
                });
                assert_eq!(numbers(&store.unwrap()), (0..7).chain([100]).collect::<Vec<_>>());
                disk.kill();
            },
        );
        assert!(calls >= 20 && asked.get() > 4, "{plan:?}: {calls} calls, asked {asked:?}");
    }
}

#[test]
fn a_creation_may_end_at_every_call() {
    for plan in [Plan::Crash, Plan::FailOnce, Plan::FailOn, Plan::FullOnce] {
        at_every_call(
            plan,
            |_| {},
            |disk| open(disk).map(drop),
            |disk, _| {
                let mut store = open(disk).unwrap();
                write(&mut store, vec![add(1, b"x")]).unwrap();
                checked(&mut store);
                disk.kill();
            },
        );
    }
}

/// After every error the store either goes on with exactly the rows that it confirmed, or reports
/// that it has stopped. A later opening shows the same rows.
#[test]
fn an_error_at_every_call_loses_no_answer() {
    for plan in [Plan::FailOnce, Plan::FullOnce, Plan::FailOn] {
        let answered = std::cell::RefCell::new(Vec::new());
        at_every_call(
            plan,
            prepared,
            |disk| {
                let mut results: Vec<(u64, bool)> = Vec::new();
                let outcome = (|| {
                    let mut store = open(disk)?;
                    for number in 200..206 {
                        // Like a caller that was refused, it continues with the next row.
                        match write(&mut store, vec![add(number, &[2; 40])]) {
                            Ok(_) => results.push((number, true)),
                            Err(error) if error.kind() == ErrorKind::Broken => return Err(error),
                            Err(_) => results.push((number, false)),
                        }
                        if number == 202 {
                            let failed = store.checkpoint();
                            if failed.is_err_and(|error| error.kind() == ErrorKind::Broken) {
                                break;
                            }
                            let own: Vec<u64> =
                                results.iter().filter(|(_, done)| *done).map(|(n, _)| *n).collect();
                            assert_eq!(numbers(&store)[90..], own, "the view has not changed");
                        }
                    }
                    Ok(())
                })();
                *answered.borrow_mut() = results;
                outcome
            },
            |disk, _| {
                let mut store = open(disk).unwrap();
                let found = numbers(&store);
                checked(&mut store);
                for (number, done) in &*answered.borrow() {
                    // A power cut may undo what was not synced, but no removed row comes back.
                    assert!(*done || !found.contains(number), "{number} was refused");
                }
                assert_eq!(found[..90], (10..100).collect::<Vec<_>>());
                disk.kill();
            },
        );
    }
}

#[test]
fn a_commit_with_app_tables_may_end_at_every_call() {
    for plan in [Plan::Crash, Plan::FailOnce, Plan::FullOnce, Plan::FailOn] {
        at_every_call(
            plan,
            prepared,
            |disk| {
                let mut store = open(disk)?;
                let app = BaseTransaction::begin(store.opening()?)?;
                let failed = |_| Error::new(ErrorKind::Io);
                let insert = |value| -> std::result::Result<(), redb::Error> {
                    app.transaction().unwrap().open_table(APP_ROWS)?.insert(1, value)?;
                    Ok(())
                };
                insert(7).map_err(failed)?;
                match finish(&mut store, app, vec![add(700, b"x"), remove(10)]) {
                    Ok(_) => assert_eq!(numbers(&store).len(), 90),
                    Err(StoreFailure::Refused(error)) => {
                        assert_eq!(numbers(&store), (10..100).collect::<Vec<_>>());
                        return Err(error);
                    }
                    Err(StoreFailure::Broken(error)) => return Err(error),
                    Err(failure) => panic!("{failure:?}"),
                }
                Ok(())
            },
            |disk, done| {
                let mut store = open(disk).unwrap();
                let found = numbers(&store);
                let read = store.opening().unwrap().begin_read().unwrap();
                let app_row = read.open_table(APP_ROWS).is_ok();
                drop(read);
                assert_eq!(found.contains(&700), app_row, "both or neither");
                assert_eq!(found.contains(&10), !app_row);
                assert!(app_row || !done, "a confirmed commit is kept");
                checked(&mut store);
                disk.kill();
            },
        );
    }
}
