//! The rows of schedules, and what follows from them.

use super::bytes::{Bytes, Read, ensure};
use super::rows::Key;
use std::collections::BTreeMap;

/// A schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Planned {
    pub(crate) tube: u32,
    /// The interval, or the cron text and its zone.
    pub(crate) timing: Result<u64, (String, String)>,
    /// What its children are put with, by the numbers of the fields.
    pub(crate) fields: BTreeMap<u16, Vec<u8>>,
    pub(crate) payload: Vec<u8>,
}

/// How far a schedule has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Progressed {
    pub(crate) next: u64,
    pub(crate) paused: bool,
    pub(crate) stands_still: bool,
    pub(crate) children: u64,
    pub(crate) missed: u64,
    pub(crate) last: u64,
    raw: Vec<u8>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Schedules {
    pub(crate) planned: BTreeMap<String, Planned>,
    pub(crate) progressed: BTreeMap<String, Progressed>,
}

impl Bytes<'_> {
    pub(crate) fn planned(mut self) -> Read<Planned> {
        let (tube, _name) = (self.u32()?, self.short()?);
        let (_created, _offset) = (self.u64()?, self.u64()?);
        let timing = match self.u8()? {
            1 => Ok(self.u64()?),
            2 => Err((self.short()?, self.short()?)),
            of => return Err(format!("a timing of type {of}")),
        };
        ensure(timing != Ok(0), || "an interval of 0".into())?;
        let (missed, most, overlap) = (self.u8()?, self.u32()?, self.u8()?);
        let is_missed = (1..3).contains(&missed) && most == 0
            || missed == 3 && (most <= 1000 || most == u32::MAX);
        ensure(is_missed, || format!("missed fires {missed} of {most}"))?;
        ensure((1..4).contains(&overlap), || format!("overlap {overlap}"))?;
        let (_codec, _version) = (self.u8()?, self.u16()?);
        let fields: BTreeMap<u16, Vec<u8>> = self.section()?.into_iter().collect();
        for (number, bytes) in &fields {
            let mut rest = Bytes(bytes);
            let length = bytes.len();
            match number {
                1 | 3 | 4 | 5 => _ = rest.u64()?,
                2 | 6 | 7 | 12 => {
                    ensure((1..256).contains(&length), || format!("field {number}: {length}"))?;
                    rest.string(length)?;
                }
                8 => _ = Bytes(rest.take(length)?).details()?,
                9 => _ = rest.u32()?,
                10 => rest.backoff()?,
                11 => {
                    while !rest.0.is_empty() {
                        rest.short()?;
                    }
                }
                _ => return Err(format!("field {number} of a schedule")),
            }
            rest.end()?;
        }
        Ok(Planned { tube, timing, fields, payload: self.0.to_vec() })
    }

    pub(crate) fn progressed(mut self) -> Read<Progressed> {
        let raw = self.0.to_vec();
        let (next, paused) = (self.u64()?, self.flags(1)? == 1);
        let (children, missed) = (self.u64()?, self.u64()?);
        let (last, _nominal) = (self.u64()?, self.u64()?);
        let mut stands_still = false;
        if !self.0.is_empty() {
            for (number, bytes) in self.section()? {
                let mut rest = Bytes(&bytes);
                match number {
                    1 => {
                        let (to, until) = (rest.u64()?, rest.u64()?);
                        let (found, counted) = (rest.u32()?, rest.u32()?);
                        let is_gap = found > 0 && (until == 0 || to <= until);
                        ensure(is_gap, || format!("a gap to {to} until {until}, {counted}"))?;
                    }
                    2 => _ = rest.u32()?,
                    3 => stands_still = true,
                    4 => {}
                    5 => _ = rest.u64()?,
                    _ => return Err(format!("field {number} of a firing")),
                }
                rest.end()?;
            }
        }
        self.end()?;
        Ok(Progressed { next, paused, stands_still, children, missed, last, raw })
    }
}

impl Schedules {
    /// How many schedules have the tube of this number.
    pub(crate) fn of(&self, number: u32) -> usize {
        self.planned.values().filter(|planned| planned.tube == number).count()
    }

    /// The rows of fires that follow.
    pub(crate) fn derive(&self, derived: &mut BTreeMap<Key, Vec<u8>>) -> Read<()> {
        let names = self.planned.keys().eq(self.progressed.keys());
        ensure(names, || format!("schedules {self:?}"))?;
        for ((name, planned), (_, progressed)) in self.planned.iter().zip(&self.progressed) {
            ensure((1..235).contains(&name.len()), || format!("schedule {name:?}"))?;
            let stands = progressed.paused || progressed.stands_still;
            let when = if stands { u64::MAX } else { progressed.next };
            let clock = if planned.timing.is_ok() { 1 } else { 2 };
            let (tube, name) = (planned.tube, name.clone());
            let key = Key::Fire { tube, clock, when, name };
            derived.insert(key, progressed.raw.clone());
        }
        Ok(())
    }
}
