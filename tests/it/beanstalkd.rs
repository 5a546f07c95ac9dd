//! Runs the page "coming from beanstalkd": for each entry of its tables there is a test of what
//! beanstalkd's protocol says about it, and of what the page says that differs.

use crate::{
    counts, drain, is_gone, kind, lone, lone_with, next, secs, state, still, until_waiting, waiting,
};
use std::collections::BTreeSet;
use std::thread::JoinHandle;
use std::time::Duration;
use tubewell::{Durability, ErrorKind, Queue, Release, State, TaskId, Tube, TubeOptions};

const PAGE: &str = include_str!("../../src/from_beanstalkd.md");

/// The commands and the replies of the protocol, without `INTERNAL_ERROR`: that is a fault of the
/// server.
const PROTOCOL: [&str; 47] = [
    "put",
    "use",
    "reserve",
    "reserve-with-timeout",
    "reserve-job",
    "delete",
    "release",
    "bury",
    "touch",
    "watch",
    "ignore",
    "peek",
    "peek-ready",
    "peek-delayed",
    "peek-buried",
    "kick",
    "kick-job",
    "stats-job",
    "stats-tube",
    "stats",
    "list-tubes",
    "list-tube-used",
    "list-tubes-watched",
    "quit",
    "pause-tube",
    "INSERTED",
    "BURIED",
    "EXPECTED_CRLF",
    "JOB_TOO_BIG",
    "DRAINING",
    "USING",
    "DEADLINE_SOON",
    "TIMED_OUT",
    "RESERVED",
    "NOT_FOUND",
    "DELETED",
    "RELEASED",
    "TOUCHED",
    "WATCHING",
    "NOT_IGNORED",
    "FOUND",
    "KICKED",
    "OK",
    "PAUSED",
    "OUT_OF_MEMORY",
    "BAD_FORMAT",
    "UNKNOWN_COMMAND",
];

/// Makes a test of each function, and the list of the entries that they run.
macro_rules! tests {
    ($($test:ident: $($entry:literal),+;)*) => {
        const TESTED: &[&str] = &[$($($entry),+),*];

        mod entry {
            $(#[test]
            fn $test() {
                super::$test();
            })*
        }
    };
}

tests! {
    put: "put";
    use_tube: "use";
    reserve: "reserve";
    reserve_with_timeout: "reserve-with-timeout";
    reserve_job: "reserve-job";
    delete_by_the_holder: "delete by the holder";
    delete: "delete";
    release: "release";
    bury: "bury";
    touch: "touch";
    several_tubes: "watch", "ignore", "list-tubes-watched", "WATCHING", "NOT_IGNORED";
    peek: "peek";
    peek_next: "peek-ready", "peek-delayed", "peek-buried";
    kick: "kick";
    kick_job: "kick-job";
    stats_job: "stats-job";
    stats_tube: "stats-tube";
    stats: "stats";
    list_tubes: "list-tubes";
    list_tube_used: "list-tube-used";
    pause_tube: "pause-tube";
    closed_connection: "quit", "a closed connection";
    success: "INSERTED", "USING", "RESERVED", "DELETED", "RELEASED", "TOUCHED", "FOUND", "KICKED",
        "PAUSED", "OK", "BURIED after a bury";
    deadline_soon: "DEADLINE_SOON";
    timed_out: "TIMED_OUT";
    not_found: "NOT_FOUND";
    no_room: "BURIED after a put or a release", "OUT_OF_MEMORY";
    job_too_big: "JOB_TOO_BIG", "-z";
    draining: "DRAINING";
    bad_format: "BAD_FORMAT", "EXPECTED_CRLF", "UNKNOWN_COMMAND";
    folder: "-b";
    sync: "-f";
}

/// The entries of the first column, as words: a command without its arguments.
fn entries() -> Vec<String> {
    let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| `"));
    let cells = rows.filter_map(|row| row.split(" | ").next());
    let words = |entry: &str| {
        let words: Vec<_> = entry.split_whitespace().map(|word| word.trim_matches('`')).collect();
        let named = words.into_iter().filter(|word| !word.starts_with('<'));
        named.collect::<Vec<_>>().join(" ")
    };
    cells.flat_map(|cell| cell.split(", ")).map(words).collect()
}

#[test]
fn every_entry_has_a_test_and_every_test_an_entry() {
    let entries = entries();
    let listed: BTreeSet<_> = entries.iter().map(String::as_str).collect();
    assert_eq!(listed.len(), entries.len(), "an entry stands there twice");
    assert_eq!(listed, TESTED.iter().copied().collect());
}

