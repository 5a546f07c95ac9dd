//! Merges layers with the rows below them: finds the first live row of a range. It remembers the
//! ranges where it found only tombstones, so that no later scan walks over them again.

use super::dead_ranges::DeadRangesOf;
use super::layer::Layer;
use super::steps::step;
use crate::format::key::{Key, after, copy};
use crate::format::{Met, RowOp};
use crate::words::error::Result;

/// One or two layers over `below`, a function with the same contract as `first`.
pub(crate) struct MergeCursor<'a, Below> {
    pub(crate) upper: &'a Layer,
    pub(crate) lower: Option<&'a Layer>,
    /// The first live row with `from <= key < to` below the layers.
    pub(crate) below: Below,
}

impl<'a, Below: Fn(&[u8], &[u8]) -> Result<Option<Met>>> MergeCursor<'a, Below> {
    /// The first live row with `from <= key < to`; all keys between are of one tag. `dead` holds
    /// the known ranges without live rows and gets new ones. `is_empty` says whether the range is
    /// known to have no live row; it is called only when that matters.
    #[inline]
    pub(crate) fn first(
        &self,
        dead: &mut DeadRangesOf,
        (from, to): (&[u8], &[u8]),
        is_empty: impl FnOnce() -> bool,
    ) -> Result<Option<Met>> {
        step();
        let moved = dead.end_around(from);
        let at = moved.as_deref().unwrap_or(from);
        if at >= to {
            return Ok(None);
        }
        let above = self.first_above(at, to);
        let lives = above.is_some_and(|(_, op)| !op.is_remove());
        if !lives && is_empty() {
            return Ok(None);
        }
        // A row below is visible only before the first key of the layers.
        let met = match ((self.below)(at, above.map_or(to, |(key, _)| key))?, above) {
            (Some(below), _) => Some(below),
            (None, Some((_, RowOp::Remove))) => return self.walk(dead, from, to),
            (None, above) => above.and_then(living),
        };
        if let (Some(end), Some((found, _))) = (&moved, &met) {
            dead.extend(end, found);
        }
        Ok(met)
    }

    /// The first entry of the layers, possibly a tombstone.
    #[inline]
    fn first_above(&self, from: &[u8], to: &[u8]) -> Option<(&'a Key, &'a RowOp)> {
        let lower = self.lower.and_then(|lower| lower.first(from, to));
        match (self.upper.first(from, to), lower) {
            (Some(upper), Some(lower)) if lower.0 < upper.0 => Some(lower),
            (upper, lower) => upper.or(lower),
        }
    }

    /// The first live row after tombstones; remembers their range.
    fn walk(&self, dead: &mut DeadRangesOf, from: &[u8], to: &[u8]) -> Result<Option<Met>> {
        let mut at = Key::from_slice(from);
        let met = 'seek: loop {
            if let Some(end) = dead.end_around(&at) {
                at = end;
            }
            if at.as_slice() >= to {
                break None;
            }
            let mut upper = self.upper.range(&at, to).peekable();
            let lower = self.lower.into_iter();
            let mut lower = lower.flat_map(|lower| lower.range(&at, to)).peekable();
            let mut below = (self.below)(&at, to)?;
            loop {
                step();
                let (key, op) = match (upper.peek().copied(), lower.peek().copied()) {
                    (Some(upper), Some(lower)) if lower.0 < upper.0 => lower,
                    (Some(upper), _) => upper,
                    (None, Some(lower)) => lower,
                    (None, None) => break 'seek below,
                };
                if below.as_ref().is_some_and(|(found, _)| found < key) {
                    break 'seek below;
                }
                if let Some(met) = living((key, op)) {
                    break 'seek Some(met);
                }
                if dead.end_around(key).is_some() {
                    at = copy(key);
                    continue 'seek;
                }
                if below.as_ref().is_some_and(|(found, _)| found == key) {
                    below = (self.below)(&after(key), to)?;
                }
                upper.next_if(|(dead, _)| *dead == key);
                lower.next_if(|(dead, _)| *dead == key);
            }
        };
        dead.insert(from, met.as_ref().map_or(to, |(key, _)| key));
        Ok(met)
    }
}

fn living((key, op): (&Key, &RowOp)) -> Option<Met> {
    op.value().map(|value| (copy(key), Some(value.clone())))
}
