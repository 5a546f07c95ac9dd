//! What the holders of a task have reported of their work. It stands apart, so that a report
//! rewrites no payload, and only the first one the state; the progress of the task says whether it
//! is there.

use crate::format::extension::Extension;
use crate::format::key::ReportPart;
use crate::format::pack::{Packer, Unpacker, Value};
use crate::words::clock::NEVER;

/// How far the work on a task is. The checkpoint is a row of its own, which is its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReportRow<'a> {
    /// The number of the delivery that `started` is about. It never decreases, and a lease that is
    /// resumed or adopted has the number that it had.
    pub(crate) delivery: u32,
    /// Queue time; `NEVER` if the work of that delivery was not reported to have begun.
    pub(crate) started: u64,
    pub(crate) meta: &'a str,
    /// Queue time of the last progress; `NEVER` is none.
    pub(crate) progressed: u64,
    /// At most 100.
    pub(crate) percent: u8,
    pub(crate) text: &'a str,
    pub(crate) extension: Extension,
}

impl<'a> ReportRow<'a> {
    pub(crate) fn new() -> Self {
        let (delivery, started, progressed, percent) = (0, NEVER, NEVER, 0);
        let extension = Extension::EMPTY;
        Self { delivery, started, meta: "", progressed, percent, text: "", extension }
    }

    pub(crate) fn encode(&self) -> Value {
        let mut row = Packer::new();
        row.u32(self.delivery).u64(self.started).short(self.meta);
        row.u64(self.progressed).u8(self.percent).text(self.text);
        self.extension.end_row(row)
    }

    pub(crate) fn decode(row: &'a [u8]) -> Option<Self> {
        let mut row = Unpacker::new(row);
        let (delivery, started, meta) = (row.u32()?, row.u64()?, row.short()?);
        let (progressed, percent) = (row.u64()?, row.u8().filter(|percent| *percent <= 100)?);
        let text = row.text()?;
        let extension = Extension::of_rest(row)?;
        Some(Self { delivery, started, meta, progressed, percent, text, extension })
    }
}

/// Which rows of reports a task has, in its progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StoredReports(u8);

impl StoredReports {
    pub(crate) fn has(self, part: ReportPart) -> bool {
        self.0 & part as u8 != 0
    }

    pub(crate) fn with(self, part: ReportPart) -> Self {
        Self(self.0 | part as u8)
    }

    pub(crate) fn without(self, part: ReportPart) -> Self {
        Self(self.0 & !(part as u8))
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Those that are there, in order.
    pub(crate) fn parts(self) -> impl Iterator<Item = ReportPart> {
        ReportPart::ALL.into_iter().filter(move |part| self.has(*part))
    }

    pub(super) fn encode(self) -> [u8; 1] {
        [self.0]
    }

    pub(super) fn decode(field: &[u8]) -> Option<Self> {
        match field {
            [parts @ 1..=3] => Some(Self(*parts)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The exact bytes, which are on the disks of users.
    #[test]
    fn golden_reports() {
        let (meta, text, extension) = ("m", "t", Extension::EMPTY);
        let (delivery, started, progressed, percent) = (3, 5, 9, 100);
        let row = ReportRow { delivery, started, meta, progressed, percent, text, extension };
        let bytes = [
            &[0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 5, 1, b'm'][..],
            &[0, 0, 0, 0, 0, 0, 0, 9, 100, 0, 1, b't'],
        ]
        .concat();
        assert_eq!(*row.encode(), *bytes);
        assert_eq!(ReportRow::decode(&bytes), Some(row));
        let mut above = bytes.clone();
        above[22] = 101;
        assert_eq!(ReportRow::decode(&above), None);
        assert!((0..bytes.len()).all(|end| ReportRow::decode(&bytes[..end]).is_none()));

        let both = ReportPart::ALL.into_iter().fold(StoredReports::default(), StoredReports::with);
        assert_eq!((both.encode(), StoredReports::decode(&[3])), ([3], Some(both)));
        assert_eq!(both.without(ReportPart::Report).encode(), [2]);
        for wrong in [&[][..], &[0], &[4], &[1, 1]] {
            assert_eq!(StoredReports::decode(wrong), None);
        }
    }
}
