//! How far the rows of a tube follow changes of its options. Of a tube whose rows follow all of
//! them it holds nothing.

use crate::format::pack::{Packer, Unpacker, Value};
use crate::words::task::{State, TaskId};

/// What is left of changes of a tube's options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PendingOptions {
    /// Of how many tasks of a group may be in flight.
    pub(crate) groups: Option<PendingGroups>,
    /// Of a limit of bytes that finished and buried tasks have got.
    pub(crate) finished: Option<PendingSum>,
    pub(crate) buried: Option<PendingSum>,
}

/// A change of how many tasks of a group may be in flight, that not all groups follow yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PendingGroups {
    /// How many it was before: that is in force in the groups between the two others.
    pub(crate) before: u32,
    /// The last group, in the order of the keys, that follows.
    pub(crate) to: String,
    /// The last that has to. It does not change, so that the work ends however many come later.
    pub(crate) until: String,
}

/// When a task has ended, and its id: its place in the index of tasks that have ended.
pub(crate) type EndedAt = (u64, TaskId);

/// A sum of the bytes of tasks that have ended, that does not contain all yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PendingSum {
    /// The last task that it contains of those that are added in turns.
    pub(crate) to: EndedAt,
    /// The last that has to be. It contains all that have ended later.
    pub(crate) until: EndedAt,
}

impl PendingGroups {
    /// How many it is in this group, if that is not the new number.
    pub(crate) fn before_in(&self, group: &str) -> Option<u32> {
        fn at(group: &str) -> (usize, &[u8]) {
            (group.len(), group.as_bytes())
        }
        (at(group) > at(&self.to) && at(group) <= at(&self.until)).then_some(self.before)
    }

    pub(super) fn field(&self) -> Value {
        let mut field = Packer::new();
        field.u32(self.before).short(&self.to).short(&self.until);
        field.done()
    }

    /// `None` for what this code has not written.
    pub(super) fn read(field: &[u8]) -> Option<Self> {
        let mut rest = Unpacker::new(field);
        let before = rest.u32().filter(|tasks| *tasks > 0)?;
        let (to, until) = (rest.short()?.to_owned(), rest.short()?.to_owned());
        rest.end(Self { before, to, until })
    }
}

impl PendingSum {
    /// Whether it contains the task of this place.
    pub(crate) fn contains(&self, at: EndedAt) -> bool {
        at <= self.to || at > self.until
    }

    pub(super) fn field(&self) -> Value {
        let mut field = Packer::new();
        for (time, id) in [self.to, self.until] {
            field.u64(time).u64(id.get());
        }
        field.done()
    }

    pub(super) fn read(field: &[u8]) -> Option<Self> {
        let mut rest = Unpacker::new(field);
        let mut place = || Some((rest.u64()?, TaskId::new(rest.u64()?)));
        let (to, until) = (place()?, place()?);
        rest.end(Self { to, until })
    }
}

impl PendingOptions {
    /// Whether something is left.
    pub(crate) fn is_any(&self) -> bool {
        self.groups.is_some() || self.finished.is_some() || self.buried.is_some()
    }

    /// What is left of the sum of the tasks that have ended in this state.
    #[inline]
    pub(crate) fn sum(&self, state: State) -> Option<PendingSum> {
        match state {
            State::Done => self.finished,
            State::Buried => self.buried,
            State::Blocked | State::Ready | State::Delayed | State::Taken => None,
        }
    }

    /// Sets it.
    pub(crate) fn set_sum(&mut self, state: State, left: Option<PendingSum>) {
        match state {
            State::Done => self.finished = left,
            State::Buried => self.buried = left,
            State::Blocked | State::Ready | State::Delayed | State::Taken => {}
        }
    }
}
