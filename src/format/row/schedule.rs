//! The row of a schedule: what it is, written when it is made or changed. How far it has come is in
//! a row of its own.

use super::details;
use crate::format::extension::Extension;
use crate::format::pack::{Packer, Unpacker, Value};
use crate::words::backoff::{Backoff, RetryTerms};
use crate::words::clock::micros;
use crate::words::schedule::{Missed, Overlap, Timing, check_missed};
use crate::words::tags::check;
use crate::words::task_gates::{is_line, is_sound, place};
use std::collections::BTreeMap;
use std::time::Duration;

/// The numbers of the fields of a schedule: of its children what a put may give.
const PRIORITY: u16 = 1;
const GROUP: u16 = 2;
const TTL: u16 = 3;
const TTR: u16 = 4;
const DELAY: u16 = 5;
const KIND: u16 = 6;
const BOOK: u16 = 7;
const DETAILS: u16 = 8;
const MAX_ATTEMPTS: u16 = 9;
const BACKOFF: u16 = 10;
const TAGS: u16 = 11;
/// The gates of children in a group. Those of others stand in place of the group, as in a task.
const GATES: u16 = 12;

/// A schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScheduleRow {
    /// The tube of its children, and the name that it had.
    pub(crate) tube: u32,
    pub(crate) tube_name: String,
    pub(crate) timing: Timing,
    /// Microseconds.
    pub(crate) offset: u64,
    pub(crate) missed: Missed,
    pub(crate) overlap: Overlap,
    /// Queue time at which it was made.
    pub(crate) created: u64,
    pub(crate) codec: u8,
    pub(crate) version: u16,
    pub(crate) child: ChildTerms,
    pub(crate) payload: Vec<u8>,
}

/// What the children of a schedule are put with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChildTerms {
    pub(crate) priority: Option<i64>,
    pub(crate) group: Option<String>,
    /// As the name of a line.
    pub(crate) gates: Option<String>,
    /// In whole microseconds.
    pub(crate) ttl: Option<Duration>,
    pub(crate) ttr: Option<Duration>,
    pub(crate) delay: Option<Duration>,
    pub(crate) kind: Option<String>,
    pub(crate) book: Option<String>,
    pub(crate) details: BTreeMap<String, String>,
    pub(crate) retry: RetryTerms,
    pub(crate) tags: Vec<String>,
    /// Fields of later versions.
    pub(crate) later: Extension,
}

fn length(micros: u64) -> Duration {
    super::tube::endless(micros)
}

impl ChildTerms {
    /// The fields. What a call gives was checked: it is far shorter than a section.
    fn fields(&self) -> Extension {
        let mut fields = self.later.clone();
        let mut set = |number: u16, bytes: Option<&[u8]>| {
            if let Some(bytes) = bytes {
                let _ = fields.set(number, bytes);
            }
        };
        set(PRIORITY, self.priority.map(i64::to_be_bytes).as_ref().map(<[u8; 8]>::as_slice));
        for (number, length) in [(TTL, self.ttl), (TTR, self.ttr), (DELAY, self.delay)] {
            set(
                number,
                length.map(|it| micros(it).to_be_bytes()).as_ref().map(<[u8; 8]>::as_slice),
            );
        }
        let (name, gates) = place(self.group.as_deref(), self.gates.as_deref());
        let (kind, book) = (self.kind.as_deref(), self.book.as_deref());
        for (number, text) in [(GROUP, name), (GATES, gates), (KIND, kind), (BOOK, book)] {
            set(number, text.map(str::as_bytes));
        }
        if !self.details.is_empty() {
            let texts = self.details.iter().map(|(name, text)| (&**name, &**text));
            set(DETAILS, Some(&details::encode(texts)));
        }
        let attempts = self.retry.max_attempts.map(u32::to_be_bytes);
        set(MAX_ATTEMPTS, attempts.as_ref().map(<[u8; 4]>::as_slice));
        if let Some(backoff) = self.retry.backoff {
            let mut field = Packer::new();
            super::setting::pack_backoff(&mut field, &backoff);
            set(BACKOFF, Some(&field.done()));
        }
        if !self.tags.is_empty() {
            let mut field = Packer::new();
            for tag in &self.tags {
                field.short(tag);
            }
            set(TAGS, Some(&field.done()));
        }
        fields
    }

