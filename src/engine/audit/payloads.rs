//! Whether each piece of a payload is named by its task or by a work row, and whether each payload
//! is whole.

use super::{About, Finding, Findings, Fix, walk};
use crate::engine::pieces::{self, Owner};
use crate::format::key::{self, Key, Range, Work};
use crate::format::piece::{PayloadHash, PieceWork, Pieces};
use crate::format::row::{PayloadPlace, TaskRow, replaced_section};
use crate::format::{Met, Scan, Tag, View};
use crate::words::error::Result;
use crate::words::task::TaskId;
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
    owner: Owner,
    /// The row that names them.
    by: Key,
    seen: u32,
    /// Whether a piece is not as long as it should be.
    is_reported: bool,
}

/// Reports each disagreement as one line. Holds one piece at a time. Returns the pieces of payloads
/// that no row names.
pub(super) fn audit(
    view: &dyn View,
    mut named: NamedPieces,
    report: Findings<'_>,
) -> Result<BTreeMap<TaskId, Vec<Key>>> {
    named.by_tasks(view, report)?;
    named.by_damaged_work(report);
    for tag in [Tag::Piece, Tag::PieceTemporary] {
        walk(view, Range::of(tag), report, |met, report| named.piece(tag, met, report))?;
        named.end_payload(report);
    }
    for (at, named) in &named.named {
        if named.seen as usize != named.numbers.len() {
            let line = format!("a piece is missing: of {at:02x?}, {:?}", named.numbers);
            report(named.with_lost(view, at, named.finding(line))?);
        }
    }
    Ok(named.strays)
}

impl Named {
    /// It rests on the row that names the pieces.
    fn finding(&self, line: String) -> Finding {
        let finding = Finding::new(line, self.fix()).about(About::Owner(self.owner));
        finding.beside(key::copy(&self.by))
    }

    /// The finding with the pieces that are missing. It rests on the first of those that cannot be
    /// read.
    fn with_lost(&self, view: &dyn View, payload: &Key, finding: Finding) -> Result<Finding> {
        let (mut first, mut missing) = (None, Vec::new());
        for number in self.numbers.clone() {
            let at = piece_of(payload, number);
            let is_damaged = match view.row(&at)? {
                None => {
                    missing.push(number);
                    true
                }
                Some((_, row)) => row.is_none(),
            };
            first = first.or(is_damaged.then_some(at));
        }
        let fix = match finding.fix {
            Fix::Payload(run, id, pieces, _) => Fix::Payload(run, id, pieces, missing),
            fix => fix,
        };
        let finding = Finding { fix, ..finding };
        Ok(first.into_iter().fold(finding, Finding::beside))
    }

    /// What mends it if a piece is damaged or missing. Work goes on with the pieces that there are;
    /// a call that writes them ends without them.
    fn fix(&self) -> Fix {
        match self.pieces {
            Some(pieces) => Fix::Payload(self.owner.0, self.owner.1, pieces, Vec::new()),
            None if self.by.starts_with(&key::work_of(Work::Staged)) => {
                Fix::RollBack(key::copy(&self.by))
            }
            None => Fix::Set(key::copy(&self.by), PieceWork::unknown().encode()),
        }
    }
}

/// The pieces that rows name.
#[derive(Default)]
pub(super) struct NamedPieces {
    /// By the key of their pieces up to the number.
    named: BTreeMap<Key, Named>,
    /// Tasks whose pieces no row states, by the beginning of the keys of all their pieces.
    unknown: BTreeSet<Key>,
    /// The generations whose pieces work removes however many they are, by the same.
    removed: BTreeMap<Key, Vec<(RangeInclusive<u32>, Key)>>,
    /// Rows of work of which only the keys count, and what is wrong with them.
    damaged: Vec<((Owner, u32), Key, String)>,
    /// The current payload.
    last: Option<(Key, PayloadHash)>,
    /// Pieces that no row names, by their tasks.
    strays: BTreeMap<TaskId, Vec<Key>>,
}

impl NamedPieces {
    /// By the tasks, including those that a sweep still has to remove.
    fn by_tasks(&mut self, view: &dyn View, report: Findings<'_>) -> Result<()> {
        for tag in Tag::TASKS {
            self.by_tasks_of(Scan::over(Range::of(tag)), view, report)?;
        }
        Ok(())
    }

