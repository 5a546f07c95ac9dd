//! Whether each piece of a payload is named by its task or by a work row, and whether each payload
//! is whole.

use super::counted;
use crate::engine::pieces::{Owner, owner_of};
use crate::format::key::{self, Key, Range, Work};
use crate::format::piece::{PayloadHash, PieceWork, Pieces};
use crate::format::row::TaskRow;
use crate::format::{Met, Scan, Tag, View};
use crate::words::error::Result;
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of a piece's key before its number.
const UP_TO_NUMBER: usize = 13;

/// The pieces of one payload that a row names.
struct Named {
    numbers: std::ops::Range<u32>,
    /// `None` if the row is a work row.
    pieces: Option<Pieces>,
    seen: u32,
}

/// Reports each disagreement as one line. Holds one piece at a time.
pub(super) fn audit(view: &dyn View, report: &mut dyn FnMut(String)) -> Result<()> {
    let mut audit =
        PieceAudit { report, named: BTreeMap::new(), unknown: BTreeSet::new(), last: None };
    audit.tasks(view)?;
    audit.work(view)?;
    for tag in [Tag::Piece, Tag::PieceTemporary] {
        let range = Range::of(tag);
        let mut rows = Scan::over(range);
        let mut rows_seen = 0;
        while let Some(met) = rows.next(view)? {
            rows_seen += 1;
            audit.piece(tag, met);
        }
        audit.end_payload();
        counted(view, range, rows_seen).map(&mut *audit.report);
    }
    for (at, named) in &audit.named {
        if named.seen as usize != named.numbers.len() {
            (audit.report)(format!("a piece is missing: of {at:02x?}, {:?}", named.numbers));
        }
    }
    Ok(())
}

struct PieceAudit<'a> {
    report: &'a mut dyn FnMut(String),
    /// By the key of their pieces up to the number.
    named: BTreeMap<Key, Named>,
    /// Tasks whose pieces no row states, by the beginning of the keys of all their pieces.
    unknown: BTreeSet<Key>,
    /// The current payload.
    last: Option<(Key, PayloadHash)>,
}

impl PieceAudit<'_> {
    /// The tasks, including those that a sweep still has to remove.
    fn tasks(&mut self, view: &dyn View) -> Result<()> {
        let mut rows = Scan::over(Range::of(Tag::Task));
        while let Some((met, row)) = rows.next(view)? {
            let run = Range::holding(&met).and_then(|range| range.run);
            let Some(owner) = run.zip(key::id_of(&met)) else { continue };
            match row.as_deref().and_then(TaskRow::decode).map(|row| row.payload.pieces()) {
                Some(Some(pieces)) => {
                    self.name(owner, pieces.generation, 0..pieces.count(), Some(pieces));
                }
                Some(None) => {}
                // It is reported with the other rows of its tube; a sweep looks for the pieces.
                None => drop(self.unknown.insert(key::pieces_of(owner.0, owner.1))),
            }
        }
        Ok(())
    }

    fn work(&mut self, view: &dyn View) -> Result<()> {
        for kind in [Work::Staged, Work::Pieces] {
            let mut rows = Scan::prefixed(key::work_of(kind));
            while let Some((met, row)) = rows.next(view)? {
                let (Ok(owner), Some(work)) =
                    (owner_of(&met), row.as_deref().and_then(PieceWork::decode))
                else {
                    (self.report)(format!("Work: a damaged row: {met:02x?}"));
                    continue;
                };
                if met != key::work(kind, owner.0, owner.1) {
                    (self.report)(format!("Work: an invalid key: {met:02x?}"));
                }
                if work.to == PieceWork::UNKNOWN {
                    self.unknown.insert(key::pieces_of(owner.0, owner.1));
                } else {
                    self.name(owner, work.generation, work.from..work.to, None);
                }
            }
        }
        Ok(())
    }

    fn name(
        &mut self,
        (run, id): Owner,
        generation: u32,
        numbers: std::ops::Range<u32>,
        pieces: Option<Pieces>,
    ) {
        let mut at = key::piece(run, id, generation, 0);
        at.truncate(UP_TO_NUMBER);
        if self.named.insert(at, Named { numbers, pieces, seen: 0 }).is_some() {
            (self.report)(format!("task {id}: two rows name the pieces of one payload"));
        }
    }

    fn piece(&mut self, tag: Tag, (met, row): Met) {
        let stray = format!("{tag:?}: a row that no task accounts for: {met:02x?}");
        let (Some((_, _, number)), Some((at, _))) =
            (key::of_piece(&met), met.split_at_checked(UP_TO_NUMBER))
        else {
            return (self.report)(stray);
        };
        let Some(row) = row else {
            return (self.report)(format!("{tag:?}: a damaged row: {met:02x?}"));
        };
        if self.last.as_ref().is_none_or(|(last, _)| **last != *at) {
            self.end_payload();
            self.last = Some((Key::from_slice(at), PayloadHash::default()));
        }
        match self.named.get_mut(at) {
            Some(named) if named.numbers.contains(&number) => {
                named.seen += 1;
                let piece = named.pieces.and_then(|pieces| pieces.piece(number));
                if piece.is_some_and(|piece| piece.len() != row.len()) {
                    (self.report)(format!("{tag:?}: not the bytes of its number: {met:02x?}"));
                }
            }
            _ if at.get(..9).is_some_and(|task| self.unknown.contains(task)) => {}
            _ => (self.report)(stray),
        }
        if let Some((_, hash)) = &mut self.last {
            hash.update(&row);
        }
    }

    fn end_payload(&mut self) {
        let Some((at, hash)) = self.last.take() else { return };
        let pieces = self.named.get(&at).and_then(|named| named.pieces);
        if pieces.is_some_and(|pieces| pieces.hash != hash.digest()) {
            (self.report)(format!("a payload is not the one that was put: {at:02x?}"));
        }
    }
}
