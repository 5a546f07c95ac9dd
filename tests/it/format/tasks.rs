//! The rows taken together: the tubes, and the tasks of each with their states. Every row must have
//! the rows that belong to it, and no row may be left over.

use super::bytes::{Bytes, Read, ensure};
use super::days::{self, Days};
use super::edges::Edges;
use super::payloads::Payloads;
use super::rows::{
    Away, ConsumerRow, Key, Place, PositionRow, Progress, Reason, Rows, State, TaskRow, TubeRow,
};
use super::schedules::Schedules;
use std::collections::{BTreeMap, BTreeSet};

/// Kinds of tubes whose tasks are all in groups.
const GROUPED: [u8; 2] = [4, 5];
/// Flag of a tube: the rows stay in memory.
const TEMPORARY: u8 = 2;
const HOLDING: u8 = 4;
const SPARING: u8 = 8;

/// A task as its rows store it.
pub(crate) struct Stored {
    pub(crate) place: Place,
    pub(crate) created: u64,
    pub(crate) group: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) kind: Option<String>,
    pub(crate) book: Option<String>,
    pub(crate) details: BTreeMap<String, String>,
    pub(crate) passed: Option<Vec<u8>>,
    moved: bool,
    pub(crate) replaced: u32,
    pub(crate) dropped: bool,
    /// The nominal time and the schedule of one that a schedule has made.
    pub(crate) spawned: Option<(u64, String)>,
    pub(crate) payload: Vec<u8>,
    pub(crate) state: State,
    pub(crate) progress: Progress,
}

#[derive(Default)]
pub(crate) struct Contents {
    pub(crate) counters: [u32; 3],
    pub(crate) tubes: BTreeMap<u32, TubeRow>,
    pub(crate) consumers: BTreeMap<u32, ConsumerRow>,
    /// By run and id, without runs that are to be cleared.
    pub(crate) tasks: BTreeMap<(u32, u64), Stored>,
    /// Runs that are to be cleared.
    pub(crate) cleared: Vec<u32>,
    /// Runs whose rows are to follow a change of options.
    following: BTreeSet<u32>,
    /// The runs whose tasks are being moved.
    merging: BTreeSet<u32>,
    /// By the tube's number, or 0, and the name.
    pub(crate) settings: BTreeMap<(u32, String), (u8, Vec<u8>)>,
    /// Tracked ids, each with the time since when it is.
    pub(crate) tracked: BTreeMap<u64, u64>,
    /// Conditions, and whether each is set.
    pub(crate) conditions: BTreeMap<String, bool>,
    /// Throttles: the run of each, its limit, and until when that is in force.
    pub(crate) throttles: BTreeMap<String, (u32, u64, u64)>,
    /// The tags of the tasks of tubes, by id.
    pub(crate) tags: BTreeMap<u64, Tags>,
    pub(crate) schedules: Schedules,
    pub(crate) days: Days,
}

/// Tags in their order, each with its time.
pub(crate) type Tags = Vec<(String, u64)>;

/// Rows of one task.
#[derive(Default)]
struct Parts {
    task: Option<(bool, Place, TaskRow)>,
    /// Rank and group in the key, if they are there.
    states: Vec<(Option<Place>, Option<String>, State, Progress)>,
    /// The DelayedRow.
    delayed: Vec<u8>,
}

type Index = BTreeMap<Key, Vec<u8>>;

/// Rows sorted by what they belong to.
#[derive(Default)]
struct Sorted {
    contents: Contents,
    tube_names: BTreeMap<String, u64>,
    consumer_names: BTreeMap<String, u64>,
    parts: BTreeMap<(u32, u64), Parts>,
    payloads: Payloads,
    index: Index,
    /// The tube that the row of each task from another tube names.
    moved: BTreeMap<u64, u64>,
    /// Bytes of each entry of a history, by id and number.
    histories: BTreeMap<(u64, u32), u32>,
    /// Of what was reported of tasks, by id and part.
    reports: BTreeSet<(u64, u8)>,
    /// The tags of tasks, by id.
    tags: BTreeMap<u64, Tags>,
    edges: Edges,
    /// Run and id of the rows of fresh tasks' tag, in the order of their keys.
    fresh: Vec<(u32, u64)>,
}

