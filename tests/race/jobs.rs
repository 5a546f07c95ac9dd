//! Two calls that each would have the task: one of them gets it, and there is one story.

use crate::{acked, explore, lone, secs};
use shuttle::thread::spawn;
use tubewell::{Conflict, ErrorKind, HistoryEvent, PutOutcome, Retention, TubeOptions};

#[test]
fn two_adopt_a_session_and_one_gets_its_task() {
    explore(|| {
        let (queue, _, _clock) = lone();
        let options = TubeOptions::default().keep_finished(Retention::new());
        let tube = queue.create_tube("kept", options).unwrap();
        let id = tube.put(b"a").unwrap();
        let ada = queue.consumer_with_grace("ada", secs(60)).unwrap();
        tube.by(&ada).take().unwrap().detach();
        drop(ada);
        let adopters = ["bob", "cyd"].map(|name| {
            let (tube, adopter) = (tube.clone(), queue.consumer(name).unwrap());
            spawn(move || match adopter.adopt("ada") {
                Ok(left) => left.tasks(&tube).map(|task| task.unwrap().ack().unwrap()).count(),
                Err(error) if error.kind() == ErrorKind::WrongState => 0,
                Err(error) => panic!("{error}"),
            })
        });
        let handed: usize = adopters.into_iter().map(|adopter| adopter.join().unwrap()).sum();
        assert_eq!(handed, 1);
        let history = tube.history(id).unwrap();
        let events: Vec<_> = history.entries.iter().map(|entry| entry.event).collect();
        assert_eq!(events, [HistoryEvent::Put, HistoryEvent::Adopted, HistoryEvent::Done]);
        queue.close().unwrap();
    });
}

#[test]
fn a_put_again_beside_the_ack_of_the_holder() {
    explore(|| {
        let (queue, tube, _clock) = lone();
        let id = tube.task(b"a").key("k").put().unwrap();
        let task = tube.take().unwrap();
        let acking = spawn(move || acked(task.ack()));
        let putting = spawn({
            let tube = tube.clone();
            move || {
                let again = tube.task(b"b").key("k").on_conflict(Conflict::Replace);
                again.put_outcome().unwrap()
            }
        });
        let (acked, put) = (acking.join().unwrap(), putting.join().unwrap());
        // Either the first one was finished and this is another one, or the holder has lost it.
        let outcome = if acked { PutOutcome::New } else { PutOutcome::Replaced };
        assert_eq!((put.outcome, put.id == id), (outcome, !acked));
        assert_eq!(tube.len().unwrap(), 1);
        let left = tube.take().unwrap();
        assert_eq!((left.id(), &left[..]), (put.id, &b"b"[..]));
        left.ack().unwrap();
        queue.close().unwrap();
    });
}
