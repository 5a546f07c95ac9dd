//! What a repair is to do: the findings of an audit of a snapshot, each with the rows that it rests
//! on as they stood there. Changes nothing.

use crate::engine::audit::{About, Finding, Fix, audit};
use crate::engine::context::{OpContext, sound};
use crate::engine::{lookup, pieces, position, query, task_gates};
use crate::format::key::{self, Home, Key, RUN_PREFIX, Run};
use crate::format::row::PositionRow;
use crate::format::{Range, Tag, Value, View};
use crate::words::error::{ErrorKind, Result};
use crate::words::limits::{FINDINGS_KEPT, FIXES_OF_OP, REPAIR_STEPS};
use crate::words::task::TaskId;
use crate::words::task_gates::in_line;
use std::collections::{BTreeMap, BTreeSet};
use xxhash_rust::xxh3::xxh3_128;

/// The most findings of one op that read a whole history.
const LONG_OF_OP: usize = 8;

/// A row as it stood, by the hash of its value: rows may be many, and long. `None` if there was
/// none. A damaged one is `Some(None)`.
type Stood = (Key, Option<Option<u128>>);

/// A finding that something mends.
#[derive(Debug)]
pub(crate) struct Planned {
    pub(super) line: String,
    pub(super) fix: Fix,
    pub(super) about: About,
    /// Whether the id of the task that it is about had been given.
    pub(super) was_given: bool,
    beside: Vec<Key>,
    rests: Vec<Stood>,
}

/// What an audit has found.
#[derive(Default)]
pub(crate) struct RepairPlan {
    /// By the order in which they are mended.
    fixes: BTreeMap<u8, Vec<Planned>>,
    kept: usize,
    /// The first id that had not been given.
    next_id: u64,
    /// Tasks that are made or changed as a whole.
    whole: BTreeSet<TaskId>,
    /// All that was found, in words.
    pub(crate) lines: Vec<String>,
    pub(crate) lines_left_out: u64,
    tubes: BTreeMap<Run, u32>,
    /// The tubes of the tasks that were looked for.
    known: BTreeMap<TaskId, Option<u32>>,
}

impl RepairPlan {
    /// Of rows as they were when this was the next id to be given.
    pub(crate) fn new(next_id: u64) -> Self {
        Self { next_id, ..Self::default() }
    }

    /// Audits all rows. After an error it has what was found before.
    ///
    /// # Errors
    /// `Io` or `Broken` from the store.
    pub(crate) fn look(&mut self, view: &dyn View) -> Result<()> {
        for number in query::numbers(view)? {
            if let Some(tube) = query::sound_tube(view, number)? {
                self.tubes.insert(tube.run(), number);
            }
        }
        let mut failed = None;
        let audited = audit(view, &mut |finding| {
            if failed.is_none() {
                failed = self.add(view, finding).err();
            }
        });
        if let Some(error) = failed {
            return Err(error);
        }
        match audited {
            // What was found so far is mended, and the next audit comes further.
            Err(error) if error.kind() == ErrorKind::Damaged => self.note(error.to_string()),
            audited => audited?,
        }
        self.leave_derived();
        Ok(())
    }

    /// Leaves all that was found as it is, for this reason.
    pub(crate) fn leave_all(&mut self, why: String) {
        self.fixes.clear();
        self.kept = 0;
        self.lines.insert(0, why);
    }

    /// Adds the durable tubes of which more or fewer tasks are stalled than were counted in memory
    /// at the instant of this view.
    ///
    /// # Errors
    /// `Io` or `Broken` from the store.
    pub(crate) fn add_stalled(&mut self, view: &dyn View, counted: &[(u32, u64)]) -> Result<()> {
        for (number, counted) in counted.iter().copied() {
            let tube = match query::sound_tube(view, number) {
                Err(error) if error.is_not_found() => None,
                tube => tube?,
            };
            let Some(tube) = tube.filter(|tube| !tube.run().is_temporary()) else { continue };
            // What is damaged is mended before.
            let Some(stalled) = sound(query::stalled(view, &tube))? else { continue };
            if stalled != counted {
                let name = &tube.row.name;
                let line = format!("tube {name:?}: {stalled} stalled tasks, counted {counted}");
                let fix = Fix::Stalled(number, stalled.wrapping_sub(counted) as i64);
                self.add(view, Finding { line, fix, about: About::NoTask, beside: Vec::new() })?;
            }
        }
        Ok(())
    }

