//! The row writes of a draft: one a key, in key order. A sorted vector while they are few, as they
//! are for every single verb, and a map once they are many. It reads nothing and writes nothing.

use crate::bytes::key::{Key, Range};
use crate::bytes::{RowOp, RowWrite};
use std::collections::BTreeMap;
use std::ops::Bound;

/// Up to as many rows a search in a vector, and making room in it, is quicker than a map.
const FEW: usize = 32;
/// Rows, or steps, whose memory is kept for the next list.
pub(crate) const KEPT: usize = 1024;

#[derive(Debug, Default)]
pub(crate) struct List {
    /// Empty once there are many.
    few: Vec<RowWrite>,
    many: Option<Many>,
}

#[derive(Debug, Default)]
struct Many {
    rows: BTreeMap<Key, RowOp>,
    /// How many rows more or fewer, by range.
    moved: Vec<(Range, i64)>,
}

/// How many rows more there are by this write.
fn moves(op: &RowOp) -> i64 {
    match op {
        RowOp::Add(_) => 1,
        RowOp::Change(_) => 0,
        RowOp::Remove => -1,
    }
}

impl Many {
    #[inline]
    fn write(&mut self, key: Key, op: RowOp) {
        if let (Some(range), by @ (1 | -1)) = (Range::holding(&key), moves(&op)) {
            match self.moved.iter_mut().find(|(moved, _)| *moved == range) {
                Some((_, count)) => *count += by,
                None => self.moved.push((range, by)),
            }
        }
        match self.rows.get_mut(&key) {
            None => drop(self.rows.insert(key, op)),
            Some(earlier) => match over(earlier, op) {
                Some(op) => *earlier = op,
                None => drop(self.rows.remove(&key)),
            },
        }
    }
}

impl List {
    /// Forgets the writes, and keeps the memory of a short list.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.few.clear();
        self.few.shrink_to(KEPT);
        self.many = None;
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.few.is_empty() && self.many.as_ref().is_none_or(|many| many.rows.is_empty())
    }

    #[inline]
    fn find(&self, key: &[u8]) -> Result<usize, usize> {
        self.few.binary_search_by(|write| write.key.as_slice().cmp(key))
    }

    #[inline]
    pub(crate) fn get(&self, key: &[u8]) -> Option<&RowOp> {
        if let Some(many) = &self.many {
            return many.rows.get(key);
        }
        let at = self.find(key).ok()?;
        self.few.get(at).map(|write| &write.op)
    }

    /// The first row with `from <= key < to` that is there once the list is carried out.
    #[inline]
    pub(crate) fn first<'a>(&'a self, from: &[u8], to: &[u8]) -> Option<(&'a Key, &'a RowOp)> {
        let lives = |op: &RowOp| !matches!(op, RowOp::Remove);
        if from >= to {
            return None;
        }
        if let Some(many) = &self.many {
            let bounds = (Bound::Included(from), Bound::Excluded(to));
            return many.rows.range::<[u8], _>(bounds).find(|(_, op)| lives(op));
        }
        let at = self.find(from).unwrap_or_else(|at| at);
        let behind = self.few.get(at..).unwrap_or_default().iter();
        let mut inside = behind.take_while(|write| write.key.as_slice() < to);
        inside.find(|write| lives(&write.op)).map(|write| (&write.key, &write.op))
    }

    /// How many rows more or fewer a range has once the list is carried out.
    #[inline]
    pub(crate) fn moved(&self, range: Range) -> i64 {
        if let Some(many) = &self.many {
            let moved = many.moved.iter().find(|(moved, _)| *moved == range);
            return moved.map_or(0, |(_, count)| *count);
        }
        let inside = |write: &&RowWrite| Range::holding(&write.key) == Some(range);
        self.few.iter().filter(inside).map(|write| moves(&write.op)).sum()
    }

    /// Adds a write, over an earlier one of the same key.
    #[inline]
    pub(crate) fn write(&mut self, key: Key, op: RowOp) {
        let is_last = self.few.last().is_none_or(|last| last.key.as_slice() < key.as_slice());
        if is_last && self.few.len() < FEW && self.many.is_none() {
            self.few.push(RowWrite { key, op });
        } else {
            self.write_between(key, op);
        }
    }

    /// Adds a write that is not the last of a few.
    fn write_between(&mut self, key: Key, op: RowOp) {
        if let Some(many) = &mut self.many {
            return many.write(key, op);
        }
        match self.find(&key) {
            Err(at) => self.few.insert(at, RowWrite { key, op }),
            Ok(at) => {
                let Some(earlier) = self.few.get_mut(at) else { return };
                match over(&earlier.op, op) {
                    Some(op) => earlier.op = op,
                    None => drop(self.few.remove(at)),
                }
            }
        }
        if self.few.len() > FEW {
            let mut many = Many::default();
            self.few.drain(..).for_each(|write| many.write(write.key, write.op));
            self.many = Some(many);
        }
    }

    /// All writes, in key order. Nothing is added to a list that was looked at like this.
    #[inline]
    pub(crate) fn writes(&mut self) -> &mut Vec<RowWrite> {
        if let Some(many) = self.many.take() {
            self.few.extend(many.rows.into_iter().map(|(key, op)| RowWrite { key, op }));
        }
        &mut self.few
    }
}

/// Two writes of one key as one. `None` if the row was made and unmade.
fn over(earlier: &RowOp, later: RowOp) -> Option<RowOp> {
    match (earlier, later) {
        (RowOp::Add(_), RowOp::Remove) => None,
        (RowOp::Add(_), RowOp::Change(value)) => Some(RowOp::Add(value)),
        (RowOp::Remove, RowOp::Add(value)) => Some(RowOp::Change(value)),
        (earlier, later) => {
            debug_assert!(
                matches!((earlier, &later), (RowOp::Change(_), RowOp::Change(_) | RowOp::Remove)),
                "a row was written without having been read"
            );
            Some(later)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::Value;

    fn key(number: u8) -> Key {
        Key::from_slice(&[0x10, 0, 0, 0, 1, number])
    }

    /// Whatever is written, in whatever order: few rows and many answer alike.
    #[test]
    fn a_long_list_is_a_short_one_with_more_rows() {
        let mut short = List::default();
        let mut long = List::default();
        for far in 100..=100 + FEW as u8 {
            long.write(key(far), RowOp::Remove);
        }
        let value = |byte| Value::from([byte]);
        let steps = [
            (9, RowOp::Add(value(1))),
            (3, RowOp::Change(value(2))),
            (5, RowOp::Remove),
            (9, RowOp::Change(value(3))),
            (5, RowOp::Add(value(4))),
            (3, RowOp::Remove),
            (7, RowOp::Add(value(5))),
            (7, RowOp::Remove),
        ];
        for (number, op) in steps {
            short.write(key(number), op.clone());
            long.write(key(number), op);
            for number in 0..12 {
                let (from, to) = (key(number), key(12));
                assert_eq!(short.get(&from), long.get(&from));
                assert_eq!(short.first(&from, &to), long.first(&from, &to));
                assert_eq!(short.first(&to, &from), None);
            }
        }
        let written = short.writes();
        let near = long.writes().iter().filter(|write| write.key < key(100)).cloned();
        assert_eq!(*written, near.collect::<Vec<_>>());
        assert_eq!(
            *written,
            [
                RowWrite { key: key(3), op: RowOp::Remove },
                RowWrite { key: key(5), op: RowOp::Change(value(4)) },
                RowWrite { key: key(9), op: RowOp::Add(value(3)) },
            ]
        );
    }
}