    fn of_fields(mut fields: Extension) -> Option<Self> {
        let mut number = |field: u16| -> Option<Option<u64>> {
            let Some(bytes) = fields.take(field) else { return Some(None) };
            Some(Some(u64::from_be_bytes(bytes.try_into().ok()?)))
        };
        let priority = number(PRIORITY)?.map(|bits| bits as i64);
        let (ttl, ttr, delay) = (number(TTL)?, number(TTR)?, number(DELAY)?);
        let mut text = |field: u16| -> Option<Option<String>> {
            let Some(bytes) = fields.take(field) else { return Some(None) };
            let text = String::from_utf8(bytes).ok()?;
            (1..=255).contains(&text.len()).then_some(Some(text))
        };
        let (group, kind, book) = (text(GROUP)?, text(KIND)?, text(BOOK)?);
        let (group, gates) = match (group, text(GATES)?) {
            (Some(line), None) if is_line(&line) => (None, Some(line)),
            (Some(group), gates) if !is_line(&group) && gates.as_deref().is_none_or(is_sound) => {
                (Some(group), gates)
            }
            (None, None) => (None, None),
            // Gates alone stand in place of the group.
            _ => return None,
        };
        let details = match fields.take(DETAILS) {
            Some(bytes) => {
                let texts = details::decode(&bytes)?;
                texts.into_iter().map(|(name, text)| (name.to_owned(), text.to_owned())).collect()
            }
            None => BTreeMap::new(),
        };
        let max_attempts = match fields.take(MAX_ATTEMPTS) {
            Some(bytes) => Some(u32::from_be_bytes(bytes.try_into().ok()?)),
            None => None,
        };
        let backoff = fields.take(BACKOFF).map_or(Some(None), |bytes| {
            let mut rest = Unpacker::new(&bytes);
            let backoff: Backoff = super::setting::unpack_backoff(&mut rest)?;
            rest.end(Some(backoff))
        })?;
        let tags = match fields.take(TAGS) {
            Some(bytes) => read_tags(&bytes)?,
            None => Vec::new(),
        };
        let (ttl, ttr, delay) = (ttl.map(length), ttr.map(length), delay.map(length));
        let retry = RetryTerms { max_attempts, backoff };
        let later = fields;
        Some(Self {
            priority,
            group,
            gates,
            ttl,
            ttr,
            delay,
            kind,
            book,
            details,
            retry,
            tags,
            later,
        })
    }
}

fn read_tags(field: &[u8]) -> Option<Vec<String>> {
    let (mut rest, mut tags) = (Unpacker::new(field), Vec::new());
    while !rest.rest().is_empty() {
        tags.push(rest.short()?.to_owned());
    }
    let names: Vec<&str> = tags.iter().map(String::as_str).collect();
    (!names.is_empty() && check(&names).is_ok()).then_some(tags)
}

impl ScheduleRow {
    pub(crate) fn encode(&self) -> Value {
        let mut row = Packer::new();
        row.u32(self.tube).short(&self.tube_name).u64(self.created).u64(self.offset);
        match &self.timing {
            Timing::Every(interval) => {
                row.u8(1).u64(*interval);
            }
            Timing::Cron { text, zone } => {
                row.u8(2).short(text).short(zone);
            }
        }
        let (missed, most) = match self.missed {
            Missed::Skip => (1, 0),
            Missed::Coalesce => (2, 0),
            Missed::CatchUp(most) => (3, most),
        };
        row.u8(missed).u32(most);
        row.u8(match self.overlap {
            Overlap::Allow => 1,
            Overlap::Skip => 2,
            Overlap::Replace => 3,
        });
        row.u8(self.codec).u16(self.version);
        self.child.fields().encode(&mut row);
        row.bytes(&self.payload);
        row.done()
    }

