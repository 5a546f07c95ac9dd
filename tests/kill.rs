//! A hundred kills of a real process on a real folder. The parent keeps the record of all calls.
//!
//! A child uses a queue with several threads and writes to a pipe what it is about to do and the
//! result. The parent kills it at some moment, also while it opens or closes, and starts the next
//! one on the same folder. After twenty-five kills it opens the folder itself, takes everything out
//! and judges: no put that returned is lost, no acked task comes back, no task appears that was not
//! put, a batch or a transaction is complete or absent, each payload is unchanged, order and
//! numbers hold, a task has at most one holder at a time. Calls that ran at a kill may have
//! happened or not.
//!
//! `TUBEWELL_SEED` makes other children, `TUBEWELL_KILLS` more of them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use redb::TableDefinition;
use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::io::{BufRead, BufReader, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};
use tubewell::{Durability, ErrorKind, Queue, Result, State, Task, Tube};

const CHILD: &str = "TUBEWELL_KILL_CHILD";
/// Kills before the folder is judged and the next one begins.
const KILLS_A_LIFE: u64 = 25;
/// Labels of tasks that were put in the transaction that acked another.
const FOLLOWED: TableDefinition<&str, u64> = TableDefinition::new("followed");

fn main() {
    let mut names = env::args().skip(1).filter(|argument| !argument.starts_with('-')).peekable();
    if let Ok(child) = env::var(CHILD) {
        let mut parts = child.splitn(4, ' ');
        let mut number = || parts.next().unwrap().parse().unwrap();
        let (seed, life, run) = (number(), number(), number());
        work(Path::new(parts.next().unwrap()), seed, life, run);
    } else if env::args().any(|argument| argument == "--list") {
        println!("kill: test");
    } else if names.peek().is_none() || names.any(|name| "kill".contains(&name)) {
        judge_the_judge();
        judge_lives();
    }
}

/// A small random number generator (splitmix64).
struct Dice(u64);

impl Dice {
    fn of(parts: [u64; 4]) -> Self {
        let mut dice = Self(0);
        for part in parts {
            dice.0 ^= part;
            dice.0 = dice.roll();
        }
        dice
    }

    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.roll() % end
    }
}

// The child.

/// One line is one write to the pipe, so a kill never cuts it.
fn say(line: &str) {
    // If the parent has ended, the child ends too.
    if std::io::stdout().lock().write_all(format!("{line}\n").as_bytes()).is_err() {
        std::process::exit(0);
    }
}

fn work(path: &Path, seed: u64, life: u64, run: u64) {
    // For every thread: a thread that is not joined before the kill would fail unnoticed.
    std::panic::set_hook(Box::new(|panic| say(&format!("! {panic}").replace('\n', " "))));
    let mut dice = Dice::of([seed, life, run, 0]);
    let levels = [Durability::Durable, Durability::Relaxed];
    let queue = Queue::builder()
        .journal_bytes([64 << 10, 128 << 10, 1 << 20, 8 << 20][life as usize % 4])
        .durability(levels[dice.below(2) as usize])
        .flush_interval(Duration::from_millis(1 + dice.below(50)))
        .cache_bytes(1 << (16 + dice.below(8)))
        .open(path)
        .unwrap_or_else(|error| panic!("the opening was refused: {error}"));
    say("o");
    if run.is_multiple_of(8) {
        queue.check().unwrap().iter().for_each(|line| say(&format!("! {line}")));
    }
    let threads = 1 + dice.below(3);
    let calls = if dice.below(10) == 0 { dice.below(30) } else { u64::MAX };
    let workers: Vec<_> = (0..threads)
        .map(|thread| {
            let (queue, dice) = (queue.clone(), Dice::of([seed, life, run, 1 + thread]));
            let label = format!("{run}.{thread}");
            thread::spawn(move || {
                let tube = queue.tube("t").unwrap();
                let mut worker = Worker { queue, tube, dice, label, held: Vec::new(), puts: 0 };
                for _ in 0..calls {
                    worker.call().unwrap_or_else(|error| panic!("{error}"));
                }
                worker.release_all_but(0);
            })
        })
        .collect();
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    say("c");
    queue.close().unwrap();
    say("C");
}

struct Worker {
    queue: Queue,
    tube: Tube,
    dice: Dice,
    label: String,
    held: Vec<Task>,
    puts: u64,
}

