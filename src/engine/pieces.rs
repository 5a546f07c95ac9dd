//! The rows of large payloads. Their keys have an id, a generation and a number, and no tube, so a
//! task that moves writes none of them. Pieces are removed without being read: their keys follow
//! from the task's row. If that row is damaged, a scan finds them.

use crate::engine::context::{OpContext, damaged};
use crate::format::key::{self, Key, Run, Work};
use crate::format::piece::{PayloadHash, PieceWork, Pieces};
use crate::format::{Met, Range as Rows, Scan, Tag, Value, View};
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::{PAYLOAD_BYTES_MAX, PIECES_OF_STEP, SWEEP_TASKS};
use crate::words::task::TaskId;
use std::ops::{Range, RangeInclusive};

/// The task of pieces. The run decides whether they are durable or temporary.
pub(crate) type Owner = (Run, TaskId);

/// Writes these pieces of a payload.
#[cold]
pub(crate) fn write(
    ctx: &mut OpContext<'_>,
    (run, id): Owner,
    pieces: &Pieces,
    payload: &[u8],
    numbers: Range<u32>,
) {
    for number in numbers {
        let piece = pieces.piece(number).and_then(|piece| payload.get(piece));
        let value = Value::from(piece.unwrap_or_default());
        ctx.add(key::piece(run, id, pieces.generation, number), value);
    }
}

/// A payload that is put together from its pieces, in their order.
pub(crate) struct Assembly {
    owner: Owner,
    pieces: Pieces,
    next: u32,
    payload: Vec<u8>,
}

impl Assembly {
    pub(crate) fn new(owner: Owner, pieces: Pieces) -> Self {
        Self { owner, pieces, next: 0, payload: Vec::new() }
    }

    /// The keys of the pieces that are lacking.
    pub(crate) fn lacking(&self) -> impl Iterator<Item = Key> + use<> {
        let ((run, id), generation) = (self.owner, self.pieces.generation);
        (self.next..self.pieces.count()).map(move |number| key::piece(run, id, generation, number))
    }

    /// Adds the next piece.
    ///
    /// # Errors
    /// `Damaged` if there is none.
    pub(crate) fn push(&mut self, piece: Option<Value>) -> Result<()> {
        let piece = piece.ok_or_else(|| damaged("piece"))?;
        self.payload.extend_from_slice(&piece);
        // Not before the first piece: a damaged row may say any length.
        self.payload.reserve_exact((self.pieces.bytes as usize).saturating_sub(self.payload.len()));
        self.next += 1;
        Ok(())
    }

    /// The payload.
    ///
    /// # Errors
    /// `Damaged` if the pieces are not those of this payload.
    pub(crate) fn finish(self) -> Result<Vec<u8>> {
        let found = Pieces { generation: self.pieces.generation, ..Pieces::of(&self.payload) };
        if found == self.pieces { Ok(self.payload) } else { Err(damaged("piece")) }
    }
}

/// Reads a payload. Holds one piece at a time beside it.
///
/// # Errors
/// `Damaged` if a piece is damaged or missing, or if the pieces are not those of this payload.
pub(crate) fn read(view: &dyn View, owner: Owner, pieces: &Pieces) -> Result<Vec<u8>> {
    let mut payload = Assembly::new(owner, *pieces);
    for piece in payload.lacking() {
        payload.push(view.get(&piece)?)?;
    }
    payload.finish()
}

/// Removes the pieces of a task that is removed.
#[cold]
pub(crate) fn remove(ctx: &mut OpContext<'_>, owner: Owner, pieces: &Pieces) -> Result<()> {
    discard(ctx, owner, PieceWork::new(pieces.generation, 0..pieces.count()))
}

/// Removes pieces now if they are few, otherwise by a work row. Those of temporary tubes are always
/// removed now: they need no record, and a work row would outlive them.
pub(crate) fn discard(ctx: &mut OpContext<'_>, (run, id): Owner, work: PieceWork) -> Result<()> {
    if is_done_now(run, &work) {
        remove_rows(ctx, (run, id), work.generation, work.from..work.to);
        return Ok(());
    }
    ctx.set_work(key::piece_work(Work::Pieces, run, id, work.generation), work.encode())
}

