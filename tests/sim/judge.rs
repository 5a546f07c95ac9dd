//! Compares the library's results with the model. It does not depend on the source of the steps.
//!
//! Without a failure there is one history, and each result must be the model's. Around a crash
//! there are several: the queue may be as it was after any step since the last one that is known to
//! be on the medium, and the step without a result may or may not have happened. The queue after
//! the next opening must equal one of these, which is the history from then on.

use crate::model::Model;
use crate::step::*;
use crate::world::Verdict;
use tubewell::Durability;

/// A step that returns no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Silent {
    /// Guards were dropped. Their returns were refused.
    Drop,
    /// A session was ended, which is several commits.
    Session,
}

pub struct Judge {
    /// The histories that explain the observations. Two states may look the same and differ in
    /// something invisible, such as the end of a grace: then both are followed until they differ.
    lines: Vec<Line>,
}

#[derive(Clone)]
struct Line {
    durability: Durability,
    /// Whether the process can end and the queue be opened again.
    has_disk: bool,
    /// The queue after each step since the last durable one. The last is the present.
    past: Vec<Model>,
    /// A step that was interrupted, as if it had happened.
    cut_off: Vec<Model>,
    /// Some of the page cache may be lost.
    lost_cache: bool,
    /// Where in the past a running checkpoint was begun.
    frozen: Option<usize>,
    /// The queue after each of several drops except the last, if they worked.
    between: Vec<Model>,
}

impl Judge {
    pub fn new(model: Model, durability: Durability, has_disk: bool) -> Self {
        Self { lines: vec![Line::new(model, durability, has_disk)] }
    }

    pub fn now(&self) -> &Model {
        self.lines[0].now()
    }

    /// Continues with the histories that agree; at least one must.
    fn agree(&mut self, agrees: impl Fn(&mut Line) -> Verdict<()>) -> Verdict<()> {
        let mut refusal = None;
        self.lines.retain_mut(|line| {
            let verdict = agrees(line);
            let stays = verdict.is_ok();
            refusal = refusal.take().or(verdict.err());
            stays
        });
        if self.lines.is_empty() { Err(refusal.unwrap_or_default()) } else { Ok(()) }
    }

    /// A step returned a result.
    pub fn answered(&mut self, step: &Step, picked: &Picked, answer: &Answer) -> Verdict<()> {
        self.agree(|line| line.answered(step, picked, answer))
    }

    /// A step returned no result, or an unknown outcome; reopening decides.
    pub fn unanswered(&mut self, step: &Step, picked: &Picked) {
        self.lines.iter_mut().for_each(|line| line.unanswered(step, picked));
    }

    /// A verdict was refused and consumed its guards: their drop may have returned the tasks.
    pub fn dropped(&mut self, guards: &[LeaseNo]) {
        self.lines.iter_mut().for_each(|line| line.dropped(guards));
    }

    /// The visible state of a running queue: refused calls did not happen.
    pub fn looked(&mut self, seen: &Sight) -> Verdict<()> {
        self.agree(|line| line.looked(seen))
    }

    /// The same after a step without a result, or one that may have stopped half-way.
    pub fn looked_either(&mut self, seen: &Sight, how: Silent) -> Verdict<()> {
        let lines = std::mem::take(&mut self.lines);
        self.follow(lines.into_iter().map(|line| line.looked_either(seen, how)).collect())
    }

    /// Continues with all histories of all lines, while they may differ.
    fn follow(&mut self, verdicts: Vec<Verdict<Vec<Line>>>) -> Verdict<()> {
        let mut refusal = None;
        for verdict in verdicts {
            match verdict {
                Ok(all) => {
                    for line in all {
                        if self.lines.iter().all(|other| !other.now().is_like(line.now())) {
                            self.lines.push(line);
                        }
                    }
                }
                Err(why) => refusal = refusal.or(Some(why)),
            }
        }
        if self.lines.is_empty() { Err(refusal.unwrap_or_default()) } else { Ok(()) }
    }

    /// The queue ended.
    pub fn ended(&mut self, end: End) {
        self.lines.iter_mut().for_each(|line| line.ended(end));
    }

    /// Time passes while no process is there to read a clock.
    pub fn turned(&mut self, turn: &Turn) {
        self.lines.iter_mut().for_each(|line| line.turned(turn));
    }

    /// The queue was closed, and the close returned.
    pub fn closed(&mut self) {
        self.lines.iter_mut().for_each(Line::closed);
    }