impl Sorted {
    fn add(&mut self, key: Key, value: &[u8]) -> Read<()> {
        let bytes = Bytes(value);
        let (of, state) = match key.clone() {
            Key::Meta => {
                self.contents.counters = bytes.counters()?;
                return Ok(());
            }
            Key::Name(name) => {
                self.tube_names.insert(name, bytes.number()?);
                return Ok(());
            }
            Key::Tube(number) => {
                self.contents.tubes.insert(number, bytes.tube()?);
                return Ok(());
            }
            Key::Work { kind, run, id, generation } => {
                ensure((1..=9).contains(&kind), || format!("work of kind {kind}"))?;
                if (6..=8).contains(&kind) {
                    ensure(run << 1 == 0 && id > 0, || format!("work under {run}, {id}"))?;
                    let work = bytes.edge_work(kind)?;
                    if run == 0 {
                        self.edges.work.insert((kind, id), work);
                    }
                    return Ok(());
                }
                if [3, 4].contains(&kind) {
                    let work = bytes.piece_work()?;
                    return self.payloads.name_work(id, generation, work);
                }
                let (tube, _) = bytes.work()?;
                if kind == 1 && tube == 0 && id == 0 {
                    self.contents.cleared.push(run);
                }
                if kind == 5 {
                    ensure(id == 0, || format!("work on {tube} with id {id}"))?;
                    self.contents.following.insert(run);
                }
                if kind == 9 {
                    ensure(id == 0, || format!("a merge of {tube} with id {id}"))?;
                    self.contents.merging.insert(run);
                }
                return Ok(());
            }
            Key::Consumer(number) => {
                self.contents.consumers.insert(number, bytes.consumer()?);
                return Ok(());
            }
            Key::ConsumerName(name) => {
                self.consumer_names.insert(name, bytes.number()?);
                return Ok(());
            }
            Key::Moved(id) => {
                self.moved.insert(id, bytes.number()?);
                return Ok(());
            }
            Key::History(id, number) => {
                bytes.history()?;
                self.histories.insert((id, number), value.len() as u32);
                return Ok(());
            }
            Key::Report(id, part) => {
                bytes.report(part)?;
                self.reports.insert((id, part));
                return Ok(());
            }
            Key::Edge { earlier, later, met, of_earlier } => {
                let rows = &mut self.edges.rows[usize::from(!of_earlier)];
                rows.insert((earlier, later, met), bytes.edge()?);
                return Ok(());
            }
            Key::TaskTags(id) => {
                self.tags.insert(id, bytes.tags()?);
                return Ok(());
            }
            Key::Schedule(name) => {
                self.contents.schedules.planned.insert(name, bytes.planned()?);
                return Ok(());
            }
            Key::Firing(name) => {
                self.contents.schedules.progressed.insert(name, bytes.progressed()?);
                return Ok(());
            }
            Key::Day(run, day) => {
                self.contents.days.insert((run, day), bytes.day()?);
                return Ok(());
            }
            Key::Tracked(id) => {
                self.contents.tracked.insert(id, bytes.number()?);
                return Ok(());
            }
            Key::Condition(name) => {
                self.contents.conditions.insert(name, bytes.condition()?);
                return Ok(());
            }
            Key::Throttle(name) => {
                self.contents.throttles.insert(name, bytes.throttle()?);
                return Ok(());
            }
            Key::Setting(owner, name) => {
                self.contents.settings.insert((owner, name), bytes.setting()?);
                return Ok(());
            }
            Key::Piece { id, generation, number } => {
                self.payloads.pieces.insert((id, generation, number), value.to_vec());
                return Ok(());
            }
            Key::Task(run, fresh, home, id) => {
                let row = bytes.task()?;
                if fresh {
                    self.fresh.push((run, id));
                }
                if let Err(apart) = &row.payload {
                    self.payloads.name_task(id, apart.clone())?;
                }
                let task =
                    self.parts.entry((run, id)).or_default().task.replace((fresh, home, row));
                return ensure(task.is_none(), || format!("two homes of {id}"));
            }
            Key::Ready(run, place, id) => {
                ((run, id), (Some(place), None, State::Ready, bytes.progress()?))
            }
            Key::Line(run, group, place, id) => {
                ((run, id), (Some(place), Some(group), State::Ready, bytes.progress()?))
            }
            Key::Buried(run, place, id) | Key::Trashed(run, place, id) => {
                let (state, progress) = bytes.buried()?;
                let is_trash = matches!(key, Key::Trashed(..));
                ensure(state.is_trashed() == is_trash, || format!("{state:?} of {id}"))?;
                ((run, id), (Some(place), None, state, progress))
            }
            Key::Delayed(run, id) => {
                let (state, progress) = bytes.delayed()?;
                self.parts.entry((run, id)).or_default().delayed = value.to_vec();
                ((run, id), (None, None, state, progress))
            }
            Key::Blocked(run, id) => {
                let (state, progress) = bytes.blocked()?;
                ((run, id), (None, None, state, progress))
            }
            Key::Taken(run, id) => {
                let (state, progress) = bytes.taken()?;
                ((run, id), (None, None, state, progress))
            }
            Key::Done(run, id) => {
                let (state, progress) = bytes.finished()?;
                ((run, id), (None, None, state, progress))
            }
            key => {
                if matches!(key, Key::Position(..)) {
                    ensure(bytes.position()?.bytes() == value, || format!("{value:02x?}"))?;
                }
                self.index.insert(key, value.to_vec());
                return Ok(());
            }
        };
        self.parts.entry(of).or_default().states.push(state);
        Ok(())
    }
}