fn is_done_now(run: Run, work: &PieceWork) -> bool {
    run.is_temporary() || (work.to - work.from) as usize <= 2 * PIECES_OF_STEP
}

fn remove_rows(ctx: &mut OpContext<'_>, (run, id): Owner, generation: u32, numbers: Range<u32>) {
    for number in numbers {
        ctx.remove(key::piece(run, id, generation, number));
    }
}

/// The same where some may be gone. They are removed in their order, so those after the first that
/// is there are there too, and only that one is read.
fn remove_left(
    ctx: &mut OpContext<'_>,
    (run, id): Owner,
    generation: u32,
    numbers: Range<u32>,
) -> Result<()> {
    let ends = [numbers.start, numbers.end].map(|at| key::piece(run, id, generation, at));
    if let Some((first, _)) = ctx.first(&ends[0], &ends[1])? {
        let from = key::of_piece(&first).map_or(numbers.start, |(_, _, number)| number);
        remove_rows(ctx, (run, id), generation, from..numbers.end);
    }
    Ok(())
}

/// Work on pieces by its row. Of a row that is damaged, or about another payload than its key, only
/// the key counts.
fn work_of(generation: u32, row: Option<&[u8]>) -> PieceWork {
    let work = row.and_then(PieceWork::decode);
    let is_of_key = |work: &PieceWork| match work.to {
        PieceWork::UNKNOWN => true,
        _ => work.generation == generation,
    };
    work.filter(is_of_key).unwrap_or_else(PieceWork::unknown)
}

/// The generations of the pieces that work is about; `generation` is that in its key.
pub(crate) fn generations_of(generation: u32, work: &PieceWork) -> RangeInclusive<u32> {
    if generation <= 1 && work.to == PieceWork::UNKNOWN {
        return 0..=work.generation.max(1);
    }
    generation..=generation
}

/// The generations of the pieces of a task that work is about, whichever tube the task was in when
/// the work began. Reads a few rows for each run with such work.
fn at_work(view: &dyn View, (run, id): Owner) -> Result<Vec<RangeInclusive<u32>>> {
    let mut found = Vec::new();
    each_work(view, id, |met, row| {
        if key::run_of_work(&met).is_some_and(|of| of.is_temporary() == run.is_temporary())
            && let Some((_, generation)) = key::of_piece_work(&met)
        {
            found.push(generations_of(generation, &work_of(generation, row.as_deref())));
        }
    })?;
    Ok(found)
}

/// The rows of work on the pieces of a task, under any run.
pub(crate) fn each_work(
    view: &dyn View,
    id: TaskId,
    mut each: impl FnMut(Key, Option<Value>),
) -> Result<()> {
    for kind in [Work::Pieces, Work::Staged] {
        let mut rows = Scan::prefixed(key::work_of(kind));
        while let Some((met, row)) = rows.next(view)? {
            let Some(of) = key::run_of_work(&met) else { continue };
            let own = key::work(kind, of, id);
            if *met < *own {
                rows.skip_to(own);
            } else if !met.starts_with(&own) {
                rows.skip_to(key::end_of(&key::work_of_run(kind, of)));
            } else {
                each(met, row);
            }
        }
    }
    Ok(())
}

/// Does one sweep of [`Work::Pieces`]. Returns the work that is left. If its row is damaged, the
/// key says of which payload the pieces are.
pub(crate) fn step(
    ctx: &mut OpContext<'_>,
    (owner, generation): (Owner, u32),
    row: Option<&[u8]>,
) -> Result<Option<PieceWork>> {
    let mut work = work_of(generation, row);
    if work.to == PieceWork::UNKNOWN {
        let generations = generations_of(generation, &work);
        let [first, last] = [*generations.start(), *generations.end()]
            .map(|generation| key::pieces_of_payload(owner.0, owner.1, generation));
        let mut rows = Scan::between(first, key::end_of(&last));
        for _ in 0..PIECES_OF_STEP {
            let Some((met, _)) = rows.next(ctx)? else { return Ok(None) };
            ctx.remove(met);
        }
        return Ok(Some(work));
    }
    let end = work.to.min(work.from.saturating_add(SWEEP_TASKS as u32));
    remove_left(ctx, owner, work.generation, work.from..end)?;
    work.from = end;
    Ok((work.from < work.to).then_some(work))
}

