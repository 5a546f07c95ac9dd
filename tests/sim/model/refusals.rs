//! Refused calls, and their errors. A call may be wrong in several ways at once.

use super::{Model, is_open};
use crate::step::*;
use tubewell::{ErrorKind, State, TubeKind};

/// Priority, times, groups, capacity.
pub(super) fn switches(kind: TubeKind) -> (bool, bool, bool, bool) {
    match kind {
        TubeKind::Fifo => (false, false, false, false),
        TubeKind::FifoTtl => (true, true, false, false),
        TubeKind::LimFifoTtl => (true, true, false, true),
        TubeKind::Utube => (false, false, true, false),
        TubeKind::UtubeTtl => (true, true, true, false),
        _ => (true, true, true, true),
    }
}

impl Model {
    /// Whether the kind of the tube has groups.
    pub(super) fn has_groups(&self, no: u8) -> bool {
        switches(self.tubes[&no].opts.kind).2
    }

    pub(super) fn put_refusals(&self, no: u8, new: &New) -> Vec<ErrorKind> {
        let opts = &self.tubes[&no].opts;
        let (prioritised, timed, grouped, _) = switches(opts.kind);
        let mut wrong = Vec::new();
        let times = new.delay.or(new.ttl).or(new.ttr).or(new.run_in.map(|_| 0)).is_some()
            || new.backoff.is_some();
        if new.priority.is_some() && !prioritised
            || times && !timed
            || new.group.is_some() && !grouped
        {
            wrong.push(ErrorKind::Unsupported);
        }
        let is_torn = new.must_exist && new.conflict == OnConflict::Debounce;
        if new.ttl == Some(0) || new.ttr == Some(0) || is_torn {
            wrong.push(ErrorKind::Invalid);
        }
        wrong.extend(self.key_refusals(no, new));
        wrong
    }

    /// The refusals of an update of a task in this state, except that there is no such task.
    pub(super) fn update_refusals(
        &self,
        no: u8,
        change: &Change,
        state: Option<State>,
    ) -> Vec<ErrorKind> {
        let (prioritised, timed, ..) = switches(self.tubes[&no].opts.kind);
        let mut wrong = Vec::new();
        let times =
            change.moves() || change.ttl.or(change.ttr).is_some() || change.backoff.is_some();
        if change.priority.is_some() && !prioritised || times && !timed {
            wrong.push(ErrorKind::Unsupported);
        }
        if change.ttl == Some(0) || change.ttr == Some(0) {
            wrong.push(ErrorKind::Invalid);
        }
        match state {
            Some(State::Done) => wrong.push(ErrorKind::WrongState),
            Some(State::Taken | State::Buried) if change.moves() => {
                wrong.push(ErrorKind::WrongState);
            }
            _ => {}
        }
        wrong
    }

    /// The refusals of a step that takes a task to a tube, whatever the task.
    pub(super) fn way_refusals(&self, step: &Step) -> Vec<ErrorKind> {
        let (to, delayed, prioritised) = match step.plain() {
            Step::Advance { to, delay, .. } => (to, delay.is_some(), false),
            Step::Move { to, given, .. } => (to, false, given.priority.is_some()),
            _ => return Vec::new(),
        };
        let Some(next) = self.tubes.get(to) else { return vec![ErrorKind::TubeNotFound] };
        let (has_priority, timed, ..) = switches(next.opts.kind);
        let is_off = delayed && !timed || prioritised && !has_priority;
        Vec::from_iter(is_off.then_some(ErrorKind::Unsupported))
    }

    /// The refusals of a task that would go to a tube which there is, with what a move or an
    /// advance gives it.
    pub(super) fn go_refusals(&self, serial: Serial, to: u8, given: &New) -> Vec<ErrorKind> {
        let (next, task) = (&self.tubes[&to], &self.tasks[&serial]);
        let (_, _, grouped, _) = switches(next.opts.kind);
        let mut wrong = Vec::from_iter((!is_open(task)).then_some(ErrorKind::WrongState));
        if (given.group.is_some() || task.seen.group.is_some()) && !grouped
            || self.tubes[&task.tube].opts.temporary != next.opts.temporary
        {
            wrong.push(ErrorKind::Unsupported);
        }
        let comes_in = task.tube != to || task.is_trashed();
        let key = given.key.map(key_name);
        let is_own = key.is_none() || key == task.seen.key;
        let counted = is_own && task.tube == to && self.counts(task);
        let (_, timed, ..) = switches(next.opts.kind);
        let waits = task.seen.state == State::Delayed && self.wait_left(serial) > 0;
        let is_delayed = timed && (waits || given.delay.is_some_and(|delay| delay > 0));
        let comes_as = if is_delayed { State::Delayed } else { State::Ready };
        let counts = next.opts.unique.counts(comes_as);
        if counts && !counted && self.clashes_by(serial, to, key.as_deref()) {
            wrong.push(ErrorKind::KeyExists);
        }
        if comes_in {
            wrong.extend(self.room_refusals(to));
        }
        wrong
    }