impl Worker {
    fn call(&mut self) -> Result<()> {
        match self.dice.below(100) {
            0..40 => self.put(),
            40..46 => self.put_many(),
            46..90 => self.take(),
            90..94 => self.tube.kick(2).map(drop),
            94..96 => self.queue.checkpoint(),
            96..98 => self.queue.flush(),
            _ => {
                let keep = self.dice.below(4) as usize;
                self.release_all_but(keep);
                Ok(())
            }
        }
    }

    /// Returns the held tasks, except a few for the kill.
    fn release_all_but(&mut self, keep: usize) {
        for task in self.held.drain(keep.min(self.held.len())..) {
            say(&format!("r {}", task.id()));
        }
    }

    /// The next task: its payload contains its label, priority and group.
    fn next(&mut self) -> (String, i64, Option<String>) {
        self.puts += 1;
        let priority = self.dice.below(3) as i64 - 1;
        let group = Some(self.dice.below(6)).filter(|group| *group < 3);
        let text = group.map_or("-".to_owned(), |group| format!("g{group}"));
        let label = format!("{}.{}", self.label, self.puts);
        (whole(&label, priority, &text), priority, group.map(|_| text))
    }

    fn put(&mut self) -> Result<()> {
        let (payload, priority, group) = self.next();
        let label = label_of(&payload);
        say(&format!("p {label}"));
        let task = self.tube.task(payload.as_bytes()).priority(priority);
        let task = if let Some(group) = &group { task.group(group) } else { task };
        let id = task.put()?;
        say(&format!("P {label} {id}"));
        Ok(())
    }

    fn put_many(&mut self) -> Result<()> {
        let count = 1 + self.dice.below(6);
        let payloads: Vec<String> = (0..count)
            .map(|_| {
                self.puts += 1;
                whole(&format!("{}.{}", self.label, self.puts), 0, "-")
            })
            .collect();
        let labels: Vec<&str> = payloads.iter().map(|payload| label_of(payload)).collect();
        say(&format!("b {}", labels.join(" ")));
        let ids = self.tube.put_many(payloads.iter().map(|payload| payload.as_bytes()))?;
        let pairs = labels.iter().zip(ids).map(|(label, id)| format!("{label} {id}"));
        say(&format!("B {}", pairs.collect::<Vec<_>>().join(" ")));
        Ok(())
    }

    fn take(&mut self) -> Result<()> {
        let Some(task) = self.tube.try_take()? else { return Ok(()) };
        let id = task.id();
        let reported = head_of(&task).unwrap_or_else(|| panic!("task {id} came back altered"));
        say(&format!("t {id} {} {} {reported}", task.deliveries(), task.attempt()));
        match self.dice.below(20) {
            0..10 => {
                say(&format!("a {id}"));
                task.ack()?;
                say(&format!("A {id}"));
            }
            10..12 => {
                let (payload, priority, group) = self.next();
                let label = label_of(&payload).to_owned();
                say(&format!("x {id} {label}"));
                let next = self.queue.transact(|tx| -> Result<_> {
                    tx.ack(&task)?;
                    let put = self.tube.task(payload.as_bytes()).priority(priority);
                    let put = if let Some(group) = &group { put.group(group) } else { put };
                    let next = put.put_in(tx)?;
                    tx.table(FOLLOWED)?.insert(&*label, next.get())?;
                    Ok(next)
                })?;
                say(&format!("X {id} {label} {next}"));
            }
            12..14 => {
                say(&format!("d {id}"));
                self.tube.delete(id)?;
                say(&format!("A {id}"));
            }
            14..17 => {
                say(&format!("r {id}"));
                task.release()?;
            }
            17..18 => {
                say(&format!("r {id}"));
                task.bury("set aside")?;
            }
            18..19 => {
                say(&format!("r {id}"));
                drop(task);
            }
            _ => self.held.push(task),
        }
        Ok(())
    }
}

fn label_of(payload: &str) -> &str {
    payload.split(' ').next().unwrap()
}

/// A payload: label, priority, group, and a filler derived from the label.
fn whole(label: &str, priority: i64, group: &str) -> String {
    let mut dice = Dice::of([0; 4]);
    for byte in label.bytes() {
        dice.0 = dice.roll() ^ u64::from(byte);
    }
    let length = [0, 0, 100, 6000][dice.below(4) as usize];
    let filler: String = (0..length).map(|_| (b'a' + dice.below(26) as u8) as char).collect();
    format!("{label} {priority} {group} {filler}")
}

