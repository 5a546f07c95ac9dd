//! How long a task lives: the length of its ttl, beside the end of its life, to which delays add.

use super::TaskProgress;
use crate::format::pack::{Packer, Unpacker, Value};
use crate::words::clock::NEVER;

/// Number of the extension field with what the end of a life does not say of the length of the ttl.
/// Absent if the ttl is all that lies between its beginning and that end.
const LIFE_FIELD: u16 = 15;

/// What the field says, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    /// So much of the time up to the end are delays and waits. It may be less than none: a delay by
    /// the wall clock that is ended may be longer than it was.
    Waits(i64),
    /// The ttl has this length, and did not begin with the put or the last move.
    Whole(u64),
}

impl Life {
    /// The content of the field: `kind: u8 · length: u64`, or `i64`.
    fn encode(self) -> Value {
        let (kind, length) = match self {
            Self::Waits(length) => (1, length.cast_unsigned()),
            Self::Whole(length) => (2, length),
        };
        let mut field = Packer::new();
        field.u8(kind).u64(length);
        field.done()
    }

    fn decode(field: &[u8]) -> Option<Self> {
        let mut rest = Unpacker::new(field);
        let (kind, length) = (rest.u8()?, rest.u64().filter(|length| *length != 0)?);
        let life = match kind {
            1 => Self::Waits(length.cast_signed()),
            2 => Self::Whole(length),
            _ => return None,
        };
        rest.end(life)
    }
}

impl TaskProgress {
    /// Microseconds of its ttl, if that began at this queue time with the put or the last move;
    /// [`NEVER`] without one.
    pub(crate) fn life(&self, since: u64) -> u64 {
        let all = match self.expires {
            NEVER => return NEVER,
            expires => expires.saturating_sub(since),
        };
        match self.stored_life() {
            None => all,
            Some(Life::Waits(waits)) => all.saturating_sub_signed(waits),
            Some(Life::Whole(life)) => life,
        }
    }

    /// Its ttl of this length begins now, with a put or a move.
    pub(crate) fn begin_life(&mut self, now: u64, life: u64) {
        self.expires = now.saturating_add(life);
        self.extension.remove(LIFE_FIELD);
    }

    /// The same at another time.
    #[cold]
    pub(crate) fn begin_life_again(&mut self, now: u64, life: u64) {
        self.expires = now.saturating_add(life);
        self.set_life(Life::Whole(life));
    }

    /// Its ttl is longer by so much.
    pub(crate) fn lengthen_life(&mut self, by: u64) {
        self.expires = self.expires.saturating_add(by);
        match self.stored_life() {
            Some(Life::Whole(life)) => self.set_life(Life::Whole(life.saturating_add(by))),
            Some(waits) => self.set_life(waits),
            None => {}
        }
    }

    /// It waits for so long, which is no part of its ttl.
    #[inline]
    pub(crate) fn add_wait(&mut self, by: u64) {
        if self.expires != NEVER {
            let more = i64::try_from(by).unwrap_or(i64::MAX);
            self.change_waits(self.expires.saturating_add(by), more);
        }
    }

    /// It waits so much less than it was to.
    pub(crate) fn end_wait(&mut self, left: u64) {
        let less = i64::try_from(left).map_or(i64::MIN, |left| -left);
        self.change_waits(self.expires.saturating_sub(left), less);
    }

    #[cold]
    fn change_waits(&mut self, expires: u64, more: i64) {
        self.expires = expires;
        let life = match self.stored_life() {
            // It does not depend on the end.
            Some(Life::Whole(life)) => Life::Whole(life),
            Some(Life::Waits(waits)) => Life::Waits(waits.saturating_add(more)),
            None => Life::Waits(more),
        };
        self.set_life(life);
    }

    /// If fields of later versions leave no room, a ttl is taken for longer where it begins again.
    fn set_life(&mut self, life: Life) {
        self.extension.remove(LIFE_FIELD);
        if self.expires != NEVER && life != Life::Waits(0) && life != Life::Whole(0) {
            let _fits = self.extension.set(LIFE_FIELD, &life.encode());
        }
    }

    fn stored_life(&self) -> Option<Life> {
        self.extension.get(LIFE_FIELD).and_then(Life::decode)
    }

    /// Whether its field of this file can be decoded, if there is one.
    pub(super) fn has_sound_life(&self) -> bool {
        let field = self.extension.get(LIFE_FIELD);
        field.is_none_or(|field| Life::decode(field).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_no_part_of_a_life() {
        let mut progress = TaskProgress::fresh(NEVER, NEVER);
        progress.add_wait(7);
        assert_eq!((progress.life(0), progress.extension.is_empty()), (NEVER, true));
        progress.begin_life(100, 60);
        assert_eq!((progress.expires, progress.life(100)), (160, 60));
        progress.add_wait(10);
        progress.add_wait(5);
        progress.end_wait(3);
        assert_eq!((progress.expires, progress.life(100)), (172, 60));
        progress.end_wait(20);
        assert_eq!((progress.expires, progress.life(100)), (152, 60));
        progress.lengthen_life(8);
        assert_eq!((progress.expires, progress.life(100)), (160, 68));
        progress.begin_life_again(150, 40);
        progress.add_wait(10);
        progress.lengthen_life(1);
        assert_eq!((progress.expires, progress.life(100)), (201, 41));
        assert!(progress.has_sound_life());
        progress.add_wait(NEVER);
        assert_eq!((progress.life(100), progress.extension.is_empty()), (NEVER, true));
        progress.begin_life(200, 9);
        assert_eq!((progress.life(200), progress.extension.is_empty()), (9, true));
    }
}