    /// The queue was opened again, possibly in several attempts, and shows this.
    pub fn reopened(
        &mut self,
        seen: &Sight,
        in_one_go: bool,
        knows: impl Fn(LeaseNo) -> bool,
    ) -> Verdict<()> {
        let lines = std::mem::take(&mut self.lines);
        let after = |line: Line| line.reopened(seen, in_one_go, &knows);
        self.follow(lines.into_iter().map(after).collect())?;
        // Only what all of them know can be asked.
        for at in 1..self.lines.len() {
            let (first, rest) = self.lines.split_at_mut(at);
            let (first, other) = (first[0].now_mut(), rest[0].now_mut());
            first.forget(|lease| other.knows(lease));
        }
        for at in 1..self.lines.len() {
            let (first, rest) = self.lines.split_at_mut(at);
            rest[0].now_mut().forget(|lease| first[0].now().knows(lease));
        }
        Ok(())
    }
}

impl Line {
    fn new(model: Model, durability: Durability, has_disk: bool) -> Self {
        let (past, cut_off) = (vec![model], Vec::new());
        let between = Vec::new();
        Self { durability, has_disk, past, cut_off, lost_cache: false, frozen: None, between }
    }

    fn now(&self) -> &Model {
        self.past.last().expect("there is always a present state")
    }

    fn now_mut(&mut self) -> &mut Model {
        self.past.last_mut().expect("there is always a present state")
    }

    /// A step returned a result.
    fn answered(&mut self, step: &Step, picked: &Picked, answer: &Answer) -> Verdict<()> {
        let mut after = self.now().clone();
        let expected = after.apply(step, picked);
        if !agrees(&expected, answer) {
            return Err(format!("{step:?} answered\n  {answer:?}, expected\n  {expected:?}"));
        }
        // A temporary tube writes nothing to the disk, so there was nothing to wait for.
        if !self.has_disk {
            *self.now_mut() = after;
            return Ok(());
        }
        let waited = is_durable(step, self.durability) && !after.is_temporary(step, picked);
        // Without a task to kick there is nothing to write.
        let is_idle = matches!((step, answer), (Step::KickWhere { .. }, Answer::Kicked(0, _)));
        if waited && !is_idle && !matches!(answer, Answer::Refused(_)) {
            self.past.clear();
            self.frozen = self.frozen.map(|_| 0);
        } else {
            let halves = self.half_way(step, picked);
            self.past.extend(halves);
        }
        match step {
            Step::BeginCheckpoint { .. } => self.frozen = Some(self.past.len()),
            // Writes during the checkpoint are not in it.
            Step::EndCheckpoint => drop(self.past.drain(..self.frozen.take().unwrap_or(0))),
            _ => {}
        }
        self.past.push(after);
        Ok(())
    }

    /// The queue in the middle of a step of several commits: due work is done before an op, a tube
    /// at a time, and a consumer leaves before its tasks return.
    fn half_way(&self, step: &Step, picked: &Picked) -> Vec<Model> {
        let due = self.now().due_before(step, picked);
        let mut halves = Vec::new();
        for some in 1..1u32 << due.len() {
            let mut half = self.now().clone();
            let worked = due.iter().enumerate().filter(|(at, _)| some >> at & 1 == 1);
            half.work_off_these(step, picked, worked.map(|(_, tube)| *tube));
            halves.push(half);
        }
        if let Step::CloseConsumer { who } | Step::Leave { who } | Step::Deregister { who } = step
            && self.now().has_session(*who)
        {
            let mut half = self.now().clone();
            match step {
                Step::Leave { .. } => half.leave(*who),
                _ => half.leave_at_once(*who),
            }
            halves.push(half);
        }
        halves
    }

    /// The disk refused a step: nothing happened, except work that was due anyway.
    fn refused(&mut self, step: &Step, picked: &Picked) {
        let halves = self.half_way(step, picked);
        self.cut_off.extend(halves);
        let mut after = self.now().clone();
        if after.apply(step, picked).is_ok() {
            self.cut_off.push(after);
        }
    }

    /// A step returned no result, or an unknown outcome; reopening decides.
    fn unanswered(&mut self, step: &Step, picked: &Picked) {
        self.refused(step, picked);
        if let Step::Clock(turn) = step {
            // The clocks did move.
            self.now_mut().time.turn(turn);
        }
    }

    /// The visible state of a running queue: refused calls did not happen.
    /// The look does what is due, which a power cut may lose while what was before it stays.
    fn looked(&mut self, seen: &Sight) -> Verdict<()> {
        let mut after = self.now().clone();
        after.work_off_all();
        same(&after.look(), seen)?;
        self.cut_off.clear();
        let halves = self.half_way(&Step::Look, &Picked::default());
        match self.has_disk && !halves.is_empty() {
            true => self.past.extend(halves.into_iter().chain([after])),
            false => *self.now_mut() = after,
        }
        Ok(())
    }

