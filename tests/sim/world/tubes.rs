//! The verbs of a tube, run against the library.

use super::*;

/// An id that is never given.
const NO_TASK: TaskId = TaskId::new(u64::MAX - 1);

impl World {
    /// Takes from all tubes, one task alone or some in one call.
    pub(super) fn take_from(
        &mut self,
        best: bool,
        count: u8,
        first: LeaseNo,
    ) -> Verdict<Result<Answer>> {
        let made = self.queue().tubes_with_prefix(TUBES).expect("the prefix is plain");
        let tubes = self.several.entry(best).or_insert_with(|| match best {
            true => made.by_priority(),
            false => made.in_order(),
        });
        let taken = match count {
            1 => tubes.try_take().map(|task| task.into_iter().collect()),
            _ => tubes.take_many(usize::from(count)),
        };
        let tasks: Vec<_> = match taken {
            Ok(tasks) => tasks,
            Err(error) => return Ok(Err(error)),
        };
        let mut all = Vec::new();
        for (lease, task) in (first..).zip(tasks) {
            let named = self.tubes.iter().find(|(no, _)| tube_name(**no) == task.tube());
            let (no, tube) = named.map(|(no, tube)| (*no, tube.clone())).ok_or("no such tube")?;
            match self.took(no, &tube, vec![task], lease)? {
                Ok(Answer::Took(hands)) => all.extend(hands),
                other => return Ok(other),
            }
        }
        Ok(Ok(Answer::Took(all)))
    }