#[test]
fn the_page_has_the_whole_protocol() {
    for word in PROTOCOL {
        let has = |entry: &&str| *entry == word || entry.starts_with(&format!("{word} "));
        assert!(TESTED.iter().any(has), "{word} is not on the page");
    }
}

fn put() {
    let (tube, clock) = lone();
    tube.put(b"plain").unwrap();
    let id = tube.task(b"job").priority(-1).delay(secs(5)).ttr(secs(60)).put().unwrap();
    let job = tube.peek(id).unwrap();
    assert_eq!((job.state, job.priority, job.ttr), (State::Delayed, -1, Some(secs(60))));
    clock.advance(secs(5));
    let job = tube.take().unwrap();
    assert_eq!((job.id(), job.time_left().unwrap()), (id, Some(secs(60))));
    clock.advance(secs(60));
    assert_eq!(state(&tube, id), State::Ready, "its ttr is over");
    job.ack().unwrap_err();
    assert_eq!(drain(&tube), "job plain");
    tube.put(b"plain").unwrap();
    let job = tube.take().unwrap();
    assert_eq!((job.priority(), job.time_left().unwrap()), (0, None));
}

fn use_tube() {
    let queue = still().0.in_memory().unwrap();
    let tube = queue.tube("mail").unwrap();
    tube.put(b"a").unwrap();
    assert_eq!(next(&queue.tube("mail").unwrap()), "a");
}

/// Starts a thread that waits so long for a job; returns when it waits.
fn reserves(tube: &Tube, timeout: Duration) -> JoinHandle<Option<Vec<u8>>> {
    waiting(tube, move |tube| tube.take_timeout(timeout).unwrap().map(|job| job.to_vec()))
}

fn reserve() {
    let (tube, _) = lone();
    for (job, priority) in [("c", 2), ("d", 2), ("a", 0), ("b", 1)] {
        tube.task(job.as_bytes()).priority(priority).put().unwrap();
    }
    for wanted in ["a", "b", "c", "d"] {
        let job = tube.take().unwrap();
        assert_eq!(&job[..], wanted.as_bytes());
        job.ack().unwrap();
    }
    let reserved = waiting(&tube, |tube| tube.take().unwrap().to_vec());
    tube.put(b"later").unwrap();
    assert_eq!(reserved.join().unwrap(), b"later");
}

fn reserve_with_timeout() {
    let (tube, clock) = lone();
    assert!(tube.take_timeout(Duration::ZERO).unwrap().is_none());
    assert!(tube.try_take().unwrap().is_none());
    let reserved = reserves(&tube, secs(5));
    clock.advance(secs(5));
    assert_eq!(reserved.join().unwrap(), None);
    let reserved = reserves(&tube, secs(5));
    clock.advance(secs(4));
    tube.put(b"a").unwrap();
    assert_eq!(reserved.join().unwrap(), Some(b"a".to_vec()));
}

fn reserve_job() {
    let (tube, _) = lone();
    tube.put(b"first").unwrap();
    let ready = tube.put(b"ready").unwrap();
    let delayed = tube.task(b"delayed").delay(secs(9)).put().unwrap();
    let buried = tube.put(b"buried").unwrap();
    tube.claim(buried).unwrap().bury("").unwrap();
    tube.pause().unwrap();
    for (id, wanted) in [(ready, "ready"), (delayed, "delayed"), (buried, "buried")] {
        let job = tube.claim(id).unwrap();
        assert_eq!((&job[..], job.attempt()), (wanted.as_bytes(), 1));
        assert_eq!(kind(tube.claim(id)), ErrorKind::WrongState, "it is reserved");
        job.ack().unwrap();
    }
    assert_eq!(kind(tube.claim(buried)), ErrorKind::TaskNotFound);
}

fn delete_by_the_holder() {
    let (tube, _) = lone();
    let id = tube.put(b"a").unwrap();
    tube.take().unwrap().ack().unwrap();
    assert!(is_gone(&tube, id));
}

