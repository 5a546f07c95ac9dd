//! What the library shows of itself: every task, every tube, and its own check.

use super::*;
use tubewell::{Filter, HistoryEntry, Phase, TubeKind};

/// The failure groups of a tube: how many tasks each counts, and which it lists.
type Groups = BTreeMap<String, (u64, BTreeSet<TaskId>)>;

/// A tube as it is listed.
type Listed = (u8, tubewell::TubeInfo, tubewell::TubeStats, Vec<TaskInfo>, Groups);

fn groups_of(tube: &Tube) -> Result<Groups> {
    let listed = |group: &str| tube.failed(group).map(|task| Ok(task?.id)).collect::<Result<_>>();
    let groups = tube.failure_groups()?.into_iter();
    groups.map(|group| Ok((group.group.clone(), (group.tasks, listed(&group.group)?)))).collect()
}

/// The same by the reasons of the tasks.
fn groups_by_reason(tasks: &[TaskInfo]) -> Groups {
    let mut groups = Groups::new();
    for task in tasks {
        if let Some(Reason::Failed { group, .. } | Reason::Exhausted { group, .. }) = &task.reason {
            let (count, listed) = groups.entry(group.clone()).or_default();
            *count += 1;
            listed.insert(task.id);
        }
    }
    groups
}

/// An entry of a history.
fn told(entry: &HistoryEntry) -> Told {
    Told {
        event: entry.event,
        at: since_epoch(entry.at),
        attempt: entry.attempt,
        by: entry.by.clone(),
        held: entry.held_for.map(|length| length.as_micros() as u64),
        place: entry.group.clone().or_else(|| entry.tube.clone()),
        text: entry.text.clone(),
        is_swept: false,
    }
}

/// A guard shows its task as the listing does, if it still holds it.
fn look_through(guard: &Task, info: &TaskInfo, history: &History) -> Result<()> {
    let left = match guard.time_left() {
        Err(error) if error.is_lease_lost() || error.is_not_found() => {
            assert!(guard.is_lost()?, "{info:?}");
            return Ok(());
        }
        left => left?,
    };
    if info.lease_left != Some(Duration::ZERO) {
        let of_both = [info.lease_left, info.ttl_left].into_iter().flatten().min();
        assert_eq!(left, of_both, "{info:?}");
    }
    assert!(!guard.is_lost()?, "{info:?}");
    assert_eq!((guard.passed()?, guard.details()?), (info.passed.clone(), info.details.clone()));
    let previous = guard.previous()?;
    assert!(previous.is_none_or(|it| history.entries.contains(&it)), "{history:?}");
    Ok(())
}

/// The next tasks are ready ones, each once: of each group, and of those with the same gates of
/// their own, at most one, and all others.
fn look_ahead(tube: &Tube, info: &tubewell::TubeInfo, ready: &[TaskInfo]) -> Result<()> {
    let ahead: Vec<_> = tube.peek_many(1000)?.into_iter().map(|task| task.id).collect();
    assert_eq!(ahead.first().copied(), tube.peek_next(State::Ready)?.map(|task| task.id));
    let found = ready.iter().filter(|task| ahead.contains(&task.id)).count();
    assert_eq!(found, ahead.len(), "{ahead:?} of {ready:?}");
    // All tasks of such a tube have a group.
    let shares = matches!(info.options.get_kind(), TubeKind::Utube | TubeKind::UtubeTtl);
    let mut lines = BTreeSet::new();
    for task in ready {
        let line = (&task.group, &task.requires, &task.throttles);
        let is_alone = !shares && line == (&None, &vec![], &vec![]);
        match ahead.contains(&task.id) {
            true => assert!(is_alone || lines.insert(line), "{task:?} in {ahead:?}"),
            false => assert!(!is_alone, "{task:?} not in {ahead:?}"),
        }
    }
    Ok(())
}

