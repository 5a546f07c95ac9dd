//! The verbs of a tube in the model: puts, takes, reads, and the verbs by id.

use super::{Expected, Model, Task, bury, ready};
use crate::step::*;
use tubewell::{ErrorKind, Reason, State};

impl Model {
    pub(super) fn of_tube(&mut self, step: &Step, picked: &Picked) -> Expected {
        let (Step::Put { tube, .. }
        | Step::PutMany { tube, .. }
        | Step::Take { tube }
        | Step::TakeMany { tube, .. }
        | Step::Claim { tube, .. }
        | Step::Kick { tube, .. }
        | Step::KickOne { tube, .. }
        | Step::BuryAny { tube, .. }
        | Step::Delete { tube, .. }
        | Step::Peek { tube, .. }
        | Step::PeekNext { tube, .. }
        | Step::TakeBy { tube, .. }
        | Step::Resume { tube, .. }
        | Step::ReleaseAll { tube }
        | Step::Truncate { tube }
        | Step::Pause { tube, .. }
        | Step::DropTube { tube, .. }) = *step
        else {
            return Ok(Answer::Done);
        };
        let paused = self.tubes.get(&tube).ok_or(vec![ErrorKind::TubeNotFound])?.paused;
        self.work_off(tube);
        let in_tube = |task: &&Task| task.tube == tube;
        let taken = |task: &&Task| task.seen.state == State::Taken;
        let one = picked
            .task
            .filter(|serial| self.tasks.get(serial).is_some_and(|task| task.tube == tube));
        let one = one.ok_or(vec![ErrorKind::TaskNotFound]);
        match step {
            Step::Put { new, .. } => return self.put(tube, new, picked.serial),
            Step::PutMany { count, .. } => {
                let there = self.tasks.values().filter(in_tube).count() as u64;
                let room = self.tubes[&tube].opts.capacity.unwrap_or(EVER);
                if there + u64::from(*count) > room && *count > 0 {
                    return Err(vec![ErrorKind::Full]);
                }
                let serials: Vec<_> = (0..u64::from(*count)).map(|at| picked.serial + at).collect();
                for serial in &serials {
                    self.put(tube, &New::default(), *serial)?;
                }
                return Ok(Answer::PutMany(serials));
            }
            Step::Resume { who, .. } => {
                return Ok(Answer::Took(self.resume(*who, tube, picked.lease)));
            }
            Step::PeekNext { state, .. } => {
                let next = self.peek_next(tube, *state).map(|next| Box::new(self.seen(next)));
                return Ok(next.map_or(Answer::Nothing, Answer::Task));
            }
            Step::Take { .. } | Step::TakeMany { .. } | Step::TakeBy { .. } => {
                let most = if let Step::TakeMany { count, .. } = step { *count } else { 1 };
                let mut hands = Vec::new();
                while !paused && hands.len() < usize::from(most) {
                    let Some(next) = self.next(tube) else { break };
                    hands.push(self.hand_out(next, picked.lease + hands.len() as u64));
                    if let Step::TakeBy { who, .. } = step {
                        self.tasks.get_mut(&next).unwrap().holder = Some(*who);
                    }
                }
                return Ok(Answer::Took(hands));
            }
            Step::Claim { .. } => {
                let serial = one?;
                if !self.is_takeable(&self.tasks[&serial]) {
                    return Err(vec![ErrorKind::WrongState]);
                }
                return Ok(Answer::Took(vec![self.hand_out(serial, picked.lease)]));
            }
            Step::Kick { count, .. } => {
                let buried = |task: &&Task| task.seen.state == State::Buried;
                let mut here: Vec<_> = self.tasks.values().filter(in_tube).filter(buried).collect();
                here.sort_by_key(|task| (task.seen.priority, task.place));
                let here = here.iter().take(usize::try_from(*count).unwrap_or(usize::MAX));
                let here: Vec<_> = here.map(|task| task.seen.serial).collect();
                here.iter().for_each(|serial| self.kick(*serial));
                return Ok(Answer::Count(here.len() as u64));
            }
            Step::KickOne { .. } => {
                let serial = one?;
                if self.tasks[&serial].seen.state != State::Buried {
                    return Err(vec![ErrorKind::WrongState]);
                }
                self.kick(serial);
            }
            Step::BuryAny { .. } => {
                let task = self.tasks.get_mut(&one?).unwrap();
                if task.seen.state != State::Buried {
                    bury(task, Reason::Buried("any".into()));
                    self.count(tube, Call::Bury);
                }
            }
            Step::Delete { .. } => self.remove(one?, Call::Delete),
            Step::Peek { .. } => return Ok(Answer::Task(Box::new(self.seen(one?)))),
            Step::ReleaseAll { .. } => {
                let mut swept = 0;
                for task in self.tasks.values_mut().filter(|t| t.tube == tube && taken(&&**t)) {
                    task.seen.attempts = task.seen.attempts.saturating_sub(1);
                    ready(task);
                    swept += 1;
                }
                let tube = self.tubes.get_mut(&tube).unwrap();
                tube.calls[Call::Release as usize] = None;
                tube.swept += swept;
            }
            Step::Truncate { .. } => {
                let there = self.tasks.len();
                self.tasks.retain(|_, task| task.tube != tube);
                let gone = there - self.tasks.len();
                let tube = self.tubes.get_mut(&tube).unwrap();
                (tube.calls[Call::Delete as usize], tube.done) = (None, None);
                return Ok(Answer::Count(gone as u64));
            }
            Step::Pause { paused, .. } => self.tubes.get_mut(&tube).unwrap().paused = *paused,
            Step::DropTube { force, .. } => {
                if !force && self.tasks.values().filter(in_tube).any(|task| taken(&task)) {
                    return Err(vec![ErrorKind::TubeBusy]);
                }
                self.tasks.retain(|_, task| task.tube != tube);
                self.tubes.remove(&tube);
            }
            _ => {}
        }
        Ok(Answer::Done)
    }

    fn kick(&mut self, serial: Serial) {
        let (task, queue) = (self.tasks.get_mut(&serial).unwrap(), self.time.queue);
        task.seen.attempts = 0;
        let tube = task.tube;
        if self.tubes[&tube].opts.spares && task.expires <= queue {
            task.expires = queue.saturating_add(task.expires - task.seen.created);
        }
        ready(task);
        self.count(tube, Call::Kick);
    }
}
