//! What became of a task since its put, and its home. It is at the end of the row of each state.

use crate::format::extension::Extension;
use crate::format::key::{Home, Rank};
use crate::format::pack::{Packer, Unpacker, Value, bits, flags};
use crate::format::row::history::StoredHistory;
use crate::format::row::report::StoredReports;
use crate::format::row::task::{pack_place, unpack_place};
use crate::words::backoff::{Backoff, RetryTerms};
use crate::words::clock::{NEVER, micros};
use crate::words::task_gates::is_sound;
use std::time::Duration;

mod edges;
mod lease;
mod life;

pub(crate) use edges::EdgeCounts;
pub(crate) use lease::Slots;

/// What became of a task since its put, at the end of the row of its state. Of a task that was only
/// put it is no byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TaskProgress {
    pub(crate) deliveries: u32,
    pub(crate) attempts: u32,
    pub(crate) releases: u32,
    pub(crate) buries: u32,
    /// Queue time at which its life ends: put + ttl + every delay that was asked for.
    pub(crate) expires: u64,
    /// Microseconds that a taker may hold it.
    pub(crate) ttr: u64,
    pub(crate) last_error: String,
    pub(crate) extension: Extension,
}

/// What the row of a state says of the task's home.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StoredHome {
    /// Its rank, if that is not the one that the task has now.
    pub(crate) rank: Option<Rank>,
    pub(crate) is_fresh: bool,
}

impl StoredHome {
    pub(crate) fn new(home: &Home, place: &Rank) -> Self {
        Self { rank: Some(home.rank).filter(|rank| rank != place), is_fresh: home.is_fresh }
    }

    /// The home of a task that has this rank now.
    pub(crate) fn at(self, place: Rank) -> Home {
        Home { rank: self.rank.unwrap_or(place), is_fresh: self.is_fresh }
    }
}

/// A state, and the task's home.
pub(crate) type Homed<T> = (T, StoredHome);

/// Number of the extension field with the retry terms of a task. Absent if it has none.
const RETRY_FIELD: u16 = 1;

/// The content of that field: `flags: u8`, then what they name of `max_attempts: u32` and
/// `first: u64 · factor: u32 · step: u64 · most: u64 · jitter: u8`.
fn retry_field(terms: &RetryTerms) -> Value {
    let mut field = Packer::new();
    field.u8(flags([terms.max_attempts.is_some(), terms.backoff.is_some()]));
    terms.max_attempts.map(|attempts| field.u32(attempts));
    if let Some(backoff) = &terms.backoff {
        field.u64(micros(backoff.first)).u32(backoff.factor).u64(micros(backoff.step));
        field.u64(micros(backoff.most)).u8(backoff.jitter);
    }
    field.done()
}

fn read_retry_field(field: &[u8]) -> Option<RetryTerms> {
    let mut rest = Unpacker::new(field);
    let [limited, spaced, ..] = bits(rest.u8().filter(|flags| (1..4).contains(flags))?);
    let max_attempts = if limited { Some(rest.u32()?) } else { None };
    let backoff = if spaced {
        Some(Backoff {
            first: length(rest.u64()?),
            factor: rest.u32()?,
            step: length(rest.u64()?),
            most: length(rest.u64()?),
            jitter: rest.u8().filter(|percent| *percent <= 100)?,
        })
    } else {
        None
    };
    rest.end(RetryTerms { max_attempts, backoff })
}

/// Number of the extension field with what `last_error` does not say of the last failure. Absent
/// without a failure, and in rows of versions that did not store it.
const FAILURE_FIELD: u16 = 2;

/// Of the last failure of a task, besides its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FailureRow<'a> {
    /// Queue time.
    pub(crate) when: u64,
    /// The named consumer that held the task; empty is none.
    pub(crate) by: &'a str,
    /// The failure group; empty is none.
    pub(crate) group: &'a str,
}

impl<'a> FailureRow<'a> {
    /// The content of the field: `when: u64 · by: short · group: the rest`.
    fn encode(&self) -> Value {
        let mut field = Packer::new();
        field.u64(self.when).short(self.by).bytes(self.group.as_bytes());
        field.done()
    }