    /// A verdict was refused and consumed its guards: their drop may have returned the tasks.
    fn dropped(&mut self, guards: &[LeaseNo]) {
        let mut after = self.now().clone();
        for lease in guards {
            let picked = Picked { leases: vec![*lease], ..Picked::default() };
            // A drop returns no result.
            let _ = after.apply(&Step::DropGuard { lease: 0 }, &picked);
            self.between.push(after.clone());
        }
        self.between.pop();
        self.cut_off.push(after);
    }

    /// The same after a step without a result, or one that may have stopped half-way: the histories
    /// that are possible.
    fn looked_either(mut self, seen: &Sight, how: Silent) -> Verdict<Vec<Self>> {
        let mut cut_off = std::mem::take(&mut self.cut_off);
        let between = std::mem::take(&mut self.between);
        if how == Silent::Drop {
            cut_off.drain(..cut_off.len().saturating_sub(1));
        }
        // A power cut may lose the returns of a session and keep its end.
        let begun = if how == Silent::Session { cut_off.clone() } else { Vec::new() };
        let mut lines = Vec::new();
        for mut other in cut_off.into_iter().rev() {
            other.work_off_all();
            if same(&other.look(), seen).is_ok() {
                let mut line = self.clone();
                line.past.extend(between.iter().cloned());
                line.past.extend(begun.iter().cloned());
                line.past.push(other);
                lines.push(line);
            }
        }
        let refusal = self.looked(seen).err();
        lines.extend(refusal.is_none().then_some(self));
        match refusal {
            Some(why) if lines.is_empty() => Err(why),
            _ => Ok(lines),
        }
    }

    /// The queue ended.
    fn ended(&mut self, end: End) {
        self.lost_cache |= end == End::Cut;
        if end == End::Close {
            // An interrupted close has returned the leases, tube by tube, or has not.
            for tubes in 1..16u8 {
                let mut closed = self.now().clone();
                closed.give_back_all(|tube| tubes >> tube & 1 == 1);
                self.cut_off.push(closed);
            }
        }
    }

    /// Time passes while no process is there to read a clock.
    fn turned(&mut self, turn: &Turn) {
        self.now_mut().time.turn(turn);
    }

    /// The queue was closed, and the close returned.
    fn closed(&mut self) {
        let mut closed = self.now().clone();
        closed.close();
        (self.past, self.cut_off) = (vec![closed], Vec::new());
    }

    /// The queue was opened again and shows this: the histories that are possible.
    fn reopened(
        mut self,
        seen: &Sight,
        in_one_go: bool,
        knows: impl Fn(LeaseNo) -> bool,
    ) -> Verdict<Vec<Self>> {
        let time = self.now().time.clone();
        let past = std::mem::take(&mut self.past);
        let from = if self.lost_cache { 0 } else { past.len() - 1 };
        let cut_off = std::mem::take(&mut self.cut_off);
        (self.lost_cache, self.frozen) = (false, None);
        self.between.clear();
        let (mut lines, mut reasons) = (Vec::new(), Vec::new());
        // The latest first: if two look the same, more is known of the later one.
        for mut model in past.into_iter().skip(from).chain(cut_off).rev() {
            let mut before = model.clone();
            model.come_back(time.clone());
            model.work_off_all();
            // Due work, or work left to a sweep, may be done before the crash or after it.
            model.count_again(&seen.tubes, &[Call::Delay, Call::Ttl, Call::Retention]);
            model.count_within(&seen.tubes, &[Call::Release]);
            // An interrupted opening or step may have returned some of the leases.
            if !in_one_go || before.has_lapsed(&time) {
                model.count_again(&seen.tubes, &[Call::Lost]);
            }
            match same(&model.look(), seen) {
                Ok(()) => {
                    model.forget(&knows);
                    before.forget(&knows);
                    // What an opening returns is not on the medium yet.
                    self.past.push(before);
                    lines.push(Self { past: vec![model], ..self.clone() });
                }
                Err(why) => reasons.push(why),
            }
        }
        // Many consecutive states may differ in the same way.
        reasons.dedup();
        if lines.is_empty() {
            return Err(format!(
                "no state before the opening matches; compared, latest first:\n{}",
                reasons.join("\n")
            ));
        }
        for line in &mut lines {
            line.past.splice(..0, self.past.iter().cloned());
        }
        Ok(lines)
    }
}

