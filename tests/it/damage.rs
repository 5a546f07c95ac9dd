//! Damaged or foreign folders: a clear error, and nothing is changed or lost.

mod check;
mod cut;
#[cfg(unix)]
pub(crate) mod modes;

use crate::{close_sound, drain, home, is_mended, killed, open, secs, still};
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use tempfile::TempDir;
use tubewell::testing::{Access, Disk, DiskFile, FileName, Found, Staging};
use tubewell::{ErrorKind, ManualClock, Queue, Reason, State};

const FILES: [&str; 2] = ["base.redb", "journal"];

fn refused(path: &Path) -> ErrorKind {
    let error = still().0.open(path).unwrap_err();
    let text = error.to_string();
    assert!(text.contains(path.to_str().unwrap()), "{text}");
    error.kind()
}

/// A closed queue with three tasks.
fn made() -> (TempDir, PathBuf) {
    let (home, path) = home();
    let queue = open(&path);
    let tube = queue.tube("t").unwrap();
    for text in ["a", "b", "c"] {
        tube.put(text.as_bytes()).unwrap();
    }
    close_sound(queue);
    (home, path)
}

fn bytes(path: &Path) -> [Vec<u8>; 2] {
    FILES.map(|name| fs::read(path.join(name)).unwrap())
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 0x20;
    fs::write(path, bytes).unwrap();
}

/// The positions of a text in a file.
fn places(path: &Path, text: &[u8]) -> Vec<usize> {
    let bytes = fs::read(path).unwrap();
    (0..bytes.len()).filter(|at| bytes[*at..].starts_with(text)).collect()
}

#[test]
fn a_path_that_is_a_file() {
    let (_home, path) = home();
    fs::write(&path, "a letter").unwrap();
    assert_eq!(refused(&path), ErrorKind::NotAQueue);
    assert_eq!(fs::read(&path).unwrap(), b"a letter");
}

#[test]
fn a_missing_parent() {
    let (home, _) = home();
    assert_eq!(refused(&home.path().join("no").join("q")), ErrorKind::Io);
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
}

#[test]
fn a_foreign_folder() {
    let (_home, path) = home();
    fs::create_dir(&path).unwrap();
    fs::write(path.join("photo"), "x").unwrap();
    assert_eq!(refused(&path), ErrorKind::NotAQueue);
    fs::write(path.join("journal"), "dear diary").unwrap();
    assert_eq!(refused(&path), ErrorKind::NotAQueue, "a journal is not always ours");
    assert_eq!(fs::read(path.join("journal")).unwrap(), b"dear diary");
    assert_eq!(fs::read_dir(&path).unwrap().count(), 2);
}

#[test]
fn strange_files_beside_the_two_are_left_alone() {
    let (_home, path) = made();
    fs::write(path.join("notes"), "mine").unwrap();
    fs::create_dir(path.join("more")).unwrap();
    let queue = open(&path);
    assert_eq!(drain(&queue.tube("t").unwrap()), "a b c");
    close_sound(queue);
    assert_eq!(fs::read(path.join("notes")).unwrap(), b"mine");
    assert!(path.join("more").is_dir());
}

/// What a folder refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refuses {
    Creation,
    Journal,
    Base,
    /// Every write and sync of the base.
    BaseWrites,
}

/// The folder of a queue, or an empty place, that can only be read.
#[derive(Debug)]
struct ReadOnly {
    path: PathBuf,
    refuses: Refuses,
}

#[derive(Debug)]
struct ReadOnlyFile(Vec<u8>);

fn denied<T>() -> io::Result<T> {
    Err(io::ErrorKind::PermissionDenied.into())
}

impl ReadOnly {
    fn file(&self, name: FileName) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(ReadOnlyFile(fs::read(self.path.join(name.as_str()))?)))
    }
}

impl Disk for ReadOnly {
    fn folder(&self) -> &Path {
        &self.path
    }

    fn found(&self) -> io::Result<Found> {
        let empty = self.refuses == Refuses::Creation;
        Ok(if empty { Found::Nothing } else { Found::Whole })
    }

    fn stage(&self) -> io::Result<Box<dyn Staging>> {
        denied()
    }

    fn open_journal(&self, _: Access) -> io::Result<Option<Arc<dyn DiskFile>>> {
        if self.refuses == Refuses::Journal {
            return denied();
        }
        self.file(FileName::Journal).map(Some)
    }

    fn open_base(&self, _: Access) -> io::Result<Arc<dyn DiskFile>> {
        if self.refuses == Refuses::Base {
            return denied();
        }
        self.file(FileName::Base)
    }
}

