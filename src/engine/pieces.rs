//! The rows of large payloads. Their keys have an id, a generation and a number, and no tube, so a
//! task that moves writes none of them. Pieces are removed without being read: their keys follow
//! from the task's row. If that row is damaged, a scan finds them.

use crate::engine::context::{OpContext, damaged};
use crate::format::key::{self, Key, Run, Work};
use crate::format::piece::{PayloadHash, PieceWork, Pieces};
use crate::format::{Met, Scan, Value, View};
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::{PAYLOAD_BYTES_MAX, PIECES_OF_STEP, SWEEP_TASKS};
use crate::words::task::TaskId;
use std::ops::Range;

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
    let is_known = work.to != PieceWork::UNKNOWN;
    if is_known && (run.is_temporary() || (work.to - work.from) as usize <= 2 * PIECES_OF_STEP) {
        remove_rows(ctx, (run, id), work.generation, work.from..work.to);
        return Ok(());
    }
    ctx.set_work(key::work(Work::Pieces, run, id), work.encode())
}

fn remove_rows(ctx: &mut OpContext<'_>, (run, id): Owner, generation: u32, numbers: Range<u32>) {
    for number in numbers {
        ctx.remove(key::piece(run, id, generation, number));
    }
}

/// Does one sweep of [`Work::Pieces`]. Returns the work that is left.
pub(crate) fn step(
    ctx: &mut OpContext<'_>,
    owner: Owner,
    work: Option<PieceWork>,
) -> Result<Option<PieceWork>> {
    let mut work = work.unwrap_or_else(PieceWork::unknown);
    if work.to == PieceWork::UNKNOWN {
        let mut rows = Scan::prefixed(key::pieces_of(owner.0, owner.1));
        for _ in 0..PIECES_OF_STEP {
            let Some((met, _)) = rows.next(ctx)? else { return Ok(None) };
            ctx.remove(met);
        }
        return Ok(Some(work));
    }
    let end = work.to.min(work.from.saturating_add(SWEEP_TASKS as u32));
    remove_rows(ctx, owner, work.generation, work.from..end);
    work.from = end;
    Ok((work.from < work.to).then_some(work))
}

/// The pieces of a task whose own row is damaged.
pub(crate) enum PiecesFound {
    /// There are none.
    Nothing,
    Whole(Pieces),
    /// Some are missing or damaged.
    Parts,
}

/// Looks for the pieces of a task whose own row is damaged. Holds one piece at a time.
pub(crate) fn find(view: &dyn View, (run, id): Owner) -> Result<PiecesFound> {
    let (mut bytes, mut hash, mut number) = (0, PayloadHash::default(), 0_u32);
    let mut generation = None;
    let mut lengths = Vec::new();
    let mut rows = Scan::prefixed(key::pieces_of(run, id));
    while let Some((met, row)) = rows.next(view)? {
        let (Some((_, of, at)), Some(row)) = (key::of_piece(&met), row) else {
            return Ok(PiecesFound::Parts);
        };
        if at != number || *generation.get_or_insert(of) != of {
            return Ok(PiecesFound::Parts);
        }
        hash.update(&row);
        (bytes, number) = (bytes + row.len(), number + 1);
        lengths.push(row.len());
    }
    let Some(generation) = generation else { return Ok(PiecesFound::Nothing) };
    if bytes > PAYLOAD_BYTES_MAX {
        return Ok(PiecesFound::Parts);
    }
    let pieces = Pieces { bytes: bytes as u32, generation, hash: hash.digest() };
    let is_piece = |(number, length): (u32, &usize)| {
        pieces.piece(number).is_some_and(|piece| piece.len() == *length)
    };
    let is_whole = pieces.count() == number && (0..).zip(&lengths).all(is_piece);
    Ok(if is_whole { PiecesFound::Whole(pieces) } else { PiecesFound::Parts })
}

/// Removes the pieces of a task whose own row is damaged. Returns the bytes of its payload, or 0 if
/// they are not known.
pub(crate) fn remove_found(ctx: &mut OpContext<'_>, owner: Owner) -> Result<u64> {
    match find(ctx, owner)? {
        PiecesFound::Nothing => Ok(0),
        PiecesFound::Whole(pieces) => {
            remove(ctx, owner, &pieces)?;
            Ok(u64::from(pieces.bytes))
        }
        PiecesFound::Parts => {
            discard(ctx, owner, PieceWork::unknown())?;
            Ok(0)
        }
    }
}

/// A payload whose pieces are written before its task is put.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Staged {
    /// Index of the task in the batch.
    pub(crate) task: usize,
    /// The id of the batch's first task.
    pub(crate) first: u64,
    /// The run of the tube when the first pieces were written.
    pub(crate) run: Run,
    pub(crate) id: TaskId,
    pub(crate) pieces: Pieces,
    /// How many pieces are written.
    pub(crate) written: u32,
}

impl Staged {
    /// The key of its work row.
    pub(crate) fn work(&self) -> Key {
        key::work(Work::Staged, self.run, self.id)
    }

    /// Ends the work after the put: the task's row names the pieces from now on.
    #[cold]
    pub(crate) fn end(&self, ctx: &mut OpContext<'_>) -> Result<()> {
        let at = self.work();
        // If the row is missing, an opening or a put that gave up has begun to remove the pieces.
        if ctx.row(&at)?.is_none() || self.written < self.pieces.count() {
            return Err(Error::new(ErrorKind::Closed));
        }
        ctx.remove(at);
        Ok(())
    }

    /// Removes what was written, because the task is not put.
    pub(crate) fn give_up(&self, ctx: &mut OpContext<'_>) -> Result<()> {
        let at = self.work();
        match ctx.row(&at)? {
            Some(met) => roll_back(ctx, met),
            None => Ok(()),
        }
    }
}

/// Removes the pieces of a put that did not finish. This is its work row.
pub(crate) fn roll_back(ctx: &mut OpContext<'_>, (at, row): Met) -> Result<()> {
    let owner = owner_of(&at)?;
    let work = row.as_deref().and_then(PieceWork::decode);
    ctx.remove(at);
    discard(ctx, owner, work.unwrap_or_else(PieceWork::unknown))
}

/// The task of the pieces of a work row.
pub(crate) fn owner_of(work: &[u8]) -> Result<Owner> {
    key::run_of_work(work).zip(key::id_of(work)).ok_or_else(|| damaged("work"))
}
