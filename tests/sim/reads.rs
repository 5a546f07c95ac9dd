//! Failing reads of either file, once and from then on, at every read of an open queue. A call may
//! return the error; nothing may be lost, the queue goes on or reports that it is broken, and the
//! next opening serves everything. Reads of an opening are in `openings`.

use crate::disk::{Fault, SimDisk};
use crate::run::Run;
use crate::step::*;
use crate::trust::{open, put};
use crate::world::kind_of;
use std::time::Duration;
use tubewell::{Durability, ErrorKind, EventOptions, ManualClock, Queue, TubeKind};

/// A queue with most of its rows in the base, some in the journal, and an empty cache.
fn filled(disk: &SimDisk) -> Run {
    let mut run = Run::new(Some(disk.clone()), Durability::Durable);
    run.world.cache_bytes = 0;
    let opts = Opts::plain(TubeKind::General);
    let many = Step::PutMany { tube: 0, count: 7 };
    let mut steps = vec![Step::Create { tube: 0, opts, if_not_exists: false }];
    steps.extend(std::iter::repeat_n(many.clone(), 5));
    steps.extend([Step::TakeMany { tube: 0, count: 4 }, Step::Bury { lease: 3, priority: None }]);
    steps.extend([Step::Checkpoint, many, Step::Take { tube: 0 }, Step::Ack { lease: 0 }]);
    run.open().and_then(|()| run.play(&steps)).unwrap();
    run
}

#[test]
fn s1_s2_s6_a_read_that_fails_in_service_loses_nothing() {
    let steps = [
        Step::TakeMany { tube: 0, count: 3 },
        Step::Ack { lease: 0 },
        Step::Release { lease: 1, back: Back::default() },
        Step::Kick { tube: 0, count: 1 },
        Step::Peek { tube: 0, task: 30 },
        Step::Transact { tube: 0, leases: vec![0], ending: Ending::Commit },
        Step::Take { tube: 0 },
        Step::Checkpoint,
        Step::Delete { tube: 0, task: 20, only: None },
        Step::TakeMany { tube: 0, count: 4 },
        Step::Transact { tube: 0, leases: vec![0, 1], ending: Ending::Error },
        Step::Truncate { tube: 0 },
        Step::Tick,
    ];
    let mut at = 1;
    loop {
        for fault in [Fault::ReadOnce(at), Fault::ReadSticky(at)] {
            let disk = SimDisk::new(at);
            let mut run = filled(&disk);
            run.after_death = if at % 2 == 0 { End::Kill } else { End::Cut };
            disk.plan(fault);
            let mut verdict = run.play(&steps);
            if disk.strikes() == 0 && run.crashes == 0 {
                assert!(at > 20, "{at} reads");
                return;
            }
            disk.plan(Fault::None);
            let later = [Step::Look, Step::Reopen(End::Cut), Step::Take { tube: 0 }];
            verdict = verdict.and_then(|()| run.check()).and_then(|()| run.play(&later));
            if let Err(why) = verdict {
                panic!("{fault:?}: {why}\n{}", run.trace.join("\n"));
            }
        }
        at += 1;
    }
}

#[test]
fn after_a_read_that_failed_the_queue_goes_on_or_says_that_it_is_broken() {
    let mut struck = 0;
    for at in 1..20 {
        let disk = SimDisk::new(at);
        let (queue, tube) = open(&disk, Durability::Durable);
        (0..500).for_each(|number| put(&tube, number).unwrap());
        queue.close().unwrap();
        drop((queue, tube));
        let builder = Queue::builder().clock(ManualClock::new()).cache_bytes(0).by_hand(true);
        let queue = builder.disk(disk.lend()).open_disk().unwrap();
        let tube = queue.tube("t").unwrap();
        disk.plan(Fault::ReadOnce(at));
        let mut taken = Vec::new();
        for _ in 0..500 {
            match tube.try_take() {
                Ok(task) => taken.extend(task),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Io, "{error}"),
            }
        }
        if disk.strikes() > 0 {
            struck += 1;
            taken.extend(std::iter::from_fn(|| tube.try_take().unwrap()));
            assert_eq!(taken.len(), 500, "read {at}");
        }
    }
    assert!(struck > 3, "{struck}");
}

