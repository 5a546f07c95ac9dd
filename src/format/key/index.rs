//! Keys of the rows by which tasks are found: by the caller's key, by kind, by the time of their
//! end, and by the group of their failure.

use super::{
    Key, RUN_PREFIX, Range, Run, Tag, copy, end_of, id_of, in_run, label_in, numbers, tagged,
    with_id, with_label, with_number,
};
use crate::words::task::TaskId;

/// The tag of the rows of the callers' keys in a tube, of tasks that count or of the others.
fn key_tag(counts: bool) -> Tag {
    if counts { Tag::Key } else { Tag::KeyUncounted }
}

/// The beginning of the rows of one caller's key in a tube, of tasks that count or of the others.
pub(crate) fn key_of(run: Run, text: &str, counts: bool) -> Key {
    with_label(in_run(key_tag(counts), run), text)
}

pub(crate) fn key(run: Run, text: &str, counts: bool, id: TaskId) -> Key {
    with_id(key_of(run, text, counts), id)
}

/// The same in the whole queue, of the tubes whose keys are unique there.
pub(crate) fn queue_key_of(text: &str, counts: bool) -> Key {
    let mut key = with_label(tagged(Tag::KeyOfQueue, &[]), text);
    key.push(u8::from(!counts));
    key
}

pub(crate) fn queue_key(text: &str, counts: bool, id: TaskId) -> Key {
    with_id(queue_key_of(text, counts), id)
}

/// The key of [`queue_key`] that belongs to a key of [`key`].
pub(crate) fn queue_key_beside(key: &[u8]) -> Option<Key> {
    let range = Range::holding(key)?;
    let counts = range.tag == Tag::Key;
    let text = key.get(RUN_PREFIX..key.len().checked_sub(8)?)?;
    let mut beside = tagged(Tag::KeyOfQueue, text);
    beside.push(u8::from(!counts));
    Some(with_id(beside, id_of(key)?))
}

/// The key of [`key`] in a tube that belongs to a key of [`queue_key`].
pub(crate) fn key_beside(queue_key: &[u8], run: Run) -> Option<Key> {
    let (text, id) = queue_key.get(1..)?.split_last_chunk::<8>()?;
    let (uncounted, text) = text.split_last()?;
    let mut beside = in_run(key_tag(*uncounted == 0), run);
    beside.extend_from_slice(text);
    beside.extend_from_slice(id);
    Some(beside)
}

/// The beginning of the rows of the tasks of one kind.
pub(crate) fn kind_of(run: Run, kind: &str) -> Key {
    with_label(in_run(Tag::Kind, run), kind)
}

pub(crate) fn kind(run: Run, kind: &str, id: TaskId) -> Key {
    with_id(kind_of(run, kind), id)
}

/// The kind in a key of [`kind`].
pub(crate) fn kind_in(key: &[u8]) -> Option<&str> {
    label_in(key)
}

fn with_text(mut key: Key, text: &str) -> Key {
    key.extend_from_slice(&(text.len() as u16).to_be_bytes());
    key.extend_from_slice(text.as_bytes());
    key
}

pub(crate) fn buried_time(run: Run, time: u64, id: TaskId) -> Key {
    with_id(with_number(in_run(Tag::BuriedTime, run), time), id)
}

pub(crate) fn done_time(run: Run, time: u64, id: TaskId) -> Key {
    numbers(Tag::DoneTime, run, [time, id.get()])
}

/// The same of one that is kept for its dependents.
pub(crate) fn held_time(run: Run, time: u64, id: TaskId) -> Key {
    numbers(Tag::HeldTime, run, [time, id.get()])
}

/// The time in a key of [`done_time`] or [`buried_time`].
pub(crate) fn time_of(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(key.get(RUN_PREFIX..RUN_PREFIX + 8)?.try_into().ok()?))
}

pub(crate) fn trashed_time(run: Run, time: u64, id: TaskId) -> Key {
    with_id(with_number(in_run(Tag::TrashedTime, run), time), id)
}

/// The beginning of the rows of the buried tasks of one failure group.
pub(crate) fn buried_group_of(run: Run, group: &str) -> Key {
    with_text(in_run(Tag::BuriedGroup, run), group)
}

pub(crate) fn buried_group(run: Run, group: &str, time: u64, id: TaskId) -> Key {
    with_id(with_number(buried_group_of(run, group), time), id)
}

/// The first key after those of this time and before, of keys that begin with `prefix` and go on
/// with a time.
pub(crate) fn after_time(prefix: &[u8], time: u64) -> Key {
    match time.checked_add(1) {
        Some(next) => with_number(copy(prefix), next),
        None => end_of(prefix),
    }
}

/// The key of the count of a failure group.
pub(crate) fn failure_group(run: Run, group: &str) -> Key {
    with_text(in_run(Tag::FailureGroup, run), group)
}

/// The failure group in a key of [`buried_group`] or [`failure_group`].
pub(crate) fn failure_group_of(key: &[u8]) -> Option<&str> {
    text_of(key.get(RUN_PREFIX..)?)
}

fn text_of(rest: &[u8]) -> Option<&str> {
    let (length, rest) = rest.split_first_chunk()?;
    std::str::from_utf8(rest.get(..usize::from(u16::from_be_bytes(*length)))?).ok()
}

/// The tag of the queue's rows about buried tasks of this run.
fn failed_tag(run: Run) -> Tag {
    if run.is_temporary() { Tag::FailedTemporary } else { Tag::Failed }
}

/// The beginning of the queue's rows about the buried tasks of one failure group, in durable or in
/// temporary tubes.
pub(crate) fn failed_of(run: Run, group: &str) -> Key {
    with_text(tagged(failed_tag(run), &[]), group)
}

pub(crate) fn failed(run: Run, group: &str, time: u64, id: TaskId) -> Key {
    let mut key = with_number(failed_of(run, group), time);
    key.extend_from_slice(&run.0.to_be_bytes());
    with_id(key, id)
}

/// The key of [`failed`] that belongs to a key of [`buried_group`].
pub(crate) fn failed_beside(buried_group: &[u8]) -> Option<Key> {
    let run = Range::holding(buried_group)?.run?;
    let end = buried_group.len().checked_sub(8)?;
    let mut key = tagged(failed_tag(run), &[]);
    key.extend_from_slice(buried_group.get(RUN_PREFIX..end)?);
    key.extend_from_slice(&run.0.to_be_bytes());
    Some(with_id(key, id_of(buried_group)?))
}

/// The key of [`buried_group`] that belongs to a key of [`failed`].
pub(crate) fn buried_group_beside(failed: &[u8]) -> Option<Key> {
    let (before, run_and_id) = failed.split_at_checked(failed.len().checked_sub(12)?)?;
    let run = Run(u32::from_be_bytes(run_and_id.get(..4)?.try_into().ok()?));
    let mut key = in_run(Tag::BuriedGroup, run);
    key.extend_from_slice(before.get(1..)?);
    Some(with_id(key, id_of(failed)?))
}

/// The run in a key of [`failed`].
pub(crate) fn run_of_failed(failed: &[u8]) -> Option<Run> {
    let run = failed.get(failed.len().checked_sub(12)?..)?.first_chunk()?;
    Some(Run(u32::from_be_bytes(*run)))
}
