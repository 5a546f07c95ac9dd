//! The rows of tasks that give no state: where a task was put and stands, its own row, what follows
//! from both, and what stands beside it under no tube.

use super::edit::{
    self, change, count, fill, of_tube, other_byte, other_first_id, other_id, other_text, rekey,
    state_of, value,
};
use super::{Field, Key, Rows, free, mended, stays};
use crate::format::key::{self, Order, Rank};
use crate::format::piece::Pieces;
use crate::format::row::{
    HistoryRow, Labels, PayloadPlace, PositionRow, ReportRow, Spawned, TagsRow, TaskRow, Times,
    dropped_section, label_section, labelled_section, moved_section, replaced_section,
};
use crate::format::{Tag, Value};
use crate::words::history::HistoryEvent;

const PLACE: Rank = Rank { priority: 7, order: Order::Number([9; 8]) };

pub(super) fn position() -> Vec<Field> {
    vec![
        mended("id", &["Position: a row is missing"], other_id),
        mended("home", &["task"], |rows, at| {
            change(rows, at, PositionRow::decode, |row| {
                Some(PositionRow { home: PLACE, ..row }.encode())
            })
        }),
        mended("place", &["its position row is wrong"], |rows, at| {
            change(rows, at, PositionRow::decode, |row| {
                Some(PositionRow { place: PLACE, ..row }.encode())
            })
        }),
    ]
}

/// The row of a task that its put wrote.
pub(super) fn own(is_fresh: bool) -> Vec<Field> {
    let mut fields = vec![
        // Of a fresh task no other row has to say which id it had.
        mended("id", &["task", "Position: a row"], |rows, at| {
            state_of(rows, at)?;
            edit::own(rows, at, |row| row.payload.pieces().is_none().then(|| row.encode()))?;
            other_id(rows, at)
        }),
        mended("home", &["task", "Position: a row"], |rows, at| other_byte(rows, at, 12)),
        free("codec", "any codec", |rows, at| {
            edit::own(rows, at, |row| Some(TaskRow { codec: row.codec ^ 1, ..row }.encode()))
        }),
        free("version of the codec", "any version", |rows, at| {
            edit::own(rows, at, |row| Some(TaskRow { version: row.version ^ 1, ..row }.encode()))
        }),
        free("created", "any time", |rows, at| {
            edit::own(rows, at, |row| Some(TaskRow { created: row.created + 1, ..row }.encode()))
        }),
        free("payload", "any bytes", |rows, at| {
            inline(rows, at, |payload| {
                *payload.first_mut()? ^= 1;
                Some(())
            })
        }),
        mended("payload bytes", &["payload bytes, but"], |rows, at| {
            (!key::is_temporary(at)).then_some(())?;
            longer(rows, at)
        }),
        mended("payload bytes of temporary tubes", &["rows do not agree"], |rows, at| {
            (key::is_temporary(at) && has_away(rows, at)).then_some(())?;
            longer(rows, at)
        }),
        free("those without a row that says them", "they are counted in memory", |rows, at| {
            let state = state_of(rows, at);
            let is_said = has_away(rows, at) || state == Some(Tag::Buried);
            (key::is_temporary(at) && !is_said).then_some(())?;
            longer(rows, at)
        }),
    ];
    fields.extend(names());
    fields.extend(times(is_fresh));
    fields.extend(section());
    if is_fresh {
        fields.extend(apart());
    } else {
        fields.extend(names_of_buried());
    }
    fields
}

/// Whether the row of the state of a task says how long its payload is, and more of its own row.
fn has_away(rows: &Rows, at: &Key) -> bool {
    let state = state_of(rows, at);
    matches!(state, Some(Tag::Taken | Tag::Delayed | Tag::Blocked | Tag::Done))
}

/// A payload in the row.
fn inline(rows: &mut Rows, at: &Key, to: impl FnOnce(&mut Vec<u8>) -> Option<()>) -> Option<()> {
    edit::own(rows, at, |row| match row.payload {
        PayloadPlace::Inline(payload) => {
            let mut payload = payload.to_vec();
            to(&mut payload)?;
            Some(TaskRow { payload: PayloadPlace::Inline(&payload), ..row }.encode())
        }
        PayloadPlace::Separate(_) => None,
    })
}

fn longer(rows: &mut Rows, at: &Key) -> Option<()> {
    inline(rows, at, |payload| {
        payload.push(7);
        Some(())
    })
}

fn other_group(rows: &mut Rows, at: &Key) -> Option<()> {
    edit::own(rows, at, |row| {
        let group = if row.group.is_some() { None } else { Some("another") };
        Some(TaskRow { group, ..row }.encode())
    })
}