/// Whether all numbers have names, and the names lead back to them.
fn named<T>(
    rows: &BTreeMap<u32, T>,
    name: impl Fn(&T) -> &String,
    names: &BTreeMap<String, u64>,
) -> Read<()> {
    let found: BTreeMap<_, _> =
        rows.iter().map(|(number, row)| (name(row).clone(), u64::from(*number))).collect();
    ensure(found == *names, || format!("names {names:?} of {found:?}"))
}

/// The entries of each history are those that the progress of its task names.
fn histories(
    tasks: &BTreeMap<(u32, u64), Stored>,
    mut entries: BTreeMap<(u64, u32), u32>,
    is_all: bool,
) -> Read<()> {
    for ((_, id), task) in tasks {
        let Some([first, next, bytes]) = task.progress.history else { continue };
        let mut found = 0;
        for number in first..next {
            let entry = entries.remove(&(*id, number));
            found += entry.ok_or_else(|| format!("entry {number} of {id} is missing"))?;
        }
        ensure(found == bytes, || format!("entries of {id}: {found} bytes, not {bytes}"))?;
    }
    // Those of tasks that are to be cleared are still there.
    ensure(entries.is_empty() || !is_all, || format!("entries of no task: {entries:?}"))
}

/// What was reported of each task is what its progress names.
fn reports(
    tasks: &BTreeMap<(u32, u64), Stored>,
    found: &BTreeSet<(u64, u8)>,
    is_all: bool,
) -> Read<()> {
    let parts = |((_, id), task): (&(u32, u64), &Stored)| {
        let (id, parts) = (*id, task.progress.reports);
        [1, 2].into_iter().filter(move |part| parts & part != 0).map(move |part| (id, part))
    };
    let named: BTreeSet<_> = tasks.iter().flat_map(parts).collect();
    // Those of tasks that are to be cleared are still there.
    let agree = if is_all { named == *found } else { named.is_subset(found) };
    ensure(agree, || format!("reports {found:?}, not {named:?}"))
}

/// The rows that the tags of tasks call for, and how many tasks have each tag.
fn tags(
    tubes: &BTreeMap<u32, TubeRow>,
    tasks: &BTreeMap<(u32, u64), Stored>,
    tags: &BTreeMap<u64, Tags>,
    derived: &mut Index,
) -> Read<()> {
    let mut counts: BTreeMap<&String, u64> = BTreeMap::new();
    for ((run, id), _) in tasks.iter().filter(|(_, task)| task.progress.tagged) {
        ensure(run >> 31 == 0, || format!("tags of {id}, in a temporary tube"))?;
        let (number, _) = tubes.iter().find(|(_, tube)| tube.run == *run).unwrap();
        let tags = tags.get(id).ok_or_else(|| format!("tags of {id} are missing"))?;
        for (tag, time) in tags {
            let number = u64::from(*number).to_be_bytes().to_vec();
            derived.insert(Key::Tagged(tag.clone(), *time, *id), number);
            *counts.entry(tag).or_default() += 1;
        }
    }
    for (tag, count) in counts {
        derived.insert(Key::TaggedCount(tag.clone()), count.to_be_bytes().to_vec());
        if count > 1 {
            derived.insert(Key::TopTagged(u64::MAX - count, tag.clone()), Vec::new());
        }
    }
    Ok(())
}

