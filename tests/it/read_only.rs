//! Openings that only read: what they show, what they refuse, and that they change nothing.

use crate::disk::{Event, Files, Recorder, write};
use crate::golden::{self, listing};
use crate::{close_sound, home, killed, kind, ok, open, secs, still, verbs};
use redb::TableDefinition;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};
use tubewell::testing::FileName;
use tubewell::{
    Builder, ErrorKind, ManualClock, Queue, Result, State, TaskId, TaskInfo, Ticket, TicketHandle,
    Tube, TubeOptions,
};

const NUMBERS: TableDefinition<u64, u64> = TableDefinition::new("numbers");
const STATES: [State; 5] =
    [State::Ready, State::Delayed, State::Blocked, State::Taken, State::Buried];

fn reader() -> Builder {
    still().0.read_only(true)
}

/// Every task, by its id.
fn tasks(queue: &Queue) -> BTreeMap<TaskId, TaskInfo> {
    let mut all = BTreeMap::new();
    for name in queue.tubes().unwrap() {
        let tube = queue.find_tube(&name).unwrap().unwrap();
        let mut count = 0;
        for state in STATES {
            for task in tube.tasks(state).map(Result::unwrap) {
                assert_eq!(task.state, state);
                assert_eq!(tube.peek(task.id).unwrap().payload, task.payload);
                count += 1;
                all.insert(task.id, task);
            }
        }
        assert_eq!(tube.len().unwrap(), count);
    }
    all
}

/// What both kinds of openings must show. Apart from these an opening for writing returns leases,
/// and works off what is due.
fn lasting(task: &TaskInfo) -> impl PartialEq + std::fmt::Debug + use<> {
    let (id, priority, created, ttr) = (task.id, task.priority, task.created, task.ttr);
    let texts = (task.tube.clone(), task.key.clone(), task.group.clone());
    ((id, priority, created, ttr), texts, task.payload.clone(), task.deliveries)
}

/// Compares what an opening showed that only read with what one for writing shows.
fn is_same(read: &BTreeMap<TaskId, TaskInfo>, written: &BTreeMap<TaskId, TaskInfo>) {
    for (id, task) in read {
        let ends = task.ttl_left == Some(Duration::ZERO) && task.state != State::Delayed;
        let Some(after) = written.get(id) else {
            assert!(ends, "{task:?} is gone");
            continue;
        };
        assert_eq!(lasting(task), lasting(after));
        let moves = task.state == State::Taken || task.delay_left == Some(Duration::ZERO);
        assert!(moves || task.state == after.state, "{task:?} {after:?}");
    }
    assert!(written.keys().all(|id| read.contains_key(id)));
}

/// Calls all that reads, and checks it.
fn read_all(queue: &Queue) -> BTreeMap<TaskId, TaskInfo> {
    assert_eq!(queue.check().unwrap(), Vec::<String>::new());
    let found = tasks(queue);
    let taken = queue.taken().unwrap();
    assert_eq!(taken.len(), found.values().filter(|task| task.state == State::Taken).count());
    assert!(taken.iter().all(|task| task.held_for == Duration::ZERO));
    let mut of_state = BTreeMap::new();
    found.values().for_each(|task| *of_state.entry((&task.tube, task.state)).or_insert(0) += 1);
    for stats in queue.stats().unwrap() {
        let tube = queue.tube(&stats.tube).unwrap();
        assert_eq!(tube.stats().unwrap(), stats);
        let listed = |state| of_state.get(&(&stats.tube, state)).copied().unwrap_or(0);
        let counts = [stats.ready, stats.delayed, stats.blocked, stats.taken, stats.buried];
        assert_eq!(counts, STATES.map(listed));
        let info = tube.info().unwrap();
        assert_eq!((info.stats.total, info.waiters), (counts.iter().sum(), 0));
        for state in STATES {
            if let Some(next) = tube.peek_next(state).unwrap() {
                assert_eq!(queue.find(next.id).unwrap().payload, next.payload);
            }
        }
        // A ready task is found at once; without one the wait would have no end.
        let is_paused = info.paused || tube.peek_next(State::Ready).unwrap().is_none();
        match tube.wait_ready(secs(1)) {
            Ok(is_ready) => assert!(is_ready && !is_paused),
            Err(error) => assert!(error.kind() == ErrorKind::ReadOnly && is_paused, "{error}"),
        }
    }
    let space = queue.space().unwrap();
    assert_eq!((space.syncs, space.written_bytes, space.checkpoints), (0, 0, 0));
    assert!(queue.base_space().unwrap().bytes > 0);
    queue.read(|tables| ok(_ = tables.table(NUMBERS))).unwrap();
    assert!(queue.waiters().unwrap().is_empty());
    queue.flush().unwrap();
    found
}

