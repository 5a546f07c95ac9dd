//! The rows of work, and of the edges between tasks.

use super::edit::{change, other_byte, other_first_id, other_id, rekey};
use super::{Field, Key, Rows, free, mended};
use crate::format::key::{self, Direction, Run, Work};
use crate::format::piece::PieceWork;
use crate::format::row::{CascadeRow, EdgeCounts, EdgeRow, LinkingRow, TaskEnds, WorkRow};
use crate::format::{Tag, Value};
use crate::words::dependency::{On, Orphaned};
use crate::words::task::TaskId;

/// The first id of those that are gone.
const GONE: u64 = 800;

/// With an edge whose earlier task is gone, and whose later one a put is writing, and one whose
/// later task is gone.
pub(super) fn with_edge_work(mut rows: Rows) -> Rows {
    let run = Run::QUEUE;
    let tube = rows.tube("first").number;
    for (earlier, later) in [(810, 811), (822, 821)] {
        let (earlier, later) = (TaskId::new(earlier), TaskId::new(later));
        let row = EdgeRow { on: On::AnyEnd, orphaned: Orphaned::Hold, tube }.encode();
        rows.set(key::edge(Direction::Dependent, run, (earlier, later), false), row.clone());
        rows.set(key::edge(Direction::Dependency, run, (later, earlier), false), row);
    }
    let ended = TaskEnds { gone: true, ..TaskEnds::default() };
    let cascade = CascadeRow { ended, buried_to: u64::MAX, ..CascadeRow::default() };
    rows.set(key::work(Work::Cascade, run, TaskId::new(810)), cascade.encode());
    // One that is there, and has no open edge.
    let buried = key::id_of(&rows.in_tube("first", Tag::Buried)).unwrap();
    let ended = TaskEnds { buried: true, ..TaskEnds::default() };
    let cascade = CascadeRow { ended, tube, ..cascade.clone() };
    rows.set(key::work(Work::Cascade, run, buried), cascade.encode());
    let counts = EdgeCounts { open: 1, met: 0 };
    let linking = LinkingRow { counts, is_cancelled: false };
    rows.set(key::work(Work::Linking, run, TaskId::new(811)), linking.encode());
    rows.set(key::work(Work::Unlink, run, TaskId::new(821)), Value::EMPTY);
    rows
}

/// The work of these kinds only.
fn of(at: &Key, kinds: &[Work]) -> Option<()> {
    kinds.iter().any(|kind| at.starts_with(&key::work_of(*kind))).then_some(())
}

fn sweep(
    (rows, at): (&mut Rows, &Key),
    kinds: &[Work],
    to: impl FnOnce(&mut WorkRow),
) -> Option<()> {
    of(at, kinds)?;
    change(rows, at, WorkRow::decode, |mut row| {
        to(&mut row);
        Some(row.encode())
    })
}

fn of_pieces(rows: &mut Rows, at: &Key, to: impl FnOnce(&mut PieceWork)) -> Option<()> {
    of(at, &[Work::Pieces, Work::Staged])?;
    change(rows, at, PieceWork::decode, |mut row| {
        to(&mut row);
        Some(row.encode())
    })
}

/// The work on the end of a task that is gone, or of one that is there.
fn cascade(
    (rows, at): (&mut Rows, &Key),
    is_gone: bool,
    to: impl FnOnce(&mut CascadeRow),
) -> Option<()> {
    of_cascade(at, is_gone)?;
    change(rows, at, CascadeRow::decode, |mut row| {
        to(&mut row);
        Some(row.encode())
    })
}

fn of_cascade(at: &Key, is_gone: bool) -> Option<()> {
    of(at, &[Work::Cascade])?;
    ((key::id_of(at)? >= TaskId::new(GONE)) == is_gone).then_some(())
}

fn linking(rows: &mut Rows, at: &Key, to: impl FnOnce(&mut LinkingRow)) -> Option<()> {
    of(at, &[Work::Linking])?;
    change(rows, at, LinkingRow::decode, |mut row| {
        to(&mut row);
        Some(row.encode())
    })
}

pub(super) fn work() -> Vec<Field> {
    let mut fields = vec![
        mended("kind", &["Work: an unknown kind"], |rows, at| rekey(rows, at, |at| at[1] ^= 0x40)),
        mended("run of a release", &["is void, and no sweep returns it"], |rows, at| {
            of(at, &[Work::Release])?;
            other_byte(rows, at, 4)
        }),
        mended("run of a clear", &["which belongs to no tube"], |rows, at| {
            of(at, &[Work::Clear])?;
            other_byte(rows, at, 4)
        }),
        mended("run of another", &["no sweep lets them", "no work goes on"], |rows, at| {
            of(at, &[Work::Follow, Work::Merge])?;
            other_byte(rows, at, 4)
        }),
        mended("id of a sweep", &["Work: an invalid key"], |rows, at| {
            of(at, &[Work::Clear, Work::Release, Work::Follow, Work::Merge])?;
            other_id(rows, at)
        }),
        mended("tube", &["Work: a sweep of tube"], |rows, at| {
            sweep((rows, at), &[Work::Release, Work::Follow, Work::Merge], |row| row.tube += 1)
        }),
        free("tube of a run without one", "it has none", |rows, at| {
            sweep((rows, at), &[Work::Clear], |row| row.tube += 1)
        }),
        mended("where a release goes on", &["is void, and no sweep returns it"], |rows, at| {
            sweep((rows, at), &[Work::Release], |row| row.from = u64::MAX)
        }),
        free("where another goes on", "it is not read", |rows, at| {
            sweep((rows, at), &[Work::Clear, Work::Follow, Work::Merge], |row| row.from += 1)
        }),
    ];
    fields.extend(work_on_pieces());
    fields.extend(work_on_edges());
    fields
}

