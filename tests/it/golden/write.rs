//! How the golden files were made: one story for each folder, run on a queue with a manual clock,
//! and the folder as it then was. Each story ran once and must not be changed: its files exist
//! already.

use super::listing::{self, DIGESTS, NOTES, Tubes};
use super::{FILES, NAMES, opened, sparse};
use super::{flows, hours, lives, midway};
use crate::disk::{Event, Files, Recorder};
use crate::{home, killed, secs};
use std::any::Any;
use std::fs;
use std::path::Path;
use std::time::Duration;
use tubewell::{
    Advance, Backoff, Conflict, Durability, ManualClock, Place, Placement, PutView, Queue, Release,
    Result, Retry, Task, Tube,
};

/// Bytes of the smallest ring, after four blocks of head.
const SMALLEST: u64 = 64 << 10;

/// A queue, and what its story holds until the end.
pub(super) struct Story {
    pub(super) queue: Queue,
    clock: ManualClock,
    tubes: Tubes,
    held: Vec<Box<dyn Any>>,
    /// Of a story whose disk is full at its end, or that ends within a verb.
    disk: Recorder,
    /// The files before the last verb of a story that ends within it.
    before_last: Option<Files>,
}

/// How a folder was left.
enum End {
    Closed,
    Killed,
    /// After so many writes of its last verb to the journal.
    Within(usize),
}

impl Story {
    pub(super) fn tube(&mut self, name: &str, words: &str) -> Tube {
        self.tubes.insert(name.to_owned(), words.to_owned());
        self.queue.create_tube(name, listing::options(words)).unwrap()
    }

    pub(super) fn pass(&self, seconds: u64) {
        self.clock.advance(secs(seconds));
        self.queue.tick().unwrap();
    }

    pub(super) fn hold(&mut self, held: impl Any) {
        self.held.push(Box::new(held));
    }

    /// The next verb is the last one.
    pub(super) fn begin_last(&mut self) {
        self.before_last = Some(self.disk.begin());
    }

    /// The files on its disk.
    fn files(&mut self, end: &End) -> Files {
        let End::Within(writes) = end else { return self.disk.begin() };
        let mut files = self.before_last.take().expect("a last verb");
        let (mut left, events) = (*writes, self.disk.events());
        let mut events = events.iter();
        while left > 0 {
            let event = events.next().expect("as many writes");
            event.carry_out(&mut files);
            left -= usize::from(matches!(event, Event::Write(1, ..)));
        }
        files
    }
}

pub(super) fn take(tube: &Tube) -> Task {
    tube.try_take().unwrap().expect("a task")
}

pub(super) fn ready(tube: &Tube, words: &str) {
    for word in words.split(' ') {
        tube.put(word.as_bytes()).unwrap();
    }
}

