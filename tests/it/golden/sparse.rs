//! The text form of the golden files in the repository: a length, and every range that is neither
//! zeros nor a repetition of earlier bytes. It must restore every byte, for every text ever
//! written, because files of old formats are stored in it.

use std::collections::HashMap;
use std::fmt::Write;

/// Equal bytes that are written as a count.
const RUN: usize = 16;
/// Bytes that are searched for in earlier bytes.
const SAME: usize = 24;
/// Bytes of a line.
const LINE: usize = 48;

/// How many equal bytes are at the beginning.
fn run(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| **byte == bytes[0]).count()
}

/// Where bytes appeared first.
#[derive(Default)]
struct Seen {
    places: HashMap<Vec<u8>, usize>,
    until: usize,
}

impl Seen {
    /// The earlier position from which bytes repeat at this place, and how many.
    fn find(&mut self, bytes: &[u8], at: usize) -> Option<(usize, usize)> {
        while self.until + SAME <= at {
            let window = &bytes[self.until..self.until + SAME];
            if run(window) < SAME {
                self.places.entry(window.to_vec()).or_insert(self.until);
            }
            self.until += 1;
        }
        let from = *self.places.get(bytes.get(at..at + SAME)?)?;
        let pairs = bytes[from..at].iter().zip(&bytes[at..]);
        Some((from, pairs.take_while(|(a, b)| a == b).count()))
    }
}

/// The bytes as text. A line is `offset: bytes`, or `offset: byte * count`, or
/// `offset: count from offset`; all numbers in hex.
pub(crate) fn pack(bytes: &[u8]) -> String {
    let mut text = format!("length {:x}\n", bytes.len());
    let mut seen = Seen::default();
    let mut at = 0;
    while at < bytes.len() {
        let equal = run(&bytes[at..]);
        if bytes[at] == 0 {
            at += equal;
        } else if equal >= RUN {
            writeln!(text, "{at:x}: {:02x} * {equal:x}", bytes[at]).unwrap();
            at += equal;
        } else if let Some((from, count)) = seen.find(bytes, at) {
            writeln!(text, "{at:x}: {count:x} from {from:x}").unwrap();
            at += count;
        } else {
            write!(text, "{at:x}: ").unwrap();
            let from = at;
            while at == from
                || at < bytes.len().min(from + LINE)
                    && run(&bytes[at..]) < RUN
                    && seen.find(bytes, at).is_none()
            {
                write!(text, "{:02x}", bytes[at]).unwrap();
                at += 1;
            }
            text.push('\n');
        }
    }
    text
}

fn hex(number: &str) -> usize {
    usize::from_str_radix(number, 16).unwrap()
}

/// The bytes of a text.
pub(crate) fn unpack(text: &str) -> Vec<u8> {
    let mut lines = text.lines();
    let length = lines.next().and_then(|line| line.strip_prefix("length ")).expect("a length");
    let mut bytes = vec![0; hex(length)];
    for line in lines {
        let (at, content) = line.split_once(": ").expect("an offset");
        let at = hex(at);
        if let Some((byte, count)) = content.split_once(" * ") {
            bytes[at..at + hex(count)].fill(hex(byte) as u8);
        } else if let Some((count, from)) = content.split_once(" from ") {
            let from = hex(from);
            bytes.copy_within(from..from + hex(count), at);
        } else {
            for (place, from) in bytes[at..].iter_mut().zip((0..content.len()).step_by(2)) {
                *place = hex(&content[from..from + 2]) as u8;
            }
        }
    }
    bytes
}

#[test]
fn packed_bytes_are_restored() {
    let mut bytes = vec![0; 2000];
    assert_eq!(unpack(&pack(&bytes)), bytes);
    assert_eq!(unpack(&pack(&[])), [0; 0]);
    bytes[0] = 1;
    bytes[2] = 3;
    bytes[100..220].fill(0xee);
    bytes[220..400].iter_mut().zip(1..).for_each(|(byte, number)| *byte = number);
    bytes.copy_within(230..300, 1000);
    bytes[1999] = 9;
    let text = pack(&bytes);
    assert!(text.starts_with("length 7d0\n0: 010003\n64: ee * 78\ndc: 0102030405"), "{text}");
    assert!(text.ends_with("\n3e8: 46 from e6\n7cf: 09\n"), "{text}");
    assert_eq!(unpack(&text), bytes);
}
