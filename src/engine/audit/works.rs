//! The audit of the rows of work: each is of a kind that is known, and about rows that it may
//! remove.

use super::edged::EdgedTasks;
use super::payloads::NamedPieces;
use super::{AuditedTubes, Finding, Findings, Fix, NO_TASK, is_read};
use crate::engine::edges;
use crate::engine::pieces::owner_of;
use crate::engine::tube_cache::TubeEntry;
use crate::format::key::{self, Key, Range, Run, Work};
use crate::format::piece::PieceWork;
use crate::format::row::{WorkRow, task_of_work};
use crate::format::{Scan, Tag, View};
use crate::words::error::Result;

/// Reports sweeps that would remove rows in use, or that cannot run. Names the pieces that work is
/// about.
pub(super) fn audit(
    view: &dyn View,
    tubes: &AuditedTubes,
    (named, edged): (&mut NamedPieces, &EdgedTasks),
    report: Findings<'_>,
) -> Result<()> {
    let mut rows = Scan::over(Range::of(Tag::Work));
    while let Some((key, row)) = rows.next(view)? {
        let kind = Work::ALL.into_iter().find(|kind| key.starts_with(&key::work_of(*kind)));
        let Some(kind) = kind else {
            report(Finding::new(
                format!("Work: an unknown kind of work: {key:02x?}"),
                Fix::Remove(key),
            ));
            continue;
        };
        if Work::OF_EDGES.contains(&kind) {
            let of = key::run_of_work(&key).zip(task_of_work(&key));
            let expected = of.map(|(run, id)| key::work(kind, edges::scope(run), id));
            if expected.as_ref() != Some(&key) {
                let line = format!("Work: an invalid key: {key:02x?}");
                report(Finding::new(line, Fix::Remove(key)));
            } else if is_read(view, of.map_or(Run::QUEUE, |(run, _)| run))
                && let Some(finding) = super::edges::work(view, (kind, key, row), edged)
            {
                report(finding);
            }
            continue;
        }
        let is_sweep_of_run =
            matches!(kind, Work::Clear | Work::Release | Work::Follow | Work::Merge);
        let ((run, id), generation) = owner_of(&key).unwrap_or(((Run::QUEUE, NO_TASK), 1));
        let expected = match is_sweep_of_run {
            true => key::work(kind, run, NO_TASK),
            false => key::piece_work(kind, run, id, generation),
        };
        if key != expected {
            report(Finding::new(format!("Work: an invalid key: {key:02x?}"), Fix::Remove(key)));
            continue;
        }
        if !is_read(view, run) {
            continue;
        }
        if is_sweep_of_run {
            let work = row.as_deref().and_then(WorkRow::decode);
            if let Some(finding) = sweep_of_run(kind, tubes.get(&run), key, work) {
                report(finding);
            }
            continue;
        }
        let of = ((run, id), generation);
        match row.as_deref().and_then(PieceWork::decode) {
            Some(work) if work.to != PieceWork::UNKNOWN && work.generation != generation => {
                let line = format!("Work: on the pieces of another payload: {key:02x?}");
                named.by_key_of_work(of, key, line);
            }
            Some(work) => named.by_work(of, (key, &work), report),
            None => {
                let line = format!("Work: a damaged row: {key:02x?}");
                named.by_key_of_work(of, key, line);
            }
        }
    }
    Ok(())
}

/// What is wrong with the work on all rows of a run, which may be that of a tube. If it is of none
/// any more, a sweep ends at once.
fn sweep_of_run(
    kind: Work,
    tube: Option<&TubeEntry>,
    key: Key,
    work: Option<WorkRow>,
) -> Option<Finding> {
    let number = tube.map(|tube| tube.number);
    let Some(WorkRow { tube: of, .. }) = work else {
        let line = format!("Work: a damaged row: {key:02x?}");
        return Some(Finding::new(line, reworked(kind, number, key)));
    };
    let tube = tube?;
    let (line, fix) = if kind == Work::Clear {
        (format!("Work: a sweep would clear tube {number:?}"), Fix::Remove(key))
    } else if of != tube.number {
        let line = format!("Work: a sweep of tube {of} under the run of {number:?}");
        (line, reworked(kind, number, key))
    } else if kind == Work::Follow && !tube.row.pending.is_any() {
        let line = format!("Work: a sweep of tube {number:?}, in which no row has to follow");
        (line, Fix::Remove(key))
    } else if kind == Work::Merge && tube.row.merges_into().is_none() {
        (format!("Work: a merge of tube {number:?}, which is in none"), Fix::Remove(key))
    } else {
        return None;
    };
    Some(Finding::new(line, fix).beside(key::tube(tube.number)))
}

/// What mends a row of a sweep: it begins again.
fn reworked(kind: Work, tube: Option<u32>, key: Key) -> Fix {
    match (kind, tube) {
        (Work::Clear, _) => Fix::Set(key, WorkRow::default().encode()),
        (Work::Release | Work::Follow | Work::Merge, Some(tube)) => {
            Fix::Set(key, WorkRow::of_tube(tube).encode())
        }
        _ => Fix::Remove(key),
    }
}