/// Calls every verb of the queue and of a tube, with the ticket of a task in it.
fn call_all(queue: &Queue, tube: &Tube, ticket: Ticket) {
    let refused = verdicts!(TicketHandle).map(|say| ("a verdict", say(tube.ticket(ticket), tube)));
    for (verb, said) in verbs::writing(queue, tube, ticket.id()).into_iter().chain(refused) {
        assert_eq!(kind(said), ErrorKind::ReadOnly, "{verb}");
    }
    for (verb, said) in verbs::reading(queue, tube, ticket.id()) {
        said.unwrap_or_else(|error| panic!("{verb}: {error}"));
    }
}

/// Opens the files to be read only, reads everything and calls every verb in the tube of the
/// ticket. No byte may change, and no sync may come.
fn looked_at(files: &Files, ticket: Option<Ticket>) -> BTreeMap<TaskId, TaskInfo> {
    let disk = Recorder::of(files.clone());
    let queue = reader().disk(disk.lend()).open_disk().unwrap();
    let found = read_all(&queue);
    if let Some(ticket) = ticket {
        call_all(&queue, &queue.tube("t").unwrap(), ticket);
        assert_eq!(tasks(&queue).len(), found.len());
    }
    queue.close().unwrap();
    assert!(queue.tubes().unwrap_err().is_closed());
    assert!(disk.events().is_empty(), "{:?}", disk.events());
    found
}

/// A story with everything that an opening has to do with, and the ticket of a lease.
fn story(disk: &Recorder) -> Ticket {
    let queue = still().0.journal_bytes(128 << 10).disk(disk.lend()).open_disk().unwrap();
    let tube = queue.tube("t").unwrap();
    let ever = secs(1 << 30);
    queue.schedule("s").every(ever).offset(ever).to(&tube).make().unwrap();
    let other = queue.create_tube("u", TubeOptions::default().ttr(secs(9))).unwrap();
    queue.create_tube("gone", TubeOptions::default().temporary(true)).unwrap().put(b"x").unwrap();
    for number in 0..40_u8 {
        let task = [number; 50];
        other.task(&task).priority(number.into()).group(&format!("g{}", number % 3)).put().unwrap();
        tube.put(&[number; 2000]).unwrap();
        tube.take().unwrap().ack().unwrap();
    }
    tube.task(b"later").delay(secs(60)).ttl(secs(60)).key("later").put().unwrap();
    tube.put(b"aside").unwrap();
    tube.take().unwrap().fail("g", "no").unwrap();
    tube.put(&[9; 20_000]).unwrap();
    queue.checkpoint().unwrap();
    queue
        .transact(|tx| {
            tx.table(NUMBERS)?.insert(1, 2)?;
            tube.put_in(tx, b"with a table")
        })
        .unwrap();
    queue.compact().unwrap();
    other.take_many(5).unwrap().into_iter().for_each(|task| task.bury("no").unwrap());
    let ada = queue.consumer_with_grace("ada", secs(100)).unwrap();
    other.by(&ada).take().unwrap().detach();
    other.take().unwrap().detach();
    other.pause().unwrap();
    tube.put(&[8; 300_000]).unwrap();
    let ticket = tube.take().unwrap().detach();
    std::mem::forget((queue, ada));
    ticket
}

/// The first files are those of an empty queue.
fn told() -> (Files, Vec<Event>, Ticket) {
    let disk = Recorder::default();
    still().0.journal_bytes(128 << 10).disk(disk.lend()).open_disk().unwrap().close().unwrap();
    let files = disk.begin();
    let ticket = story(&disk);
    (files, disk.events(), ticket)
}

#[test]
fn reading_changes_nothing_and_every_verb_that_writes_is_refused() {
    let (mut files, events, ticket) = told();
    events.iter().for_each(|event| event.carry_out(&mut files));
    let found = looked_at(&files, Some(ticket));
    assert_eq!(found[&ticket.id()].state, State::Taken);
    let held = |task: &TaskInfo| (task.tube.clone(), task.holder.clone(), task.lease_left);
    let taken = found.values().filter(|task| task.state == State::Taken);
    let taken: Vec<_> = taken.map(held).collect();
    let over = Some(Duration::ZERO);
    let of = |tube: &str, holder: Option<&str>, left| (tube.into(), holder.map(Into::into), left);
    assert_eq!(taken, [of("u", Some("ada"), over), of("u", None, over), of("t", None, None)]);

    // After an opening for writing and a close as well.
    let disk = Recorder::of(files);
    let queue = still().0.disk(disk.lend()).open_disk().unwrap();
    is_same(&found, &tasks(&queue));
    queue.close().unwrap();
    let closed = looked_at(&disk.begin(), Some(ticket));
    is_same(&found, &closed);
    assert_eq!(closed[&ticket.id()].state, State::Ready);
}

