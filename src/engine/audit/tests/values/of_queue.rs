//! The rows of the queue that are about no single task: numbers and names, consumers, throttles and
//! their slots, tags, and schedules.

use super::edit::{change, count, fill, other_byte, other_id, rekey, value};
use super::{Field, Key, Rows, free, mended};
use crate::format::key::{self, Run};
use crate::format::row::{
    self, ConditionRow, ConsumerRow, Counters, FiringRow, Gap, ScheduleRow, ThrottleRow,
};
use crate::words::schedule::{Missed, Overlap, Timing};

pub(super) fn meta() -> Vec<Field> {
    fn given(rows: &mut Rows, at: &Key, to: impl FnOnce(&mut Counters)) -> Option<()> {
        change(rows, at, Counters::decode, |mut row| {
            to(&mut row);
            Some(row.encode())
        })
    }
    let lines: &[&str] = &["is the last that was assigned"];
    vec![
        mended("what", &["an unknown row"], |rows, at| other_byte(rows, at, 1)),
        mended("tube", lines, |rows, at| given(rows, at, |row| row.tube -= 1)),
        mended("run", lines, |rows, at| given(rows, at, |row| row.run -= 1)),
        mended("consumer", lines, |rows, at| given(rows, at, |row| row.consumer = 0)),
        free("higher ones", "numbers may be given and gone", |rows, at| {
            given(rows, at, |row| (row.tube, row.run, row.consumer) = (900, 900, 900))
        }),
    ]
}

pub(super) fn name() -> Vec<Field> {
    vec![
        mended("name", &["there is no such tube"], |rows, at| other_byte(rows, at, at.len() - 1)),
        mended("number", &["its name row does not refer to it"], count),
    ]
}

fn consumer_row(rows: &mut Rows, at: &Key, to: impl FnOnce(&mut ConsumerRow)) -> Option<()> {
    change(rows, at, ConsumerRow::decode, |mut row| {
        to(&mut row);
        Some(row.encode())
    })
}

pub(super) fn consumer() -> Vec<Field> {
    vec![
        mended("number", &["its name row does not refer to it"], |rows, at| {
            rekey(rows, at, |at| at[4] ^= 0x40)
        }),
        mended("name", &["its name row does not refer to it"], |rows, at| {
            consumer_row(rows, at, |row| row.name.push('x'))
        }),
        free("grace", "any length", |rows, at| consumer_row(rows, at, |row| row.grace ^= 1)),
        free("until", "any time", |rows, at| consumer_row(rows, at, |row| row.until ^= 1)),
        free("void_to", "any number", |rows, at| consumer_row(rows, at, |row| row.void_to ^= 1)),
        free("about it", "what it says of itself", |rows, at| {
            consumer_row(rows, at, |row| {
                row.describe(Some("kind"), Some("host"), Some("meta"));
                row.set_pid(77);
                row.set_active(7);
                row.set_keep(7);
                row.set_forgotten(Some(7));
            })
        }),
    ]
}

pub(super) fn consumer_name() -> Vec<Field> {
    vec![
        mended("name", &["a name of a consumer that does not exist"], |rows, at| {
            other_byte(rows, at, at.len() - 1)
        }),
        mended("number", &["its name row does not refer to it"], |rows, at| {
            change(rows, at, row::read_number, |number| Some(row::number(number ^ 64)))
        }),
    ]
}

pub(super) fn tracked() -> Vec<Field> {
    vec![free("id", "the task may be gone", other_id), free("since", "any time", count)]
}

pub(super) fn condition() -> Vec<Field> {
    vec![
        free("name", "any name", |rows, at| other_byte(rows, at, at.len() - 1)),
        free("set", "at any time", |rows, at| {
            change(rows, at, ConditionRow::decode, |row| {
                Some(ConditionRow { is_set: !row.is_set, ..row }.encode())
            })
        }),
    ]
}

fn throttle_row(rows: &mut Rows, at: &Key, to: impl FnOnce(&mut ThrottleRow)) -> Option<()> {
    change(rows, at, ThrottleRow::decode, |mut row| {
        to(&mut row);
        Some(row.encode())
    })
}

pub(super) fn throttle() -> Vec<Field> {
    vec![
        free("name", "any name", |rows, at| other_byte(rows, at, at.len() - 1)),
        free("run that none has", "its slots may be left", |rows, at| {
            let given = Counters::decode(&value(rows, &key::meta(Counters::WHAT))?)?;
            change(rows, &key::meta(Counters::WHAT), Counters::decode, |row| {
                Some(Counters { run: given.run + 9, ..row }.encode())
            })?;
            throttle_row(rows, at, |row| row.run = Run(given.run + 9))
        }),
        mended("run that was not assigned", &["is the last that was assigned"], |rows, at| {
            throttle_row(rows, at, |row| row.run = Run(1000))
        }),
        mended("run of a tube", &["a tube has its run"], |rows, at| {
            let run = rows.tube("first").run();
            throttle_row(rows, at, |row| row.run = run)
        }),
        free("limit", "any number", |rows, at| throttle_row(rows, at, |row| row.limit += 1)),
        free("end", "any time", |rows, at| throttle_row(rows, at, |row| row.ends ^= 1)),
    ]
}

pub(super) fn slot() -> Vec<Field> {
    vec![
        mended("run", &["Slot: no task holds it"], |rows, at| other_byte(rows, at, 3)),
        mended("id", &["Slot: no task holds it"], |rows, at| other_byte(rows, at, 12)),
        mended("tube", &["Slot: no task holds it"], |rows, at| {
            rekey(rows, at, |at| at[20] ^= 0x40)
        }),
        mended("value", &["Slot: a wrong row"], fill),
    ]
}

