//! A task that is to be put, as the caller describes it. Decides nothing.

use crate::engine::context::OpContext;
use crate::engine::stored::TaskState;
use crate::engine::tags::say;
use crate::engine::tube_cache::TubeEntry;
use crate::engine::update::Changes;
use crate::engine::{retry, task_gates};
use crate::format::Value;
use crate::format::key::Order;
use crate::format::row::{Labels, label_section};
use crate::words::backoff::RetryTerms;
use crate::words::dependency::After;
use crate::words::details;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::TAGS_GIVEN_MAX;
use crate::words::name;
use crate::words::tags;
use crate::words::task::{TaskId, Ticket};
use crate::words::task_gates::{TaskGates, place};
use crate::words::verb::Conflict;
use std::time::{Duration, SystemTime};

/// One task to be put.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewRow<'a> {
    pub(crate) payload: &'a [u8],
    pub(crate) codec: u8,
    pub(crate) version: u16,
    pub(crate) priority: Option<i64>,
    pub(crate) group: Option<&'a str>,
    pub(crate) key: Option<&'a str>,
    pub(crate) conflict: Conflict,
    pub(crate) delay: Option<Duration>,
    pub(crate) run_at: Option<SystemTime>,
    pub(crate) ttl: Option<Duration>,
    pub(crate) ttr: Option<Duration>,
    pub(crate) front: bool,
    /// Usually none.
    pub(crate) extras: Option<&'a Extras<'a>>,
    pub(crate) placed: Option<Placed<'a>>,
}

/// What few tasks are put with. It is apart, because every put copies its row.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extras<'a> {
    labels: Labels<'a>,
    /// The extension of the task's row, with the labels.
    section: Option<Value>,
    pub(crate) retry: RetryTerms,
    /// Without any the task is put without tags, and one that is put again keeps its own.
    pub(crate) tags: Option<Vec<&'a str>>,
    /// Only a task that is there already is put again.
    pub(crate) must_exist: bool,
    /// The caller's lease on the task of its key: if this put ends it, its holder knows.
    pub(crate) holding: Option<Ticket>,
    /// Without it the task waits for no other one, and one that is put again for those that it has
    /// waited for.
    pub(crate) after: Option<After>,
    gates: TaskGates<'a>,
    /// The gates as the name of a line.
    line: Option<String>,
}

impl<'a> Extras<'a> {
    /// Of this kind, and nothing else.
    #[cold]
    pub(crate) fn of_kind(kind: &'a str) -> Box<Self> {
        let mut extras = Box::<Self>::default();
        extras.label(|labels| labels.kind = Some(kind));
        extras
    }

    /// Changes what the caller says of the task.
    pub(crate) fn label(&mut self, change: impl FnOnce(&mut Labels<'a>)) {
        change(&mut self.labels);
        // What `check` will refuse may be too long for a section.
        let is_sound = self.check_labels().is_ok();
        let section = is_sound.then(|| label_section(&self.labels));
        self.section = section.filter(|section| !section.is_empty());
    }

    /// In which group or line it stands with this group, and which of its gates that does not say.
    #[cold]
    pub(crate) fn stand<'g>(
        &'g self,
        group: Option<&'g str>,
    ) -> (Option<&'g str>, Option<&'g str>) {
        place(group, self.line())
    }

    /// Changes the gates of its own.
    pub(crate) fn gate(&mut self, change: impl FnOnce(&mut TaskGates<'a>)) {
        change(&mut self.gates);
        self.line = (!self.gates.is_empty()).then(|| self.gates.line());
    }

    /// Has these gates, which are written as the name of a line.
    #[cold]
    pub(crate) fn gate_as(&mut self, gates: Option<&'a str>) {
        if let Some(line) = gates {
            self.gate(|gates| *gates = TaskGates::of_line(line));
        }
    }

    /// Its gates as the name of a line, if it has some.
    pub(crate) fn line(&self) -> Option<&str> {
        self.line.as_deref()
    }

    /// With the options of `common` where it has none.
    pub(crate) fn or(&self, common: &Extras<'a>) -> Self {
        let mut all = self.clone();
        if all.line.is_none() {
            all.gate(|gates| gates.clone_from(&common.gates));
        }
        all.retry = self.retry.or(common.retry);
        if all.tags.is_none() {
            all.tags.clone_from(&common.tags);
        }
        if let Some(common) = &common.after {
            all.after = Some(self.after.as_ref().unwrap_or(After::NONE).or(common));
        }
        all.label(|labels| {
            labels.kind = labels.kind.or(common.labels.kind);
            labels.book = labels.book.or(common.labels.book);
            for (name, text) in &common.labels.details {
                labels.details.entry(name).or_insert(text);
            }
        });
        all
    }

    /// Adds tags: of an endless list one more than a call may have, which is then refused.
    pub(crate) fn add_tags(&mut self, tags: impl Iterator<Item = &'a str>) {
        let given = self.tags.get_or_insert_default();
        let left = (TAGS_GIVEN_MAX + 1).saturating_sub(given.len());
        given.extend(tags.take(left));
    }

    pub(crate) fn labels(&self) -> &Labels<'a> {
        &self.labels
    }

    pub(crate) fn tags(&self) -> &[&'a str] {
        self.tags.as_deref().unwrap_or_default()
    }

    #[cold]
    pub(crate) fn section(&self) -> &[u8] {
        self.section.as_deref().unwrap_or_default()
    }