impl Contents {
    pub(crate) fn read(rows: &Rows) -> Read<Self> {
        let mut sorted = Sorted::default();
        for (key, value) in rows {
            let reported = |wrong| format!("row {key:02x?}: {wrong}");
            sorted.add(Key::read(key)?, value).map_err(reported)?;
        }
        let Sorted { tube_names, consumer_names, parts, payloads, moved, fresh, .. } = sorted;
        let (mut contents, mut index) = (sorted.contents, sorted.index);
        for pair in fresh.windows(2) {
            let [before, after] = [0, 1].map(|at| !parts[&pair[at]].states.is_empty());
            let in_order = before || !after || pair[0].0 != pair[1].0;
            ensure(in_order, || format!("a fresh task before another: {pair:?}"))?;
        }
        payloads.agree()?;
        named(&contents.tubes, |tube| &tube.name, &tube_names)?;
        named(&contents.consumers, |consumer| &consumer.name, &consumer_names)?;
        let [tube, run, consumer] = contents.counters;
        for (number, row) in &contents.tubes {
            let is_temporary = row.flags & TEMPORARY != 0;
            ensure(*number <= tube && row.run & !(1 << 31) <= run, || format!("{row:?}"))?;
            ensure(is_temporary == (row.run >> 31 == 1), || format!("{row:?}"))?;
        }
        ensure(contents.consumers.keys().all(|it| *it <= consumer), || "a consumer".into())?;
        for (of, limit, ends) in contents.throttles.values() {
            let is_own = contents.tubes.values().all(|tube| tube.run != *of) && *of <= run;
            ensure(is_own, || format!("the run of a throttle: {of}, {limit}, {ends}"))?;
        }
        let mut owners = contents.settings.keys().map(|(owner, _)| owner);
        let are_there = owners.all(|owner| *owner == 0 || contents.tubes.contains_key(owner));
        ensure(are_there, || "settings of no tube".into())?;

        let runs: BTreeMap<u32, &TubeRow> =
            contents.tubes.values().map(|tube| (tube.run, tube)).collect();
        for (run, tube) in &runs {
            let is_due = contents.following.contains(run);
            ensure(is_due == tube.is_followed(), || format!("work on {tube:?}: {is_due}"))?;
            let is_merging = contents.merging.contains(run);
            let says_so = tube.merges_into.is_some();
            ensure(is_merging == says_so, || format!("a merge of {tube:?}: {is_merging}"))?;
        }
        let cleared = contents.cleared.clone();
        index.retain(|key, _| !cleared.contains(&key.run()));
        let mut derived = Index::new();
        let mut tasks = BTreeMap::new();
        for ((run, id), parts) in parts.into_iter().filter(|((run, _), _)| !cleared.contains(run)) {
            let tube = runs.get(&run).ok_or_else(|| format!("run {run} is of no tube"))?;
            let reported = |wrong| format!("task {id} of run {run}: {wrong}");
            let number = contents.tubes.iter().find(|(_, tube)| tube.run == run);
            let of = (u64::from(*number.unwrap().0), *tube);
            let task = parts.task(of, run, id, &payloads, &mut derived).map_err(reported)?;
            tasks.insert((run, id), task);
        }
        lines(&runs, &tasks, &index, &mut derived);
        contents.schedules.derive(&mut derived)?;
        for (number, tube) in &contents.tubes {
            let is = contents.schedules.of(*number);
            ensure(tube.schedules as usize == is, || format!("{is} schedules of {tube:?}"))?;
        }
        kept(&runs, &tasks, &mut derived);
        if index.keys().any(|key| matches!(key, Key::FailureGroup(..))) {
            failure_groups(&tasks, &mut derived);
        }
        tags(&contents.tubes, &tasks, &sorted.tags, &mut derived)?;
        let tagged = tasks.iter().filter(|(_, task)| task.progress.tagged);
        let tagged: BTreeSet<u64> = tagged.map(|((_, id), _)| *id).collect();
        let strays = sorted.tags.keys().find(|id| cleared.is_empty() && !tagged.contains(id));
        ensure(strays.is_none(), || format!("tags of {strays:?}, which has none"))?;
        contents.tags = sorted.tags;
        // Those of tasks that are to be cleared are still there, and counted.
        if !cleared.is_empty() {
            let is_count = |key: &Key| matches!(key, Key::TaggedCount(_) | Key::TopTagged(..));
            index.retain(|key, _| !is_count(key));
            derived.retain(|key, _| !is_count(key));
        }
        let is_cleared = |key: &Key| {
            matches!(key, Key::OfQueue(..) | Key::Tagged(..) | Key::Slot(..)) && !cleared.is_empty()
        };
        index.retain(|key, _| !is_cleared(key) || derived.contains_key(key));
        for key in index.keys().chain(derived.keys()) {
            let (is, should) = (index.get(key), derived.get(key));
            ensure(is == should, || format!("{key:?} is {is:02x?}, and not {should:02x?}"))?;
        }
        let came: BTreeMap<u64, u64> = tasks
            .iter()
            .filter(|(_, task)| task.moved)
            .map(|((run, id), _)| {
                let tube = contents.tubes.iter().find(|(_, tube)| tube.run == *run);
                (*id, u64::from(*tube.unwrap().0))
            })
            .collect();
        // Those of tasks that are to be cleared are still there.
        let is_led = |(id, tube): (&u64, &u64)| came.get(id) == Some(tube) || !cleared.is_empty();
        let all_lead = came.keys().all(|id| moved.contains_key(id)) && moved.iter().all(is_led);
        ensure(all_lead, || format!("{moved:?} lead to {came:?}"))?;
        sorted.edges.agree(&tasks, cleared.is_empty())?;
        histories(&tasks, sorted.histories, cleared.is_empty())?;
        reports(&tasks, &sorted.reports, cleared.is_empty())?;
        let known = |number| contents.consumers.contains_key(&number);
        let stray = tasks.values().filter_map(Stored::holder).find(|holder| !known(*holder));
        ensure(stray.is_none(), || format!("consumer {stray:?} is not known"))?;
        days::agree(&contents.days, &tasks, |run| runs.contains_key(&run))?;
        let is_cleared = |run: &u32| cleared.contains(run);
        let mut strays = contents.days.keys().filter(|(run, _)| !runs.contains_key(run));
        let stray = strays.find(|(run, _)| !is_cleared(run));
        ensure(stray.is_none(), || format!("days {stray:?} of no tube"))?;
        contents.tasks = tasks;
        Ok(contents)
    }
}