impl World {
    pub(super) fn seen(&mut self, info: &TaskInfo) -> Verdict<Seen> {
        let stripped = info.payload_dropped;
        let numbers = match self.serials.get(&info.id) {
            Some(serial) if stripped && info.payload.is_empty() => Some((*serial, 0)),
            _ => self.numbers(info.id, &info.payload),
        };
        let (serial, edition) = numbers.ok_or(format!("{:?} is altered", info.id))?;
        self.bind(serial, info.id)?;
        if !stripped && (info.payload_generation > 0) != (edition > 0) {
            return Err(format!("{:?} is of generation {}", info.id, info.payload_generation));
        }
        let micros = |length: Duration| length.as_micros() as u64;
        let results = [&info.passed, &info.result].into_iter().flatten();
        // What a step has passed on stays with a task in the place of a finished one.
        let is_of = |result: &Vec<u8>| {
            *result == result_of(serial)
                || self.serials.values().any(|it| *result == result_of(*it))
        };
        if !results.into_iter().all(is_of) {
            return Err(format!("{:?} has another result", info.id));
        }
        let history = self.histories.get(&info.id).cloned().unwrap_or_default();
        Ok(Seen {
            serial,
            edition,
            stripped,
            history: history.entries.iter().map(told).collect(),
            dropped: history.dropped,
            started: matches!(info.phase, Some(Phase::Started { .. })),
            progress: info.progress.as_ref().map(|progress| progress.percent),
            checkpoint: self.checkpoints.get(&info.id).copied().flatten(),
            passed: info.passed.is_some(),
            finished: info.finished.map(since_epoch),
            result: info.result.is_some(),
            state: info.state,
            priority: info.priority,
            group: info.group.clone(),
            requires: info.requires.clone(),
            throttles: info.throttles.clone(),
            key: info.key.clone(),
            kind: info.kind.clone(),
            book: info.book.clone(),
            details: info.details.clone(),
            tags: info.tags.clone(),
            tracked: info.tracked,
            created: since_epoch(info.created),
            due: info.due.map(since_epoch),
            ttl_left: info.ttl_left.map(micros),
            ttr: info.ttr.map(micros),
            lease_left: info.lease_left.map(micros),
            grace_left: info.grace_left.map(micros),
            deliveries: info.deliveries,
            attempts: info.attempts,
            max_attempts: info.max_attempts,
            releases: info.releases,
            buries: info.buries,
            reason: info.reason.clone(),
            failure: info.last_failure.as_ref().map(|failure| {
                let at = failure.at.map_or(EVER, since_epoch);
                (failure.message.clone(), failure.group.clone(), at, failure.by.clone())
            }),
        })
    }

    /// Reads the history of a task and its checkpoint.
    pub(super) fn look_beside(&mut self, info: &TaskInfo) -> Result<()> {
        let id = info.id;
        let found = self.queue().find(id)?;
        let of = |task: &TaskInfo| (task.tube.clone(), task.state, task.payload.clone());
        assert_eq!((found.id, of(&found)), (id, of(info)));
        let history = self.queue().history(id)?;
        let guards = self.leases.values().filter_map(|lease| lease.guard.as_ref());
        for guard in guards.filter(|guard| guard.id() == id) {
            look_through(guard, info, &history)?;
        }
        let checkpoint = self.queue().tube(&info.tube)?.last_checkpoint(id)?;
        self.checkpoints.insert(id, checkpoint.map(|state| state.len() as u8));
        self.histories.insert(id, history);
        Ok(())
    }