    fn decode(field: &'a [u8]) -> Option<Self> {
        let mut rest = Unpacker::new(field);
        let (when, by) = (rest.u64()?, rest.short()?);
        Some(Self { when, by, group: std::str::from_utf8(rest.rest()).ok()? })
    }
}

/// Number of the extension field with a task's own rank, while it stands ahead of every priority: a
/// place, of which the length of the field gives that of the order.
const OWN_RANK_FIELD: u16 = 4;

fn read_own_rank(field: &[u8]) -> Option<Rank> {
    let mut rest = Unpacker::new(field);
    let rank = unpack_place(&mut rest, field.len() == 24)?;
    rest.end(rank)
}

/// Number of the extension field with which entries the history of the task has. Absent if it never
/// had one.
const HISTORY_FIELD: u16 = 5;

/// Number of the extension field with what was reported of the work. Absent if there is nothing.
const REPORTS_FIELD: u16 = 6;

/// Number of the extension field with the queue time until which its tube keeps a task that has
/// ended. Absent without an end.
const KEPT_FIELD: u16 = 8;

/// Number of the extension field of a task that has tags. It has no content.
const TAGS_FIELD: u16 = 9;

/// Number of the extension field of a ready task with the queue time since when it is ready, in a
/// tube that keeps statistics. Absent where that is not known, and in every other state; a fresh
/// task is ready since its put.
const READY_FIELD: u16 = 12;

/// Number of the extension field of a task of a group with the gates of its own, as the name of a
/// line. Absent without any, and of a task of no group, whose line has that name.
const GATES_FIELD: u16 = 14;

fn read_gates(field: &[u8]) -> Option<&str> {
    str::from_utf8(field).ok().filter(|gates| is_sound(gates))
}

/// A time that ends.
fn read_time(field: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(field.try_into().ok()?)).filter(|until| *until != NEVER)
}

fn length(micros: u64) -> Duration {
    if micros == NEVER { Duration::MAX } else { Duration::from_micros(micros) }
}

impl TaskProgress {
    /// The progress of a task that has only been put.
    pub(crate) const fn fresh(expires: u64, ttr: u64) -> Self {
        Self {
            deliveries: 0,
            attempts: 0,
            releases: 0,
            buries: 0,
            expires,
            ttr,
            last_error: String::new(),
            extension: Extension::EMPTY,
        }
    }

    /// The row of a ready task.
    pub(crate) fn encode(&self, home: &StoredHome) -> Value {
        match self.flags(home) {
            0 => Value::EMPTY,
            _ => self.end_row(Packer::new(), home),
        }
    }

    /// Ends the row of a state.
    pub(super) fn end_row(&self, mut row: Packer, home: &StoredHome) -> Value {
        let flags = self.flags(home);
        if flags == 0 {
            return row.done();
        }
        row.u8(flags);
        if self.counts() != [0; 4] {
            row.u32s(self.counts());
        }
        for time in [self.expires, self.ttr] {
            if time != NEVER {
                row.u64(time);
            }
        }
        if !self.last_error.is_empty() {
            row.text(&self.last_error);
        }
        if let Some(rank) = &home.rank {
            pack_place(&mut row, rank);
        }
        self.extension.end_row(row)
    }

    /// Reads a row of a ready task, or all that is left of one of another state.
    #[inline]
    pub(crate) fn decode(row: &[u8]) -> Option<Homed<Self>> {
        if row.is_empty() {
            return Some((Self::fresh(NEVER, NEVER), StoredHome::default()));
        }
        Self::decode_fields(Unpacker::new(row))
    }

    fn decode_fields(mut row: Unpacker<'_>) -> Option<Homed<Self>> {
        let mut progress = Self::fresh(NEVER, NEVER);
        let flags = row.u8().filter(|flags| *flags != 0)?;
        let [counted, expires, ttr, failed, moved, is_placed, _, is_fresh] = bits(flags);
        if counted {
            let mut counts = row.part(16)?;
            (progress.deliveries, progress.attempts) = (counts.u32()?, counts.u32()?);
            (progress.releases, progress.buries) = (counts.u32()?, counts.u32()?);
        }
        if expires {
            progress.expires = row.u64()?;
        }
        if ttr {
            progress.ttr = row.u64()?;
        }
        if failed {
            progress.last_error = row.text()?.to_owned();
        }
        let rank = if moved { Some(unpack_place(&mut row, is_placed)?) } else { None };
        let home = StoredHome { rank, is_fresh };
        progress.extension = Extension::of_rest(row)?;
        if !progress.extension.is_empty() && !progress.has_sound_fields() {
            return None;
        }
        // A field that says what an absent one says was not written by this code.
        (progress.flags(&home) == flags).then_some((progress, home))
    }