impl Key {
    fn run(&self) -> u32 {
        match self {
            Self::Position(run, ..)
            | Self::OpenHead(run, ..)
            | Self::ClosedHead(run, ..)
            | Self::Group(run, ..)
            | Self::Due { run, .. }
            | Self::Keyed(run, ..)
            | Self::OwnerLease(run, ..)
            | Self::BuriedTime(run, ..)
            | Self::TrashedTime(run, ..)
            | Self::BuriedGroup(run, ..)
            | Self::FailureGroup(run, _)
            | Self::DoneTime(run, ..)
            | Self::HeldTime(run, ..)
            | Self::OfKind(run, ..)
            | Self::Kept(run, _)
            | Self::Failed(_, _, run, _) => *run,
            Self::OfQueue(..) | Self::Tagged(..) | Self::TaggedCount(_) | Self::TopTagged(..) => 0,
            Self::Slot(..) => 0,
            Self::Fire { .. } => 0,
            key => panic!("{key:?} is in no index"),
        }
    }
}

impl Stored {
    pub(crate) fn holder(&self) -> Option<u32> {
        if let State::Taken { holder, .. } = self.state { holder } else { None }
    }

    /// Whether it is finished and kept for later tasks.
    pub(crate) fn is_held(&self) -> bool {
        matches!(self.state, State::Done { .. }) && self.progress.edges[0] != [0; 2]
    }

    /// Whether it counts as in flight in its group.
    fn in_flight(&self) -> bool {
        matches!(self.state, State::Taken { .. } | State::Delayed { holds: true, .. })
    }
}

