//! The row of a named consumer. What it says of itself stands in fields, so that one who says
//! nothing takes no room.

use crate::format::extension::Extension;
use crate::format::pack::{Packer, Unpacker, Value};

/// Numbers of the fields: texts, the id of a process (`u32`), queue times and microseconds (`u64`).
const KIND_FIELD: u16 = 1;
const HOST_FIELD: u16 = 2;
const PID_FIELD: u16 = 3;
const META_FIELD: u16 = 4;
const ACTIVE_FIELD: u16 = 5;
const KEEP_FIELD: u16 = 6;
const FORGOTTEN_FIELD: u16 = 7;

/// A named consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConsumerRow {
    pub(crate) name: String,
    /// For how many microseconds its leases outlive the session.
    pub(crate) grace: u64,
    /// While it is open [`NEVER`](crate::words::clock::NEVER). After that the queue time at which
    /// its grace ends, or, when its leases have returned, at which it is forgotten.
    pub(crate) until: u64,
    /// Its leases with a token up to this one have no session: they wait for `resume` or the end of
    /// the grace.
    pub(crate) void_to: u64,
    pub(crate) extension: Extension,
}

impl ConsumerRow {
    pub(crate) fn encode(&self) -> Value {
        let mut row = Packer::new();
        row.short(&self.name).u64(self.grace).u64(self.until).u64(self.void_to);
        self.extension.end_row(row)
    }

    pub(crate) fn decode(row: &[u8]) -> Option<Self> {
        let mut row = Unpacker::new(row);
        let name = row.short()?.to_owned();
        let (grace, until, void_to) = (row.u64()?, row.u64()?, row.u64()?);
        Some(Self { name, grace, until, void_to, extension: Extension::of_rest(row)? })
    }

    pub(crate) fn kind(&self) -> Option<&str> {
        self.text(KIND_FIELD)
    }

    pub(crate) fn host(&self) -> Option<&str> {
        self.text(HOST_FIELD)
    }

    pub(crate) fn meta(&self) -> Option<&str> {
        self.text(META_FIELD)
    }

    /// Says these texts of it; what is not given stays.
    pub(crate) fn describe(&mut self, kind: Option<&str>, host: Option<&str>, meta: Option<&str>) {
        let fields = [(KIND_FIELD, kind), (HOST_FIELD, host), (META_FIELD, meta)];
        for (field, text) in fields {
            if let Some(text) = text {
                self.set(field, text.as_bytes());
            }
        }
    }

    /// The id of the process that began its last session.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.extension.get(PID_FIELD)?.try_into().ok().map(u32::from_be_bytes)
    }

    pub(crate) fn set_pid(&mut self, pid: u32) {
        self.set(PID_FIELD, &pid.to_be_bytes());
    }

    /// Queue time of its last activity.
    pub(crate) fn active(&self) -> Option<u64> {
        self.number(ACTIVE_FIELD)
    }

    pub(crate) fn set_active(&mut self, time: u64) {
        self.set(ACTIVE_FIELD, &time.to_be_bytes());
    }

    /// Microseconds for which it is remembered after the return of its leases, if it has said so.
    pub(crate) fn keep(&self) -> Option<u64> {
        self.number(KEEP_FIELD)
    }

    pub(crate) fn set_keep(&mut self, keep: u64) {
        self.set_number(KEEP_FIELD, Some(keep));
    }

    /// Queue time at which it is forgotten, once its leases have returned.
    pub(crate) fn forgotten(&self) -> Option<u64> {
        self.number(FORGOTTEN_FIELD)
    }

    pub(crate) fn set_forgotten(&mut self, time: Option<u64>) {
        self.set_number(FORGOTTEN_FIELD, time);
    }

    fn text(&self, field: u16) -> Option<&str> {
        self.extension.get(field).and_then(|text| str::from_utf8(text).ok())
    }

    fn number(&self, field: u16) -> Option<u64> {
        self.extension.get(field)?.try_into().ok().map(u64::from_be_bytes)
    }

    fn set_number(&mut self, field: u16, number: Option<u64>) {
        match number {
            Some(number) => self.set(field, &number.to_be_bytes()),
            None => self.extension.remove(field),
        }
    }

    /// A section has room for all of its fields at their limits.
    fn set(&mut self, field: u16, bytes: &[u8]) {
        let _fits = self.extension.set(field, bytes);
    }
}
