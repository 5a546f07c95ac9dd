//! The rows of the states of a task, each of which ends with what became of the task since its
//! put.

use crate::format::key::{Deadline, Rank};
use crate::format::pack::{Packer, Unpacker, Value, bits, flags};
use crate::format::row::progress::{Homed, StoredHome, TaskProgress};
use crate::format::row::task::{pack_place, unpack_place};
use crate::words::clock::{NEVER, Now};
use crate::words::task::Reason;

/// What a row of a state that has no place in its key says of its task. To end the state of a
/// plain task, a caller need not read the task's own row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Away<'a> {
    /// Where the task goes back to; `None` is where its id says.
    pub(crate) place: Option<Rank>,
    /// Its group, if that is another one than its tube's kind gives.
    pub(crate) group: Option<&'a str>,
    pub(crate) keyed: bool,
    /// Whether its own row has fields of later versions.
    pub(crate) extended: bool,
    /// Whether its payload stands apart.
    pub(crate) apart: bool,
    /// Of the payload.
    pub(crate) bytes: u32,
}

impl<'a> Away<'a> {
    /// The flags of a row, the lowest two from the state itself.
    pub(super) fn flags(&self, [first, second]: [bool; 2]) -> u8 {
        let is_placed = self.place.is_some_and(|place| place.order.is_placed());
        let (away, extended) = (self.place.is_some(), self.extended);
        let grouped = self.group.is_some();
        flags([first, second, grouped, self.keyed, self.apart, away, is_placed, extended])
    }

    pub(super) fn pack(&self, row: &mut Packer) {
        if let Some(place) = &self.place {
            pack_place(row, place);
        }
        if let Some(group) = self.group {
            row.short(group);
        }
    }

    #[inline(always)]
    pub(super) fn unpack(flags: u8, bytes: u32, row: &mut Unpacker<'a>) -> Option<Self> {
        let [first, second, grouped, keyed, apart, away, is_placed, extended] = bits(flags);
        let place = if away { Some(unpack_place(row, is_placed)?) } else { None };
        let group = if grouped { Some(row.short()?) } else { None };
        let away = Self { place, group, keyed, extended, apart, bytes };
        (away.flags([first, second]) == flags).then_some(away)
    }
}

/// A taken task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TakenRow {
    pub(crate) progress: TaskProgress,
    pub(crate) token: u64,
    /// The named consumer, or 0.
    pub(crate) holder: u32,
    /// Lease time of the hand-out. Means nothing after a reopening.
    pub(crate) since: u64,
    /// Lease time at which it ends: of a stalled one the end of its grace. Means nothing after a
    /// reopening.
    pub(crate) deadline: u64,
}

impl TakenRow {
    /// How long the lease was held, in lease time; [`NEVER`] if that is not known.
    pub(crate) fn held_for(&self, now: Now) -> u64 {
        now.lease.checked_sub(self.since).unwrap_or(NEVER)
    }

    pub(crate) fn encode(&self, away: &Away<'_>, home: &StoredHome) -> Value {
        let mut row = Packer::new();
        let mut fixed = [0; 21];
        fixed[0] = away.flags([self.holder != 0, self.deadline != NEVER]);
        fixed[1..9].copy_from_slice(&self.token.to_be_bytes());
        fixed[9..17].copy_from_slice(&self.since.to_be_bytes());
        fixed[17..].copy_from_slice(&away.bytes.to_be_bytes());
        row.bytes(&fixed);
        if self.holder != 0 {
            row.u32(self.holder);
        }
        if self.deadline != NEVER {
            row.u64(self.deadline);
        }
        away.pack(&mut row);
        self.progress.end_row(row, home)
    }

    /// Whether its ttr has passed and its grace has not.
    #[inline]
    pub(crate) fn is_stalled(&self) -> bool {
        self.progress.lapsed() != NEVER
    }

    #[inline(always)]
    pub(crate) fn decode(row: &[u8]) -> Option<(Away<'_>, Homed<Self>)> {
        let mut rest = Unpacker::new(row);
        let mut fixed = rest.part(21)?;
        let flags = fixed.u8()?;
        let (token, since, bytes) = (fixed.u64()?, fixed.u64()?, fixed.u32()?);
        let holder = if flags & 1 != 0 { rest.u32().filter(|holder| *holder != 0)? } else { 0 };
        let deadline = if flags & 2 != 0 { rest.u64().filter(|it| *it != NEVER)? } else { NEVER };
        let away = Away::unpack(flags, bytes, &mut rest)?;
        let (progress, home) = TaskProgress::decode(rest.rest())?;
        Some((away, (Self { progress, token, holder, since, deadline }, home)))
    }
}