/// Whether a further row of a task agrees with the others.
fn beside(
    away: &Away,
    bytes: u32,
    (group, found): (Option<&String>, [bool; 3]),
    length: usize,
    place: Option<&Place>,
) -> Read<()> {
    let reported = [away.keyed, away.apart, away.extended];
    ensure(away.group.as_ref() == group, || format!("{away:?} of group {group:?}"))?;
    ensure(reported == found && away.place.as_ref() == place, || format!("{away:?} of {found:?}"))?;
    ensure(bytes as usize == length, || format!("{length} bytes, reported {bytes}"))
}

impl Parts {
    /// The task, and the rows that it calls for.
    fn task(
        self,
        (number, tube): (u64, &TubeRow),
        run: u32,
        id: u64,
        payloads: &Payloads,
        derived: &mut Index,
    ) -> Read<Stored> {
        let (fresh, home, row) = self.task.ok_or("no TaskRow")?;
        let mut states = self.states;
        if fresh && states.is_empty() {
            let (expires, ttr) = (row.expires, row.ttr);
            let progress = Progress { fresh, expires, ttr, ..Progress::default() };
            states.push((Some(home.clone()), None, State::Ready, progress));
        }
        let [state] =
            <[_; 1]>::try_from(states).map_err(|states| format!("{} states", states.len()))?;
        let (key_place, key_group, state, progress) = state;
        ensure(fresh == progress.fresh, || format!("a row of a put that is fresh: {fresh}"))?;
        let apart = row.payload.is_err();
        let payload = match row.payload {
            Ok(payload) => payload,
            Err(apart) => payloads.whole(id, &apart)?,
        };
        ensure(apart == (payload.len() > 3500), || format!("{} bytes", payload.len()))?;

        let is_done = matches!(state, State::Done { .. });
        let is_right = !row.dropped || is_done && payload.is_empty();
        ensure(is_right, || format!("dropped, and {state:?}, {} bytes", payload.len()))?;

        let plain_home =
            Place { priority: tube.made_with, order: (1 << 63 | id).to_be_bytes().to_vec() };
        let plain_group = GROUPED.contains(&tube.kind).then(String::new);
        let group = row.group.or_else(|| plain_group.clone());
        let grouped = group != plain_group;
        let place = key_place.unwrap_or_else(|| match &state {
            State::Delayed { away, .. }
            | State::Blocked { away, .. }
            | State::Taken { away, .. }
            | State::Done { away, .. } => away.place.clone().unwrap_or_else(|| plain_home.clone()),
            _ => unreachable!("its place is in its key"),
        });
        let other_group = group.as_ref().filter(|_| grouped);
        let found = (other_group, [row.key.is_some(), apart, row.extension]);
        let away_place = (place != plain_home).then_some(&place);
        match &state {
            State::Ready => ensure(key_group == group, || format!("in line {key_group:?}"))?,
            State::Delayed { bytes, away, holds, .. } => {
                beside(away, *bytes, found, payload.len(), away_place)?;
                ensure(!holds || group.is_some() && tube.flags & HOLDING != 0, || "holds".into())?;
            }
            State::Done { bytes, away, .. } | State::Blocked { bytes, away, .. } => {
                beside(away, *bytes, found, payload.len(), away_place)?;
            }
            State::Taken { bytes, away, deadline, .. } => {
                beside(away, *bytes, found, payload.len(), away_place)?;
                let is_after = progress.lapsed <= Some(deadline.unwrap_or(u64::MAX));
                ensure(is_after, || "a grace that ended before its ttr".into())?;
            }
            State::Buried { .. } => {}
        }
        let is_taken = matches!(state, State::Taken { .. });
        ensure(is_taken || progress.lapsed.is_none(), || "stalled, and not taken".into())?;
        ensure(is_taken || progress.slots.is_empty(), || "slots, and not taken".into())?;
        for throttle in &progress.slots {
            derived.insert(Key::Slot(*throttle, id, number), Vec::new());
        }
        let is_ahead = place.priority == i64::MIN && place.order[0] < 0x40;
        let ahead = progress
            .own
            .as_ref()
            .is_none_or(|own| !is_taken && is_ahead && own.order.len() == place.order.len());
        ensure(ahead, || "its own place is elsewhere".into())?;
        let moved = (place != home).then(|| place.clone());
        let reported = progress.home.as_ref();
        ensure(reported == moved.is_some().then_some(&home), || format!("home {reported:?}"))?;
        if home != plain_home || moved.is_some() {
            let position = PositionRow { home, moved };
            derived.insert(Key::Position(run, id), position.bytes());
        }
        let task = Stored {
            place,
            created: row.created,
            group,
            key: row.key,
            kind: row.kind,
            book: row.book,
            details: row.details,
            passed: row.passed,
            moved: row.moved,
            replaced: row.replaced,
            spawned: row.spawned,
            dropped: row.dropped,
            payload,
            state,
            progress,
        };
        for key in task.calls_for(tube, run, id) {
            let value = match key {
                Key::Due { what: 1 | 2, .. } => self.delayed.clone(),
                Key::OfQueue(..) => number.to_be_bytes().to_vec(),
                _ => Vec::new(),
            };
            derived.insert(key, value);
        }
        Ok(task)
    }
}

