//! The kinds of tube, and what the tasks of each may use. Names them, and applies none.

/// What a tube's tasks may use. An option whose switch is off is refused, never ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Switches {
    pub(crate) priority: bool,
    pub(crate) timed: bool,
    pub(crate) grouped: bool,
    pub(crate) capacity: bool,
}

/// The kinds of tube: the general one, and the five of the tarantool queue as presets of the four
/// switches priority, timed (ttl, ttr, delay, back-off), grouped and capacity. Keys and a limit of
/// attempts work in each, a placement in the general one only.
///
/// ```
/// use tubewell::{ErrorKind, Queue, TubeKind, TubeOptions};
///
/// # fn main() -> tubewell::Result<()> {
/// let queue = Queue::in_memory()?;
/// let tube = queue.create_tube("letters", TubeOptions::new(TubeKind::Fifo))?;
/// let refused = tube.task(b"hello").priority(1).put().unwrap_err();
/// assert_eq!(refused.kind(), ErrorKind::Unsupported);
/// # Ok(())
/// # }
/// ```
///
/// With the feature `serde` it can be serialised, such as `lim_fifo_ttl`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum TubeKind {
    /// Everything: priority, times, groups, capacity. Twenty attempts, doubling back-off. The
    /// default.
    #[default]
    General,
    /// Put order, and no switch.
    Fifo,
    /// Priority and times.
    FifoTtl,
    /// Priority, times and a capacity.
    LimFifoTtl,
    /// Groups with one task in flight each. Tasks without a group form one group.
    Utube,
    /// Groups, priority and times.
    UtubeTtl,
}

impl TubeKind {
    pub(crate) fn switches(self) -> Switches {
        let of =
            |priority, timed, grouped, capacity| Switches { priority, timed, grouped, capacity };
        match self {
            Self::General => of(true, true, true, true),
            Self::Fifo => of(false, false, false, false),
            Self::FifoTtl => of(true, true, false, false),
            Self::LimFifoTtl => of(true, true, false, true),
            Self::Utube => of(false, false, true, false),
            Self::UtubeTtl => of(true, true, true, false),
        }
    }

    /// Whether tasks without a group form one group, as in tarantool's utubes.
    #[inline(always)]
    pub(crate) fn groups_all(self) -> bool {
        matches!(self, Self::Utube | Self::UtubeTtl)
    }

    /// All, each at its number on the disk.
    pub(crate) const ALL: [Self; 6] =
        [Self::General, Self::Fifo, Self::FifoTtl, Self::LimFifoTtl, Self::Utube, Self::UtubeTtl];

    /// Its number on the disk.
    pub(crate) fn code(self) -> u8 {
        self as u8
    }

    pub(crate) fn of_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }
}
