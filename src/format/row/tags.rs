//! The tags of a task, in their order. They stand apart, so that a tag rewrites neither the payload
//! nor, save the first and the last, the state; the progress of the task says whether there are
//! any.

use crate::format::extension::Extension;
use crate::format::pack::{Packer, Unpacker, Value};
use crate::words::limits::{TAGS_BYTES_MAX, TAGS_MAX};

/// A tag, and the queue time at which the task got it.
pub(crate) type StoredTag<'a> = (&'a str, u64);

/// The tags of a task: at least one, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TagsRow<'a> {
    pub(crate) tags: Vec<StoredTag<'a>>,
    pub(crate) extension: Extension,
}

impl<'a> TagsRow<'a> {
    pub(crate) fn encode(&self) -> Value {
        let mut row = Packer::new();
        row.u8(self.tags.len() as u8);
        for (tag, time) in &self.tags {
            row.u64(*time).short(tag);
        }
        self.extension.end_row(row)
    }

    pub(crate) fn decode(row: &'a [u8]) -> Option<Self> {
        let mut row = Unpacker::new(row);
        let count = usize::from(row.u8()?);
        let (mut tags, mut bytes): (Vec<StoredTag<'a>>, _) = (Vec::new(), 0);
        for _ in 0..count {
            let (time, tag) = (row.u64()?, row.short()?);
            if tag.is_empty() || tags.iter().any(|(other, _)| *other == tag) {
                return None;
            }
            bytes += tag.len();
            tags.push((tag, time));
        }
        let extension = Extension::of_rest(row)?;
        let fits = (1..=TAGS_MAX).contains(&count) && bytes <= TAGS_BYTES_MAX;
        fits.then_some(Self { tags, extension })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The exact bytes, which are on the disks of users.
    #[test]
    fn golden_tags() {
        let row = TagsRow { tags: vec![("red", 5), ("b", 3)], extension: Extension::EMPTY };
        let bytes = b"\x02\0\0\0\0\0\0\0\x05\x03red\0\0\0\0\0\0\0\x03\x01b";
        assert_eq!(*row.encode(), bytes[..]);
        assert_eq!(TagsRow::decode(bytes), Some(row));
        assert!((0..bytes.len()).all(|end| TagsRow::decode(&bytes[..end]).is_none()));
        let of = |tags: &[StoredTag<'_>]| {
            let row = TagsRow { tags: tags.to_vec(), extension: Extension::EMPTY }.encode();
            TagsRow::decode(&row).is_some()
        };
        assert!(!of(&[]) && !of(&[("", 1)]) && !of(&[("a", 1), ("a", 2)]));
        let many: Vec<String> = (0..=TAGS_MAX).map(|number| number.to_string()).collect();
        let many: Vec<StoredTag<'_>> = many.iter().map(|tag| (tag.as_str(), 1)).collect();
        assert!(of(&many[1..]) && !of(&many));
        let wide: Vec<String> = (0..17).map(|number| format!("{number:0>241}")).collect();
        let wide: Vec<StoredTag<'_>> = wide.iter().map(|tag| (tag.as_str(), 1)).collect();
        assert!(of(&wide[1..]) && !of(&wide), "4097 bytes");
    }
}
