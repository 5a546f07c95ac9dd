//! The queue again, in plain maps, written from the documents alone so that it can judge. It is
//! slow and has no disk: it takes a step and returns the result that the documents state.

mod due;
mod history;
mod keys;
mod refusals;
mod sessions;
mod time;
mod tubes;
mod waits;

use crate::step::*;
use keys::Meets;
use sessions::Session;
use std::collections::{BTreeMap, BTreeSet};
pub use time::Time;
use tubewell::{ErrorKind, HistoryEvent, Reason, State, TubeKind};

#[derive(Clone, Debug)]
struct Task {
    tube: u8,
    seen: Seen,
    place: i64,
    /// Ahead of every priority, in this order.
    ahead: Option<i64>,
    /// The group that it is locked with; tasks of a utube without a group share one.
    lock: Option<Option<u8>>,
    /// Queue time at which it is removed, unless it is delayed then: put + ttl + every requested
    /// delay.
    expires: u64,
    /// The length of its ttl, delays not counted.
    ttl: u64,
    /// It waits for the wall clock.
    by_wall: bool,
    /// It waits after a release or retry, and may keep its group locked.
    held_back: bool,
    /// Queue time of its last bury.
    buried: u64,
    /// The end of its ttr; of a stalled one, of its grace.
    deadline: u64,
    /// The end of its ttr while it is stalled, otherwise [`EVER`].
    lapsed: u64,
    /// Terms of its own.
    max_attempts: Option<u32>,
    backoff: Option<Waits>,
    lease: Option<LeaseNo>,
    /// The consumer that holds it, or whose session held it.
    holder: Option<u8>,
    /// Lease time of the hand-out, if it was in this process.
    begun: Option<u64>,
    history: history::Kept,
    /// Its tags in their order, each with the queue time at which it got it.
    tags: Vec<(u8, u64)>,
    /// The number of the delivery that is started.
    started: Option<u32>,
    /// Queue time of its end, and until which it is then kept by its age, as its tube's options
    /// were at its end or when that time came.
    ended: u64,
    until: u64,
}

impl Task {
    /// The length of its ttl; [`EVER`] without an end, also after a delay without one.
    fn life(&self) -> u64 {
        if self.expires == EVER { EVER } else { self.ttl }
    }

    /// What its taker is told of it.
    fn hand(&self, queue: u64) -> Hand {
        let seen = &self.seen;
        Hand {
            serial: seen.serial,
            edition: seen.edition,
            attempts: seen.attempts,
            deliveries: seen.deliveries,
            priority: seen.priority,
            ttr: seen.ttr,
            age: queue.saturating_sub(seen.created),
        }
    }
}

#[derive(Clone, Debug)]
struct Tube {
    opts: Opts,
    /// The options that it was made with.
    made: Opts,
    /// When its pause ends, in queue time; [`EVER`] without end.
    pause: Option<u64>,
    incarnation: u64,
    calls: [Option<u64>; CALLS],
    done: Option<u64>,
    /// Leases that `release_all` ended, and that a sweep may still have to return.
    swept: u64,
}

#[derive(Clone, Debug)]
pub struct Model {
    pub time: Time,
    tubes: BTreeMap<u8, Tube>,
    tasks: BTreeMap<Serial, Task>,
    sessions: BTreeMap<u8, Session>,
    /// The first has adopted the session of the second.
    adoption: Option<(u8, u8)>,
    /// The rows of the application's own table.
    own: BTreeSet<Serial>,
    /// Also those that are gone.
    tracked: BTreeSet<Serial>,
    /// Those that are declared: whether each is set, and whether it is stored.
    conditions: BTreeMap<u8, (bool, bool)>,
    /// The limit of the throttle, if there is one.
    throttle: Option<u64>,
    /// The callbacks of tubes, by the names that these have.
    callbacks: BTreeMap<u8, Serial>,
    /// Takes and puts that ever returned, the latest last.
    leases: Vec<(LeaseNo, Serial, u8, u64)>,
    puts: Vec<Serial>,
    front: i64,
    back: i64,
    incarnations: u64,
}

impl Model {
    pub fn new(time: Time) -> Self {
        let (tubes, tasks, sessions) = Default::default();
        let (own, tracked, conditions, leases, puts) = Default::default();
        let (front, back, incarnations, callbacks) = (0, 0, 0, BTreeMap::new());
        let (adoption, throttle) = (None, None);
        Self {
            time,
            tubes,
            tasks,
            sessions,
            adoption,
            own,
            tracked,
            conditions,
            throttle,
            callbacks,
            leases,
            puts,
            front,
            back,
            incarnations,
        }
    }

    /// The task of a pick: among those in the tube, or with [`ANY`] among the last forty put.
    pub fn task_at(&self, tube: u8, pick: u32) -> Option<Serial> {
        let here = self.puts.iter().rev().filter(|serial| {
            pick >= ANY || self.tasks.get(serial).is_some_and(|task| task.tube == tube)
        });
        let here: Vec<_> = here.take(40).collect();
        (!here.is_empty()).then(|| *here[pick as usize % here.len()])
    }