impl DiskFile for ReadOnlyFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let found = self.0.get(offset as usize..).and_then(|rest| rest.get(..out.len()));
        out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_at(&self, _offset: u64, _data: &[u8]) -> io::Result<()> {
        denied()
    }

    fn set_len(&self, _len: u64) -> io::Result<()> {
        denied()
    }

    fn sync(&self) -> io::Result<()> {
        denied()
    }
}

/// On any system, and for any user.
#[test]
fn what_may_not_be_written_is_an_io_error_that_says_so() {
    for refuses in [Refuses::Creation, Refuses::Journal, Refuses::Base, Refuses::BaseWrites] {
        let (_home, path) = made();
        let disk = Arc::new(ReadOnly { path, refuses });
        let error = still().0.disk(disk).open_disk().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{refuses:?}: {error}");
        let cause = error.into_source().expect("the disk's error");
        let cause = cause.downcast::<io::Error>().unwrap();
        assert_eq!(cause.kind(), io::ErrorKind::PermissionDenied, "{refuses:?}");
    }
}

#[test]
fn one_of_the_two_files_missing() {
    for missing in FILES {
        let (_home, path) = made();
        let kept = fs::read(path.join(missing)).unwrap();
        fs::remove_file(path.join(missing)).unwrap();
        assert_eq!(refused(&path), ErrorKind::Damaged, "{missing}");
        fs::write(path.join(missing), kept).unwrap();
        assert_eq!(drain(&open(&path).tube("t").unwrap()), "a b c");
    }
}

#[test]
fn the_two_files_under_each_others_names() {
    let (_home, path) = made();
    let before = bytes(&path);
    fs::rename(path.join("journal"), path.join("x")).unwrap();
    fs::rename(path.join("base.redb"), path.join("journal")).unwrap();
    fs::rename(path.join("x"), path.join("base.redb")).unwrap();
    assert_eq!(refused(&path), ErrorKind::NotAQueue);
    let [base, journal] = bytes(&path);
    assert_eq!([journal, base], before, "not a byte was changed");
}

#[test]
fn files_of_two_different_queues() {
    let (_one, one) = made();
    let (_other, other) = made();
    fs::copy(other.join("journal"), one.join("journal")).unwrap();
    assert_eq!(refused(&one), ErrorKind::Damaged);
}

/// The chain continues from the older base while its records are still in the ring. After the ring
/// has wrapped, the folder is refused. The queue never opens with only a part of the records.
#[test]
fn an_older_base_beside_a_newer_journal() {
    for (journal_bytes, expected) in [(4 << 20, Ok(202)), (64 << 10, Err(ErrorKind::Damaged))] {
        let (_home, path) = home();
        let open = || still().0.journal_bytes(journal_bytes).open(&path);
        let queue = open().unwrap();
        queue.tube("t").unwrap().put_many([*b"a", *b"b", *b"c"]).unwrap();
        queue.close().unwrap();
        let old = fs::read(path.join("base.redb")).unwrap();
        let queue = open().unwrap();
        let tube = queue.tube("t").unwrap();
        for no in 0..200 {
            tube.put(&[7; 1000]).unwrap();
            if no % 30 == 29 {
                queue.checkpoint().unwrap();
            }
        }
        tube.take().unwrap().ack().unwrap();
        queue.close().unwrap();
        fs::write(path.join("base.redb"), old).unwrap();
        let found = open().map(|queue| {
            let len = queue.tube("t").unwrap().len().unwrap();
            close_sound(queue);
            len
        });
        assert_eq!(found.map_err(|error| error.kind()), expected, "{journal_bytes}");
    }
}

#[test]
fn a_newer_format_is_refused_and_left_as_it_is() {
    let (_home, path) = made();
    let mut journal = fs::read(path.join("journal")).unwrap();
    journal[8..12].copy_from_slice(&9_u32.to_be_bytes());
    let checksum = (xxhash_rust::xxh3::xxh3_64(&journal[..12]) >> 32) as u32;
    journal[12..16].copy_from_slice(&checksum.to_be_bytes());
    fs::write(path.join("journal"), journal).unwrap();
    let before = bytes(&path);
    assert_eq!(refused(&path), ErrorKind::NewerFormat);
    assert_eq!(bytes(&path), before);
}

#[test]
fn flipped_bytes_in_the_head_of_the_journal() {
    for at in [0, 7, 8, 11, 12, 16, 31, 32, 39, 40, 47] {
        let (_home, path) = made();
        flip(&path.join("journal"), at);
        let refused = refused(&path);
        let fits = matches!(refused, ErrorKind::Damaged | ErrorKind::NotAQueue);
        assert!(fits, "byte {at}: {refused:?}");
    }
}