/// Every kind of task in every state.
fn everything(story: &mut Story) {
    let mail = story.tube("mail", "general");
    ready(&mail, "one two");
    mail.put(b"").unwrap();
    mail.task(b"urgent").priority(-5).put().unwrap();
    mail.task(b"first").priority(i64::MIN).put().unwrap();
    mail.task(b"last").priority(i64::MAX).put().unwrap();
    mail.put_front(b"in front").unwrap();
    mail.put_front(b"before that").unwrap();
    for bytes in [512, 513, 5000] {
        mail.put(&vec![b'x'; bytes]).unwrap();
    }
    mail.put(&[0, 1, 0xfe, 0xff]).unwrap();
    mail.task(b"keyed").key("the key").put().unwrap();
    mail.task(b"gone").key("other").put().unwrap();
    mail.task(b"instead").key("other").on_conflict(Conflict::Replace).put().unwrap();
    mail.task(b"due when opened").delay(secs(30)).put().unwrap();
    mail.task(b"due later").delay(secs(3600)).ttl(secs(10)).put().unwrap();
    mail.task(b"by the wall").run_at(listing::written() + secs(7200)).put().unwrap();
    mail.task(b"dead when opened").ttl(secs(30)).put().unwrap();
    mail.task(b"short-lived").ttl(secs(1000)).ttr(Duration::from_micros(1)).put().unwrap();
    let aside = mail.task(b"aside").priority(3).ttl(secs(500)).put().unwrap();
    mail.bury(aside, "no such address").unwrap();

    let lines = story.tube("lines", "general priority=-2 ttl=5000 ttr=40 attempts=2 backoff=50");
    for (text, group) in [("a1", "a"), ("a2", "a"), ("b1", "b"), ("b2", "b")] {
        lines.task(text.as_bytes()).group(group).put().unwrap();
    }
    take(&lines).fail("timeouts", "no answer in 30 s").unwrap();
    take(&lines).retry("try later").unwrap();
    ready(&lines, "tired moved back later");
    take(&lines).release_with(Release::new().priority(1)).unwrap();
    lines.task(b"tired out").priority(-9).put().unwrap();
    take(&lines).retry_after("once", Duration::ZERO).unwrap();
    story.pass(1);
    take(&lines).retry("and twice").unwrap();
    take(&lines).release_with(Release::new().to_back()).unwrap();
    take(&lines).release_with(Release::new().delay(secs(99)).ttl(secs(300))).unwrap();

    let held = story.tube("holding", "general holding in_flight=2");
    for text in ["c1", "c2", "c3"] {
        held.task(text.as_bytes()).group("c").put().unwrap();
    }
    take(&held).release_with(Release::new().delay(secs(80))).unwrap();
    take(&held).release_with(Release::new().delay(secs(10))).unwrap();

    let strange = story.tube("strange", "general");
    let wrong = strange.put(b"no number").unwrap();
    assert!(strange.with_codec::<u8, Decimal>().try_take().unwrap().is_none());
    assert_eq!(strange.kick_task(wrong).ok(), Some(()));
    assert!(strange.with_codec::<u8, Decimal>().try_take().unwrap().is_none());
}

/// A number as text, written by an application's own codec.
struct Decimal;

impl tubewell::Codec<u8> for Decimal {
    const ID: u8 = 64;
    const VERSION: u16 = 3;

    fn encode(value: &u8, out: &mut Vec<u8>) -> Result<(), tubewell::BoxError> {
        out.extend_from_slice(value.to_string().as_bytes());
        Ok(())
    }

    fn decode(bytes: &[u8]) -> Result<u8, tubewell::BoxError> {
        Ok(std::str::from_utf8(bytes)?.parse()?)
    }
}

/// Taken tasks when the process ends.
fn mid_lease(story: &mut Story) {
    let tube = story.tube("work", "general ttr=20 attempts=3");
    ready(&tube, "plain failed-before touched detached released ready");
    let plain = take(&tube);
    story.hold(plain);
    take(&tube).retry_after("once", Duration::ZERO).unwrap();
    let again = take(&tube);
    assert_eq!(again.attempt(), 2);
    story.hold(again);
    let touched = take(&tube);
    touched.touch(secs(1000)).unwrap();
    story.hold(touched);
    take(&tube).detach();
    take(&tube).release().unwrap();
    let large = tube.task(&[b'y'; 2000]).priority(-1).key("held").ttl(secs(900)).put().unwrap();
    let held = tube.claim(large).unwrap();
    story.hold(held);
    let lines = story.tube("lines", "utubettl");
    for text in ["d1", "d2"] {
        lines.task(text.as_bytes()).group("d").put().unwrap();
    }
    let first = take(&lines);
    story.hold(first);
    let last = story.tube("last", "general attempts=1");
    ready(&last, "poison");
    let poison = take(&last);
    story.hold(poison);
}