/// Also in the middle of a checkpoint and of a compaction, after which redb repairs its file.
#[test]
fn it_shows_what_an_opening_for_writing_shows_after_every_end() {
    let (mut files, events, _) = told();
    for (no, event) in events.iter().enumerate() {
        let mut torn = files.clone();
        if let Event::Write(file, at, data) = event {
            write(&mut torn[*file], *at, &data[..data.len() / 2]);
        }
        for ended in [&files, &torn] {
            if no % 3 == 0 {
                let queue = still().0.disk(Recorder::of(ended.clone()).lend()).open_disk().unwrap();
                is_same(&looked_at(ended, None), &tasks(&queue));
            }
        }
        event.carry_out(&mut files);
    }
}

#[test]
fn every_golden_folder_is_shown_and_not_changed() {
    for name in golden::NAMES {
        println!("{name}");
        let (_home, path) = golden::unpacked(name);
        let files = [FileName::Base, FileName::Journal];
        let files = files.map(|name| fs::read(path.join(name.as_str())).unwrap());
        let clock = ManualClock::at(listing::written() + secs(60));
        let builder = || Queue::builder().clock(clock.clone()).by_hand(true);
        let queue = builder().read_only(true).open(&path).unwrap();
        let read = tasks(&queue);
        assert_eq!(queue.check().unwrap(), Vec::<String>::new());
        queue.close().unwrap();
        let after = [FileName::Base, FileName::Journal];
        assert!(after.map(|name| fs::read(path.join(name.as_str())).unwrap()) == files);
        is_same(&read, &tasks(&builder().open(&path).unwrap()));
    }
}

/// TQ-62.
#[test]
fn nothing_becomes_due_and_at_the_next_opening_for_writing_it_is() {
    let (_home, path) = home();
    let (builder, clock) = still();
    let queue = builder.open(&path).unwrap();
    let tube = queue.tube("t").unwrap();
    tube.task(b"a").delay(secs(1)).put().unwrap();
    tube.task(b"b").ttl(secs(1)).put().unwrap();
    queue.close().unwrap();
    clock.advance(secs(2));
    // With threads of its own it would have a timer.
    let queue = Queue::builder().clock(clock.clone()).read_only(true).open(&path).unwrap();
    let tube = queue.tube("t").unwrap();
    clock.advance(secs(2));
    let stats = tube.stats().unwrap();
    assert_eq!((stats.ready, stats.delayed), (1, 1));
    assert_eq!(tube.peek_next(State::Delayed).unwrap().unwrap().delay_left, Some(secs(0)));
    assert_eq!(kind(tube.take()), ErrorKind::ReadOnly);
    queue.close().unwrap();
    let queue = Queue::builder().clock(clock).by_hand(true).open(&path).unwrap();
    assert_eq!(crate::drain(&queue.tube("t").unwrap()), "a");
    close_sound(queue);
}

/// Bytes and times of all files, and the names.
fn state_of(folder: &Path) -> Vec<(String, SystemTime, Vec<u8>)> {
    let entries = fs::read_dir(folder).unwrap().map(Result::<_, _>::unwrap);
    let mut all: Vec<_> = entries
        .map(|entry| {
            let (name, time) = (entry.file_name(), entry.metadata().unwrap().modified().unwrap());
            let bytes = fs::read(entry.path()).unwrap_or_default();
            (name.into_string().unwrap(), time, bytes)
        })
        .collect();
    all.sort();
    all
}

#[test]
fn several_read_a_folder_at_a_time_and_none_beside_a_writer() {
    let (home, path) = home();
    let queue = open(&path);
    queue.tube("t").unwrap().put(b"a").unwrap();
    assert_eq!(kind(reader().open(&path)), ErrorKind::Locked);
    // A copy without a lock, as after a kill.
    let (killed_home, copy) = killed(&path);
    queue.close().unwrap();
    for (home, path) in [(&home, &path), (&killed_home, &copy)] {
        let before = [state_of(home.path()), state_of(path)];
        let readers = [(); 3].map(|()| reader().open(path).unwrap());
        for reader in &readers {
            assert_eq!(tasks(reader).len(), 1);
            assert_eq!(reader.check().unwrap(), Vec::<String>::new());
        }
        assert_eq!(kind(still().0.open(path)), ErrorKind::Locked);
        let [first, second, third] = readers;
        first.close().unwrap();
        drop(second);
        assert_eq!(kind(still().0.open(path)), ErrorKind::Locked, "one reads still");
        assert_eq!(tasks(&third).len(), 1);
        third.close().unwrap();
        assert!(before == [state_of(home.path()), state_of(path)]);
        close_sound(open(path));
    }
}

