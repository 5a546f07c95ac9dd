//! Keys: which task a key names, and what a put of the key does to it.

use super::refusals::switches;
use super::{Model, Task, Time, ready, shares, tagged};
use crate::step::*;
use tubewell::{ErrorKind, HistoryEvent, State, TubeKind};

/// What a put with a key meets.
pub(super) enum Meets {
    Nothing,
    /// Nothing, where a task must exist.
    Missing,
    Kept(Serial),
    Again(Serial),
}

impl Model {
    pub(super) fn counts(&self, task: &Task) -> bool {
        !task.is_trashed() && self.tubes[&task.tube].opts.unique.counts(task.seen.state)
    }

    /// The newest task of a key, of those that count for it or of the others.
    fn named(&self, no: u8, key: &str, counts: bool) -> Option<&Task> {
        let in_queue = self.tubes[&no].opts.unique.in_queue;
        let in_scope = |tube: u8| match in_queue {
            true => self.tubes.get(&tube).is_some_and(|tube| tube.opts.unique.in_queue),
            false => tube == no,
        };
        // In another tube a task may be over whose removal is due.
        let is_over = |task: &Task| {
            let spares = self.tubes[&task.tube].opts.spares;
            let expires = match task.seen.state {
                State::Delayed if self.wait_left(task.seen.serial) > 0 => EVER,
                State::Done => EVER,
                State::Buried if spares => EVER,
                _ => task.expires,
            };
            let until = if self.kept_end(task) > self.time.queue { EVER } else { task.until };
            in_queue && expires.min(until) <= self.time.queue
        };
        let here = self.tasks.values().filter(|task| in_scope(task.tube) && !task.is_trashed());
        let here = here.filter(|task| task.seen.key.as_deref() == Some(key) && !is_over(task));
        here.filter(|task| self.counts(task) == counts).max_by_key(|task| task.seen.serial)
    }

    /// Whether another task counts for the key of this one in a tube.
    fn clashes(&self, serial: Serial, to: u8) -> bool {
        self.clashes_by(serial, to, None)
    }

    /// The same, perhaps for another key.
    pub(super) fn clashes_by(&self, serial: Serial, to: u8, key: Option<&str>) -> bool {
        let key = key.or(self.tasks[&serial].seen.key.as_deref());
        let named = key.and_then(|key| self.named(to, key, true));
        named.is_some_and(|other| other.seen.serial != serial)
    }

    /// The same for a verb that brings a buried task to this state in its tube.
    pub(super) fn clashes_as(&self, serial: Serial, state: State) -> bool {
        let task = &self.tasks[&serial];
        let unique = self.tubes[&task.tube].opts.unique;
        unique.counts(state) && !self.counts(task) && self.clashes(serial, task.tube)
    }

    pub(super) fn met(&self, no: u8, new: &New) -> Meets {
        let Some(key) = new.key.map(key_name) else { return Meets::Nothing };
        if let Some(named) = self.named(no, &key, true) {
            let serial = named.seen.serial;
            let is_waiting = matches!(named.seen.state, State::Ready | State::Delayed);
            return match new.conflict {
                OnConflict::Debounce if !is_waiting => Meets::Nothing,
                OnConflict::Replace | OnConflict::Debounce => Meets::Again(serial),
                OnConflict::Keep | OnConflict::Reject => Meets::Kept(serial),
            };
        }
        let ended = |task: &&Task| matches!(task.seen.state, State::Buried | State::Done);
        match self.named(no, &key, false).filter(ended) {
            Some(old) if new.conflict == OnConflict::Replace => Meets::Again(old.seen.serial),
            _ if new.must_exist => Meets::Missing,
            _ => Meets::Nothing,
        }
    }

    /// The refusals of a put by its key and for want of room.
    pub(super) fn key_refusals(&self, no: u8, new: &New) -> Vec<ErrorKind> {
        let (mut wrong, opts) = (Vec::new(), &self.tubes[&no].opts);
        let comes_in = match self.met(no, new) {
            Meets::Kept(_) => {
                let is_rejected = new.conflict == OnConflict::Reject;
                return Vec::from_iter(is_rejected.then_some(ErrorKind::KeyExists));
            }
            Meets::Missing => return vec![ErrorKind::TaskNotFound],
            Meets::Nothing => true,
            Meets::Again(old) => {
                let old = &self.tasks[&old];
                let grouped = switches(opts.kind).2;
                if new.group.is_none() && old.seen.group.is_some() && !grouped {
                    wrong.push(ErrorKind::Unsupported);
                }
                old.tube != no || old.seen.state == State::Done
            }
        };
        let count = self.board(no).count() as u64;
        if comes_in && opts.capacity.is_some_and(|capacity| count >= capacity) {
            wrong.push(ErrorKind::Full);
        }
        wrong
    }

