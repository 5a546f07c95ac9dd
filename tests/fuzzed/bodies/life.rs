//! Bytes as a program of the verbs that a task meets in its life: keys, failures, moves, trash,
//! results, reports, settings, consumers. The events of the queue are played back: they must lead
//! to the tasks and the states that the listings show, and each must follow from the one before.

use super::{Bytes, fine, play};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use tubewell::{
    Advance, Cause, Conflict, Consumer, Ended, ErrorKind, Event, Events, Filter, HistoryLimits,
    Lapse, ManualClock, PauseTerms, Queue, Result, Retention, Retry, ReturnTo, State, Task, TaskId,
    Tube, TubeKind, TubeOptions, Unique,
};

const NAMES: [&str; 5] = ["plain", "keyed", "high", "groups", "passing"];
const WORDS: [&str; 3] = ["x", "y", "a longer word, for a key, a kind or a group"];
const WORKERS: [&str; 2] = ["ada", "bob"];
const STATES: [State; 5] = [State::Delayed, State::Ready, State::Taken, State::Buried, State::Done];
const SECOND: Duration = Duration::from_secs(1);
/// Steps between two looks at everything.
const LOOK_EVERY: usize = 8;
const STEPS_MAX: usize = 384;

pub fn life(bytes: &[u8]) {
    let mut bytes = Bytes::of(bytes);
    let clock = ManualClock::new();
    let queue = Queue::builder().by_hand(true).clock(clock.clone()).in_memory().unwrap();
    let mut world = World {
        events: queue.events(),
        tubes: (0..NAMES.len()).map(|at| make(&queue, at)).collect(),
        workers: WORKERS.map(|name| queue.consumer_with_grace(name, SECOND * 3).unwrap()).into(),
        clock,
        queue,
        held: Vec::new(),
        seen: BTreeMap::new(),
        newest: 0,
        told: NAMES.map(|_| None).into(),
        expected: NAMES.map(|_| Vec::new()).into(),
    };
    play(&mut world, &mut bytes, (STEPS_MAX, LOOK_EVERY), World::step, World::look);
    world.held.clear();
    world.look();
    world.queue.close().unwrap();
}

fn make(queue: &Queue, at: usize) -> Tube {
    queue.create_tube(NAMES[at], options(at).if_not_exists()).unwrap()
}

fn options(at: usize) -> TubeOptions {
    let few = Retention::new().count(4);
    let grace = Lapse::new().grace(2 * SECOND).to(ReturnTo::Front);
    let options = match at {
        0 => TubeOptions::default().max_attempts(3).keep_finished(few).keep_buried(few),
        1 => TubeOptions::default().unique(Unique::new().in_queue(true)).lapse(grace),
        2 => TubeOptions::default().higher_first(true).capacity(9).keep_finished(few.age(SECOND)),
        3 => TubeOptions::new(TubeKind::UtubeTtl)
            .in_flight(2)
            .unique(Unique::new().buried(false).done(true))
            .keep_finished(few),
        _ => TubeOptions::default().temporary(true).keep_finished(few).lapse(grace.charged(false)),
    };
    options.ttr(5 * SECOND).history(HistoryLimits::new().entries(4))
}

struct World {
    queue: Queue,
    clock: ManualClock,
    tubes: Vec<Tube>,
    workers: Vec<Consumer>,
    held: Vec<Task>,
    events: Events,
    /// What the events say: the tube and the state of each task.
    seen: BTreeMap<TaskId, (String, State)>,
    newest: u64,
    /// What the callbacks of the tubes that were made again were told since the last look, and what
    /// the events say of these tubes.
    told: Vec<Option<Receiver<Change>>>,
    expected: Vec<Vec<Change>>,
}

/// A step of a task: where from and where to.
type Change = (TaskId, Option<State>, Option<State>);

