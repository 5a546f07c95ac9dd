//! Which taker gets which task, and when: every task once, no taker sleeps without end.

use crate::{explore, lone, secs, still, unless_closed};
use shuttle::sync::mpsc::channel;
use shuttle::thread::spawn;
use tubewell::{Stop, Tube, TubeKind, TubeOptions};

/// Takes until the queue is closed.
fn taker(tube: &Tube, reported: impl Fn(Vec<u8>)) {
    while let Some(task) = unless_closed(tube.take()) {
        let payload = task.to_vec();
        task.ack().unwrap();
        reported(payload);
    }
}

#[test]
fn every_task_is_taken_once() {
    explore(|| {
        let (queue, tube, clock) = lone();
        let (reported, received) = channel();
        let takers: Vec<_> = (0..3)
            .map(|_| {
                let (tube, reported) = (tube.clone(), reported.clone());
                spawn(move || taker(&tube, |payload| reported.send(payload).unwrap()))
            })
            .collect();
        let producers: Vec<_> = [b"a", b"b"]
            .into_iter()
            .map(|name| {
                let tube = tube.clone();
                spawn(move || {
                    tube.put(name).unwrap();
                    tube.task(&[name[0], b'!']).delay(secs(1)).put().unwrap();
                })
            })
            .collect();
        producers.into_iter().for_each(|producer| producer.join().unwrap());
        clock.advance(secs(1));
        let mut got: Vec<Vec<u8>> = (0..4).map(|_| received.recv().unwrap()).collect();
        queue.close().unwrap();
        takers.into_iter().for_each(|taker| taker.join().unwrap());
        got.extend(received.try_iter());
        got.sort();
        assert_eq!(got, [b"a".to_vec(), b"a!".to_vec(), b"b".to_vec(), b"b!".to_vec()]);
    });
}

#[test]
fn a_lease_that_lapses_against_its_ack() {
    explore(|| {
        let (builder, clock) = still();
        let queue = builder.in_memory().unwrap();
        let options = TubeOptions::new(TubeKind::FifoTtl).ttr(secs(1));
        let tube = queue.create_tube("t", options).unwrap();
        tube.put(b"once").unwrap();
        let task = tube.take().unwrap();
        let stop = Stop::new();
        let other = spawn({
            let (tube, stop) = (tube.clone(), stop.clone());
            move || tube.take_until(&stop).unwrap().map(|task| task.ack().unwrap()).is_some()
        });
        let acked = spawn(move || task.ack());
        clock.advance(secs(1));
        let acked = acked.join().unwrap();
        match &acked {
            Ok(()) => stop.stop(),
            Err(error) => assert!(error.is_lease_lost(), "{error}"),
        }
        let got = other.join().unwrap();
        assert!(acked.is_ok() != got, "{acked:?}, taken again: {got}");
        assert_eq!(tube.len().unwrap(), 0);
        queue.close().unwrap();
    });
}

#[test]
fn pause_and_resume_around_a_waiting_taker() {
    explore(|| {
        let (queue, tube, _clock) = lone();
        let taker = spawn({
            let tube = tube.clone();
            move || tube.take().unwrap().ack().unwrap()
        });
        let putter = spawn({
            let tube = tube.clone();
            move || tube.put(b"a").map(drop).unwrap()
        });
        tube.pause().unwrap();
        tube.resume().unwrap();
        taker.join().unwrap();
        putter.join().unwrap();
        queue.close().unwrap();
    });
}