/// The part before the filler, if every byte is as it was put.
fn head_of(payload: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(payload).ok()?;
    let (head, _) = text.rsplit_once(' ')?;
    let [label, priority, group] = head.split(' ').collect::<Vec<_>>().try_into().ok()?;
    (whole(label, priority.parse().ok()?, group) == text).then_some(head)
}

// The parent.

#[derive(Default)]
struct Totals {
    kills: u64,
    puts: usize,
    acks: usize,
}

fn judge_lives() {
    let number = |name, default| env::var(name).map_or(default, |text| text.parse().unwrap());
    let (seed, kills) = (number("TUBEWELL_SEED", 1), number("TUBEWELL_KILLS", 100));
    println!("TUBEWELL_SEED={seed}");
    let mut totals = Totals::default();
    for life in 0.. {
        if totals.kills >= kills {
            break;
        }
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("q");
        let mut truth = Truth::default();
        let until = kills.min(totals.kills + KILLS_A_LIFE);
        let mut run = 0;
        while totals.kills < until {
            totals.kills += u64::from(live_and_die(&path, seed, life, run, &mut truth));
            run += 1;
        }
        truth.judge(&path);
        totals.puts += truth.ids.len();
        totals.acks += truth.gone.len();
    }
    println!("{} kills, {} puts, {} acks, 0 lost", totals.kills, totals.puts, totals.acks);
}

/// Tests the judge: each of these stories must be refused.
fn judge_the_judge() {
    for label in ["0.0.1", "0.0.2", "1.0.1", "1.0.2", "2.1.7", "3.2.9"] {
        let payload = whole(label, -1, "g0");
        assert_eq!(head_of(payload.as_bytes()).unwrap(), format!("{label} -1 g0"));
        for at in 0..payload.len() {
            let mut altered = payload.clone().into_bytes();
            altered[at] ^= 1;
            // A changed priority or group is visible only by the order.
            let filler = label.len() + 1 + "-1 g0 ".len();
            assert!(at < filler || head_of(&altered).is_none(), "{label}: byte {at}");
            assert!(head_of(&altered[..at]).is_none_or(|_| at == filler), "{label}: to {at}");
        }
    }
    let stories: [&[&str]; 9] = [
        &["p 0.0.1", "P 0.0.1 7"],
        &["p 0.0.1", "P 0.0.1 7", "t 7 1 1 0.0.1 0 -", "A 7", "t 7 2 1 0.0.1 0 -"],
        &["t 7 1 1 0.0.1 0 -"],
        &["p 0.0.1", "P 0.0.1 7", "p 0.0.2", "P 0.0.2 7"],
        &["p 0.0.1", "t 7 1 1 0.0.1 0 -", "t 7 2 1 0.0.1 0 -"],
        &["p 0.0.1", "p 0.0.2", "t 7 1 1 0.0.1 0 g", "t 8 1 1 0.0.2 0 g"],
        &["p 0.0.1", "t 7 2 1 0.0.1 0 -", "r 7", "t 7 2 1 0.0.1 0 -"],
        &["b 0.0.1 0.0.2", "t 7 1 1 0.0.1 0 -", "A 7"],
        &["p 0.0.1", "P 0.0.1 7", "x 7 0.0.2", "t 7 1 1 0.0.1 0 -"],
    ];
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let refused = stories.map(|story| {
        std::panic::catch_unwind(|| {
            let home = tempfile::tempdir().unwrap();
            let mut truth = Truth::default();
            story.iter().for_each(|line| truth.hear(line));
            truth.judge(&home.path().join("q"));
        })
        .is_err()
    });
    std::panic::set_hook(hook);
    assert_eq!(refused, [true; 9], "the judge accepts a false story");
}