    /// Everything that is visible, after the due work was done. The queue's own check must find
    /// nothing.
    pub fn look(&mut self) -> Verdict<Result<Sight>> {
        let listing =
            self.listing().and_then(|listing| Ok((listing, self.queue().taken()?, self.own()?)));
        let listing = listing.and_then(|listing| {
            self.look_at_holders(&listing.1)?;
            Ok(listing)
        });
        let durable_bytes = self.queue().space().map(|space| space.durable_bytes);
        let gates = self.conditions().and_then(|conditions| Ok((conditions, self.throttle()?)));
        let tags = self.tags().and_then(|tags| Ok((tags, self.tracked()?, gates?)));
        match listing.and_then(|listing| Ok((listing, durable_bytes?, tags?))) {
            Ok((
                ((names, tubes), taken, own),
                durable_bytes,
                ((tagged, top_tags), tracked, (conditions, throttle)),
            )) => {
                let mut seen = Vec::new();
                for (no, info, stats, tasks, groups) in tubes {
                    let by_reason = groups_by_reason(&tasks);
                    if groups != by_reason {
                        return Err(format!("tube {no} lists {groups:?}, not {by_reason:?}"));
                    }
                    let mut tube = self.seen_tube(no, &info, &stats, &tasks)?;
                    for taken in taken.iter().filter(|taken| taken.tube == tube_name(no)) {
                        let Some(holder) = taken.holder.clone() else { continue };
                        tube.holders.insert(self.serials[&taken.id], holder);
                    }
                    seen.push(tube);
                }
                if names.len() != seen.len() + 1 {
                    return Err(format!("tubes {names:?}, but {} are known", seen.len()));
                }
                let serial = |id: TaskId| self.serials[&id];
                let tagged = tagged
                    .into_iter()
                    .map(|(tag, ids)| (tag, ids.into_iter().map(serial).collect()))
                    .collect();
                // A repeated put may have got a lower serial than its id.
                let mut tracked: Vec<_> =
                    tracked.into_iter().map(|(id, is_there)| (serial(id), is_there)).collect();
                tracked.sort_unstable();
                let tubes = seen;
                let callbacks = self.callbacks.kept();
                Ok(Ok(Sight {
                    callbacks,
                    tubes,
                    own,
                    durable_bytes,
                    tagged,
                    top_tags,
                    tracked,
                    conditions,
                    throttle,
                }))
            }
            Err(error) => Ok(Err(error)),
        }
    }

    /// The tasks of each tag, and the tags of two or more. Each is counted as it is listed.
    fn tags(&mut self) -> Result<Tagged<TaskId>> {
        let mut tagged = BTreeMap::new();
        for tag in (0..TAGS).map(tag_name) {
            let ids = self.queue().tagged(&tag).map(|task| Ok(task?.id));
            let ids: Vec<TaskId> = ids.collect::<Result<_>>()?;
            assert_eq!(self.queue().tag_count(&tag)?, ids.len() as u64, "{tag}: {ids:?}");
            if !ids.is_empty() {
                if tag == tag_name(0) {
                    self.search_tag(&tag, &ids)?;
                }
                tagged.insert(tag, ids);
            }
        }
        let top = self.queue().top_tags().map(|top| top.map(|top| (top.tag, top.tasks)));
        Ok((tagged, top.collect::<Result<_>>()?))
    }

    /// The conditions that are declared. Each is as a look at it alone says.
    fn conditions(&mut self) -> Result<BTreeMap<String, (bool, bool)>> {
        let all = self.queue().conditions()?;
        for condition in &all {
            assert_eq!(self.queue().condition(&condition.name)?, condition.is_set);
        }
        Ok(all.into_iter().map(|it| (it.name, (it.is_set, it.is_stored))).collect())
    }

    /// The limit of the throttle. As many tasks hold a slot of it as are counted.
    fn throttle(&mut self) -> Result<Option<u64>> {
        let all = self.queue().throttles()?;
        let throttle = self.queue().throttle(THROTTLE)?;
        let listed = all.into_iter().find(|throttle| throttle.name == THROTTLE);
        assert_eq!(format!("{throttle:?}"), format!("{listed:?}"));
        let Some(throttle) = throttle else { return Ok(None) };
        let held = self.queue().throttle_holders(THROTTLE).collect::<Result<Vec<_>>>()?;
        assert_eq!(held.len() as u64, throttle.in_flight);
        Ok(Some(throttle.limit))
    }