fn other_key(rows: &mut Rows, at: &Key) -> Option<()> {
    edit::own(rows, at, |row| {
        let key = if row.key.is_some() { None } else { Some("another") };
        Some(TaskRow { key, ..row }.encode())
    })
}

fn is_buried(rows: &Rows, at: &Key) -> bool {
    matches!(state_of(rows, at), Some(Tag::Buried | Tag::Trashed))
}

/// The group, and the key by which it is found.
fn names() -> Vec<Field> {
    vec![
        mended("group", &["it is fresh, and of a group", "task"], |rows, at| {
            (!is_buried(rows, at)).then_some(())?;
            other_group(rows, at)
        }),
        mended("key", &[": a row", "its rows do not agree", "no row of its key"], |rows, at| {
            (state_of(rows, at) != Some(Tag::Trashed)).then_some(())?;
            other_key(rows, at)
        }),
    ]
}

fn names_of_buried() -> Vec<Field> {
    vec![
        free("group of a buried task", "no other row says it", |rows, at| {
            is_buried(rows, at).then_some(())?;
            other_group(rows, at)
        }),
        free("key in the trash", "it is not found by it", |rows, at| {
            (state_of(rows, at) == Some(Tag::Trashed)).then_some(())?;
            other_key(rows, at)
        }),
    ]
}

/// Of a payload in pieces.
fn apart() -> Vec<Field> {
    fn pieces(rows: &mut Rows, at: &Key, to: impl FnOnce(&mut Pieces)) -> Option<()> {
        edit::own(rows, at, |row| {
            let mut pieces = row.payload.pieces()?;
            to(&mut pieces);
            Some(TaskRow { payload: PayloadPlace::Separate(pieces), ..row }.encode())
        })
    }
    vec![
        stays("id", &["a piece is missing"], "not the bytes of", |rows, at| {
            edit::own(rows, at, |row| row.payload.pieces().map(|_| row.encode()))?;
            other_id(rows, at)
        }),
        stays("bytes in pieces", &["not the bytes of"], "not the bytes of", |rows, at| {
            pieces(rows, at, |pieces| pieces.bytes += 1)
        }),
        stays("hash", &["is not the one that was put"], "is not the one", |rows, at| {
            pieces(rows, at, |pieces| pieces.hash ^= 1)
        }),
        mended("generation of the pieces", &["of another generation"], |rows, at| {
            pieces(rows, at, |pieces| pieces.generation += 1)
        }),
        mended("generation", &["of another generation"], |rows, at| {
            edit::own(rows, at, |row| {
                row.payload.pieces()?;
                let section = replaced_section(row.extension, row.payload_generation() + 1)?;
                Some(TaskRow { extension: &section, ..row }.encode())
            })
        }),
    ]
}

fn with_times(rows: &mut Rows, at: &Key, to: impl FnOnce(&mut Times)) -> Option<()> {
    edit::own(rows, at, |row| {
        let mut times = row.times.unwrap_or(Times::NONE);
        to(&mut times);
        Some(TaskRow { times: Some(times), ..row }.encode())
    })
}

fn times(is_fresh: bool) -> Vec<Field> {
    let mut fields = vec![
        free("ttr", "any length", |rows, at| with_times(rows, at, |times| times.ttr ^= 1)),
        free("expires", "that in the row of its state counts", |rows, at| {
            state_of(rows, at)?;
            with_times(rows, at, |times| times.expires ^= 1)
        }),
    ];
    if is_fresh {
        fields.push(mended("expires of a fresh task", &["Due: a row"], |rows, at| {
            state_of(rows, at).is_none().then_some(())?;
            with_times(rows, at, |times| times.expires ^= 1)
        }));
    }
    fields
}