    /// Adds a line about which nothing is done.
    pub(crate) fn note(&mut self, line: String) {
        match self.lines.len() < REPAIR_STEPS {
            true => self.lines.push(line),
            false => self.lines_left_out += 1,
        }
    }

    fn add(&mut self, view: &dyn View, finding: Finding) -> Result<()> {
        let Finding { line, fix, about, beside } = finding;
        match &fix {
            Fix::Payload(_, id, ..) | Fix::Unkept(_, id) => self.note(format!(
                "{line}: the payload of task {id} is lost; delete it, or replace that"
            )),
            _ => self.note(line.clone()),
        }
        let Some(order) = fix.order() else { return Ok(()) };
        if !may_be_head(view, &fix)? {
            return Ok(());
        }
        let last = self.fixes.last_key_value().map_or(0, |(last, _)| *last);
        if self.kept >= FINDINGS_KEPT {
            if order >= last {
                return Ok(());
            }
            let dropped = self.fixes.get_mut(&last).and_then(Vec::pop);
            self.kept -= usize::from(dropped.is_some());
            if self.fixes.get(&last).is_some_and(Vec::is_empty) {
                self.fixes.remove(&last);
            }
        }
        let about = self.resolved(view, about)?;
        if fix.is_of_whole_task() {
            self.whole.extend(id_of(about));
        }
        let was_given = id_of(about).is_some_and(|id| id.get() < self.next_id);
        let mut planned = Planned { line, fix, about, was_given, beside, rests: Vec::new() };
        planned.rests = planned.rows(view)?;
        self.fixes.entry(order).or_default().push(planned);
        self.kept += 1;
        Ok(())
    }

    /// Which task of which tube it is.
    fn resolved(&mut self, view: &dyn View, about: About) -> Result<About> {
        Ok(match about {
            About::Owner((run, id)) => match self.tubes.get(&run) {
                Some(number) => About::Task(*number, id),
                None => About::Id(id),
            },
            About::Id(id) => match self.tube_with(view, id)? {
                Some(number) => About::Task(number, id),
                None => About::Id(id),
            },
            about => about,
        })
    }

    fn tube_with(&mut self, view: &dyn View, id: TaskId) -> Result<Option<u32>> {
        if let Some(known) = self.known.get(&id) {
            return Ok(*known);
        }
        let mut found = sound(query::moved_to(view, id))?.flatten();
        for number in self.tubes.values().filter(|_| found.is_none()) {
            let Some(tube) = query::sound_tube(view, *number)? else { continue };
            match lookup::find(view, &tube, id) {
                Err(error) if error.is_not_found() => {}
                there => {
                    sound(there)?;
                    found = Some(*number);
                    break;
                }
            }
        }
        self.known.insert(id, found);
        Ok(found)
    }

    /// Rows that follow from tasks which are mended as a whole stay until these are: they say what
    /// is known of them.
    fn leave_derived(&mut self) {
        let whole = &self.whole;
        if let Some(derived) = self.fixes.get_mut(&Fix::DERIVED) {
            derived.retain(|planned| id_of(planned.about).is_none_or(|id| !whole.contains(&id)));
        }
    }

    /// Whether tubes are to be mended.
    pub(crate) fn changes_tubes(&self) -> bool {
        self.fixes.first_key_value().is_some_and(|(order, _)| *order <= Fix::TUBES)
    }

