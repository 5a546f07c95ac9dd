//! Opening: a folder that appears as a whole, and its content at the next opening.

#[cfg(unix)]
mod place;

use crate::disk::Recorder;
use crate::{close_sound, counts, drain, home, killed, kind, next, open, secs, still};
use std::fs;
use std::ops::ControlFlow;
use tubewell::testing::FileName;
use tubewell::{Builder, Durability, ErrorKind, Queue, State, TaskId};

fn names(path: &std::path::Path) -> Vec<String> {
    let entries = fs::read_dir(path).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_queue_is_one_folder_with_two_files() {
    let (home, path) = home();
    let queue = Queue::open(&path).unwrap();
    queue.tube("t").unwrap().put(b"a").unwrap();
    queue.close().unwrap();
    assert_eq!(names(home.path()), ["q"], "nothing is left beside it");
    assert_eq!(names(&path), ["base.redb", "journal"]);
}

#[test]
fn an_empty_folder_will_do() {
    let (_home, path) = home();
    fs::create_dir(&path).unwrap();
    let queue = open(&path);
    queue.tube("t").unwrap().put(b"a").unwrap();
    close_sound(queue);
    assert_eq!(drain(&open(&path).tube("t").unwrap()), "a");
}

#[test]
fn the_default_is_the_builder_with_every_default_written_out() {
    let (_home, path) = home();
    let queue = Queue::builder()
        .durability(Durability::Durable)
        .flush_interval(std::time::Duration::from_millis(50))
        .cache_bytes(32 << 20)
        .journal_bytes(32 << 20)
        .payload_bytes_max(16 << 20)
        .temporary_bytes_max(256 << 20)
        .durable_bytes_max(u64::MAX)
        .session_grace(secs(0))
        .clock(tubewell::SystemClock::default())
        .accept_loss(false)
        .by_hand(false)
        .open(&path)
        .unwrap();
    queue.tube("t").unwrap().put(b"a").unwrap();
    let written_out = queue.space().unwrap().journal_bytes;
    queue.close().unwrap();
    let (_other, elsewhere) = home();
    let plain = Queue::open(&elsewhere).unwrap();
    assert_eq!(plain.space().unwrap().journal_bytes, written_out);
    assert_eq!(next(&Queue::open(&path).unwrap().tube("t").unwrap()), "a");
}

/// More bytes than the cache holds are read repeatedly. The number of disk reads then shows the
/// size of the cache, and that of the default is the documented one.
#[test]
fn the_default_cache_has_32_mib() {
    let disk = Recorder::default();
    let queue = still().0.disk(disk.lend()).open_disk().unwrap();
    let tube = queue.tube("t").unwrap();
    let ids: Vec<_> = (0..12).flat_map(|_| tube.put_many(vec![[7; 60_000]; 60]).unwrap()).collect();
    queue.close().unwrap();
    let files = disk.begin();
    let reads = |builder: Builder| {
        let disk = Recorder::of(files.clone());
        let queue = builder.disk(disk.lend()).open_disk().unwrap();
        let tube = queue.tube("t").unwrap();
        disk.begin();
        for no in 0..3 * ids.len() {
            tube.peek(ids[no * 7919 % ids.len()]).unwrap();
        }
        disk.reads(FileName::Base)
    };
    let with = |mib: usize| reads(still().0.cache_bytes(mib << 20));
    let default = reads(still().0);
    assert_eq!(default, with(32));
    assert!(with(33) < default && default < with(31), "{default}");
}

#[test]
fn a_queue_in_memory_is_gone_with_its_last_handle() {
    let queue = Queue::in_memory().unwrap();
    queue.tube("t").unwrap().put(b"a").unwrap();
    assert_eq!(queue.tubes().unwrap(), ["t"]);
    queue.close().unwrap();
    assert!(Queue::in_memory().unwrap().tubes().unwrap().is_empty());
}

#[test]
fn tasks_come_back_in_the_states_they_were_in() {
    let (_home, path) = home();
    let queue = open(&path);
    let tube = queue.tube("t").unwrap();
    tube.put(b"ready").unwrap();
    tube.task(b"delayed").delay(secs(60)).put().unwrap();
    let buried = tube.put(b"buried").unwrap();
    tube.bury(buried, "because").unwrap();
    close_sound(queue);
    drop(tube);

    let queue = open(&path);
    let tube = queue.find_tube("t").unwrap().unwrap();
    assert_eq!(counts(&tube), [1, 1, 0, 1]);
    assert_eq!(tube.peek(buried).unwrap().summary.reason.unwrap().to_string(), "because");
    assert_eq!(next(&tube), "ready");
}

#[test]
fn a_kill_charges_what_was_taken_and_changes_nothing_else() {
    let (_home, path) = home();
    let queue = open(&path);
    let tube = queue.tube("t").unwrap();
    let id = tube.put(b"in hand").unwrap();
    tube.task(b"delayed").delay(secs(60)).put().unwrap();
    let task = tube.take().unwrap();

    let (_copy, copy) = killed(&path);
    let after = open(&copy);
    let tube = after.tube("t").unwrap();
    assert_eq!(counts(&tube), [1, 1, 0, 0]);
    assert_eq!(tube.peek(id).unwrap().attempts, 1, "the task may have killed the process");
    let again = tube.take().unwrap();
    assert_eq!((again.id(), again.attempt(), again.deliveries()), (id, 2, 2));
    drop(task);
}

#[test]
fn a_close_gives_the_attempt_back() {
    let (_home, path) = home();
    let queue = open(&path);
    let tube = queue.tube("t").unwrap();
    let id = tube.put(b"in hand").unwrap();
    let task = tube.take().unwrap();
    close_sound(queue);

    let tube = open(&path).tube("t").unwrap();
    let info = tube.peek(id).unwrap();
    assert_eq!((info.state, info.attempts, info.deliveries), (State::Ready, 0, 1));
    assert_eq!(task.to_vec(), b"in hand");
}

#[test]
fn a_task_that_kills_its_process_is_buried_in_the_end() {
    let (_home, path) = home();
    let options = tubewell::TubeOptions::default().max_attempts(2);
    let queue = open(&path);
    let tube = queue.create_tube("t", options).unwrap();
    let id = tube.put(b"poison").unwrap();
    let _first = tube.take().unwrap();

    let (_copy, copy) = killed(&path);
    let queue = open(&copy);
    let tube = queue.tube("t").unwrap();
    let _second = tube.take().unwrap();

    let (_copy, copy) = killed(&copy);
    let tube = open(&copy).tube("t").unwrap();
    let info = tube.peek(id).unwrap();
    assert_eq!(info.state, State::Buried);
    assert_eq!(info.summary.reason.unwrap().to_string(), "attempts exhausted");
}

#[test]
fn numbers_continue_and_are_never_given_twice() {
    let (_home, path) = home();
    let mut seen = TaskId::new(0);
    for _ in 0..3 {
        let queue = open(&path);
        let tube = queue.tube("t").unwrap();
        for _ in 0..3 {
            let id = tube.put(b"x").unwrap();
            assert!(id > seen, "{id} after {seen}");
            seen = id;
        }
        tube.truncate().unwrap();
        close_sound(queue);
    }
}

#[test]
fn a_folder_is_moved_as_a_whole() {
    let (home, path) = home();
    let queue = open(&path);
    queue.tube("t").unwrap().put(b"a").unwrap();
    queue.close().unwrap();
    drop(queue);
    let elsewhere = home.path().join("elsewhere");
    fs::rename(&path, &elsewhere).unwrap();
    assert_eq!(next(&open(&elsewhere).tube("t").unwrap()), "a");
}

#[test]
fn opening_shows_its_progress_and_can_be_stopped() {
    let (_home, path) = home();
    let queue = open(&path);
    let tube = queue.tube("t").unwrap().durability(Durability::Relaxed);
    for _ in 0..2000 {
        tube.put(b"x").unwrap();
    }
    let (_copy, copy) = killed(&path);

    let stopped = still().0.progress(|_| ControlFlow::Break(())).open(&copy);
    assert_eq!(kind(stopped), ErrorKind::Cancelled);

    let (reported, received) = std::sync::mpsc::channel();
    let tell = move |progress: tubewell::Progress| {
        reported.send(format!("{progress:?}")).unwrap();
        ControlFlow::Continue(())
    };
    let queue = still().0.progress(tell).open(&copy).unwrap();
    assert!(received.try_iter().count() > 0);
    assert_eq!(queue.tube("t").unwrap().len().unwrap(), 2000);
    close_sound(queue);
}

#[test]
fn queue_time_goes_on_while_the_queue_is_closed() {
    let (_home, path) = home();
    let (builder, clock) = still();
    let queue = builder.open(&path).unwrap();
    let tube = queue.tube("t").unwrap();
    tube.task(b"later").delay(secs(60)).put().unwrap();
    tube.task(b"short").ttl(secs(30)).put().unwrap();
    close_sound(queue);
    drop(tube);

    clock.advance(secs(60));
    let queue = still().0.clock(clock).open(&path).unwrap();
    assert_eq!(drain(&queue.tube("t").unwrap()), "later");
}