impl Stored {
    /// The keys of the rows that are empty or copies.
    fn calls_for(&self, tube: &TubeRow, run: u32, id: u64) -> Vec<Key> {
        let mut keys = Vec::new();
        let (in_queue, states) = tube.unique;
        let counts = states & self.state.bit() != 0;
        let is_free =
            self.state.is_trashed() || matches!(self.state, State::Done { keyed: false, .. });
        if let Some(key) = self.key.as_ref().filter(|_| !is_free) {
            keys.push(Key::Keyed(run, counts, key.clone(), id));
            if in_queue {
                keys.push(Key::OfQueue(key.clone(), counts, id));
            }
        }
        if let Some(kind) = self.kind.as_ref().filter(|_| tube.kinds) {
            keys.push(Key::OfKind(run, kind.clone(), id));
        }
        let mut expires = self.progress.expires;
        match &self.state {
            State::Ready => {}
            State::Delayed { by_wall, due, .. } => {
                keys.push(Key::Due { run, what: 1 + u8::from(*by_wall), when: *due, id });
                expires = None;
            }
            State::Blocked { .. } => expires = None,
            State::Taken { holder, deadline, .. } => {
                keys.extend(deadline.map(|when| Key::Due { run, what: 3, when, id }));
                keys.extend(holder.map(|holder| Key::OwnerLease(run, holder, id)));
            }
            State::Buried { time, reason } => {
                keys.push(match reason {
                    Reason::Trashed(_) => Key::TrashedTime(run, *time, id),
                    _ => Key::BuriedTime(run, *time, id),
                });
                if let Some(group) = reason.failure_group() {
                    keys.push(Key::BuriedGroup(run, group.to_owned(), *time, id));
                    keys.push(Key::Failed(group.to_owned(), *time, run, id));
                }
                expires = expires.filter(|_| tube.flags & SPARING == 0);
                expires = expires.into_iter().chain(self.progress.kept_until).min();
            }
            State::Done { time, .. } if self.is_held() => {
                keys.push(Key::HeldTime(run, *time, id));
                expires = None;
            }
            State::Done { time, .. } => {
                keys.push(Key::DoneTime(run, *time, id));
                expires = self.progress.kept_until;
            }
        }
        keys.extend(expires.map(|when| Key::Due { run, what: 4, when, id }));
        keys
    }
}

/// The gates in the name of a line, each with the byte before it; none of a group.
fn gates_in(group: &str) -> Vec<String> {
    let mut gates: Vec<String> = Vec::new();
    for char in group.chars() {
        match gates.last_mut() {
            _ if char <= '\u{2}' => gates.push(char.to_string()),
            Some(gate) => gate.push(char),
            None => break,
        }
    }
    let are_in_order = gates.windows(2).all(|two| two[0] < two[1]);
    assert!(are_in_order && gates.iter().all(|gate| gate.len() > 1), "{group:?}");
    gates
}