#[test]
fn a_flip_in_a_synced_record_is_reported_and_never_skipped() {
    let (_home, path) = home();
    let queue = open(&path);
    let tube = queue.tube("t").unwrap();
    for text in ["payload one", "payload two", "payload three"] {
        tube.put(text.as_bytes()).unwrap();
    }
    let (_copy, copy) = killed(&path);
    let journal = copy.join("journal");
    let place = places(&journal, b"payload two");
    assert!(!place.is_empty());
    place.into_iter().for_each(|at| flip(&journal, at));
    let before = fs::read(&journal).unwrap();
    assert_eq!(refused(&copy), ErrorKind::Damaged);
    // The base is opened and closed again, and its own header records that.
    let after = fs::read(&journal).unwrap();
    assert!(before == after, "the journal is unchanged and may still be repaired");

    let queue = still().0.accept_loss(true).open(&copy).unwrap();
    assert_eq!(drain(&queue.tube("t").unwrap()), "payload one", "up to the damage");
    close_sound(queue);
    open(&copy).close().unwrap();
}

#[test]
fn a_damaged_row_is_reported_and_its_neighbours_are_served() {
    let (_home, path) = home();
    let queue = open(&path);
    let tube = queue.tube("t").unwrap();
    let texts = ["payload one", "payload two", "payload three"];
    let ids = texts.map(|text| tube.put(text.as_bytes()).unwrap());
    close_sound(queue);
    drop(tube);
    let base = path.join("base.redb");
    let place = places(&base, b"payload two");
    assert!(!place.is_empty());
    place.into_iter().for_each(|at| flip(&base, at));

    let queue = open(&path);
    let tube = queue.tube("t").unwrap();
    let faults = queue.check().unwrap();
    let reported = |words: &str| faults.iter().any(|fault| fault.contains(words));
    // Its tag and run, and at the end of the key its id.
    let own = faults.iter().filter(|fault| fault.contains("the row 1100000001"));
    let id = format!("{:016x} is damaged", ids[1].get());
    assert_eq!(own.filter(|fault| fault.ends_with(&id)).count(), 1, "{faults:?}");
    assert!(reported("tube \"t\": Fresh: a damaged row"), "{faults:?}");
    assert!(reported("fails redb's own check"), "{faults:?}");
    assert_eq!(drain(&tube), "payload one payload three");
    let info = tube.peek(ids[1]).unwrap();
    assert_eq!((info.state, info.payload.len()), (State::Buried, 0));
    assert!(matches!(info.reason, Some(Reason::Undecodable(_))), "{:?}", info.reason);
    tube.delete(ids[1]).unwrap();
    assert!(tube.is_empty().unwrap());
    tube.put(b"life goes on").unwrap();
    assert_eq!(drain(&tube), "life goes on");
}

/// The key is lost with the row; the payload, the rank and the deadline are in other rows.
#[test]
fn other_rows_of_a_task_with_a_damaged_row_are_kept() {
    let (_home, path) = home();
    let queue = open(&path);
    let tube = queue.tube("t").unwrap();
    let large = b"haystack".repeat(2000);
    let task = tube.task(&large).priority(-7).group("needle").ttl(secs(60));
    let id = task.put().unwrap();
    close_sound(queue);
    drop(tube);
    let base = path.join("base.redb");
    // In the row's value, at its end, and in its key.
    for place in places(&base, b"\x06needle") {
        let bytes = fs::read(&base).unwrap();
        if bytes[place + 7..].starts_with(&(large.len() as u64).to_be_bytes()) {
            flip(&base, place + 7);
        }
    }

    let clock = ManualClock::new();
    let queue = Queue::builder().clock(clock.clone()).by_hand(true).open(&path).unwrap();
    let tube = queue.tube("t").unwrap();
    assert!(tube.try_take().unwrap().is_none());
    let aside = tube.peek(id).unwrap();
    assert!(matches!(aside.reason, Some(Reason::Undecodable(_))), "{:?}", aside.reason);
    assert_eq!(
        (aside.priority, aside.group.as_deref(), aside.payload.clone()),
        (-7, Some("needle"), large)
    );
    assert_eq!(aside.ttl_left, Some(secs(60)));
    clock.advance(secs(59));
    queue.tick().unwrap();
    assert_eq!(tube.peek(id).unwrap().state, State::Buried);
    tube.kick_task(id).unwrap();
    tube.take().unwrap().ack().unwrap();
    drop(tube);
    is_mended(&queue);
}

#[test]
fn a_damaged_large_payload_is_never_delivered() {
    let (_home, path) = home();
    let queue = open(&path);
    let tube = queue.tube("t").unwrap();
    let large = b"needle in a haystack".repeat(2000);
    tube.put(&large).unwrap();
    tube.put(b"neighbour").unwrap();
    close_sound(queue);
    drop(tube);
    let base = path.join("base.redb");
    let place = places(&base, b"needle");
    flip(&base, place[place.len() / 2]);

    let queue = open(&path);
    let tube = queue.tube("t").unwrap();
    assert_eq!(drain(&tube), "neighbour");
    assert!(!queue.check().unwrap().is_empty());
}