fn delete() {
    let (tube, _) = lone();
    let [ready, buried, reserved] = ["a", "b", "c"].map(|job| tube.put(job.as_bytes()).unwrap());
    let delayed = tube.task(b"d").delay(secs(9)).put().unwrap();
    tube.bury(buried, "").unwrap();
    let job = tube.claim(reserved).unwrap();
    let not_reserved = [State::Ready, State::Delayed, State::Buried];
    let refused = tube.delete_only_if(reserved, &not_reserved);
    assert_eq!(kind(refused), ErrorKind::WrongState);
    for id in [ready, buried, delayed] {
        tube.delete_only_if(id, &not_reserved).unwrap();
        assert!(is_gone(&tube, id));
    }
    tube.delete(reserved).unwrap();
    assert!(job.ack().unwrap_err().is_lease_lost());
    assert_eq!(kind(tube.delete(reserved)), ErrorKind::TaskNotFound);
}

fn release() {
    let (tube, clock) = lone();
    let id = tube.task(b"a").priority(5).put().unwrap();
    tube.task(b"b").priority(5).put().unwrap();
    tube.take().unwrap().release().unwrap();
    assert_eq!(tube.peek_next(State::Ready).unwrap().unwrap().id, id, "at its place");
    tube.take().unwrap().release_with(Release::new().priority(9).delay(secs(3))).unwrap();
    let job = tube.peek(id).unwrap();
    assert_eq!((job.state, job.priority, job.releases), (State::Delayed, 9, 2));
    tube.put(b"between").unwrap();
    clock.advance(secs(3));
    assert_eq!(drain(&tube), "between b a");
}

fn bury() {
    let (tube, _) = lone();
    let [a, b, c] = ["a", "b", "c"].map(|job| tube.put(job.as_bytes()).unwrap());
    tube.claim(a).unwrap().bury_with_priority("why", 7).unwrap();
    for id in [c, b] {
        tube.claim(id).unwrap().bury("").unwrap();
    }
    let job = tube.peek(a).unwrap();
    assert_eq!((job.state, job.priority, job.buries), (State::Buried, 7, 1));
    assert_eq!(job.reason.as_ref().map(ToString::to_string), Some("why".into()));
    assert!(tube.try_take().unwrap().is_none());
    assert_eq!(tube.kick(3).unwrap().kicked, 3);
    assert_eq!(drain(&tube), "b c a");
}

fn touch() {
    let (tube, clock) = lone();
    tube.task(b"a").ttr(secs(60)).put().unwrap();
    let job = tube.take().unwrap();
    clock.advance(secs(59));
    job.renew().unwrap();
    assert_eq!(job.time_left().unwrap(), Some(secs(60)));
    job.touch(secs(5)).unwrap();
    assert_eq!(job.time_left().unwrap(), Some(secs(65)));
}

fn several_tubes() {
    let queue = still().0.in_memory().unwrap();
    let watched = queue.tubes_of(["default", "a", "b"]).unwrap().by_priority(); // watch a, watch b
    assert_eq!(watched.names().unwrap(), ["default", "a", "b"]);
    let tubes = ["default", "a", "b"].map(|name| queue.tube(name).unwrap());
    for (tube, priority) in tubes.iter().zip([7, 5, 3]) {
        tube.task(tube.name().as_bytes()).priority(priority).put().unwrap();
    }
    let ignoring = queue.tubes_of(["default", "a"]).unwrap().by_priority(); // ignore b
    let reserve = |tubes: &tubewell::Tubes| String::from_utf8(tubes.take().unwrap().to_vec());
    assert_eq!(reserve(&ignoring).unwrap(), "a", "the guard was dropped, and it is ready again");
    assert_eq!(watched.take().unwrap().ack().map(|()| counts(&tubes[2])).unwrap(), [0; 4]);
    assert_eq!(ignoring.take().unwrap().ack().map(|()| counts(&tubes[1])).unwrap(), [0; 4]);
    watched.take().unwrap().ack().unwrap();
    // One wait for all of them.
    let taker = std::thread::spawn({
        let watched = watched.clone();
        move || watched.take().unwrap().to_vec()
    });
    until_waiting(&tubes[2], 1);
    assert_eq!(queue.waiters().unwrap()[0].tubes, ["default", "a", "b"]);
    tubes[1].put(b"a").unwrap();
    assert_eq!(taker.join().unwrap(), b"a");
    assert_eq!(kind(queue.tubes_of([""; 0])), ErrorKind::Invalid); // NOT_IGNORED
}

