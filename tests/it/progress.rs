//! The progress that an opening reports.

use crate::{home, killed, still};
use std::cell::RefCell;
use std::ops::ControlFlow;
use std::path::Path;
use std::rc::Rc;
use tubewell::{Builder, Durability, Progress, Queue, Stage};

const ORDER: [Stage; 4] = [Stage::Create, Stage::Replay, Stage::Scan, Stage::Settle];

/// Opens it; returns the queue and the reported progress.
fn reported(builder: Builder, path: &Path) -> (Queue, Vec<Progress>) {
    let reported = Rc::new(RefCell::new(Vec::new()));
    let telling = reported.clone();
    let builder = builder.progress(move |progress| {
        telling.borrow_mut().push(progress);
        ControlFlow::Continue(())
    });
    let queue = builder.open(path).unwrap();
    let reported = reported.borrow().clone();
    (queue, reported)
}

/// The reported stages, in order; each begins at 0, grows and has an end.
fn stages(reported: &[Progress]) -> Vec<Stage> {
    let mut stages = Vec::new();
    for part in reported.chunk_by(|one, next| one.stage == next.stage) {
        let Progress { stage, total, .. } = part[0];
        assert!(part.is_sorted_by_key(|progress| progress.done), "{part:?}");
        assert!(part.iter().all(|progress| progress.total == total), "{part:?}");
        assert!(part.iter().all(|progress| progress.done <= total), "{part:?}");
        assert!(total > 0, "{part:?}");
        stages.push(stage);
    }
    let place = |stage| ORDER.iter().position(|other| other == stage);
    assert!(stages.is_sorted_by_key(place), "{reported:?}");
    stages
}

/// The last progress of a stage.
fn last(reported: &[Progress], stage: Stage) -> Progress {
    *reported.iter().rfind(|progress| progress.stage == stage).unwrap()
}

#[test]
fn a_creation_and_an_opening_after_a_clean_close_report_their_stages_in_order() {
    let (_home, path) = home();
    let (queue, created) = reported(still().0, &path);
    assert_eq!(stages(&created), ORDER);
    let create = last(&created, Stage::Create);
    assert_eq!((created[0].stage, created[0].done), (Stage::Create, 0));
    assert_eq!((create.done, create.total), (queue.space().unwrap().journal_bytes, create.done));
    let tube = queue.tube("t").unwrap();
    tube.put_many((0..1000).map(|_| vec![1; 100])).unwrap();
    drop(tube);
    queue.close().unwrap();

    let (_queue, opened) = reported(still().0, &path);
    assert_eq!(stages(&opened), [Stage::Replay, Stage::Settle], "nothing to search for");
    assert_eq!(last(&opened, Stage::Replay).done, 0, "a close leaves nothing to replay");
    assert_eq!((last(&opened, Stage::Settle).done, last(&opened, Stage::Settle).total), (1, 1));
}

#[test]
fn an_opening_after_a_kill_reports_the_replay() {
    let (_home, path) = home();
    let builder = still().0.journal_bytes(128 << 20).durability(Durability::Relaxed);
    let queue = builder.open(&path).unwrap();
    let tube = queue.tube("t").unwrap();
    for _ in 0..80 {
        tube.put_many((0..100).map(|_| vec![1; 1000])).unwrap();
    }
    assert_eq!(queue.space().unwrap().checkpoints, 0, "all of it is in the journal");
    let used = queue.space().unwrap().journal_used;
    let (_copy, copy) = killed(&path);

    let (reopened, opened) = reported(still().0, &copy);
    assert_eq!(reopened.tube("t").unwrap().len().unwrap(), 8000);
    assert_eq!(stages(&opened), ORDER[1..]);
    let replay: Vec<_> = opened.iter().filter(|progress| progress.stage == Stage::Replay).collect();
    assert!(replay.len() as u64 >= used >> 20, "about once a megabyte: {replay:?}");
    assert!(replay.iter().all(|progress| progress.done <= used), "{replay:?}");
    assert!(used - last(&opened, Stage::Replay).done < 2 << 20, "{used} bytes: {replay:?}");
    assert_eq!(last(&opened, Stage::Settle).done, 1);
}