/// A checkpoint, and records after it that change and remove some of its rows.
fn behind_a_checkpoint(story: &mut Story) {
    let tube = story.tube("t", "general");
    ready(&tube, "kept acked deleted buried moved held");
    let large = tube.task(&[b'z'; 700]).group("g").key("k").delay(secs(5)).put().unwrap();
    tube.task(b"second").group("g").put().unwrap();
    story.queue.checkpoint().unwrap();
    let tasks = tube.take_many(6).unwrap();
    let [kept, acked, deleted, buried, moved, held] = tasks.try_into().unwrap();
    kept.release().unwrap();
    acked.ack().unwrap();
    tube.delete(deleted.id()).unwrap();
    buried.bury("behind the checkpoint").unwrap();
    moved.release_with(Release::new().priority(8)).unwrap();
    story.hold(held);
    story.pass(6);
    assert_eq!(tube.claim(large).unwrap().release().ok(), Some(()));
    ready(&tube, "new");
}

/// Leases of named consumers: open, in their grace, and without one.
fn sessions(story: &mut Story) {
    let tube = story.tube("t", "general");
    ready(&tube, "ada's bob's cy's ready");
    tube.task(b"ada's for a time").priority(1).ttr(secs(30)).ttl(secs(999)).put().unwrap();
    let ada = story.queue.consumer_with_grace("ada", secs(600)).unwrap();
    let bob = story.queue.consumer_with_grace("bob", secs(300)).unwrap();
    let cy = story.queue.consumer("cy").unwrap();
    let mut held = vec![take(&tube.by(&ada))];
    let bobs = take(&tube.by(&bob));
    held.push(take(&tube.by(&cy)));
    let ready = take(&tube);
    held.push(take(&tube.by(&ada)));
    ready.release().unwrap();
    story.pass(10);
    bobs.detach();
    drop(bob);
    story.pass(10);
    story.hold((held, ada, cy));
}

/// Every kind of tube with options, and every change of a whole tube.
fn tubes(story: &mut Story) {
    for (name, words) in [
        ("a fifo", "fifo attempts=4"),
        ("b fifottl", "fifottl priority=9 ttl=100000 ttr=50 backoff=2 sparing"),
        ("c limfifottl", "limfifottl capacity=2"),
        ("d utube", "utube in_flight=3"),
        ("e utubettl", "utubettl holding ttl=70"),
        ("f general", "general attempts=0 placement=shortest"),
        ("empty", "general"),
        ("paused", "general capacity=10"),
        ("paused for a time", "general"),
        ("temporary", "general temporary priority=1"),
        ("dropped", "general"),
    ] {
        let tube = story.tube(name, words);
        if name != "empty" {
            ready(&tube, "one two");
        }
    }
    let long = "ü".repeat(127);
    ready(&story.tube(&long, "general"), "one");
    let find = |name| story.queue.find_tube(name).unwrap().unwrap();
    find("paused").pause().unwrap();
    find("paused for a time").pause_for(secs(600)).unwrap();
    let aside = find("b fifottl").task(b"spared").ttl(secs(5)).put().unwrap();
    find("b fifottl").bury(aside, "kept beyond its ttl").unwrap();
    story.queue.drop_tube("dropped").unwrap();
    story.tubes.remove("dropped");
}

/// Large removals of which no sweep has removed a row yet.
fn unswept(story: &mut Story) {
    let gone = story.tube("truncated", "general");
    let group = |number| ["g", "h", "i"][number % 3];
    for number in 0_usize..12 {
        let text = format!("gone {number}");
        let task = gone.task(text.as_bytes()).group(group(number)).ttl(secs(500));
        task.key(&number.to_string()).put().unwrap();
    }
    gone.put(&[b'g'; 600]).unwrap();
    story.queue.checkpoint().unwrap();
    gone.truncate().unwrap();
    ready(&gone, "after");
    gone.task(b"with a key").key("7").group("g").put().unwrap();
    ready(&story.tube("dropped", "general"), "one two three");
    story.queue.drop_tube("dropped").unwrap();
    story.tubes.remove("dropped");
    let back = story.tube("released", "general");
    ready(&back, "a b c");
    let held = back.take_many(2).unwrap();
    back.release_all().unwrap();
    let after = take(&back);
    story.hold((held, after));
}

/// The longest payload last, by groups of the last byte; none before noon.
struct Shortest;