    pub(super) fn of_tube(&mut self, step: &Step, picked: &Picked) -> Verdict<Result<Answer>> {
        let done = |result: Result<()>| Ok(result.map(|()| Answer::Done));
        let (Step::Put { tube: no, .. }
        | Step::PutMany { tube: no, .. }
        | Step::Batch { tube: no, .. }
        | Step::PutAll { tube: no, .. }
        | Step::Take { tube: no }
        | Step::TakeMany { tube: no, .. }
        | Step::TakeGroup { tube: no, .. }
        | Step::Claim { tube: no, .. }
        | Step::Kick { tube: no, .. }
        | Step::Unfail { tube: no, .. }
        | Step::UnfailInto { tube: no, .. }
        | Step::Move { tube: no, .. }
        | Step::KickOne { tube: no, .. }
        | Step::BuryAny { tube: no, .. }
        | Step::LogAny { tube: no, .. }
        | Step::Tag { tube: no, .. }
        | Step::Track { tube: no, .. }
        | Step::TrashAny { tube: no, .. }
        | Step::Restore { tube: no, .. }
        | Step::EmptyTrash { tube: no }
        | Step::Delete { tube: no, .. }
        | Step::DeleteMany { tube: no, .. }
        | Step::Timeout { tube: no, .. }
        | Step::Finish { tube: no, .. }
        | Step::Update { tube: no, .. }
        | Step::Peek { tube: no, .. }
        | Step::PeekNext { tube: no, .. }
        | Step::TakeBy { tube: no, .. }
        | Step::Resume { tube: no, .. }
        | Step::TakeOver { tube: no }
        | Step::KickWhere { tube: no }
        | Step::ReleaseAll { tube: no }
        | Step::Truncate { tube: no }
        | Step::Pause { tube: no, .. }
        | Step::PauseOut { tube: no, .. }
        | Step::Tune { tube: no, .. }) = *step
        else {
            return Err(format!("no verb runs {step:?}"));
        };
        let Some(tube) = self.tubes.get(&no).cloned() else {
            return Ok(Ok(Answer::Refused(ErrorKind::TubeNotFound)));
        };
        // An id that never existed, if the step picked nothing.
        let id = picked.task.and_then(|serial| self.ids.get(&serial).copied());
        let id = id.unwrap_or(NO_TASK);
        match step {
            Step::Put { new, .. } => self.put(&tube, new, picked.serial),
            Step::PutMany { count, .. } => {
                let serials: Vec<_> = (0..u64::from(*count)).map(|at| picked.serial + at).collect();
                let payloads: Vec<_> = serials.iter().map(|serial| payload(*serial)).collect();
                match tube.put_many(payloads.iter().map(Vec::as_slice)) {
                    Ok(ids) if ids.len() == serials.len() => {
                        for (serial, id) in serials.iter().zip(ids) {
                            self.bind_new(*serial, id)?;
                        }
                        Ok(Ok(Answer::PutMany(serials)))
                    }
                    Ok(ids) => Err(format!("{count} put, {} ids", ids.len())),
                    Err(error) => Ok(Err(error)),
                }
            }
            Step::Batch { tasks, .. } => self.put_batch(&tube, tasks, picked.serial),
            Step::PutAll { count, .. } => {
                let serials: Vec<_> = (0..u64::from(*count)).map(|at| picked.serial + at).collect();
                let put = tube.put_all(serials.iter().map(|serial| payload(*serial)));
                let found = put.and_then(|put| {
                    // Its answer has no ids.
                    Ok((put, tube.tasks(State::Ready).collect::<Result<Vec<_>>>()?))
                });
                let (put, tasks) = match found {
                    Ok(found) => found,
                    Err(error) => return Ok(Err(error)),
                };
                for task in tasks {
                    let numbers = numbers_of(&task.payload);
                    if let Some((serial, 0)) = numbers.filter(|(put, _)| serials.contains(put)) {
                        self.bind_new(serial, task.id)?;
                    }
                }
                Ok(Ok(Answer::Count(put)))
            }
            Step::Take { .. } => match tube.try_take() {
                Ok(task) => self.took(no, &tube, task.into_iter().collect(), picked.lease),
                Err(error) => Ok(Err(error)),
            },
            Step::TakeMany { count, .. } => match tube.take_many(usize::from(*count)) {
                Ok(tasks) => self.took(no, &tube, tasks, picked.lease),
                Err(error) => Ok(Err(error)),
            },
            Step::TakeGroup { group, .. } => match tube.try_take_group(&group_name(*group)) {
                Ok(task) => self.took(no, &tube, task.into_iter().collect(), picked.lease),
                Err(error) => Ok(Err(error)),
            },
            Step::Claim { .. } => match tube.claim(id) {
                Ok(task) => self.took(no, &tube, vec![task], picked.lease),
                Err(error) => Ok(Err(error)),
            },
            Step::Kick { count, .. } => Ok(tube.kick(*count).map(|done| self.kicked(done))),
            Step::Move { to, given, brings, .. } => {
                let (to, texts) = (self.tubes[to].clone(), Texts::of(given, 0));
                let mut moving = moving(tube.move_to(id, &to), given, &texts);
                let serial = self.serials.get(&id).copied().unwrap_or_default();
                let bytes = payload_of(serial, picked.serial);
                if *brings {
                    moving = moving.payload(&bytes);
                }
                done(moving.apply())
            }
            Step::Unfail { group, .. } => {
                let group = failure_group(no, *group);
                Ok(tube.unfail(&group, EVER).map(|done| self.kicked(done)))
            }
            Step::UnfailInto { group, to, .. } => {
                let (group, to) = (failure_group(no, *group), self.tubes[to].clone());
                Ok(tube.unfail_into(&group, EVER, &to).map(|done| {
                    let clashes = done.clashes.iter().map(|id| self.serials[id]).collect();
                    Answer::Unfailed(done.moved, clashes, done.is_full)
                }))
            }
            Step::KickOne { .. } => done(tube.kick_task(id)),
            Step::BuryAny { .. } => done(tube.bury(id, "any")),
            Step::LogAny { .. } => done(tube.log(id, "any line")),
            Step::Tag { tags, is_added, .. } => {
                let tags: Vec<String> = tags.iter().copied().map(tag_name).collect();
                let tags: Vec<&str> = tags.iter().map(String::as_str).collect();
                let after = if *is_added { tube.tag(id, &tags) } else { tube.untag(id, &tags) };
                done(after.map(drop))
            }
            Step::Track { is_on, .. } => {
                let queue = self.queue();
                let did = if *is_on { queue.track(id) } else { queue.untrack(id) };
                Ok(did.map(|did| Answer::Count(did.into())))
            }
            Step::TrashAny { .. } => done(tube.trash(id, "any")),
            Step::Restore { .. } => done(tube.restore(id)),
            Step::EmptyTrash { .. } => Ok(tube.empty_trash().map(Answer::Count)),
            Step::Delete { only: Some(state), .. } => done(tube.delete_only_if(id, &[*state])),
            Step::Delete { .. } => done(tube.delete(id)),
            Step::DeleteMany { .. } => {
                let ids = picked.tasks.iter().filter_map(|serial| self.ids.get(serial).copied());
                Ok(tube.delete_many(&ids.collect::<Vec<_>>()).map(Answer::Count))
            }
            Step::Timeout { .. } => {
                // The id of a put without an answer is not known, and its task may be gone.
                let known = |serial| self.ids.get(serial).copied();
                let ids = picked.tasks.iter().map(|serial| known(serial).unwrap_or(NO_TASK));
                done(tube.force_timeout(&ids.collect::<Vec<_>>()))
            }
            Step::Finish { how, .. } => {
                let finished = match how {
                    Finish::Fails => tube.fail_by_id(id, "f", "any"),
                    Finish::WithResult => {
                        let result = self.serials.get(&id).map(|serial| result_of(*serial));
                        tube.complete_by_id_with(id, &result.unwrap_or_default())
                    }
                    Finish::Completes => tube.complete_by_id(id),
                };
                Ok(finished.map(|finished| Answer::Count(u64::from(finished))))
            }
            Step::Update { change, .. } => done(self.update(&tube, id, change)),
            Step::Peek { .. } => {
                match tube.peek(id).and_then(|info| self.look_beside(&info).map(|()| info)) {
                    Ok(info) => {
                        self.wait_for(&info)?;
                        Ok(Ok(Answer::Task(Box::new(self.seen(&info)?))))
                    }
                    Err(error) => Ok(Err(error)),
                }
            }
            Step::PeekNext { state, .. } => match tube.peek_next(*state).and_then(|info| {
                info.as_ref().map_or(Ok(()), |info| self.look_beside(info))?;
                Ok(info)
            }) {
                Ok(Some(info)) => Ok(Ok(Answer::Task(Box::new(self.seen(&info)?)))),
                Ok(None) => Ok(Ok(Answer::Nothing)),
                Err(error) => Ok(Err(error)),
            },
            Step::KickWhere { .. } => {
                let is_chosen = |task: &TaskSummary| matches!(task.reason, Some(Reason::Buried(_)));
                Ok(tube.kick_where(EVER, is_chosen).map(|done| self.kicked(done)))
            }
            Step::TakeBy { .. } | Step::Resume { .. } | Step::TakeOver { .. } => {
                let tasks = match (step, &self.adopted) {
                    (Step::Resume { who, .. }, _) => self.consumers[who].resume(&tube).collect(),
                    (Step::TakeBy { who, .. }, _) => tube
                        .by(&self.consumers[who])
                        .try_take()
                        .map(|task| task.into_iter().collect()),
                    (_, Some((.., adopted))) => adopted.tasks(&tube).collect(),
                    (_, None) => return Err("no session is adopted".into()),
                };
                let answer = match tasks {
                    Ok(tasks) => self.took(no, &tube, tasks, picked.lease)?,
                    Err(error) => return Ok(Err(error)),
                };
                for lease in picked.lease..picked.lease + LEASES_A_STEP {
                    if let Some(guard) = self.guard(Some(lease)) {
                        guard.split().1.detach();
                    }
                }
                Ok(answer)
            }
            Step::ReleaseAll { .. } => done(tube.release_all()),
            Step::Truncate { .. } => Ok(tube.truncate().map(Answer::Count)),
            Step::Tune { to, is_set, .. } => {
                let (name, value) = to.setting();
                match is_set {
                    true => done(tube.set(name, value)),
                    false => done(tube.unset(name).map(drop)),
                }
            }
            Step::PauseOut { length: micros, .. } => {
                let terms = PauseTerms::new().length(length(*micros)).time_out_running();
                done(tube.pause_with(terms))
            }
            Step::Pause { length: Some(EVER), .. } => done(tube.pause()),
            // Each second is by the time of its end.
            Step::Pause { length: Some(micros), .. } if micros % 2 == 1 => {
                done(tube.pause_until(self.wall_in(*micros as i64)))
            }
            Step::Pause { length: Some(micros), .. } => done(tube.pause_for(length(*micros))),
            _ => done(tube.resume()),
        }
    }

