//! A wrong value in each field of each row, well formed as it is: what `check` says of it, and what
//! a repair leaves. A field that nothing constrains says why in its table; a new tag has to have
//! one.

mod edit;
mod of_states;
mod of_tasks;
mod of_tubes;
mod of_queue;
mod of_work;

use super::mended::{durable, is_beside_swept, mend, recounted, sweep, tasks};
use super::{NOTHING, Rows, filled, is_swept};
use crate::format::key::{self, Key, Range};
use crate::format::row::{PayloadPlace, TaskRow};
use crate::format::{Tag, View};
use crate::words::task::TaskId;
use std::collections::{BTreeMap, BTreeSet};

/// Plants a wrong value in the row of a key. `None` if the row does not have the field.
type Spoil = fn(&mut Rows, &Key) -> Option<()>;

/// What is known of a wrong value of a field.
enum Known {
    /// `check` reports a line with one of these words, and a repair mends all that is wrong.
    Mended(&'static [&'static str]),
    /// The same, but after a repair `check` still reports lines with the second words.
    Stays(&'static [&'static str], &'static str),
    /// No other row, count or rule says what it has to be, for this reason.
    Free(&'static str),
}

/// A field of a row.
struct Field {
    name: &'static str,
    known: Known,
    spoil: Spoil,
}

fn mended(name: &'static str, lines: &'static [&'static str], spoil: Spoil) -> Field {
    Field { name, known: Known::Mended(lines), spoil }
}

fn stays(
    name: &'static str,
    lines: &'static [&'static str],
    left: &'static str,
    spoil: Spoil,
) -> Field {
    Field { name, known: Known::Stays(lines, left), spoil }
}

fn free(name: &'static str, why: &'static str, spoil: Spoil) -> Field {
    Field { name, known: Known::Free(why), spoil }
}

/// The fields of the key and of the value of a row, and with each what is known of a wrong value.
fn fields(tag: Tag) -> Vec<Field> {
    match tag {
        Tag::Meta => of_queue::meta(),
        Tag::Name => of_queue::name(),
        Tag::Tube => of_tubes::tube_row(),
        Tag::Work => of_work::work(),
        Tag::Consumer => of_queue::consumer(),
        Tag::ConsumerName => of_queue::consumer_name(),
        Tag::Tracked => of_queue::tracked(),
        Tag::Condition | Tag::RunCondition => of_queue::condition(),
        Tag::Throttle => of_queue::throttle(),
        Tag::Position => of_tasks::position(),
        Tag::Fresh => of_tasks::own(true),
        Tag::Task => of_tasks::own(false),
        Tag::Ready
        | Tag::Line
        | Tag::Delayed
        | Tag::Taken
        | Tag::Buried
        | Tag::Done
        | Tag::Trashed
        | Tag::Blocked => of_states::state(tag),
        Tag::OpenHead => of_tasks::open_head(),
        Tag::ClosedHead => of_tasks::closed_head(),
        Tag::Group => of_tasks::group(),
        Tag::FailureGroup => of_tasks::failure_group(),
        Tag::Kept => of_tasks::kept(),
        Tag::Due => of_tasks::due(),
        Tag::Key | Tag::KeyUncounted | Tag::Kind => of_tasks::text_index(),
        Tag::KeyOfQueue => of_tasks::key_of_queue(),
        Tag::OwnerLease => of_tasks::owner_lease(),
        Tag::BuriedTime | Tag::DoneTime | Tag::TrashedTime => of_tasks::time_index(),
        Tag::HeldTime => of_tasks::time_index(),
        Tag::BuriedGroup => of_tasks::buried_group(),
        Tag::Failed | Tag::FailedTemporary => of_tasks::failed(),
        Tag::Piece => {
            [of_tasks::piece(), of_tasks::piece_of_work()].into_iter().flatten().collect()
        }
        Tag::PieceTemporary => of_tasks::piece(),
        Tag::Moved | Tag::MovedTemporary => of_tasks::moved(),
        Tag::History | Tag::HistoryTemporary => of_tasks::history(),
        Tag::Report | Tag::ReportTemporary => of_tasks::report(),
        Tag::Setting => of_tubes::setting(),
        Tag::TaskTags | Tag::TaskTagsTemporary => of_tasks::task_tags(),
        Tag::Tagged | Tag::TaggedTemporary => of_tasks::tagged(),
        Tag::TaggedCount | Tag::TaggedCountTemporary => of_queue::tagged_count(),
        Tag::TopTagged | Tag::TopTaggedTemporary => of_queue::top_tagged(),
        Tag::Schedule => of_queue::schedule(),
        Tag::Firing => of_queue::firing(),
        Tag::Fire => of_queue::fire(),
        Tag::Dependent | Tag::Dependency => {
            [of_work::edge(), of_work::edge_to_gone()].into_iter().flatten().collect()
        }
        Tag::DependentTemporary | Tag::DependencyTemporary => of_work::edge(),
        Tag::Day => of_tubes::day(),
        Tag::Slot => of_queue::slot(),
    }
}

