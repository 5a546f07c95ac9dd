//! Numbered fields after a fixed layout, so that a later version can add one without a new format.
//!
//! A section is `total: u16`, then that many bytes of fields `number: u16 · length: u16 · bytes`.
//! Fields are in the order of their numbers, each number once. A reader of a row or of the anchor
//! keeps the fields that it does not know and writes them back unchanged.

use super::pack::{Packer, Unpacker, Value};

/// Bytes of a field before its content.
const FIELD_BYTES: usize = 4;
/// Most bytes of all fields together.
const FIELDS_MAX: usize = u16::MAX as usize;

/// The fields of one section. An empty one holds no memory. It has the size of a pointer, because
/// it is moved with every state of a task and usually empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::box_collection, reason = "one pointer instead of three words")]
pub(crate) struct Extension(Option<Box<Vec<u8>>>);

impl Extension {
    pub(crate) const EMPTY: Self = Self(None);

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    fn bytes(&self) -> &[u8] {
        self.0.as_ref().map_or(&[], |bytes| bytes)
    }

    /// The bytes of the field with this number.
    pub(crate) fn get(&self, number: u16) -> Option<&[u8]> {
        self.fields().find(|field| field.0 == number).map(|field| field.1)
    }

    /// The bytes of the field with this number in the section that is the rest of a row.
    pub(super) fn find(mut section: Unpacker<'_>, number: u16) -> Option<&[u8]> {
        section.u16()?;
        std::iter::from_fn(|| next_field(&mut section))
            .take_while(|field| field.0 <= number)
            .find(|field| field.0 == number)
            .map(|field| field.1)
    }

    /// All fields, in the order of their numbers.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (u16, &[u8])> {
        let mut rest = Unpacker::new(self.bytes());
        std::iter::from_fn(move || next_field(&mut rest))
    }

    /// Adds the field or replaces it. Returns `false` and changes nothing if the section would
    /// become longer than its length field can state.
    #[must_use]
    pub(crate) fn set(&mut self, number: u16, bytes: &[u8]) -> bool {
        let (mut from, mut to) = (0, 0);
        for (found, content) in self.fields().take_while(|field| field.0 <= number) {
            to += FIELD_BYTES + content.len();
            if found < number {
                from = to;
            }
        }
        if self.bytes().len() - (to - from) + FIELD_BYTES + bytes.len() > FIELDS_MAX {
            return false;
        }
        let [high, low] = number.to_be_bytes();
        let [long, short] = (bytes.len() as u16).to_be_bytes();
        let head = [high, low, long, short];
        let own = self.0.get_or_insert_default();
        if from == own.len() {
            own.reserve(FIELD_BYTES + bytes.len());
            own.extend_from_slice(&head);
            own.extend_from_slice(bytes);
            return true;
        }
        match own.get_mut(from + FIELD_BYTES..to) {
            // One of the same length stands there.
            Some(content) if content.len() == bytes.len() => content.copy_from_slice(bytes),
            _ => _ = own.splice(from..to, head.into_iter().chain(bytes.iter().copied())),
        }
        true
    }

    /// Removes the field with this number. Returns its bytes.
    pub(crate) fn take(&mut self, number: u16) -> Option<Vec<u8>> {
        let taken = self.get(number)?.to_vec();
        self.remove(number);
        Some(taken)
    }

    /// Removes the field with this number, if there is one.
    pub(crate) fn remove(&mut self, number: u16) {
        let Some(length) = self.get(number).map(<[u8]>::len) else { return };
        let before = self.fields().take_while(|field| field.0 < number);
        let from: usize = before.map(|(_, content)| FIELD_BYTES + content.len()).sum();
        let Some(own) = self.0.as_mut() else { return };
        own.drain(from..from + FIELD_BYTES + length);
        if own.is_empty() {
            self.0 = None;
        }
    }

    /// Ends a row with the fields of later versions, if there are any.
    pub(super) fn end_row(&self, mut row: Packer) -> Value {
        if !self.is_empty() {
            self.encode(&mut row);
        }
        row.done()
    }

    /// Reads all that is left of a row as fields of later versions. Usually nothing is left.
    pub(super) fn of_rest(mut row: Unpacker<'_>) -> Option<Self> {
        if row.rest().is_empty() {
            return Some(Self::default());
        }
        let fields = Self::decode(&mut row).filter(|fields| !fields.is_empty())?;
        row.end(fields)
    }

    /// Writes the section with its length.
    pub(crate) fn encode(&self, to: &mut Packer) {
        to.u16(self.bytes().len() as u16).bytes(self.bytes());
    }

    /// Reads a section. `None` for bytes that [`encode`](Self::encode) does not write.
    pub(crate) fn decode(from: &mut Unpacker<'_>) -> Option<Self> {
        let total = usize::from(from.u16()?);
        let section = from.bytes(total)?;
        let (mut fields, mut last) = (Unpacker::new(section), None);
        while !fields.rest().is_empty() {
            let (number, _) = next_field(&mut fields)?;
            if last.is_some_and(|last| last >= number) {
                return None;
            }
            last = Some(number);
        }
        Some(Self((total > 0).then(|| Box::new(section.to_vec()))))
    }
}