    /// A wait for the end of a task must find what a look at it does.
    fn wait_for(&mut self, info: &TaskInfo) -> Verdict<()> {
        let ended = match self.queue().wait_for(info.id, Duration::ZERO) {
            Ok(Some(Ended::Done(task) | Ended::Buried(task))) => Some(*task),
            Ok(Some(ended)) => return Err(format!("{ended:?} is at hand: {info:?}")),
            Ok(None) => None,
            Err(error) if is_trouble(error.kind()) => return Ok(()),
            Err(error) => return Err(format!("a wait for the end: {error}")),
        };
        let is_ended = matches!(info.state, State::Done | State::Buried);
        let ended = ended.map(|task| self.seen(&task)).transpose()?;
        let info = is_ended.then(|| self.seen(info)).transpose()?;
        if ended != info {
            return Err(format!("{ended:?} has ended, and is\n  {info:?}"));
        }
        Ok(())
    }

    fn kicked(&self, done: Kicked) -> Answer {
        Answer::Kicked(done.kicked, done.clashes.iter().map(|id| self.serials[id]).collect())
    }

    fn update(&self, tube: &Tube, id: TaskId, change: &Change) -> Result<()> {
        let mut update = tube.update(id);
        if let Some(priority) = change.priority {
            update = update.priority(priority);
        }
        if let Some(attempts) = change.max_attempts {
            update = update.max_attempts(attempts);
        }
        if let Some(waits) = change.backoff {
            update = update.backoff(backoff(waits));
        }
        if let Some(delay) = change.delay {
            update = update.delay(length(delay));
        }
        if let Some(by) = change.run_in {
            update = update.run_at(self.wall_in(by));
        }
        if let Some(ttl) = change.ttl {
            update = update.ttl(length(ttl));
        }
        if let Some(ttr) = change.ttr {
            update = update.ttr(length(ttr));
        }
        update.apply()
    }

