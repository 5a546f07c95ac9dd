//! The rows of tubes, their settings and their days.

use super::edit::{change, other_byte, rekey, tube, tube_named};
use super::{Field, Key, Rows, free, mended, stays};
use crate::format::key::Run;
use crate::format::row::{DayRow, PendingGroups, PendingSum, SettingRow, Shut};
use crate::words::clock::NEVER;
use crate::words::gates::Gates;
use crate::words::history::HistoryLimits;
use crate::words::lapse::Lapse;
use crate::words::retention::Retention;
use crate::words::setting::SettingValue;
use crate::words::sync::Arc;
use crate::words::task::TaskId;
use crate::words::tube_kind::TubeKind;
use crate::words::unique::Unique;
use std::collections::BTreeMap;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

pub(super) fn tube_row() -> Vec<Field> {
    let mut fields = named();
    fields.extend(followed());
    fields.extend(free_options());
    fields
}

/// What other rows say too.
fn named() -> Vec<Field> {
    vec![
        mended("number", &["its name row does not refer to it"], |rows, at| {
            rekey(rows, at, |at| at[4] ^= 0x40)
        }),
        mended("name", &["its name row does not refer to it"], |rows, at| {
            tube(rows, at, |row| row.name.push('x'))
        }),
        mended("run", &["which belongs to no tube"], |rows, at| {
            tube_named(rows, at, "first", |row| row.run = Run(1000))
        }),
        mended("void_to", &["its lease is void, and no sweep"], |rows, at| {
            tube_named(rows, at, "first", |row| row.void_to = 1 << 40)
        }),
        free("void_to without a lease", "any number", |rows, at| {
            tube_named(rows, at, "empty", |row| row.void_to = 1 << 40)
        }),
        mended("schedules", &["schedules, not"], |rows, at| {
            tube(rows, at, |row| row.schedules += 1)
        }),
        mended("merges", &["it is merged into another one"], |rows, at| {
            tube_named(rows, at, "first", |row| row.shut = Shut::of(None, Some(7)))
        }),
        mended("no merge", &["which is in none"], |rows, at| {
            tube_named(rows, at, "merged", |row| row.shut = None)
        }),
        free("other tube of a merge", "it may be gone", |rows, at| {
            tube_named(rows, at, "merged", |row| row.shut = Shut::of(None, Some(77)))
        }),
        mended("temporary", &["its run is not of its kind"], |rows, at| {
            tube(rows, at, |row| row.options.temporary ^= true)
        }),
    ]
}

/// What rows of its tasks follow.
fn followed() -> Vec<Field> {
    vec![
        // Which of them is wrong is not known.
        stays("kind", &["it is of no group"], "it is of no group", |rows, at| {
            tube_named(rows, at, "first", |row| row.options.kind = TubeKind::Utube)
        }),
        mended("priority it was made with", &["Position: a row is missing"], |rows, at| {
            tube_named(rows, at, "first", |row| row.made_priority += 1)
        }),
        mended("ttl_spares_buried", &["Due: a row"], |rows, at| {
            tube_named(rows, at, "first", |row| row.options.ttl_spares_buried ^= true)
        }),
        mended("in_flight", &["OpenHead: a row is missing"], |rows, at| {
            tube_named(rows, at, "first", |row| row.options.in_flight += 1)
        }),
        mended("bytes of done tasks", &["Kept: "], |rows, at| {
            tube_named(rows, at, "first", |row| row.options.keep_finished = Some(Retention::new()))
        }),
        mended("bytes of buried tasks", &["Kept: "], |rows, at| {
            tube_named(rows, at, "first", |row| row.options.keep_buried = None)
        }),
        mended("keys unique in the queue", &["KeyOfQueue"], |rows, at| {
            tube_named(rows, at, "unique", |row| row.options.unique.in_queue = false)
        }),
        mended("states that count", &["Key: a row"], |rows, at| {
            tube_named(rows, at, "unique", |row| row.options.unique = Unique::new())
        }),
        mended("index of kinds", &["Kind: a row"], |rows, at| {
            tube_named(rows, at, "first", |row| row.options.index_kinds = false)
        }),
        mended("groups that follow", &["no sweep lets them"], |rows, at| {
            tube_named(rows, at, "first", |row| {
                let (to, until) = ("a".into(), "b".into());
                row.pending.groups = Some(PendingGroups { before: 1, to, until });
            })
        }),
        mended("sums that follow", &["no sweep lets them"], |rows, at| {
            tube_named(rows, at, "first", |row| {
                let (to, until) = ((0, TaskId::new(0)), (NEVER, TaskId::new(0)));
                row.pending.finished = Some(PendingSum { to, until });
            })
        }),
    ]
}