fn work_on_pieces() -> Vec<Field> {
    let lines: &[&str] = &["a row that no task accounts for"];
    vec![
        mended("id of pieces", lines, |rows, at| {
            of(at, &[Work::Pieces, Work::Staged])?;
            other_id(rows, at)
        }),
        mended("generation", &["Work: on the pieces of another payload"], |rows, at| {
            of_pieces(rows, at, |row| row.generation += 1)
        }),
        mended("first piece", lines, |rows, at| of_pieces(rows, at, |row| row.from += 1)),
        mended("last piece", &["a piece is missing"], |rows, at| {
            of_pieces(rows, at, |row| row.to += 1)
        }),
    ]
}

fn work_on_edges() -> Vec<Field> {
    vec![
        mended("id of a cascade", &["no work lets task"], |rows, at| {
            of_cascade(at, true)?;
            other_id(rows, at)
        }),
        mended("id of edges", &["no work removes its edges"], |rows, at| {
            of(at, &[Work::Unlink, Work::Linking])?;
            other_id(rows, at)
        }),
        mended("run of edges", &["Work: an invalid key"], |rows, at| {
            of(at, &Work::OF_EDGES)?;
            other_byte(rows, at, 5)
        }),
        free("end of a task that is gone", "it is not there", |rows, at| {
            cascade((rows, at), true, |row| {
                row.ended = TaskEnds { done: true, ..TaskEnds::default() };
            })
        }),
        mended("end", &["the task has not ended so"], |rows, at| {
            cascade((rows, at), false, |row| {
                row.ended = TaskEnds { done: true, ..TaskEnds::default() };
            })
        }),
        free("tube of a task that is gone", "it is not there", |rows, at| {
            cascade((rows, at), true, |row| row.tube += 1)
        }),
        mended("tube of the task", &["the task is in another tube"], |rows, at| {
            cascade((rows, at), false, |row| row.tube += 1)
        }),
        mended("where a cascade goes on", &["no work lets task 811 learn it"], |rows, at| {
            cascade((rows, at), true, |row| row.from = u64::MAX)
        }),
        free("told that it was buried", "any number", |rows, at| {
            cascade((rows, at), true, |row| row.buried_to = 7)
        }),
        free("not told that it was buried", "any tasks", |rows, at| {
            cascade((rows, at), true, |row| {
                (row.ended.buried, row.spared) = (true, vec![7, 9]);
            })
        }),
        mended("edges written", &["counts other edges"], |rows, at| {
            linking(rows, at, |row| row.counts.open += 1)
        }),
        mended("edges met", &["counts other edges"], |rows, at| {
            linking(rows, at, |row| row.counts.met += 1)
        }),
        free("cancelled", "at any time", |rows, at| {
            linking(rows, at, |row| row.is_cancelled ^= true)
        }),
        mended("value", &["it cannot be read"], |rows, at| {
            of(at, &[Work::Unlink])?;
            super::edit::fill(rows, at)
        }),
    ]
}

fn edge_row(rows: &mut Rows, at: &Key, to: impl FnOnce(&mut EdgeRow)) -> Option<()> {
    change(rows, at, EdgeRow::decode, |mut row| {
        to(&mut row);
        Some(row.encode())
    })
}

/// Whether the edge leads to a task that is there.
fn is_there(at: &Key) -> Option<()> {
    let ((_, to), _) = key::of_edge(at)?;
    (to < TaskId::new(GONE)).then_some(())
}

pub(super) fn edge() -> Vec<Field> {
    vec![
        mended("id", &["a row without its other one"], other_first_id),
        mended("it is met", &["a row without its other one"], |rows, at| other_byte(rows, at, 9)),
        mended("other task", &["a row without its other one"], other_id),
        mended("end that meets it", &["its other row says something else"], |rows, at| {
            edge_row(rows, at, |row| {
                row.on = if row.on == On::AnyEnd { On::Failure } else { On::AnyEnd };
            })
        }),
        mended("after another end", &["its other row says something else"], |rows, at| {
            edge_row(rows, at, |row| {
                row.orphaned = match row.orphaned {
                    Orphaned::Ignore => Orphaned::Cancel,
                    _ => Orphaned::Ignore,
                };
            })
        }),
        mended("tube", &["a wrong row"], |rows, at| {
            is_there(at)?;
            edge_row(rows, at, |row| row.tube += 1)
        }),
    ]
}

/// An edge to a task that is gone.
pub(super) fn edge_to_gone() -> Vec<Field> {
    vec![free("tube of a task that is gone", "it is not there", |rows, at| {
        is_there(at).is_none().then_some(())?;
        edge_row(rows, at, |row| row.tube += 1)
    })]
}
