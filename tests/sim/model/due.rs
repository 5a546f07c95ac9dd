//! Due work in the model: done task by task, because the times of two tasks do not affect each
//! other.

use super::{Model, Task, Tube, is_exhausted, ready};
use crate::step::*;
use std::collections::BTreeSet;
use tubewell::{HistoryEvent, State};

impl Model {
    /// Does the due work of a tube, task by task.
    pub(super) fn work_off(&mut self, no: u8) {
        self.work_off_for(no, true);
    }

    /// The same before a step that sees delays, or does not: one that ends a lease or extends it
    /// ends no delay and no pause.
    pub(super) fn work_off_for(&mut self, no: u8, sees_delays: bool) {
        let Some(opts) = self.tubes.get(&no).map(|tube| tube.opts.clone()) else { return };
        let (queue, wall, mono) = (self.time.queue, self.time.wall_now(), self.time.mono);
        let tube = self.tubes.get_mut(&no).unwrap();
        tube.pause = tube.pause.filter(|end| *end > queue || !sees_delays);
        let here: Vec<_> =
            self.tasks.iter().filter(|(_, t)| t.tube == no).map(|(serial, _)| *serial).collect();
        for serial in here {
            let task = self.tasks.get_mut(&serial).unwrap();
            let clock = if task.by_wall { wall } else { queue };
            let is_due = task.seen.due.is_some_and(|due| due <= clock);
            if task.seen.state == State::Delayed && is_due && sees_delays {
                ready(task);
                self.count(no, Call::Delay);
            }
            let task = self.tasks.get_mut(&serial).unwrap();
            let expires = match task.seen.state {
                State::Delayed | State::Done => EVER,
                State::Buried if opts.spares => EVER,
                _ => task.expires,
            };
            let lapsed = task.seen.state == State::Taken && task.deadline <= mono;
            let present = self.kept_end(&self.tasks[&serial]);
            let task = self.tasks.get_mut(&serial).unwrap();
            // Its tube keeps it longer now.
            if task.until <= queue && present > queue {
                task.until = present;
            }
            let (ends, is_kept) = (expires.min(task.until), task.until <= expires);
            if ends <= queue {
                self.tasks.remove(&serial);
                self.count(no, if is_kept { Call::Retention } else { Call::Ttl });
                if lapsed {
                    // It is not specified whether the lease ended first or the task was removed
                    // first.
                    let tube = self.tubes.get_mut(&no).unwrap();
                    (tube.calls[Call::Ttr as usize], tube.calls[Call::Stall as usize]) =
                        (None, None);
                }
            }
        }
        while let Some(serial) = self.first_lapse(no, mono) {
            self.lapse(serial, &opts);
        }
        while let Some(serial) = self.unkept(no, queue) {
            self.tasks.remove(&serial);
            self.count(no, Call::Retention);
        }
    }

    /// The taken task whose lease ended first, in a tube.
    fn first_lapse(&self, no: u8, mono: u64) -> Option<Serial> {
        let over = |task: &&Task| task.tube == no && task.deadline <= mono;
        let first = self.tasks.values().filter(over).map(|it| (it.deadline, it.seen.serial)).min();
        first.map(|(_, serial)| serial)
    }

    /// The ttr of a lease has ended, or its grace.
    fn lapse(&mut self, serial: Serial, opts: &Opts) {
        let task = self.tasks.get_mut(&serial).unwrap();
        let no = task.tube;
        if task.lapsed == EVER && opts.grace > 0 {
            task.lapsed = task.deadline;
            task.deadline = task.deadline.saturating_add(opts.grace);
            return self.count(no, Call::Stall);
        }
        let is_last = !opts.free && is_exhausted(task, opts);
        if !is_last {
            self.note(serial, HistoryEvent::TimedOut, "", "");
        }
        let task = self.tasks.get_mut(&serial).unwrap();
        if opts.free {
            task.seen.attempts = task.seen.attempts.saturating_sub(1);
        }
        if is_last {
            self.give_back(serial, HistoryEvent::TimedOut);
            return self.count(no, Call::Ttr);
        }
        self.wait(serial, if let To::After(delay) = opts.to { delay } else { 0 });
        self.front -= 1;
        self.back += 1;
        let task = self.tasks.get_mut(&serial).unwrap();
        task.place = match opts.to {
            To::Front => self.front,
            To::Back => self.back,
            To::Place | To::After(_) => task.place,
        };
        self.count(no, Call::Ttr);
    }

    /// The tubes whose due work may be done before this step is.
    pub fn due_before(&self, step: &Step, picked: &Picked) -> Vec<u8> {
        let mut time = self.time.clone();
        time.read();
        let all = matches!(step, Step::Tick | Step::Look);
        let mut touched = self.tubes_of(step, picked);
        // A verb by id looks there for a task of another tube, which it names.
        touched.extend(picked.task.and_then(|task| Some(self.tasks.get(&task)?.tube)));
        let sees_delays = step.sees_delays();
        let is_due = |task: &&Task| {
            let clock = if task.by_wall { time.wall_now() } else { time.queue };
            sees_delays && task.seen.due.is_some_and(|due| due <= clock)
                || task.expires.min(task.until) <= time.queue
                || task.deadline <= time.mono
        };
        let pause_ends =
            |tube: &Tube| sees_delays && tube.pause.is_some_and(|end| end <= time.queue);
        let resumed = self.tubes.iter().filter(|(_, tube)| pause_ends(tube)).map(|(no, _)| *no);
        let above = |no: &&u8| self.unkept(**no, time.queue).is_some();
        let above = self.tubes.keys().filter(above).copied();
        let due = self.tasks.values().filter(is_due).map(|task| task.tube).chain(resumed);
        let due = due.chain(above);
        let due: BTreeSet<u8> = due.filter(|tube| all || touched.contains(tube)).collect();
        due.into_iter().collect()
    }

    /// The tubes that a step names, and those of its leases.
    pub(super) fn tubes_of(&self, step: &Step, picked: &Picked) -> BTreeSet<u8> {
        let leases = picked.leases.iter().filter_map(|no| self.lease(*no)).map(|lease| lease.2);
        let next = match step.plain() {
            Step::Advance { to, .. } | Step::Move { to, .. } | Step::UnfailInto { to, .. } => {
                Some(*to)
            }
            _ => None,
        };
        let all = matches!(step, Step::TakeFrom { .. }).then(|| self.tubes.keys().copied());
        leases.chain(step.tube()).chain(next).chain(all.into_iter().flatten()).collect()
    }

    pub fn work_off_these(
        &mut self,
        step: &Step,
        picked: &Picked,
        tubes: impl Iterator<Item = u8>,
    ) {
        self.time.read();
        self.end_graces_before(step, picked);
        tubes.for_each(|tube| self.work_off_for(tube, step.sees_delays()));
    }

    pub fn work_off_all(&mut self) {
        self.time.read();
        self.end_graces(&|_| true);
        for tube in self.tubes.keys().copied().collect::<Vec<_>>() {
            self.work_off(tube);
        }
    }
}