/// Changes what a row that has fields says, so that no other row has to say that it has some.
fn label(rows: &mut Rows, at: &Key, to: impl FnOnce(&mut Labels<'_>)) -> Option<()> {
    edit::own(rows, at, |row| {
        (!row.extension.is_empty()).then_some(())?;
        let mut labels = Labels::default();
        to(&mut labels);
        let section = labelled_section(row.extension, &labels)?;
        Some(TaskRow { extension: &section, ..row }.encode())
    })
}

fn first_label(rows: &mut Rows, at: &Key) -> Option<()> {
    edit::own(rows, at, |row| {
        row.extension.is_empty().then_some(())?;
        let section = label_section(&Labels { book: Some("another"), ..Labels::default() });
        Some(TaskRow { extension: &section, ..row }.encode())
    })
}

fn has_index(rows: &Rows, at: &Key) -> Option<bool> {
    Some(matches!(&*of_tube(rows, at)?, "first" | "temporary"))
}

/// What the fields of a row of a task say.
fn section() -> Vec<Field> {
    vec![
        mended("kind", &["Kind: a row"], |rows, at| {
            has_index(rows, at)?.then_some(())?;
            edit::own(rows, at, |row| {
                let labels = Labels { kind: Some("another"), ..Labels::default() };
                let section = labelled_section(row.extension, &labels)?;
                Some(TaskRow { extension: &section, ..row }.encode())
            })
        }),
        mended("first field", &["its rows do not agree"], |rows, at| {
            has_away(rows, at).then_some(())?;
            first_label(rows, at)
        }),
        free("first field that no other row says", "a book", |rows, at| {
            (!has_away(rows, at)).then_some(())?;
            first_label(rows, at)
        }),
        free("book", "any text", |rows, at| {
            label(rows, at, |labels| labels.book = Some("another"))
        }),
        free("details", "any texts", |rows, at| {
            label(rows, at, |labels| _ = labels.details.insert("name", "text"))
        }),
        free("schedule", "it may be gone", |rows, at| {
            let spawned = Some(Spawned { by: "another", nominal: 7 });
            label(rows, at, |labels| labels.spawned = spawned)
        }),
        free("result passed on", "any bytes", |rows, at| {
            label(rows, at, |_| ())?;
            edit::own(rows, at, |row| {
                let section = moved_section(row.extension, Some(b"x"), row.is_moved(), None)?;
                Some(TaskRow { extension: &section, ..row }.encode())
            })
        }),
        free("lives since", "any time", |rows, at| {
            label(rows, at, |_| ())?;
            edit::own(rows, at, |row| {
                let moved = row.is_moved();
                let section = moved_section(row.extension, row.passed(), moved, Some(7))?;
                Some(TaskRow { extension: &section, ..row }.encode())
            })
        }),
        mended("it has moved", &["no row leads to it", ": a row without a task"], |rows, at| {
            edit::own(rows, at, |row| {
                let moved = !row.is_moved();
                let section = moved_section(row.extension, row.passed(), moved, None)?;
                Some(TaskRow { extension: &section, ..row }.encode())
            })
        }),
        mended("its payload was not kept", &["its payload was not kept"], |rows, at| {
            edit::own(rows, at, |row| {
                let section = dropped_section(row.extension)?;
                Some(TaskRow { extension: &section, ..row }.encode())
            })
        }),
    ]
}

pub(super) fn open_head() -> Vec<Field> {
    vec![
        mended("place", &["OpenHead: a row"], |rows, at| other_byte(rows, at, 12)),
        mended("id", &["OpenHead: a row"], other_id),
        mended("group", &["OpenHead: a wrong row"], |rows, at| {
            rows.set(at.clone(), Value::from(*b"another"));
            Some(())
        }),
    ]
}

pub(super) fn closed_head() -> Vec<Field> {
    vec![
        mended("gate", &["ClosedHead: a row"], |rows, at| other_text(rows, at, 5)),
        mended("place", &["ClosedHead: a row"], |rows, at| other_byte(rows, at, at.len() - 9)),
        mended("id", &["ClosedHead: a row"], other_id),
        mended("group", &["ClosedHead: a wrong row"], |rows, at| {
            rows.set(at.clone(), Value::from(*b"another"));
            Some(())
        }),
    ]
}

pub(super) fn group() -> Vec<Field> {
    vec![
        mended("group", &["in flight, stored"], |rows, at| other_text(rows, at, 5)),
        mended("in flight", &["in flight, stored"], count),
    ]
}

pub(super) fn failure_group() -> Vec<Field> {
    vec![
        mended("group", &["FailureGroup: a row"], |rows, at| other_byte(rows, at, at.len() - 1)),
        mended("tasks", &["tasks, stored"], count),
    ]
}

pub(super) fn kept() -> Vec<Field> {
    vec![
        mended("tag", &["but the stored sum is"], |rows, at| other_byte(rows, at, 5)),
        mended("bytes", &["but the stored sum is"], count),
    ]
}

pub(super) fn due() -> Vec<Field> {
    vec![
        mended("what", &["Due: a row"], |rows, at| rekey(rows, at, |at| at[5] ^= 7)),
        mended("when", &["Due: a row"], |rows, at| other_byte(rows, at, 13)),
        mended("id", &["Due: a row"], other_id),
        mended("copy", &["Due: a wrong row"], |rows, at| {
            let mut row = value(rows, at)?.to_vec();
            match row.last_mut() {
                Some(last) => *last ^= 1,
                None => row.push(1),
            }
            rows.set(at.clone(), Value::from(row.as_slice()));
            Some(())
        }),
    ]
}

pub(super) fn text_index() -> Vec<Field> {
    vec![
        mended("text", &[": a row"], |rows, at| other_text(rows, at, 5)),
        mended("id", &[": a row"], other_id),
        mended("value", &[": a wrong row"], fill),
    ]
}

pub(super) fn key_of_queue() -> Vec<Field> {
    vec![
        mended("text", &["no row of its key leads to it"], |rows, at| other_text(rows, at, 1)),
        mended("it counts", &["no row of its key leads to it"], |rows, at| {
            other_byte(rows, at, at.len() - 9)
        }),
        mended("id", &["no row of its key leads to it"], other_id),
        mended("tube", &["no row of its key leads to it"], count),
    ]
}

pub(super) fn owner_lease() -> Vec<Field> {
    vec![
        mended("consumer", &["OwnerLease: a row"], |rows, at| other_byte(rows, at, 8)),
        mended("id", &["OwnerLease: a row"], other_id),
        mended("value", &["OwnerLease: a wrong row"], fill),
    ]
}

pub(super) fn time_index() -> Vec<Field> {
    vec![
        mended("time", &["Time: a row"], |rows, at| other_byte(rows, at, 12)),
        mended("id", &["Time: a row"], other_id),
        mended("value", &["Time: a wrong row"], fill),
    ]
}

pub(super) fn buried_group() -> Vec<Field> {
    vec![
        mended("group", &["BuriedGroup: a row"], |rows, at| other_byte(rows, at, 7)),
        mended("time", &["BuriedGroup: a row"], |rows, at| other_byte(rows, at, at.len() - 9)),
        mended("id", &["BuriedGroup: a row"], other_id),
        mended("value", &["BuriedGroup: a wrong row"], fill),
    ]
}

pub(super) fn failed() -> Vec<Field> {
    vec![
        mended("group", &["the queue's row of its failure"], |rows, at| other_byte(rows, at, 3)),
        mended("time", &["the queue's row of its failure"], |rows, at| {
            other_byte(rows, at, at.len() - 13)
        }),
        mended("run", &["the queue's row of its failure"], |rows, at| {
            other_byte(rows, at, at.len() - 9)
        }),
        mended("id", &["the queue's row of its failure"], other_id),
        mended("value", &["a wrong row"], fill),
    ]
}

fn of_task(rows: &Rows, at: &Key) -> Option<()> {
    let id = key::of_piece(at)?.0;
    let mut own = Tag::TASKS.into_iter().flat_map(|tag| rows.keys(tag));
    own.any(|own| key::id_of(&own) == Some(id)).then_some(())
}

fn of_work(rows: &Rows, at: &Key) -> Option<()> {
    of_task(rows, at).is_none().then_some(())
}

const MISSING: &[&str] = &["a piece is missing"];

/// A piece of the payload of a task: the payload is lost.
pub(super) fn piece() -> Vec<Field> {
    let (missing, left) = (MISSING, "not the bytes of");
    vec![
        stays("id", missing, left, |rows, at| {
            of_task(rows, at)?;
            other_first_id(rows, at)
        }),
        stays("generation", missing, left, |rows, at| {
            of_task(rows, at)?;
            other_byte(rows, at, 12)
        }),
        stays("number", missing, left, |rows, at| {
            of_task(rows, at)?;
            rekey(rows, at, |at| at[16] ^= 0x40)
        }),
        stays("bytes", &["a payload is not the one"], "is not the one", |rows, at| {
            of_task(rows, at)?;
            other_bytes(rows, at)
        }),
    ]
}

/// A piece that only work names.
pub(super) fn piece_of_work() -> Vec<Field> {
    let missing = MISSING;
    vec![
        mended("id of one of work", missing, |rows, at| {
            of_work(rows, at)?;
            other_first_id(rows, at)
        }),
        mended("generation of one of work", missing, |rows, at| {
            of_work(rows, at)?;
            other_byte(rows, at, 12)
        }),
        mended("number of one of work", missing, |rows, at| {
            of_work(rows, at)?;
            rekey(rows, at, |at| at[16] ^= 0x40)
        }),
        free("bytes of one of work", "no task has it", |rows, at| {
            of_work(rows, at)?;
            other_bytes(rows, at)
        }),
    ]
}

fn other_bytes(rows: &mut Rows, at: &Key) -> Option<()> {
    let mut row = value(rows, at)?.to_vec();
    *row.first_mut()? ^= 1;
    rows.set(at.clone(), Value::from(row.as_slice()));
    Some(())
}

pub(super) fn moved() -> Vec<Field> {
    vec![
        mended("id", &["no row leads to it"], other_id),
        mended("tube", &["no row leads to it"], count),
    ]
}

/// What an entry of a history says. Only the bytes of all entries are counted.
pub(super) fn history() -> Vec<Field> {
    fn entry(rows: &mut Rows, at: &Key, to: impl FnOnce(&mut HistoryRow<'_>)) -> Option<()> {
        let raw = value(rows, at)?;
        let mut row = HistoryRow::decode(&raw)?;
        to(&mut row);
        let row = row.encode();
        rows.set(at.clone(), row);
        Some(())
    }
    vec![
        mended("id", &["an entry of its history is missing"], other_first_id),
        mended("number", &["an entry of its history is missing"], |rows, at| {
            rekey(rows, at, |at| at[12] ^= 0x40)
        }),
        free("event", "any event", |rows, at| {
            entry(rows, at, |row| row.event = HistoryEvent::PutAgain)
        }),
        free("when", "any time", |rows, at| entry(rows, at, |row| row.when += 1)),
        free("attempt", "any number", |rows, at| entry(rows, at, |row| row.attempt += 1)),
        free("held for", "any length", |rows, at| entry(rows, at, |row| row.held ^= 1)),
        mended("consumer", &["its history has"], |rows, at| entry(rows, at, |row| row.by = "eve")),
        mended("failure group", &["its history has"], |rows, at| {
            entry(rows, at, |row| row.place = "elsewhere")
        }),
        mended("text", &["its history has"], |rows, at| {
            entry(rows, at, |row| row.text = "another text")
        }),
    ]
}

pub(super) fn report() -> Vec<Field> {
    fn report(rows: &mut Rows, at: &Key, to: impl FnOnce(&mut ReportRow<'_>)) -> Option<()> {
        let raw = value(rows, at)?;
        let mut row = ReportRow::decode(&raw).filter(|_| at.ends_with(&[1]))?;
        to(&mut row);
        let row = row.encode();
        rows.set(at.clone(), row);
        Some(())
    }
    vec![
        mended("id", &["a row of its reports is missing"], other_first_id),
        mended("part", &["a row of its reports is missing"], |rows, at| other_byte(rows, at, 9)),
        free("delivery", "any number", |rows, at| report(rows, at, |row| row.delivery += 1)),
        free("started", "any time", |rows, at| report(rows, at, |row| row.started ^= 1)),
        free("what was said", "any text", |rows, at| report(rows, at, |row| row.meta = "else")),
        free("when", "any time", |rows, at| report(rows, at, |row| row.progressed ^= 1)),
        free("percent", "any number", |rows, at| report(rows, at, |row| row.percent ^= 1)),
        free("text", "any text", |rows, at| report(rows, at, |row| row.text = "else")),
        free("checkpoint", "any bytes", |rows, at| {
            at.ends_with(&[2]).then_some(())?;
            fill(rows, at)
        }),
    ]
}

pub(super) fn task_tags() -> Vec<Field> {
    fn tags(rows: &mut Rows, at: &Key, to: impl FnOnce(&mut TagsRow<'_>)) -> Option<()> {
        let raw = value(rows, at)?;
        let mut row = TagsRow::decode(&raw)?;
        to(&mut row);
        let row = row.encode();
        rows.set(at.clone(), row);
        Some(())
    }
    vec![
        mended("id", &["the row of its tags is missing"], other_id),
        mended("tag", &["no row of its tag"], |rows, at| {
            tags(rows, at, |row| row.tags[0].0 = "another")
        }),
        mended("time", &["no row of its tag"], |rows, at| tags(rows, at, |row| row.tags[0].1 += 1)),
        mended("tags", &["Tagged: a row", "TaggedTemporary: a row"], |rows, at| {
            tags(rows, at, |row| _ = row.tags.pop())
        }),
    ]
}

pub(super) fn tagged() -> Vec<Field> {
    vec![
        mended("tag", &["no row of its tag"], |rows, at| other_text(rows, at, 1)),
        mended("time", &["no row of its tag"], |rows, at| other_byte(rows, at, at.len() - 9)),
        mended("id", &["no row of its tag"], other_id),
        mended("tube", &["no row of its tag"], count),
    ]
}