/// The pieces of a task whose own row is damaged, without those that work is about.
#[derive(Default)]
pub(crate) struct PiecesFound {
    /// The last payload, if all of its pieces are there.
    pub(crate) whole: Option<Pieces>,
    /// The generations of the others. They belong to no task.
    others: Vec<u32>,
}

impl PiecesFound {
    /// The generation of the task's payload after the repair.
    pub(crate) fn payload_generation(&self) -> u32 {
        let last = self.whole.map(|pieces| pieces.generation).or(self.others.last().copied());
        last.unwrap_or_default().saturating_sub(1)
    }

    /// Removes those that belong to no task, by work rows: how many they are is not known.
    pub(crate) fn discard_others(&self, ctx: &mut OpContext<'_>, (run, id): Owner) -> Result<()> {
        for generation in &self.others {
            let work = key::piece_work(Work::Pieces, run, id, *generation);
            ctx.set_work(work, PieceWork::unknown().encode())?;
        }
        Ok(())
    }
}

/// Looks for the pieces of a task whose own row is damaged. Holds one piece at a time.
pub(crate) fn find(view: &dyn View, (run, id): Owner) -> Result<PiecesFound> {
    let mut rows = Scan::prefixed(key::pieces_of(run, id));
    let (mut found, mut works) = (PiecesFound::default(), None);
    while let Some((met, _)) = rows.next(view)? {
        let Some((_, generation, _)) = key::of_piece(&met) else { continue };
        rows.skip_to(key::end_of(&key::pieces_of_payload(run, id, generation)));
        let works = match &mut works {
            Some(works) => works,
            None => works.insert(at_work(view, (run, id))?),
        };
        if !works.iter().any(|work| work.contains(&generation)) {
            found.others.push(generation);
        }
    }
    if let Some(last) = found.others.pop() {
        found.whole = whole(view, (run, id), last)?;
        found.others.extend(found.whole.is_none().then_some(last));
    }
    Ok(found)
}

/// The payload of this generation, if all of its pieces are there.
fn whole(view: &dyn View, (run, id): Owner, generation: u32) -> Result<Option<Pieces>> {
    let (mut bytes, mut hash, mut number) = (0, PayloadHash::default(), 0_u32);
    let mut lengths = Vec::new();
    let mut rows = Scan::prefixed(key::pieces_of_payload(run, id, generation));
    while let Some((met, row)) = rows.next(view)? {
        let (Some((_, _, at)), Some(row)) = (key::of_piece(&met), row) else { return Ok(None) };
        if at != number {
            return Ok(None);
        }
        hash.update(&row);
        (bytes, number) = (bytes + row.len(), number + 1);
        lengths.push(row.len());
    }
    if bytes > PAYLOAD_BYTES_MAX {
        return Ok(None);
    }
    let pieces = Pieces { bytes: bytes as u32, generation, hash: hash.digest() };
    let is_piece = |(number, length): (u32, &usize)| {
        pieces.piece(number).is_some_and(|piece| piece.len() == *length)
    };
    let is_whole = pieces.count() == number && (0..).zip(&lengths).all(is_piece);
    Ok(is_whole.then_some(pieces))
}

/// Removes the pieces of a task whose own row is damaged. Returns the bytes of its payload, or 0 if
/// they are not known.
pub(crate) fn remove_found(ctx: &mut OpContext<'_>, owner: Owner) -> Result<u64> {
    let found = find(ctx, owner)?;
    found.discard_others(ctx, owner)?;
    let Some(pieces) = found.whole else { return Ok(0) };
    remove(ctx, owner, &pieces)?;
    Ok(u64::from(pieces.bytes))
}

