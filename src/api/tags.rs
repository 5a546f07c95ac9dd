//! The tags of tasks: given and taken on a living task, and the listings by tag.

use crate::api::lease::{Lease, Task};
use crate::api::put::NewTask;
use crate::api::queue::Queue;
use crate::api::queue_inner::QueueInner;
use crate::api::ticket_handle::TicketHandle;
use crate::api::tube::Tube;
use crate::engine::log::Logged;
use crate::engine::tag_counts;
use crate::engine::tag_task::TagTask;
use crate::runtime::tagged::{TagWalk, TopWalk};
#[cfg(doc)]
use crate::words::error::ErrorKind;
use crate::words::error::Result;
use crate::words::limits::TAGS_GIVEN_MAX;
use crate::words::macros::debug;
use crate::words::sync::Arc;
use crate::words::tags::{TagCount, check, check_given};
use crate::words::task::{TaskId, TaskSummary};

/// The tags of a task.
impl<T: ?Sized> Tube<T> {
    /// Adds tags to a task, in any state, after those that it has: short texts by which
    /// [`Queue::tagged`] finds it again. A tag that it has stays at its place, with its time. A
    /// task keeps its tags when it moves to another tube, when it is put again without tags, and as
    /// long as its tube [keeps](crate::TubeOptions::keep_finished) the finished task. Returns the
    /// tags that it has then, in their order.
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
    /// assert_eq!(tube.tag(id, ["urgent", "home"])?, ["home", "urgent"]);
    /// assert_eq!(tube.untag(id, ["home", "absent"])?, ["urgent"]);
    /// assert_eq!(tube.peek(id)?.tags, ["urgent"]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) for a tag that is empty, longer than 255 bytes or has
    /// control characters; [`TooLarge`](ErrorKind::TooLarge) for more than 64 tags of a task, or
    /// more than 4 KiB of them, and for more than 1024 tags in one call, those that are given twice
    /// among them; [`TaskNotFound`](ErrorKind::TaskNotFound);
    /// [`WrongTube`](ErrorKind::WrongTube) if it is in another tube;
    /// [`DiskFull`](ErrorKind::DiskFull); [`Full`](ErrorKind::Full) if temporary tubes hold as many
    /// bytes as they may; as [`delete`](Tube::delete).
    pub fn tag(
        &self,
        id: TaskId,
        tags: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<Vec<String>> {
        let after = with_tags(tags, |tags| {
            check(tags)?;
            self.change_tags(id, tags, true)
        });
        self.name_task_errors("tag", id, after)
    }

    /// Removes tags from a task, as [`tag`](Tube::tag) adds them. One that it does not have is not
    /// missed. It is not refused on a full disk. Returns the tags that it has then.
    ///
    /// # Errors
    /// [`TooLarge`](ErrorKind::TooLarge) for more than 1024 tags in one call; as
    /// [`delete`](Tube::delete).
    pub fn untag(
        &self,
        id: TaskId,
        tags: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<Vec<String>> {
        let after = with_tags(tags, |tags| self.change_tags(id, tags, false));
        self.name_task_errors("untag", id, after)
    }

    fn change_tags(&self, id: TaskId, tags: &[&str], is_added: bool) -> Result<Vec<String>> {
        let op = TagTask { tube: self.number, which: Logged::ById(id), tags, is_added };
        self.inner.core.run(&op, self.durability)
    }
}

/// The tags that a call was given, as an op takes them.
fn with_tags<R>(
    tags: impl IntoIterator<Item = impl AsRef<str>>,
    run: impl FnOnce(&[&str]) -> Result<R>,
) -> Result<R> {
    // One more than a call takes shows that it was given too many.
    let tags: Vec<_> = tags.into_iter().take(TAGS_GIVEN_MAX + 1).collect();
    let tags: Vec<&str> = tags.iter().map(AsRef::as_ref).collect();
    check_given(&tags)?;
    run(&tags)
}

impl TicketHandle {
    /// As [`Lease::tag`](crate::Lease::tag).
    ///
    /// # Errors
    /// As [`Lease::tag`](crate::Lease::tag).
    pub fn tag(&self, tags: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Vec<String>> {
        let after = with_tags(tags, |tags| {
            check(tags)?;
            self.change_tags(tags, true)
        });
        after.map_err(|error| self.named(error, "tag"))
    }

    /// As [`Lease::untag`](crate::Lease::untag).
    ///
    /// # Errors
    /// As [`Lease::untag`](crate::Lease::untag).
    pub fn untag(&self, tags: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Vec<String>> {
        let after = with_tags(tags, |tags| self.change_tags(tags, false));
        after.map_err(|error| self.named(error, "untag"))
    }

    fn change_tags(&self, tags: &[&str], is_added: bool) -> Result<Vec<String>> {
        let op = TagTask { tube: self.number, which: Logged::Held(self.ticket), tags, is_added };
        self.inner.core.run(&op, self.durability)
    }
}

impl Lease {
    /// Adds tags to the task, as [`Tube::tag`] does. Returns those that it has then.
    ///
    /// # Errors
    /// [`LeaseLost`](ErrorKind::LeaseLost) if the lease has ended; as [`Tube::tag`].
    pub fn tag(&self, tags: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Vec<String>> {
        self.active().tag(tags)
    }

    /// Removes tags from the task, as [`Tube::untag`] does. Returns those that it has then.
    ///
    /// # Errors
    /// [`LeaseLost`](ErrorKind::LeaseLost) if the lease has ended; as [`Tube::untag`].
    pub fn untag(&self, tags: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Vec<String>> {
        self.active().untag(tags)
    }
}

impl<T: ?Sized> Task<T> {
    /// As [`Lease::tag`].
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// tube.task(b"hello").tag("home").put()?;
    /// let task = tube.take()?;
    /// assert_eq!(task.tag(["stamped"])?, ["home", "stamped"]);
    /// assert_eq!(task.untag(["home"])?, ["stamped"]);
    /// assert_eq!(task.tags()?, ["stamped"]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Lease::tag`].
    pub fn tag(&self, tags: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Vec<String>> {
        self.lease.tag(tags)
    }

    /// As [`Lease::untag`].
    ///
    /// # Errors
    /// As [`Lease::untag`].
    pub fn untag(&self, tags: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Vec<String>> {
        self.lease.untag(tags)
    }
}

// What one task and a batch have in common.
impl<'a, T: ?Sized, P> NewTask<'a, T, P> {
    /// With this tag, after those that it has, see [`Tube::tag`]. A batch gives it to each of its
    /// tasks that is put without tags. A task that is put again and is given tags has these instead
    /// of its own, in the order in which they are given; one that it had keeps its time.
    pub fn tag(self, tag: &'a str) -> Self {
        self.tags([tag])
    }

    /// With these tags, after those that it has, as [`tag`](NewTask::tag). No tags are given, too:
    /// `tags([])` takes all tags from a task that is put again, and a task of a batch has none of
    /// the batch's. At most 1024, those that are given twice among them.
    ///
    /// ```
    /// use tubewell::{Conflict, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// let put = || tube.task(b"hello").key("ada").on_conflict(Conflict::Replace);
    /// let id = put().tags(["home", "urgent"]).put()?;
    /// put().put()?; // keeps them
    /// assert_eq!(tube.peek(id)?.tags, ["home", "urgent"]);
    /// put().tags(["late", "home"]).put()?;
    /// assert_eq!(tube.peek(id)?.tags, ["late", "home"]);
    /// put().tags([]).put()?;
    /// assert!(tube.peek(id)?.tags.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn tags(mut self, tags: impl IntoIterator<Item = &'a str>) -> Self {
        self.extras.get_or_insert_default().add_tags(tags.into_iter());
        self
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
        TaggedTasks { inner: self.inner.clone(), walk: TagWalk::new(tag) }
    }

    /// The tags that at least two tasks have, of all tubes and in every state, with the number of
    /// their tasks: the most used first, then by the tag. The numbers are stored, and the tags are
    /// read page by page in that order. A tag whose number changes in the meantime may be missed or
    /// found twice, and one whose number is damaged is left out.
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
        TopTags { inner: self.inner.clone(), walk: TopWalk::new() }
    }

    /// How many tasks have a tag, of all tubes and in every state. The number is stored. After a
    /// tube was truncated or dropped its tasks are counted until a sweep has removed them, and a
    /// task whose ttl is over until a verb in its tube, or the timer, has.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tube = queue.tube("letters")?;
    /// let id = tube.task(b"hello").tag("ada").put()?;
    /// tube.task(b"cake").tag("ada").put()?;
    /// assert_eq!(queue.tag_count("ada")?, 2);
    /// tube.untag(id, ["ada"])?;
    /// assert_eq!((queue.tag_count("ada")?, queue.tag_count("bob")?), (1, 0));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Damaged`](ErrorKind::Damaged) if the stored number is, until [`repair`](Queue::repair)
    /// has counted the tasks; [`Closed`](ErrorKind::Closed);
    /// [`InTransaction`](ErrorKind::InTransaction).
    pub fn tag_count(&self, tag: &str) -> Result<u64> {
        self.call("count a tag", |core| core.look(|view, _| tag_counts::tasks(view, tag)))
    }
}

/// The tasks with a tag, from [`Queue::tagged`].
pub struct TaggedTasks {
    inner: Arc<QueueInner>,
    walk: TagWalk,
}

impl Iterator for TaggedTasks {
    type Item = Result<TaskSummary>;

    fn next(&mut self) -> Option<Self::Item> {
        let found = self.walk.next(&self.inner.core).map_err(|error| error.during("list"));
        found.transpose()
    }
}

/// The tags that at least two tasks have, from [`Queue::top_tags`].
pub struct TopTags {
    inner: Arc<QueueInner>,
    walk: TopWalk,
}

impl Iterator for TopTags {
    type Item = Result<TagCount>;

    fn next(&mut self) -> Option<Self::Item> {
        let found = self.walk.next(&self.inner.core).map_err(|error| error.during("list tags"));
        found.transpose()
    }
}

debug!([] TaggedTasks, "TaggedTasks", _this);
debug!([] TopTags, "TopTags", _this);