    /// The tasks of each consumer are listed as they are among all that are taken.
    fn look_at_holders(&mut self, taken: &[tubewell::TakenInfo]) -> Result<()> {
        for name in (0..5).map(consumer_name) {
            let held = taken.iter().filter(|taken| taken.holder.as_deref() == Some(&name));
            let mut held: Vec<_> = held.map(|taken| taken.id).collect();
            let listed = self.queue().taken_by(&name)?.map(|taken| Ok(taken?.id));
            let mut listed = listed.collect::<Result<Vec<_>>>()?;
            held.sort_unstable();
            listed.sort_unstable();
            assert_eq!(listed, held, "{name}");
        }
        Ok(())
    }

    /// The tracked ids, each with whether there is a task.
    fn tracked(&mut self) -> Result<Vec<(TaskId, bool)>> {
        let tracked = self.queue().tracked();
        tracked.map(|it| it.map(|it| (it.id, it.task.is_some()))).collect()
    }

    /// A search by a tag finds in the tubes those that its listing has.
    fn search_tag(&mut self, tag: &str, tagged: &[TaskId]) -> Result<()> {
        let mut found = Vec::new();
        for (name, trashed) in
            self.queue().tubes()?.iter().flat_map(|name| [(name, false), (name, true)])
        {
            let (tube, filter) =
                (self.queue().tube(name)?, Filter::new().tag(tag).trashed(trashed));
            let mut from = None;
            loop {
                let page = tube.search(&filter, from.as_ref(), 8)?;
                found.extend(page.tasks.iter().map(|task| task.id));
                from = page.next;
                if from.is_none() {
                    break;
                }
            }
        }
        found.sort_unstable();
        let mut tagged = tagged.to_vec();
        tagged.sort_unstable();
        assert_eq!(found, tagged, "a search by {tag}");
        Ok(())
    }

    fn listing(&mut self) -> Result<(Vec<String>, Vec<Listed>)> {
        let ticked = self.queue().tick();
        self.callbacks.forget_calls();
        ticked?;
        let names = self.queue().tubes()?;
        let mut tubes = Vec::new();
        for no in 0..8 {
            let Some(tube) = self.queue().find_tube(&tube_name(no))? else { continue };
            let mut tasks = Vec::new();
            for state in [State::Delayed, State::Ready, State::Taken, State::Buried, State::Done] {
                let listed = tube.tasks(state).collect::<Result<Vec<_>>>()?;
                let summaries = tube.summaries(state).collect::<Result<Vec<_>>>()?;
                let own: Vec<_> = listed.iter().map(|task| &task.summary).collect();
                assert_eq!(format!("{own:?}"), format!("{summaries:?}"));
                let ids = listed.iter().map(|task| task.id);
                let found = self.queue().find_many(ids).collect::<Result<Vec<_>>>()?;
                assert!(found.iter().map(|task| task.id).eq(listed.iter().map(|task| task.id)));
                tasks.extend(listed);
            }
            let done = tasks.iter().filter(|task| task.state == State::Done);
            let mut done: Vec<_> = done.map(|task| (task.finished, task.id)).collect();
            done.sort_unstable();
            let newest = tube.finished().map(|task| task.map(|task| (task.finished, task.id)));
            let newest: Vec<_> = newest.collect::<Result<_>>()?;
            assert!(newest.iter().rev().eq(&done), "{newest:?} are listed, and {done:?} finished");
            let ready = tasks.iter().filter(|task| task.state == State::Ready);
            let info = tube.info()?;
            look_ahead(&tube, &info, &ready.cloned().collect::<Vec<_>>())?;
            // A wait takes nothing, and ends at once only if there is one.
            let next = tube.peek_next(State::Ready)?;
            assert!(!tube.wait_ready(Duration::ZERO)? || next.is_some(), "{next:?}");
            for task in tube.trashed() {
                tasks.push(tube.peek(task?.id)?);
            }
            tasks.iter().try_for_each(|task| self.look_beside(task))?;
            tubes.push((no, info, tube.stats()?, tasks, groups_of(&tube)?));
        }
        let infos: Vec<_> = tubes.iter().map(|(_, info, ..)| info).collect();
        self.look_over(&infos)?;
        Ok((names, tubes))
    }