    /// How often it is tried, and after which waits, where that is not as in its tube.
    pub(crate) fn retry_terms(&self) -> RetryTerms {
        self.extension.get(RETRY_FIELD).and_then(read_retry_field).unwrap_or_default()
    }

    /// Returns `false` and changes nothing if fields of later versions leave no room.
    #[must_use]
    pub(crate) fn set_retry_terms(&mut self, terms: &RetryTerms) -> bool {
        if *terms == RetryTerms::default() {
            self.extension.remove(RETRY_FIELD);
            return true;
        }
        self.extension.set(RETRY_FIELD, &retry_field(terms))
    }

    /// Whether the fields that this version knows can be decoded.
    #[cold]
    fn has_sound_fields(&self) -> bool {
        let field = |number| self.extension.get(number);
        field(RETRY_FIELD).is_none_or(|field| read_retry_field(field).is_some())
            && field(FAILURE_FIELD).is_none_or(|field| FailureRow::decode(field).is_some())
            && field(OWN_RANK_FIELD).is_none_or(|field| read_own_rank(field).is_some())
            && self.has_sound_lease()
            && self.has_sound_life()
            && field(HISTORY_FIELD).is_none_or(|field| StoredHistory::decode(field).is_some())
            && field(REPORTS_FIELD).is_none_or(|field| StoredReports::decode(field).is_some())
            && field(KEPT_FIELD).is_none_or(|field| read_time(field).is_some())
            && field(READY_FIELD).is_none_or(|field| read_time(field).is_some())
            && field(TAGS_FIELD).is_none_or(<[u8]>::is_empty)
            && field(GATES_FIELD).is_none_or(|field| read_gates(field).is_some())
            && self.has_sound_edges()
    }

    /// Queue time until which its tube keeps it after its end; [`NEVER`] without one.
    pub(crate) fn kept_until(&self) -> u64 {
        self.extension.get(KEPT_FIELD).and_then(read_time).unwrap_or(NEVER)
    }

    /// Sets it. If fields of later versions leave no room, the task is kept without an end.
    pub(crate) fn set_kept_until(&mut self, until: u64) {
        self.extension.remove(KEPT_FIELD);
        if until != NEVER {
            let _is_set = self.extension.set(KEPT_FIELD, &until.to_be_bytes());
        }
    }

    /// Queue time since when it is ready, if the row says so.
    pub(crate) fn ready_since(&self) -> Option<u64> {
        self.extension.get(READY_FIELD).and_then(read_time)
    }

    /// Sets it. If fields of later versions leave no room, it is not known.
    pub(crate) fn set_ready_since(&mut self, since: Option<u64>) {
        self.extension.remove(READY_FIELD);
        if let Some(since) = since {
            let _is_set = self.extension.set(READY_FIELD, &since.to_be_bytes());
        }
    }

    /// The gates of its own, if it is of a group.
    #[cold]
    pub(crate) fn gates(&self) -> Option<&str> {
        self.extension.get(GATES_FIELD).and_then(read_gates)
    }

    /// Returns `false` and changes nothing if fields of later versions leave no room.
    #[must_use]
    pub(crate) fn set_gates(&mut self, gates: Option<&str>) -> bool {
        match gates {
            Some(gates) => self.extension.set(GATES_FIELD, gates.as_bytes()),
            None => {
                self.extension.remove(GATES_FIELD);
                true
            }
        }
    }

