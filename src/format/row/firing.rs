//! How far a schedule has come: a small row that every fire writes. A copy of it stands at the next
//! fire.

use crate::format::extension::Extension;
use crate::format::pack::{Packer, Unpacker, Value};
use crate::words::clock::NEVER;

/// The numbers of the fields of the row.
const GAP: u16 = 1;
const LAST_TUBE: u16 = 2;
const IS_REFUSED: u16 = 3;
const IS_FRESH: u16 = 4;
const AHEAD: u16 = 5;

/// How far a schedule has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FiringRow {
    /// The nominal time of the next fire, [`NEVER`] if it never fires again, by its clock.
    pub(crate) next: u64,
    pub(crate) is_paused: bool,
    /// How many children it has made: the number in the key of the last one.
    pub(crate) children: u64,
    /// How many fires have made none.
    pub(crate) missed: u64,
    /// The id of the last child, 0 without one, and its nominal time.
    pub(crate) last: u64,
    pub(crate) last_nominal: u64,
    /// Of a cron text, while more than one fire is due.
    pub(crate) gap: Option<Gap>,
    /// The tube of the last child, if the schedule has had another one since.
    pub(crate) last_tube: Option<u32>,
    /// Whether a build has met its cron text that could not read it. Its next fire stands.
    pub(crate) is_refused: bool,
    /// Whether it has not fired since its timing began.
    pub(crate) is_fresh: bool,
    /// Of a cron text whose next fire was looked for again as the wall clock was far behind it: the
    /// one that it had. Which of the two clocks was wrong is known later.
    pub(crate) ahead: Option<u64>,
    /// Fields of later versions.
    pub(crate) extension: Extension,
}

/// How far the fires that are due of a schedule were looked at: those from `to` to `until` are
/// made, those before are missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    /// A nominal time, which is moved back until enough are found.
    pub(crate) to: u64,
    /// The last nominal time that was due when it was begun; 0 if none is made.
    pub(crate) until: u64,
    /// How many from `to` to `until` were found.
    pub(crate) found: u32,
    /// How many of those that are missed were counted.
    pub(crate) counted: u32,
}

impl Gap {
    /// Before this last fire that is due.
    pub(crate) fn before(until: u64) -> Self {
        Self { to: until, until, found: 1, counted: 0 }
    }

    /// All are missed before this one.
    pub(crate) fn passed(to: u64) -> Self {
        Self { to, until: 0, found: u32::MAX, counted: 0 }
    }

    fn decode(field: &[u8]) -> Option<Self> {
        let mut field = Unpacker::new(field);
        let (to, until) = (field.u64()?, field.u64()?);
        let (found, counted) = (field.u32()?, field.u32()?);
        field.end(Self { to, until, found, counted })
    }
}

impl FiringRow {
    /// Of a schedule that has not fired yet.
    pub(crate) fn first(next: u64) -> Self {
        Self {
            next,
            is_paused: false,
            children: 0,
            missed: 0,
            last: 0,
            last_nominal: 0,
            gap: None,
            last_tube: None,
            is_refused: false,
            is_fresh: true,
            ahead: None,
            extension: Extension::EMPTY,
        }
    }

    /// When it fires next; [`NEVER`] while it is paused or stands still.
    pub(crate) fn due(&self) -> u64 {
        if self.is_paused || self.is_refused { NEVER } else { self.next }
    }

    /// Counts fires that make no child.
    pub(crate) fn miss(&mut self, fires: u64) {
        self.missed = self.missed.saturating_add(fires);
        self.is_fresh &= fires == 0;
    }

