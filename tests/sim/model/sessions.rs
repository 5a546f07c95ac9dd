//! Consumers, and the leases when a session or the process ends.

use super::{Expected, Model, Task, Time, ready};
use crate::step::*;
use tubewell::{ErrorKind, HistoryEvent, State};

/// The limit of attempts and the back-off of a task's own.
type Terms = (Option<u32>, Option<Waits>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Session {
    grace: u64,
    /// There is a handle.
    is_open: bool,
    /// The end of its grace: in queue time, which counts at an opening, and in the lease time of
    /// this process, which counts while it runs.
    until_queue: u64,
    until_lease: u64,
}

impl Model {
    pub fn has_session(&self, who: u8) -> bool {
        self.sessions.get(&who).is_some_and(|session| session.is_open)
    }

    /// Whether two queues that look the same will stay the same.
    pub fn is_like(&self, other: &Self) -> bool {
        self.sessions == other.sessions
            && self.order() == other.order()
            && self.hidden() == other.hidden()
            && self.made() == other.made()
    }

    /// What of the tasks is not visible and decides what becomes of them: their own limit and
    /// back-off, which their tube's may be equal to, how long their ttl is, and when they ended.
    fn hidden(&self) -> Vec<(Terms, [u64; 3])> {
        let tasks = self.tasks.values();
        let terms = |task: &Task| (task.max_attempts, task.backoff);
        tasks.map(|task| (terms(task), [task.life(), task.ended, task.until])).collect()
    }

    /// The options that the tubes were made with.
    fn made(&self) -> Vec<&Opts> {
        self.tubes.values().map(|tube| &tube.made).collect()
    }

    /// The tasks of each tube in the order of takes, also those that are not ready, and in the
    /// order of their places: an update may give two of them the same priority.
    fn order(&self) -> [Vec<Serial>; 2] {
        let mut tasks: Vec<_> = self.tasks.values().collect();
        tasks.sort_by_key(|task| (task.tube, self.rank(task)));
        let by_rank = tasks.iter().map(|task| task.seen.serial).collect();
        tasks.sort_by_key(|task| (task.tube, task.place));
        [by_rank, tasks.iter().map(|task| task.seen.serial).collect()]
    }

    pub(super) fn join(&mut self, who: u8, grace: u64) {
        let grace = if who == NAMELESS { 0 } else { grace };
        let open = Session { grace, is_open: true, until_queue: EVER, until_lease: EVER };
        self.sessions.insert(who, open);
    }

    /// A session that has ended and waits for its grace is opened again, for another consumer.
    pub(super) fn adopt(&mut self, who: u8, of: u8) -> Expected {
        if who == NAMELESS {
            return Err(vec![ErrorKind::Unsupported]);
        }
        let left = self.sessions.get_mut(&of).filter(|session| !session.is_open);
        let session = left.ok_or(vec![ErrorKind::WrongState])?;
        (session.is_open, session.until_queue, session.until_lease) = (true, EVER, EVER);
        self.adoption = Some((who, of));
        Ok(Answer::Done)
    }

    /// The adopter takes over what is left in a tube.
    pub(super) fn take_over(&mut self, tube: u8, first: LeaseNo) -> Vec<Hand> {
        let Some((who, of)) = self.adoption else { return Vec::new() };
        self.resume((of, who), tube, first)
    }

    /// The last handle is dropped: the leases have no holder from now on.
    pub fn leave(&mut self, who: u8) {
        let (queue, mono) = (self.time.queue, self.time.mono);
        let Some(session) = self.sessions.get_mut(&who) else { return };
        self.adoption.take_if(|(_, of)| *of == who);
        session.is_open = false;
        session.until_queue = queue.saturating_add(session.grace);
        session.until_lease = mono.saturating_add(session.grace);
        let held = |task: &&mut Task| task.holder == Some(who);
        self.tasks.values_mut().filter(held).for_each(|task| task.lease = None);
    }

    /// The first step of a close: its leases wait for no grace.
    pub fn leave_at_once(&mut self, who: u8) {
        self.leave(who);
        if let Some(session) = self.sessions.get_mut(&who) {
            (session.until_queue, session.until_lease) = (self.time.queue, self.time.mono);
        }
    }

    /// Its tasks return, charged.
    pub(super) fn end_session(&mut self, who: u8) {
        self.sessions.remove(&who);
        self.return_leases(who, &|_| true);
    }

    /// The tasks of a session that are in these tubes return, charged.
    fn return_leases(&mut self, who: u8, of: &dyn Fn(u8) -> bool) {
        let held = self.tasks.values().filter(|task| task.holder == Some(who) && of(task.tube));
        let held: Vec<_> = held.map(|task| task.seen.serial).collect();
        for serial in held {
            self.give_back(serial, HistoryEvent::Lost);
            let Some(task) = self.tasks.get(&serial) else { continue };
            let tube = self.tubes.get_mut(&task.tube).unwrap();
            // It is not specified whether it was lost or became due in the same instant.
            tube.calls[Call::Lost as usize] = None;
            tube.calls[Call::Ttr as usize] = None;
            tube.calls[Call::Stall as usize] = None;
        }
    }

    /// Ends the graces that are over before a step: those of its tubes, and all of them before one
    /// that needs all. Until then a close may return the tasks, uncharged.
    pub(super) fn end_graces_before(&mut self, step: &Step, picked: &Picked) {
        match step {
            Step::Tick | Step::Look | Step::Join { .. } => self.end_graces(&|_| true),
            // It looks for a session that is open first.
            Step::Adopt { who, of } if *who == NAMELESS || self.has_session(*of) => {}
            Step::Adopt { .. } => self.end_graces(&|_| true),
            // These look at no tube, or do only what is due in it.
            Step::Detach { .. } | Step::Transact { .. } => {}
            _ => {
                let tubes = self.tubes_of(step, picked);
                self.end_graces(&|tube| tubes.contains(&tube));
            }
        }
    }

    /// Ends the graces that are over, in these tubes.
    pub(super) fn end_graces(&mut self, of: &dyn Fn(u8) -> bool) {
        for who in self.sessions.keys().copied().collect::<Vec<_>>() {
            if self.is_grace_over(who) {
                self.return_leases(who, of);
                if self.tasks.values().all(|task| task.holder != Some(who)) {
                    self.sessions.remove(&who);
                }
            }
        }
    }

    pub(super) fn is_grace_over(&self, who: u8) -> bool {
        let over = |session: &Session| !session.is_open && session.until_lease <= self.time.mono;
        self.sessions.get(&who).is_some_and(over)
    }

    /// Hands out again the leases of an earlier session of a consumer in a tube, to the same or to
    /// another one.
    pub(super) fn resume(&mut self, (who, to): (u8, u8), tube: u8, first: LeaseNo) -> Vec<Hand> {
        let left =
            |task: &&Task| task.tube == tube && task.holder == Some(who) && task.lease.is_none();
        let left: Vec<_> = self.tasks.values().filter(left).map(|task| task.seen.serial).collect();
        let mono = self.time.mono;
        let mut hands = Vec::new();
        for (no, serial) in (first..).zip(left) {
            if to != who {
                self.note(serial, HistoryEvent::Adopted, "", "");
            }
            let task = self.tasks.get_mut(&serial).unwrap();
            task.holder = Some(to);
            (task.lease, task.begun) = (Some(no), Some(mono));
            task.deadline = mono.saturating_add(task.seen.ttr.unwrap_or(EVER));
            task.lapsed = EVER;
            hands.push(task.hand(self.time.queue));
            self.leases.push((no, serial, tube, self.tubes[&tube].incarnation));
            self.count(tube, Call::Touch);
        }
        hands
    }

    /// Whether a lease or a grace that is over still exists.
    pub fn has_lapsed(&self, time: &Time) -> bool {
        let is_over = |task: &Task| task.expires.min(task.until) <= time.queue;
        let is_above = |no: &u8| self.unkept(*no, time.queue).is_some();
        self.tasks.values().any(|task| task.deadline <= time.mono || is_over(task))
            || self.tubes.keys().any(is_above)
            || self.sessions.values().any(|session| session.until_lease <= time.mono)
    }

    /// No process runs. Sessions with a grace wait from now on; the others have ended.
    fn expire_sessions(&mut self) {
        let queue = self.time.queue;
        for session in self.sessions.values_mut() {
            if session.is_open {
                session.is_open = false;
                session.until_queue = queue.saturating_add(session.grace);
            }
        }
        self.sessions.retain(|_, session| session.grace > 0 && session.until_queue > queue);
    }

    /// The first step of a close: every lease that does not wait for a consumer returns, uncharged.
    pub fn give_back_all(&mut self, of: impl Fn(u8) -> bool) {
        let mut ended = self.clone();
        ended.expire_sessions();
        for serial in self.tasks.keys().copied().collect::<Vec<_>>() {
            let task = &self.tasks[&serial];
            let waits = task.holder.is_some_and(|who| ended.sessions.contains_key(&who));
            if task.seen.state == State::Taken && of(task.tube) && !waits {
                self.note(serial, HistoryEvent::Closed, "", "");
                let task = self.tasks.get_mut(&serial).unwrap();
                task.seen.attempts = task.seen.attempts.saturating_sub(1);
                ready(task);
            }
        }
        self.sessions = ended.sessions;
    }

    /// The queue as the close leaves it.
    pub fn close(&mut self) {
        self.give_back_all(|_| true);
        self.void_leases();
        self.time.store();
    }

    /// The queue after it was opened again, at this time.
    pub fn come_back(&mut self, time: Time) {
        self.time = time;
        self.time.resume();
        self.expire_sessions();
        self.void_leases();
    }

    /// No lease is left.
    fn void_leases(&mut self) {
        let (queue, mono) = (self.time.queue, self.time.mono);
        for session in self.sessions.values_mut() {
            session.until_lease = mono.saturating_add(session.until_queue.saturating_sub(queue));
        }
        self.adoption = None;
        self.callbacks.clear();
        self.conditions.retain(|_, (_, is_stored)| *is_stored);
        let tubes = &mut self.tubes;
        for tube in tubes.values_mut() {
            tube.calls = [Some(0); CALLS];
            tube.calls[Call::Release as usize] = Some(std::mem::take(&mut tube.swept));
            tube.done = Some(0);
        }
        self.tasks.retain(|_, task| !tubes[&task.tube].opts.temporary);
        let taken = self.tasks.values().filter(|task| task.seen.state == State::Taken);
        for serial in taken.map(|task| task.seen.serial).collect::<Vec<_>>() {
            let task = self.tasks.get_mut(&serial).unwrap();
            // How long an earlier process held it is not known.
            task.begun = None;
            if task.holder.is_some_and(|who| self.sessions.contains_key(&who)) {
                // Lease time begins again with each process.
                (task.lease, task.deadline, task.lapsed) = (None, EVER, EVER);
            } else {
                let tube = task.tube;
                self.give_back(serial, HistoryEvent::Lost);
                if self.tasks.contains_key(&serial) {
                    self.leave_opening_open(serial);
                }
                self.count(tube, Call::Lost);
            }
        }
    }
}