    /// A task is put again by a put of its key. What the put does not give is kept. In the place of
    /// a finished task a new one is put. Returns the task.
    pub(super) fn put_again(&mut self, old: Serial, no: u8, new: &New, edition: Serial) -> Serial {
        let left = self.tasks[&old].tube;
        let place = if left == no { String::new() } else { tube_name(left) };
        match self.tasks[&old].seen.finished {
            None => self.note(old, HistoryEvent::PutAgain, &place, ""),
            // A new task has the history of the finished one from now on, in its own tube.
            Some(at) => {
                let line = Told::line(HistoryEvent::PutAgain, self.time.queue, "");
                let again = Told { place: Some(place).filter(|place| !place.is_empty()), ..line };
                self.keep(old, no, Told::line(HistoryEvent::Done, at, ""));
                self.keep(old, no, again);
            }
        }
        if self.tasks[&old].seen.state == State::Delayed {
            self.end_delay(old);
        }
        let Time { queue, .. } = self.time;
        let wall_due = new.run_in.map(|by| (self.time.wall + by).max(0) as u64);
        let wall_wait = wall_due.map_or(0, |due| due.saturating_sub(self.time.wall_now()));
        self.back += 1;
        self.front -= i64::from(new.front);
        let place = if new.front { self.front } else { self.back };
        let Opts { kind, priority: plain, .. } = self.tubes[&no].opts.clone();
        let (prioritised, timed, ..) = switches(kind);
        let mut task = self.tasks.remove(&old).unwrap();
        let (from, is_done) = (task.tube, task.seen.state == State::Done);
        ready(&mut task);
        (task.place, task.ahead, task.tube) = (place, None, no);
        task.seen.attempts = 0;
        let own = if prioritised { task.seen.priority } else { plain };
        task.seen.priority = new.priority.unwrap_or(own);
        let life = match (new.ttl, timed) {
            (Some(ttl), _) => ttl,
            (None, false) => EVER,
            (None, true) => task.life(),
        };
        (task.ttl, task.expires) = (life, queue.saturating_add(life));
        let own = task.seen.ttr.filter(|_| timed);
        task.seen.ttr = new.ttr.or(own).filter(|ttr| *ttr != EVER);
        task.max_attempts = new.max_attempts.or(task.max_attempts);
        task.backoff = new.backoff.or(task.backoff.filter(|_| timed));
        relabel(&mut task, kind, new, queue);
        (task.started, task.seen.progress, task.seen.checkpoint) = (None, None, None);
        let delay = new.delay.filter(|_| wall_due.is_none()).unwrap_or(0);
        let wait = if wall_due.is_some() { wall_wait } else { delay };
        if wait > 0 {
            let due = wall_due.unwrap_or(queue.saturating_add(delay));
            task.seen.state = State::Delayed;
            task.seen.due = Some(due).filter(|due| *due != EVER);
            task.by_wall = wall_due.is_some();
            task.expires = task.expires.saturating_add(wait);
        }
        let serial = if is_done { edition } else { old };
        (task.seen.edition, task.seen.stripped) = (if is_done { 0 } else { edition }, false);
        if is_done {
            task.seen.serial = serial;
            (task.seen.finished, task.seen.result) = (None, false);
            self.puts.push(serial);
            self.count(from, Call::Delete);
            let from = self.tubes.get_mut(&from).unwrap();
            from.done = from.done.map(|done| done + 1);
        } else if from != no {
            self.count(from, Call::Moved);
        }
        self.tasks.insert(serial, task);
        self.count(no, Call::Put);
        serial
    }
}

/// What a put again or a move gives a task that it has in a tube of this kind: gates, a group and
/// labels.
pub(super) fn relabel(task: &mut Task, kind: TubeKind, new: &New, queue: u64) {
    if let Some(gates) = new.gates {
        (task.seen.requires, task.seen.throttles) = gate_names(gates);
    }
    let named = new.group.or(task.lock.flatten());
    task.lock = (named.is_some() || shares(kind)).then_some(named);
    task.seen.group = new.group.map(group_name).or(task.seen.group.take());
    task.seen.kind = new.kind.map(kind_name).or(task.seen.kind.take());
    task.seen.book = new.book.map(book_name).or(task.seen.book.take());
    task.seen.details.extend(new.detail.map(detail));
    if !new.tags.is_empty() {
        // What it has keeps its time.
        let had = std::mem::take(&mut task.tags);
        let time = |tag: u8| had.iter().find(|(other, _)| *other == tag).map(|(_, at)| *at);
        for tag in &new.tags {
            task.tags = tagged(&task.tags, &[*tag], time(*tag).unwrap_or(queue));
        }
    }
}