    /// The take of a pick: among those that are held, or with [`ANY`] among the last sixteen.
    pub fn lease_at(&self, pick: u32) -> Option<LeaseNo> {
        let here = self.leases.iter().rev().map(|lease| lease.0);
        let here: Vec<_> = here.filter(|no| pick >= ANY || self.holds(*no).is_some()).collect();
        (!here.is_empty()).then(|| here[pick as usize % here.len().min(16)])
    }

    /// The tube of a take, if it is still the same tube.
    pub fn tube_of(&self, no: LeaseNo) -> Option<u8> {
        let &(_, _, tube, incarnation) = self.lease(no)?;
        self.tubes.get(&tube).filter(|now| now.incarnation == incarnation).map(|_| tube)
    }

    pub fn knows(&self, no: LeaseNo) -> bool {
        self.lease(no).is_some()
    }

    /// Removes the takes that no caller received.
    pub fn forget(&mut self, known: impl Fn(LeaseNo) -> bool) {
        self.leases.retain(|lease| known(lease.0));
    }

    /// Takes over the observed counts of some verbs.
    pub fn count_again(&mut self, seen: &[SeenTube], calls: &[Call]) {
        for seen in seen {
            let Some(tube) = self.tubes.get_mut(&seen.tube) else { continue };
            for call in calls {
                tube.calls[*call as usize] = seen.calls[*call as usize];
            }
        }
    }

    /// Takes over the observed counts of some verbs, if they are not higher than expected: the
    /// earlier process may have done a part.
    pub fn count_within(&mut self, seen: &[SeenTube], calls: &[Call]) {
        for seen in seen {
            let Some(tube) = self.tubes.get_mut(&seen.tube) else { continue };
            for call in calls {
                let (most, counted) = (&mut tube.calls[*call as usize], seen.calls[*call as usize]);
                *most = (*most).min(counted);
            }
        }
    }

    /// Whether all changes of a step are in a temporary tube. The tube itself is not temporary.
    pub fn is_temporary(&self, step: &Step, picked: &Picked) -> bool {
        let tube = match step {
            Step::Put { tube, .. }
            | Step::PutMany { tube, .. }
            | Step::Batch { tube, .. }
            | Step::PutAll { tube, .. }
            | Step::Kick { tube, .. }
            | Step::Unfail { tube, .. }
            | Step::UnfailInto { tube, .. }
            | Step::Move { tube, .. }
            | Step::KickOne { tube, .. }
            | Step::KickWhere { tube }
            | Step::BuryAny { tube, .. }
            | Step::LogAny { tube, .. }
            | Step::Tag { tube, .. }
            | Step::TrashAny { tube, .. }
            | Step::Restore { tube, .. }
            | Step::EmptyTrash { tube }
            | Step::Update { tube, .. }
            | Step::Timeout { tube, .. }
            | Step::Finish { tube, .. }
            | Step::DeleteMany { tube, .. }
            | Step::Delete { tube, .. } => Some(*tube),
            _ => picked.leases.first().and_then(|no| self.tube_of(*no)),
        };
        tube.and_then(|tube| self.tubes.get(&tube)).is_some_and(|tube| tube.opts.temporary)
    }

    fn lease(&self, no: LeaseNo) -> Option<&(LeaseNo, Serial, u8, u64)> {
        self.leases.iter().rev().find(|lease| lease.0 == no)
    }

    fn count(&mut self, tube: u8, call: Call) {
        if let Some(tube) = self.tubes.get_mut(&tube) {
            tube.calls[call as usize] = tube.calls[call as usize].map(|count| count + 1);
        }
    }

    fn held(&self, tube: u8, lock: Option<u8>) -> usize {
        let hold = self.tubes[&tube].opts.hold;
        let same = self.tasks.values().filter(|t| t.tube == tube && t.lock == Some(lock));
        same.filter(|t| t.seen.state == State::Taken || hold && t.held_back).count()
    }

    /// The tasks of a tube without finished ones and those in the trash.
    fn board(&self, tube: u8) -> impl Iterator<Item = &Task> {
        let is_here = move |task: &&Task| task.tube == tube && is_open(task);
        self.tasks.values().filter(move |task| is_here(task) && !task.is_trashed())
    }

    /// The order of takes.
    fn rank(&self, task: &Task) -> (i128, i64) {
        if let Some(ahead) = task.ahead {
            return (i128::MIN, ahead);
        }
        let priority = i128::from(task.seen.priority);
        let is_higher_first = self.tubes[&task.tube].opts.higher;
        (if is_higher_first { -priority } else { priority }, task.place)
    }

    fn is_takeable(&self, task: &Task) -> bool {
        let most = self.tubes[&task.tube].opts.in_flight as usize;
        task.seen.state == State::Ready
            && self.is_met(task)
            && task.lock.is_none_or(|lock| {
                self.held(task.tube, lock) < most && self.is_first_met(task.tube, lock)
            })
    }