    /// Refuses what the tube's kind does not allow.
    #[cold]
    pub(crate) fn check(
        &self,
        tube: &TubeEntry,
        NewRow { key, conflict, .. }: &NewRow<'_>,
    ) -> Result<()> {
        let kind = tube.row.options.kind;
        self.gates.check()?;
        let text = match (*key, *conflict) {
            _ if !self.must_exist => "",
            (None, _) => "must_exist without a key, which says what must exist",
            (_, Conflict::Debounce) => "must_exist with a debounce, which may make a new task",
            _ => "",
        };
        if !text.is_empty() {
            return Err(Error::new(ErrorKind::Invalid).because(text));
        }
        if self.retry.backoff.is_some() && !kind.switches().timed {
            let text = format!("option backoff with kind {kind:?}");
            return Err(Error::new(ErrorKind::Unsupported).because(text));
        }
        tags::check(self.tags())?;
        self.check_labels()
    }

    fn check_labels(&self) -> Result<()> {
        let Labels { kind, book, details, .. } = &self.labels;
        kind.map_or(Ok(""), |kind| name::label("kind", kind))?;
        details::check(*book, details.iter().map(|(name, text)| (*name, *text)))
    }

    /// Whether the row of the task's state says more than its times.
    #[cold]
    pub(crate) fn has_terms(&self) -> bool {
        self.retry != RetryTerms::default() || !self.tags().is_empty() || self.is_after_any()
    }

    /// Whether tags or a kind are given.
    pub(crate) fn has_rows(&self) -> bool {
        !self.tags().is_empty() || self.labels.kind.is_some()
    }

    /// Whether it comes after others.
    pub(crate) fn is_after_any(&self) -> bool {
        self.after.as_ref().is_some_and(|after| !after.tasks.is_empty())
    }

    /// Refuses too many, and those that are given twice with other terms.
    ///
    /// # Errors
    /// `Invalid`.
    pub(crate) fn check_after(&self) -> Result<()> {
        self.after.as_ref().map_or(Ok(()), After::check)
    }

    /// After how many.
    pub(crate) fn edges(&self) -> usize {
        self.after.as_ref().map_or(0, |after| after.tasks.len())
    }

    /// Adds those.
    pub(crate) fn add_earlier(&self, ids: &mut Vec<TaskId>) {
        let after = self.after.iter().flat_map(|after| &after.tasks);
        ids.extend(after.map(|(id, _)| *id));
    }

    /// The first state with the terms, and with the gates that its line does not say.
    #[cold]
    pub(crate) fn start(
        &self,
        ctx: &mut OpContext<'_>,
        tube: &TubeEntry,
        (state, gates): (&TaskState, Option<&str>),
    ) -> Result<TaskState> {
        let mut state = state.clone();
        retry::set(ctx, tube, state.progress_mut(), self.retry)?;
        task_gates::set(state.progress_mut(), gates)?;
        if !self.tags().is_empty() {
            say(state.progress_mut(), true)?;
        }
        Ok(state)
    }
}

/// The answer of a `Placement` for a task, from before the op.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed<'a> {
    pub(crate) order: &'a [u8],
    pub(crate) group: Option<&'a str>,
    pub(crate) not_before: Option<SystemTime>,
}

impl<'a> NewRow<'a> {
    /// Without a payload and without options.
    pub(crate) const PLAIN: Self = Self {
        payload: &[],
        codec: 0,
        version: 0,
        priority: None,
        group: None,
        key: None,
        conflict: Conflict::Keep,
        delay: None,
        run_at: None,
        ttl: None,
        ttr: None,
        front: false,
        extras: None,
        placed: None,
    };

    /// Its order among the tasks of its priority, with the number of the put.
    #[inline(always)]
    pub(crate) fn order(&self, number: u64) -> Order {
        match self.placed.and_then(|placed| Order::placed(placed.order)) {
            Some(placed) => placed,
            None if self.front => Order::front(number),
            None => Order::back(number),
        }
    }

    /// The group that it is put in.
    #[inline(always)]
    pub(crate) fn placed_group(&self) -> Option<&'a str> {
        self.placed.and_then(|placed| placed.group).or(self.group)
    }

    /// Its own gates as the name of a line.
    #[inline(always)]
    pub(crate) fn gates(&self) -> Option<&'a str> {
        self.extras.and_then(Extras::line)
    }

    /// Not before this time of day.
    #[inline(always)]
    pub(crate) fn not_before(&self) -> Option<SystemTime> {
        self.placed.and_then(|placed| placed.not_before).or(self.run_at)
    }

    /// Refuses names that are none, and what the tube's kind does not allow of the extras.
    #[inline(always)]
    pub(crate) fn check_names(&self, tube: &TubeEntry) -> Result<()> {
        self.group.map_or(Ok(""), |group| name::label("group name", group))?;
        self.key.map_or(Ok(""), |key| name::label("key", key))?;
        self.extras.map_or(Ok(()), |extras| extras.check(tube, self))
    }

    /// Its options as changes of a task that is there already.
    #[cold]
    pub(crate) fn changes(&self) -> Changes {
        let run_at = self.not_before();
        let retry = self.extras.map(|extras| extras.retry).unwrap_or_default();
        let Self { priority, delay, ttl, ttr, .. } = *self;
        let delay = delay.filter(|_| run_at.is_none());
        Changes { priority, delay, run_at, ttl, ttr, retry }
    }

    /// With the options of `common` where it has none.
    pub(crate) fn or(self, common: &NewRow<'a>) -> Self {
        let is_timed = self.delay.is_some() || self.run_at.is_some();
        let (delay, run_at) = match is_timed {
            true => (self.delay, self.run_at),
            false => (common.delay, common.run_at),
        };
        Self {
            priority: self.priority.or(common.priority),
            group: self.group.or(common.group),
            ttl: self.ttl.or(common.ttl),
            ttr: self.ttr.or(common.ttr),
            extras: self.extras.or(common.extras),
            delay,
            run_at,
            ..self
        }
    }
}