impl Placement for Shortest {
    fn place(&self, put: &PutView<'_>) -> Place {
        let place = Place::new(&(put.payload.len() as u64).to_be_bytes());
        match put.key {
            Some("later") => place.not_before(listing::written() + secs(200)),
            Some(_) => place.group("by its placement"),
            None => place,
        }
    }
}

/// The placements that the golden files' tubes name.
pub(crate) fn shortest() -> impl Placement {
    Shortest
}

fn placed(story: &mut Story) {
    let tube = story.tube("placed", "general placement=shortest");
    ready(&tube, "long-est mid s mid");
    tube.task(b"urgent but long").priority(-1).put().unwrap();
    tube.task(b"grouped").key("1").group("ignored").put().unwrap();
    tube.task(b"group").key("2").put().unwrap();
    tube.task(b"late").key("later").put().unwrap();
    let aside = tube.put(b"aside").unwrap();
    tube.bury(aside, "for now").unwrap();
    let held = take(&tube);
    story.hold(held);
}

#[cfg(feature = "bincode")]
fn typed(story: &mut Story) {
    let bytes = story.tube("mail", "general");
    let mail = bytes.typed::<super::Mail>();
    for (to, copies) in [("ada", 0), ("bob", 3), ("cy", 600)] {
        mail.put(&super::Mail { to: to.into(), copies: vec![7; copies], note: None }).unwrap();
    }
    let note = Some(-1.5);
    mail.task(&super::Mail { to: "di".into(), copies: vec![300, 70_000], note }).put().unwrap();
    let numbers = story.tube("numbers", "fifo").with_codec::<u8, Decimal>();
    numbers.put_many([7, 8]).unwrap();
    bytes.put(b"no mail").unwrap();
}

/// An application's own tables, in the same commits as the queue's tasks.
fn app_tables(story: &mut Story) {
    let (files, report) = (story.tube("files", "general"), story.tube("report", "general"));
    ready(&files, "a.txt b.txt c.txt");
    for digest in [42, u64::MAX] {
        let task = take(&files);
        let name = String::from_utf8(task.to_vec()).unwrap();
        let done = story.queue.transact(|tx| -> Result<()> {
            tx.table(DIGESTS)?.insert(&*name, digest)?;
            tx.table(NOTES)?.insert(digest, [b'n'; 900].as_slice())?;
            tx.ack(&task)?;
            tx.put(&report, name.as_bytes()).map(drop)
        });
        done.unwrap();
        ready(&files, "between");
    }
    let task = take(&files);
    story.hold(task);
}

/// Records twice around the ring, so many that the last checkpoint is before the ring's end, and
/// the records after it continue at the ring's start.
fn wrapped(story: &mut Story) {
    let tube = story.tube("t", "general");
    ready(&tube, "stays");
    let filler = vec![b'w'; 5_000];
    let stays = take(&tube);
    for round in 0..22 {
        tube.put(&filler).unwrap();
        ready(&tube, &format!("round-{round}"));
        take(&tube).ack().unwrap();
        if round % 6 == 0 {
            take(&tube).bury("set aside on the way").unwrap();
        }
    }
    // The next record does not fit before the end of the ring, and needs no checkpoint.
    story.queue.checkpoint().unwrap();
    tube.put(&filler[..4_000]).unwrap();
    stays.release().unwrap();
}

/// Records that are synced one by one: a record that would cross into the next page begins there.
fn paged(story: &mut Story) {
    let tube = story.tube("t", "general");
    for number in 0..40 {
        tube.put(&vec![b'p'; 20 * number]).unwrap();
    }
    take(&tube).ack().unwrap();
}

/// Payloads in pieces: in a record, in turns, of a task in hand and of one that is gone.
fn large(story: &mut Story) {
    let tube = story.tube("t", "general");
    let of = |byte, bytes| vec![byte; bytes];
    tube.put_many([of(b'a', 3500), of(b'b', 3501), of(b'c', 4064), of(b'd', 9000)]).unwrap();
    let held = tube.task(&of(b'e', 100_000)).key("held").priority(-1).put().unwrap();
    story.hold(tube.claim(held).unwrap());
    let gone = tube.put(&of(b'f', 17 * 65_503)).unwrap();
    tube.delete(gone).unwrap();
    tube.delete(tube.put(&of(b'g', 20_000)).unwrap()).unwrap();
    story.queue.checkpoint().unwrap();
    tube.put(&of(b'h', 5000)).unwrap();
}

