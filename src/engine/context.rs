//! The inputs and outputs of one op: it reads rows, the time and new numbers here, and its decision
//! is collected here as values. Nothing is written; a refused op changes nothing except that its
//! numbers are used up.

use crate::engine::decision::{Decision, Over};
use crate::engine::effects::{Border, Effects, TubeChange};
use crate::engine::tube_cache::{KnownTubes, TubeEntry, TubeRef};
use crate::format::feature::Feature;
use crate::format::key::{self, Key, Range, Run};
use crate::format::row::TubeRow;
use crate::format::{Met, RowOp, Tag, Value, View};
use crate::words::clock::{Now, micros};
use crate::words::error::{DamagedRow, Error, ErrorKind, Result};
use crate::words::limits::{SWEEP_BYTES, SWEEP_ROWS};
use crate::words::numbers::Numbers;
use crate::words::task::{Cause, TaskId};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// One call of a user, as a value.
pub(crate) trait Op {
    /// The result.
    type Done;

    /// Whether it depends on which delays and pauses have ended. Those of its tube that have then
    /// end first.
    const SEES_DELAYS: bool = true;

    /// Whether it works in the tubes of a set, see [`tube_set`](Self::tube_set).
    const OVER_SET: bool = false;

    /// Whether its caller works off what it has written for the ends of tasks. Work of the queue
    /// itself leaves that to another step.
    const FOLLOWS_ENDS: bool = true;

    /// The tube whose due work is done first, so that no op sees a task that should have moved.
    /// `None` for an op that works in no tube, or that is itself such work.
    fn tube(&self) -> Option<u32> {
        None
    }

    /// The set of tubes whose due work is done first, of an op that works in several.
    fn tube_set(&self) -> Option<u32> {
        None
    }

    /// The most numbers that the op draws.
    fn numbers(&self) -> Numbers {
        Numbers::default()
    }

    /// Whether it adds tasks, which is refused on a full disk.
    fn adds(&self) -> bool {
        false
    }

    /// Whether the rows may have more bytes after it. A full disk allows only a few more.
    fn grows(&self) -> bool {
        false
    }

    /// Whether it brings tasks back with an error, or sets them aside, which a full disk allows for
    /// some more of them.
    fn brings_back(&self) -> bool {
        false
    }

    /// The tasks whose outcome is unknown if the sync of the op fails.
    fn in_doubt(&self, done: &Self::Done) -> Vec<TaskId> {
        let _ = done;
        Vec::new()
    }

    /// Decides. After an error nothing happens.
    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<Self::Done>;
}

/// Numbers reserved for this process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reserve {
    pub(crate) next: Numbers,
    pub(crate) end: Numbers,
}

impl Reserve {
    pub(crate) fn left(&self) -> Numbers {
        self.end.less(self.next)
    }
}

/// The subscribers of events.
pub(crate) trait EventSubscribers {
    /// Whether one of them wants the payloads of this tube's tasks.
    fn payloads_of(&self, tube: &str) -> bool;

    /// The most payload bytes that one of them keeps.
    fn bytes_kept(&self) -> usize;

    /// Whether one of them may want payloads.
    fn want_payloads(&self) -> bool;
}

/// Subscribers of which none wants payloads.
pub(crate) struct WithoutPayloads;

impl EventSubscribers for WithoutPayloads {
    fn payloads_of(&self, _tube: &str) -> bool {
        false
    }

    fn bytes_kept(&self) -> usize {
        0
    }

    fn want_payloads(&self) -> bool {
        false
    }
}

/// The damaged rows that were repaired for a call, as far as possible. Usually none.
pub(crate) type Repaired = Vec<DamagedRow>;

/// What one op reads and where it decides.
pub(crate) struct OpContext<'a> {
    pub(crate) view: &'a dyn View,
    /// Agree with the view.
    pub(crate) known: &'a dyn KnownTubes,
    pub(crate) numbers: &'a mut Reserve,
    /// Collects the decision.
    pub(crate) decision: &'a mut Decision,
    /// Subscribers, if there are some.
    pub(crate) wants: Option<&'a dyn EventSubscribers>,
    pub(crate) repaired: &'a Repaired,
    pub(crate) now: Now,
}