impl World {
    fn step(&mut self, bytes: &mut Bytes<'_>) {
        let at = bytes.below(NAMES.len());
        let tube = self.tubes[at].clone();
        match bytes.choice(20) {
            0..=4 => self.put(&tube, bytes),
            5..=7 => {
                let by = &self.workers[bytes.below(WORKERS.len())];
                let taken = if bytes.flag() { tube.by(by).try_take() } else { tube.try_take() };
                self.held.extend(fine(taken).flatten());
            }
            8..=10 => self.settle(&tube, bytes),
            11..=13 => self.by_id(&tube, bytes),
            14 => self.among_many(&tube, bytes),
            15 => self.report(bytes),
            16 => self.set(&tube, bytes),
            17 => self.clock.advance(SECOND * u32::from(bytes.byte() % 4)),
            18 => self.consumers(&tube, bytes),
            19 => self.find(&tube, bytes),
            _ => self.more(at, bytes),
        }
    }

    fn put(&mut self, tube: &Tube, bytes: &mut Bytes<'_>) {
        let lengths = [1, 300, 3500, 9000];
        let payload = vec![bytes.byte(); lengths[bytes.below(lengths.len())]];
        let (mut task, which) = (tube.task(&payload), bytes.byte());
        if which & 1 != 0 {
            let conflicts =
                [Conflict::Keep, Conflict::Reject, Conflict::Replace, Conflict::Debounce];
            task = task.key(WORDS[bytes.below(3)]).on_conflict(conflicts[bytes.below(4)]);
        }
        if which & 2 != 0 {
            let (kind, word) = (WORDS[bytes.below(3)], WORDS[bytes.below(3)]);
            task = task.kind(kind).detail("of", word).tags([word, kind, "put"]);
        }
        if which & 4 != 0 {
            task = task.delay(SECOND * u32::from(bytes.byte() % 4));
        }
        if which & 8 != 0 {
            task = task.ttl(SECOND * u32::from(bytes.byte() % 8));
        }
        if which & 16 != 0 {
            task = task.group(WORDS[bytes.below(3)]);
        }
        if which & 32 != 0 {
            task = task.priority(i64::from(bytes.byte()) - 128);
        }
        if which & 64 != 0 {
            task = task.must_exist();
        }
        match self.held.get(bytes.below(self.held.len())) {
            Some(held) if which & 128 != 0 => drop(fine(task.holding(held).put())),
            _ => drop(fine(task.put())),
        }
    }

    fn settle(&mut self, other: &Tube, bytes: &mut Bytes<'_>) {
        let at = bytes.below(self.held.len());
        if self.held.is_empty() {
            return;
        }
        let mut task = self.held.swap_remove(at);
        let long = vec![bytes.byte(); usize::from(bytes.byte()) * 40];
        fine(match bytes.byte() % 14 {
            0 => task.ack(),
            1 => task.ack_with(&long),
            2 => task.fail(WORDS[bytes.below(3)], "failed"),
            3 => task.retry_with(Retry::new("again").group(WORDS[bytes.below(3)])),
            4 => task.bury("aside"),
            5 => task.trash("away"),
            6 => task.advance(other),
            7 => task.advance_with(other, Advance::new().result(b"step").delay(SECOND)),
            8 => task.with_payload(&long).ack(),
            9 => task.with_payload(&long).retry("with more"),
            10 => task.with_payload(&long).advance(other),
            11 => task.snooze(SECOND),
            12 => task.release(),
            _ => {
                drop(task);
                Ok(())
            }
        });
    }

    /// Mostly of a task that was in the tube at the last look.
    fn some_id(&self, tube: &Tube, bytes: &mut Bytes<'_>) -> TaskId {
        let back = bytes.below(16);
        let own = self.seen.iter().rev().filter(|(_, (name, _))| name == tube.name());
        let any = TaskId::new(self.newest.saturating_sub(back as u64).max(1));
        own.map(|(id, _)| *id).nth(back / 4).unwrap_or(any)
    }