    /// The overview shows each tube as a look at it alone does, and so do the lists of what stands
    /// before a condition or the throttle.
    fn look_over(&mut self, infos: &[&tubewell::TubeInfo]) -> Result<()> {
        let text = |info: &tubewell::TubeInfo| format!("{info:?}");
        let of = |name: &str| infos.iter().find(|info| info.name == name);
        let mut all = self.queue().overview()?;
        all.retain(|info| of(&info.name).is_some());
        all.sort_by(|one, next| one.name.cmp(&next.name));
        let mut each: Vec<_> = infos.iter().map(|info| text(info)).collect();
        each.sort_unstable();
        assert_eq!(all.iter().map(text).collect::<Vec<_>>(), each);
        let conditions = (0..CONDITIONS).map(condition_name);
        let conditions: Vec<_> = conditions.map(|name| self.queue().requiring(&name)).collect();
        for behind in conditions.into_iter().chain([self.queue().throttled(THROTTLE)]) {
            for tube in behind {
                let (name, ready) = tube?;
                let known = of(&name).map(|info| info.stats.ready);
                assert!(known.is_none_or(|known| known == ready), "{name}: {ready}, {known:?}");
            }
        }
        Ok(())
    }

    fn seen_tube(
        &mut self,
        no: u8,
        info: &tubewell::TubeInfo,
        stats: &tubewell::TubeStats,
        tasks: &[TaskInfo],
    ) -> Verdict<SeenTube> {
        let is_trashed = |task: &&TaskInfo| matches!(task.reason, Some(Reason::Trashed(_)));
        let trashed = tasks.iter().filter(is_trashed).count() as u64;
        let here = || tasks.iter().filter(|task| !is_trashed(task));
        let count = |state| here().filter(|task| task.state == state).count() as u64;
        let counted = [
            count(State::Ready),
            count(State::Delayed),
            count(State::Taken),
            count(State::Buried),
            here().count() as u64 - count(State::Done),
            trashed,
            count(State::Done),
        ];
        let by_state = [stats.ready, stats.delayed, stats.taken, stats.buried];
        let others = [stats.total, stats.trashed, stats.finished];
        let reported = [&by_state[..], &others].concat();
        if reported != counted {
            return Err(format!("tube {no} reports {reported:?} and holds {counted:?}"));
        }
        let delayed = tasks.iter().filter(|task| task.state == State::Delayed);
        if !delayed.map(|task| task.delay_left.unwrap_or(Duration::MAX)).is_sorted() {
            return Err(format!("tube {no} lists its delayed tasks in another order"));
        }
        let taken = tasks.iter().filter(|task| task.state == State::Taken);
        let end = |task: &TaskInfo| task.grace_left.or(task.lease_left).unwrap_or(Duration::MAX);
        if !taken.map(end).is_sorted() {
            return Err(format!("tube {no} lists its taken tasks in another order"));
        }
        let calls = &stats.calls;
        let calls = [
            calls.put,
            calls.take,
            calls.touch,
            calls.ack,
            calls.release,
            calls.retry,
            calls.bury,
            calls.kick,
            calls.delete,
            calls.update,
            calls.delay,
            calls.ttl,
            calls.ttr,
            calls.stall,
            calls.timeout,
            calls.lost,
            calls.advance,
            calls.moved,
            calls.retention,
            calls.trash,
            calls.restore,
        ];
        let tasks = tasks.iter().map(|task| self.seen(task)).collect::<Verdict<Vec<_>>>()?;
        Ok(SeenTube {
            tube: no,
            options: info.options.clone(),
            pause: info
                .paused
                .then(|| info.pause_left.map_or(EVER, |left| left.as_micros() as u64)),
            tasks,
            holders: BTreeMap::new(),
            calls: calls.map(Some),
            done: Some(stats.done),
        })
    }

    /// The queue's own check, which reads both files.
    pub fn check(&self) -> Verdict<Result<()>> {
        match self.queue().check() {
            Ok(lines) if lines.is_empty() => Ok(Ok(())),
            Ok(lines) => Err(format!("check: {}", lines.join("; "))),
            Err(error) => Ok(Err(error)),
        }
    }
}