    /// Whether the first task of a group may be taken by the conditions that it requires itself:
    /// nothing overtakes it.
    fn is_first_met(&self, tube: u8, lock: Option<u8>) -> bool {
        let of_group = |task: &&Task| task.tube == tube && task.lock == Some(lock);
        let ready = |task: &&Task| task.seen.state == State::Ready && of_group(task);
        let first = self.tasks.values().filter(ready).min_by_key(|task| self.rank(task));
        first.is_none_or(|first| self.is_met(first))
    }

    /// Whether all conditions are set that the task requires itself.
    fn is_met(&self, task: &Task) -> bool {
        let is_set = |no: &u8| self.conditions.get(no).is_some_and(|(is_set, _)| *is_set);
        let set: Vec<String> = (0..CONDITIONS).filter(is_set).map(condition_name).collect();
        task.seen.requires.iter().all(|name| set.contains(name))
    }

    fn next(&self, tube: u8) -> Option<Serial> {
        let mut here: Vec<_> = self.tasks.iter().filter(|(_, task)| task.tube == tube).collect();
        here.sort_by_key(|(_, task)| self.rank(task));
        here.iter().find(|(_, task)| self.is_takeable(task)).map(|(serial, _)| **serial)
    }

    fn hand_out(&mut self, serial: Serial, no: LeaseNo) -> Hand {
        let task = self.tasks.get_mut(&serial).unwrap();
        (task.seen.state, task.ahead) = (State::Taken, None);
        task.seen.attempts += 1;
        task.seen.deliveries += 1;
        task.deadline = self.time.mono.saturating_add(task.seen.ttr.unwrap_or(EVER));
        (task.lease, task.begun) = (Some(no), Some(self.time.mono));
        let (tube, hand) = (task.tube, task.hand(self.time.queue));
        self.leases.push((no, serial, tube, self.tubes[&tube].incarnation));
        self.count(tube, Call::Take);
        hand
    }

    fn put(&mut self, no: u8, new: &New, serial: Serial) -> Expected {
        let tube = self.tubes.get(&no).ok_or(vec![ErrorKind::TubeNotFound])?;
        let opts = tube.opts.clone();
        let key = new.key.map(key_name);
        let old = match self.met(no, new) {
            Meets::Kept(old) => Some((old, false)),
            Meets::Again(old) => Some((old, true)),
            Meets::Nothing | Meets::Missing => None,
        };
        let wrong = self.put_refusals(no, new);
        if !wrong.is_empty() {
            return Err(wrong);
        }
        match old {
            Some((old, false)) => return Ok(Answer::Put(old, Found::Existing)),
            Some((old, true)) => {
                let serial = self.put_again(old, no, new, serial);
                return Ok(Answer::Put(serial, Found::Replaced));
            }
            None => {}
        }
        let wall_due = new.run_in.map(|by| (self.time.wall + by).max(0) as u64);
        let by_wall = wall_due.is_some_and(|due| due > self.time.wall_now());
        let delay = new.delay.unwrap_or(0);
        let ttl = new.ttl.or(opts.ttl).unwrap_or(EVER);
        let due = if by_wall { wall_due } else { Some(self.time.queue.saturating_add(delay)) };
        let is_late = by_wall || delay > 0;
        let wait = if by_wall { wall_due.unwrap_or(0) - self.time.wall_now() } else { delay };
        let (requires, throttles) = new.gates.map(gate_names).unwrap_or_default();
        self.back += 1;
        self.front -= i64::from(new.front);
        let seen = Seen {
            serial,
            edition: 0,
            stripped: false,
            state: if is_late { State::Delayed } else { State::Ready },
            priority: new.priority.unwrap_or(opts.priority),
            group: new.group.map(group_name),
            requires,
            throttles,
            key,
            kind: new.kind.map(kind_name),
            book: new.book.map(book_name),
            details: new.detail.map(detail).into_iter().collect(),
            tags: Vec::new(),
            tracked: false,
            created: self.time.queue,
            due: due.filter(|due| is_late && *due != EVER),
            ttl_left: None,
            ttr: new.ttr.or(opts.ttr).filter(|ttr| *ttr != EVER),
            lease_left: None,
            grace_left: None,
            deliveries: 0,
            attempts: 0,
            max_attempts: None,
            releases: 0,
            buries: 0,
            reason: None,
            failure: None,
            passed: false,
            finished: None,
            result: false,
            history: Vec::new(),
            dropped: 0,
            started: false,
            progress: None,
            checkpoint: None,
        };
        let task = Task {
            tube: no,
            seen,
            place: if new.front { self.front } else { self.back },
            ahead: None,
            lock: (new.group.is_some() || shares(opts.kind)).then_some(new.group),
            expires: self.time.queue.saturating_add(ttl).saturating_add(wait),
            ttl,
            by_wall,
            held_back: false,
            buried: 0,
            deadline: EVER,
            lapsed: EVER,
            max_attempts: new.max_attempts,
            backoff: new.backoff,
            lease: None,
            holder: None,
            begun: None,
            history: history::Kept::default(),
            tags: tagged(&[], &new.tags, self.time.queue),
            ended: 0,
            until: EVER,
            started: None,
        };
        self.tasks.insert(serial, task);
        self.puts.push(serial);
        self.count(no, Call::Put);
        Ok(Answer::Put(serial, Found::New))
    }

