//! The row of a setting: one value, with its type before it. Whether a setting of its name takes
//! that type is not known here.

use super::tube::{endless, lapse_field, read_lapse, read_retention, retention_field};
use super::{details, gates};
use crate::format::extension::Extension;
use crate::format::pack::{Packer, Unpacker, Value};
use crate::words::backoff::Backoff;
use crate::words::clock::micros;
use crate::words::durability::Durability;
use crate::words::history::HistoryLimits;
use crate::words::limits::SETTING_BYTES_MAX;
use crate::words::setting::SettingValue;

/// The row of a setting. Of an option of a tube it has the value that the tube was made with: the
/// one in force is in the tube's own row. Of any other it has the value that was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SettingRow {
    pub(crate) value: SettingValue,
    pub(crate) extension: Extension,
}

impl SettingRow {
    pub(crate) fn of(value: SettingValue) -> Self {
        Self { value, extension: Extension::EMPTY }
    }

    /// The value as it is stored, with times in whole microseconds.
    pub(crate) fn stored(value: &SettingValue) -> Option<SettingValue> {
        Self::decode(&Self::of(value.clone()).encode()).map(|row| row.value)
    }

    pub(crate) fn encode(&self) -> Value {
        let (code, content) = content(&self.value);
        let mut row = Packer::new();
        row.u8(code).u16(content.len() as u16).bytes(&content);
        self.extension.end_row(row)
    }

    pub(crate) fn decode(row: &[u8]) -> Option<Self> {
        let mut row = Unpacker::new(row);
        let (code, length) = (row.u8()?, usize::from(row.u16()?));
        let value = read(code, row.bytes(length)?)?;
        Some(Self { value, extension: Extension::of_rest(row)? })
    }
}

/// The fields of a back-off.
pub(super) fn pack_backoff(to: &mut Packer, backoff: &Backoff) {
    to.u64(micros(backoff.first)).u32(backoff.factor).u64(micros(backoff.step));
    to.u64(micros(backoff.most)).u8(backoff.jitter);
}

pub(super) fn unpack_backoff(from: &mut Unpacker<'_>) -> Option<Backoff> {
    Some(Backoff {
        first: endless(from.u64()?),
        factor: from.u32()?,
        step: endless(from.u64()?),
        most: endless(from.u64()?),
        jitter: from.u8().filter(|percent| *percent <= 100)?,
    })
}

/// The number of the value's type, and its bytes.
fn content(value: &SettingValue) -> (u8, Value) {
    let mut content = Packer::new();
    let code = match value {
        SettingValue::Nothing => 0,
        SettingValue::Flag(yes) => {
            content.u8(u8::from(*yes));
            1
        }
        SettingValue::Integer(number) => {
            content.bytes(&number.to_be_bytes());
            2
        }
        SettingValue::Duration(length) => {
            content.u64(micros(*length));
            3
        }
        SettingValue::Text(text) => {
            content.bytes(text.as_bytes());
            4
        }
        SettingValue::Backoff(backoff) => {
            pack_backoff(&mut content, backoff);
            5
        }
        SettingValue::Lapse(lapse) => return (6, lapse_field(lapse)),
        SettingValue::Retention(kept) => return (7, retention_field(kept).into()),
        SettingValue::History(limits) => {
            content.u32(limits.entries).u32(limits.bytes);
            8
        }
        SettingValue::Details(texts) => {
            let texts = texts.iter().map(|(name, text)| (&**name, &**text));
            return (9, details::encode(texts));
        }
        SettingValue::Durability(durability) => {
            content.u8(u8::from(*durability == Durability::Relaxed));
            10
        }
        SettingValue::Rate(rate) => return (11, gates::rate_field(rate)),
        SettingValue::Names(names) => return (12, gates::names(names)),
        SettingValue::Hours(hours) => return (13, gates::hours_field(hours)),
    };
    (code, content.done())
}