    fn by_id(&mut self, tube: &Tube, bytes: &mut Bytes<'_>) {
        let (id, other) = (self.some_id(tube, bytes), self.tubes[bytes.below(NAMES.len())].clone());
        match bytes.byte() % 13 {
            0 => {
                let (name, moving) = (WORDS[bytes.below(3)], tube.move_to(id, &other));
                let moving = match bytes.byte() % 4 {
                    0 => moving,
                    1 => moving.key(name),
                    2 => moving.group(name).tags([name]),
                    _ => moving.kind(name).require(name),
                };
                fine(moving.apply());
            }
            12 => drop(fine(tube.copy_to(id, &other))),
            1 => drop(fine(tube.complete_by_id_with(id, b"by hand"))),
            2 => drop(fine(tube.fail_by_id(id, WORDS[bytes.below(3)], "by hand"))),
            3 => drop(fine(tube.trash(id, "by hand"))),
            4 => drop(fine(tube.restore(id))),
            5 => drop(fine(tube.kick_task(id))),
            6 => {
                fine(tube.untag(id, ["put", "by hand"]));
                fine(tube.update(id).priority(3).ttl(9 * SECOND).apply());
            }
            7 => drop(fine(tube.force_timeout(&[id]))),
            8 => {
                fine(tube.tag(id, ["by hand", WORDS[0]]));
                fine(tube.log(id, "a line"));
            }
            9 => drop(fine(tube.delete(id))),
            10 => drop(fine(tube.bury(id, "by hand"))),
            _ => self.held.extend(fine(tube.claim(id))),
        }
    }

    fn among_many(&mut self, tube: &Tube, bytes: &mut Bytes<'_>) {
        let (group, most) = (WORDS[bytes.below(3)], bytes.below(4) as u64);
        let other = self.tubes[bytes.below(NAMES.len())].clone();
        match bytes.byte() % 10 {
            0 => drop(fine(tube.unfail(group, most))),
            1 => drop(fine(self.queue.unfail(group, most))),
            2 => drop(fine(tube.unfail_into(group, most, &other))),
            3 => drop(fine(tube.kick_where(most, |task| task.id.get() % 2 == 0))),
            4 => drop(fine(tube.empty_trash())),
            5 => drop(fine(tube.delete_many(&[0, 1].map(|_| self.some_id(tube, bytes))))),
            6 => drop(fine(tube.kick(most))),
            7 => drop(fine(tube.release_all())),
            8 if bytes.flag() => drop(fine(tube.truncate())),
            9 if bytes.flag() => drop(fine(self.queue.merge(tube.name(), other.name()))),
            _ => drop(fine(self.queue.unfail_into(group, most, &other))),
        }
    }

    fn report(&mut self, bytes: &mut Bytes<'_>) {
        let Some(task) = self.held.get(bytes.below(self.held.len())) else { return };
        match bytes.byte() % 6 {
            0 => drop(fine(task.start("begun"))),
            1 => drop(fine(task.progress(bytes.byte() % 101, "so far"))),
            2 => drop(fine(task.checkpoint(b"half"))),
            3 => drop(fine(task.log("a line"))),
            4 => drop(fine(task.renew())),
            _ => self.read(task),
        }
    }

    /// A guard that still holds its task reads what others read of it.
    fn read(&self, task: &Task) {
        let id = task.id();
        if fine(task.is_lost()) != Some(false) {
            return;
        }
        let (info, history) = (self.queue.find(id).unwrap(), self.queue.history(id).unwrap());
        let own = (task.passed().unwrap(), task.details().unwrap());
        assert_eq!(own, (info.passed.clone(), info.details.clone()), "task {id}");
        let tube = self.tubes.iter().find(|tube| tube.name() == info.tube).unwrap();
        assert_eq!(task.last_checkpoint().unwrap(), tube.last_checkpoint(id).unwrap(), "task {id}");
        let previous = task.previous().unwrap();
        assert!(previous.is_none_or(|it| history.entries.contains(&it)), "task {id}");
    }

    fn set(&mut self, tube: &Tube, bytes: &mut Bytes<'_>) {
        let seconds = SECOND * u32::from(bytes.byte() % 8 + 1);
        match bytes.byte() % 6 {
            0 => drop(fine(tube.set("ttl", seconds))),
            1 => drop(fine(tube.set("ttr", seconds))),
            2 => drop(fine(tube.set("max_attempts", i64::from(bytes.byte() % 4)))),
            3 => drop(fine(tube.set("app.word", WORDS[bytes.below(3)]))),
            4 => drop(fine(tube.unset(["ttl", "ttr", "max_attempts", "app.word"][bytes.below(4)]))),
            _ => drop(fine(self.queue.settings())),
        }
    }