/// What is of the caller's choice, and changes no row that there is.
fn free_options() -> Vec<Field> {
    vec![
        free("pause", "at any time", |rows, at| {
            tube_named(rows, at, "first", |row| row.shut = Shut::of(Some(7), None))
        }),
        free("priority", "of later tasks", |rows, at| {
            tube(rows, at, |row| row.options.priority += 1)
        }),
        free("higher_first", "any number is a priority", |rows, at| {
            tube(rows, at, |row| row.options.higher_first ^= true)
        }),
        free("ttl", "of later tasks", |rows, at| {
            tube(rows, at, |row| row.options.ttl = Some(HOUR))
        }),
        free("ttr", "of later leases", |rows, at| {
            tube(rows, at, |row| row.options.ttr = Some(HOUR))
        }),
        free("capacity", "of later tasks", |rows, at| {
            tube(rows, at, |row| row.options.capacity = Some(1))
        }),
        free("max_attempts", "of later ends", |rows, at| {
            tube(rows, at, |row| row.options.max_attempts = Some(1))
        }),
        free("back-off", "of later returns", |rows, at| {
            tube(rows, at, |row| row.options.backoff.first = HOUR)
        }),
        free("lapse", "of later leases", |rows, at| {
            tube(rows, at, |row| row.options.lapse = Lapse { grace: HOUR, ..Lapse::new() })
        }),
        free("hold_group_while_delayed", "each delayed task says it", |rows, at| {
            tube(rows, at, |row| row.options.hold_group_while_delayed ^= true)
        }),
        free("placement", "its program may not run", |rows, at| {
            tube(rows, at, |row| row.options.placement = Some("another".to_owned()))
        }),
        free("age of done tasks", "each of them says it", |rows, at| {
            tube_named(rows, at, "first", |row| {
                row.options.keep_finished = Some(Retention::new().bytes(1 << 40));
            })
        }),
        free("history", "of later entries", |rows, at| {
            tube(rows, at, |row| row.options.history = HistoryLimits::none())
        }),
        free("book", "any text", |rows, at| {
            tube(rows, at, |row| row.options.book = Some("another".to_owned()))
        }),
        free("details", "any texts", |rows, at| {
            let details = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
            tube(rows, at, |row| row.options.details = Arc::new(details))
        }),
        free("payloads of done tasks", "each of them says it", |rows, at| {
            tube(rows, at, |row| row.options.drop_payloads ^= true)
        }),
        free("days", "a sweep removes those that are too old", |rows, at| {
            tube(rows, at, |row| row.options.keep_days = 1)
        }),
        free("gates", "conditions and throttles need not be there", |rows, at| {
            tube(rows, at, |row| {
                let required = ["another".to_owned()].into();
                row.options.gates = Some(Arc::new(Gates { required, ..Gates::default() }));
            })
        }),
        free("pace", "any time", |rows, at| tube(rows, at, |row| row.pace += 1)),
    ]
}

pub(super) fn setting() -> Vec<Field> {
    vec![
        mended("tube", &["which does not exist"], |rows, at| other_byte(rows, at, 3)),
        mended("name", &["a tube has no setting"], |rows, at| {
            rekey(rows, at, |at| *at.last_mut().unwrap() = b'k')
        }),
        mended("type", &["takes a length of time"], |rows, at| {
            rows.set(at.clone(), SettingRow::of(7.into()).encode());
            Some(())
        }),
        free("value", "what the tube was made with", |rows, at| {
            rows.set(at.clone(), SettingRow::of(SettingValue::Duration(HOUR * 7)).encode());
            Some(())
        }),
    ]
}

pub(super) fn day() -> Vec<Field> {
    fn day(rows: &mut Rows, at: &Key, to: impl FnOnce(&mut DayRow)) -> Option<()> {
        change(rows, at, DayRow::decode, |mut row| {
            to(&mut row);
            Some(row.encode())
        })
    }
    vec![
        mended("day", &["Day: a damaged row"], |rows, at| other_byte(rows, at, 8)),
        mended("begun", &["Day: a damaged row"], |rows, at| {
            day(rows, at, |row| row.begun += 86_400_000_000)
        }),
        free("time on the day", "any time", |rows, at| day(rows, at, |row| row.begun ^= 1)),
        free("failures", "counted nowhere else", |rows, at| day(rows, at, |row| row.failures += 1)),
        free("retries", "counted nowhere else", |rows, at| day(rows, at, |row| row.retries += 1)),
        free("waits", "counted nowhere else", |rows, at| {
            day(rows, at, |row| {
                row.waits.count += 1;
                row.waits.buckets[0] += 1;
            })
        }),
        free("runs", "counted nowhere else", |rows, at| day(rows, at, |row| row.runs.sum += 1)),
    ]
}