fn read(code: u8, content: &[u8]) -> Option<SettingValue> {
    let mut rest = Unpacker::new(content);
    let value = match code {
        0 => SettingValue::Nothing,
        1 => SettingValue::Flag(rest.u8().filter(|yes| *yes < 2)? == 1),
        2 => SettingValue::Integer(i128::from_be_bytes(*rest.bytes(16)?.first_chunk()?)),
        3 => SettingValue::Duration(endless(rest.u64()?)),
        4 if content.len() <= SETTING_BYTES_MAX => {
            SettingValue::Text(std::str::from_utf8(rest.take_rest()).ok()?.to_owned())
        }
        5 => SettingValue::Backoff(unpack_backoff(&mut rest)?),
        6 => SettingValue::Lapse(read_lapse(rest.take_rest())?),
        7 => SettingValue::Retention(read_retention(rest.take_rest())?),
        8 => {
            let limits = HistoryLimits { entries: rest.u32()?, bytes: rest.u32()? };
            limits.check().is_ok().then_some(SettingValue::History(limits))?
        }
        9 => {
            let content = rest.take_rest();
            let texts = match content {
                [] => Vec::new(),
                content => details::decode(content)?,
            };
            let owned = |(name, text): (&str, &str)| (name.to_owned(), text.to_owned());
            SettingValue::Details(texts.into_iter().map(owned).collect())
        }
        10 => match rest.u8()? {
            0 => SettingValue::Durability(Durability::Durable),
            1 => SettingValue::Durability(Durability::Relaxed),
            _ => return None,
        },
        11 => SettingValue::Rate(gates::read_rate(rest.take_rest())?),
        13 => SettingValue::Hours(gates::read_hours(rest.take_rest())?),
        12 if content.len() <= SETTING_BYTES_MAX => {
            SettingValue::Names(gates::read_names(rest.take_rest())?)
        }
        _ => return None,
    };
    rest.end(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::hours::Hours;
    use crate::words::lapse::{Lapse, ReturnTo};
    use crate::words::retention::Retention;
    use std::collections::BTreeMap;
    use std::time::Duration;

    /// The exact bytes, which are on the disks of users.
    #[test]
    fn golden_settings() {
        let second = Duration::from_secs(1);
        let texts = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
        let long = |number: u64| number.to_be_bytes();
        let short = |number: u32| number.to_be_bytes();
        let backoff = [&long(1)[..], &short(1), &long(0), &long(1), &[20]].concat();
        let hours: Hours = "Mon 01:00-01:30 +02:00".parse().unwrap();
        let golden: [(SettingValue, u8, Vec<u8>); 14] = [
            (SettingValue::Nothing, 0, vec![]),
            (true.into(), 1, vec![1]),
            ((-2).into(), 2, (-2_i128).to_be_bytes().to_vec()),
            (second.into(), 3, long(1_000_000).to_vec()),
            (Duration::MAX.into(), 3, vec![0xff; 8]),
            ("é".into(), 4, "é".into()),
            (Backoff::constant(Duration::from_micros(1)).jitter(20).into(), 5, backoff),
            (
                Lapse::new().to(ReturnTo::Front).charged(false).into(),
                6,
                [&long(0)[..], &[2, 1]].concat(),
            ),
            (
                Retention::new().count(3).into(),
                7,
                [long(u64::MAX), long(3), long(u64::MAX)].concat(),
            ),
            (HistoryLimits::new().entries(5).into(), 8, [short(5), short(4096)].concat()),
            (texts.into(), 9, vec![1, b'a', 0, 1, b'b']),
            (Durability::Relaxed.into(), 10, vec![1]),
            (hours.into(), 13, vec![0, 120, 0, 60, 0, 90]),
            (["b", "é"].into(), 12, [&[1, b'b', 2][..], "é".as_bytes()].concat()),
        ];
        for (value, code, content) in golden {
            let bytes = [&[code, 0, content.len() as u8][..], &content].concat();
            let row = SettingRow::of(value);
            assert_eq!(*row.encode(), *bytes, "{row:?}");
            assert_eq!(SettingRow::decode(&bytes), Some(row));
            assert!((0..bytes.len()).all(|end| SettingRow::decode(&bytes[..end]).is_none()));
        }
        let wrong: [&[u8]; 10] = [
            &[0, 0, 1, 0],
            &[1, 0, 1, 2],
            &[4, 0, 1, 0xff],
            &[9, 0, 4, 0, 0, 1, b'b'],
            &[10, 0, 1, 2],
            &[11, 0, 0],
            &[12, 0, 4, 1, b'b', 1, b'a'],
            &[12, 0, 1, 0],
            &[13, 0, 2, 0, 0],
            &[],
        ];
        assert!(wrong.iter().all(|row| SettingRow::decode(row).is_none()));
        let empty = SettingRow::of(BTreeMap::new().into());
        assert_eq!(SettingRow::decode(&empty.encode()), Some(empty));
    }
}
