//! How far the rows of a tube follow changes of its options. Of a tube whose rows follow all of
//! them it holds nothing.

use crate::format::pack::{Packer, Unpacker, Value};
use crate::words::task::{State, TaskId};

/// What is left of changes of a tube's options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PendingOptions {
    /// Of how many tasks of a group may be in flight.
    pub(crate) groups: Option<PendingGroups>,
    /// Of a limit of bytes that finished and buried tasks have got: the last task that the stored
    /// sum of their bytes contains.
    pub(crate) finished: Option<EndedAt>,
    pub(crate) buried: Option<EndedAt>,
}

/// When a task has ended, and its id: its place in the index of tasks that have ended.
pub(crate) type EndedAt = (u64, TaskId);

/// A change of how many tasks of a group may be in flight, that not all groups follow yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PendingGroups {
    /// How many it was before: that is in force in the groups that come later.
    pub(crate) before: u32,
    /// The last group, in the order of the keys, in which the new number is in force.
    pub(crate) to: String,
}

impl PendingGroups {
    /// How many it is in this group, if that is not the new number.
    pub(crate) fn before_in(&self, group: &str) -> Option<u32> {
        fn at(group: &str) -> (usize, &[u8]) {
            (group.len(), group.as_bytes())
        }
        (at(group) > at(&self.to)).then_some(self.before)
    }

    pub(super) fn field(&self) -> Value {
        let mut field = Packer::new();
        field.u32(self.before).bytes(self.to.as_bytes());
        field.done()
    }

    /// `None` for what this code has not written.
    pub(super) fn read(field: &[u8]) -> Option<Self> {
        let mut rest = Unpacker::new(field);
        let before = rest.u32().filter(|tasks| *tasks > 0)?;
        let to = std::str::from_utf8(rest.rest()).ok()?;
        (to.len() <= usize::from(u8::MAX)).then(|| Self { before, to: to.to_owned() })
    }
}

impl PendingOptions {
    /// Whether something is left.
    pub(crate) fn is_any(&self) -> bool {
        self.groups.is_some() || self.finished.is_some() || self.buried.is_some()
    }

    /// The last task in a sum that does not contain all, of the tasks that have ended in this
    /// state; `None` if it does, and for other states.
    #[inline]
    pub(crate) fn summed(&self, state: State) -> Option<EndedAt> {
        match state {
            State::Done => self.finished,
            State::Buried => self.buried,
            State::Ready | State::Delayed | State::Taken => None,
        }
    }

    /// Sets it.
    pub(crate) fn set_summed(&mut self, state: State, to: Option<EndedAt>) {
        match state {
            State::Done => self.finished = to,
            State::Buried => self.buried = to,
            State::Ready | State::Delayed | State::Taken => {}
        }
    }
}

/// The field of such a place.
pub(super) fn ended_field((time, id): EndedAt) -> Value {
    let mut field = Packer::new();
    field.u64(time).u64(id.get());
    field.done()
}

pub(super) fn read_ended(field: &[u8]) -> Option<EndedAt> {
    let mut rest = Unpacker::new(field);
    let at = (rest.u64()?, TaskId::new(rest.u64()?));
    rest.end(at)
}
