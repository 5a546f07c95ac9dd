//! Features: what a folder may contain that not every version of format 1 knows. A folder that uses
//! none of them opens in every version.

use std::borrow::Cow;

/// The features that this version knows. A number is never used for another feature.
pub(crate) const KNOWN: &[Feature] = &[
    HIGHER_FIRST,
    RETRY_TERMS,
    FAILURES,
    MOVES,
    RETENTION,
    LAPSES,
    TRASH,
    HISTORY,
    REPORTS,
    PAYLOADS,
    UNIQUE,
    SETTINGS,
    DROPPED_PAYLOADS,
    KIND_INDEX,
    PENDING_OPTIONS,
    TAGS,
    TRACKING,
    SCHEDULES,
    DAY_STATISTICS,
    DEPENDENCIES,
    GATES,
    CONDITIONS,
    HOURS,
    THROTTLES,
    MERGES,
    ZONES,
    TASK_GATES,
    GROUP_GATES,
];

/// A tube in which higher priorities are first. A version without it would take the tasks in the
/// opposite order, and put new ones at wrong ranks.
pub(crate) const HIGHER_FIRST: Feature =
    Feature { number: 1, unknown: Unknown::Refuse, name: Cow::Borrowed("higher-first") };

/// A task with a limit of attempts or a back-off of its own. A version without it would use its
/// tube's.
pub(crate) const RETRY_TERMS: Feature =
    Feature { number: 2, unknown: Unknown::ReadOnly, name: Cow::Borrowed("retry-terms") };

/// A task that was retried or failed: what its last failure was, the failure group of an exhausted
/// one, and the counts of the groups. A version without it could not read exhausted tasks.
pub(crate) const FAILURES: Feature =
    Feature { number: 3, unknown: Unknown::Refuse, name: Cow::Borrowed("failures") };

/// A task that came from another tube, or whose step has passed a result on. A version without it
/// would leave the row that leads to the task.
pub(crate) const MOVES: Feature =
    Feature { number: 4, unknown: Unknown::Refuse, name: Cow::Borrowed("moves") };

/// A tube that keeps finished tasks, or removes buried ones by itself. A version without it would
/// remove each finished task, and keep each buried one.
pub(crate) const RETENTION: Feature =
    Feature { number: 5, unknown: Unknown::Refuse, name: Cow::Borrowed("retention") };

/// A tube in which a lapsed task does not just return at once to its place, charged; or a task that
/// stands ahead of every priority. A version without it would return the one so, and leave the
/// other ahead.
pub(crate) const LAPSES: Feature =
    Feature { number: 6, unknown: Unknown::ReadOnly, name: Cow::Borrowed("lapses") };

/// A task in the trash. A version without it would not find the task.
pub(crate) const TRASH: Feature =
    Feature { number: 7, unknown: Unknown::Refuse, name: Cow::Borrowed("trash") };

/// A task with a stored history. A version without it would leave the entries behind.
pub(crate) const HISTORY: Feature =
    Feature { number: 8, unknown: Unknown::Refuse, name: Cow::Borrowed("history") };

/// A task of whose work something was reported. A version without it would leave the rows behind.
pub(crate) const REPORTS: Feature =
    Feature { number: 9, unknown: Unknown::Refuse, name: Cow::Borrowed("reports") };

/// A task whose payload was replaced, or is being replaced. A version without it would use the same
/// row for the work on two payloads of one task.
pub(crate) const PAYLOADS: Feature =
    Feature { number: 10, unknown: Unknown::ReadOnly, name: Cow::Borrowed("payloads") };

/// A tube with other rules for keys than a version without it has, and a keyed task that does not
/// count for its key. Such a version would put a second task, or leave the rows behind.
pub(crate) const UNIQUE: Feature =
    Feature { number: 11, unknown: Unknown::Refuse, name: Cow::Borrowed("unique") };

/// A setting that is stored in the queue. A version without it would leave the row behind when the
/// tube is dropped, and not know the options that the tube was made with.
pub(crate) const SETTINGS: Feature =
    Feature { number: 12, unknown: Unknown::Refuse, name: Cow::Borrowed("settings") };

/// A tube that keeps finished tasks without their payloads. A version without it would take what is
/// left for the payload, and show so a task that was put again.
pub(crate) const DROPPED_PAYLOADS: Feature =
    Feature { number: 13, unknown: Unknown::Refuse, name: Cow::Borrowed("dropped-payloads") };

/// A tube with an index of the kinds of its tasks. A version without it would leave the rows
/// behind, and write none for new tasks.
pub(crate) const KIND_INDEX: Feature =
    Feature { number: 14, unknown: Unknown::Refuse, name: Cow::Borrowed("kind-index") };