    fn remove(&mut self, serial: Serial, call: Call) {
        let tube = self.tasks.remove(&serial).unwrap().tube;
        self.count(tube, call);
        let tube = self.tubes.get_mut(&tube).unwrap();
        tube.done = tube.done.map(|done| done + 1);
    }

    /// A task is finished: it is kept, if its tube keeps finished tasks.
    fn finish_task(&mut self, serial: Serial, result: bool) {
        let no = self.tasks[&serial].tube;
        let Opts { finished, drops, .. } = self.tubes[&no].opts;
        if finished.is_none() {
            return self.remove(serial, Call::Ack);
        }
        let queue = self.time.queue;
        let task = self.tasks.get_mut(&serial).unwrap();
        leave(task);
        (task.seen.state, task.seen.failure) = (State::Done, None);
        task.seen.checkpoint = None;
        if drops {
            (task.seen.edition, task.seen.stripped) = (0, true);
        }
        (task.seen.finished, task.seen.result) = (Some(queue), result);
        self.count(no, Call::Ack);
        let tube = self.tubes.get_mut(&no).unwrap();
        tube.done = tube.done.map(|done| done + 1);
        self.end(serial);
    }

    /// A task has ended. While its tube keeps more than it may, those that ended first go, a few of
    /// them and not this one.
    fn end(&mut self, last: Serial) {
        let queue = self.time.queue;
        let task = self.tasks.get_mut(&last).unwrap();
        let (no, state) = (task.tube, task.seen.state);
        let opts = &self.tubes[&no].opts;
        let Some(kept) = (match state {
            State::Buried => opts.buried,
            State::Done => opts.finished,
            _ => return,
        }) else {
            task.ended = queue;
            return;
        };
        (task.ended, task.until) = (queue, kept.age.map_or(EVER, |age| queue.saturating_add(age)));
        let (_, mut here) = self.kept(no, state);
        here.truncate(4);
        for (_, serial) in here {
            if !self.kept(no, state).0 {
                break;
            }
            if serial != last {
                self.tasks.remove(&serial);
                self.count(no, Call::Retention);
            }
        }
    }

    /// Whether there are more tasks of a tube in this state than it keeps, and all of them, those
    /// that ended first before the others.
    fn kept(&self, no: u8, state: State) -> (bool, Vec<(u64, Serial)>) {
        let opts = &self.tubes[&no].opts;
        let kept = if state == State::Done { opts.finished } else { opts.buried };
        let is_here =
            |task: &&Task| task.tube == no && task.seen.state == state && !task.is_trashed();
        let left = || self.tasks.values().filter(is_here);
        let bytes = |task: &Task| {
            let result = if task.seen.result { result_of(task.seen.serial).len() } else { 0 };
            (payload_bytes(task) + result) as u64
        };
        let is_over = kept.is_some_and(|kept| {
            kept.count.is_some_and(|most| left().count() as u64 > most)
                || left().count() > 1
                    && kept.bytes.is_some_and(|most| left().map(bytes).sum::<u64>() > most)
        });
        let mut here: Vec<_> = left().map(|task| (task.ended, task.seen.serial)).collect();
        here.sort_unstable();
        (is_over, here)
    }

    /// When a task that has ended is too old by the options that its tube has now.
    fn kept_end(&self, task: &Task) -> u64 {
        let opts = &self.tubes[&task.tube].opts;
        let kept = match task.seen.state {
            State::Done if opts.finished.is_none() => return task.ended,
            State::Done => opts.finished,
            State::Buried if !task.is_trashed() => opts.buried,
            _ => None,
        };
        kept.and_then(|kept| kept.age).map_or(EVER, |age| task.ended.saturating_add(age))
    }

    /// A task of a tube that is to go at this time, because there are too many or it is too old.
    fn unkept(&self, no: u8, queue: u64) -> Option<Serial> {
        [State::Done, State::Buried].into_iter().find_map(|state| {
            let (is_over, here) = self.kept(no, state);
            let (_, first) = *here.first()?;
            (is_over || self.kept_end(&self.tasks[&first]) <= queue).then_some(first)
        })
    }

    /// Buries a task after the last attempt.
    fn exhaust(&mut self, serial: Serial) {
        let task = self.tasks.get_mut(&serial).unwrap();
        bury_exhausted(task, self.time.queue);
        let why = task.seen.reason.as_ref().map(Reason::to_string).unwrap_or_default();
        self.note_line(serial, HistoryEvent::Buried, &why);
        self.end(serial);
    }

    /// Returns a task with the attempt charged, or buries it after the last one.
    fn give_back(&mut self, serial: Serial, event: HistoryEvent) {
        self.note(serial, event, "", "");
        let task = self.tasks.get_mut(&serial).unwrap();
        if is_exhausted(task, &self.tubes[&task.tube].opts) {
            self.exhaust(serial);
        } else {
            ready(task);
        }
    }