    fn consumers(&mut self, tube: &Tube, bytes: &mut Bytes<'_>) {
        let at = bytes.below(WORKERS.len());
        let again = |queue: &Queue| fine(queue.consumer_with_grace(WORKERS[at], SECOND * 3));
        match bytes.byte() % 4 {
            0 => drop(fine(self.queue.deregister(&WORKERS[at..=at]))),
            1 => {
                // The guards of its tasks keep the session until they are gone.
                self.workers.remove(at);
                let adopted = fine(self.workers[0].adopt(WORKERS[at]));
                let tasks = adopted.map(|adopted| adopted.tasks(tube).collect::<Vec<_>>());
                self.held.extend(tasks.into_iter().flatten().filter_map(fine));
                self.workers.insert(at, again(&self.queue).unwrap());
            }
            2 => drop(fine(self.workers[at].close())),
            _ => drop(fine(self.queue.consumers())),
        }
        if let Some(worker) = again(&self.queue) {
            self.workers[at] = worker;
        }
    }

    fn find(&mut self, tube: &Tube, bytes: &mut Bytes<'_>) {
        let id = self.some_id(tube, bytes);
        let filter = match bytes.byte() % 5 {
            0 => Filter::new().kind(WORDS[bytes.below(3)]),
            1 => Filter::new().key_prefix("x"),
            2 => Filter::new().failure_group(WORDS[bytes.below(3)]),
            3 => Filter::new().owner(WORKERS[bytes.below(2)]),
            _ => Filter::new().younger_than(2 * SECOND),
        };
        self.play();
        let found = fine(tube.search(&filter, None, 256)).unwrap();
        assert!(found.tasks.iter().all(|task| self.seen.contains_key(&task.id)));
        self.play();
        let (info, why) = (fine(self.queue.find(id)), fine(self.queue.explain(id)));
        assert_eq!(info.is_some(), self.seen.contains_key(&id), "task {id}");
        assert!(info.is_none() || why.is_some(), "task {id}");
        let history = fine(self.queue.history(id));
        assert!(history.is_none_or(|history| history.entries.len() <= 6), "task {id}");
        let ended = fine(self.queue.wait_for(id, Duration::ZERO)).flatten();
        let ended = ended.map(|ended| match ended {
            Ended::Done(task) | Ended::Buried(task) => Some((task.id, task.state)),
            _ => None,
        });
        let has_ended = |state| matches!(state, State::Done | State::Buried);
        let expected = match info {
            Some(info) => has_ended(info.state).then_some(Some((id, info.state))),
            // It is gone, or was never given.
            None => ended.filter(Option::is_none),
        };
        assert_eq!(ended, expected, "task {id}");
    }

    /// What came after the first inputs were kept.
    fn more(&mut self, at: usize, bytes: &mut Bytes<'_>) {
        let tube = self.tubes[at].clone();
        match bytes.byte() % 8 {
            0 => self.take_of_group(&tube, bytes),
            1 => self.put_batch(&tube, bytes),
            2 => self.put_others(&tube, bytes),
            3 => self.pause(&tube, bytes),
            4 => self.make_again(at, bytes),
            5 => self.finish(bytes),
            6 => self.bury_behind(bytes),
            _ => self.find_kinds(&tube, bytes),
        }
    }

    fn take_of_group(&mut self, tube: &Tube, bytes: &mut Bytes<'_>) {
        let group = WORDS[bytes.below(3)];
        if let Some(task) = fine(tube.try_take_group(group)).flatten() {
            let info = tube.peek(task.id()).unwrap();
            assert_eq!((info.state, info.group.as_deref()), (State::Taken, Some(group)));
            self.held.push(task);
        }
    }

    /// A batch whose tasks differ: all or none of them.
    fn put_batch(&mut self, tube: &Tube, bytes: &mut Bytes<'_>) {
        self.play();
        let (newest, count) = (self.newest, bytes.below(5));
        let tasks: Vec<_> = (0..count)
            .map(|_| {
                let (task, word, which) = (tube.task(b"of a batch"), bytes.below(3), bytes.byte());
                let task = if which & 1 != 0 { task.group(WORDS[word]) } else { task };
                let task = if which & 2 != 0 { task.key(WORDS[word]) } else { task };
                let task = if which & 4 != 0 { task.delay(SECOND) } else { task };
                let task = if which & 8 != 0 { task.priority(word as i64) } else { task };
                if which & 16 != 0 { task.kind(WORDS[word]).tags(["put"]) } else { task }
            })
            .collect();
        let put = fine(tube.batch_of(tasks).put());
        self.play();
        match put {
            Some(ids) => assert_eq!(ids.len(), count),
            None => assert_eq!(self.newest, newest, "a batch was refused and put in part"),
        }
    }

