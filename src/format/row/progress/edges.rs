//! How many edges a task has: to tasks that come after it, and to those that it comes after.

use super::TaskProgress;
use crate::format::key::Direction;
use crate::format::pack::{Packer, Unpacker, Value};

/// Number of the extension field of a task with how many edges it has to tasks that come after it,
/// and of that with those to tasks that it comes after. Absent without any. For a finished task the
/// first one says besides that it is kept for those tasks.
const DEPENDENTS_FIELD: u16 = 10;
const DEPENDENCIES_FIELD: u16 = 11;

/// How many edges a task has in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EdgeCounts {
    /// Those that are not met.
    pub(crate) open: u32,
    pub(crate) met: u32,
}

impl EdgeCounts {
    pub(crate) fn is_empty(self) -> bool {
        self == Self::default()
    }

    fn encode(self) -> Value {
        let mut field = Packer::new();
        field.u32(self.open).u32(self.met);
        field.done()
    }

    fn decode(field: &[u8]) -> Option<Self> {
        let mut rest = Unpacker::new(field);
        let (open, met) = (rest.u32()?, rest.u32()?);
        rest.end(Self { open, met }).filter(|counts| !counts.is_empty())
    }
}

fn edges_field(direction: Direction) -> u16 {
    match direction {
        Direction::Dependent => DEPENDENTS_FIELD,
        Direction::Dependency => DEPENDENCIES_FIELD,
    }
}

impl TaskProgress {
    /// How many edges it has in this direction.
    pub(crate) fn edges(&self, direction: Direction) -> EdgeCounts {
        let field = self.extension.get(edges_field(direction));
        field.and_then(EdgeCounts::decode).unwrap_or_default()
    }

    /// Returns `false` and changes nothing if fields of later versions leave no room.
    #[must_use]
    pub(crate) fn set_edges(&mut self, direction: Direction, counts: EdgeCounts) -> bool {
        if counts.is_empty() {
            self.extension.remove(edges_field(direction));
            return true;
        }
        self.extension.set(edges_field(direction), &counts.encode())
    }

    /// Whether its fields of this file can be decoded.
    pub(super) fn has_sound_edges(&self) -> bool {
        Direction::BOTH.into_iter().all(|direction| {
            let field = self.extension.get(edges_field(direction));
            field.is_none_or(|field| EdgeCounts::decode(field).is_some())
        })
    }
}