    pub(crate) fn decode(row: &[u8]) -> Option<Self> {
        let mut row = Unpacker::new(row);
        let (tube, tube_name) = (row.u32()?, row.short()?.to_owned());
        let (created, offset) = (row.u64()?, row.u64()?);
        let timing = match row.u8()? {
            1 => Timing::Every(row.u64().filter(|interval| *interval > 0)?),
            2 => Timing::Cron { text: row.short()?.to_owned(), zone: row.short()?.to_owned() },
            _ => return None,
        };
        let missed = match (row.u8()?, row.u32()?) {
            (1, 0) => Missed::Skip,
            (2, 0) => Missed::Coalesce,
            (3, most) => Missed::CatchUp(most),
            _ => return None,
        };
        check_missed(missed).ok()?;
        let overlap = match row.u8()? {
            1 => Overlap::Allow,
            2 => Overlap::Skip,
            3 => Overlap::Replace,
            _ => return None,
        };
        let (codec, version) = (row.u8()?, row.u16()?);
        let child = ChildTerms::of_fields(Extension::decode(&mut row)?)?;
        let payload = row.take_rest().to_vec();
        row.end(Self {
            tube,
            tube_name,
            timing,
            offset,
            missed,
            overlap,
            created,
            codec,
            version,
            child,
            payload,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> ScheduleRow {
        ScheduleRow {
            tube: 7,
            tube_name: "t".into(),
            timing: Timing::Every(60),
            offset: 5,
            missed: Missed::CatchUp(3),
            overlap: Overlap::Skip,
            created: 9,
            codec: 2,
            version: 1,
            child: ChildTerms::default(),
            payload: b"p".to_vec(),
        }
    }

    /// The exact bytes, which are on the disks of users.
    #[test]
    fn golden_schedules() {
        let head = b"\0\0\0\x07\x01t\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0\x05";
        let plain =
            [&head[..], b"\x01\0\0\0\0\0\0\0\x3c\x03\0\0\0\x03\x02\x02\0\x01\0\0p"].concat();
        assert_eq!(*row().encode(), *plain);
        assert_eq!(ScheduleRow::decode(&plain), Some(row()));
        let cron = Timing::Cron { text: "0 9".into(), zone: "UTC".into() };
        let child = ChildTerms {
            priority: Some(-1),
            ttl: Some(Duration::from_micros(2)),
            kind: Some("k".into()),
            retry: RetryTerms { max_attempts: Some(4), backoff: Some(Backoff::NONE) },
            tags: vec!["a".into(), "b".into()],
            ..ChildTerms::default()
        };
        let full = ScheduleRow { timing: cron, child, missed: Missed::Skip, ..row() };
        let bytes = full.encode();
        let parts: [&[u8]; 11] = [
            head,
            b"\x02\x030 9\x03UTC\x01\0\0\0\0\x02\x02\0\x01",
            b"\0\x4e\0\x01\0\x08\xff\xff\xff\xff\xff\xff\xff\xff",
            b"\0\x03\0\x08\0\0\0\0\0\0\0\x02\0\x06\0\x01k",
            b"\0\x09\0\x04\0\0\0\x04\0\x0a\0\x1d",
            &[0; 8],
            &[0, 0, 0, 1],
            &[0; 16],
            &[0],
            b"\0\x0b\0\x04\x01a\x01b",
            b"p",
        ];
        assert_eq!(*bytes, *parts.concat());
        assert_eq!(ScheduleRow::decode(&bytes), Some(full));
        let many = ScheduleRow { missed: Missed::CatchUp(1001), ..row() };
        assert_eq!(ScheduleRow::decode(&many.encode()), None);
        let head = plain.len() - 1;
        assert!((0..head).all(|end| ScheduleRow::decode(&plain[..end]).is_none()));
    }
}