    pub(crate) fn encode(&self) -> Value {
        let mut row = Packer::new();
        row.u64(self.next).u8(u8::from(self.is_paused)).u64(self.children).u64(self.missed);
        row.u64(self.last).u64(self.last_nominal);
        let mut fields = self.extension.clone();
        let mut set = |number: u16, bytes: &[u8]| _ = fields.set(number, bytes);
        if let Some(gap) = &self.gap {
            let mut field = Packer::new();
            field.u64(gap.to).u64(gap.until).u32(gap.found).u32(gap.counted);
            set(GAP, &field.done());
        }
        if let Some(tube) = self.last_tube {
            set(LAST_TUBE, &tube.to_be_bytes());
        }
        if let Some(ahead) = self.ahead {
            set(AHEAD, &ahead.to_be_bytes());
        }
        let flags = [(IS_REFUSED, self.is_refused), (IS_FRESH, self.is_fresh)];
        flags.into_iter().filter(|flag| flag.1).for_each(|(number, _)| set(number, &[]));
        fields.end_row(row)
    }

    pub(crate) fn decode(row: &[u8]) -> Option<Self> {
        let mut row = Unpacker::new(row);
        let (next, is_paused) = (row.u64()?, row.u8().filter(|yes| *yes < 2)? == 1);
        let (children, missed) = (row.u64()?, row.u64()?);
        let (last, last_nominal) = (row.u64()?, row.u64()?);
        let mut extension = Extension::of_rest(row)?;
        let gap = match extension.take(GAP) {
            Some(field) => Some(Gap::decode(&field)?),
            None => None,
        };
        let last_tube = match extension.take(LAST_TUBE) {
            Some(field) => Some(u32::from_be_bytes(field.try_into().ok()?)),
            None => None,
        };
        let ahead = match extension.take(AHEAD) {
            Some(field) => Some(u64::from_be_bytes(field.try_into().ok()?)),
            None => None,
        };
        let mut flag = |number: u16| -> Option<bool> {
            let field = extension.take(number);
            field.as_ref().is_none_or(Vec::is_empty).then_some(field.is_some())
        };
        let (is_refused, is_fresh) = (flag(IS_REFUSED)?, flag(IS_FRESH)?);
        Some(Self {
            next,
            is_paused,
            children,
            missed,
            last,
            last_nominal,
            gap,
            last_tube,
            is_refused,
            is_fresh,
            ahead,
            extension,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The exact bytes, which are on the disks of users.
    #[test]
    fn golden_firing() {
        let row = FiringRow {
            next: 1,
            is_paused: true,
            children: 2,
            missed: 3,
            last: 4,
            last_nominal: 5,
            is_fresh: false,
            ..FiringRow::first(0)
        };
        let bytes = b"\0\0\0\0\0\0\0\x01\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x03\
            \0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0\x05";
        assert_eq!(*row.encode(), bytes[..]);
        assert_eq!(FiringRow::decode(bytes), Some(row.clone()));
        assert_eq!((row.due(), FiringRow::first(8).due()), (NEVER, 8));
        assert!((0..bytes.len()).all(|end| FiringRow::decode(&bytes[..end]).is_none()));
        let fields = b"\0\x38\0\x01\0\x18\0\0\0\0\0\0\0\x06\0\0\0\0\0\0\0\x07\0\0\0\x02\0\0\0\x01\
            \0\x02\0\x04\0\0\0\x09\0\x03\0\0\0\x04\0\0\
            \0\x05\0\x08\0\0\0\0\0\0\0\x09";
        let gap = Some(Gap { to: 6, until: 7, found: 2, counted: 1 });
        let ahead = Some(9);
        let full = FiringRow {
            gap,
            last_tube: Some(9),
            is_refused: true,
            is_fresh: true,
            ahead,
            ..row.clone()
        };
        let long = [&bytes[..], fields].concat();
        assert_eq!(*full.encode(), *long);
        assert_eq!(FiringRow::decode(&long), Some(full.clone()));
        assert_eq!(FiringRow { is_paused: false, ..full }.due(), NEVER);
        let wrong = [&bytes[..], b"\0\x05\0\x03\0\x01\0"].concat();
        assert_eq!(FiringRow::decode(&wrong), None);
    }
}