/// The generation of the pieces of the next payload of a task, after this one. No piece is of it,
/// or of a later one, and no work is about it, also none whose pieces are gone.
///
/// # Errors
/// `Full` after the last.
pub(crate) fn next_generation(view: &dyn View, (run, id): Owner, last: u32) -> Result<u32> {
    let full = || Error::new(ErrorKind::Full).because("its payload was replaced 2^32 times");
    let works = at_work(view, (run, id))?;
    let last = works.iter().map(|work| *work.end()).fold(last, u32::max);
    let mut next = last.checked_add(1).ok_or_else(full)?;
    let tag = if run.is_temporary() { Tag::PieceTemporary } else { Tag::Piece };
    if view.count(Rows::of(tag)) == 0 {
        return Ok(next);
    }
    let end = key::end_of(&key::pieces_of(run, id));
    while let Some((met, _)) = view.first(&key::pieces_of_payload(run, id, next), &end)? {
        let (_, generation, _) = key::of_piece(&met).ok_or_else(|| damaged("piece"))?;
        next = generation.checked_add(1).ok_or_else(full)?;
    }
    Ok(next)
}

/// A payload whose pieces are written before its task is put.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Staged {
    /// Index of the task in the batch.
    pub(crate) task: usize,
    /// The id of the batch's first task.
    pub(crate) first: u64,
    pub(crate) payload: StagedPayload,
}

/// A payload whose pieces are written before a task has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StagedPayload {
    /// The run of the tube when the first pieces were written.
    pub(crate) run: Run,
    pub(crate) id: TaskId,
    pub(crate) pieces: Pieces,
    /// How many pieces are written.
    pub(crate) written: u32,
}

impl StagedPayload {
    /// The key of its work row.
    fn work(&self) -> Key {
        key::piece_work(Work::Staged, self.run, self.id, self.pieces.generation)
    }

    /// Writes the next pieces, at most so many, and that they are written.
    ///
    /// # Errors
    /// `Closed` if those before were removed.
    pub(crate) fn advance(
        &mut self,
        ctx: &mut OpContext<'_>,
        payload: &[u8],
        most: u32,
    ) -> Result<()> {
        let (at, from) = (self.work(), self.written);
        self.written = self.pieces.count().min(from.saturating_add(most));
        write(ctx, (self.run, self.id), &self.pieces, payload, from..self.written);
        let work = PieceWork::new(self.pieces.generation, 0..self.written).encode();
        if from == 0 {
            ctx.add(at, work);
        } else if ctx.get(&at)?.is_some() {
            ctx.change(at, work);
        } else {
            return Err(Error::new(ErrorKind::Closed));
        }
        Ok(())
    }

    /// Ends the work: the task's row names the pieces from now on.
    #[cold]
    pub(crate) fn end(&self, ctx: &mut OpContext<'_>) -> Result<()> {
        let at = self.work();
        // If the row is missing, an opening or a call that gave up has begun to remove the pieces.
        if ctx.row(&at)?.is_none() || self.written < self.pieces.count() {
            return Err(Error::new(ErrorKind::Closed));
        }
        ctx.remove(at);
        Ok(())
    }

    /// Removes what was written, because no task gets it.
    pub(crate) fn give_up(&self, ctx: &mut OpContext<'_>) -> Result<()> {
        let at = self.work();
        match ctx.row(&at)? {
            Some(met) => roll_back(ctx, met),
            None => Ok(()),
        }
    }
}

/// Removes the pieces of a payload that no task got. This is its work row.
pub(crate) fn roll_back(ctx: &mut OpContext<'_>, (at, row): Met) -> Result<()> {
    let ((run, id), generation) = owner_of(&at)?;
    let work = work_of(generation, row.as_deref());
    ctx.remove(at);
    if work.to != PieceWork::UNKNOWN && is_done_now(run, &work) {
        return remove_left(ctx, (run, id), work.generation, work.from..work.to);
    }
    ctx.set_work(key::piece_work(Work::Pieces, run, id, generation), work.encode())
}

/// The task of the pieces of a work row, and the generation of their payload by its key.
pub(crate) fn owner_of(work: &[u8]) -> Result<(Owner, u32)> {
    let (run, of) = (key::run_of_work(work), key::of_piece_work(work));
    let (run, (id, generation)) = run.zip(of).ok_or_else(|| damaged("work"))?;
    Ok(((run, id), generation))
}