/// Runs one child and kills it at some moment. Returns false if the child ended before.
fn live_and_die(path: &Path, seed: u64, life: u64, run: u64, truth: &mut Truth) -> bool {
    let mut dice = Dice::of([seed, life, run, 99]);
    let mut child = Command::new(env::current_exe().unwrap())
        .env(CHILD, format!("{seed} {life} {run} {}", path.display()))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut received = BufReader::new(child.stdout.take().unwrap());
    let (reported, lines) = mpsc::channel();
    let reader = thread::spawn(move || {
        let mut line = String::new();
        while received.read_line(&mut line).unwrap() > 0 && line.ends_with('\n') {
            let _ = reported.send(line.trim_end().to_owned());
            line.clear();
        }
    });
    // One in ten is killed while it opens: then the time counts from its start.
    let opening = dice.below(10) == 0;
    let mut deadline = match opening {
        true => Some(Instant::now() + Duration::from_micros(dice.below(12_000))),
        false => None,
    };
    let at_work = Duration::from_micros(dice.below(60_000));
    let at_close = Duration::from_micros(dice.below(4_000));
    truth.begin();
    loop {
        let left = deadline.map_or(Duration::from_secs(60), |deadline| {
            deadline.saturating_duration_since(Instant::now())
        });
        match lines.recv_timeout(left) {
            Ok(line) => {
                match line.as_str() {
                    "o" if !opening => deadline = Some(Instant::now() + at_work),
                    "c" => deadline = Some(Instant::now() + at_close),
                    _ => {}
                }
                truth.hear(&line);
            }
            Err(RecvTimeoutError::Timeout) => {
                assert!(deadline.is_some(), "an opening took a minute");
                break;
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let _ = child.kill();
    let ended = child.wait().unwrap();
    reader.join().unwrap();
    lines.iter().for_each(|line| truth.hear(&line));
    let killed = ended.code().is_none() || cfg!(windows);
    assert!(killed || ended.success(), "life {life}, run {run}: the child failed: {ended}");
    killed
}

/// What is known of the queue from the children's messages.
#[derive(Default)]
struct Truth {
    /// The number of messages, as a clock.
    now: u64,
    /// Labels whose put began.
    begun: BTreeSet<String>,
    /// Labels with their ids, from a result or from a take.
    ids: BTreeMap<String, u64>,
    labels: BTreeMap<u64, String>,
    /// Labels whose put returned.
    put: BTreeSet<String>,
    /// Ids whose ack or delete returned, and those for which it began.
    gone: BTreeSet<u64>,
    going: BTreeSet<u64>,
    /// Acks with a follow-up that began: id, label of the follow-up, when.
    followed: Vec<(u64, String, u64)>,
    batches: Vec<Vec<String>>,
    /// When an id was last handed out, and its deliveries by then.
    met: BTreeMap<u64, (u64, u32)>,
    /// The tasks held in this run, with their groups.
    held: BTreeMap<u64, String>,
    /// The highest id of earlier runs, and of all.
    floor: u64,
    top: u64,
    /// The last id of each thread of this run.
    last: BTreeMap<String, u64>,
}

impl Truth {
    /// A new child: no task is held.
    fn begin(&mut self) {
        self.held.clear();
        self.last.clear();
        self.floor = self.top;
    }

    fn hear(&mut self, line: &str) {
        self.now += 1;

        let mut words = line.split(' ');
        let what = words.next().unwrap();
        let words: Vec<&str> = words.collect();
        let id = |at: usize| words[at].parse::<u64>().unwrap();
        match what {
            "o" | "c" | "C" => {}
            "p" | "b" => {
                self.begun.extend(words.iter().map(|label| (*label).to_owned()));
                self.batches.push(words.iter().map(|label| (*label).to_owned()).collect());
            }
            "P" | "B" => {
                for pair in words.chunks(2) {
                    self.returned(pair[0], pair[1].parse().unwrap());
                }
            }
            "t" => {
                self.meet(id(0), words[1].parse().unwrap(), words[3]);
                let group = words.get(5).filter(|group| **group != "-");
                assert!(words[2].parse::<u32>().unwrap() <= id(1) as u32, "attempts: {line}");
                self.hold(id(0), group.map_or(String::new(), |group| (*group).to_owned()));
            }
            "a" | "d" => {
                self.held.remove(&id(0));
                self.going.insert(id(0));
            }
            "A" => drop(self.gone.insert(id(0))),
            "x" => {
                self.held.remove(&id(0));
                self.begun.insert(words[1].to_owned());
                self.followed.push((id(0), words[1].to_owned(), self.now));
            }
            "X" => {
                self.gone.insert(id(0));
                self.returned(words[1], id(2));
            }
            "r" => drop(self.held.remove(&id(0))),
            _ => panic!("{line}"),
        }
    }

    /// A put returned.
    fn returned(&mut self, label: &str, id: u64) {
        assert!(
            id > self.floor,
            "task {id} was numbered below an earlier process's {}",
            self.floor
        );
        let thread = label.rsplit_once('.').unwrap().0;
        let last = self.last.insert(thread.to_owned(), id);
        assert!(last.is_none_or(|last| last < id), "{last:?} before {id} in one thread");
        self.know(label, id);
        self.put.insert(label.to_owned());
    }

    /// A label and an id belong together permanently.
    fn know(&mut self, label: &str, id: u64) {
        assert!(self.begun.contains(label), "task {id} appeared: {label} was never put");
        assert_eq!(*self.ids.entry(label.to_owned()).or_insert(id), id, "{label} has two ids");
        let known = self.labels.entry(id).or_insert_with(|| label.to_owned());
        assert_eq!(known, label, "id {id} was given twice");
        self.top = self.top.max(id);
    }

    /// A task was handed out.
    fn meet(&mut self, id: u64, deliveries: u32, label: &str) {
        assert!(!self.gone.contains(&id), "task {id} came back after its end");
        self.know(label, id);
        let before = self.met.insert(id, (self.now, deliveries));
        let grew = before.is_none_or(|(_, before)| before < deliveries);
        assert!(grew, "task {id}: {deliveries} deliveries after {before:?}");
    }

    fn hold(&mut self, id: u64, group: String) {
        let alone = group.is_empty() || self.held.values().all(|other| *other != group);
        assert!(alone, "task {id} is the second held one of group {group}");
        assert!(self.held.insert(id, group).is_none(), "task {id} has two holders");
    }

    /// Opens the folder, takes everything out, and compares.
    fn judge(&mut self, path: &Path) {
        self.begin();
        let queue = Queue::builder().progress(|_| ControlFlow::Continue(())).open(path).unwrap();
        assert_eq!(queue.check().unwrap(), Vec::<String>::new());
        let tube = queue.tube("t").unwrap();
        tube.kick(u64::MAX).unwrap();
        let mut order = Vec::new();
        while let Some(task) = tube.try_take().unwrap() {
            self.now += 1;
            let head = head_of(&task);
            let head = head.unwrap_or_else(|| panic!("task {} came back altered", task.id()));
            let parts: Vec<&str> = head.split(' ').collect();
            self.meet(task.id().get(), task.deliveries(), parts[0]);
            order.push((parts[1].parse::<i64>().unwrap(), task.id()));
            task.ack().unwrap();
        }
        assert!(order.is_sorted(), "out of put order: {order:?}");
        assert_eq!(tube.len().unwrap(), 0, "{:?}", tube.tasks(State::Delayed).next());
        let left: BTreeSet<u64> = order.iter().map(|(_, id)| id.get()).collect();

        let followed = std::mem::take(&mut self.followed);
        let (committed, undone): (Vec<_>, Vec<_>) =
            followed.into_iter().partition(|(_, label, _)| is_followed(&queue, label));
        for (id, label, begun) in committed {
            assert!(self.met[&id].0 < begun, "task {id} came back after its transaction");
            assert!(self.ids.contains_key(&label), "the follow-up {label} was lost");
            self.gone.insert(id);
        }
        // A task whose transaction was undone may have ended in a later one.
        for (id, label, _) in undone {
            assert!(!self.ids.contains_key(&label), "half a transaction: {label}");
            let lives = left.contains(&id) || self.gone.contains(&id) || self.going.contains(&id);
            assert!(lives, "half a transaction: {id}");
        }
        for batch in &self.batches {
            let there = batch.iter().filter(|label| self.ids.contains_key(*label)).count();
            assert!(there == 0 || there == batch.len(), "half a batch: {batch:?}");
        }
        for label in &self.put {
            let id = self.ids[label];
            let known = left.contains(&id) || self.gone.contains(&id) || self.going.contains(&id);
            assert!(known, "lost: task {id}, {label}");
        }
        queue.close().unwrap();
    }
}

/// Whether the transaction with this follow-up was committed.
fn is_followed(queue: &Queue, label: &str) -> bool {
    let read = queue.read(|r| -> Result<bool> { Ok(r.table(FOLLOWED)?.get(label)?.is_some()) });
    match read {
        Ok(committed) => committed,
        // Without any there is no table.
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Rejected);
            false
        }
    }
}
