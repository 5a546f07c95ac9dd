//! Folders of every format that was ever released, as they were on the disk, and their content.
//! Each must open with this version, show its content, serve it to the end and open again. A golden
//! folder is never written again: it stands for the queues of users.
//!
//! `tests/golden/v1/NAME` has the two files in the text of `sparse`, and in `contents.txt` what was
//! visible when they were opened a minute after their story began, when leases that waited for
//! their consumers ended, and the order in which the tasks were taken.

mod flows;
mod hours;
pub(crate) mod listing;
mod lives;
mod midway;
mod sparse;
mod write;

use crate::{close_sound, home, secs};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tubewell::{ManualClock, Queue};

/// The files of a queue.
const FILES: [&str; 2] = ["base.redb", "journal"];

/// The folders of format 1. The stories are in `golden/write.rs`.
pub(crate) const NAMES: [&str; 24] = [
    "closed",
    "killed",
    "mid_lease",
    "behind_a_checkpoint",
    "sessions",
    "sessions_closed",
    "tubes",
    "unswept",
    "placed",
    "typed",
    "guests",
    "wrapped",
    "paged",
    "large",
    "carried",
    "terms",
    "steps",
    "lives",
    "flows",
    "grouped",
    "cascading",
    "merging",
    "cron",
    "hours",
];

/// Bytes of everything in `tests/golden`: some 20 000 for each folder.
const BYTES_MAX: u64 = 515_000;

/// Whether this build serves all of the folder: without the feature `cron` it does not know zones.
pub(crate) fn is_readable(name: &str) -> bool {
    name != "hours" || cfg!(feature = "cron")
}

/// The names of the folders of which this build serves all.
fn readable() -> impl Iterator<Item = &'static str> {
    NAMES.into_iter().filter(|name| is_readable(name))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn folder(name: &str) -> PathBuf {
    root().join("v1").join(name)
}

/// The folder as it was on the disk.
pub(crate) fn unpacked(name: &str) -> (TempDir, PathBuf) {
    unpacked_from(&folder(name))
}

fn unpacked_from(folder: &Path) -> (TempDir, PathBuf) {
    let (home, path) = home();
    fs::create_dir(&path).unwrap();
    for file in FILES {
        let text = fs::read_to_string(folder.join(format!("{file}.txt"))).unwrap();
        fs::write(path.join(file), sparse::unpack(&text)).unwrap();
    }
    (home, path)
}

/// Opens it a minute after its story began, on a manual clock.
fn open_at(path: &Path, clock: &ManualClock) -> tubewell::Result<Queue> {
    let builder = Queue::builder().clock(clock.clone()).by_hand(true);
    builder.placement("shortest", write::shortest()).open(path)
}

/// A minute after the files were written, on another start of the machine.
fn a_minute_later() -> ManualClock {
    ManualClock::at(listing::written() + secs(60))
}

pub(crate) fn opened(name: &str) -> (Queue, ManualClock, TempDir) {
    let (home, path) = unpacked(name);
    let clock = a_minute_later();
    (open_at(&path, &clock).unwrap(), clock, home)
}

/// The content of the folder, and the order in which its tasks are taken.
fn contents(name: &str) -> (String, String) {
    let text = fs::read_to_string(folder(name).join("contents.txt")).unwrap().replace('\r', "");
    let (found, order) = text.split_once("\n\n").expect("an empty line");
    (format!("{found}\n"), order.to_owned())
}

#[test]
fn every_folder_of_format_1_is_what_it_was_and_serves_on() {
    for name in readable() {
        println!("{name}");
        let (found, after) = contents(name);
        let tubes = listing::tubes_of(&found);
        let (queue, clock, _home) = opened(name);
        assert_eq!(listing::describe(&queue, &tubes), found);
        assert_eq!(queue.check().unwrap(), Vec::<String>::new());
        let graces = listing::graces(&queue, &clock);
        close_sound(queue);
        let (queue, clock, _home) = opened(name);
        assert_eq!(graces + &listing::work_off(&queue, &clock), after);
        close_sound(queue);
    }
}