    /// So many microseconds from the present wall clock.
    fn wall_in(&self, by: i64) -> std::time::SystemTime {
        let (length, wall) = (Duration::from_micros(by.unsigned_abs()), self.clock.wall());
        if by < 0 { wall - length } else { wall + length }
    }

    pub(super) fn put(
        &mut self,
        tube: &Tube,
        new: &New,
        serial: Serial,
    ) -> Verdict<Result<Answer>> {
        let texts = Texts::of(new, serial);
        let mut task = self.new_task(tube, new, &texts);
        if new.relaxed {
            task = task.durability(Durability::Relaxed);
        }
        Ok(match task.put_outcome() {
            Ok(put) => {
                let (serial, found) = self.bind_put(serial, &put)?;
                Ok(Answer::Put(serial, found))
            }
            Err(error) => Err(error),
        })
    }

    fn put_batch(&mut self, tube: &Tube, news: &[New], first: Serial) -> Verdict<Result<Answer>> {
        let texts = (first..).zip(news).map(|(serial, new)| Texts::of(new, serial));
        let texts: Vec<Texts> = texts.collect();
        let tasks = news.iter().zip(&texts).map(|(new, texts)| self.new_task(tube, new, texts));
        let put = match tube.batch_of(tasks.collect::<Vec<_>>()).put_outcomes() {
            Ok(put) if put.len() == news.len() => put,
            Ok(put) => return Err(format!("{} put, {} answers", news.len(), put.len())),
            Err(error) => return Ok(Err(error)),
        };
        let bound = (first..).zip(&put).map(|(serial, put)| self.bind_put(serial, put));
        Ok(Ok(Answer::Batch(bound.collect::<Verdict<_>>()?)))
    }