    /// The refusals of a task that comes to the board of a tube.
    pub(super) fn room_refusals(&self, to: u8) -> Vec<ErrorKind> {
        let (next, mut wrong) = (&self.tubes[&to], Vec::new());
        let count = self.board(to).count() as u64;
        if next.opts.capacity.is_some_and(|capacity| count >= capacity) {
            wrong.push(ErrorKind::Full);
        }
        wrong
    }

    /// The refusals of a verdict on a take of a tube, except that of a lost lease.
    pub(super) fn verdict_refusals(
        &self,
        tube: u8,
        incarnation: u64,
        step: &Step,
    ) -> Vec<ErrorKind> {
        let now = self.tubes.get(&tube);
        let mut wrong = Vec::new();
        if let Some(now) = now {
            let (prioritised, timed, ..) = switches(now.opts.kind);
            let (priority, times, zero) = match step.plain() {
                Step::Release { back, .. } => (
                    back.priority.is_some(),
                    back.delay.or(back.ttl).is_some(),
                    back.ttl == Some(0),
                ),
                Step::Retry { after, .. } => (false, after.is_some(), false),
                Step::Bury { priority, .. } => (priority.is_some(), false, false),
                Step::Touch { .. } => (false, true, false),
                Step::RenewFor { by, .. } => (false, true, *by == 0),
                _ => (false, false, false),
            };
            // Without results there is no task left to have it.
            let is_kept = match (step, step.plain()) {
                (Step::Bring { .. }, Step::Ack { .. } | Step::AckWith { .. }) => {
                    now.opts.finished.is_some() && !now.opts.drops
                }
                (_, Step::AckWith { .. }) => now.opts.finished.is_some(),
                _ => true,
            };
            let is_silent = matches!(step, Step::Log { .. }) && now.opts.history.0 < 2;
            if priority && !prioritised || times && !timed || !is_kept || is_silent {
                wrong.push(ErrorKind::Unsupported);
            }
            if zero {
                wrong.push(ErrorKind::Invalid);
            }
        }
        if now.is_none_or(|now| now.incarnation != incarnation) {
            wrong.push(ErrorKind::TubeNotFound);
        }
        wrong
    }

    /// Whether the documents leave the result of this step open.
    pub fn is_open(&self, step: &Step, picked: &Picked) -> bool {
        let of_lease =
            picked.leases.first().and_then(|no| self.lease(*no)).map(|(.., tube, _)| *tube);
        let tube = match step {
            Step::Put { tube, .. }
            | Step::Batch { tube, .. }
            | Step::Update { tube, .. }
            | Step::Wait(Wait { tube, .. })
            | Step::PeekNext { tube, .. } => *tube,
            _ => of_lease.unwrap_or(u8::MAX),
        };
        let asks_nothing = matches!(
            step,
            Step::TakeMany { count: 0, .. }
                | Step::PutMany { count: 0, .. }
                | Step::PutAll { count: 0, .. }
                | Step::Kick { count: 0, .. }
        );
        let Some(tube) = self.tubes.get(&tube) else { return asks_nothing };
        let (prioritised, timed, ..) = switches(tube.opts.kind);
        let is_odd =
            |new: &New| !timed && new.delay == Some(0) || !prioritised && new.priority == Some(0);
        match step.plain() {
            Step::Put { new, .. } | Step::Wait(Wait { what: Awaited::Room(new), .. }) => {
                is_odd(new)
            }
            Step::Batch { tasks, .. } => tasks.iter().any(is_odd),
            Step::Release { back, .. } => {
                !timed && back.delay == Some(0) || !prioritised && back.priority == Some(0)
            }
            Step::Retry { after, .. } => !timed && *after == Some(0),
            Step::Touch { by, .. } => !timed && *by == 0,
            Step::Renew { .. } => !timed,
            Step::PeekNext { .. } => tube.pause.is_some(),
            _ => false,
        }
    }
}
