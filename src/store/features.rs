//! Features in use: those of a folder that not every version of format 1 knows. They are stored
//! in two slots after the lead of the journal, written in turn, with a copy in the base's anchor.
//! A feature is entered, and synced, before the first byte that needs it.

use super::disk::Access;
use crate::format::feature::{Feature, Unknown};
use crate::format::pack::Unpacker;
use crate::words::error::{Error, ErrorKind, Result};
use std::borrow::Cow;
use xxhash_rust::xxh3::xxh3_64;

/// Bytes of a slot: a page, so that writing one slot does not touch the other.
pub(crate) const SLOT_BYTES: usize = 4096;
/// Bytes of a feature's name.
const NAME_BYTES_MAX: usize = 32;
/// Bytes of sequence and checksum.
const SLOT_FIELDS: usize = 16;

/// The features in use, in the order of their numbers, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Features(Vec<Feature>);

impl Features {
    pub(crate) fn has(&self, number: u16) -> bool {
        self.0.iter().any(|feature| feature.number == number)
    }

    /// This set with one more feature.
    ///
    /// # Errors
    /// `Invalid` for a name that is too long; `Full` if they do not fit into a slot together.
    pub(crate) fn with(&self, feature: &Feature) -> Result<Self> {
        let name = &*feature.name;
        if name.len() > NAME_BYTES_MAX {
            let text = format!("the name of feature {name:?} has more than {NAME_BYTES_MAX} bytes");
            return Err(Error::new(ErrorKind::Invalid).because(text));
        }
        let mut more = self.clone();
        let at = more.0.partition_point(|known| known.number < feature.number);
        more.0.insert(at, feature.clone());
        if more.encode().len() + SLOT_FIELDS > SLOT_BYTES {
            let text = format!("the journal's head has no room for the feature {name:?}");
            return Err(Error::new(ErrorKind::Full).because(text));
        }
        Ok(more)
    }

    /// This set with those of the other.
    ///
    /// # Errors
    /// As [`with`](Self::with).
    pub(crate) fn union(&self, others: &Self) -> Result<Self> {
        let new = others.0.iter().filter(|feature| !self.has(feature.number));
        new.clone().try_fold(self.clone(), |union, feature| union.with(feature))
    }

    /// Whether a version that knows these features may open the folder for this.
    ///
    /// # Errors
    /// `NewerFormat` that names the features which it must know.
    pub(crate) fn admit(&self, known: &[Feature], access: Access) -> Result<()> {
        let unknown = |sort: Unknown| {
            let new = |feature: &&Feature| {
                feature.unknown == sort && known.iter().all(|known| known.number != feature.number)
            };
            let names: Vec<&str> = self.0.iter().filter(new).map(|new| &*new.name).collect();
            names.join(", ")
        };
        let refused = |text: String| Err(Error::new(ErrorKind::NewerFormat).because(text));
        let (refuse, read_only) = (unknown(Unknown::Refuse), unknown(Unknown::ReadOnly));
        if !refuse.is_empty() {
            return refused(format!("it uses {refuse}, which this version does not know"));
        }
        if access == Access::Write && !read_only.is_empty() {
            return refused(format!(
                "it needs a version that knows {read_only} to write; this version can open it \
                 read-only"
            ));
        }
        Ok(())
    }

    /// `count: u16`, then for each `number: u16 · unknown: u8 · name length: u8 · name`.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = (self.0.len() as u16).to_be_bytes().to_vec();
        for Feature { number, unknown, name } in &self.0 {
            bytes.extend_from_slice(&number.to_be_bytes());
            bytes.extend_from_slice(&[*unknown as u8, name.len() as u8]);
            bytes.extend_from_slice(name.as_bytes());
        }
        bytes
    }

    pub(crate) fn decode(fields: &mut Unpacker<'_>) -> Option<Self> {
        let count = fields.u16()?;
        let mut features = Vec::new();
        for _ in 0..count {
            let number = fields.u16()?;
            let unknown = match fields.u8()? {
                1 => Unknown::Refuse,
                2 => Unknown::ReadOnly,
                3 => Unknown::Ignore,
                _ => return None,
            };
            let name = fields.short().filter(|name| name.len() <= NAME_BYTES_MAX)?;
            let in_order = features.last().is_none_or(|last: &Feature| last.number < number);
            if !in_order {
                return None;
            }
            features.push(Feature { number, unknown, name: Cow::Owned(name.to_owned()) });
        }
        Some(Self(features))
    }
}

/// The content of the valid slot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Slot {
    /// Even in the first slot, odd in the second.
    pub(crate) sequence: u64,
    pub(crate) features: Features,
}

impl Slot {
    /// Its offset in the journal. The lead before the two slots is as long as a slot.
    pub(crate) fn at(&self) -> u64 {
        (1 + self.sequence % 2) * SLOT_BYTES as u64
    }

    /// `sequence: u64 · features · checksum: u64`, then zeros. The seed is that of the queue.
    pub(crate) fn encode(&self, seed: u64) -> Vec<u8> {
        let mut page = self.sequence.to_be_bytes().to_vec();
        page.extend_from_slice(&self.features.encode());
        page.extend_from_slice(&(xxh3_64(&page) ^ seed).to_be_bytes());
        page.resize(SLOT_BYTES, 0);
        page
    }

    pub(crate) fn decode(page: &[u8], seed: u64) -> Option<Self> {
        let mut fields = Unpacker::new(page);
        let (sequence, features) = (fields.u64()?, Features::decode(&mut fields)?);
        let covered = page.len() - fields.rest().len();
        let checksum = xxh3_64(page.get(..covered)?) ^ seed;
        (fields.u64()? == checksum).then_some(Self { sequence, features })
    }