    /// Runs the ops that mend the findings. `run` returns whether one has mended any. It goes on up
    /// to the last findings that have the order of the first one mended: what comes later was found
    /// beside what is no longer so.
    pub(crate) fn each_op(
        &self,
        all: bool,
        mut run: impl FnMut(&[Planned]) -> Result<bool>,
    ) -> Result<()> {
        let mut mended = None;
        for (order, findings) in self.ops(all) {
            if mended.is_some_and(|mended| mended != order) {
                break;
            }
            if run(findings)? {
                mended = Some(order);
            }
        }
        Ok(())
    }

    /// The findings of each op, with their order. If tubes are to be mended, only these unless
    /// `all` are wanted: without its tube a task seems not to be there. What changes a tube is an
    /// op of its own, because an op sees the tubes as they were before it.
    fn ops(&self, all: bool) -> impl Iterator<Item = (u8, &[Planned])> {
        let last = if self.changes_tubes() && !all { Fix::TUBES } else { u8::MAX };
        self.fixes.range(..=last).flat_map(|(order, fixes)| {
            let most = match *order {
                ..=Fix::TUBES => 1,
                // Each of them may read a whole history.
                Fix::LONG => LONG_OF_OP,
                _ => FIXES_OF_OP,
            };
            let short = |one: &Planned, next: &Planned| {
                !one.fix.is_of_its_own() && !next.fix.is_of_its_own()
            };
            let ops = fixes.chunk_by(short).flat_map(move |some| some.chunks(most));
            ops.map(|findings| (*order, findings))
        })
    }
}

#[cfg(test)]
impl RepairPlan {
    pub(crate) fn of(view: &dyn View) -> Result<Self> {
        let mut plan = Self::new(u64::MAX);
        plan.look(view)?;
        Ok(plan)
    }

    /// All findings that are mended.
    pub(crate) fn all(self) -> Vec<Planned> {
        self.fixes.into_values().flatten().collect()
    }
}

#[cfg(test)]
impl Planned {
    pub(crate) fn fix(&self) -> &Fix {
        &self.fix
    }
}

fn id_of(about: About) -> Option<TaskId> {
    match about {
        About::Task(_, id) | About::Owner((_, id)) | About::Id(id) => Some(id),
        About::NoTask => None,
    }
}

impl Planned {
    /// Whether each row that it rests on is as it was found.
    pub(super) fn stands(&self, ctx: &OpContext<'_>) -> Result<bool> {
        Ok(self.rows(ctx)? == self.rests)
    }

    /// The rows that it rests on.
    fn rows(&self, view: &dyn View) -> Result<Vec<Stood>> {
        let mut keys: Vec<Key> = self.beside.iter().map(|key| key::copy(key)).collect();
        match &self.fix {
            Fix::Set(key, value) => {
                keys.push(key::copy(key));
                heads(view, (key, Some(value)), &mut keys)?;
                keys.extend(placed(key, value));
            }
            Fix::Remove(key) => {
                keys.push(key::copy(key));
                heads(view, (key, None), &mut keys)?;
            }
            Fix::Task(_, key) | Fix::Fresh(_, key) | Fix::RollBack(key) => {
                keys.push(key::copy(key))
            }
            Fix::Remains(_, _, left) => keys.extend(left.iter().map(|key| key::copy(key))),
            Fix::Pieces(id, left) => {
                keys.extend(left.first().into_iter().chain(left.last()).map(|key| key::copy(key)));
                pieces::each_work(view, *id, |work, _| keys.push(work))?;
            }
            // A new run has no stalled tasks.
            Fix::Stalled(number, _) => keys.push(key::tube(*number)),
            // A count may have changed, and one that was damaged is looked at by its op.
            _ => {}
        }
        if let About::Task(number, id) = self.about {
            of_task(view, (number, id), &mut keys)?;
        }
        keys.into_iter()
            .map(|key| {
                let row = view.row(&key)?.map(|(_, row)| row.map(|row| xxh3_128(&row)));
                Ok((key, row))
            })
            .collect()
    }
}