    fn put_others(&mut self, tube: &Tube, bytes: &mut Bytes<'_>) {
        let count = bytes.below(5);
        if bytes.flag() {
            let put = fine(tube.put_all((0..count).map(|number| vec![7; number * 900])));
            assert!(put.is_none_or(|put| put == count as u64));
        } else if let Some(id) = fine(tube.put_front(b"before the others")) {
            let info = fine(tube.peek(id));
            assert!(info.is_none_or(|info| info.state == State::Ready), "task {id}");
        }
    }

    fn pause(&mut self, tube: &Tube, bytes: &mut Bytes<'_>) {
        let (which, length) = (bytes.byte() % 4, SECOND * u32::from(1 + bytes.byte() % 3));
        let terms = PauseTerms::new().length(length);
        let paused = match which {
            0 => tube.resume(),
            1 => tube.pause_for(length),
            2 => tube.pause_with(terms),
            _ => tube.pause_with(terms.time_out_running()),
        };
        if fine(paused).is_none() || which == 0 {
            return;
        }
        assert!(tube.try_take().unwrap().is_none(), "a task came through a pause");
        assert_eq!(tube.info().unwrap().pause_left, Some(length));
        self.queue.tick().unwrap();
        assert!(which < 3 || tube.stats().unwrap().taken == 0, "a task runs in a pause");
    }

    /// Drops a tube without tasks and makes it again, with a callback from its first step on.
    fn make_again(&mut self, at: usize, bytes: &mut Bytes<'_>) {
        if bytes.flag() {
            fine(self.tubes[at].truncate());
        }
        self.play();
        let name = NAMES[at];
        let is_empty = !self.seen.values().any(|(tube, _)| tube == name);
        let dropped = self.queue.drop_tube_if_empty(name).map_err(|error| error.kind());
        assert_eq!(dropped, if is_empty { Ok(()) } else { Err(ErrorKind::TubeBusy) }, "{name}");
        if !is_empty {
            return;
        }
        self.play();
        let (sender, told) = channel();
        let options = options(at).index_kinds(bytes.flag()).drop_payloads(bytes.flag());
        let made = self.queue.create_tube_with(name, options, move |event| {
            let change = event.task.map(|id| (id, event.from, event.to));
            change.into_iter().for_each(|change| _ = sender.send(change));
        });
        let (tube, replaced) = made.unwrap();
        assert!(replaced.is_none(), "{name}");
        (self.tubes[at], self.told[at]) = (tube, Some(told));
        self.expected[at].clear();
    }

    /// A task that is kept after its ack has its payload, unless its tube drops payloads.
    fn finish(&mut self, bytes: &mut Bytes<'_>) {
        let at = bytes.below(self.held.len());
        if self.held.is_empty() {
            return;
        }
        let task = self.held.swap_remove(at);
        let (id, name) = (task.id(), task.tube().to_owned());
        let Some(tube) = self.tubes.iter().find(|tube| tube.name() == name) else { return };
        let drops = tube.info().unwrap().options.get_drop_payloads();
        if fine(task.ack()).is_some()
            && let Some(info) = fine(tube.peek(id))
        {
            assert_eq!((info.state, info.payload_dropped), (State::Done, drops), "task {id}");
            assert!(!drops || info.payload.is_empty(), "task {id}");
        }
    }

    fn bury_behind(&mut self, bytes: &mut Bytes<'_>) {
        let (at, priority) = (bytes.below(self.held.len()), i64::from(bytes.byte() % 4));
        if self.held.is_empty() {
            return;
        }
        let task = self.held.swap_remove(at);
        let id = task.id();
        if fine(task.bury_with_priority("aside", priority)).is_some()
            && let Some(info) = fine(self.queue.find(id))
        {
            assert_eq!((info.state, info.priority), (State::Buried, priority), "task {id}");
        }
    }