/// Regression: the pieces of its first payload waited to be removed by work of the tube that it
/// came from. The repair looked for work of its present tube only, and removed the payload.
#[test]
fn a_task_with_a_damaged_row_keeps_its_payload_beside_those_before_it() {
    let (home, path) = home();
    let queue = open(&path);
    let [a, b] = ["a", "b"].map(|name| queue.tube(name).unwrap());
    let mut payload = vec![1; 2_000_000];
    let id = a.task(&payload).group("needle").put().unwrap();
    payload.push(2);
    a.take().unwrap().with_payload(&payload).release().unwrap();
    a.move_to(id, &b).apply().unwrap();
    // As after a kill: a close would remove them.
    queue.checkpoint().unwrap();
    let (mut place, mut path) = killed(&path);
    let two_payloads = 60;
    assert!(queue.base_space().unwrap().rows > two_payloads);
    for round in 1..4_u8 {
        let base = path.join("base.redb");
        let (bytes, length) = (fs::read(&base).unwrap(), payload.len() as u64);
        let is_own = |place: &usize| {
            bytes[*place..][..60].windows(8).any(|bytes| bytes == length.to_be_bytes())
        };
        let own: Vec<_> = places(&base, b"\x06needle").into_iter().filter(is_own).collect();
        assert!(!own.is_empty(), "round {round}");
        own.into_iter().for_each(|place| flip(&base, place + 7));

        let queue = open(&path);
        let b = queue.tube("b").unwrap();
        assert!(b.try_take().unwrap().is_none(), "round {round}");
        let found = b.peek(id).unwrap();
        assert!(matches!(found.reason, Some(Reason::Undecodable(_))), "{:?}", found.reason);
        assert!(found.payload == payload, "round {round}");
        is_mended(&queue);
        if round == 2 {
            queue.tick().unwrap();
            is_mended(&queue);
            assert!(b.peek(id).unwrap().payload == payload);
        }
        payload.push(round);
        b.kick_task(id).unwrap();
        b.take().unwrap().with_payload(&payload).release().unwrap();
        queue.checkpoint().unwrap();
        assert!(queue.base_space().unwrap().rows > two_payloads);
        (place, path) = killed(&path);
    }
    let queue = open(&path);
    queue.tick().unwrap();
    let b = queue.tube("b").unwrap();
    assert!(b.peek(id).unwrap().payload == payload);
    b.delete(id).unwrap();
    queue.tick().unwrap();
    assert_eq!(queue.space().unwrap().durable_bytes, 0);
    is_mended(&queue);
    drop((home, place));
}

#[test]
fn a_second_open_in_this_process_is_refused() {
    let (_home, path) = home();
    let queue = open(&path);
    let tube = queue.tube("t").unwrap();
    assert_eq!(refused(&path), ErrorKind::Locked);
    tube.put(b"a").unwrap();
    close_sound(queue);
    assert_eq!(drain(&open(&path).tube("t").unwrap()), "a");
}

/// What the test below runs in another process.
const HOLD: &str = "TUBEWELL_TEST_HOLD";

#[test]
fn held_by_another_process() {
    let Some(path) = std::env::var_os(HOLD) else { return };
    let queue = Queue::open(path).unwrap();
    queue.tube("t").unwrap().put(b"from the other").unwrap();
    println!("open");
    std::io::stdout().flush().unwrap();
    // Until the parent closes its end.
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    queue.close().unwrap();
}

#[test]
fn a_second_open_in_another_process_is_refused() {
    let (_home, path) = home();
    let mut other = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "damage::held_by_another_process", "--nocapture"])
        .env(HOLD, &path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut received = std::io::BufReader::new(other.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("open") {
        line.clear();
        assert_ne!(std::io::BufRead::read_line(&mut received, &mut line).unwrap(), 0);
    }
    assert_eq!(refused(&path), ErrorKind::Locked);
    drop(other.stdin.take());
    std::io::copy(&mut received, &mut std::io::sink()).unwrap();
    assert!(other.wait().unwrap().success());
    assert_eq!(drain(&open(&path).tube("t").unwrap()), "from the other");
}

#[test]
fn leftovers_of_a_killed_creation_are_removed() {
    let (home, path) = home();
    let left = home.path().join(".q.creating-1-1");
    fs::create_dir(&left).unwrap();
    fs::write(left.join("journal"), "half").unwrap();
    open(&path).close().unwrap();
    assert!(!left.exists());
}