/// The error of an opening, which makes and changes nothing.
fn refused(home: &Path, path: &Path) -> (ErrorKind, String) {
    let before = (state_of(home), path.is_dir().then(|| state_of(path)));
    let error = reader().open(path).unwrap_err();
    assert!((state_of(home), path.is_dir().then(|| state_of(path))) == before, "{error}");
    let text = error.to_string();
    assert!(text.contains(path.to_str().unwrap()), "{text}");
    (error.kind(), text)
}

#[test]
fn what_cannot_be_read_is_refused_and_not_changed() {
    let (home, path) = home();
    for is_there in [false, true] {
        let (kind, text) = refused(home.path(), &path);
        assert_eq!(kind, ErrorKind::ReadOnly);
        assert!(text.contains("open the queue without read_only (there is no queue at"), "{text}");
        if !is_there {
            fs::create_dir(&path).unwrap();
        }
    }
    fs::write(path.join("photo"), "x").unwrap();
    assert_eq!(refused(home.path(), &path).0, ErrorKind::NotAQueue);
    fs::remove_file(path.join("photo")).unwrap();
    open(&path).close().unwrap();

    let journal = path.join("journal");
    let whole = fs::read(&journal).unwrap();
    type Change = fn(&mut Vec<u8>);
    let cases: [(Change, ErrorKind, &str); 4] = [
        (|bytes| bytes[20] ^= 1, ErrorKind::Damaged, "restore the folder from a copy"),
        (|bytes| bytes.truncate(30_000), ErrorKind::Damaged, "cut short"),
        (|bytes| bytes[0] ^= 1, ErrorKind::NotAQueue, "not a queue's journal"),
        (
            |bytes| {
                bytes[8..12].copy_from_slice(&7_u32.to_be_bytes());
                let checksum = (xxhash_rust::xxh3::xxh3_64(&bytes[..12]) >> 32) as u32;
                bytes[12..16].copy_from_slice(&checksum.to_be_bytes());
            },
            ErrorKind::NewerFormat,
            "update this program (format 7",
        ),
    ];
    for (change, expected, word) in cases {
        let mut bytes = whole.clone();
        change(&mut bytes);
        fs::write(&journal, bytes).unwrap();
        let (kind, text) = refused(home.path(), &path);
        assert!(kind == expected && text.contains(word), "{text}");
    }
    fs::remove_file(&journal).unwrap();
    assert_eq!(refused(home.path(), &path).0, ErrorKind::Damaged);
    fs::write(&journal, &whole).unwrap();
    let base = path.join("base.redb");
    let bytes = fs::read(&base).unwrap();
    fs::write(&base, b"").unwrap();
    assert_eq!(refused(home.path(), &path).0, ErrorKind::Damaged);
    fs::remove_file(&base).unwrap();
    assert_eq!(refused(home.path(), &path).0, ErrorKind::Damaged);
    fs::write(&base, bytes).unwrap();
    close_sound(open(&path));
}

#[test]
fn a_queue_in_memory_is_not_opened_read_only() {
    let error = reader().in_memory().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("read_only is for a folder"), "{error}");
}

/// Neither the folder nor a file in it can be written.
#[cfg(unix)]
#[test]
fn a_folder_without_the_right_to_write_is_read() {
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt;
    let test = "read_only::a_folder_without_the_right_to_write_is_read";
    crate::damage::modes::not_as_root(test, || {
        let (home, path) = home();
        let queue = open(&path);
        queue.tube("t").unwrap().put(b"a").unwrap();
        let (killed_home, copy) = killed(&path);
        queue.close().unwrap();
        for (home, path) in [(&home, &path), (&killed_home, &copy)] {
            let set_mode = |folder: u32, file: u32| {
                for name in FileName::ALL {
                    let file = Permissions::from_mode(file);
                    set_permissions(path.join(name.as_str()), file).unwrap();
                }
                set_permissions(path, Permissions::from_mode(folder)).unwrap();
                set_permissions(home.path(), Permissions::from_mode(folder)).unwrap();
            };
            set_mode(0o555, 0o444);
            assert_eq!(kind(still().0.open(path)), ErrorKind::Io);
            let queue = reader().open(path).unwrap();
            assert_eq!(read_all(&queue).len(), 1);
            queue.close().unwrap();
            set_mode(0o755, 0o644);
        }
    });
}
