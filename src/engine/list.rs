//! The row writes of a draft: one a key, in key order. A sorted vector while they are few, as they
//! are for every single verb; once they are many, one for each tag, since a batch writes the rows
//! of a tag in order, and a map where it does not. It reads nothing and writes nothing.

use crate::bytes::key::{Key, Range};
use crate::bytes::{RowOp, RowWrite};
use std::collections::BTreeMap;
use std::ops::Bound;

/// Up to as many rows a search in a vector, and making room in it, is quicker than a map.
const FEW: usize = 32;
/// Rows whose memory is kept for the next list.
const KEPT: usize = 1024;

#[derive(Debug, Default)]
pub(crate) struct List {
    /// Empty once there are many.
    few: Vec<RowWrite>,
    many: Option<Many>,
}

#[derive(Debug, Default)]
struct Many {
    by_tag: Vec<(u8, Tagged)>,
    /// How many rows more or fewer, by range.
    moved: Vec<(Range, i64)>,
}

/// The writes of one tag.
#[derive(Debug)]
enum Tagged {
    /// As they came, which was in order.
    InOrder(Vec<RowWrite>),
    Mixed(BTreeMap<Key, RowOp>),
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
    fn tagged(&self, key: &[u8]) -> Option<&Tagged> {
        let tag = key.first()?;
        self.by_tag.iter().find(|(own, _)| own == tag).map(|(_, tagged)| tagged)
    }

    #[inline]
    fn write(&mut self, key: Key, op: RowOp) {
        if let (Some(range), by @ (1 | -1)) = (Range::holding(&key), moves(&op)) {
            match self.moved.iter_mut().find(|(moved, _)| *moved == range) {
                Some((_, count)) => *count += by,
                None => self.moved.push((range, by)),
            }
        }
        let tag = key.first().copied().unwrap_or_default();
        match self.by_tag.iter_mut().find(|(own, _)| *own == tag) {
            Some((_, tagged)) => tagged.write(key, op),
            None => self.by_tag.push((tag, Tagged::InOrder(vec![RowWrite { key, op }]))),
        }
    }

    /// Puts all writes into a list, in key order.
    fn empty_into(mut self, writes: &mut Vec<RowWrite>) {
        self.by_tag.sort_unstable_by_key(|(tag, _)| *tag);
        for (_, tagged) in self.by_tag {
            match tagged {
                Tagged::InOrder(rows) => writes.extend(rows),
                Tagged::Mixed(rows) => {
                    writes.extend(rows.into_iter().map(|(key, op)| RowWrite { key, op }));
                }
            }
        }
    }
}

impl Tagged {
    fn is_empty(&self) -> bool {
        match self {
            Self::InOrder(rows) => rows.is_empty(),
            Self::Mixed(rows) => rows.is_empty(),
        }
    }

    #[inline]
    fn get(&self, key: &[u8]) -> Option<&RowOp> {
        match self {
            Self::InOrder(rows) => get(rows, key),
            Self::Mixed(rows) => rows.get(key),
        }
    }

    #[inline]
    fn first<'a>(&'a self, from: &[u8], to: &[u8]) -> Option<(&'a Key, &'a RowOp)> {
        match self {
            Self::InOrder(rows) => first(rows, from, to),
            Self::Mixed(rows) => {
                let bounds = (Bound::Included(from), Bound::Excluded(to));
                rows.range::<[u8], _>(bounds).find(|(_, op)| lives(op))
            }
        }
    }

    #[inline]
    fn write(&mut self, key: Key, op: RowOp) {
        match self {
            Self::InOrder(rows) if rows.last().is_none_or(|last| last.key < key) => {
                rows.push(RowWrite { key, op });
            }
            _ => self.write_between(key, op),
        }
    }

    /// Adds a write that is not the last.
    fn write_between(&mut self, key: Key, op: RowOp) {
        if let Self::InOrder(rows) = self {
            if let Ok(at) = find(rows, &key)
                && let Some(earlier) = rows.get_mut(at)
                && let Some(op) = over(&earlier.op, op.clone())
            {
                earlier.op = op;
                return;
            }
            let rows = std::mem::take(rows).into_iter();
            *self = Self::Mixed(rows.map(|write| (write.key, write.op)).collect());
        }
        let Self::Mixed(rows) = self else { return };
        match rows.get_mut(&key) {
            None => drop(rows.insert(key, op)),
            Some(earlier) => match over(earlier, op) {
                Some(op) => *earlier = op,
                None => drop(rows.remove(&key)),
            },
        }
    }
}

/// Where a key stands among sorted writes: mostly behind them, since verbs go on in order.
#[inline]
fn find(rows: &[RowWrite], key: &[u8]) -> Result<usize, usize> {
    if rows.last().is_some_and(|last| last.key.as_slice() < key) {
        return Err(rows.len());
    }
    rows.binary_search_by(|write| write.key.as_slice().cmp(key))
}

#[inline]
fn get<'a>(rows: &'a [RowWrite], key: &[u8]) -> Option<&'a RowOp> {
    rows.get(find(rows, key).ok()?).map(|write| &write.op)
}