    /// Delays a taken task; the delay is added to its ttl.
    fn wait(&mut self, serial: Serial, delay: u64) {
        let queue = self.time.queue;
        let due = queue.saturating_add(delay);
        let task = self.tasks.get_mut(&serial).unwrap();
        ready(task);
        if delay > 0 {
            task.seen.state = State::Delayed;
            task.seen.due = Some(due).filter(|due| *due != EVER);
            task.held_back = true;
            task.expires = task.expires.saturating_add(delay);
        }
    }

    /// The task that a take still holds.
    fn holds(&self, no: LeaseNo) -> Option<Serial> {
        let serial = self.lease(no)?.1;
        self.tasks.get(&serial).filter(|task| task.lease == Some(no)).map(|_| serial)
    }

    /// A step that brings a payload is the same step, on the task with that payload.
    fn bring(&mut self, no: LeaseNo, step: &Step, edition: Serial) -> Expected {
        let Some(serial) = self.holds(no) else { return self.verdict(no, step) };
        let mut after = self.clone();
        after.tasks.get_mut(&serial).unwrap().seen.edition = edition;
        let answer = after.verdict(no, step)?;
        *self = after;
        Ok(answer)
    }

    fn verdict(&mut self, no: LeaseNo, step: &Step) -> Expected {
        let &(_, _, tube, incarnation) = self.lease(no).unwrap();
        let mut wrong = self.verdict_refusals(tube, incarnation, step);
        wrong.extend(self.way_refusals(step));
        let is_plain = !matches!(step, Step::Bring { .. });
        let step = step.plain();
        let Some(serial) = self.holds(no) else {
            wrong.push(ErrorKind::LeaseLost);
            return Err(wrong);
        };
        if !wrong.is_empty() {
            return Err(wrong);
        }
        let opts = self.tubes[&tube].opts.clone();
        let (queue, mono) = (self.time.queue, self.time.mono);
        self.back += 1;
        let back_place = self.back;
        let words = format!("e{no}");
        self.note_verdict(serial, step, &words);
        let task = self.tasks.get_mut(&serial).unwrap();
        match step {
            Step::Release { back, .. } => {
                task.seen.attempts = task.seen.attempts.saturating_sub(1);
                task.seen.releases += 1;
                task.seen.priority = back.priority.unwrap_or(task.seen.priority);
                if back.to_back {
                    task.place = back_place;
                }
                if let Some(ttl) = back.ttl {
                    (task.ttl, task.expires) = (ttl, queue.saturating_add(ttl));
                }
                self.wait(serial, back.delay.unwrap_or(0));
                self.count(tube, Call::Release);
            }
            Step::Retry { after, grouped, .. } => {
                let group = grouped.then(|| failure_group(tube, 1));
                fail(task, &words, group, queue);
                let (first, factor, step, longest) = task.backoff.unwrap_or(opts.backoff);
                let before = task.seen.attempts.saturating_sub(1);
                let grown = first.saturating_mul(u64::from(factor).saturating_pow(before));
                let grown = grown.saturating_add(step.saturating_mul(u64::from(before)));
                if is_exhausted(task, &opts) {
                    self.exhaust(serial);
                } else {
                    self.wait(serial, after.unwrap_or(grown.min(longest)));
                }
                self.count(tube, Call::Retry);
            }
            Step::Bury { priority, .. } => {
                task.seen.priority = priority.unwrap_or(task.seen.priority);
                bury(task, Reason::Buried(words), queue);
                self.end(serial);
                self.count(tube, Call::Bury);
            }
            Step::Fail { .. } => {
                let group = failure_group(tube, 0);
                fail(task, &words, Some(group.clone()), queue);
                bury(task, Reason::Failed { group, message: words }, queue);
                self.end(serial);
                self.count(tube, Call::Bury);
            }
            Step::Trash { .. } => {
                bury(task, Reason::Trashed(words), queue);
                self.count(tube, Call::Trash);
            }
            Step::Log { .. } => {
                let by = self.holder_of(serial);
                let line = Told::line(HistoryEvent::Logged, queue, "a line");
                self.keep(serial, tube, Told { by, ..line });
            }
            Step::Report { what, .. } => match what {
                Reported::Start => task.started = Some(task.seen.deliveries),
                Reported::Progress(percent) => task.seen.progress = Some(*percent),
                Reported::Checkpoint(bytes) => task.seen.checkpoint = Some(*bytes),
            },
            Step::Touch { by: 0, .. } if is_plain => {}
            Step::Touch { by, .. } => {
                let is_stalled = task.lapsed != EVER;
                let end = task.deadline.min(task.lapsed).saturating_add(*by);
                if is_stalled && end <= mono {
                    task.lapsed = end;
                    task.deadline = task.deadline.saturating_add(*by);
                } else {
                    (task.deadline, task.lapsed) = (end, EVER);
                }
                task.seen.ttr = task.seen.ttr.map(|ttr| ttr.saturating_add(*by));
                task.seen.ttr = task.seen.ttr.filter(|ttr| *ttr != EVER);
                task.ttl = task.life().saturating_add(*by);
                task.expires = task.expires.saturating_add(*by);
                self.count(tube, Call::Touch);
            }
            Step::Renew { .. } | Step::RenewFor { .. } => {
                let by = if let Step::RenewFor { by, .. } = step { Some(*by) } else { None };
                let by = by.or(task.seen.ttr).unwrap_or(EVER);
                (task.deadline, task.lapsed) = (mono.saturating_add(by), EVER);
                self.count(tube, Call::Touch);
            }
            Step::Advance { to, delay, with_result, .. } => {
                let given = New { delay: *delay, ..New::default() };
                let wrong = self.go_refusals(serial, *to, &given);
                if !wrong.is_empty() {
                    return Err(wrong);
                }
                self.go(serial, *to, *delay, None, Some(*with_result));
            }
            Step::AckWith { .. } => self.finish_task(serial, true),
            _ => self.finish_task(serial, false),
        }
        Ok(Answer::Done)
    }

