//! The slots of throttles: a throttle lets as many tasks of all its tubes be taken as it has slots,
//! and a taken task holds one until its lease ends. Each slot that is held is a row under the run
//! of the throttle, so that they are counted without a look at tubes. A name without a throttle,
//! and one whose row is damaged, lets all tasks through.

use crate::engine::context::{Op, OpContext, decoded, sound};
use crate::engine::stored::TaskRef;
use crate::engine::task_gates;
use crate::engine::tube_cache::TubeEntry;
use crate::format::key::{self, Key, Range, Run};
use crate::format::row::{Slots, TakenRow, TaskProgress, ThrottleRow};
use crate::format::{Met, Scan, Tag, View};
use crate::words::clock::{NEVER, Now};
use crate::words::error::Result;
use crate::words::task::TaskId;
use crate::words::task_gates::throttles;

/// A throttle with a limit, as it is now.
pub(crate) struct Throttled {
    pub(crate) run: Run,
    pub(crate) limit: u64,
    pub(crate) in_flight: u64,
}

/// The throttle of this name.
pub(crate) fn read(view: &dyn View, name: &str) -> Result<Option<ThrottleRow>> {
    let row = view.get(&key::throttle(name));
    Ok(sound(decoded(row, ThrottleRow::decode, "throttle"))?.flatten())
}

/// The same, if it has a limit that is in force.
pub(crate) fn limited(view: &dyn View, name: &str, now: Now) -> Result<Option<Throttled>> {
    let row = read(view, name)?.filter(|row| row.limit > 0 && now.queue < row.ends);
    Ok(row.map(|ThrottleRow { run, limit, .. }| {
        let in_flight = in_flight(view, run);
        Throttled { run, limit, in_flight }
    }))
}

/// When the limit of a throttle ends by itself, in queue time; [`NEVER`] if it does not.
pub(crate) fn end(view: &dyn View, name: &str, now: Now) -> u64 {
    // A row that cannot be read has no end.
    let row = read(view, name).ok().flatten().filter(|row| row.limit > 0);
    row.map(|row| row.ends).filter(|ends| *ends > now.queue).unwrap_or(NEVER)
}

/// How many slots of a throttle are held, those by tasks of temporary tubes among them.
pub(crate) fn in_flight(view: &dyn View, throttle: Run) -> u64 {
    both(throttle).map(|run| view.count(Range::in_run(Tag::Slot, run))).iter().sum()
}

/// Where the slots are that tasks of durable tubes hold, and those of temporary ones.
pub(crate) fn both(throttle: Run) -> [Run; 2] {
    [throttle, Run(throttle.0 | Run::TEMPORARY)]
}

/// The key of the slot that a task of this tube holds.
pub(crate) fn slot(tube: &TubeEntry, throttle: Run, id: TaskId) -> Key {
    key::slot(under(throttle, tube.run()), id, tube.number)
}

/// Says which slots a task holds that is about to be taken: of the throttles of its tube and of its
/// own.
#[cold]
#[inline(never)]
pub(crate) fn begin(
    ctx: &mut OpContext<'_>,
    task: &TaskRef<'_>,
    progress: &mut TaskProgress,
) -> Result<()> {
    let (tube, mut runs) = (task.tube, Slots::new());
    for name in names(tube) {
        runs.extend(read(ctx, name)?.map(|row| row.run));
    }
    let own = task_gates::of(task.group, progress).map(str::to_owned);
    for name in own.iter().flat_map(|gates| throttles(gates)) {
        let Some(run) = read(ctx, name)?.map(|row| row.run) else { continue };
        if !runs.contains(&run) {
            runs.push(run);
            if ctx.known.awaits_slots() {
                ctx.effects().slot_steps().taken.push((run, tube.number, 1));
            }
        }
    }
    runs.sort_unstable();
    // If fields of later versions leave no room, it holds none.
    let _fits = progress.set_slots(&runs);
    Ok(())
}

