//! The rows of the four states of a task, each of which ends with what became of the task since its
//! put.

use crate::format::extension::Extension;
use crate::format::key::{Deadline, Rank};
use crate::format::pack::{Packer, Unpacker};
use crate::format::row::task::{pack_place, unpack_place};
use crate::format::row::{pack_extension, unpack_extension};
use crate::format::value::Value;
use crate::words::clock::NEVER;
use crate::words::task::Reason;

/// What a row of a state that has no place in its key says of its task. To end the state of a
/// plain task, a caller need not read the task's own row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Away {
    /// Where the task goes back to; `None` is where its id says.
    pub(crate) place: Option<Rank>,
    /// Whether its own row names another group than its tube's kind does.
    pub(crate) grouped: bool,
    pub(crate) keyed: bool,
    /// Whether its own row has fields of later versions.
    pub(crate) extended: bool,
    /// Whether its payload stands apart.
    pub(crate) apart: bool,
    /// Of the payload.
    pub(crate) bytes: u32,
}

impl Away {
    /// Above the two flags of the state itself.
    fn flags(&self) -> u8 {
        u8::from(self.grouped) << 2
            | u8::from(self.keyed) << 3
            | u8::from(self.apart) << 4
            | u8::from(self.place.is_some()) << 5
            | u8::from(self.place.is_some_and(|place| place.order.is_placed())) << 6
            | u8::from(self.extended) << 7
    }

    fn pack(&self, row: &mut Packer) {
        if let Some(place) = &self.place {
            pack_place(row, place);
        }
    }

    fn unpack(flags: u8, bytes: u32, row: &mut Unpacker<'_>) -> Option<Self> {
        let is = |bit: u8| flags & 1 << bit != 0;
        let place = if is(5) { Some(unpack_place(row, is(6))?) } else { None };
        let (grouped, keyed, apart, extended) = (is(2), is(3), is(4), is(7));
        let away = Self { place, grouped, keyed, extended, apart, bytes };
        (away.flags() == flags & !3).then_some(away)
    }
}

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

/// A state, and the task's home where that is not the place it stands at or goes back to.
pub(crate) type Homed<T> = (T, Option<Rank>);

impl TaskProgress {
    /// The head of a task that has only been put.
    pub(crate) fn fresh(expires: u64, ttr: u64) -> Self {
        let (last_error, extension) = (String::new(), Extension::default());
        let (deliveries, attempts, releases, buries) = (0, 0, 0, 0);
        Self { deliveries, attempts, releases, buries, expires, ttr, last_error, extension }
    }

    /// The row of a ready task.
    pub(crate) fn encode(&self, home: Option<&Rank>) -> Value {
        if self.flags(home) == 0 {
            return Value::from([]);
        }
        let mut row = Packer::new();
        self.pack(&mut row, home);
        row.done()
    }

    #[inline]
    pub(crate) fn decode(row: &[u8]) -> Option<Homed<Self>> {
        Self::unpack(Unpacker::new(row))
    }

    fn pack(&self, row: &mut Packer, home: Option<&Rank>) {
        let flags = self.flags(home);
        if flags == 0 {
            return;
        }
        row.u8(flags);
        if flags & 1 != 0 {
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
        if let Some(home) = home {
            pack_place(row, home);
        }
        pack_extension(row, &self.extension);
    }

    /// Reads all that is left of a row.
    #[inline]
    fn unpack(row: Unpacker<'_>) -> Option<Homed<Self>> {
        if row.rest().is_empty() {
            return Some((Self::fresh(NEVER, NEVER), None));
        }
        Self::unpack_fields(row)
    }

    fn unpack_fields(mut row: Unpacker<'_>) -> Option<Homed<Self>> {
        let mut head = Self::fresh(NEVER, NEVER);
        let flags = row.u8().filter(|flags| (1..128).contains(flags))?;
        // A field that says what an absent one says was not written by this code.
        if flags & 1 != 0 {
            let mut counts = row.part::<16>()?;
            (head.deliveries, head.attempts) = (counts.u32()?, counts.u32()?);
            (head.releases, head.buries) = (counts.u32()?, counts.u32()?);
            Some(head.counts()).filter(|counts| *counts != [0; 4])?;
        }
        if flags & 2 != 0 {
            head.expires = row.u64().filter(|time| *time != NEVER)?;
        }
        if flags & 4 != 0 {
            head.ttr = row.u64().filter(|time| *time != NEVER)?;
        }
        if flags & 8 != 0 {
            head.last_error = row.text().filter(|text| !text.is_empty())?.to_owned();
        }
        let home = match flags & 48 {
            0 => None,
            16 => Some(unpack_place(&mut row, false)?),
            48 => Some(unpack_place(&mut row, true)?),
            _ => return None,
        };
        if flags & 64 != 0 {
            head.extension = unpack_extension(&mut row).filter(|fields| !fields.is_empty())?;
        }
        row.end((head, home))
    }

    fn counts(&self) -> [u32; 4] {
        [self.deliveries, self.attempts, self.releases, self.buries]
    }

    /// Which fields are written. What is as in most tasks is not.
    fn flags(&self, home: Option<&Rank>) -> u8 {
        u8::from(self.counts() != [0; 4])
            | u8::from(self.expires != NEVER) << 1
            | u8::from(self.ttr != NEVER) << 2
            | u8::from(!self.last_error.is_empty()) << 3
            | u8::from(home.is_some()) << 4
            | u8::from(home.is_some_and(|home| home.order.is_placed())) << 5
            | u8::from(!self.extension.is_empty()) << 6
    }
}

/// A taken task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TakenRow {
    pub(crate) head: TaskProgress,
    pub(crate) token: u64,
    /// The named consumer, or 0.
    pub(crate) holder: u32,
    /// Lease time of the hand-out. Means nothing after a reopening.
    pub(crate) since: u64,
    /// Lease time at which it ends. Means nothing after a reopening.
    pub(crate) deadline: u64,
}

