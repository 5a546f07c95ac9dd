//! The verbs of a tube in the model: puts, takes, reads, and the verbs by id.

use super::keys::relabel;
use super::refusals::switches;
use super::{Expected, Model, Task, bury, fail, ready, shares, tagged};
use crate::step::*;
use tubewell::{ErrorKind, HistoryEvent, Reason, State};

impl Model {
    /// Takes from all tubes.
    pub(super) fn take_from(&mut self, best: bool, count: u8, lease: LeaseNo) -> Answer {
        let mut tubes: Vec<u8> = self.tubes.keys().copied().collect();
        tubes.iter().for_each(|tube| self.work_off(*tube));
        tubes.retain(|tube| self.tubes[tube].pause.is_none());
        tubes.sort_by_key(|tube| tube_name(*tube));
        let mut hands = Vec::new();
        while hands.len() < usize::from(count) {
            let first = |tube: &u8| Some((*tube, self.next(*tube)?));
            let mut firsts = tubes.iter().filter(|tube| !self.is_closed(**tube)).filter_map(first);
            let next = match best {
                true => firsts.min_by_key(|(_, serial)| self.across(&self.tasks[serial])),
                false => firsts.next(),
            };
            let Some((_, next)) = next else { break };
            hands.push(self.hand_out(next, lease + hands.len() as u64));
        }
        Answer::Took(hands)
    }

    /// The priority of a task among those of other tubes, smaller first.
    fn across(&self, task: &Task) -> i64 {
        let is_higher_first = self.tubes[&task.tube].opts.higher;
        match task.seen.priority {
            _ if task.ahead.is_some() => i64::MIN,
            i64::MAX if is_higher_first => i64::MIN,
            priority if is_higher_first => priority.saturating_neg(),
            priority => priority,
        }
    }