    /// The gates of its own in the row of a ready task of a group. Reads nothing else: a take asks
    /// it before it reads the task.
    pub(crate) fn gates_in(row: &[u8]) -> Option<&str> {
        let mut rest = Unpacker::new(row);
        let [counted, expires, ttr, failed, moved, is_placed, extended, _] = bits(rest.u8()?);
        if !extended {
            return None;
        }
        let times = usize::from(expires) + usize::from(ttr);
        rest.part(if counted { 16 } else { 0 } + 8 * times)?;
        if failed {
            rest.text()?;
        }
        if moved {
            unpack_place(&mut rest, is_placed)?;
        }
        Extension::find(rest, GATES_FIELD).and_then(read_gates)
    }

    /// What is stored of its last failure besides the message.
    pub(crate) fn failure(&self) -> Option<FailureRow<'_>> {
        self.extension.get(FAILURE_FIELD).and_then(FailureRow::decode)
    }

    /// Notes a failure. If fields of later versions leave no room, only its message is kept.
    pub(crate) fn fail(&mut self, message: &str, more: &FailureRow<'_>) {
        message.clone_into(&mut self.last_error);
        if !self.extension.set(FAILURE_FIELD, &more.encode()) {
            self.extension.remove(FAILURE_FIELD);
        }
    }

    /// Which entries its history has; `None` if it never had one.
    pub(crate) fn history(&self) -> Option<StoredHistory> {
        self.extension.get(HISTORY_FIELD).and_then(StoredHistory::decode)
    }

    /// Returns `false` and changes nothing if fields of later versions leave no room.
    #[must_use]
    pub(crate) fn set_history(&mut self, history: StoredHistory) -> bool {
        self.extension.set(HISTORY_FIELD, &history.encode())
    }

    /// Which rows there are of what was reported of the work.
    pub(crate) fn reports(&self) -> StoredReports {
        self.extension.get(REPORTS_FIELD).and_then(StoredReports::decode).unwrap_or_default()
    }

    /// Returns `false` and changes nothing if fields of later versions leave no room.
    #[must_use]
    pub(crate) fn set_reports(&mut self, reports: StoredReports) -> bool {
        if reports.is_empty() {
            self.extension.remove(REPORTS_FIELD);
            return true;
        }
        self.extension.set(REPORTS_FIELD, &reports.encode())
    }

    /// Whether it has tags.
    pub(crate) fn is_tagged(&self) -> bool {
        self.extension.get(TAGS_FIELD).is_some()
    }

    /// Returns `false` and changes nothing if fields of later versions leave no room.
    #[must_use]
    pub(crate) fn set_tagged(&mut self, is_tagged: bool) -> bool {
        if !is_tagged {
            self.extension.remove(TAGS_FIELD);
            return true;
        }
        self.extension.set(TAGS_FIELD, &[])
    }

    /// Its own rank, while it stands ahead of every priority.
    pub(crate) fn own_rank(&self) -> Option<Rank> {
        self.extension.get(OWN_RANK_FIELD).and_then(read_own_rank)
    }

    /// The same, which it then has no more.
    #[cold]
    pub(crate) fn take_own_rank(&mut self) -> Option<Rank> {
        self.extension.take(OWN_RANK_FIELD).and_then(|field| read_own_rank(&field))
    }

    /// Returns `false` and changes nothing if fields of later versions leave no room.
    #[must_use]
    pub(crate) fn set_own_rank(&mut self, rank: &Rank) -> bool {
        let mut field = Packer::new();
        pack_place(&mut field, rank);
        self.extension.set(OWN_RANK_FIELD, &field.done())
    }

    /// Forgets its last failure.
    pub(crate) fn clear_failure(&mut self) {
        self.last_error.clear();
        self.extension.remove(FAILURE_FIELD);
    }

    fn counts(&self) -> [u32; 4] {
        [self.deliveries, self.attempts, self.releases, self.buries]
    }

    /// Which fields are written. What is as in most tasks is not.
    fn flags(&self, home: &StoredHome) -> u8 {
        flags([
            self.counts() != [0; 4],
            self.expires != NEVER,
            self.ttr != NEVER,
            !self.last_error.is_empty(),
            home.rank.is_some(),
            home.rank.is_some_and(|rank| rank.order.is_placed()),
            !self.extension.is_empty(),
            home.is_fresh,
        ])
    }
}