impl TakenRow {
    pub(crate) fn encode(&self, away: &Away, home: Option<&Rank>) -> Value {
        let mut row = Packer::new();
        let mut fixed = [0; 21];
        fixed[0] =
            u8::from(self.holder != 0) | u8::from(self.deadline != NEVER) << 1 | away.flags();
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
        self.head.pack(&mut row, home);
        row.done()
    }

    #[inline(always)]
    pub(crate) fn decode(row: &[u8]) -> Option<(Away, Homed<Self>)> {
        let mut rest = Unpacker::new(row);
        let mut fixed = rest.part::<21>()?;
        let flags = fixed.u8()?;
        let (token, since, bytes) = (fixed.u64()?, fixed.u64()?, fixed.u32()?);
        let holder = if flags & 1 != 0 { rest.u32().filter(|holder| *holder != 0)? } else { 0 };
        let deadline = if flags & 2 != 0 { rest.u64().filter(|it| *it != NEVER)? } else { NEVER };
        let away = Away::unpack(flags, bytes, &mut rest)?;
        let (head, home) = TaskProgress::unpack(rest)?;
        Some((away, (Self { head, token, holder, since, deadline }, home)))
    }
}

/// A task that waits for its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DelayedRow {
    pub(crate) head: TaskProgress,
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

    pub(crate) fn encode(&self, away: &Away, home: Option<&Rank>) -> Value {
        let mut row = Packer::new();
        row.u8(u8::from(self.wall) | u8::from(self.holds_group) << 1 | away.flags());
        row.u64(self.due).u32(away.bytes);
        away.pack(&mut row);
        self.head.pack(&mut row, home);
        row.done()
    }

    pub(crate) fn decode(row: &[u8]) -> Option<(Away, Homed<Self>)> {
        let mut rest = Unpacker::new(row);
        let (flags, due, bytes) = (rest.u8()?, rest.u64()?, rest.u32()?);
        let away = Away::unpack(flags, bytes, &mut rest)?;
        let (head, home) = TaskProgress::unpack(rest)?;
        let (wall, holds_group) = (flags & 1 != 0, flags & 2 != 0);
        Some((away, (Self { head, due, wall, holds_group }, home)))
    }
}

/// A task that was set aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BuriedRow {
    pub(crate) head: TaskProgress,
    /// Queue time of the bury.
    pub(crate) time: u64,
    pub(crate) reason: Reason,
}

impl BuriedRow {
    /// The group of the failure, if it was one.
    pub(crate) fn failure_group(&self) -> Option<&str> {
        match &self.reason {
            Reason::Failed { group, .. } => Some(group),
            Reason::Buried(_) | Reason::Exhausted(_) | Reason::Undecodable(_) => None,
        }
    }

    pub(crate) fn encode(&self, home: Option<&Rank>) -> Value {
        let mut row = Packer::new();
        row.u64(self.time);
        match &self.reason {
            Reason::Buried(text) => row.u8(1).text(text),
            Reason::Failed { group, message } => row.u8(2).text(group).text(message),
            Reason::Exhausted(text) => row.u8(3).text(text),
            Reason::Undecodable(text) => row.u8(4).text(text),
        };
        self.head.pack(&mut row, home);
        row.done()
    }

    pub(crate) fn decode(row: &[u8]) -> Option<Homed<Self>> {
        let mut rest = Unpacker::new(row);
        let (time, kind) = (rest.u64()?, rest.u8()?);
        let text = rest.text()?.to_owned();
        let reason = match kind {
            1 => Reason::Buried(text),
            2 => Reason::Failed { group: text, message: rest.text()?.to_owned() },
            3 => Reason::Exhausted(text),
            4 => Reason::Undecodable(text),
            _ => return None,
        };
        let (head, home) = TaskProgress::unpack(rest)?;
        Some((Self { head, time, reason }, home))
    }
}