    /// The valid slot with the higher sequence.
    pub(crate) fn newest(pages: &[u8], seed: u64) -> Option<Self> {
        let slots = pages.chunks(SLOT_BYTES).zip(0..2);
        let valid = slots.filter_map(|(page, place)| {
            Self::decode(page, seed).filter(|slot| slot.sequence % 2 == place)
        });
        valid.max_by_key(|slot| slot.sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made_up(number: u16, unknown: Unknown) -> Feature {
        Feature { number, unknown, name: format!("feature-{number}").into() }
    }

    fn of(features: &[Feature]) -> Features {
        features.iter().fold(Features::default(), |all, feature| all.with(feature).unwrap())
    }

    #[test]
    fn golden_slot() {
        let later = Feature { number: 0x0102, unknown: Unknown::Ignore, name: "later".into() };
        let features = of(&[later, made_up(1, Unknown::Refuse)]);
        let page = Slot { sequence: 3, features: features.clone() }.encode(7);
        assert_eq!(page.len(), SLOT_BYTES);
        let golden = b"\0\0\0\0\0\0\0\x03\0\x02\0\x01\x01\x09feature-1\x01\x02\x03\x05later";
        assert_eq!(page[..golden.len()], *golden);
        let checksum = (xxh3_64(golden) ^ 7).to_be_bytes();
        assert_eq!(page[golden.len()..golden.len() + 8], checksum);
        assert!(page[golden.len() + 8..].iter().all(|byte| *byte == 0));
        assert_eq!(Slot::decode(&page, 7), Some(Slot { sequence: 3, features }));
        assert_eq!(Slot::decode(&page, 8), None, "a slot of another queue");
    }

    /// After every flip of a covered bit and every torn write the other slot is used.
    #[test]
    fn the_valid_slot_with_the_higher_sequence_counts() {
        let older = Slot { sequence: 4, features: of(&[made_up(1, Unknown::Ignore)]) };
        let features = older.features.with(&made_up(9, Unknown::Refuse)).unwrap();
        let newer = Slot { sequence: 5, features };
        let pages = [older.encode(0), newer.encode(0)].concat();
        assert_eq!(Slot::newest(&pages, 0), Some(newer.clone()));
        let used = newer.features.encode().len() + SLOT_FIELDS;
        for at in 0..used {
            let mut flipped = pages.clone();
            flipped[SLOT_BYTES + at] ^= 1;
            assert_eq!(Slot::newest(&flipped, 0), Some(older.clone()), "flip at {at}");
            flipped[9] ^= 1;
            assert_eq!(Slot::newest(&flipped, 0), None, "both");
            let mut torn = pages.clone();
            torn[SLOT_BYTES + at..].fill(0);
            assert_eq!(Slot::newest(&torn, 0), Some(older.clone()), "torn at {at}");
        }
        let swapped = [newer.encode(0), older.encode(0)].concat();
        assert_eq!(Slot::newest(&swapped, 0), None, "each slot has its own place");
        assert_eq!(Slot::newest(&pages[..4096], 0), Some(older));
        assert_eq!(Slot::newest(&[], 0), None);
    }

    #[test]
    fn forty_features_fit_and_the_slot_has_an_end() {
        let mut features = Features::default();
        for number in (0..400).rev() {
            let name = format!("{number:032}").into();
            let feature = Feature { number, unknown: Unknown::Ignore, name };
            match features.with(&feature) {
                Ok(more) => features = more,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Full);
                    assert!(error.to_string().contains("0286"), "{error}");
                    break;
                }
            }
        }
        assert_eq!(features.0.len(), 113);
        let page = Slot { sequence: 0, features: features.clone() }.encode(1);
        assert_eq!(Slot::decode(&page, 1).unwrap().features, features);
        let long = Feature { name: "x".repeat(33).into(), ..made_up(1, Unknown::Ignore) };
        assert_eq!(Features::default().with(&long).unwrap_err().kind(), ErrorKind::Invalid);
    }

    #[test]
    fn an_unknown_feature_is_treated_as_its_entry_says() {
        let [must, writes, may] =
            [(1, Unknown::Refuse), (2, Unknown::ReadOnly), (3, Unknown::Ignore)]
                .map(|(number, unknown)| made_up(number, unknown));
        let opened = |features: &[Feature], known: &[Feature], access| {
            of(features).admit(known, access).map_err(|error| {
                assert_eq!(error.kind(), ErrorKind::NewerFormat);
                error.to_string()
            })
        };
        let text = |features: &[Feature], known: &[Feature]| opened(features, known, Access::Write);
        assert_eq!(text(std::slice::from_ref(&may), &[]), Ok(()));
        let all = [must.clone(), writes.clone(), may];
        assert!(text(&all, &[]).unwrap_err().contains("uses feature-1,"));
        assert!(text(&all, std::slice::from_ref(&must)).unwrap_err().contains("knows feature-2"));
        assert!(opened(&all, &[], Access::Read).unwrap_err().contains("uses feature-1,"));
        assert_eq!(opened(&all, std::slice::from_ref(&must), Access::Read), Ok(()));
        assert_eq!(text(&all, &[must, writes]), Ok(()));
    }

    #[test]
    fn a_union_has_each_once() {
        let one = of(&[made_up(1, Unknown::Ignore), made_up(5, Unknown::Ignore)]);
        let two = of(&[made_up(3, Unknown::Ignore), made_up(5, Unknown::Ignore)]);
        let both = one.union(&two).unwrap();
        assert_eq!(both.0.iter().map(|feature| feature.number).collect::<Vec<_>>(), [1, 3, 5]);
        assert_eq!(two.union(&one).unwrap(), both);
    }
}