    pub(super) fn of_tube(&mut self, step: &Step, picked: &Picked) -> Expected {
        let (Step::Put { tube, .. }
        | Step::PutMany { tube, .. }
        | Step::Batch { tube, .. }
        | Step::PutAll { tube, .. }
        | Step::Take { tube }
        | Step::TakeMany { tube, .. }
        | Step::TakeGroup { tube, .. }
        | Step::Claim { tube, .. }
        | Step::Kick { tube, .. }
        | Step::Unfail { tube, .. }
        | Step::UnfailInto { tube, .. }
        | Step::Move { tube, .. }
        | Step::KickOne { tube, .. }
        | Step::BuryAny { tube, .. }
        | Step::LogAny { tube, .. }
        | Step::Tag { tube, .. }
        | Step::Track { tube, .. }
        | Step::TrashAny { tube, .. }
        | Step::Restore { tube, .. }
        | Step::EmptyTrash { tube }
        | Step::Delete { tube, .. }
        | Step::DeleteMany { tube, .. }
        | Step::Timeout { tube, .. }
        | Step::Finish { tube, .. }
        | Step::Update { tube, .. }
        | Step::Peek { tube, .. }
        | Step::PeekNext { tube, .. }
        | Step::TakeBy { tube, .. }
        | Step::Resume { tube, .. }
        | Step::TakeOver { tube }
        | Step::KickWhere { tube }
        | Step::ReleaseAll { tube }
        | Step::Truncate { tube }
        | Step::Pause { tube, .. }
        | Step::PauseOut { tube, .. }
        | Step::Tune { tube, .. }
        | Step::DropTube { tube, .. }
        | Step::DropEmpty { tube }) = *step
        else {
            return Ok(Answer::Done);
        };
        if let Step::Move { to, .. } | Step::UnfailInto { to, .. } = step {
            // What is due there makes room.
            self.work_off(*to);
        }
        self.tubes.get(&tube).ok_or(vec![ErrorKind::TubeNotFound])?;
        self.work_off(tube);
        let paused = self.tubes[&tube].pause.is_some();
        let in_tube = |task: &&Task| task.tube == tube;
        let taken = |task: &&Task| task.seen.state == State::Taken;
        let is_searched = match step {
            // What makes no sense is refused before the task is looked for.
            Step::Update { change, .. } => self.update_refusals(tube, change, None).is_empty(),
            Step::Move { .. } => self.way_refusals(step).is_empty(),
            _ => true,
        };
        let one = self.one_of(tube, picked.task, is_searched);
        match step {
            Step::Put { new, .. } => return self.put(tube, new, picked.serial),
            Step::PutMany { count, .. } => {
                let there = self.board(tube).count() as u64;
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
            Step::Batch { tasks, .. } => return self.batch(tube, tasks, picked.serial),
            Step::PutAll { count, .. } => {
                // So few are one group.
                let tasks = vec![New::default(); usize::from(*count)];
                self.batch(tube, &tasks, picked.serial)?;
                return Ok(Answer::Count(u64::from(*count)));
            }
            Step::Resume { who, .. } => {
                return Ok(Answer::Took(self.resume((*who, *who), tube, picked.lease)));
            }
            Step::TakeOver { .. } => return Ok(Answer::Took(self.take_over(tube, picked.lease))),
            Step::PeekNext { state, .. } => {
                let next = self.peek_next(tube, *state).map(|next| Box::new(self.seen(next)));
                return Ok(next.map_or(Answer::Nothing, Answer::Task));
            }
            Step::Take { .. } | Step::TakeMany { .. } | Step::TakeBy { .. } => {
                let most = if let Step::TakeMany { count, .. } = step { *count } else { 1 };
                let mut hands = Vec::new();
                while !paused && hands.len() < usize::from(most) && !self.is_closed(tube) {
                    let Some(next) = self.next(tube) else { break };
                    hands.push(self.hand_out(next, picked.lease + hands.len() as u64));
                    if let Step::TakeBy { who, .. } = step {
                        self.tasks.get_mut(&next).unwrap().holder = Some(*who);
                    }
                }
                return Ok(Answer::Took(hands));
            }
            Step::TakeGroup { group, .. } => {
                if !self.has_groups(tube) {
                    return Err(vec![ErrorKind::Unsupported]);
                }
                let is_closed = paused || self.is_closed(tube);
                let first = self.first_of_group(tube, *group).filter(|_| !is_closed);
                let hand = first.map(|serial| self.hand_out(serial, picked.lease));
                return Ok(Answer::Took(hand.into_iter().collect()));
            }
            Step::Claim { .. } => {
                let serial = one?;
                if !self.is_claimable(&self.tasks[&serial]) {
                    return Err(vec![ErrorKind::WrongState]);
                }
                if self.is_closed(tube) || !self.is_met(&self.tasks[&serial]) {
                    let task = &self.tasks[&serial];
                    let clashes =
                        task.seen.state == State::Buried && self.clashes_as(serial, State::Taken);
                    let kinds = [ErrorKind::WrongState, ErrorKind::KeyExists];
                    return Err(kinds[..1 + usize::from(clashes)].to_vec());
                }
                match self.tasks[&serial].seen.state {
                    State::Delayed => self.end_delay(serial),
                    State::Buried if self.clashes_as(serial, State::Taken) => {
                        return Err(vec![ErrorKind::KeyExists]);
                    }
                    State::Buried => self.revive(serial),
                    _ => {}
                }
                return Ok(Answer::Took(vec![self.hand_out(serial, picked.lease)]));
            }
            Step::Kick { count, .. } => {
                let buried = |task: &&Task| task.seen.state == State::Buried;
                let mut here: Vec<_> = self.board(tube).filter(buried).collect();
                here.sort_by_key(|task| self.rank(task));
                let here: Vec<_> = here.iter().map(|task| task.seen.serial).collect();
                return Ok(self.kick_all(&here, *count));
            }
            Step::KickWhere { .. } => {
                let chosen = |task: &&Task| matches!(task.seen.reason, Some(Reason::Buried(_)));
                let mut here: Vec<_> = self.board(tube).filter(chosen).collect();
                here.sort_by_key(|task| self.rank(task));
                let here: Vec<_> = here.iter().map(|task| task.seen.serial).collect();
                return Ok(self.kick_all(&here, EVER));
            }
            Step::Unfail { group, .. } => {
                let here = self.of_group(tube, *group);
                return Ok(self.kick_all(&here, EVER));
            }
            Step::UnfailInto { group, to, .. } => return self.unfail_into(tube, *group, *to),
            Step::Move { to, given, brings, .. } => {
                let wrong = self.way_refusals(step);
                if !wrong.is_empty() {
                    return Err(wrong);
                }
                let serial = one?;
                let wrong = self.go_refusals(serial, *to, given);
                if !wrong.is_empty() {
                    return Err(wrong);
                }
                self.go(serial, *to, None, given.priority, None);
                let (kind, queue) = (self.tubes[to].opts.kind, self.time.queue);
                let task = self.tasks.get_mut(&serial).unwrap();
                relabel(task, kind, given, queue);
                task.seen.key = given.key.map(key_name).or(task.seen.key.take());
                if *brings {
                    (task.seen.edition, task.seen.stripped) = (picked.serial, false);
                }
            }
            Step::KickOne { .. } => {
                let serial = one?;
                let task = &self.tasks[&serial];
                if task.seen.state != State::Buried || task.is_trashed() {
                    return Err(vec![ErrorKind::WrongState]);
                }
                if self.clashes_as(serial, State::Ready) {
                    return Err(vec![ErrorKind::KeyExists]);
                }
                self.kick(serial);
            }
            Step::TrashAny { .. } => {
                let (serial, now) = (one?, self.time.queue);
                if self.tasks[&serial].seen.state == State::Done {
                    return Err(vec![ErrorKind::WrongState]);
                }
                if !self.tasks[&serial].is_trashed() {
                    self.note(serial, HistoryEvent::Trashed, "", "any");
                    let task = self.tasks.get_mut(&serial).unwrap();
                    bury(task, Reason::Trashed("any".into()), now);
                    self.count(tube, Call::Trash);
                }
            }
            Step::Restore { .. } => {
                let serial = one?;
                if !self.tasks[&serial].is_trashed() {
                    return Err(vec![ErrorKind::WrongState]);
                }
                let mut wrong = self.room_refusals(tube);
                if self.clashes_as(serial, State::Ready) {
                    wrong.push(ErrorKind::KeyExists);
                }
                if !wrong.is_empty() {
                    return Err(wrong);
                }
                self.note(serial, HistoryEvent::Restored, "", "");
                self.revive(serial);
                self.count(tube, Call::Restore);
            }
            Step::EmptyTrash { .. } => {
                let here = self.tasks.values().filter(in_tube).filter(|task| task.is_trashed());
                let here: Vec<_> = here.map(|task| task.seen.serial).collect();
                here.iter().for_each(|serial| self.remove(*serial, Call::Delete));
                return Ok(Answer::Count(here.len() as u64));
            }
            Step::LogAny { .. } => {
                let mut wrong: Vec<_> = one.clone().err().into_iter().flatten().collect();
                if self.tubes[&tube].opts.history.0 < 2 {
                    wrong.push(ErrorKind::Unsupported);
                }
                if !wrong.is_empty() {
                    return Err(wrong);
                }
                self.note_line(one?, HistoryEvent::Logged, "any line");
            }
            Step::Tag { tags, is_added, .. } => {
                let (serial, now) = (one?, self.time.queue);
                let task = self.tasks.get_mut(&serial).unwrap();
                match is_added {
                    true => task.tags = tagged(&task.tags, tags, now),
                    false => task.tags.retain(|(tag, _)| !tags.contains(tag)),
                }
            }
            Step::Track { is_on: true, .. } => {
                return Ok(Answer::Count(self.tracked.insert(one?).into()));
            }
            // Also of one that is gone.
            Step::Track { is_on: false, .. } => {
                let was = picked.task.is_some_and(|serial| self.tracked.remove(&serial));
                return Ok(Answer::Count(was.into()));
            }
            Step::BuryAny { .. } => {
                let (serial, now) = (one?, self.time.queue);
                match self.tasks[&serial].seen.state {
                    State::Done => return Err(vec![ErrorKind::WrongState]),
                    State::Buried => {}
                    _ => {
                        self.note(serial, HistoryEvent::Buried, "", "any");
                        let task = self.tasks.get_mut(&serial).unwrap();
                        bury(task, Reason::Buried("any".into()), now);
                        self.end(serial);
                        self.count(tube, Call::Bury);
                    }
                }
            }
            Step::Delete { only, .. } => {
                let serial = one?;
                if only.is_some_and(|only| self.tasks[&serial].seen.state != only) {
                    return Err(vec![ErrorKind::WrongState]);
                }
                self.remove(serial, Call::Delete);
            }
            Step::DeleteMany { .. } => {
                let mut here = picked.tasks.clone();
                here.retain(|serial| self.tasks.get(serial).is_some_and(|task| task.tube == tube));
                here.sort_unstable();
                here.dedup();
                here.iter().for_each(|serial| self.remove(*serial, Call::Delete));
                return Ok(Answer::Count(here.len() as u64));
            }
            Step::Timeout { .. } => return self.time_out(tube, &picked.tasks),
            Step::Finish { how, .. } => {
                // Without results there is no task left to have it.
                let is_kept = self.tubes[&tube].opts.finished.is_some();
                let is_off = *how == Finish::WithResult && !is_kept;
                let mut wrong = Vec::from_iter(is_off.then_some(ErrorKind::Unsupported));
                wrong.extend(one.as_ref().err().into_iter().flatten());
                if is_off {
                    return Err(wrong);
                }
                return self.finish(one, *how);
            }
            Step::Update { change, .. } => {
                let state = one.as_ref().ok().map(|serial| self.tasks[serial].seen.state);
                let mut wrong = self.update_refusals(tube, change, state);
                wrong.extend(one.as_ref().err().into_iter().flatten());
                if !wrong.is_empty() {
                    return Err(wrong);
                }
                self.update(one?, change);
            }
            Step::Peek { .. } => return Ok(Answer::Task(Box::new(self.seen(one?)))),
            Step::ReleaseAll { .. } => self.release_all(tube),
            Step::Truncate { .. } => {
                let there = self.tasks.len();
                self.tasks.retain(|_, task| task.tube != tube);
                let gone = there - self.tasks.len();
                let tube = self.tubes.get_mut(&tube).unwrap();
                (tube.calls[Call::Delete as usize], tube.done) = (None, None);
                return Ok(Answer::Count(gone as u64));
            }
            Step::Pause { length: Some(0), .. } | Step::PauseOut { length: 0, .. } => {
                return Err(vec![ErrorKind::Invalid]);
            }
            Step::PauseOut { length, .. } => {
                self.release_all(tube);
                let end = self.time.queue.saturating_add(*length);
                self.tubes.get_mut(&tube).unwrap().pause = Some(end);
            }
            Step::Pause { length, .. } => {
                let end = length.map(|length| self.time.queue.saturating_add(length));
                self.tubes.get_mut(&tube).unwrap().pause = end;
            }
            Step::Tune { to, is_set, .. } => {
                let made = self.tubes[&tube].made.clone();
                let to = if *is_set { *to } else { to.as_in(&made) };
                let tube = self.tubes.get_mut(&tube).unwrap();
                let (prioritised, timed, grouped, bounded) = switches(tube.opts.kind);
                let is_off = match to {
                    Tune::Priority(priority) => !prioritised && priority != 0,
                    Tune::Ttl(length) | Tune::Ttr(length) => !timed && length.is_some(),
                    Tune::Capacity(tasks) => !bounded && tasks.is_some(),
                    Tune::Attempts(_)
                    | Tune::History(_)
                    | Tune::Finished(_)
                    | Tune::Buried(_)
                    | Tune::Limit(_)
                    | Tune::Require(_)
                    | Tune::Drops(_)
                    | Tune::Book(_)
                    | Tune::Detail(_)
                    | Tune::Throttle(_) => false,
                    Tune::InFlight(tasks) => !grouped && tasks != 1,
                    Tune::Lapse(..) => !timed && to != Tune::Lapse(0, To::Place, false),
                    Tune::Backoff((.., most)) => !timed && most > 0,
                };
                if is_off {
                    return Err(vec![ErrorKind::Unsupported]);
                }
                to.apply(&mut tube.opts);
            }
            Step::DropEmpty { .. } => {
                if self.tasks.values().any(|task| in_tube(&task)) {
                    return Err(vec![ErrorKind::TubeBusy]);
                }
                self.tubes.remove(&tube);
                self.callbacks.remove(&tube);
            }
            Step::DropTube { force, .. } => {
                if !force && self.tasks.values().filter(in_tube).any(|task| taken(&task)) {
                    return Err(vec![ErrorKind::TubeBusy]);
                }
                self.tasks.retain(|_, task| task.tube != tube);
                self.tubes.remove(&tube);
                self.callbacks.remove(&tube);
            }
            _ => {}
        }
        Ok(Answer::Done)
    }

    /// All of them or none.
    fn batch(&mut self, tube: u8, tasks: &[New], first: Serial) -> Expected {
        let (mut put, mut wrong, before) = (Vec::new(), Vec::new(), self.clone());
        for (serial, new) in (first..).zip(tasks) {
            match self.put(tube, new, serial) {
                Ok(Answer::Put(serial, found)) => put.push((serial, found)),
                Ok(other) => unreachable!("a put returns {other:?}"),
                Err(kinds) => wrong.extend(kinds),
            }
        }
        if !wrong.is_empty() {
            *self = before;
            return Err(wrong);
        }
        Ok(Answer::Batch(put))
    }

    /// Ends all leases on the tasks of a tube. A sweep may return them later.
    fn release_all(&mut self, no: u8) {
        let taken = |task: &&Task| task.tube == no && task.seen.state == State::Taken;
        let here: Vec<_> = self.tasks.values().filter(taken).map(|task| task.seen.serial).collect();
        for serial in &here {
            self.note_swept(*serial);
            let task = self.tasks.get_mut(serial).unwrap();
            task.seen.attempts = task.seen.attempts.saturating_sub(1);
            ready(task);
        }
        let tube = self.tubes.get_mut(&no).unwrap();
        tube.calls[Call::Release as usize] = None;
        tube.swept += here.len() as u64;
    }

    /// The task that a step names by its id.
    pub(super) fn one_of(
        &mut self,
        tube: u8,
        picked: Option<Serial>,
        is_searched: bool,
    ) -> Result<Serial, Vec<ErrorKind>> {
        let missing = Err(vec![ErrorKind::TaskNotFound]);
        let Some(task) = picked.and_then(|serial| self.tasks.get(&serial)) else { return missing };
        let (serial, home) = (task.seen.serial, task.tube);
        if home == tube {
            return Ok(serial);
        }
        if is_searched {
            // In its own tube, where it may be over by now.
            self.end_graces(&|tube| tube == home);
            self.work_off(home);
        }
        if self.tasks.contains_key(&serial) { Err(vec![ErrorKind::WrongTube]) } else { missing }
    }

    /// Taken away from their holders, all or none.
    fn time_out(&mut self, tube: u8, tasks: &[Serial]) -> Expected {
        for serial in tasks {
            let serial = self.one_of(tube, Some(*serial), true)?;
            if self.tasks[&serial].seen.state != State::Taken {
                return Err(vec![ErrorKind::WrongState]);
            }
        }
        let mut done = Vec::new();
        for serial in tasks {
            if done.contains(serial) {
                continue;
            }
            done.push(*serial);
            self.back += 1;
            self.note(*serial, HistoryEvent::ForcedOut, "", "");
            let task = self.tasks.get_mut(serial).unwrap();
            task.seen.attempts = task.seen.attempts.saturating_sub(1);
            ready(task);
            task.ahead = Some(self.back);
            self.count(tube, Call::Timeout);
        }
        Ok(Answer::Done)
    }

    /// A task that is gone is no error; a buried one has its end already.
    fn finish(&mut self, one: Result<Serial, Vec<ErrorKind>>, how: Finish) -> Expected {
        let fails = how == Finish::Fails;
        let serial = match one {
            Err(kinds) if kinds == [ErrorKind::TaskNotFound] => return Ok(Answer::Count(0)),
            one => one?,
        };
        let (task, now) = (&self.tasks[&serial], self.time.queue);
        let tube = task.tube;
        match task.seen.state {
            State::Done if !fails => return Ok(Answer::Count(0)),
            State::Buried | State::Done => return Err(vec![ErrorKind::WrongState]),
            _ if fails => {
                let group = failure_group(tube, 0);
                self.note(serial, HistoryEvent::Failed, &group, "any");
                let task = self.tasks.get_mut(&serial).unwrap();
                fail(task, "any", Some(group.clone()), now);
                bury(task, Reason::Failed { group, message: "any".into() }, now);
                self.end(serial);
                self.count(tube, Call::Bury);
            }
            _ => self.finish_task(serial, how == Finish::WithResult),
        }
        Ok(Answer::Count(1))
    }

    /// A task goes to the back of a tube. `step` is of a task in hand: whether its step has a
    /// result.
    pub(super) fn go(
        &mut self,
        serial: Serial,
        to: u8,
        delay: Option<u64>,
        priority: Option<i64>,
        step: Option<bool>,
    ) {
        let event = if step.is_some() { HistoryEvent::Advanced } else { HistoryEvent::Moved };
        self.note(serial, event, &tube_name(self.tasks[&serial].tube), "");
        let kept = match self.tasks[&serial].seen.state {
            State::Delayed => {
                let (left, task) = (self.wait_left(serial), self.tasks[&serial].clone());
                self.end_delay(serial);
                Some((left, task.seen.due, task.by_wall)).filter(|(left, ..)| *left > 0)
            }
            _ => None,
        };
        let queue = self.time.queue;
        let Opts { kind, priority: plain, .. } = self.tubes[&to].opts.clone();
        let (prioritised, timed, ..) = switches(kind);
        self.back += 1;
        let place = self.back;
        let task = self.tasks.get_mut(&serial).unwrap();
        let from = std::mem::replace(&mut task.tube, to);
        ready(task);
        (task.place, task.ahead) = (place, None);
        task.seen.attempts = 0;
        task.seen.priority =
            priority.unwrap_or(if prioritised { task.seen.priority } else { plain });
        task.ttl = if timed { task.life() } else { EVER };
        task.expires = queue.saturating_add(task.ttl);
        task.seen.ttr = task.seen.ttr.filter(|_| timed);
        task.backoff = task.backoff.filter(|_| timed);
        let named = task.lock.flatten();
        task.lock = (named.is_some() || shares(kind)).then_some(named);
        if let Some(with_result) = step {
            (task.seen.failure, task.seen.passed) = (None, with_result);
            (task.started, task.seen.progress, task.seen.checkpoint) = (None, None, None);
        }
        let later = match (kept.filter(|_| timed), delay.filter(|delay| *delay > 0)) {
            (Some(kept), _) => Some(kept),
            (None, Some(by)) => {
                let due = queue.saturating_add(by);
                Some((by, Some(due).filter(|due| *due != EVER), false))
            }
            (None, None) => None,
        };
        if let Some((left, due, by_wall)) = later {
            (task.seen.state, task.seen.due, task.by_wall) = (State::Delayed, due, by_wall);
            task.expires = task.expires.saturating_add(left);
        }
        self.count(from, if step.is_some() { Call::Advance } else { Call::Moved });
        self.count(to, Call::Moved);
    }

    /// Kicks tasks up to a number, and steps over those whose key another one has.
    fn kick_all(&mut self, serials: &[Serial], most: u64) -> Answer {
        let (mut kicked, mut clashes) = (0, Vec::new());
        for serial in serials {
            if kicked == most {
                break;
            }
            if self.clashes_as(*serial, State::Ready) {
                clashes.push(*serial);
            } else {
                self.kick(*serial);
                kicked += 1;
            }
        }
        Answer::Kicked(kicked, clashes)
    }

    fn kick(&mut self, serial: Serial) {
        self.note(serial, HistoryEvent::Kicked, "", "");
        self.revive(serial);
        let tube = self.tasks[&serial].tube;
        self.count(tube, Call::Kick);
    }

    /// The tasks of a failure group, those that were buried first.
    fn of_group(&self, tube: u8, group: u8) -> Vec<Serial> {
        let group = failure_group(tube, group);
        let stands = |task: &&Task| match &task.seen.reason {
            Some(Reason::Failed { group: of, .. } | Reason::Exhausted { group: of, .. }) => {
                *of == group
            }
            _ => false,
        };
        let mut here: Vec<_> = self.board(tube).filter(stands).collect();
        here.sort_by_key(|task| (task.buried, task.seen.serial));
        here.iter().map(|task| task.seen.serial).collect()
    }

    fn unfail_into(&mut self, tube: u8, group: u8, to: u8) -> Expected {
        if !self.tubes.contains_key(&to) {
            // Without a task to move there is nothing that needs it.
            let is_none = self.of_group(tube, group).is_empty();
            let nothing = Answer::Unfailed(0, Vec::new(), false);
            return if is_none { Ok(nothing) } else { Err(vec![ErrorKind::TubeNotFound]) };
        }
        let (mut moved, mut clashes, before) = (0, Vec::new(), self.clone());
        for serial in self.of_group(tube, group) {
            let wrong = self.go_refusals(serial, to, &New::default());
            if wrong.contains(&ErrorKind::Unsupported) {
                // So few are one step, of which nothing is done then.
                *self = before;
                return Err(wrong);
            }
            match wrong[..] {
                [] => {
                    self.go(serial, to, None, None, None);
                    moved += 1;
                }
                // A key that is taken is found before the room that there is not.
                [ErrorKind::KeyExists, ..] => clashes.push(serial),
                _ => return Ok(Answer::Unfailed(moved, clashes, true)),
            }
        }
        Ok(Answer::Unfailed(moved, clashes, false))
    }

    /// A buried task begins again.
    fn revive(&mut self, serial: Serial) {
        let (task, queue) = (self.tasks.get_mut(&serial).unwrap(), self.time.queue);
        task.seen.attempts = 0;
        if self.tubes[&task.tube].opts.spares && task.expires <= queue {
            task.expires = queue.saturating_add(task.life());
        }
        ready(task);
    }

    /// How long a delayed task still waits.
    pub(super) fn wait_left(&self, serial: Serial) -> u64 {
        let task = &self.tasks[&serial];
        let clock = if task.by_wall { self.time.wall_now() } else { self.time.queue };
        task.seen.due.map_or(EVER, |due| due.saturating_sub(clock))
    }

    /// A delay ends before its time: the rest of it is no longer added to the ttl. After the wall
    /// clock was set back the rest may be longer than the task lives; then the end stays.
    pub(super) fn end_delay(&mut self, serial: Serial) {
        let (left, queue) = (self.wait_left(serial), self.time.queue);
        let task = self.tasks.get_mut(&serial).unwrap();
        let expires = task.expires.saturating_sub(left);
        if task.expires != EVER && expires > queue {
            task.expires = expires;
        }
        ready(task);
    }

    /// The first task of a group that may be taken.
    fn first_of_group(&self, tube: u8, group: u8) -> Option<Serial> {
        let here = self.tasks.values().filter(|task| task.tube == tube);
        let here = here.filter(|task| task.lock == Some(Some(group)) && self.is_takeable(task));
        here.min_by_key(|task| self.rank(task)).map(|task| task.seen.serial)
    }

    /// Whether a gate of the tube is closed: as many of its tasks are taken as may be, or a
    /// condition is not set.
    pub(super) fn is_closed(&self, tube: u8) -> bool {
        let taken = |task: &&Task| task.tube == tube && task.seen.state == State::Taken;
        let Opts { limit, required, .. } = self.tubes[&tube].opts;
        let is_set = |no: u8| self.conditions.get(&no).is_some_and(|(is_set, _)| *is_set);
        let is_met = (0..).zip(required).all(|(no, is_required)| !is_required || is_set(no));
        !is_met || limit > 0 && self.tasks.values().filter(taken).count() as u64 >= limit
    }

    /// Whether its group lets it be taken out of turn: it has room, and a group of one at a time is
    /// taken in order.
    fn is_claimable(&self, task: &Task) -> bool {
        let Opts { in_flight, hold, .. } = self.tubes[&task.tube].opts;
        if matches!(task.seen.state, State::Taken | State::Done) || task.is_trashed() {
            return false;
        }
        let Some(lock) = task.lock else { return true };
        let own = usize::from(task.seen.state == State::Delayed && hold && task.held_back);
        let is_first = !self.tasks.values().any(|other| {
            other.tube == task.tube
                && other.lock == Some(lock)
                && other.seen.state == State::Ready
                && self.rank(other) < self.rank(task)
        });
        self.held(task.tube, lock) - own < in_flight as usize
            && (in_flight > 1 || own == 1 || is_first)
    }

    fn update(&mut self, serial: Serial, change: &Change) {
        let before = self.tasks[&serial].clone();
        let (queue, mono) = (self.time.queue, self.time.mono);
        let is_delayed = before.seen.state == State::Delayed;
        let kept = if is_delayed && !change.moves() { self.wait_left(serial) } else { 0 };
        if is_delayed && change.moves() {
            self.end_delay(serial);
        }
        let wall_now = self.time.wall_now();
        let wall_due = change.run_in.map(|by| (self.time.wall + by).max(0) as u64);
        let task = self.tasks.get_mut(&serial).unwrap();
        task.seen.priority = change.priority.unwrap_or(task.seen.priority);
        if change.priority.is_some() || change.moves() {
            task.ahead = None;
        }
        task.max_attempts = change.max_attempts.or(task.max_attempts);
        task.backoff = change.backoff.or(task.backoff);
        if let Some(ttl) = change.ttl {
            let expires = queue.saturating_add(ttl).saturating_add(kept);
            (task.ttl, task.expires) = (ttl, expires);
        }
        if let Some(ttr) = change.ttr {
            task.seen.ttr = Some(ttr).filter(|ttr| *ttr != EVER);
            // A lease of an earlier process waits for its consumer, without a deadline.
            let waits = task.holder.is_some() && task.lease.is_none() && task.deadline == EVER;
            if task.seen.state == State::Taken && !waits {
                (task.deadline, task.lapsed) = (mono.saturating_add(ttr), EVER);
            }
        }
        if change.moves() {
            let by_wall = wall_due.is_some_and(|due| due > wall_now);
            let delay = change.delay.unwrap_or(0);
            let due = if by_wall { wall_due } else { Some(queue.saturating_add(delay)) };
            let left = if by_wall { wall_due.unwrap_or(0) - wall_now } else { delay };
            if left > 0 {
                task.seen.state = State::Delayed;
                (task.seen.due, task.by_wall) = (due.filter(|due| *due != EVER), by_wall);
                task.held_back = is_delayed && before.held_back;
                task.expires = task.expires.saturating_add(left);
            }
        }
        let seen = |task: &Task| {
            let terms = (task.max_attempts, task.backoff);
            let lease = (task.deadline, task.lapsed, task.ahead);
            let life = (task.expires, task.life());
            (task.seen.clone(), life, task.by_wall, task.held_back, lease, terms)
        };
        let (is_same, tube) = (seen(task) == seen(&before), task.tube);
        if !is_same {
            self.count(tube, Call::Update);
        }
    }
}