/// The rows that decide which state a task is in.
fn of_task(view: &dyn View, (number, id): (u32, TaskId), keys: &mut Vec<Key>) -> Result<()> {
    keys.push(key::tube(number));
    let tube = match query::sound_tube(view, number) {
        Err(error) if error.is_not_found() => None,
        tube => tube?,
    };
    let Some(tube) = tube else { return Ok(()) };
    let run = tube.run();
    keys.extend([key::position(run, id), key::moved(run, id)]);
    let Some(PositionRow { home, .. }) = sound(position::of(view, &tube, id))? else {
        keys.extend([key::taken(run, id), key::delayed(run, id), key::done(run, id)]);
        return Ok(());
    };
    for is_fresh in [true, false] {
        keys.push(key::task(run, &Home { rank: home, is_fresh }, id));
    }
    keys.extend(lookup::state_row(view, &tube, id, None)?.map(|(key, _)| key));
    Ok(())
}

/// The rows of a task itself where this position row says that it was put.
fn placed(key: &Key, value: &Value) -> impl Iterator<Item = Key> + use<> {
    let range = Range::holding(key).filter(|range| range.tag == Tag::Position);
    let of = range.and_then(|range| range.run).zip(key::id_of(key));
    let own = of.zip(PositionRow::decode(value)).map(|((run, id), PositionRow { home, .. })| {
        [true, false].map(|is_fresh| key::task(run, &Home { rank: home, is_fresh }, id))
    });
    own.into_iter().flatten()
}

/// Whether it is no head, or that of the first task in the line of its group. A task that stands
/// before it and cannot be read may be the head: that one is mended first.
fn may_be_head(view: &dyn View, fix: &Fix) -> Result<bool> {
    let Fix::Set(head, group) = fix else { return Ok(true) };
    let range = Range::holding(head).filter(|range| range.tag == Tag::OpenHead);
    let group = std::str::from_utf8(group).ok();
    let Some((run, group)) = range.and_then(|range| range.run).zip(group) else {
        return Ok(true);
    };
    let line = key::line_of(run, group);
    let first = view.first(&line, &key::end_of(&line))?;
    let first = first.and_then(|(met, _)| key::place_of(&met, line.len()).zip(key::id_of(&met)));
    Ok(first.is_some_and(|(place, id)| key::open_head(run, &place, id) == *head))
}

/// Which task is the head of a group follows from its count and from its line.
fn heads(
    view: &dyn View,
    (head, value): (&Key, Option<&Value>),
    keys: &mut Vec<Key>,
) -> Result<()> {
    let is_head = |range: &Range| matches!(range.tag, Tag::OpenHead | Tag::ClosedHead);
    let range = Range::holding(head).filter(is_head);
    let Some(run) = range.and_then(|range| range.run) else { return Ok(()) };
    // Its key ends with a rank and an id, of whatever length the rank is.
    let gate = range.filter(|range| range.tag == Tag::ClosedHead).and(key::gate_of(head));
    let prefix = gate.map_or(RUN_PREFIX, |gate| key::closed_heads(run, gate).len());
    let row = view.row(head)?.and_then(|(_, row)| row);
    for group in [value, row.as_ref()].into_iter().flatten() {
        let Ok(group) = std::str::from_utf8(group) else { continue };
        if group.len() > usize::from(u8::MAX) {
            continue;
        }
        let line = key::line_of(run, group);
        keys.push(key::group(run, group));
        if let Some((place, id)) = key::place_of(head, prefix).zip(key::id_of(head)) {
            keys.push(key::open_head(run, &place, id));
            let task = key::line(run, group, &place, id);
            let own = sound(task_gates::at(view, &task))?.flatten().unwrap_or_default();
            let gates =
                in_line(&own).chain(gate).map(|gate| key::closed_head(run, gate, &place, id));
            keys.extend(gates);
        }
        keys.extend(view.first(&line, &key::end_of(&line))?.map(|(first, _)| first));
    }
    Ok(())
}