fn peek() {
    let queue = still().0.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    let id = tube.put(b"a").unwrap();
    for job in [queue.find(id).unwrap(), tube.peek(id).unwrap()] {
        assert_eq!((job.id, &*job.tube, &job.payload[..]), (id, "t", &b"a"[..]));
    }
    assert_eq!(counts(&tube), [1, 0, 0, 0]);
    assert_eq!(kind(queue.find(TaskId::new(99))), ErrorKind::TaskNotFound);
}

fn peek_next() {
    let (tube, _) = lone();
    let seen = |state| tube.peek_next(state).unwrap().map(|job| job.payload);
    for state in [State::Ready, State::Delayed, State::Buried] {
        assert_eq!(seen(state), None);
    }
    tube.task(b"late").delay(secs(9)).put().unwrap();
    tube.task(b"soon").delay(secs(1)).put().unwrap();
    for job in ["second", "first", "less urgent", "urgent"] {
        let put = tube.task(job.as_bytes()).priority(if job.ends_with("urgent") { 1 } else { 2 });
        let id = put.put().unwrap();
        if job.ends_with("urgent") {
            tube.bury(id, "").unwrap();
        }
    }
    assert_eq!(seen(State::Ready), Some(b"second".to_vec()), "the first put");
    assert_eq!(seen(State::Delayed), Some(b"soon".to_vec()), "the least delay that is left");
    assert_eq!(seen(State::Buried), Some(b"less urgent".to_vec()), "the one that a kick moves");
    assert_eq!(tube.kick(1).unwrap().kicked, 1);
    assert_eq!(seen(State::Ready), Some(b"less urgent".to_vec()));
}

fn kick() {
    let (tube, _) = lone();
    let delayed = tube.task(b"delayed").delay(secs(9)).put().unwrap();
    let [first, urgent, last] = [5, 0, 5].map(|at| tube.task(b"").priority(at).put().unwrap());
    for id in [last, urgent, first] {
        tube.bury(id, "").unwrap();
    }
    assert_eq!(tube.kick(2).unwrap().kicked, 2);
    let states = [urgent, first, last].map(|id| state(&tube, id));
    assert_eq!(states, [State::Ready, State::Ready, State::Buried], "by priority, then put order");
    assert_eq!((tube.kick(10).unwrap().kicked, tube.kick(10).unwrap().kicked), (1, 0));
    assert_eq!(state(&tube, delayed), State::Delayed, "a kick ends no delay");
    tube.update(delayed).delay(Duration::ZERO).apply().unwrap();
    assert_eq!(state(&tube, delayed), State::Ready);
}

fn kick_job() {
    let (tube, _) = lone();
    let buried = tube.put(b"buried").unwrap();
    tube.take().unwrap().bury("").unwrap();
    tube.kick_task(buried).unwrap();
    assert_eq!(state(&tube, buried), State::Ready);
    let delayed = tube.task(b"delayed").delay(secs(9)).put().unwrap();
    tube.update(delayed).delay(Duration::ZERO).apply().unwrap();
    assert_eq!(state(&tube, delayed), State::Ready);
    assert_eq!(kind(tube.kick_task(buried)), ErrorKind::WrongState, "it is ready");
}

fn stats_job() {
    let (tube, clock) = lone();
    let id = tube.task(b"job").priority(3).ttr(secs(60)).put().unwrap();
    clock.advance(secs(2));
    tube.take().unwrap().release().unwrap();
    tube.take().unwrap().bury("").unwrap();
    tube.kick(1).unwrap();
    tube.take().unwrap().detach();
    clock.advance(secs(1));
    let job = tube.summaries(State::Taken).next().unwrap().unwrap();
    assert_eq!((job.id, &*job.tube, job.state, job.priority), (id, "lone", State::Taken, 3));
    assert_eq!((job.age, job.ttr, job.lease_left), (secs(3), Some(secs(60)), Some(secs(59))));
    assert_eq!((job.deliveries, job.releases, job.buries), (3, 1, 1));
    clock.advance(secs(59));
    let calls = tube.stats().unwrap().calls;
    assert_eq!((calls.ttr, calls.kick), (1, 1), "timeouts and kicks are counted for the tube");
    let id = tube.task(b"").delay(secs(7)).put().unwrap();
    assert_eq!(tube.peek(id).unwrap().delay_left, Some(secs(7)));
}

