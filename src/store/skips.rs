//! Where only dead rows lie, so that no walk goes over them twice. Learnt from rows that were
//! applied, and cut where a row comes to life; it goes with the layers that hold the dead marks.
//! What a stretch says is true of the rows as they are seen, whichever layer hides them.

use super::overlay::TAGS;
use crate::bytes::key::{Key, after, copy};
use std::collections::BTreeMap;
use std::ops::Bound;

/// Stretches of a tag that are looked at when a layer goes. Mostly there is one for each end that
/// takes go from; where there are many, as with thousands of groups, each spares a short walk only,
/// and to ask of all whether they are needed would keep the callers waiting.
const KEPT: usize = 256;

/// Stretches without a living row, one set a tag.
#[derive(Clone, Default)]
pub(super) struct Skips([SkipsOf; TAGS]);

impl Skips {
    /// Every stretch there is.
    pub(super) fn all(&self) -> Vec<(Key, Key)> {
        self.0.iter().flat_map(|skips| skips.0.clone()).collect()
    }

    /// Keeps the stretches that are worth it; all of a tag go if they are many.
    pub(super) fn keep(&mut self, worth: impl Fn(&[u8], &[u8]) -> bool) {
        for skips in &mut self.0 {
            if skips.0.len() > KEPT {
                skips.0.clear();
            }
            skips.0.retain(|start, end| worth(start, end));
        }
    }

    pub(super) fn of(&mut self, tag: u8) -> Option<&mut SkipsOf> {
        self.0.get_mut(usize::from(tag))
    }
}

/// Start → end of stretches that neither overlap nor touch: none of the view's rows lies in them.
#[derive(Clone, Debug, Default)]
pub(super) struct SkipsOf(BTreeMap<Key, Key>);

impl SkipsOf {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The stretch that holds a key.
    fn around(&self, key: &[u8]) -> Option<(&Key, &Key)> {
        // Mostly there is one, at the end that takes go from.
        let (start, end) = match self.0.last_key_value()? {
            (start, end) if start.as_slice() <= key => (start, end),
            _ => {
                let before = (Bound::Unbounded, Bound::Included(key));
                self.0.range::<[u8], _>(before).next_back()?
            }
        };
        (key < end.as_slice()).then_some((start, end))
    }

    pub(super) fn end_around(&self, key: &[u8]) -> Option<Key> {
        self.around(key).map(|(_, end)| copy(end))
    }

    pub(super) fn learn(&mut self, from: &[u8], to: &[u8]) {
        if from >= to {
            return;
        }
        let (mut start, mut end) = (Key::from_slice(from), Key::from_slice(to));
        let before = (Bound::Unbounded, Bound::Included(from));
        if let Some((left, left_end)) = self.0.range::<[u8], _>(before).next_back()
            && left_end.as_slice() >= from
        {
            start = copy(left);
            if *left_end > end {
                end = copy(left_end);
            }
        }
        // Each stretch that goes here was learnt once, so this costs nothing in the long run.
        loop {
            let inside = (Bound::Included(start.as_slice()), Bound::Included(end.as_slice()));
            let Some((next, next_end)) = self.0.range::<[u8], _>(inside).next() else { break };
            if *next_end > end {
                end = copy(next_end);
            }
            let next = copy(next);
            self.0.remove(&next);
        }
        self.0.insert(start, end);
    }

    /// The stretch that ends at `end` goes on to `to`: nothing lives between. Takes from one end go
    /// on like this, row by row, where a walk over the dead ones would have to learn it.
    pub(super) fn stretch(&mut self, end: &[u8], to: &[u8]) {
        // Behind the last there is none that it could meet.
        if let Some(mut last) = self.0.last_entry()
            && last.key().as_slice() < end
        {
            if last.get().as_slice() == end {
                *last.get_mut() = Key::from_slice(to);
            }
            return;
        }
        let before = (Bound::Unbounded, Bound::Excluded(end));
        let Some((_, ends)) = self.0.range_mut::<[u8], _>(before).next_back() else { return };
        if ends.as_slice() != end {
            return;
        }
        *ends = Key::from_slice(to);
        let met = (Bound::Included(end), Bound::Included(to));
        if self.0.range::<[u8], _>(met).next().is_some() {
            self.learn(end, to);
        }
    }

    /// A row comes to life inside: what is left of the stretch stays where it still spares a walk.
    pub(super) fn cut(&mut self, key: &[u8], worth: impl Fn(&[u8], &[u8]) -> bool) {
        let Some((start, end)) = self.around(key) else { return };
        let (start, end) = (copy(start), copy(end));
        self.0.remove(&start);
        let next = after(key);
        if worth(&next, &end) {
            self.0.insert(next, end);
        }
        if worth(&start, key) {
            self.0.insert(start, Key::from_slice(key));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(skips: &SkipsOf) -> Vec<(u8, u8)> {
        skips.0.iter().map(|(from, to)| (from[0], to[0])).collect()
    }

    #[test]
    fn skips_merge_and_are_cut() {
        let mut skips = SkipsOf::default();
        skips.learn(&[1], &[3]);
        skips.learn(&[5], &[7]);
        assert_eq!(pairs(&skips), [(1, 3), (5, 7)]);
        skips.learn(&[3], &[5]);
        assert_eq!(pairs(&skips), [(1, 7)]);
        skips.learn(&[2], &[4]);
        skips.learn(&[4], &[4]);
        assert_eq!(pairs(&skips), [(1, 7)]);
        assert_eq!(skips.end_around(&[6, 6]).as_deref(), Some([7].as_slice()));
        assert_eq!(skips.end_around(&[7]), None);
        skips.cut(&[4], |_, _| true);
        assert_eq!(skips.end_around(&[4]), None);
        assert_eq!(skips.end_around(&[4, 0]).as_deref(), Some([7].as_slice()));
        assert_eq!(skips.end_around(&[3, 9]).as_deref(), Some([4].as_slice()));
        skips.cut(&[2], |_, _| false);
        assert_eq!(skips.end_around(&[1]), None);
        assert_eq!(skips.end_around(&[3]), None);
    }

    #[test]
    fn skips_go_on_from_their_end() {
        let mut skips = SkipsOf::default();
        skips.stretch(&[1], &[2]);
        assert_eq!(pairs(&skips), []);
        skips.learn(&[1], &[3]);
        skips.learn(&[6], &[8]);
        skips.stretch(&[2], &[4]);
        skips.stretch(&[4], &[5]);
        assert_eq!(pairs(&skips), [(1, 3), (6, 8)], "none ends there");
        skips.stretch(&[3], &[5]);
        assert_eq!(pairs(&skips), [(1, 5), (6, 8)]);
        skips.stretch(&[5], &[7]);
        assert_eq!(pairs(&skips), [(1, 8)], "what it meets is one with it");
    }

    #[test]
    fn skips_that_nobody_needs_go_with_the_layer() {
        let mut skips = Skips::default();
        let of = |skips: &mut Skips| pairs(skips.of(1).unwrap());
        skips.of(1).unwrap().learn(&[1], &[3]);
        skips.of(1).unwrap().learn(&[5], &[7]);
        skips.keep(|from, _| from == [5]);
        assert_eq!(of(&mut skips), [(5, 7)]);
        (0..=KEPT as u16).for_each(|at| {
            skips
                .of(2)
                .unwrap()
                .learn(&[&at.to_be_bytes()[..], &[1]].concat(), &(at + 1).to_be_bytes());
        });
        skips.keep(|_, _| true);
        assert_eq!(
            (of(&mut skips), skips.all().len()),
            (vec![(5, 7)], 1),
            "many of a tag go at once"
        );
    }
}