/// The disk is full, and the journal keeps the rows that the base has no space for. Tasks are
/// settled after that.
fn carried(story: &mut Story) {
    let tube = story.tube("t", "general");
    ready(&tube, "first second");
    story.queue.checkpoint().unwrap();
    story.disk.fill();
    let filler = vec![b'f'; 5_000];
    while tube.put(&filler).is_ok() {}
    take(&tube).ack().unwrap();
    take(&tube).bury("set aside on a full disk").unwrap();
}

/// Tubes and tasks that use what the first version of format 1 did not have.
fn terms(story: &mut Story) {
    let tube = story.tube("higher", "general higher priority=2 linear=10");
    ready(&tube, "plain");
    tube.task(b"mail").kind("mail").put().unwrap();
    tube.task(b"low").priority(-7).group("g").put().unwrap();
    tube.task(b"high").priority(7).key("k").put().unwrap();
    tube.task(b"last").priority(i64::MIN).put().unwrap();
    take(&tube).retry("high and delayed").unwrap();
    story.queue.checkpoint().unwrap();
    let own = story.tube("own", "general attempts=9");
    own.task(b"once").max_attempts(1).put().unwrap();
    own.task(b"always").max_attempts(0).backoff(Backoff::constant(secs(5))).put().unwrap();
    let later = own.task(b"later").delay(secs(500)).backoff(Backoff::NONE.jitter(3)).put().unwrap();
    own.update(later).max_attempts(2).apply().unwrap();
    let poison = take(&own);
    take(&own).retry("again").unwrap();
    story.hold(poison);
}

/// Tasks that failed in groups, and tasks that came from other tubes.
fn steps(story: &mut Story) {
    let fetch = story.tube("fetch", "general ttr=60 attempts=2").durability(Durability::Relaxed);
    let parse = story.tube("parse", "utubettl attempts=1").durability(Durability::Relaxed);
    let store = story
        .tube("store", "general higher priority=1 kept=3 aside=900")
        .durability(Durability::Relaxed);
    let ada = story.queue.consumer_with_grace("ada", secs(900)).unwrap();
    ready(&fetch, "one two four five");
    fetch.put(&vec![b'x'; 3600]).unwrap();
    fetch
        .task(b"keyed")
        .key("k")
        .group("g")
        .priority(-3)
        .ttl(secs(700))
        .kind("page")
        .put()
        .unwrap();
    let mut keyed = take(&fetch);
    keyed.advance_with(&parse, Advance::new().result(b"went on")).unwrap();
    let held = fetch.by(&ada);
    take(&held).retry_with(Retry::new("no route").group("network").after(secs(20))).unwrap();
    take(&held).fail("address", "gone").unwrap();
    story.pass(5);
    let mut four = take(&fetch);
    four.advance_with(&parse, Advance::new().delay(secs(300)).priority(9)).unwrap();
    take(&fetch).retry_after("soon", Duration::ZERO).unwrap();
    drop(take(&fetch));
    let mut long = take(&fetch);
    long.advance_with(&store, Advance::new().result(&[b'r'; 30])).unwrap();
    take(&parse).retry_with(Retry::new("no text").group("text")).unwrap();
    let moved = store.put(b"moved").unwrap();
    store.move_to(moved, &fetch).ttl(secs(2000)).apply().unwrap();
    fetch.move_to(moved, &store).apply().unwrap();
    let poison = take(&store);
    store.task(b"keyed").key("k").priority(9).put().unwrap();
    take(&store).ack_with(b"done").unwrap();
    store.bury(moved, "aside").unwrap();
    story.hold((ada, poison));
}

/// Whether the story ends within a verb.
fn is_cut_off(name: &str) -> bool {
    ["cascading", "merging"].contains(&name)
}