fn stats_tube() {
    let (tube, clock) = lone();
    for _ in 0..4 {
        tube.put(b"").unwrap();
    }
    tube.task(b"").delay(secs(9)).put().unwrap();
    tube.take().unwrap().ack().unwrap();
    tube.take().unwrap().bury("").unwrap();
    let _reserved = tube.take().unwrap();
    tube.pause_for(secs(5)).unwrap();
    clock.advance(secs(1));
    let waiting = reserves(&tube, secs(1));
    let info = tube.info().unwrap();
    assert_eq!((&*info.name, info.waiters, info.pause_left), ("lone", 1, Some(secs(4))));
    assert_eq!(counts(&tube), [1, 1, 1, 1]);
    assert_eq!((info.stats.calls.put, info.stats.done), (5, 1));
    clock.advance(secs(1));
    assert_eq!(waiting.join().unwrap(), None);
}

fn stats() {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let tubes = ["a", "b"].map(|name| queue.tube(name).unwrap());
    tubes[0].put(b"12345").unwrap();
    let all: Vec<_> =
        queue.stats().unwrap().into_iter().map(|tube| (tube.tube, tube.ready)).collect();
    assert_eq!(all, [("a".into(), 1), ("b".into(), 0)]);
    assert_eq!(queue.space().unwrap().durable_bytes, 5);
    let waiting = reserves(&tubes[1], secs(1));
    assert_eq!(queue.waiters().unwrap()[0].tube, "b");
    clock.advance(secs(1));
    assert_eq!(waiting.join().unwrap(), None);
}

fn list_tubes() {
    let queue = still().0.in_memory().unwrap();
    for name in ["b", "a"] {
        queue.tube(name).unwrap();
    }
    assert_eq!(queue.tubes().unwrap(), ["a", "b"], "also without a task or a handle");
    queue.tube("b").unwrap().put(b"").unwrap();
    assert_eq!(kind(queue.drop_tube_if_empty("b")), ErrorKind::TubeBusy);
    queue.drop_tube("b").unwrap();
    queue.drop_tube_if_empty("a").unwrap();
    assert!(queue.tubes().unwrap().is_empty());
}

fn list_tube_used() {
    assert_eq!(lone().0.name(), "lone");
}

fn pause_tube() {
    let (tube, clock) = lone();
    tube.pause_for(secs(60)).unwrap();
    tube.put(b"a").unwrap();
    assert!(tube.try_take().unwrap().is_none());
    clock.advance(secs(60));
    assert_eq!(next(&tube), "a");
    tube.pause().unwrap();
    tube.put(b"b").unwrap();
    clock.advance(secs(86_400));
    assert!(tube.try_take().unwrap().is_none());
    tube.resume().unwrap();
    assert_eq!(next(&tube), "b");
}

fn closed_connection() {
    let queue = still().0.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    let id = tube.put(b"a").unwrap();
    drop(tube.take().unwrap());
    let job = tube.peek(id).unwrap();
    assert_eq!((job.state, job.attempts), (State::Ready, 1), "the attempt counts");
    let connection = queue.session();
    tube.by(&connection).take().unwrap().detach();
    assert_eq!(state(&tube, id), State::Taken);
    drop(connection);
    let job = tube.peek(id).unwrap();
    assert_eq!((job.state, job.attempts), (State::Ready, 2));
}

fn success() {
    let queue = still().0.in_memory().unwrap();
    let tube: Tube = queue.tube("t").unwrap();
    let id: TaskId = tube.put(b"a").unwrap();
    let job = tube.take().unwrap();
    job.renew().unwrap();
    job.release().unwrap();
    assert_eq!(tube.peek(id).unwrap().payload, b"a");
    tube.take().unwrap().bury("").unwrap();
    assert_eq!(tube.kick(9).unwrap().kicked, 1);
    tube.pause_for(secs(1)).unwrap();
    assert_eq!(queue.stats().unwrap().len(), 1);
    tube.delete(id).unwrap();
}

fn deadline_soon() {
    let (tube, clock) = lone();
    tube.task(b"a").ttr(secs(10)).put().unwrap();
    let job = tube.take().unwrap();
    let waiting = reserves(&tube, secs(60));
    clock.advance(secs(9));
    assert_eq!(job.time_left().unwrap(), Some(secs(1)));
    job.renew().unwrap();
    assert!(!waiting.is_finished(), "a wait does not end early");
    job.release().unwrap();
    assert_eq!(waiting.join().unwrap(), Some(b"a".to_vec()));
}

fn timed_out() {
    let (tube, _) = lone();
    assert!(matches!(tube.take_timeout(Duration::ZERO), Ok(None)));
}