/// Whether a step that was answered is on the medium.
fn is_durable(step: &Step, durability: Durability) -> bool {
    match step {
        Step::Flush
        | Step::Checkpoint
        | Step::Compact
        | Step::Transact { .. }
        | Step::Reopen(End::Close) => true,
        Step::Put { new, .. } => durability == Durability::Durable && !new.relaxed,
        Step::PutMany { .. }
        | Step::Batch { .. }
        | Step::PutAll { .. }
        | Step::Ack { .. }
        | Step::AckWith { .. }
        | Step::Bury { .. }
        | Step::Fail { .. }
        | Step::Trash { .. }
        | Step::Bring { .. }
        | Step::Advance { .. }
        | Step::Move { .. }
        | Step::Retry { .. }
        | Step::Kick { .. }
        | Step::Unfail { .. }
        | Step::UnfailInto { .. }
        | Step::KickOne { .. }
        | Step::KickWhere { .. }
        | Step::BuryAny { .. }
        | Step::Tag { .. }
        | Step::Track { .. }
        | Step::TrashAny { .. }
        | Step::Restore { .. }
        | Step::EmptyTrash { .. }
        | Step::Delete { .. }
        | Step::DeleteMany { .. }
        | Step::Timeout { .. }
        | Step::Finish { .. }
        | Step::Update { .. }
        | Step::Truncate { .. }
        | Step::Tune { .. }
        | Step::Condition { to: Some(_), is_stored: true, .. }
        | Step::Throttle { limit: Some(_) }
        | Step::Create { .. }
        | Step::DropTube { .. }
        | Step::DropEmpty { .. } => durability == Durability::Durable,
        Step::Report { what: Reported::Checkpoint(_), .. } => durability == Durability::Durable,
        Step::AckMany { leases } => durability == Durability::Durable && !leases.is_empty(),
        _ => false,
    }
}

/// Compares what is visible, task by task. What the model leaves open is not compared.
pub fn same(expected: &Sight, seen: &Sight) -> Verdict<()> {
    if expected.own != seen.own {
        return Err(format!("the own table has {:?}, expected {:?}", seen.own, expected.own));
    }
    if expected.conditions != seen.conditions {
        let (is, should) = (&seen.conditions, &expected.conditions);
        return Err(format!("the conditions are {is:?}, expected {should:?}"));
    }
    if expected.throttle != seen.throttle {
        let (is, should) = (seen.throttle, expected.throttle);
        return Err(format!("the throttle is {is:?}, expected {should:?}"));
    }
    if expected.callbacks != seen.callbacks {
        let (is, should) = (&seen.callbacks, &expected.callbacks);
        return Err(format!("the callbacks are {is:?}, expected {should:?}"));
    }
    let bytes = (expected.durable_bytes, seen.durable_bytes);
    let (expected, seen) = (&expected.tubes, &seen.tubes);
    let names = |tubes: &[SeenTube]| tubes.iter().map(|tube| tube.tube).collect::<Vec<_>>();
    if names(expected) != names(seen) {
        return Err(format!("tubes {:?}, expected {:?}", names(seen), names(expected)));
    }
    for (expected, seen) in expected.iter().zip(seen) {
        let tube = expected.tube;
        let by_serial = |tube: &SeenTube| {
            let mut tasks = tube.tasks.clone();
            tasks.sort_by_key(|task| task.serial);
            tasks
        };
        let (tasks, expected_tasks) = (by_serial(seen), by_serial(expected));
        let serials = |tasks: &[Seen]| tasks.iter().map(|task| task.serial).collect::<Vec<_>>();
        if serials(&tasks) != serials(&expected_tasks) {
            let (is, should) = (serials(&tasks), serials(&expected_tasks));
            return Err(format!("tube {tube} holds {is:?}, expected {should:?}"));
        }
        if let Some((is, should)) =
            tasks.iter().zip(&expected_tasks).find(|(is, should)| is != should)
        {
            return Err(format!("tube {tube} shows\n  {is:?}, expected\n  {should:?}"));
        }
        if seen.options != expected.options {
            let (is, should) = (&seen.options, &expected.options);
            return Err(format!("tube {tube} is\n  {is:?}, expected\n  {should:?}"));
        }
        if seen.holders != expected.holders {
            let (is, should) = (&seen.holders, &expected.holders);
            return Err(format!("tube {tube} is held by {is:?}, expected {should:?}"));
        }
        if seen.pause != expected.pause {
            return Err(format!(
                "tube {tube} is paused: {:?}, expected {:?}",
                seen.pause, expected.pause
            ));
        }
        let counts = expected.calls.iter().zip(&seen.calls);
        if counts.clone().any(|(should, is)| should.is_some() && should != is)
            || expected.done.is_some() && expected.done != seen.done
        {
            let is = (seen.calls, seen.done);
            let should = (expected.calls, expected.done);
            return Err(format!("tube {tube} counted\n  {is:?}, expected\n  {should:?}"));
        }
    }
    // Last, because a difference between tasks says more.
    if bytes.0 != bytes.1 {
        let (should, is) = bytes;
        return Err(format!("{is} payload bytes are counted, expected {should}"));
    }
    Ok(())
}