/// The content of a field in the bytes of a section that was decoded.
pub(crate) fn find(section: &[u8], number: u16) -> Option<&[u8]> {
    let mut fields = Unpacker::new(section.get(2..)?);
    std::iter::from_fn(|| next_field(&mut fields))
        .find(|field| field.0 == number)
        .map(|field| field.1)
}

fn next_field<'a>(fields: &mut Unpacker<'a>) -> Option<(u16, &'a [u8])> {
    let number = fields.u16()?;
    let length = usize::from(fields.u16()?);
    Some((number, fields.bytes(length)?))
}

/// Reads the bytes as a section. For fuzzing.
pub(crate) fn probe(bytes: &[u8]) {
    let mut fields = Unpacker::new(bytes);
    let Some(read) = Extension::decode(&mut fields) else { return };
    let used = bytes.len() - fields.rest().len();
    let mut packed = Packer::new();
    read.encode(&mut packed);
    assert_eq!(bytes.get(..used), Some(&*packed.done()), "one section has one encoding");
    let mut built = Extension::default();
    for (number, content) in read.fields().collect::<Vec<_>>().into_iter().rev() {
        assert!(built.set(number, content) && built.get(number) == Some(content));
    }
    assert_eq!((&built, built.is_empty()), (&read, used == 2));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(section: &Extension) -> Vec<u8> {
        let mut packed = Packer::new();
        section.encode(&mut packed);
        packed.done().to_vec()
    }

    fn decoded(bytes: &[u8]) -> Option<Extension> {
        Extension::decode(&mut Unpacker::new(bytes))
    }

    #[test]
    fn golden_section() {
        let mut section = Extension::default();
        assert!(section.is_empty());
        assert_eq!(encoded(&section), [0, 0]);
        assert!(section.set(0x0203, b"xyz") && section.set(1, b"") && section.set(0x0300, b"k"));
        let golden = b"\0\x10\0\x01\0\0\x02\x03\0\x03xyz\x03\0\0\x01k";
        assert_eq!(encoded(&section), golden);
        assert_eq!(decoded(golden), Some(section));
    }

    #[test]
    fn fields_are_set_replaced_and_found_in_any_order() {
        let mut section = Extension::default();
        for number in [5, 3, 9, 1, 7] {
            assert!(section.set(number, &[number as u8; 3]));
        }
        for (number, length) in [(5, 0), (1, 9), (9, 3), (5, 4)] {
            assert!(section.set(number, &vec![0xee; length]));
        }
        let seen: Vec<_> = section.fields().map(|(number, bytes)| (number, bytes.len())).collect();
        assert_eq!(seen, [(1, 9), (3, 3), (5, 4), (7, 3), (9, 3)]);
        assert_eq!((section.get(7), section.get(2)), (Some([7; 3].as_slice()), None));
        probe(&encoded(&section));
        assert_eq!((section.take(7), section.take(2)), (Some(vec![7; 3]), None));
        for (number, left) in [(1, 3), (9, 2), (3, 1), (5, 0)] {
            assert!(section.take(number).is_some());
            assert_eq!(section.fields().count(), left);
        }
        assert_eq!(section, Extension::EMPTY);
    }

    #[test]
    fn a_section_is_full_at_its_last_byte() {
        let mut section = Extension::default();
        assert!(!section.set(1, &vec![0; FIELDS_MAX]) && section.is_empty());
        assert!(section.set(1, &vec![1; FIELDS_MAX - 2 * FIELD_BYTES]));
        assert!(!section.set(2, &[0]));
        assert!(section.set(2, &[]));
        assert!(section.set(1, b"short") && section.set(2, b"longer"));
        assert_eq!(decoded(&encoded(&section)), Some(section));
    }

    #[test]
    fn malformed_sections_are_refused() {
        let golden = b"\0\x0b\0\x01\0\x02xy\0\x02\0\x01z";
        assert!(decoded(golden).is_some());
        for cut in 0..golden.len() {
            assert_eq!(decoded(&golden[..cut]), None, "cut at {cut}");
        }
        assert_eq!(decoded(b"\0\x09\0\x02\0\0\0\x01\0\x01z"), None, "out of order");
        assert_eq!(decoded(b"\0\x08\0\x01\0\0\0\x01\0\0"), None, "twice the same number");
        assert_eq!(decoded(b"\0\x05\0\x01\0\0\0"), None, "half a field at the end");
        assert_eq!(decoded(b"\0\x04\0\x01\0\x01z"), None, "a field longer than the section");
    }
}