/// A tube whose rows do not all follow a change of its options yet. A version without it would take
/// them for rows that do, and not know the work.
pub(crate) const PENDING_OPTIONS: Feature =
    Feature { number: 15, unknown: Unknown::Refuse, name: Cow::Borrowed("pending-options") };

/// A task with tags. A version without it would leave the rows behind, and count it on.
pub(crate) const TAGS: Feature =
    Feature { number: 16, unknown: Unknown::Refuse, name: Cow::Borrowed("tags") };

/// A tracked task. A version without it could not read the row.
pub(crate) const TRACKING: Feature =
    Feature { number: 17, unknown: Unknown::Refuse, name: Cow::Borrowed("tracking") };

/// A schedule, or a task that one has made. A version without it could not read the rows, and would
/// make no children.
pub(crate) const SCHEDULES: Feature =
    Feature { number: 18, unknown: Unknown::Refuse, name: Cow::Borrowed("schedules") };

/// A tube that keeps statistics of each day. A version without it could not read the records that
/// say what they add.
pub(crate) const DAY_STATISTICS: Feature =
    Feature { number: 19, unknown: Unknown::Refuse, name: Cow::Borrowed("day-statistics") };

/// A task that comes after others. A version without it could not read the rows, and would end a
/// task without telling those that come after it.
pub(crate) const DEPENDENCIES: Feature =
    Feature { number: 20, unknown: Unknown::Refuse, name: Cow::Borrowed("dependencies") };

/// A tube with a gate. A version without it would take more of its tasks than the gate lets
/// through.
pub(crate) const GATES: Feature =
    Feature { number: 21, unknown: Unknown::Refuse, name: Cow::Borrowed("gates") };

/// A condition of the queue, or a tube that requires one. A version without it could not read the
/// rows, and would take tasks while the condition is not set.
pub(crate) const CONDITIONS: Feature =
    Feature { number: 22, unknown: Unknown::Refuse, name: Cow::Borrowed("conditions") };

/// A tube with hours. A version without it would take its tasks at all times.
pub(crate) const HOURS: Feature =
    Feature { number: 23, unknown: Unknown::Refuse, name: Cow::Borrowed("hours") };

/// A throttle of the queue, or a tube that has one. A version without it could not read the rows,
/// and would take more tasks than it lets through.
pub(crate) const THROTTLES: Feature =
    Feature { number: 24, unknown: Unknown::Refuse, name: Cow::Borrowed("throttles") };

/// A tube whose tasks are moved to another one. A version without it would take tasks of it
/// meanwhile, and would not go on.
pub(crate) const MERGES: Feature =
    Feature { number: 25, unknown: Unknown::Refuse, name: Cow::Borrowed("merges") };

/// A tube with hours by the clocks of a time zone. A version without it could not read its row.
pub(crate) const ZONES: Feature =
    Feature { number: 26, unknown: Unknown::Refuse, name: Cow::Borrowed("zones") };

/// A task with gates of its own, or a schedule whose children have some. A version without it would
/// take the name of its line for that of a group, and the task whatever its gates say.
pub(crate) const TASK_GATES: Feature =
    Feature { number: 27, unknown: Unknown::Refuse, name: Cow::Borrowed("task-gates") };

/// A task of a group with gates of its own, or a schedule whose children have both. A version
/// without it would take the task whatever its gates say.
pub(crate) const GROUP_GATES: Feature =
    Feature { number: 28, unknown: Unknown::Refuse, name: Cow::Borrowed("group-gates") };

/// What a version does with a folder that uses a feature which the version does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unknown {
    Refuse = 1,
    ReadOnly = 2,
    Ignore = 3,
}

/// One feature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Feature {
    /// From 1, below 64. Some between those of [`KNOWN`] may be of other versions.
    pub(crate) number: u16,
    pub(crate) unknown: Unknown,
    pub(crate) name: Cow<'static, str>,
}

/// Which of the known features the rows of a decision need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Needs(u64);

impl Needs {
    pub(crate) fn add(&mut self, feature: &Feature) {
        self.0 |= 1 << feature.number;
    }

    /// Both.
    pub(crate) fn with(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// Those that are not among the others.
    pub(crate) fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn features(self) -> impl Iterator<Item = &'static Feature> {
        KNOWN.iter().filter(move |feature| self.0 & 1 << feature.number != 0)
    }
}

const _: () = {
    let (mut at, mut last) = (0, 0);
    while at < KNOWN.len() {
        #[expect(clippy::indexing_slicing, reason = "done by the compiler")]
        let number = KNOWN[at].number;
        assert!(number > last && number < 64);
        (at, last) = (at + 1, number);
    }
};
