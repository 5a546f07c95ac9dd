//! `repair` mends what `check` finds, drops no task, and changes nothing of a sound queue.

use crate::{close_sound, home, is_mended, killed, kind, open, secs, still};
use std::fs;
use std::path::Path;
use tubewell::{ErrorKind, Reason, State, TubeOptions};

/// Flips a bit of each of these bytes in the base. Returns how many places there are.
pub(crate) fn damage(path: &Path, text: &[u8]) -> usize {
    let base = path.join("base.redb");
    let mut bytes = fs::read(&base).unwrap();
    let places: Vec<_> =
        (0..bytes.len() - text.len()).filter(|at| bytes[*at..].starts_with(text)).collect();
    places.iter().for_each(|at| bytes[*at] ^= 0x20);
    fs::write(&base, bytes).unwrap();
    places.len()
}

#[test]
fn a_sound_queue_is_left_as_it_is() {
    let (_home, path) = home();
    let queue = open(&path);
    let tube = queue.create_tube("t", TubeOptions::default()).unwrap();
    for group in ["g", "h", "g"] {
        tube.task(b"x").group(group).key("k").on_conflict(tubewell::Conflict::Keep).put().unwrap();
        tube.task(&[7; 70_000]).delay(secs(9)).put().unwrap();
    }
    let task = tube.take().unwrap();
    tube.trash(tube.put(b"y").unwrap(), "no").unwrap();
    queue.checkpoint().unwrap();
    let before = queue.space().unwrap().journal_used;
    assert!(queue.repair().unwrap().is_empty());
    assert_eq!(queue.space().unwrap().journal_used, before, "nothing is written");
    task.ack().unwrap();
    drop(tube);
    close_sound(queue);
    let queue = still().0.read_only(true).open(&path).unwrap();
    assert_eq!(kind(queue.repair()), ErrorKind::ReadOnly);
}

#[test]
fn damaged_tasks_are_buried_and_the_queue_goes_on() {
    let (_home, path) = home();
    let queue = open(&path);
    let tube = queue.tube("tube name").unwrap();
    let ids = ["payload one", "payload two", "payload three"]
        .map(|text| tube.task(text.as_bytes()).put().unwrap());
    let held = tube.claim(ids[2]).unwrap();
    let large = [vec![1; 9000], b"the middle of it".to_vec(), vec![2; 9000]].concat();
    let large = tube.put(&large).unwrap();
    queue.checkpoint().unwrap();
    let (_copy, copy) = killed(&path);
    drop(held);
    assert!(damage(&copy, b"payload two") > 0);
    assert!(damage(&copy, b"payload three") > 0);
    assert!(damage(&copy, b"the middle of it") > 0);

    let queue = open(&copy);
    assert!(!queue.check().unwrap().is_empty());
    let repairs = queue.repair().unwrap();
    assert!(repairs.steps.iter().any(|step| step.ends_with("the task was buried")), "{repairs:?}");
    assert_eq!(repairs.steps_left_out, 0);
    let lost = format!("the payload of task {large} is lost");
    let known = ["redb's own check", "the row 22", "Piece: a damaged row", lost.as_str()];
    let is_known = |line: &String| known.iter().any(|known| line.contains(known));
    assert!(repairs.left.iter().all(is_known), "{repairs:?}");
    assert!(repairs.left.iter().any(|line| line.contains(&lost)), "{repairs:?}");

    let tube = queue.tube("tube name").unwrap();
    for id in [ids[1], ids[2], large] {
        let found = queue.find(id).map(|found| (found.state, found.reason.clone()));
        match found {
            Ok((state, reason)) => {
                assert_eq!(state, State::Buried, "{id}");
                assert!(matches!(reason, Some(Reason::Undecodable(_))), "{reason:?}");
            }
            // Its payload cannot be read.
            Err(error) => assert_eq!((error.kind(), id), (ErrorKind::Damaged, large)),
        }
    }
    assert_eq!(tube.take().unwrap().id(), ids[0], "the others are served");
    assert!(queue.repair().unwrap().steps.is_empty(), "once");
    tube.delete(large).unwrap();
    // What was repaired is written, also if the process ends now.
    let (_copy, copy) = killed(&copy);
    let queue = open(&copy);
    is_mended(&queue);
    assert!(queue.repair().unwrap().steps.is_empty());
}

/// The tube is made again with the options of a new one, and has its tasks.
#[test]
fn a_tube_with_a_damaged_row_is_made_again() {
    let (_home, path) = home();
    let queue = open(&path);
    let tube = queue.create_tube("tube name", TubeOptions::default().ttr(secs(77))).unwrap();
    let id = tube.put(b"payload").unwrap();
    drop(tube);
    close_sound(queue);
    let base = path.join("base.redb");
    let mut bytes = fs::read(&base).unwrap();
    // In the row's value the name stands after its length.
    let rows = |at: &usize| bytes[*at..].starts_with(b"\x09tube name");
    let places: Vec<_> = (0..bytes.len() - 99).filter(rows).collect();
    assert!(!places.is_empty());
    places.into_iter().for_each(|at| bytes[at + 1] ^= 0x20);
    fs::write(&base, bytes).unwrap();

    let queue = open(&path);
    assert!(queue.tube("tube name").is_err());
    let repairs = queue.repair().unwrap();
    assert!(repairs.steps.iter().any(|step| step.contains("default options")), "{repairs:?}");
    is_mended(&queue);
    let tube = queue.tube("tube name").unwrap();
    let task = tube.take().unwrap();
    assert_eq!((task.id(), &task[..]), (id, &b"payload"[..]));
}
