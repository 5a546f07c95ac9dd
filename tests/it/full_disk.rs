//! F1. On a real file system without room left takes and acks stopped for good, with all defaults:
//! the rows of the overlay found no room in the base, whose file redb grows sparsely, and 512 KiB
//! of ballast stood against 5 to 15 MiB of them. Then `open` failed as well. Puts are refused
//! there, and takes, acks and deletes go on until the queue is empty; then puts come back.

use crate::until;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, yield_now};
use std::time::Duration;
use tempfile::TempDir;
use tubewell::{DayStatistics, Durability, ErrorKind, ManualClock, Queue, Reason, State, Tube};

/// A file system of its own; unmounted when it is dropped.
struct Mount {
    home: TempDir,
    kind: &'static str,
}

impl Mount {
    /// `None`, and it says so, where nothing may be mounted.
    fn new(kind: &'static str, mib: u64) -> Option<Self> {
        let mount = Self { home: tempfile::tempdir().unwrap(), kind };
        std::fs::create_dir(mount.at()).unwrap();
        let done = match kind {
            "tmpfs" => {
                run("mount", &["-t", "tmpfs", "-o", &format!("size={mib}m"), "none"], &mount)
            }
            _ => {
                let image = mount.home.path().join("image");
                File::create(&image).unwrap().set_len(mib << 20).unwrap();
                let image = image.to_str().unwrap();
                let made = Command::new("mkfs.ext4").args(["-q", "-m", "0", image]).status();
                made.is_ok_and(|status| status.success())
                    && run("mount", &["-o", "loop", image], &mount)
            }
        };
        if !done {
            eprintln!("SKIPPED: a {kind} of {mib} MiB could not be mounted; it needs root");
        }
        done.then_some(mount)
    }

    fn at(&self) -> PathBuf {
        self.home.path().join("mnt")
    }

    fn queue(&self) -> PathBuf {
        self.at().join("q")
    }
}

fn run(program: &str, args: &[&str], mount: &Mount) -> bool {
    let quiet = || Stdio::null();
    let status = Command::new(program).args(args).arg(mount.at()).stderr(quiet()).status();
    status.is_ok_and(|status| status.success())
}

impl Drop for Mount {
    fn drop(&mut self) {
        run("umount", &["-l"], self);
    }
}