/// The read-ahead after a checkpoint belongs to no caller: a caller after a failed one gets no
/// error, because the base has been opened again.
#[test]
fn a_failed_read_ahead_fails_no_call() {
    let mut behind = 0;
    for at in 1.. {
        let disk = SimDisk::new(at);
        let open = || {
            let builder = Queue::builder().clock(ManualClock::new()).by_hand(true);
            // A cache that is too small for the base.
            let builder = builder.journal_bytes(1 << 20).cache_bytes(1 << 20);
            builder.disk(disk.lend()).open_disk().unwrap()
        };
        let queue = open();
        queue.tube("t").unwrap().put_many(vec![[1; 250]; 8_000]).unwrap();
        queue.close().unwrap();
        drop(queue);
        let queue = open();
        let tube = queue.tube("t").unwrap();
        assert_eq!(tube.take_many(300).unwrap().len(), 300);
        assert_eq!(queue.space().unwrap().checkpoints, 0);
        disk.plan(Fault::ReadOnce(at));
        // A larger row goes to the base by itself.
        let put = tube.put(&[1; 80_000]);
        let struck = disk.strikes() > 0;
        disk.plan(Fault::None);
        let checkpoints = queue.space().unwrap().checkpoints;
        if !struck {
            assert_eq!(checkpoints, 1);
            break;
        }
        put.unwrap();
        behind += checkpoints;
        for _ in 0..300 {
            tube.try_take().unwrap().unwrap().ack().unwrap();
        }
    }
    assert!(behind > 3, "{behind} reads after the checkpoint");
}

/// Only readers of events want the payload of an acked task, and they must not stop a verb.
#[test]
fn a_payload_that_cannot_be_read_for_an_event_stops_no_verb() {
    let mut struck = 0;
    loop {
        let disk = SimDisk::new(struck);
        let (queue, tube) = open(&disk, Durability::Durable);
        let payloads = [vec![1; 5000], vec![2; 5000]];
        tube.put_many(payloads.clone()).unwrap();
        queue.close().unwrap();
        drop((queue, tube));
        let builder = Queue::builder().clock(ManualClock::new()).cache_bytes(0).by_hand(true);
        let queue = builder.disk(disk.lend()).open_disk().unwrap();
        let tube = queue.tube("t").unwrap();
        let tasks = tube.take_many(2).unwrap();
        let events = queue.events_with(EventOptions::new().payloads());
        // The takes have read the payloads. A new snapshot of the base has read nothing.
        queue.transact(|_| Ok::<_, tubewell::Error>(())).unwrap();
        disk.plan(Fault::ReadOnce(struck + 1));
        tube.ack_many(tasks).unwrap();
        let reported = std::iter::from_fn(|| events.try_recv());
        let reported: Vec<_> = reported.map(|event| event.payload().map(<[u8]>::to_vec)).collect();
        if disk.strikes() == 0 {
            assert_eq!(reported, payloads.map(Some));
            break;
        }
        assert_eq!(reported, [None, None], "read {struck}");
        struck += 1;
        assert!(tube.is_empty().unwrap() && queue.check().unwrap().is_empty());
    }
    assert!(struck > 1, "{struck} reads");
}

/// Regression: the base remembers an error until it is opened again, and only verbs did that.
/// Without verbs the timer got the same error without end, and due work was not done. After a
/// checkpoint nothing of the base has been read yet, so the first read is the timer's search for
/// due work.
#[test]
fn the_timer_goes_on_after_a_read_that_failed() {
    for comes_again in [true, false] {
        let (disk, clock) = (SimDisk::new(1), ManualClock::new());
        let builder = Queue::builder().clock(clock.clone()).cache_bytes(0).by_hand(true);
        let queue = builder.disk(disk.lend()).open_disk().unwrap();
        let tube = queue.tube("t").unwrap();
        tube.task(b"due").delay(Duration::from_secs(5)).put().unwrap();
        queue.checkpoint().unwrap();
        clock.advance(Duration::from_secs(6));
        disk.plan(Fault::ReadOnce(1));
        assert_eq!(kind_of(&queue.tick()), Some(ErrorKind::Io));
        if comes_again {
            queue.tick().unwrap();
        }
        assert_eq!(&tube.try_take().unwrap().unwrap()[..], b"due");
    }
}