/// The throttles of which a task holds a slot, by the slots, in the order of their runs. Those that
/// were removed are not found.
#[cold]
pub(crate) fn found(view: &dyn View, run: Run, id: TaskId) -> Result<Slots> {
    let (mut rows, mut found) = (Scan::over(Range::of(Tag::Throttle)), Slots::new());
    while let Some((_, row)) = rows.next(view)? {
        let Some(row) = row.as_deref().and_then(ThrottleRow::decode) else { continue };
        let held = key::slots_of(under(row.run, run), id);
        if sound(view.first(&held, &key::end_of(&held)))?.flatten().is_some() {
            found.push(row.run);
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Where the slots are that tasks of a tube with this run hold.
fn under(throttle: Run, run: Run) -> Run {
    let [durable, temporary] = both(throttle);
    if run.is_temporary() { temporary } else { durable }
}

/// Notes that a slot is free, if this is the key of one that is removed, and any call waits for
/// slots: one that comes later looks itself.
pub(crate) fn note_left(ctx: &mut OpContext<'_>, removed: &Key) {
    if removed.first() == Some(&(Tag::Slot as u8))
        && (ctx.known.follows_slots() || ctx.effects().slots.is_some())
        && let Some(Range { run: Some(run), .. }) = Range::holding(removed)
    {
        ctx.effects().slot_steps().left.push(Run(run.number()));
    }
}

/// Removes a slot.
pub(crate) fn remove(ctx: &mut OpContext<'_>, slot: Key) {
    note_left(ctx, &slot);
    ctx.remove(slot);
}

/// Removes the slots of a taken task whose row is removed with its tube's old run. Returns how many
/// there were.
pub(crate) fn clear(ctx: &mut OpContext<'_>, run: Run, (met, row): &Met) -> Result<usize> {
    let Some(id) = key::id_of(met) else { return Ok(0) };
    let held = match row.as_deref().and_then(TakenRow::decode) {
        Some((_, (taken, _))) => taken.progress.slots(),
        None => found(ctx, run, id)?,
    };
    let mut removed = 0;
    for throttle in held {
        let mut rows = Scan::prefixed(key::slots_of(under(throttle, run), id));
        while let Some((slot, _)) = rows.next(ctx)? {
            remove(ctx, slot);
            removed += 1;
        }
    }
    Ok(removed)
}

/// Notes how many tasks a take of this tube got, for those whom slots are kept for.
pub(crate) fn note_taken(ctx: &mut OpContext<'_>, tube: &TubeEntry, taken: usize) -> Result<()> {
    if taken == 0 || !is_throttled(tube) || !ctx.known.awaits_slots() {
        return Ok(());
    }
    for name in names(tube) {
        if let Some(row) = read(ctx, name)? {
            ctx.effects().slot_steps().taken.push((row.run, tube.number, taken));
        }
    }
    Ok(())
}

/// Notes that those in this tube whom slots are kept for do not take them.
pub(crate) fn note_unused(ctx: &mut OpContext<'_>, tube: &TubeEntry) {
    if ctx.known.keeps_slots(tube.number) {
        ctx.effects().slot_steps().unused.push(tube.number);
    }
}

/// Notes how many of those whom slots are kept for in this tube have looked, with what they got.
#[cold]
#[inline(never)]
pub(crate) fn note_looks(ctx: &mut OpContext<'_>, tube: &TubeEntry, taken: usize) {
    match taken {
        _ if !ctx.known.keeps_slots(tube.number) => {}
        0 => ctx.effects().slot_steps().unused.push(tube.number),
        taken => ctx.effects().slot_steps().served.push((tube.number, taken)),
    }
}

/// The names of the throttles of a tube.
#[inline]
fn names(tube: &TubeEntry) -> impl Iterator<Item = &String> {
    tube.row.options.gates.iter().flat_map(|gates| &gates.throttles)
}

/// Whether a tube has a throttle.
#[inline]
pub(crate) fn is_throttled(tube: &TubeEntry) -> bool {
    names(tube).next().is_some()
}

/// Notes that takers of this tube wait for slots. If some are free, the next one that is left finds
/// that.
#[cold]
#[inline(never)]
pub(crate) fn await_slots(ctx: &mut OpContext<'_>, tube: &TubeEntry) -> Result<()> {
    for name in names(tube) {
        if let Some(Throttled { run, .. }) = limited(ctx, name, ctx.now)? {
            ctx.effects().slot_steps().closed.push((run, tube.number));
        }
    }
    Ok(())
}

/// Slots that are free are offered to those who wait, the ones that are kept for a tube among them
/// if it is named: a taker that was woken there does not take.
pub(crate) struct OfferSlots {
    pub(crate) kept_for: Option<u32>,
}

impl Op for OfferSlots {
    type Done = ();

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<()> {
        // A step with steps of slots offers them. A tube that was dropped or has other gates now
        // has none that are kept.
        ctx.effects().slot_steps().unused.extend(self.kept_for);
        Ok(())
    }
}
