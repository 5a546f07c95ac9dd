//! A batch too large for one record of the journal goes to the base instead. Like one in the
//! journal, it is complete or absent after a kill or a power cut at any point. Each write and sync
//! of the step is such a point once.

use crate::disk::{Event, Files, Recorder, write};
use crate::still;
use tubewell::{Queue, State, Task, Tube};

/// More than a quarter of the smallest journal, as rows that are put, taken and acked.
const TASKS: usize = 700;

fn open(disk: &Recorder) -> Queue {
    still().0.journal_bytes(64 << 10).disk(disk.lend()).open_disk().unwrap()
}

/// What a kill leaves after these events and in the middle of the next.
fn killed(before: &Files, done: &[Event], next: Option<&Event>) -> Files {
    let mut files = before.clone();
    done.iter().for_each(|event| event.carry_out(&mut files));
    if let Some(Event::Write(file, at, data)) = next {
        write(&mut files[*file], *at, &data[..data.len() / 2]);
    }
    files
}

/// What a power cut leaves after these events. Of unsynced writes every `of`th one stays.
fn cut(before: &Files, done: &[Event], of: usize) -> Files {
    let mut files = before.clone();
    for (no, event) in done.iter().enumerate() {
        let file = event.file();
        let is_synced =
            done[no..].iter().any(|later| matches!(later, Event::Sync(it) if *it == file));
        // A new length is kept, so that later writes have a place.
        if is_synced || matches!(event, Event::SetLen(..)) || no % of == 0 {
            event.carry_out(&mut files);
        }
    }
    files
}

/// How many tasks there are, and how many of them were ever taken.
fn found(files: Files) -> (usize, usize) {
    let queue = open(&Recorder::of(files));
    let tube = queue.tube("t").unwrap();
    let all: Vec<_> = tube.tasks(State::Ready).map(|task| task.unwrap()).collect();
    assert_eq!(queue.check().unwrap(), Vec::<String>::new());
    assert!(all.iter().all(|task| task.payload == [b'x'; 600]));
    (all.len(), all.iter().filter(|task| task.attempts > 0).count())
}

#[test]
fn a_batch_larger_than_a_record_is_there_whole_or_not_at_all() {
    type Step = fn(&Tube, &mut Vec<Task>);
    let put: Step = |tube, _| drop(tube.put_many(vec![vec![b'x'; 600]; TASKS]).unwrap());
    let take: Step = |tube, tasks| *tasks = tube.take_many(TASKS).unwrap();
    let ack: Step = |tube, tasks| tube.ack_many(tasks.drain(..)).unwrap();
    let steps = [
        (put, (0, 0), (TASKS, 0)),
        (take, (TASKS, 0), (TASKS, TASKS)),
        (ack, (TASKS, TASKS), (0, 0)),
    ];
    let disk = Recorder::default();
    let queue = open(&disk);
    let tube = queue.tube("t").unwrap();
    let mut tasks = Vec::new();
    for (step, without, with) in steps {
        let (before, checkpoints) = (disk.begin(), queue.space().unwrap().checkpoints);
        step(&tube, &mut tasks);
        assert_eq!(queue.space().unwrap().checkpoints, checkpoints + 1, "the journal held it");
        let events = disk.events();
        let mut seen = [0, 0];
        for at in 0..=events.len() {
            let (done, next) = (&events[..at], events.get(at));
            let ends = [
                killed(&before, done, None),
                killed(&before, done, next),
                cut(&before, done, 1),
                cut(&before, done, 2),
                cut(&before, done, usize::MAX),
            ];
            for (no, files) in ends.into_iter().enumerate() {
                let found = found(files);
                assert!(found == without || found == with, "{found:?}, end {no} of event {at}");
                assert!(at < events.len() || found == with, "it had returned, end {no}");
                seen[usize::from(found == with)] += 1;
            }
        }
        assert!(seen[0] > 10 && seen[1] > 4, "{seen:?}");
    }
}