/// The first with `from <= key < to` that leaves a row behind.
#[inline]
fn first<'a>(rows: &'a [RowWrite], from: &[u8], to: &[u8]) -> Option<(&'a Key, &'a RowOp)> {
    let at = find(rows, from).unwrap_or_else(|at| at);
    let behind = rows.get(at..).unwrap_or_default().iter();
    let mut inside = behind.take_while(|write| write.key.as_slice() < to);
    inside.find(|write| lives(&write.op)).map(|write| (&write.key, &write.op))
}

fn lives(op: &RowOp) -> bool {
    !matches!(op, RowOp::Remove)
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
        self.few.is_empty()
            && self.many.as_ref().is_none_or(|many| many.by_tag.iter().all(|(_, it)| it.is_empty()))
    }

    #[inline]
    pub(crate) fn get(&self, key: &[u8]) -> Option<&RowOp> {
        match &self.many {
            Some(many) => many.tagged(key)?.get(key),
            None => get(&self.few, key),
        }
    }

    /// The first row with `from <= key < to`, between which all keys are of one tag, that is there
    /// once the list is carried out.
    #[inline]
    pub(crate) fn first<'a>(&'a self, from: &[u8], to: &[u8]) -> Option<(&'a Key, &'a RowOp)> {
        if from >= to {
            return None;
        }
        let is_one_tag = |tag: &u8| *to <= [tag.saturating_add(1)][..];
        debug_assert!(from.first().is_some_and(is_one_tag), "a walk from tag to tag");
        match &self.many {
            Some(many) => many.tagged(from)?.first(from, to),
            None => first(&self.few, from, to),
        }
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
        match find(&self.few, &key) {
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
            many.empty_into(&mut self.few);
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

    fn key(tag: u8, number: u8) -> Key {
        Key::from_slice(&[tag, 0, 0, 0, 1, number])
    }

    fn value(byte: u8) -> Value {
        Value::from([byte])
    }

    /// A list that is long by rows of this tag.
    fn long_by(tag: u8) -> List {
        let mut long = List::default();
        (100..=100 + FEW as u8).for_each(|far| long.write(key(tag, far), RowOp::Remove));
        long
    }

    fn near(list: &mut List) -> Vec<RowWrite> {
        let (from, to) = (key(0x10, 0), key(0x10, 100));
        let writes = list.writes().iter();
        assert!(writes.clone().is_sorted_by(|a, b| a.key < b.key));
        writes.filter(|write| (&from..&to).contains(&&write.key)).cloned().collect()
    }

    /// Whatever is written, in order or not: few rows, many of a tag and many of another answer
    /// alike.
    #[test]
    fn a_long_list_is_a_short_one_with_more_rows() {
        let mut state = 1_u64;
        let mut draw = |limit: u8| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            ((state >> 33) % u64::from(limit)) as u8
        };
        for round in 0..250 {
            let mut there: Vec<bool> = (0..20).map(|_| draw(2) == 0).collect();
            let mut lists = [List::default(), long_by(0x10), long_by(0x03), long_by(0x12)];
            let mut next = 0;
            for _ in 0..30 {
                // Some lists are written in order, some nearly, some not at all.
                next = if draw(3) < round % 3 { draw(20) } else { (next + draw(2)).min(19) };
                let is_there = &mut there[usize::from(next)];
                let op = match (*is_there, draw(2)) {
                    (false, _) => RowOp::Add(value(draw(200))),
                    (true, 0) => RowOp::Change(value(draw(200))),
                    (true, _) => RowOp::Remove,
                };
                *is_there = !matches!(op, RowOp::Remove);
                lists.iter_mut().for_each(|list| list.write(key(0x10, next), op.clone()));
                let [short, long @ ..] = &lists;
                for number in 0..20 {
                    let (from, to) = (key(0x10, number), key(0x10, 20));
                    for long in long {
                        assert!(!long.is_empty());
                        assert_eq!(short.get(&from), long.get(&from));
                        assert_eq!(short.first(&from, &to), long.first(&from, &to));
                        assert_eq!(long.first(&to, &from), None);
                    }
                }
            }
            let [mut short, mut long @ ..] = lists;
            let range = Range::holding(&key(0x10, 0)).unwrap();
            for long in &mut long {
                let far =
                    long_by(0x10).moved(range) * i64::from(long.get(&key(0x10, 100)).is_some());
                assert_eq!(short.moved(range), long.moved(range) - far, "round {round}");
                assert_eq!(near(&mut short), near(long), "round {round}");
            }
        }
    }

    #[test]
    fn a_long_list_that_was_made_and_unmade_is_empty() {
        let mut list = List::default();
        let all = || (0..100).map(|number| key(0x10 + number % 3, number));
        all().for_each(|key| list.write(key, RowOp::Add(value(1))));
        assert!(!list.is_empty());
        all().for_each(|key| list.write(key, RowOp::Remove));
        assert!(list.is_empty() && list.writes().is_empty());
    }

    #[test]
    fn two_writes_of_a_key_are_one() {
        for mut list in [List::default(), long_by(0x10), long_by(0x12)] {
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
            steps.into_iter().for_each(|(number, op)| list.write(key(0x10, number), op));
            assert_eq!(
                near(&mut list),
                [
                    RowWrite { key: key(0x10, 3), op: RowOp::Remove },
                    RowWrite { key: key(0x10, 5), op: RowOp::Change(value(4)) },
                    RowWrite { key: key(0x10, 9), op: RowOp::Add(value(3)) },
                ]
            );
        }
    }
}