/// Another program, which takes every block that is given back.
struct Hog {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Hog {
    fn new(mount: &Mount) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (reported, path) = (stop.clone(), mount.at().join("hog"));
        let thread = std::thread::spawn(move || {
            let mut file = File::create(path).unwrap();
            while !reported.load(Ordering::Relaxed) {
                for size in [64 << 10, 4096] {
                    while file.write_all(&vec![7; size]).is_ok() {}
                }
                yield_now();
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

#[derive(Clone, Copy)]
struct Plan {
    journal: u64,
    bytes: usize,
    batch: usize,
    hog: bool,
    reopen: bool,
    /// So many of the tasks come first and are delayed; or all.
    delayed: usize,
    /// So many are put when the queue is empty again.
    again: usize,
    /// Whether the tasks have their payloads in pieces. The timer's thread removes those after the
    /// acks, and their pages are free only after the next checkpoints: a put may be refused until
    /// then.
    in_pieces: bool,
}

const PLAN: Plan = Plan {
    journal: 2 << 20,
    bytes: 300,
    batch: 1,
    hog: false,
    reopen: false,
    delayed: 0,
    again: 100,
    in_pieces: false,
};
const MINUTE: Duration = Duration::from_secs(60);

fn open(path: &Path, plan: Plan, clock: &ManualClock) -> (Queue, Tube) {
    let queue = Queue::builder()
        .durability(Durability::Relaxed)
        .journal_bytes(plan.journal)
        .clock(clock.clone())
        .open(path)
        .unwrap();
    let tube = queue.tube("t").unwrap();
    (queue, tube)
}

fn fill(tube: &Tube, plan: Plan) -> usize {
    let payload = vec![3; plan.bytes];
    let (mut there, mut refused) = (0, 0);
    while refused < 3 {
        let task = tube.task(&payload);
        let task = if there < plan.delayed { task.delay(MINUTE) } else { task };
        match task.put() {
            Ok(_) => there += 1,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::DiskFull, "{error}");
                refused += 1;
            }
        }
    }
    there
}

/// Takes and acks until nothing is left, or so many.
fn drain(tube: &Tube, plan: Plan, most: usize) -> usize {
    let mut done = 0;
    while done < most {
        if plan.batch > 1 {
            let tasks = tube.take_many(plan.batch).unwrap_or_else(|e| panic!("take {done}: {e}"));
            if tasks.is_empty() {
                break;
            }
            done += tasks.len();
            tube.ack_many(tasks).unwrap_or_else(|e| panic!("ack {done}: {e}"));
        } else {
            let task = tube.try_take().unwrap_or_else(|e| panic!("take {done}: {e}"));
            let Some(task) = task else { break };
            task.ack().unwrap_or_else(|e| panic!("ack {done}: {e}"));
            done += 1;
        }
    }
    done
}

fn carry_out(mount: &Mount, plan: Plan) {
    let clock = ManualClock::new();
    let (mut queue, mut tube) = open(&mount.queue(), plan, &clock);
    let mut left = fill(&tube, plan);
    let hog = plan.hog.then(|| Hog::new(mount));
    clock.advance(MINUTE * 2);
    let all = left;
    if plan.reopen {
        left -= drain(&tube, plan, all / 3);
        drop(tube);
        queue.close().unwrap();
        (queue, tube) = open(&mount.queue(), plan, &clock);
        assert_eq!(tube.len().unwrap(), left as u64);
    }
    assert_eq!(drain(&tube, plan, usize::MAX), left);
    assert_eq!(tube.len().unwrap(), 0);
    clock.advance(MINUTE);
    for number in 0..plan.again {
        until(|| match tube.put(&vec![5; plan.bytes]) {
            Ok(_) => true,
            Err(error) => {
                let is_full = error.kind() == ErrorKind::DiskFull;
                assert!(plan.in_pieces && is_full, "put {number}: {error}");
                // It writes what fits, also where it reports a full disk.
                let _ = queue.checkpoint();
                false
            }
        });
    }
    assert_eq!(drain(&tube, plan, usize::MAX), plan.again);
    let faults = queue.check().unwrap();
    assert_eq!(faults, Vec::<String>::new());
    eprintln!("{}: {} B, {all} tasks, batches of {}", mount.kind, plan.bytes, plan.batch);
    drop((tube, queue, hog));
}

fn on(kind: &'static str, mib: u64, plans: &[Plan]) {
    for plan in plans {
        let Some(mount) = Mount::new(kind, mib) else { break };
        carry_out(&mount, *plan);
    }
}

fn on_both(mib: u64, plans: &[Plan]) {
    on("ext4", mib, plans);
    on("tmpfs", mib, plans);
}

#[test]
fn a_queue_on_a_full_file_system_is_emptied_whatever_it_holds() {
    let plans = [100, 300, 2000].map(|bytes| Plan { bytes, ..PLAN });
    on_both(24, &plans);
}

/// Payloads in pieces, and such as are written in turns.
#[test]
#[ignore = "takes a minute; .ci/full_disk runs it"]
fn a_queue_of_long_payloads_on_a_full_file_system_is_emptied() {
    let plan = Plan { bytes: 20_000, again: 20, in_pieces: true, ..PLAN };
    on_both(24, &[plan, Plan { hog: true, reopen: true, ..plan }, Plan { batch: 50, ..plan }]);
    let plan = Plan { bytes: 1 << 20, again: 3, journal: 4 << 20, in_pieces: true, ..PLAN };
    on_both(24, &[plan, Plan { hog: true, reopen: true, ..plan }, Plan { batch: 4, ..plan }]);
}

#[test]
fn a_queue_on_a_full_file_system_is_emptied_in_batches() {
    on_both(24, &[100, 2000].map(|bytes| Plan { bytes, batch: 2000, ..PLAN }));
}

#[test]
fn a_queue_on_a_full_file_system_is_emptied_beside_a_program_that_takes_each_block() {
    on_both(24, &[100, 2000].map(|bytes| Plan { bytes, hog: true, ..PLAN }));
}

#[test]
fn a_queue_on_a_full_file_system_is_closed_opened_and_emptied() {
    let plan = Plan { reopen: true, ..PLAN };
    on_both(24, &[plan, Plan { bytes: 2000, hog: true, ..plan }]);
}

#[test]
fn what_falls_due_on_a_full_file_system_is_taken() {
    let plan = Plan { delayed: 5000, journal: 1 << 20, ..PLAN };
    on_both(24, &[plan, Plan { batch: 500, hog: true, ..plan }]);
}

/// Nothing is ready, so no take makes room for what is due: the due tasks find it themselves.
#[test]
fn all_that_falls_due_on_a_full_file_system_is_taken() {
    let plan = Plan { delayed: usize::MAX, journal: 1 << 20, ..PLAN };
    on_both(24, &[plan, Plan { batch: 500, hog: true, ..plan }]);
}

/// What brings a task back or aside goes on, and cuts its text to 64 bytes.
#[test]
fn tasks_come_back_on_a_full_file_system_with_a_cut_text() {
    let Some(mount) = Mount::new("tmpfs", 12) else { return };
    let clock = ManualClock::new();
    let (queue, tube) = open(&mount.queue(), PLAN, &clock);
    let ids = tube.put_many([[b'x']; 5]).unwrap();
    let mut held = tube.take_many(5).unwrap().into_iter();
    fill(&tube, PLAN);
    let long = "no ".repeat(100);
    held.next().unwrap().retry_after(&long, MINUTE).unwrap();
    held.next().unwrap().bury(&long).unwrap();
    held.next().unwrap().fail("post", &long).unwrap();
    held.next().unwrap().release().unwrap();
    held.next().unwrap().ack().unwrap();
    assert!(tube.fail_by_id(ids[3], "post", &long).unwrap());
    let task = |number: usize| tube.peek(ids[number]).unwrap();
    let cut = &long[..64];
    for number in [0, 2, 3] {
        assert_eq!(task(number).last_failure.as_ref().unwrap().message, cut, "{number}");
    }
    assert_eq!(task(0).state, State::Delayed);
    assert_eq!(task(1).reason, Some(Reason::Buried(cut.to_owned())));
    assert_eq!(tube.peek(ids[4]).unwrap_err().kind(), ErrorKind::TaskNotFound);
    assert_eq!(queue.check().unwrap(), Vec::<String>::new());
}

/// Failed tasks of many days end on a full disk, with a journal that has no room for as many days.
#[test]
fn failed_tasks_of_many_days_end_on_a_full_file_system() {
    let Some(mount) = Mount::new("tmpfs", 12) else { return };
    let clock = ManualClock::new();
    let plan = Plan { journal: 64 << 10, bytes: 2000, ..PLAN };
    let (queue, tube) = open(&mount.queue(), plan, &clock);
    tube.set("keep_days", 200).unwrap();
    let mut failed = Vec::new();
    for day in 0..150_u64 {
        for second in 0..day % 8 + 1 {
            let id = tube.put(b"fails").unwrap();
            clock.advance(Duration::from_secs(60 * second));
            tube.take().unwrap().bury("no").unwrap();
            failed.push(id);
        }
        clock.advance(24 * 60 * MINUTE);
    }
    let all = |tube: &Tube, of: fn(&DayStatistics) -> u64| {
        let days = tube.days().unwrap().into_iter();
        days.map(|day| of(&tube.statistics(day).unwrap().unwrap())).sum::<u64>()
    };
    let left = fill(&tube, plan);
    let counted = all(&tube, |of| of.runs.count());
    let buried = |tube: &Tube| all(tube, |of| of.failed);
    let (deleted, kicked) = failed.split_at(failed.len() / 2);
    for (number, id) in deleted.iter().enumerate() {
        tube.delete(*id).unwrap_or_else(|error| panic!("delete {number}: {error}"));
    }
    assert_eq!(buried(&tube), kicked.len() as u64);
    let mut drained = 0;
    for (number, id) in kicked.iter().enumerate() {
        tube.kick_task(*id).unwrap_or_else(|error| panic!("kick {number}: {error}"));
        // A kick frees nothing.
        drained += drain(&tube, plan, 3);
    }
    assert_eq!(buried(&tube), 0);
    assert_eq!(drained + drain(&tube, plan, usize::MAX), left + kicked.len());
    assert_eq!(all(&tube, |of| of.failures), failed.len() as u64);
    until(|| {
        let is_put = tube.put(b"again").is_ok();
        let _ = queue.checkpoint();
        is_put
    });
    assert!(
        all(&tube, |of| of.runs.count()) < counted + (left + kicked.len()) as u64,
        "the disk was not full"
    );
    tube.take().unwrap().bury("no").unwrap();
    assert_eq!(buried(&tube), 1);
    assert_eq!(queue.check().unwrap(), Vec::<String>::new());
    drop(tube);
    queue.close().unwrap();
    let (queue, tube) = open(&mount.queue(), plan, &clock);
    assert_eq!((buried(&tube), tube.kick(9).unwrap().kicked, buried(&tube)), (1, 1, 0));
    assert_eq!(queue.check().unwrap(), Vec::<String>::new());
}

/// The file systems and the defaults with which takes had stopped after some thousand acks.
#[test]
#[ignore = "takes a minute; .ci/full_disk runs it"]
fn a_full_file_system_with_all_defaults() {
    let plan = Plan { journal: 32 << 20, ..PLAN };
    let due = Plan { delayed: 50_000, hog: true, reopen: true, batch: 1000, ..plan };
    on("ext4", 160, &[Plan { bytes: 300, ..plan }, due]);
    on("tmpfs", 160, &[Plan { bytes: 100, ..plan }, Plan { bytes: 2000, ..plan }]);
}
