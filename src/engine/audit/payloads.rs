//! Whether each piece of a payload is named by its task or by a work row, and whether each payload
//! is whole.

use super::walk;
use crate::engine::pieces::{self, Owner};
use crate::format::key::{self, Key, Range};
use crate::format::piece::{PayloadHash, PieceWork, Pieces};
use crate::format::row::TaskRow;
use crate::format::{Met, Scan, Tag, View};
use crate::words::error::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

/// Bytes of a piece's key before its number.
const UP_TO_NUMBER: usize = 13;
/// The same before its generation.
const UP_TO_GENERATION: usize = 9;

/// The pieces of one payload that a row names.
struct Named {
    numbers: std::ops::Range<u32>,
    /// `None` if the row is a work row.
    pieces: Option<Pieces>,
    seen: u32,
}

/// Reports each disagreement as one line. Holds one piece at a time.
pub(super) fn audit(
    view: &dyn View,
    mut named: NamedPieces,
    report: &mut dyn FnMut(String),
) -> Result<()> {
    named.by_tasks(view, report)?;
    for tag in [Tag::Piece, Tag::PieceTemporary] {
        walk(view, Range::of(tag), report, |met, report| named.piece(tag, met, report))?;
        named.end_payload(report);
    }
    for (at, named) in &named.named {
        if named.seen as usize != named.numbers.len() {
            report(format!("a piece is missing: of {at:02x?}, {:?}", named.numbers));
        }
    }
    Ok(())
}

/// The pieces that rows name.
#[derive(Default)]
pub(super) struct NamedPieces {
    /// By the key of their pieces up to the number.
    named: BTreeMap<Key, Named>,
    /// Tasks whose pieces no row states, by the beginning of the keys of all their pieces.
    unknown: BTreeSet<Key>,
    /// The generations whose pieces work removes however many they are, by the same.
    removed: BTreeMap<Key, Vec<RangeInclusive<u32>>>,
    /// The current payload.
    last: Option<(Key, PayloadHash)>,
}

impl NamedPieces {
    /// By the tasks, including those that a sweep still has to remove.
    fn by_tasks(&mut self, view: &dyn View, report: &mut dyn FnMut(String)) -> Result<()> {
        for tag in Tag::TASKS {
            self.by_tasks_of(Scan::over(Range::of(tag)), view, report)?;
        }
        Ok(())
    }

    fn by_tasks_of(
        &mut self,
        mut rows: Scan,
        view: &dyn View,
        report: &mut dyn FnMut(String),
    ) -> Result<()> {
        while let Some((met, row)) = rows.next(view)? {
            let run = Range::holding(&met).and_then(|range| range.run);
            let Some((run, id)) = run.zip(key::id_of(&met)) else { continue };
            let task = row.as_deref().and_then(TaskRow::decode);
            match task.map(|row| row.payload.pieces()) {
                Some(Some(pieces)) => {
                    if task.is_some_and(|row| {
                        pieces.generation.checked_sub(1) != Some(row.payload_generation())
                    }) {
                        report(format!("task {id}: its pieces are of another generation"));
                    }
                    let named = Named { numbers: 0..pieces.count(), pieces: Some(pieces), seen: 0 };
                    self.name((run, id), pieces.generation, named, report);
                }
                Some(None) => {}
                // It is reported with the other rows of its tube; a sweep looks for the pieces.
                None => drop(self.unknown.insert(key::pieces_of(run, id))),
            }
        }
        Ok(())
    }

    /// By a work row; `generation` is that in its key.
    pub(super) fn by_work(
        &mut self,
        ((run, id), generation): (Owner, u32),
        work: &PieceWork,
        report: &mut dyn FnMut(String),
    ) {
        if work.to == PieceWork::UNKNOWN {
            let generations = pieces::generations_of(generation, work);
            let first = key::pieces_of_payload(run, id, *generations.start());
            let last = key::pieces_of_payload(run, id, *generations.end());
            if self.named.range(first..=last).next().is_some() {
                report(format!("task {id}: two rows name the pieces of one payload"));
            }
            self.removed.entry(key::pieces_of(run, id)).or_default().push(generations);
        } else {
            let named = Named { numbers: work.from..work.to, pieces: None, seen: 0 };
            self.name((run, id), work.generation, named, report);
        }
    }

    /// Whether work removes the pieces of this payload however many they are.
    fn is_removed(&self, of_task: &[u8], generation: u32) -> bool {
        let removed = self.removed.get(of_task);
        removed.is_some_and(|removed| removed.iter().any(|it| it.contains(&generation)))
    }

    fn name(
        &mut self,
        (run, id): Owner,
        generation: u32,
        named: Named,
        report: &mut dyn FnMut(String),
    ) {
        let mut at = key::piece(run, id, generation, 0);
        at.truncate(UP_TO_NUMBER);
        let is_removed = self.is_removed(&key::pieces_of(run, id), generation);
        if self.named.insert(at, named).is_some() || is_removed {
            report(format!("task {id}: two rows name the pieces of one payload"));
        }
    }

    fn piece(&mut self, tag: Tag, (met, row): Met, report: &mut dyn FnMut(String)) {
        let stray = format!("{tag:?}: a row that no task accounts for: {met:02x?}");
        let (Some((_, generation, number)), Some((at, _))) =
            (key::of_piece(&met), met.split_at_checked(UP_TO_NUMBER))
        else {
            return report(stray);
        };
        let Some(row) = row else { return };
        if self.last.as_ref().is_none_or(|(last, _)| **last != *at) {
            self.end_payload(report);
            self.last = Some((Key::from_slice(at), PayloadHash::default()));
        }
        let is_unknown = self.is_unknown(at, generation);
        match self.named.get_mut(at) {
            Some(named) if named.numbers.contains(&number) => {
                named.seen += 1;
                let piece = named.pieces.and_then(|pieces| pieces.piece(number));
                if piece.is_some_and(|piece| piece.len() != row.len()) {
                    report(format!("{tag:?}: not the bytes of its number: {met:02x?}"));
                }
            }
            _ if is_unknown => {}
            _ => report(stray),
        }
        if let Some((_, hash)) = &mut self.last {
            hash.update(&row);
        }
    }

    /// Whether no row states how many pieces there are of this payload.
    fn is_unknown(&self, at: &[u8], generation: u32) -> bool {
        let of_task = at.get(..UP_TO_GENERATION).unwrap_or_default();
        self.unknown.contains(of_task) || self.is_removed(of_task, generation)
    }

    fn end_payload(&mut self, report: &mut dyn FnMut(String)) {
        let Some((at, hash)) = self.last.take() else { return };
        let pieces = self.named.get(&at).and_then(|named| named.pieces);
        if pieces.is_some_and(|pieces| pieces.hash != hash.digest()) {
            report(format!("a payload is not the one that was put: {at:02x?}"));
        }
    }
}