/// The payloads of the tasks that have one in their own rows.
fn payloads(rows: &Rows) -> BTreeMap<TaskId, Vec<u8>> {
    let mut payloads = BTreeMap::new();
    for key in Tag::TASKS.into_iter().flat_map(|tag| rows.keys(tag)) {
        let row = rows.get(&key).ok().flatten();
        let payload = row.as_deref().and_then(TaskRow::decode).map(|row| row.payload);
        if let (Some(PayloadPlace::Inline(payload)), Some(id)) = (payload, key::id_of(&key)) {
            payloads.insert(id, payload.to_vec());
        }
    }
    payloads
}

/// The tasks that are gone, and those that a repair gave another payload.
fn lost(sound: &Rows, planted: &Rows, after: &Rows) -> Vec<TaskId> {
    let (all, there, kept) = (tasks(sound), tasks(after), payloads(after));
    let gone = all.iter().filter(|id| !there.contains(id)).copied();
    let before = payloads(planted).into_iter().filter(|(id, _)| all.contains(id));
    let changed = before.filter(|(id, payload)| kept.get(id) != Some(payload));
    gone.chain(changed.map(|(id, _)| id)).collect()
}

/// Repairs rows with a wrong value. Returns what was done, and what is wrong after that.
fn repaired(mut rows: Rows) -> (Rows, Vec<String>, Vec<String>) {
    let mut steps = mend(&mut rows, &mut BTreeSet::new());
    // A sweep may come to a row that it calls for.
    sweep(&mut rows);
    steps.extend(mend(&mut rows, &mut BTreeSet::new()));
    let left = recounted(&mut rows);
    (rows, steps, left)
}

/// What is wrong with what is known of a field of a row.
fn misjudged(sound: &Rows, key: &Key, field: &Field, may_mend: bool) -> Option<String> {
    let mut rows = sound.clone();
    (field.spoil)(&mut rows, key)?;
    let found = recounted(&mut rows);
    let (lines, stays) = match field.known {
        Known::Free(_) if found.is_empty() => return None,
        Known::Free(why) => return Some(format!("not free as {why}: {found:#?}")),
        Known::Mended(lines) => (lines, None),
        Known::Stays(lines, stays) => (lines, Some(stays)),
    };
    if !found.iter().any(|found| lines.iter().any(|line| found.contains(line))) {
        return Some(format!("{lines:?} was to be found: {found:#?}"));
    }
    if !may_mend {
        return None;
    }
    let (after, steps, left) = repaired(rows.clone());
    let lost = lost(sound, &rows, &after);
    let is_left = |line: &String| stays.is_some_and(|stays| line.contains(stays));
    let is_right = left.iter().all(is_left) && left.is_empty() == stays.is_none();
    (!is_right || !lost.is_empty())
        .then(|| format!("found {found:#?}, done {steps:#?}, left {left:#?}, lost {lost:?}"))
}

/// Plants a wrong value in each field of the rows of these tags. Every field is in some row.
fn judge(tags: impl Iterator<Item = Tag>) {
    let (all, durable) = (of_work::with_edge_work(filled()), of_work::with_edge_work(durable()));
    let mut wrong = Vec::new();
    for tag in tags {
        for field in fields(tag) {
            let mut planted = 0;
            for key in all.keys(tag) {
                if is_of_swept(&all, &key) {
                    continue;
                }
                let (sound, may_mend) = match key::is_temporary(&key) {
                    true => (&all, false),
                    false => (&durable, true),
                };
                let mut probe = sound.clone();
                if (field.spoil)(&mut probe, &key).is_none() || probe.rows == sound.rows {
                    continue;
                }
                planted += 1;
                if let Some(why) = misjudged(sound, &key, &field, may_mend) {
                    wrong.push(format!("{tag:?}, {}: {key:02x?}: {why}", field.name));
                }
            }
            if planted == 0 {
                wrong.push(format!("{tag:?}, {}: in no row", field.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Whether a sweep removes the row, or the task that it is about.
fn is_of_swept(rows: &Rows, key: &Key) -> bool {
    let is_beside = Range::holding(key).is_some_and(|range| range.run.is_none());
    let mut own = Tag::TASKS.into_iter().flat_map(|tag| rows.keys(tag));
    let is_about = own.any(|task| key::id_of(&task) == key::id_of(key) && is_swept(rows, &task));
    is_swept(rows, key) || is_beside_swept(rows, key) || is_beside && is_about
}

#[test]
fn a_wrong_value_of_a_row_of_the_queue_is_found() {
    judge(Tag::ALL.into_iter().filter(|tag| Tag::in_runs().all(|of| of != *tag)));
}

#[test]
fn a_wrong_value_of_a_row_that_gives_a_state_is_found() {
    judge(Tag::states());
}

#[test]
fn a_wrong_value_of_another_row_of_a_task_is_found() {
    judge(Tag::in_runs().filter(|tag| tag.state().is_none()));
}

#[test]
fn the_rows_with_edge_work_are_sound() {
    for mut rows in [filled(), durable()].map(of_work::with_edge_work) {
        assert_eq!(recounted(&mut rows), NOTHING);
        sweep(&mut rows);
        assert_eq!(recounted(&mut rows), NOTHING);
    }
}
