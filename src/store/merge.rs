//! Writes rows in key order into the base's table: adjacent rows together, in one rewrite of the
//! pages that they share. Scattered rows are written one by one, because there it does not pay.

use super::tables::{Bytes, seal};
use crate::format::RowOp;
use crate::format::key::Key;
use redb::{CursorError, ReadableTable, Table};
use std::cmp::Ordering;
use std::iter::Peekable;
use std::ops::Bound;

/// For shorter runs a batch costs more than its rows one by one.
const WORTH_IT: usize = 4;
/// Rows that are written one by one after a failed batch attempt, at most.
const BACKOFF_MAX: usize = 64;

/// Decides whether to try a batch. Each failed attempt doubles the rows until the next one, so that
/// scattered rows cost little more than necessary.
struct RunProbe {
    /// Rows until the next attempt.
    wait: usize,
    /// The last value of `wait` after a failed attempt.
    backoff: usize,
}

impl RunProbe {
    const NEW: Self = Self { wait: 0, backoff: 1 };

    /// Whether to try at this row.
    fn tries(&mut self) -> bool {
        let tries = self.wait == 0;
        self.wait = self.wait.saturating_sub(1);
        tries
    }

    /// Notes how many rows an attempt has written.
    fn tried(&mut self, rows: usize) {
        if rows < WORTH_IT {
            self.backoff = (self.backoff * 2).min(BACKOFF_MAX);
            self.wait = self.backoff;
        } else {
            *self = Self::NEW;
        }
    }
}

/// Writes rows in key order, tombstones among them. Returns the last key written.
pub(super) fn merge<'a>(
    table: &mut Table<'_, Bytes, Bytes>,
    entries: impl Iterator<Item = (&'a Key, &'a RowOp)>,
) -> Result<Option<Key>, redb::Error> {
    let mut entries = entries.peekable();
    let (mut inserts, mut removals) = (RunProbe::NEW, RunProbe::NEW);
    let mut buffer = Vec::new();
    let mut last = None;
    while let Some((key, op)) = entries.peek().copied() {
        let before = last;
        match op.value() {
            Some(_) if inserts.tries() => {
                inserts.tried(insert_run(table, key, &mut entries, &mut last, &mut buffer)?);
            }
            None if removals.tries() => {
                removals.tried(remove_run(table, key, &mut entries, &mut last)?);
            }
            _ => {}
        }
        if last != before {
            continue;
        }
        match op.value() {
            Some(value) => drop(table.insert(key.as_slice(), seal(key, value, &mut buffer))?),
            None => drop(table.remove(key.as_slice())?),
        }
        last = Some(key);
        entries.next();
    }
    Ok(last.cloned())
}

/// Inserts new rows, from `first` on, that are all in one gap of the table. Returns how many, and
/// sets `last` to the last of them.
fn insert_run<'a>(
    table: &mut Table<'_, Bytes, Bytes>,
    first: &Key,
    entries: &mut Peekable<impl Iterator<Item = (&'a Key, &'a RowOp)>>,
    last: &mut Option<&'a Key>,
    buffer: &mut Vec<u8>,
) -> Result<usize, redb::Error> {
    let mut rows = 0;
    let mut gap = table.lower_bound_mut(Bound::Included(first.as_slice()))?;
    while let Some((key, RowOp::Add(value) | RowOp::Change(value))) = entries.peek().copied() {
        match gap.insert_before(key.as_slice(), seal(key, value, buffer)) {
            Ok(()) => {}
            // The table has this key, or a smaller one at which the gap ends.
            Err(CursorError::UnorderedKey) => break,
            Err(error) => return Err(error.into()),
        }
        rows += 1;
        *last = Some(key);
        entries.next();
    }
    gap.close()?;
    Ok(rows)
}

/// Removes rows, from `first` on, that are adjacent in the table. Returns how many, and sets `last`
/// to the last tombstone that is done: those without a row in the table are done as well.
fn remove_run<'a>(
    table: &mut Table<'_, Bytes, Bytes>,
    first: &Key,
    entries: &mut Peekable<impl Iterator<Item = (&'a Key, &'a RowOp)>>,
    last: &mut Option<&'a Key>,
) -> Result<usize, redb::Error> {
    let mut removed = 0;
    let mut found: Option<(&Key, &Key)> = None;
    let mut rows = table.range::<&[u8]>(first.as_slice()..)?;
    let mut met = rows.next().transpose()?;
    while let Some((key, RowOp::Remove)) = entries.peek().copied() {
        match met.as_ref().map(|(met, _)| met.value().cmp(key.as_slice())) {
            // The table has a live row before it.
            Some(Ordering::Less) => break,
            Some(Ordering::Equal) => {
                found = Some((found.map_or(key, |(first, _)| first), key));
                removed += 1;
                met = rows.next().transpose()?;
            }
            _ => {}
        }
        *last = Some(key);
        entries.next();
    }
    drop((met, rows));
    match found {
        Some((first, last)) if first == last => drop(table.remove(first.as_slice())?),
        Some((first, last)) => {
            table.retain_in::<&[u8], _>(first.as_slice()..=last.as_slice(), |_, _| false)?;
        }
        None => {}
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::super::tables::{ROWS, unseal};
    use super::*;
    use crate::format::Value;
    use redb::Database;
    use redb::backends::InMemoryBackend;
    use std::collections::BTreeMap;

    /// Layers of long and short ranges, of new, changed and removed rows, some of which the table
    /// never had, one after the other: the table equals a map.
    #[test]
    fn the_table_equals_a_map_after_each_merge() {
        let db = Database::builder().create_with_backend(InMemoryBackend::new()).unwrap();
        let mut model: BTreeMap<Key, Value> = BTreeMap::new();
        let mut random = 1u64;
        let mut below = |most: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % most
        };
        for round in 0..300 {
            let mut layer: BTreeMap<Key, RowOp> = BTreeMap::new();
            for _ in 0..=below(6) {
                let (from, step) = (below(4000), 1 + below(3) * below(9));
                let (rows, dead) = (below(if round % 2 == 0 { 8 } else { 300 }), below(2) == 0);
                for number in (from..).step_by(step as usize).take(rows as usize) {
                    let key = Key::from_slice(&number.to_be_bytes());
                    let value = Value::from(vec![round as u8; below(600) as usize].as_slice());
                    layer.insert(key, if dead { RowOp::Remove } else { RowOp::Change(value) });
                }
            }
            let txn = db.begin_write().unwrap();
            let last = merge(&mut txn.open_table(ROWS).unwrap(), layer.iter()).unwrap();
            assert_eq!(last.as_ref(), layer.keys().next_back());
            txn.commit().unwrap();
            for (key, op) in layer {
                match op.into_value() {
                    Some(value) => drop(model.insert(key, value)),
                    None => drop(model.remove(&key)),
                }
            }
            let txn = db.begin_write().unwrap();
            let table = txn.open_table(ROWS).unwrap();
            let rows: Vec<_> = table.range::<&[u8]>(..).unwrap().map(Result::unwrap).collect();
            assert_eq!(rows.len(), model.len(), "round {round}");
            for ((key, sealed), (expected, value)) in rows.iter().zip(&model) {
                assert_eq!(key.value(), expected.as_slice(), "round {round}");
                assert_eq!(unseal(key.value(), sealed.value()), Some(&**value), "round {round}");
            }
        }
    }
}