pub(super) fn tagged_count() -> Vec<Field> {
    vec![
        mended("tag", &["tasks have it"], |rows, at| other_byte(rows, at, at.len() - 1)),
        mended("tasks", &["tasks have it, stored"], count),
    ]
}

pub(super) fn top_tagged() -> Vec<Field> {
    vec![
        mended("tasks", &["a tag at a wrong place"], |rows, at| other_byte(rows, at, 8)),
        mended("tag", &["a tag at a wrong place"], |rows, at| other_byte(rows, at, at.len() - 1)),
        mended("value", &["a wrong row"], fill),
    ]
}

fn schedule_row(rows: &mut Rows, at: &Key, to: impl FnOnce(&mut ScheduleRow)) -> Option<()> {
    change(rows, at, ScheduleRow::decode, |mut row| {
        to(&mut row);
        Some(row.encode())
    })
}

pub(super) fn schedule() -> Vec<Field> {
    vec![
        mended("name", &["Firing: a row without a schedule"], |rows, at| {
            other_byte(rows, at, at.len() - 1)
        }),
        mended("tube", &["schedules, not"], |rows, at| schedule_row(rows, at, |row| row.tube += 1)),
        mended("name of its tube", &["its tube is not"], |rows, at| {
            schedule_row(rows, at, |row| row.tube_name.push('x'))
        }),
        mended("clock of its timing", &["does not fire then"], |rows, at| {
            let (text, zone) = ("* * * * *".to_owned(), "UTC".to_owned());
            schedule_row(rows, at, |row| row.timing = Timing::Cron { text, zone })
        }),
        free("interval", "any length", |rows, at| {
            schedule_row(rows, at, |row| row.timing = Timing::Every(7))
        }),
        free("offset", "any length", |rows, at| schedule_row(rows, at, |row| row.offset += 1)),
        free("missed fires", "of later fires", |rows, at| {
            schedule_row(rows, at, |row| row.missed = Missed::CatchUp(7))
        }),
        free("overlap", "of later fires", |rows, at| {
            schedule_row(rows, at, |row| row.overlap = Overlap::Replace)
        }),
        free("created", "any time", |rows, at| schedule_row(rows, at, |row| row.created += 1)),
        free("child", "of later fires", |rows, at| {
            schedule_row(rows, at, |row| {
                (row.codec, row.version) = (7, 7);
                row.child.priority = Some(7);
                row.payload.push(7);
            })
        }),
    ]
}

/// How far a schedule has come stands twice: the row at the next fire is a copy.
fn firing_row(rows: &mut Rows, at: &Key, to: impl FnOnce(&mut FiringRow)) -> Option<()> {
    change(rows, at, FiringRow::decode, |mut row| {
        to(&mut row);
        Some(row.encode())
    })
}

fn how_far() -> Vec<Field> {
    let lines: &[&str] = &["a wrong copy of how far"];
    vec![
        mended("children", lines, |rows, at| firing_row(rows, at, |row| row.children += 1)),
        mended("missed", lines, |rows, at| firing_row(rows, at, |row| row.missed += 1)),
        mended("last child", lines, |rows, at| firing_row(rows, at, |row| row.last += 1)),
        mended("nominal time of it", lines, |rows, at| {
            firing_row(rows, at, |row| row.last_nominal += 1)
        }),
        mended("fires that are made", lines, |rows, at| {
            firing_row(rows, at, |row| row.gap = Some(Gap::before(7)))
        }),
        mended("tube of the last child", lines, |rows, at| {
            firing_row(rows, at, |row| row.last_tube = Some(7))
        }),
        mended("has not fired", lines, |rows, at| firing_row(rows, at, |row| row.is_fresh ^= true)),
        mended("fire it had", lines, |rows, at| firing_row(rows, at, |row| row.ahead = Some(7))),
    ]
}

pub(super) fn firing() -> Vec<Field> {
    let then: &[&str] = &["does not fire then"];
    let mut fields = how_far();
    fields.extend([
        mended("name", &["Firing: a row without a schedule"], |rows, at| {
            other_byte(rows, at, at.len() - 1)
        }),
        mended("next", &["does not fire then", "a wrong copy"], |rows, at| {
            firing_row(rows, at, |row| row.next += 1)
        }),
        mended("paused", then, |rows, at| firing_row(rows, at, |row| row.is_paused ^= true)),
        mended("stands still", &["does not fire then", "a wrong copy"], |rows, at| {
            firing_row(rows, at, |row| row.is_refused ^= true)
        }),
    ]);
    fields
}

pub(super) fn fire() -> Vec<Field> {
    let mut fields = how_far();
    let lines: &[&str] = &["the row of its next fire is missing"];
    fields.extend([
        mended("tube", lines, |rows, at| other_byte(rows, at, 3)),
        mended("clock", lines, |rows, at| rekey(rows, at, |at| at[5] ^= 3)),
        mended("when", lines, |rows, at| other_byte(rows, at, 12)),
        mended("name", lines, |rows, at| other_byte(rows, at, at.len() - 1)),
        mended("next", &["a wrong copy"], |rows, at| firing_row(rows, at, |row| row.next -= 1)),
        mended("paused", &["a wrong copy"], |rows, at| {
            firing_row(rows, at, |row| row.is_paused ^= true)
        }),
    ]);
    fields
}