fn tell(name: &str, story: &mut Story) -> End {
    let (tell, end): (fn(&mut Story), End) = match name {
        "closed" => (everything, End::Closed),
        "killed" => (everything, End::Killed),
        "mid_lease" => (mid_lease, End::Killed),
        "behind_a_checkpoint" => (behind_a_checkpoint, End::Killed),
        "sessions" => (sessions, End::Killed),
        "sessions_closed" => (sessions, End::Closed),
        "tubes" => (tubes, End::Closed),
        "unswept" => (unswept, End::Killed),
        "placed" => (placed, End::Killed),
        #[cfg(feature = "bincode")]
        "typed" => (typed, End::Closed),
        "guests" => (app_tables, End::Killed),
        "wrapped" => (wrapped, End::Killed),
        "paged" => (paged, End::Killed),
        "large" => (large, End::Killed),
        "carried" => (carried, End::Killed),
        "terms" => (terms, End::Killed),
        "steps" => (steps, End::Killed),
        "lives" => (lives::lives, End::Killed),
        "flows" => (flows::flows, End::Killed),
        "grouped" => (flows::grouped, End::Killed),
        "cascading" => (midway::cascading, End::Within(1)),
        "merging" => (midway::merging, End::Within(4)),
        #[cfg(feature = "cron")]
        "cron" => (midway::cron, End::Killed),
        "hours" => (hours::hours, End::Killed),
        name => panic!("no story is called {name}"),
    };
    tell(story);
    end
}

fn save(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for file in FILES {
        let text = sparse::pack(&fs::read(from.join(file)).unwrap());
        fs::write(to.join(format!("{file}.txt")), text).unwrap();
    }
}

#[test]
#[ignore = "writes the golden files that are not there; run only when a story is added"]
fn write_the_golden_files() {
    for name in NAMES {
        let to = super::folder(name);
        if to.exists() {
            println!("{} stands for a user's queue and is not changed", to.display());
            continue;
        }
        let (_home, path) = home();
        let clock = ManualClock::at(listing::written());
        // A step of what is cut off fits a record.
        let ring = if is_cut_off(name) { 4 * SMALLEST } else { SMALLEST };
        let builder = || {
            Queue::builder()
                .clock(clock.clone())
                .by_hand(true)
                .journal_bytes(ring)
                .placement("shortest", shortest())
        };
        let disk = Recorder::default();
        let on_disk = name == "carried" || is_cut_off(name);
        let queue = match on_disk {
            true => {
                // A close gives back what redb makes a new file with.
                builder().disk(disk.lend()).open_disk().unwrap().close().unwrap();
                builder().disk(disk.lend()).open_disk()
            }
            false => builder().open(&path),
        };
        let (queue, tubes, held) = (queue.unwrap(), Tubes::new(), Vec::new());
        let clock = clock.clone();
        let mut story = Story { queue, clock, tubes, held, disk, before_last: None };
        let end = tell(name, &mut story);
        if on_disk {
            fs::create_dir(&path).unwrap();
            for (file, bytes) in FILES.iter().zip(story.files(&end)) {
                fs::write(path.join(file), bytes).unwrap();
            }
        }
        if matches!(end, End::Closed) {
            story.queue.close().unwrap();
            save(&path, &to);
        } else {
            let (_copy, copy) = killed(&path);
            save(&copy, &to);
        }
        let (queue, clock, _home) = opened(name);
        let found = listing::describe(&queue, &story.tubes);
        let graces = listing::graces(&queue, &clock);
        let (queue, clock, _home) = opened(name);
        let order = listing::work_off(&queue, &clock);
        fs::write(to.join("contents.txt"), format!("{found}\n{graces}{order}")).unwrap();
        let more: fn(&Queue) -> String = match name {
            "lives" => lives::describe,
            "flows" | "grouped" => flows::describe,
            "cascading" | "merging" | "cron" => midway::describe,
            "hours" => hours::describe,
            _ => continue,
        };
        let (queue, _clock, _home) = opened(name);
        fs::write(to.join("more.txt"), more(&queue)).unwrap();
    }
}