/// An opening and a close change nothing visible, and no work is lost.
#[test]
fn every_folder_of_format_1_opens_again_unchanged() {
    for name in readable() {
        println!("{name}");
        let (found, _) = contents(name);
        let tubes = listing::tubes_of(&found);
        let (_home, path) = unpacked(name);
        open_at(&path, &a_minute_later()).unwrap().close().unwrap();

        let clock = a_minute_later();
        let queue = open_at(&path, &clock).unwrap();
        assert_eq!(listing::describe(&queue, &tubes), found, "opened again");
        listing::work_off(&queue, &clock);
        for tube in queue.tubes().unwrap() {
            let tube = queue.tube(&tube).unwrap();
            tube.finished().for_each(|task| tube.delete(task.unwrap().id).unwrap());
            tube.empty_trash().unwrap();
        }
        close_sound(queue);

        let queue = open_at(&path, &clock).unwrap();
        let left = listing::describe(&queue, &tubes);
        let stays =
            |line: &&str| ["tube ", "digests ", "notes "].iter().any(|it| line.starts_with(it));
        let lasting: Vec<_> = found.lines().filter(stays).collect();
        let lines = left.lines().filter(|line| *line != "payloads: 0 bytes");
        assert_eq!(lines.collect::<Vec<_>>(), lasting, "after the work");
        close_sound(queue);
    }
}

/// A folder that was made before format 1 was final has the same number. It is recognised and
/// refused, and no byte of it changes.
#[test]
fn a_folder_from_before_the_first_release_is_refused_unchanged() {
    let (_home, path) = unpacked_from(&root().join("v0/closed"));
    let files = || FILES.map(|name| fs::read(path.join(name)).unwrap());
    let before = files();
    let error = open_at(&path, &a_minute_later()).unwrap_err();
    assert_eq!(error.kind(), tubewell::ErrorKind::NotAQueue);
    let text = error.to_string();
    assert!(text.contains("made by a version before the first release: finish"), "{text}");
    assert!(files() == before);
}

#[test]
fn all_folders_are_opened_and_they_are_small() {
    let names = fs::read_dir(root().join("v1")).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(names.collect::<BTreeSet<_>>(), NAMES.map(str::to_owned).into());
    let files = NAMES.iter().flat_map(|name| fs::read_dir(folder(name)).unwrap());
    let bytes: u64 = files.map(|file| file.unwrap().metadata().unwrap().len()).sum();
    assert!(bytes < BYTES_MAX, "{bytes} bytes");
}

/// A value that an application would put into the golden files.
#[cfg(feature = "bincode")]
#[derive(serde::Serialize, serde::Deserialize, Debug, PartialEq)]
struct Mail {
    to: String,
    copies: Vec<u32>,
    note: Option<f64>,
}

#[test]
#[cfg(feature = "bincode")]
fn values_of_format_1_are_read_as_they_were_written() {
    let (queue, _clock, _home) = opened("typed");
    let bytes = queue.tube("mail").unwrap();
    let tube = bytes.typed::<Mail>();
    for (to, copies, note) in [
        ("ada", vec![], None),
        ("bob", vec![7; 3], None),
        ("cy", vec![7; 600], None),
        ("di", vec![300, 70_000], Some(-1.5)),
    ] {
        let mail = tube.take().unwrap();
        assert_eq!(*mail, Mail { to: to.into(), copies, note });
        mail.ack().unwrap();
    }
    assert!(tube.try_take().unwrap().is_none());
    let aside = bytes.peek_next(tubewell::State::Buried).unwrap().unwrap();
    assert_eq!(aside.summary.reason.unwrap().to_string(), "undecodable: it was put as plain bytes");
    close_sound(queue);
}