    /// The result of a step by the documents, and the queue after it.
    pub fn apply(&mut self, step: &Step, picked: &Picked) -> Expected {
        self.time.read();
        self.end_graces_before(step, picked);
        match step {
            Step::Clock(turn) => {
                // What is over now is worked off, and written, by the next step.
                self.time.turn(turn);
                self.time.read();
                return Ok(Answer::Done);
            }
            Step::Tick | Step::Look => {
                self.work_off_all();
                return Ok(Answer::Done);
            }
            Step::Create { tube, opts, if_not_exists } => {
                let made = match self.tubes.get(tube) {
                    Some(old) if *if_not_exists && old.made == *opts => Ok(Answer::Done),
                    Some(_) if *if_not_exists => Err(vec![ErrorKind::TubeMismatch]),
                    Some(_) => Err(vec![ErrorKind::TubeExists]),
                    None => {
                        self.incarnations += 1;
                        let new = Tube {
                            opts: opts.clone(),
                            made: opts.clone(),
                            pause: None,
                            incarnation: self.incarnations,
                            calls: [Some(0); CALLS],
                            done: Some(0),
                            swept: 0,
                        };
                        self.tubes.insert(*tube, new);
                        Ok(Answer::Done)
                    }
                };
                // That of a tube that exists is replaced.
                if made.is_ok() && has_callback(*tube) {
                    self.callbacks.insert(*tube, picked.serial);
                }
                return made;
            }
            Step::Wait(wait) => return self.waited(wait, picked),
            Step::Callback { tube, .. } if !self.tubes.contains_key(tube) => {
                return Err(vec![ErrorKind::TubeNotFound]);
            }
            Step::Callback { tube, is_set } => {
                let before = match is_set {
                    true => self.callbacks.insert(*tube, picked.serial),
                    false => self.callbacks.remove(tube),
                };
                return Ok(Answer::Callback(before));
            }
            Step::Join { who, grace } => {
                self.join(*who, *grace);
                return Ok(Answer::Done);
            }
            Step::Leave { who } => {
                self.leave(*who);
                if self.is_grace_over(*who) {
                    self.end_session(*who);
                }
                return Ok(Answer::Done);
            }
            Step::Adopt { who, of } => return self.adopt(*who, *of),
            Step::CloseConsumer { who } | Step::Deregister { who } => {
                self.end_session(*who);
                return Ok(Answer::Done);
            }
            Step::Transact { tube, ending, .. } => {
                return self.transact(*tube, *ending, picked);
            }
            Step::AckMany { .. } => return self.ack_many(&picked.leases),
            Step::Condition { condition, to, is_stored } => {
                let before = self.conditions.get(condition).copied();
                let after = to.map(|is_set| (is_set, *is_stored));
                match after {
                    Some(after) => self.conditions.insert(*condition, after),
                    None => self.conditions.remove(condition),
                };
                return Ok(Answer::Count(u64::from(before != after)));
            }
            Step::Throttle { limit } => {
                let before = std::mem::replace(&mut self.throttle, *limit);
                return Ok(Answer::Count(u64::from(before != *limit)));
            }
            Step::ReleaseSlots => return Ok(Answer::Done),
            Step::TakeFrom { best, count } => {
                return Ok(self.take_from(*best, *count, picked.lease));
            }
            _ => {}
        }
        if let Some(no) = picked.leases.first() {
            let &(_, _, tube, _) = self.lease(*no).unwrap();
            if let Step::Detach { .. } = step {
                return Ok(Answer::Done);
            }
            if let Step::Advance { to, .. } = step.plain() {
                self.work_off(*to);
            }
            self.work_off_for(tube, step.sees_delays());
            if let Step::DropGuard { .. } = step {
                if let Some(serial) = self.holds(*no) {
                    self.give_back(serial, HistoryEvent::Lost);
                    self.count(tube, Call::Lost);
                }
                return Ok(Answer::Done);
            }
            return match step {
                Step::Bring { .. } => self.bring(*no, step, picked.serial),
                _ => self.verdict(*no, step),
            };
        }
        self.of_tube(step, picked)
    }