    pub(super) fn new_task<'a>(&self, tube: &'a Tube, new: &New, texts: &'a Texts) -> NewTask<'a> {
        let mut task = tube.task(&texts.payload);
        if let Some(priority) = new.priority {
            task = task.priority(priority);
        }
        if let Some(delay) = new.delay {
            task = task.delay(length(delay));
        }
        if let Some(by) = new.run_in {
            task = task.run_at(self.wall_in(by));
        }
        if let Some(ttl) = new.ttl {
            task = task.ttl(length(ttl));
        }
        if let Some(ttr) = new.ttr {
            task = task.ttr(length(ttr));
        }
        if let Some(attempts) = new.max_attempts {
            task = task.max_attempts(attempts);
        }
        if let Some(waits) = new.backoff {
            task = task.backoff(backoff(waits));
        }
        if let Some(group) = &texts.group {
            task = task.group(group);
        }
        for condition in &texts.requires {
            task = task.require(condition);
        }
        for throttle in &texts.throttles {
            task = task.throttle(throttle);
        }
        if let Some(kind) = &texts.kind {
            task = task.kind(kind);
        }
        if let Some(book) = &texts.book {
            task = task.book(book);
        }
        if let Some((name, text)) = &texts.detail {
            task = task.detail(name, text);
        }
        if !texts.tags.is_empty() {
            task = task.tags(texts.tags.iter().map(String::as_str));
        }
        if let Some(key) = &texts.key {
            task = task.key(key);
        }
        if new.must_exist {
            task = task.must_exist();
        }
        if new.front {
            task = task.front();
        }
        task.on_conflict(match new.conflict {
            OnConflict::Keep => Conflict::Keep,
            OnConflict::Reject => Conflict::Reject,
            OnConflict::Replace => Conflict::Replace,
            OnConflict::Debounce => Conflict::Debounce,
        })
    }

    /// The task that a put has answered, and whether it existed.
    pub(super) fn bind_put(&mut self, serial: Serial, put: &Put) -> Verdict<(Serial, Found)> {
        let found = match put.outcome {
            PutOutcome::Existing => Found::Existing,
            PutOutcome::Replaced => Found::Replaced,
            _ => Found::New,
        };
        match self.serials.get(&put.id) {
            Some(old) if found != Found::New => Ok((*old, found)),
            None if found == Found::Existing => {
                Err(format!("{:?} exists, but was never put", put.id))
            }
            // Also in the place of a finished task.
            _ => self.bind_new(serial, put.id).map(|()| (serial, found)),
        }
    }
}

/// The texts of a new task.
pub(super) struct Texts {
    payload: Vec<u8>,
    group: Option<String>,
    requires: Vec<String>,
    throttles: Vec<String>,
    kind: Option<String>,
    book: Option<String>,
    detail: Option<(String, String)>,
    tags: Vec<String>,
    key: Option<String>,
}

/// A move with what is given for it.
fn moving<'a>(mut moving: MoveTask<'a>, given: &New, texts: &'a Texts) -> MoveTask<'a> {
    if let Some(priority) = given.priority {
        moving = moving.priority(priority);
    }
    if let Some(key) = &texts.key {
        moving = moving.key(key);
    }
    if let Some(group) = &texts.group {
        moving = moving.group(group);
    }
    if let Some(kind) = &texts.kind {
        moving = moving.kind(kind);
    }
    if let Some(book) = &texts.book {
        moving = moving.book(book);
    }
    if let Some((name, text)) = &texts.detail {
        moving = moving.detail(name, text);
    }
    if !texts.tags.is_empty() {
        moving = moving.tags(texts.tags.iter().map(String::as_str));
    }
    for condition in &texts.requires {
        moving = moving.require(condition);
    }
    for throttle in &texts.throttles {
        moving = moving.throttle(throttle);
    }
    moving
}

impl Texts {
    pub(super) fn of(new: &New, serial: Serial) -> Self {
        let (requires, throttles) = new.gates.map(gate_names).unwrap_or_default();
        Self {
            payload: payload(serial),
            group: new.group.map(group_name),
            requires,
            throttles,
            kind: new.kind.map(kind_name),
            book: new.book.map(book_name),
            detail: new.detail.map(detail),
            tags: new.tags.iter().copied().map(tag_name).collect(),
            key: new.key.map(key_name),
        }
    }
}
