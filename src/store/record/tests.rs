//! The bytes of records: golden bytes, and that every changed bit is found.

use super::*;
use crate::format::RowOp;
use crate::format::key::Key;
use crate::store::record_builder::RecordBuilder;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

const SEED: u64 = 0x6443_9946_d8fa_212d;

fn sample() -> (RecordBuilder, Link) {
    let marks = ClockMarks { queue: 5, wall: 6 };
    let meta = RecordMeta { marks, durable_bytes: 8, ..RecordMeta::default() };
    let mut record = RecordBuilder::default();
    record.begin(&meta, false);
    let key = Key::from_slice(&[0x10, 0, 0, 0, 1, 9]);
    record.row(&key, &RowOp::Add([1, 2, 3].as_slice().into()));
    record.row(&key, &RowOp::Remove);
    let link = record.seal(Link { number: 8, checksum: 0xfeed }, 4, SEED);
    (record, link)
}

#[test]
fn golden_record() {
    let (record, link) = sample();
    assert_eq!(
        hex(record.bytes()),
        concat!(
            "39dae567e690513d",
            "000000000000feed",
            "0000000000000009",
            "0000000000000004",
            "00000031",
            "00000000",
            "000000000000000500000000000000060000000000000008",
            "01000610000000010900000003010203",
            "030006100000000109",
            "00000000000000"
        )
    );
    assert_eq!(record.size(), record.bytes().len() as u64);
    let header = Header::read(record.bytes()).unwrap();
    assert_eq!(header.link(), link);
    assert_eq!(header.size(), record.size());
    assert!(is_whole(record.bytes(), &header, SEED));
    assert!(!is_whole(record.bytes(), &header, SEED + 1), "a record of another queue");
}

#[test]
fn golden_opening_note_and_change() {
    let last = Link { number: 0, checksum: SEED };
    let mut record = RecordBuilder::default();
    let reserved = Numbers { ids: 0x10001, tokens: 0x20001 };
    let meta = RecordMeta { reserved, ..RecordMeta::default() };
    record.begin(&meta, true);
    let mut extension = Extension::default();
    set_boot(&mut extension, Some(Boot { id: 0xb007, offset: 9 }));
    record.opening(&extension, 0xabcd);
    let link = record.seal(last, 0, SEED);
    let opening = concat!(
        "20c157363b65f4a8",
        "64439946d8fa212d",
        "0000000000000001",
        "0000000000000000",
        "0000004e",
        "00000007",
        "000000000000000000000000000000000000000000000000",
        "00000000000100010000000000020001",
        "001c00010018",
        "0000000000000000000000000000b0070000000000000009",
        "000000000000abcd",
        "0000"
    );
    assert_eq!(hex(record.bytes()), opening);
    record.begin(&meta, true);
    record.seal(link, 1, SEED);
    assert_eq!(record.size(), 80);
    assert_eq!(hex(&record.bytes()[32..40]), "0000002800000002");
    record.begin(&RecordMeta::default(), false);
    let op = RowOp::Change([7].as_slice().into());
    record.row(&Key::from_slice(b"k"), &op);
    record.seal(link, 1, SEED);
    assert_eq!(
        hex(&record.bytes()[HEADER_BYTES + META_BYTES..]),
        "0200016b000000010700000000000000"
    );
}

/// The preamble of a sealed record, and the bytes of its body after that.
fn preamble(record: &RecordBuilder) -> Option<(Preamble, usize)> {
    let header = Header::read(record.bytes()).unwrap();
    let mut fields = Unpacker::new(&record.bytes()[HEADER_BYTES..HEADER_BYTES + header.len]);
    let read = Preamble::read(header.kind, &mut fields);
    read.map(|preamble| (preamble, fields.rest().len()))
}