    fn by_tasks_of(&mut self, mut rows: Scan, view: &dyn View, report: Findings<'_>) -> Result<()> {
        while let Some((met, row)) = rows.next(view)? {
            let run = Range::holding(&met).and_then(|range| range.run);
            let Some((run, id)) = run.zip(key::id_of(&met)) else { continue };
            let task = row.as_deref().and_then(TaskRow::decode);
            match task.map(|row| row.payload.pieces()) {
                Some(Some(mut pieces)) => {
                    if let Some(row) = task.filter(|row| {
                        pieces.generation.checked_sub(1) != Some(row.payload_generation())
                    }) {
                        let line = format!("task {id}: its pieces are of another generation");
                        // It is where there are pieces.
                        let [other, stated] =
                            [row.payload_generation().wrapping_add(1), pieces.generation];
                        let has = |generation| view.row(&key::piece(run, id, generation, 0));
                        let fix = if has(stated)?.is_none() && has(other)?.is_some() {
                            pieces.generation = other;
                            let payload = PayloadPlace::Separate(pieces);
                            Fix::Set(key::copy(&met), TaskRow { payload, ..row }.encode())
                        } else {
                            regenerated(&met, task)
                        };
                        report(Finding::new(line, fix).about(About::Owner((run, id))));
                    }
                    let numbers = 0..pieces.count();
                    let (pieces, owner, by) = (Some(pieces), (run, id), met);
                    self.name(
                        Named { numbers, pieces, owner, by, seen: 0, is_reported: false },
                        report,
                    );
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
        (by, work): (Key, &PieceWork),
        report: Findings<'_>,
    ) {
        if work.to == PieceWork::UNKNOWN {
            let generations = pieces::generations_of(generation, work);
            let first = key::pieces_of_payload(run, id, *generations.start());
            let last = key::pieces_of_payload(run, id, *generations.end());
            if self.named.range(first..=last).next().is_some() {
                let line = format!("task {id}: two rows name the pieces of one payload");
                let finding = Finding::new(line, Fix::Remove(key::copy(&by)));
                report(finding.about(About::Owner((run, id))));
            }
            self.removed.entry(key::pieces_of(run, id)).or_default().push((generations, by));
        } else {
            let (numbers, pieces, owner) = (work.from..work.to, None, (run, id));
            self.name_as(
                work.generation,
                Named { numbers, pieces, owner, by, seen: 0, is_reported: false },
                report,
            );
        }
    }

    /// By the key of a row of work that cannot be read, or is about another payload.
    pub(super) fn by_key_of_work(&mut self, of: (Owner, u32), by: Key, line: String) {
        self.damaged.push((of, by, line));
    }

    /// What mends such rows. That of pieces which another row names goes. Other work goes on with
    /// all pieces, and a call that writes them ends.
    fn by_damaged_work(&mut self, report: Findings<'_>) {
        for (((run, id), generation), by, line) in std::mem::take(&mut self.damaged) {
            let generations = pieces::generations_of(generation, &PieceWork::unknown());
            let [first, last] = [generations.start(), generations.end()]
                .map(|generation| key::pieces_of_payload(run, id, *generation));
            let fix = if self.named.range(first..=last).next().is_some() {
                Fix::Remove(by)
            } else {
                let removed = self.removed.entry(key::pieces_of(run, id)).or_default();
                removed.push((generations, key::copy(&by)));
                match by.starts_with(&key::work_of(Work::Staged)) {
                    true => Fix::RollBack(by),
                    false => Fix::Set(by, PieceWork::unknown().encode()),
                }
            };
            report(Finding::new(line, fix).about(About::Owner((run, id))));
        }
    }

    /// The row of work that removes the pieces of this payload however many they are.
    fn removed_by(&self, of_task: &[u8], generation: u32) -> Option<&Key> {
        let removed = self.removed.get(of_task)?;
        removed.iter().find(|(it, _)| it.contains(&generation)).map(|(_, by)| by)
    }

    /// By the row of a task.
    fn name(&mut self, named: Named, report: Findings<'_>) {
        let generation = named.pieces.map_or(0, |pieces| pieces.generation);
        self.name_as(generation, named, report);
    }

    fn name_as(&mut self, generation: u32, named: Named, report: Findings<'_>) {
        let ((run, id), is_work) = (named.owner, named.pieces.is_none());
        let mut at = key::piece(run, id, generation, 0);
        at.truncate(UP_TO_NUMBER);
        let by = key::copy(&named.by);
        let removed =
            self.removed_by(&key::pieces_of(run, id), generation).map(|key| key::copy(key));
        let other = self.named.insert(at, named);
        let is_twice = other.is_some() || removed.is_some();
        // Work on the pieces of a task goes.
        let fix = match (other, removed) {
            (_, Some(work)) => Fix::Remove(work),
            (Some(Named { pieces: None, by, .. }), None) => Fix::Remove(by),
            (Some(_), None) if is_work => Fix::Remove(by),
            _ => Fix::Nothing,
        };
        if is_twice {
            let line = format!("task {id}: two rows name the pieces of one payload");
            report(Finding::new(line, fix).about(About::Owner((run, id))));
        }
    }

    fn piece(&mut self, tag: Tag, (met, row): Met, report: Findings<'_>) {
        let stray = format!("{tag:?}: a row that no task accounts for: {met:02x?}");
        let (Some((id, generation, number)), Some((at, _))) =
            (key::of_piece(&met), met.split_at_checked(UP_TO_NUMBER))
        else {
            return report(Finding::new(stray, Fix::Remove(met)));
        };
        let is_unknown = self.is_unknown(at, generation);
        let named = self.named.get_mut(at).filter(|named| named.numbers.contains(&number));
        if named.is_none() && !is_unknown {
            report(Finding::left(stray));
            self.strays.entry(id).or_default().push(key::copy(&met));
        }
        // A piece that no row names is not of the payload.
        let Some((row, named)) = row.zip(named) else { return };
        named.seen += 1;
        let piece = named.pieces.and_then(|pieces| pieces.piece(number));
        if piece.is_some_and(|piece| piece.len() != row.len()) {
            let line = format!("{tag:?}: not the bytes of its number: {met:02x?}");
            report(named.finding(line).beside(key::copy(&met)));
            named.is_reported = true;
        }
        if self.last.as_ref().is_none_or(|(last, _)| **last != *at) {
            self.end_payload(report);
            self.last = Some((Key::from_slice(at), PayloadHash::default()));
        }
        if let Some((_, hash)) = &mut self.last {
            hash.update(&row);
        }
    }

    /// Whether no row states how many pieces there are of this payload.
    fn is_unknown(&self, at: &[u8], generation: u32) -> bool {
        let of_task = at.get(..UP_TO_GENERATION).unwrap_or_default();
        self.unknown.contains(of_task) || self.removed_by(of_task, generation).is_some()
    }

    fn end_payload(&mut self, report: Findings<'_>) {
        let Some((at, hash)) = self.last.take() else { return };
        let Some(named) = self.named.get(&at) else { return };
        // One with a piece that is missing, damaged or too long or short is reported as such.
        let is_whole = named.seen as usize == named.numbers.len() && !named.is_reported;
        if is_whole && named.pieces.is_some_and(|pieces| pieces.hash != hash.digest()) {
            let line = format!("a payload is not the one that was put: {at:02x?}");
            // Nothing says which of them.
            let pieces = named.numbers.clone().map(|number| piece_of(&at, number));
            report(pieces.fold(named.finding(line), Finding::beside));
        }
    }
}

/// The key of a piece of this payload.
fn piece_of(payload: &Key, number: u32) -> Key {
    let mut at = key::copy(payload);
    at.extend_from_slice(&number.to_be_bytes());
    at
}

/// The row of a task, with the generation that its pieces have.
fn regenerated(own: &Key, task: Option<TaskRow<'_>>) -> Fix {
    let mended = task.and_then(|row| {
        let replaced = row.payload.pieces()?.generation.checked_sub(1)?;
        let section = replaced_section(row.extension, replaced)?;
        Some(TaskRow { extension: &section, ..row }.encode())
    });
    mended.map_or(Fix::Nothing, |row| Fix::Set(key::copy(own), row))
}

/// How many payload bytes are counted for the task of this row. If the row is damaged, the payload
/// row states it, if there is one; otherwise it is unknown. The stored total may then be too high,
/// never too low, and `check` reports it.
pub(super) fn counted_bytes(view: &dyn View, (key, row): Met) -> Result<Option<u64>> {
    let run = Range::holding(&key).and_then(|range| range.run);
    let (Some(run), Some(id)) = (run, key::id_of(&key)) else { return Ok(None) };
    if let Some(task) = row.as_deref().and_then(TaskRow::decode) {
        return Ok(Some(task.payload.bytes()));
    }
    let found = pieces::find(view, (run, id))?;
    Ok(found.whole.map(|pieces| u64::from(pieces.bytes)))
}
