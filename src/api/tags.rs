//! The tags of tasks: given and taken on a living task, and the listings by tag.

use crate::api::queue::Queue;
use crate::api::queue_inner::QueueInner;
use crate::api::tube::Tube;
use crate::engine::tag_task::TagTask;
use crate::engine::tags;
use crate::runtime::tagged::{TagWalk, TopWalk};
#[cfg(doc)]
use crate::words::error::ErrorKind;
use crate::words::error::Result;
use crate::words::macros::debug;
use crate::words::sync::Arc;
use crate::words::tags::TagCount;
use crate::words::task::{TaskId, TaskSummary};

/// The tags of a task.
impl<T: ?Sized> Tube<T> {
    /// Adds tags to a task, in any state, after those that it has: short texts by which
    /// [`Queue::tagged`] finds it again. A tag that it has stays at its place, with its time. A
    /// task keeps its tags when it moves to another tube, when it is put again without tags, and as
    /// long as its tube [keeps](crate::TubeOptions::keep_finished) the finished task.
    ///
    /// Each tag is stored in some small rows beside the task, which a task without tags does not
    /// have.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tube = queue.tube("letters")?;
    /// let id = tube.task(b"hello").tag("home").put()?;
    /// tube.tag(id, &["urgent", "home"])?;
    /// assert_eq!(tube.peek(id)?.tags, ["home", "urgent"]);
    /// tube.untag(id, &["home", "absent"])?;
    /// assert_eq!(tube.peek(id)?.tags, ["urgent"]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) for a tag that is empty, longer than 255 bytes or has
    /// control characters; [`TooLarge`](ErrorKind::TooLarge) for more than 64 tags of a task, or
    /// more than 4 KiB of them; [`TaskNotFound`](ErrorKind::TaskNotFound);
    /// [`WrongTube`](ErrorKind::WrongTube) if it is in another tube;
    /// [`DiskFull`](ErrorKind::DiskFull); [`Full`](ErrorKind::Full) if temporary tubes hold as many
    /// bytes as they may; as [`delete`](Tube::delete).
    pub fn tag(&self, id: TaskId, tags: &[&str]) -> Result<()> {
        let op = TagTask { tube: self.number, id, tags, is_added: true };
        self.name_task_errors("tag", id, self.hold.core.run(&op, self.durability))
    }

    /// Removes tags from a task, as [`tag`](Tube::tag) adds them. One that it does not have is not
    /// missed. It is not refused on a full disk.
    ///
    /// # Errors
    /// As [`delete`](Tube::delete).
    pub fn untag(&self, id: TaskId, tags: &[&str]) -> Result<()> {
        let op = TagTask { tube: self.number, id, tags, is_added: false };
        self.name_task_errors("untag", id, self.hold.core.run(&op, self.durability))
    }
}

/// Tags.
impl Queue {
    /// The tasks with a tag, of all tubes and in every state, in the order in which they got it,
    /// and of one time by their ids. They are read page by page: a task that loses the tag in the
    /// meantime is left out, as are damaged ones. A tag that no task has is an empty listing.
    ///
    /// ```
    /// use tubewell::{Queue, Result};
    ///
    /// # fn main() -> Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let (letters, parcels) = (queue.tube("letters")?, queue.tube("parcels")?);
    /// let first = letters.task(b"hello").tag("ada").put()?;
    /// let second = parcels.task(b"cake").tag("ada").put()?;
    /// let ids: Vec<_> = queue.tagged("ada").map(|task| Ok(task?.id)).collect::<Result<_>>()?;
    /// assert_eq!(ids, [first, second]);
    /// let page: Vec<_> = queue.tagged("ada").skip(1).take(25).collect::<Result<_>>()?;
    /// assert_eq!((page.len(), &page[0].tube[..]), (1, "parcels"));
    /// assert_eq!(queue.tag_count("ada")?, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn tagged(&self, tag: &str) -> TaggedTasks {
        TaggedTasks { hold: self.hold.clone(), walk: TagWalk::new(tag) }
    }

    /// The tags that at least two tasks have, of all tubes and in every state, with the number of
    /// their tasks: the most used first, then by the tag. The numbers are stored, and the tags are
    /// read page by page in that order. A tag whose number changes in the meantime may be missed or
    /// found twice.
    ///
    /// ```
    /// use tubewell::{Queue, Result};
    ///
    /// # fn main() -> Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tube = queue.tube("letters")?;
    /// for tags in [&["ada"][..], &["ada", "bob"], &["ada", "bob", "once"]] {
    ///     tube.task(b"hello").tags(tags.iter().copied()).put()?;
    /// }
    /// let top = queue.top_tags().collect::<Result<Vec<_>>>()?;
    /// assert_eq!((&top[0].tag[..], top[0].tasks), ("ada", 3));
    /// assert_eq!((&top[1].tag[..], top[1].tasks), ("bob", 2));
    /// assert_eq!(top.len(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn top_tags(&self) -> TopTags {
        TopTags { hold: self.hold.clone(), walk: TopWalk::new() }
    }

    /// How many tasks have a tag, of all tubes and in every state. The number is stored. After a
    /// tube was truncated or dropped its tasks are counted until a sweep has removed them, and a
    /// task whose ttl is over until a verb in its tube, or the timer, has.
    ///
    /// # Errors
    /// [`Closed`](ErrorKind::Closed); [`InTransaction`](ErrorKind::InTransaction).
    pub fn tag_count(&self, tag: &str) -> Result<u64> {
        self.call("count a tag", |core| core.look(|view, _| tags::tasks(view, tag)))
    }
}

/// The tasks with a tag, from [`Queue::tagged`].
pub struct TaggedTasks {
    hold: Arc<QueueInner>,
    walk: TagWalk,
}

impl Iterator for TaggedTasks {
    type Item = Result<TaskSummary>;

    fn next(&mut self) -> Option<Self::Item> {
        let found = self.walk.next(&self.hold.core).map_err(|error| error.during("list"));
        found.transpose()
    }
}

/// The tags that at least two tasks have, from [`Queue::top_tags`].
pub struct TopTags {
    hold: Arc<QueueInner>,
    walk: TopWalk,
}

impl Iterator for TopTags {
    type Item = Result<TagCount>;

    fn next(&mut self) -> Option<Self::Item> {
        let found = self.walk.next(&self.hold.core).map_err(|error| error.during("list tags"));
        found.transpose()
    }
}

debug!([] TaggedTasks, "TaggedTasks", _this);
debug!([] TopTags, "TopTags", _this);