#[test]
fn the_parts_of_a_kind_are_read_back_and_an_unknown_bit_is_damage() {
    let meta = RecordMeta {
        marks: ClockMarks { queue: 1, wall: 2 },
        reserved: Numbers { ids: 70, tokens: 80 },
        durable_bytes: 3,
    };
    let link = Link { number: 1, checksum: 2 };
    let boot = Boot { id: 5, offset: 6 };
    for bits in 0..8 {
        let mut record = RecordBuilder::default();
        record.begin(&meta, bits & 1 != 0);
        let mut extension = Extension::default();
        if bits & 2 != 0 {
            set_boot(&mut extension, Some(boot));
            assert!(extension.set(900, b"of a later version"));
        }
        if bits & 6 != 0 {
            record.opening(&extension, 7);
        }
        record.seal(link, 0, SEED);
        let (read, left) = preamble(&record).unwrap();
        assert_eq!(read.extension, extension);
        assert_eq!(boot_of(&read.extension), (bits & 2 != 0).then_some(boot));
        let reserved = if bits & 1 != 0 { meta.reserved } else { Numbers::FIRST };
        assert_eq!(read.meta_after(RecordMeta::default()), RecordMeta { reserved, ..meta });
        assert_eq!(left, if bits & 6 != 0 { 8 } else { 0 });
        for unknown in 4..32 {
            record.kind.0 |= 1 << unknown;
            record.seal(link, 0, SEED);
            let header = Header::read(record.bytes()).unwrap();
            assert!(is_whole(record.bytes(), &header, SEED), "it is a record");
            assert_eq!(preamble(&record), None, "bit {unknown}");
            record.kind.0 &= 7;
        }
    }
    let kind = Kind(Kind::EXTENDS);
    let empty = [0; META_BYTES + 2];
    assert_eq!(Preamble::read(kind, &mut Unpacker::new(&empty)), None, "an empty section");
}

#[test]
fn queue_time_and_numbers_only_grow_and_bytes_also_shrink() {
    let marks = |queue, wall| ClockMarks { queue, wall };
    let reserved = Numbers { ids: 7, tokens: 9 };
    let first = RecordMeta { marks: marks(5, 6), reserved, durable_bytes: 8 };
    let fewer = first.advanced(MetaDelta {
        marks: marks(4, 3),
        reserved: Numbers { ids: 0, tokens: 10 },
        durable_bytes: -3,
    });
    let grown = Numbers { ids: 7, tokens: 10 };
    assert_eq!(fewer, RecordMeta { marks: marks(5, 3), reserved: grown, durable_bytes: 5 });
    let by = |durable_bytes| first.advanced(MetaDelta { durable_bytes, ..MetaDelta::default() });
    assert_eq!(by(i64::MIN).durable_bytes, 0);
    assert_eq!(by(i64::MAX).advanced(MetaDelta::default()).durable_bytes, (1 << 63) + 7);
}

#[test]
fn rows_are_read_back_and_every_changed_bit_is_found() {
    let (record, _) = sample();
    let header = Header::read(record.bytes()).unwrap();
    let body = &record.bytes()[HEADER_BYTES..HEADER_BYTES + header.len];
    let mut fields = Unpacker::new(body);
    let (read, _) = preamble(&record).unwrap();
    assert_eq!((read.meta_after(RecordMeta::default()).durable_bytes, read.reserved), (8, None));
    fields.bytes(META_BYTES);
    let first = next_row(&mut fields).unwrap();
    assert_eq!((first.value, first.adds), (Some([1, 2, 3].as_slice()), true));
    let second = next_row(&mut fields).unwrap();
    assert_eq!((second.key, second.value), (first.key, None));
    assert_eq!((fields.rest(), next_row(&mut fields)), (&[][..], None));
    for cut in META_BYTES + 1..body.len() {
        let mut fields = Unpacker::new(&body[META_BYTES..cut]);
        while next_row(&mut fields).is_some() {}
    }
    for at in 0..HEADER_BYTES + header.len {
        let mut flipped = record.bytes().to_vec();
        flipped[at] ^= 1;
        let valid = Header::read(&flipped).is_some_and(|header| is_whole(&flipped, &header, SEED));
        assert!(!valid, "flip at {at}");
    }
}
