//! Tags: what kind of row a key names, to what the row belongs, and which state it gives. The
//! numbers are on the disk, so no number is ever given to another kind.

use crate::words::task::State;

/// The tags: the number of each on the disk, to what its rows belong, and the state that a row
/// gives.
macro_rules! tags {
    ($($(#[$doc:meta])* $tag:ident = $byte:literal, $scope:ident, $state:expr;)*) => {
        /// What kind of row a key names. The numbers are on the disk.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub(crate) enum Tag {
            $($(#[$doc])* $tag = $byte,)*
        }

        impl Tag {
            /// In the order of their numbers.
            pub(crate) const ALL: [Self; [$($byte),*].len()] = [$(Self::$tag),*];

            #[inline(always)]
            pub(crate) const fn of(byte: u8) -> Option<Self> {
                match byte {
                    $($byte => Some(Self::$tag),)*
                    _ => None,
                }
            }

            /// To what the rows of each tag belong, by its number. A table, because this is asked
            /// for every row of a step.
            const SCOPES: [TagScope; Self::SPACE] = {
                let mut scopes = [TagScope::Queue; Self::SPACE];
                $(scopes[$byte] = TagScope::$scope;)*
                scopes
            };

            #[inline(always)]
            #[expect(clippy::indexing_slicing, reason = "every tag is smaller than the table")]
            pub(crate) const fn scope(self) -> TagScope {
                Self::SCOPES[self as usize]
            }

            /// The state that a row of this tag gives. A task has at most one such row; without one
            /// it is fresh.
            #[inline]
            pub(crate) const fn state(self) -> Option<State> {
                match self {
                    $(Self::$tag => $state,)*
                }
            }
        }
    };
}

tags! {
    /// what → counters of the whole queue
    Meta = 0x01, Mirrored, None;
    /// tube name → tube number
    Name = 0x02, Mirrored, None;
    /// tube number → `TubeRow`
    Tube = 0x03, Mirrored, None;
    /// kind, run, id → `WorkRow`, what a sweep has still to do. Of work on the pieces of a later
    /// payload also its generation
    Work = 0x04, Mirrored, None;
    /// consumer number → `ConsumerRow`
    Consumer = 0x05, Mirrored, None;
    /// consumer name → consumer number
    ConsumerName = 0x06, Mirrored, None;
    /// id → queue time since when the task is tracked, also after it is gone
    Tracked = 0x07, Mirrored, None;
    /// condition name → `ConditionRow`
    Condition = 0x08, Mirrored, None;
    /// throttle name → `ThrottleRow`
    Throttle = 0x09, Mirrored, None;
    /// run, id → `PositionRow`, for a task whose rank does not follow from its id
    Position = 0x10, Run, None;
    /// run, priority, order, id → `TaskRow` of a task that was put ready and in no group. It is
    /// still ready while no row gives it a state
    Fresh = 0x11, Run, None;
    /// run, priority, order, id → `TaskProgress`: ready, and in no group
    Ready = 0x12, Run, Some(State::Ready);
    /// run, group, priority, order, id → `TaskProgress`: ready, in a group, or in the line of the
    /// tasks with the same gates of their own
    Line = 0x13, Run, Some(State::Ready);
    /// run, priority, order, id → group: the first of the line of a group that may be taken from,
    /// unless it stands behind a gate
    OpenHead = 0x14, Run, None;
    /// run, group → how many of the group are in flight
    Group = 0x15, Run, None;
    /// run, id → `DelayedRow`
    Delayed = 0x16, Run, Some(State::Delayed);
    /// run, id → `TakenRow`
    Taken = 0x17, Run, Some(State::Taken);
    /// run, priority, order, id → `BuriedRow`
    Buried = 0x18, Run, Some(State::Buried);
    /// run, deadline, when, id → nothing
    Due = 0x19, Run, None;
    /// run, key text, id → nothing
    Key = 0x1a, Run, None;
    /// run, consumer, id → nothing: a lease of a named consumer
    OwnerLease = 0x1b, Run, None;
    /// run, time, id → nothing: a buried task by the time of its bury
    BuriedTime = 0x1c, Run, None;
    /// run, failure group, time, id → nothing: a buried task that failed
    BuriedGroup = 0x1d, Run, None;
    /// run, priority, order, id → `TaskRow` of a task that is not under `Fresh`
    Task = 0x1e, Run, None;
    /// run, failure group → how many buried tasks stand in it
    FailureGroup = 0x1f, Run, None;
    /// failure group, time, run, id → nothing: a buried task of any durable tube
    Failed = 0x20, Queue, None;
    /// The same for temporary tubes.
    FailedTemporary = 0x21, Temporary, None;
    /// id, payload generation, number → one piece of a payload too large for its `TaskRow`
    Piece = 0x22, Queue, None;
    /// The same for temporary tubes.
    PieceTemporary = 0x23, Temporary, None;
    /// id → tube number, of a task that came from another tube
    Moved = 0x24, Queue, None;
    /// The same for temporary tubes.
    MovedTemporary = 0x25, Temporary, None;
    /// run, id → `DoneRow`
    Done = 0x26, Run, Some(State::Done);
    /// run, time, id → nothing: a finished task by the time of its end
    DoneTime = 0x27, Run, None;
    /// run, priority, order, id → `BuriedRow`: in the trash
    Trashed = 0x28, Run, Some(State::Buried);
    /// run, time, id → nothing: a task in the trash by the time at which it was put there
    TrashedTime = 0x29, Run, None;
    /// run, tag of the state → payload and result bytes of the tasks that the run keeps in it
    Kept = 0x2a, Run, None;
    /// id, number → `HistoryRow`: what became of the task
    History = 0x2b, Queue, None;
    /// The same for temporary tubes.
    HistoryTemporary = 0x2c, Temporary, None;
    /// id, part → `ReportRow`, or the bytes of a checkpoint: what was reported of the work
    Report = 0x2d, Queue, None;
    /// The same for temporary tubes.
    ReportTemporary = 0x2e, Temporary, None;
    /// run, key text, id → nothing, of a task in a state in which it does not count for its key
    KeyUncounted = 0x2f, Run, None;
    /// key text, whether the task counts, id → tube number, of a tube whose keys are unique in the
    /// queue
    KeyOfQueue = 0x30, Queue, None;
    /// tube number or 0, name → `SettingRow`
    Setting = 0x31, Queue, None;
    /// run, kind, id → nothing, in a tube with an index of kinds
    Kind = 0x32, Run, None;
    /// id → `TagsRow`: the tags of a task
    TaskTags = 0x33, Queue, None;
    /// The same for temporary tubes.
    TaskTagsTemporary = 0x34, Temporary, None;
    /// tag text, time, id → tube number, of a task with the tag
    Tagged = 0x35, Queue, None;
    /// The same for temporary tubes.
    TaggedTemporary = 0x36, Temporary, None;
    /// tag text → how many tasks of durable tubes have the tag
    TaggedCount = 0x37, Queue, None;
    /// The same for temporary tubes.
    TaggedCountTemporary = 0x38, Temporary, None;
    /// count, the highest first, tag text → nothing, of a tag that two tasks of durable tubes have,
    /// or more
    TopTagged = 0x39, Queue, None;
    /// The same of all tubes, of a tag that a task of a temporary one has.
    TopTaggedTemporary = 0x3a, Temporary, None;
    /// schedule name → `ScheduleRow`
    Schedule = 0x3b, Queue, None;
    /// schedule name → `FiringRow`
    Firing = 0x3c, Queue, None;
    /// tube number, clock, when, schedule name → a copy of the `FiringRow`
    Fire = 0x3d, Queue, None;
    /// run, id → `BlockedRow`
    Blocked = 0x3e, Run, Some(State::Blocked);
    /// id, whether it is met, id of a task that comes after it → `EdgeRow`
    Dependent = 0x3f, Queue, None;
    /// The same for temporary tubes.
    DependentTemporary = 0x40, Temporary, None;
    /// id, whether it is met, id of a task that it comes after → `EdgeRow`
    Dependency = 0x41, Queue, None;
    /// The same for temporary tubes.
    DependencyTemporary = 0x42, Temporary, None;
    /// run, time, id → nothing: a finished task that is kept for its dependents, by the time of its
    /// end
    HeldTime = 0x43, Run, None;
    /// run, day → `DayRow`: the statistics of a day
    Day = 0x44, Run, None;
    /// condition name → `ConditionRow`, of a condition that the end of the process forgets
    RunCondition = 0x45, Temporary, None;
    /// run of the throttle, id, tube number → nothing: a taken task that holds a slot of a throttle
    Slot = 0x46, Throttle, None;
    /// run, gate, priority, order, id → line or group: the first of a line of tasks with gates of
    /// their own, or of a group, which stands here instead of among the heads, as this gate of it
    /// was met closed
    ClosedHead = 0x47, Run, None;
}

/// To what the rows of a tag belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TagScope {
    /// To the queue. They are few and often read, so all of them are kept in memory.
    Mirrored,
    /// To the queue. There may be as many as there are tasks.
    Queue,
    /// To the queue, about temporary tubes: they never reach the disk.
    Temporary,
    /// To a tube, under its run.
    Run,
    /// To a throttle, under its run: no tube has that one. Those about temporary tubes are under
    /// the same run of temporary ones.
    Throttle,
}

impl TagScope {
    /// Whether the keys of its tags contain a run.
    #[inline(always)]
    pub(crate) const fn has_run(self) -> bool {
        self as u8 >= Self::Run as u8
    }
}

impl Tag {
    /// The length of a table that is indexed by tags: every tag is smaller.
    #[expect(clippy::indexing_slicing, reason = "done by the compiler")]
    pub(crate) const SPACE: usize = Self::ALL[Self::ALL.len() - 1] as usize + 1;

    /// How many tags are counted by run, and the index of each among the counts of a run, or
    /// [`u8::MAX`]. The counts are kept on the disk; those of the whole queue under
    /// [`Run::QUEUE`](super::Run).
    #[expect(clippy::indexing_slicing, reason = "done by the compiler")]
    const TALLY: (u8, [u8; Self::SPACE]) = {
        let (mut count, mut places, mut at) = (0, [u8::MAX; Self::SPACE], 0);
        while at < Self::ALL.len() {
            if !matches!(Self::ALL[at].scope(), TagScope::Mirrored | TagScope::Temporary) {
                places[Self::ALL[at] as usize] = count;
                count += 1;
            }
            at += 1;
        }
        (count, places)
    };

    /// How many tags are counted by run.
    pub(crate) const TALLIED: usize = Self::TALLY.0 as usize;

    /// The tags of the rows that puts write. Every task has exactly one row of these.
    pub(crate) const TASKS: [Self; 2] = [Self::Fresh, Self::Task];

    /// The tags whose rows give a state.
    pub(crate) fn states() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|tag| tag.state().is_some())
    }

    /// The tags whose keys contain a tube's run.
    pub(crate) fn in_runs() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|tag| tag.scope() == TagScope::Run)
    }

    /// The index of this tag's count among the counts of a run; `None` if it is not counted there.
    #[inline]
    pub(crate) fn tallied(self) -> Option<usize> {
        let place = Self::TALLY.1.get(self as usize).copied().map(usize::from);
        place.filter(|place| *place < Self::TALLIED)
    }
}

/// One of these for each tag, by its number.
#[derive(Clone, Debug)]
pub(crate) struct ByTag<T>(pub(crate) [T; Tag::SPACE]);

impl<T: Default> Default for ByTag<T> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| T::default()))
    }
}

#[expect(clippy::indexing_slicing, reason = "done by the compiler")]
const _: () = {
    let mut at = 1;
    while at < Tag::ALL.len() {
        assert!((Tag::ALL[at - 1] as u8) < Tag::ALL[at] as u8);
        at += 1;
    }
    assert!(Tag::SPACE < u8::MAX as usize, "the key after a range needs a tag");
};