impl<'a> OpContext<'a> {
    /// What was read through the row of this key. If it is damaged, the rule ends with the error.
    /// The commit repairs the row and tries the rule again. `None` if the repair did not help: the
    /// rule continues without the row.
    ///
    /// # Errors
    /// `Damaged`, with the row, if it was not repaired yet.
    #[inline]
    pub(crate) fn or_repair<T>(
        &self,
        tube: &TubeEntry,
        key: impl FnOnce() -> Key,
        read: Result<T>,
    ) -> Result<Option<T>> {
        match read {
            Ok(read) => Ok(Some(read)),
            Err(error) => self.pass_by(tube, key, error).map(|()| None),
        }
    }

    /// The same for an error that was met: the rule continues without the row if the repair did not
    /// help.
    #[cold]
    pub(crate) fn pass_by(
        &self,
        tube: &TubeEntry,
        key: impl FnOnce() -> Key,
        error: Error,
    ) -> Result<()> {
        if error.kind() != ErrorKind::Damaged {
            return Err(error);
        }
        let error = error.at_row(tube.number, &key());
        let is_repaired = error.row().is_some_and(|row| self.repaired.contains(row));
        if is_repaired { Ok(()) } else { Err(error) }
    }

    fn over(&self) -> Over<'_> {
        Over { view: self.view, decision: self.decision }
    }

    /// A task's id, or a number in the order of ids, that was never assigned before. The commit has
    /// made sure that the op has as many numbers as it announced.
    pub(crate) fn id(&mut self) -> u64 {
        self.draw(Numbers::of_ids(1)).ids
    }

    /// The first id that has not been given to a task.
    pub(crate) fn next_id(&self) -> u64 {
        self.numbers.next.ids
    }

    /// Draws so many consecutive ids. Returns the first.
    pub(crate) fn ids(&mut self, count: u64) -> u64 {
        self.draw(Numbers::of_ids(count)).ids
    }

    /// A lease's token, higher than every token before.
    pub(crate) fn token(&mut self) -> u64 {
        self.draw(Numbers::of_tokens(1)).tokens
    }

    #[inline]
    fn draw(&mut self, count: Numbers) -> Numbers {
        debug_assert!(self.numbers.left().covers(count), "an op drew more than it announced");
        let drawn = self.numbers.next;
        self.numbers.next = drawn.plus(count);
        drawn
    }

    #[inline]
    pub(crate) fn add(&mut self, key: Key, value: Value) {
        self.decision.rows.write((key, RowOp::Add(value)));
    }

    #[inline]
    pub(crate) fn change(&mut self, key: Key, value: Value) {
        self.decision.rows.write((key, RowOp::Change(value)));
    }

    #[inline]
    pub(crate) fn remove(&mut self, key: Key) {
        self.decision.rows.write((key, RowOp::Remove));
    }

    /// When a task with this delay, or that may start at this time of day, becomes ready, and
    /// whether by the wall clock; `None` if it is ready now. Of both, the time of day counts.
    pub(crate) fn due(
        &self,
        delay: Option<Duration>,
        run_at: Option<SystemTime>,
    ) -> Option<(u64, bool)> {
        if let Some(at) = run_at {
            let at = at.duration_since(UNIX_EPOCH).map_or(0, micros);
            return (at > self.now.wall).then_some((at, true));
        }
        let delay = micros(delay.filter(|delay| !delay.is_zero())?);
        Some((self.now.queue.saturating_add(delay), false))
    }

    /// Decides a part over what is decided so far. After an error nothing of it is left.
    #[cold]
    pub(crate) fn attempt<R>(
        &mut self,
        decide: impl FnOnce(&mut OpContext<'_>) -> Result<R>,
    ) -> Result<R> {
        let (next, mut part) = (self.numbers.next, self.decision.begin_part());
        let decided = decide(&mut OpContext {
            view: &Over { view: self.view, decision: self.decision },
            known: self.known,
            numbers: self.numbers,
            decision: &mut part,
            wants: self.wants,
            repaired: self.repaired,
            now: self.now,
        });
        match &decided {
            Ok(_) => self.decision.add_part(part),
            Err(_) => {
                self.decision.drop_part(part);
                self.numbers.next = next;
            }
        }
        decided
    }

    /// Adds the row or replaces it, also if it is damaged.
    pub(crate) fn set(&mut self, key: Key, value: Value) -> Result<()> {
        match self.row(&key)? {
            Some(_) => self.change(key, value),
            None => self.add(key, value),
        }
        Ok(())
    }

    /// Says that the rows need this feature. It is entered before they are written.
    pub(crate) fn needs(&mut self, feature: &Feature) {
        self.decision.needs.get_or_insert_default().add(feature);
    }

    /// What is published after the commit.
    #[inline]
    pub(crate) fn effects(&mut self) -> &mut Effects {
        &mut self.decision.effects
    }

    /// The border of a tube's fresh tasks after the decision so far; `None` if it is not known.
    #[inline]
    pub(crate) fn border<'t>(&'t self, tube: &'t TubeEntry) -> Option<&'t Border> {
        self.decision.effects.border(tube.number).or(tube.border.as_ref())
    }

    /// Whether a sweep ends here, because of the payload bytes that it has read for events, and for
    /// calls that wait for the end of a task, or because of the rows that it writes: of tasks with
    /// many tags.
    pub(crate) fn is_sweep_long(&self) -> bool {
        let decision = &self.decision;
        decision.effects.payload_bytes() >= SWEEP_BYTES
            || decision.rows.layer.entries() >= SWEEP_ROWS
    }

    /// Writes a work row, which the timer handles.
    pub(crate) fn set_work(&mut self, at: Key, work: Value) -> Result<()> {
        self.decision.effects.begin_timer_work();
        self.set(at, work)
    }

    /// Writes the row of a tube. With a cause the change is published as an event.
    pub(crate) fn set_tube(
        &mut self,
        number: u32,
        row: TubeRow,
        cause: Option<Cause>,
    ) -> Result<()> {
        self.set(key::tube(number), row.encode())?;
        let row = Some(Box::new(row));
        let (setting, stalled, is_adopted, schedule) = (None, 0, false, None);
        let change = TubeChange { number, row, cause, setting, stalled, is_adopted, schedule };
        self.decision.effects.tubes.push(change);
        Ok(())
    }

    /// The tube of this number, as it was before the op.
    ///
    /// # Errors
    /// `TubeNotFound` if it was dropped.
    #[inline]
    pub(crate) fn tube(&self, number: u32) -> Result<TubeRef<'a>> {
        known_tube((self.known, self.view), number)
    }
}