    fn ack_many(&mut self, leases: &[LeaseNo]) -> Expected {
        let tubes: Vec<u8> = leases.iter().map(|no| self.lease(*no).unwrap().2).collect();
        tubes.iter().for_each(|tube| self.work_off_for(*tube, false));
        // In the order of their ids: one that is kept may remove those that ended before it.
        let mut leases = leases.to_vec();
        leases.sort_by_key(|no| self.lease(*no).unwrap().1);
        let mut rest = Vec::new();
        for no in &leases {
            match self.holds(*no) {
                Some(serial) => self.finish_task(serial, false),
                None => rest.push(self.lease(*no).unwrap().1),
            }
        }
        rest.sort_unstable();
        rest.dedup();
        Ok(if rest.is_empty() { Answer::Done } else { Answer::NotHeld(rest) })
    }

    /// All of it, or nothing.
    fn transact(&mut self, no: u8, ending: Ending, picked: &Picked) -> Expected {
        let refused = Err(vec![ErrorKind::Rejected, ErrorKind::TubeNotFound]);
        if !self.tubes.contains_key(&no) {
            return refused;
        }
        // What is due is done before the first verb in a tube, in a commit of its own.
        self.work_off(no);
        let mut after = self.clone();
        let answer = after.put(no, &New::default(), picked.serial);
        let acked = answer.is_ok()
            && picked.leases.iter().all(|lease| {
                let &(_, _, tube, incarnation) = after.lease(*lease).unwrap();
                let is_there = after.tubes.get(&tube).is_some_and(|t| t.incarnation == incarnation);
                self.work_off(tube);
                after.work_off(tube);
                let held = after.holds(*lease).filter(|_| is_there);
                held.inspect(|serial| after.finish_task(*serial, false)).is_some()
            });
        if answer.is_err() || !acked || ending != Ending::Commit {
            return refused;
        }
        after.own.insert(picked.serial);
        *self = after;
        answer
    }

    /// The task of a state that is next.
    fn peek_next(&self, tube: u8, state: State) -> Option<Serial> {
        let in_state = |task: &&Task| task.seen.state == state && !task.is_trashed();
        let here = self.tasks.values().filter(|task| task.tube == tube).filter(in_state);
        let next = match state {
            State::Ready => return self.next(tube),
            State::Delayed => here.min_by_key(|task| {
                let clock = if task.by_wall { self.time.wall_now() } else { self.time.queue };
                let left = |due: u64| (due.saturating_sub(clock), task.by_wall);
                (task.seen.due.map_or((EVER, false), left), task.seen.serial)
            }),
            State::Taken => here.min_by_key(|task| (task.deadline, task.seen.serial)),
            State::Done => here.min_by_key(|task| task.seen.serial),
            _ => here.min_by_key(|task| self.rank(task)),
        };
        next.map(|task| task.seen.serial)
    }

    fn seen(&self, serial: Serial) -> Seen {
        let task = &self.tasks[&serial];
        let mut seen = task.seen.clone();
        let clock = if task.by_wall { self.time.wall_now() } else { self.time.queue };
        let wait = task.seen.due.map_or(0, |due| due.saturating_sub(clock));
        seen.tracked = self.tracked.contains(&serial);
        let of_tube = &self.tubes[&task.tube].opts;
        seen.book = seen.book.or(of_tube.book.map(book_name));
        if let Some((name, text)) = of_tube.detail.map(detail) {
            seen.details.entry(name).or_insert(text);
        }
        seen.tags = task.tags.iter().map(|(tag, _)| tag_name(*tag)).collect();
        (seen.history, seen.dropped) = self.history(task);
        seen.max_attempts = max_attempts(task, &self.tubes[&task.tube].opts);
        let lives = task.expires != EVER && is_open(task);
        seen.ttl_left = lives.then(|| task.expires.saturating_sub(self.time.queue + wait));
        let left = |end: u64| if end == EVER { EVER } else { end.saturating_sub(self.time.mono) };
        let (is_taken, end) = (task.seen.state == State::Taken, task.deadline.min(task.lapsed));
        seen.lease_left = Some(left(end)).filter(|_| is_taken && end != EVER);
        seen.started = is_taken && task.started == Some(seen.deliveries);
        seen.grace_left = (task.lapsed != EVER).then(|| left(task.deadline));
        seen
    }

    fn durable_bytes(&self) -> u64 {
        let durable = self.tasks.iter().filter(|(_, task)| !self.tubes[&task.tube].opts.temporary);
        durable.map(|(_, task)| payload_bytes(task) as u64).sum()
    }