    /// A search by kind finds the same with an index and without one.
    fn find_kinds(&mut self, tube: &Tube, bytes: &mut Bytes<'_>) {
        let kind = WORDS[bytes.below(3)];
        self.queue.tick().unwrap();
        let (mut found, mut next) = (BTreeSet::new(), None);
        loop {
            let page = tube.search(&Filter::new().kind(kind), next.as_ref(), 3).unwrap();
            found.extend(page.tasks.iter().map(|task| task.id));
            next = page.next;
            if next.is_none() {
                break;
            }
        }
        let listed = STATES.into_iter().flat_map(|state| tube.summaries(state)).map(Result::unwrap);
        let listed = listed.filter(|task| task.kind.as_deref() == Some(kind)).map(|task| task.id);
        assert_eq!(found, listed.collect(), "{kind} in {}", tube.name());
    }

    /// Plays back the events since the last time.
    fn play(&mut self) {
        self.queue.tick().unwrap();
        while let Some(event) = self.events.try_recv() {
            self.play_one(&event);
        }
        assert_eq!(self.events.dropped(), 0);
        for (told, expected) in self.told.iter().zip(&mut self.expected) {
            let Some(told) = told else { continue };
            assert_eq!(told.try_iter().collect::<Vec<_>>(), *expected);
            expected.clear();
        }
    }

    fn play_one(&mut self, event: &Event) {
        if let (Some(id), Some(at)) = (event.task, NAMES.iter().position(|it| **it == *event.tube))
            && self.told[at].is_some()
        {
            self.expected[at].push((id, event.from, event.to));
        }
        let Some(id) = event.task else {
            if matches!(event.cause, Cause::Truncate | Cause::DropTube) {
                self.seen.retain(|_, (tube, _)| **tube != *event.tube);
            }
            return;
        };
        let before = self.seen.remove(&id);
        let from = before.as_ref().map(|(_, state)| *state);
        assert_eq!(from, event.from, "{event:?}");
        assert!(before.is_none_or(|(tube, _)| *tube == *event.tube), "{event:?}");
        if let Some(to) = event.to {
            self.newest = self.newest.max(id.get());
            self.seen.insert(id, (event.tube.to_string(), to));
        }
    }

    /// Looks at everything from outside.
    fn look(&mut self) {
        self.play();
        assert_eq!(self.queue.check().unwrap(), Vec::<String>::new());
        let (mut found, mut tagged) = (BTreeMap::new(), BTreeMap::new());
        for tube in &self.tubes {
            let listed = STATES.into_iter().flat_map(|state| tube.summaries(state));
            for task in listed.chain(tube.trashed()).map(Result::unwrap) {
                let twice = found.insert(task.id, (tube.name().to_owned(), task.state));
                assert_eq!(twice, None, "task {} is listed twice", task.id);
                for tag in &task.tags {
                    tagged.entry(tag.clone()).or_insert_with(BTreeSet::new).insert(task.id);
                }
            }
            let stats = tube.stats().unwrap();
            let counts = [stats.delayed, stats.ready, stats.taken];
            let counted = counts.iter().sum::<u64>() + stats.buried;
            assert_eq!(counted, stats.total, "{}", tube.name());
        }
        assert_eq!(found, self.seen, "what is listed, and what the events say");
        for tag in WORDS.into_iter().chain(["put", "by hand"]) {
            let ids: Vec<_> = self.queue.tagged(tag).map(|task| task.unwrap().id).collect();
            let tasks = tagged.get(tag).cloned().unwrap_or_default();
            assert_eq!(self.queue.tag_count(tag).unwrap(), ids.len() as u64, "{tag}");
            assert_eq!((ids.len(), ids.into_iter().collect()), (tasks.len(), tasks), "{tag}");
        }
        let mut most: Vec<_> = tagged.into_iter().map(|(tag, tasks)| (tasks.len(), tag)).collect();
        most.retain(|(tasks, _)| *tasks > 1);
        most.sort_by(|one, other| other.0.cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
        let top = self.queue.top_tags().map(|top| top.unwrap());
        assert_eq!(top.map(|top| (top.tasks as usize, top.tag)).collect::<Vec<_>>(), most);
    }
}
