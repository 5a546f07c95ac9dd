//! The keys of the rows about the tags of tasks: the tags of a task, the tasks of a tag, how many
//! there are, and the tags by that number. They stand under no tube, so that a move need not write
//! them under another key. Those of temporary tubes have tags of their own.

use super::{Key, Run, Tag, tagged, with_id, with_label, with_number};
use crate::words::task::TaskId;

/// The first of two tags of a key, or of a temporary tube the second.
fn of_run(run: Run, durable: Tag, temporary: Tag) -> Tag {
    if run.is_temporary() { temporary } else { durable }
}

/// The key of the tags of a task.
pub(crate) fn task_tags(run: Run, id: TaskId) -> Key {
    let tag = of_run(run, Tag::TaskTags, Tag::TaskTagsTemporary);
    tagged(tag, &id.get().to_be_bytes())
}

/// The beginning of the rows of the tasks with a tag.
pub(crate) fn tagged_of(run: Run, text: &str) -> Key {
    with_label(tagged(of_run(run, Tag::Tagged, Tag::TaggedTemporary), &[]), text)
}

/// The key of the row of a task that has the tag since this time.
pub(crate) fn tagged_task(run: Run, text: &str, time: u64, id: TaskId) -> Key {
    with_id(with_number(tagged_of(run, text), time), id)
}

/// The tag in a key of [`tagged_task`], and the time.
pub(crate) fn tag_in(key: &[u8]) -> Option<(&str, u64)> {
    let (length, rest) = key.get(1..)?.split_first()?;
    let (tag, rest) = rest.split_at_checked(usize::from(*length))?;
    let (time, _id) = rest.split_first_chunk()?;
    Some((std::str::from_utf8(tag).ok()?, u64::from_be_bytes(*time)))
}

/// The key of the number of tasks with a tag.
pub(crate) fn tag_count(run: Run, text: &str) -> Key {
    tagged(of_run(run, Tag::TaggedCount, Tag::TaggedCountTemporary), text.as_bytes())
}

/// The tag in a key of [`tag_count`].
pub(crate) fn tag_counted(key: &[u8]) -> Option<&str> {
    std::str::from_utf8(key.get(1..)?).ok()
}

/// The key of a tag among those by the number of their tasks, the most first.
pub(crate) fn top_tag(run: Run, tasks: u64, text: &str) -> Key {
    let key = tagged(of_run(run, Tag::TopTagged, Tag::TopTaggedTemporary), &[]);
    let mut key = with_number(key, !tasks);
    key.extend_from_slice(text.as_bytes());
    key
}

/// The number of tasks and the tag in a key of [`top_tag`].
pub(crate) fn of_top_tag(key: &[u8]) -> Option<(u64, &str)> {
    let (number, text) = key.get(1..)?.split_first_chunk()?;
    Some((!u64::from_be_bytes(*number), std::str::from_utf8(text).ok()?))
}

/// The key that says of an id that it is tracked.
pub(crate) fn tracked(id: TaskId) -> Key {
    tagged(Tag::Tracked, &id.get().to_be_bytes())
}