fn not_found() {
    let queue = still().0.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    let id = tube.put(b"a").unwrap();
    assert_eq!(kind(tube.kick_task(id)), ErrorKind::WrongState);
    let job = tube.take().unwrap();
    tube.delete(id).unwrap();
    assert_eq!(kind(job.release()), ErrorKind::LeaseLost);
    assert_eq!(kind(tube.peek(id)), ErrorKind::TaskNotFound);
    assert_eq!(kind(tube.delete(id)), ErrorKind::TaskNotFound);
    assert!(tube.peek_next(State::Ready).unwrap().is_none());
    queue.drop_tube("t").unwrap();
    assert_eq!(kind(tube.pause_for(secs(1))), ErrorKind::TubeNotFound);
}

fn no_room() {
    let (tube, _) = lone_with(TubeOptions::default().capacity(1));
    tube.put(b"a").unwrap();
    assert_eq!(kind(tube.put(b"b")), ErrorKind::Full);
    assert_eq!(counts(&tube), [1, 0, 0, 0], "nothing is put, and nothing is buried");
    tube.take().unwrap().release().unwrap();
    assert_eq!(counts(&tube), [1, 0, 0, 0]);
    for builder in [still().0.durable_bytes_max(3), still().0.temporary_bytes_max(3)] {
        let queue = builder.in_memory().unwrap();
        let refused = [false, true].into_iter().filter(|temporary| {
            let options = TubeOptions::default().temporary(*temporary);
            let tube = queue.create_tube(&format!("{temporary}"), options).unwrap();
            tube.put(b"1234").is_err_and(|error| error.kind() == ErrorKind::Full)
        });
        assert_eq!(refused.count(), 1);
    }
    let disk = crate::disk::Recorder::default();
    let queue = still().0.journal_bytes(64 << 10).disk(disk.lend()).open_disk().unwrap();
    let tube = queue.tube("t").unwrap();
    disk.fill();
    let refused = (0..10_000).find_map(|_| tube.put(&[7; 1000]).err()).expect("it is full");
    assert_eq!(refused.kind(), ErrorKind::DiskFull);
    let there = tube.len().unwrap();
    tube.take().unwrap().ack().unwrap();
    assert_eq!(tube.len().unwrap(), there - 1, "an ack goes on");
}

fn job_too_big() {
    let tube = still().0.payload_bytes_max(3).in_memory().unwrap().tube("t").unwrap();
    tube.put(b"123").unwrap();
    assert_eq!(kind(tube.put(b"1234")), ErrorKind::TooLarge);
    assert_eq!(tube.len().unwrap(), 1);
    let (tube, _) = lone();
    tube.put(&vec![0; 16 << 20]).unwrap();
    assert_eq!(kind(tube.put(&vec![0; (16 << 20) + 1])), ErrorKind::TooLarge);
}

fn draining() {
    let queue = still().0.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    tube.put(b"a").unwrap();
    queue.close().unwrap();
    assert_eq!(kind(tube.put(b"b")), ErrorKind::Closed);
    assert_eq!(kind(tube.try_take()), ErrorKind::Closed);
}

fn bad_format() {
    let queue = still().0.in_memory().unwrap();
    assert_eq!(kind(queue.tube("")), ErrorKind::Invalid);
    let tube = queue.create_tube("t", TubeOptions::new(tubewell::TubeKind::Fifo)).unwrap();
    assert_eq!(kind(tube.task(b"").delay(secs(1)).put()), ErrorKind::Unsupported);
    tube.put(b"not followed by \\r\\n").unwrap();
}

fn folder() {
    let (_home, path) = crate::home();
    let queue = crate::open(&path);
    queue.tube("t").unwrap().put(b"a").unwrap();
    queue.close().unwrap();
    assert_eq!(next(&Queue::open(&path).unwrap().tube("t").unwrap()), "a");
}

/// What is synced when: by a simulated disk, in `tests/sim/interval.rs`.
fn sync() {
    let (_home, path) = crate::home();
    let builder = still().0.flush_interval(Duration::from_millis(20));
    let queue = builder.durability(Durability::Relaxed).open(&path).unwrap();
    let tube = queue.tube("t").unwrap();
    let syncs = || queue.space().unwrap().syncs;
    let before = syncs();
    tube.put(b"a").unwrap();
    assert_eq!(syncs(), before, "within the interval");
    tube.durability(Durability::Durable).put(b"b").unwrap();
    assert_eq!(syncs(), before + 1);
}