/// Tests that the judge finds faults.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Time;
    use crate::script::{Profile, Rng, script};
    use crate::seeds::{are_all, seeds};

    /// The model in the library's place: runs a script, ends, and comes back as `back` chooses from
    /// its states, of which those before the second number were left behind by a durable step.
    fn verdict(
        seed: u64,
        end: End,
        back: impl Fn(&mut Rng, &[Model], usize) -> Option<Model>,
    ) -> Option<Verdict<()>> {
        let model = Model::new(Time::at(crate::world::START));
        let mut states = vec![model.clone()];
        let mut judge = Judge::new(model, Durability::Durable, true);
        let mut floor = 0;
        for (no, step) in script(seed, Profile { steps: 60, ..Profile::DISK }).iter().enumerate() {
            let first = 8 * no as u64 + 1;
            let mut picked = Picked { serial: first, lease: first, ..Picked::default() };
            match step {
                Step::Ack { lease } | Step::AckWith { lease } | Step::Bury { lease, .. } => {
                    match judge.now().lease_at(*lease) {
                        Some(lease) => picked.leases.push(lease),
                        None => continue,
                    }
                }
                Step::Delete { tube, task, .. } => picked.task = judge.now().task_at(*tube, *task),
                Step::Put { .. } | Step::Take { .. } | Step::Create { .. } | Step::Clock(_) => {}
                _ => continue,
            }
            let mut after = judge.now().clone();
            let answer = match after.apply(step, &picked) {
                Ok(answer) => answer,
                Err(kinds) => Answer::Refused(kinds[0]),
            };
            judge.answered(step, &picked, &answer).unwrap();
            if is_durable(step, Durability::Durable) && !matches!(answer, Answer::Refused(_)) {
                floor = states.len();
            }
            states.push(after);
        }
        judge.ended(end);
        let mut found = back(&mut Rng::new(seed), &states, floor)?;
        let time = judge.now().time.clone();
        found.come_back(time);
        found.work_off_all();
        Some(judge.reopened(&found.look(), true, |_| true))
    }

    #[test]
    fn any_prefix_after_the_last_durable_step_is_right_after_a_power_cut() {
        for seed in seeds(200) {
            let back = |rng: &mut Rng, states: &[Model], floor: usize| {
                let at = floor + rng.below((states.len() - floor) as u64) as usize;
                Some(states[at].clone())
            };
            verdict(seed, End::Cut, back).unwrap().unwrap();
        }
    }

    #[test]
    fn what_a_durable_step_wrote_may_not_be_missing() {
        // What is visible of a state after the cut, at the time of the last one: not the calls, of
        // which a part was due before.
        let visible = |state: &Model, last: &Model| {
            let mut back = state.clone();
            back.come_back(last.time.clone());
            back.work_off_all();
            let mut seen = back.look();
            for tube in &mut seen.tubes {
                (tube.calls, tube.done) = ([None; CALLS], None);
            }
            seen
        };
        let lost = |seed| {
            verdict(seed, End::Cut, |_, states, floor| {
                let (before, last) = (states.get(floor.checked_sub(1)?)?, states.last()?);
                let seen = visible(before, last);
                // Of some durable steps nothing is visible then, such as of a task that is gone.
                let is_visible = states[floor..].iter().all(|state| visible(state, last) != seen);
                is_visible.then(|| before.clone())
            })
        };
        let verdicts: Vec<_> = seeds(200).filter_map(lost).collect();
        let accepted = verdicts.iter().filter(|verdict| verdict.is_ok()).count();
        assert_eq!(accepted, 0, "of {}", verdicts.len());
        assert!(!are_all() || verdicts.len() > 150, "{}", verdicts.len());
    }

    #[test]
    fn a_kill_takes_nothing() {
        let lost = |seed| {
            verdict(seed, End::Kill, |_, states, _| {
                states.len().checked_sub(6).map(|before| states[before].clone())
            })
        };
        let verdicts: Vec<_> = seeds(200).filter_map(lost).collect();
        let refused = verdicts.iter().filter(|verdict| verdict.is_err()).count();
        assert!(!are_all() || refused * 10 > verdicts.len() * 8, "{refused} of {}", verdicts.len());
    }
}