/// The rows that the groups require: how many tasks are in flight, and the head of each group.
fn lines(
    runs: &BTreeMap<u32, &TubeRow>,
    tasks: &BTreeMap<(u32, u64), Stored>,
    index: &Index,
    derived: &mut Index,
) {
    // How many are in flight, and the first in line.
    type Group<'a> = (u64, Option<(&'a Place, u64)>);
    let behind_gate = |run: u32, gates: Vec<String>, place: &Place, id: u64| {
        let mut behind =
            gates.into_iter().map(|gate| Key::ClosedHead(run, gate, place.clone(), id));
        behind.find(|key| index.contains_key(key))
    };
    let mut groups: BTreeMap<(u32, &str), Group<'_>> = BTreeMap::new();
    for ((run, id), task) in tasks {
        let Some(group) = &task.group else { continue };
        let (in_flight, first) = groups.entry((*run, group)).or_default();
        *in_flight += u64::from(task.in_flight());
        if matches!(task.state, State::Ready) {
            let this = (&task.place, *id);
            *first = Some(first.map_or(this, |first| first.min(this)));
        }
    }
    for ((run, group), (in_flight, first)) in groups {
        let gates = gates_in(group);
        if !gates.is_empty() {
            let Some((place, id)) = first else { continue };
            let closed = behind_gate(run, gates, place, id);
            let head = closed.unwrap_or_else(|| Key::OpenHead(run, place.clone(), id));
            derived.insert(head, group.as_bytes().to_vec());
            continue;
        }
        if in_flight > 0 {
            derived.insert(Key::Group(run, group.to_owned()), in_flight.to_be_bytes().to_vec());
        }
        // In the order of their keys.
        let at = |group: &str| (group.len(), group.as_bytes().to_vec());
        let most = match &runs[&run].groups_before {
            Some((before, [to, until])) if at(group) > at(to) && at(group) <= at(until) => *before,
            _ => runs[&run].in_flight,
        };
        if let Some((place, id)) = first.filter(|_| in_flight < u64::from(most)) {
            let own = tasks[&(run, id)].progress.gates.as_deref().unwrap_or_default();
            let closed = behind_gate(run, gates_in(own), place, id);
            let head = closed.unwrap_or_else(|| Key::OpenHead(run, place.clone(), id));
            derived.insert(head, group.as_bytes().to_vec());
        }
    }
}

/// The bytes of the tasks that have ended, in tubes that limit them.
fn kept(runs: &BTreeMap<u32, &TubeRow>, tasks: &BTreeMap<(u32, u64), Stored>, derived: &mut Index) {
    let mut sums: BTreeMap<(u32, u8), u64> = BTreeMap::new();
    for ((run, id), task) in tasks {
        let (limits, tag, time, result) = match &task.state {
            State::Done { .. } if task.is_held() => continue,
            State::Done { time, result, .. } => {
                (0, 0x26, *time, result.as_ref().map_or(0, Vec::len))
            }
            State::Buried { .. } if task.state.is_trashed() => continue,
            State::Buried { time, .. } => (1, 0x18, *time, 0),
            _ => continue,
        };
        let at = (time, *id);
        if runs[run].unsummed[limits].is_some_and(|[to, until]| at > to && at <= until) {
            continue;
        }
        if runs[run].kept[limits].is_some_and(|[_, _, bytes]| bytes != u64::MAX) {
            *sums.entry((*run, tag)).or_default() += (task.payload.len() + result) as u64;
        }
    }
    for ((run, tag), sum) in sums.into_iter().filter(|(_, sum)| *sum > 0) {
        derived.insert(Key::Kept(run, tag), sum.to_be_bytes().to_vec());
    }
}

/// The counts of the failure groups.
fn failure_groups(tasks: &BTreeMap<(u32, u64), Stored>, derived: &mut Index) {
    let mut counts: BTreeMap<(u32, &str), u64> = BTreeMap::new();
    for ((run, _), task) in tasks {
        if let State::Buried { reason, .. } = &task.state
            && let Some(group) = reason.failure_group()
        {
            *counts.entry((*run, group)).or_default() += 1;
        }
    }
    for ((run, group), count) in counts {
        derived.insert(Key::FailureGroup(run, group.to_owned()), count.to_be_bytes().to_vec());
    }
}

/// Bytes of all payloads, including those of runs that are to be cleared.
pub(crate) fn payload_bytes(rows: &Rows) -> Read<u64> {
    let mut bytes = 0;
    let fresh = rows.range(vec![0x11]..vec![0x12]);
    for (_, value) in fresh.chain(rows.range(vec![0x1e]..vec![0x1f])) {
        let payload = Bytes(value).task()?.payload;
        bytes += payload.map_or_else(|apart| apart.length, |payload| payload.len() as u64);
    }
    Ok(bytes)
}