    /// Everything that is visible.
    pub fn look(&self) -> Sight {
        let of = |(no, tube): (&u8, &Tube)| {
            let mut here: Vec<_> = self.tasks.values().filter(|task| task.tube == *no).collect();
            here.sort_by_key(|task| (task.seen.state, self.rank(task)));
            let tasks = here.iter().map(|task| self.seen(task.seen.serial)).collect();
            let named = |task: &&Task| task.holder.filter(|who| *who != NAMELESS);
            let held = here.iter().filter_map(|task| Some((task.seen.serial, named(task)?)));
            let holders = held.map(|(serial, who)| (serial, consumer_name(who))).collect();
            let Tube { pause, calls, done, .. } = *tube;
            let left = |end| if end == EVER { EVER } else { end - self.time.queue };
            let (options, pause) = (tube.opts.build(), pause.map(left));
            SeenTube { tube: *no, options, pause, tasks, holders, calls, done }
        };
        let tubes = self.tubes.iter().map(of).collect();
        let (durable_bytes, (tagged, top_tags)) = (self.durable_bytes(), self.tagged());
        let is_there = |serial: &Serial| (*serial, self.tasks.contains_key(serial));
        let tracked = self.tracked.iter().map(is_there).collect();
        let conditions =
            self.conditions.iter().map(|(no, is)| (condition_name(*no), *is)).collect();
        let (own, throttle) = (self.own.clone(), self.throttle);
        let callbacks = self.callbacks.iter().map(|(tube, number)| (*tube, *number)).collect();
        Sight {
            tubes,
            own,
            durable_bytes,
            tagged,
            top_tags,
            tracked,
            conditions,
            throttle,
            callbacks,
        }
    }

    /// The tasks of each tag, and the tags of two or more.
    fn tagged(&self) -> Tagged<Serial> {
        let (mut all, mut top) = (BTreeMap::new(), Vec::new());
        for tag in 0..TAGS {
            let has = |task: &Task| task.tags.iter().find(|(other, _)| *other == tag).copied();
            let tasks = self.tasks.values();
            let mut with: Vec<_> =
                tasks.filter_map(|task| Some((has(task)?.1, task.seen.serial))).collect();
            with.sort_unstable();
            if with.len() > 1 {
                top.push((tag_name(tag), with.len() as u64));
            }
            if !with.is_empty() {
                all.insert(tag_name(tag), with.into_iter().map(|(_, serial)| serial).collect());
            }
        }
        // Of equal numbers by the tag.
        top.sort_by_key(|(_, tasks)| std::cmp::Reverse(*tasks));
        (all, top)
    }
}

/// Tags with these added after them. One that is there stays as it is.
fn tagged(before: &[(u8, u64)], more: &[u8], now: u64) -> Vec<(u8, u64)> {
    let mut tags = before.to_vec();
    for tag in more {
        if tags.iter().all(|(other, _)| other != tag) {
            tags.push((*tag, now));
        }
    }
    tags
}

fn payload_bytes(task: &Task) -> usize {
    let Seen { serial, edition, stripped, .. } = task.seen;
    if stripped { 0 } else { payload_of(serial, edition).len() }
}

/// Whether it is not finished.
fn is_open(task: &Task) -> bool {
    task.seen.state != State::Done
}

impl Task {
    fn is_trashed(&self) -> bool {
        matches!(self.seen.reason, Some(Reason::Trashed(_)))
    }
}

fn leave(task: &mut Task) {
    task.until = EVER;
    (task.lease, task.holder) = (None, None);
    (task.deadline, task.lapsed, task.seen.due) = (EVER, EVER, None);
    (task.by_wall, task.held_back) = (false, false);
}

fn ready(task: &mut Task) {
    leave(task);
    (task.seen.state, task.seen.reason) = (State::Ready, None);
}

fn bury(task: &mut Task, reason: Reason, now: u64) {
    leave(task);
    task.buried = now;
    task.seen.buries += 1;
    (task.seen.state, task.seen.reason) = (State::Buried, Some(reason));
}

/// Its last failure, while its lease lasts.
/// Whether tasks of tubes of this kind all have a group.
fn shares(kind: TubeKind) -> bool {
    matches!(kind, TubeKind::Utube | TubeKind::UtubeTtl)
}

fn fail(task: &mut Task, message: &str, group: Option<String>, now: u64) {
    let by = task.holder.filter(|who| *who != NAMELESS).map(consumer_name);
    task.seen.failure = Some((message.to_owned(), group, now, by));
}

/// After the last attempt: in the group of its last failure, else in one of its tube.
fn bury_exhausted(task: &mut Task, now: u64) {
    let (message, group) = match task.seen.failure.clone() {
        Some((message, group, ..)) => (message, group),
        None => (String::new(), None),
    };
    let group = group.unwrap_or_else(|| failure_group(task.tube, 2));
    bury(task, Reason::Exhausted { group, message }, now);
}

/// After how many attempts it is buried.
fn max_attempts(task: &Task, opts: &Opts) -> Option<u32> {
    Some(task.max_attempts.unwrap_or(opts.max_attempts)).filter(|most| *most > 0)
}

fn is_exhausted(task: &Task, opts: &Opts) -> bool {
    max_attempts(task, opts).is_some_and(|most| task.seen.attempts >= most)
}