/// The tube of this number, as it is known, or else read.
///
/// # Errors
/// `TubeNotFound` if it was dropped, or `Damaged` if its row is damaged.
#[inline(always)]
pub(crate) fn known_tube<'a>(
    (known, view): (&'a dyn KnownTubes, &dyn View),
    number: u32,
) -> Result<TubeRef<'a>> {
    match known.known(number) {
        Some(tube) => Ok(TubeRef::Known(tube)),
        None => Ok(TubeRef::Read(Box::new(tube(view, number)?))),
    }
}

impl View for OpContext<'_> {
    #[inline]
    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.over().get(key)
    }

    #[inline]
    fn first(&self, from: &[u8], to: &[u8]) -> Result<Option<Met>> {
        self.over().first(from, to)
    }

    #[inline]
    fn count(&self, range: Range) -> u64 {
        self.over().count(range)
    }

    #[inline]
    fn count_all(&self, run: Run, tags: &[Tag]) -> u64 {
        self.over().count_all(run, tags)
    }

    fn durable_bytes(&self) -> u64 {
        self.over().durable_bytes()
    }

    fn is_full(&self) -> bool {
        self.view.is_full()
    }
}

/// The tube of this number.
///
/// # Errors
/// `TubeNotFound` if it was dropped, or `Damaged` if its row is damaged.
pub(crate) fn tube(view: &dyn View, number: u32) -> Result<TubeEntry> {
    let missing = || Error::new(ErrorKind::TubeNotFound).because("the tube was dropped");
    let row = decoded(view.get(&key::tube(number)), TubeRow::decode, "tube")?;
    Ok(TubeEntry { number, row: row.ok_or_else(missing)?, border: None, day: None })
}

/// The decoded row, if there is one. `what` says in the error what kind of row it is.
///
/// # Errors
/// `Damaged` if it cannot be decoded.
pub(crate) fn decoded<T>(
    row: Result<Option<Value>>,
    decode: impl FnOnce(&[u8]) -> Option<T>,
    what: &str,
) -> Result<Option<T>> {
    row?.map(|row| decode(&row).ok_or_else(|| damaged(what))).transpose()
}

/// What was read; `None` if it is damaged and no repair is left to try.
pub(crate) fn sound<T>(read: Result<T>) -> Result<Option<T>> {
    match read {
        Err(error) if error.kind() == ErrorKind::Damaged && error.row().is_none() => Ok(None),
        read => read.map(Some),
    }
}

/// A row with a correct checksum that still does not decode.
#[cold]
pub(crate) fn damaged(row: &str) -> Error {
    Error::new(ErrorKind::Damaged).because(format!("a {row} row cannot be decoded"))
}