/// A task that waits for its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DelayedRow {
    pub(crate) progress: TaskProgress,
    /// Queue or wall time at which it is ready.
    pub(crate) due: u64,
    pub(crate) wall: bool,
    /// Its group stays locked until then.
    pub(crate) holds_group: bool,
}

impl DelayedRow {
    pub(crate) fn deadline(&self) -> Deadline {
        if self.wall { Deadline::RunAt } else { Deadline::Delay }
    }

    pub(crate) fn encode(&self, away: &Away<'_>, home: &StoredHome) -> Value {
        let mut row = Packer::new();
        row.u8(away.flags([self.wall, self.holds_group]));
        row.u64(self.due).u32(away.bytes);
        away.pack(&mut row);
        self.progress.end_row(row, home)
    }

    pub(crate) fn decode(row: &[u8]) -> Option<(Away<'_>, Homed<Self>)> {
        let mut rest = Unpacker::new(row);
        let (flags, due, bytes) = (rest.u8()?, rest.u64()?, rest.u32()?);
        let away = Away::unpack(flags, bytes, &mut rest)?;
        let (progress, home) = TaskProgress::decode(rest.rest())?;
        let [wall, holds_group, ..] = bits(flags);
        Some((away, (Self { progress, due, wall, holds_group }, home)))
    }
}

/// A task that waits for others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BlockedRow {
    pub(crate) progress: TaskProgress,
    /// Queue time since when it waits. Its ttl does not run until it waits no more.
    pub(crate) since: u64,
    /// Queue or wall time before which it is not ready; [`NEVER`] without an end, 0 is none.
    pub(crate) due: u64,
    pub(crate) wall: bool,
}

impl BlockedRow {
    pub(crate) fn encode(&self, away: &Away<'_>, home: &StoredHome) -> Value {
        let mut row = Packer::new();
        row.u8(away.flags([self.wall, self.due != 0]));
        row.u64(self.since).u32(away.bytes);
        if self.due != 0 {
            row.u64(self.due);
        }
        away.pack(&mut row);
        self.progress.end_row(row, home)
    }

    pub(crate) fn decode(row: &[u8]) -> Option<(Away<'_>, Homed<Self>)> {
        let mut rest = Unpacker::new(row);
        let (flags, since, bytes) = (rest.u8()?, rest.u64()?, rest.u32()?);
        let [wall, timed, ..] = bits(flags);
        let due = if timed { rest.u64().filter(|due| *due != 0)? } else { 0 };
        if wall && !timed {
            return None;
        }
        let away = Away::unpack(flags, bytes, &mut rest)?;
        let (progress, home) = TaskProgress::decode(rest.rest())?;
        Some((away, (Self { progress, since, due, wall }, home)))
    }
}

/// A task that was set aside, or put into the trash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BuriedRow {
    pub(crate) progress: TaskProgress,
    /// Queue time of the bury.
    pub(crate) time: u64,
    pub(crate) reason: Reason,
}

impl BuriedRow {
    /// The failure group that it stands in, if it stands in one.
    pub(crate) fn failure_group(&self) -> Option<&str> {
        self.reason.failure_group()
    }

    /// Whether it came to its failure group by a version that counts the tasks of groups: each
    /// such version notes the failure, or writes the group of an exhausted task.
    pub(crate) fn is_of_counted_group(&self) -> bool {
        matches!(self.reason, Reason::Exhausted { .. }) || self.progress.failure().is_some()
    }

    pub(crate) fn encode(&self, home: &StoredHome) -> Value {
        let mut row = Packer::new();
        row.u64(self.time);
        match &self.reason {
            Reason::Buried(text) => row.u8(1).text(text),
            Reason::Failed { group, message } => row.u8(2).text(group).text(message),
            Reason::Exhausted { group, message } if group.is_empty() => row.u8(3).text(message),
            Reason::Undecodable(text) => row.u8(4).text(text),
            Reason::Exhausted { group, message } => row.u8(5).text(group).text(message),
            Reason::Trashed(text) => row.u8(6).text(text),
        };
        self.progress.end_row(row, home)
    }

    pub(crate) fn decode(row: &[u8]) -> Option<Homed<Self>> {
        let mut rest = Unpacker::new(row);
        let (time, kind) = (rest.u64()?, rest.u8()?);
        let text = rest.text()?.to_owned();
        let reason = match kind {
            1 => Reason::Buried(text),
            2 => Reason::Failed { group: text, message: rest.text()?.to_owned() },
            3 => Reason::Exhausted { group: String::new(), message: text },
            4 => Reason::Undecodable(text),
            5 if !text.is_empty() => {
                Reason::Exhausted { group: text, message: rest.text()?.to_owned() }
            }
            6 => Reason::Trashed(text),
            _ => return None,
        };
        let (progress, home) = TaskProgress::decode(rest.rest())?;
        Some((Self { progress, time, reason }, home))
    }
}
