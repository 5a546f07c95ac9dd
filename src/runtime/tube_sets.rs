//! The sets of tubes that handles take from. They are in memory, protected by the engine's lock,
//! and follow the tubes that are made and dropped.

use crate::engine::effects::Effects;
use crate::engine::tube_set::{Choice, TubeOrder, TubeSet};
use crate::runtime::seats::{Seat, Seats};
use crate::words::sync::Arc;
use std::collections::BTreeMap;
use std::mem;

/// The sets by their numbers.
pub(crate) struct TubeSets {
    sets: BTreeMap<u32, KeptSet>,
    seats: Arc<Seats>,
}

struct KeptSet {
    set: TubeSet,
    /// If there is one, every tube with it is in the set; otherwise those of a list are.
    prefix: Option<Arc<PrefixedTubes>>,
}

/// All tubes whose names begin with a prefix, also those that are made later.
#[derive(Debug)]
pub(crate) struct PrefixedTubes {
    pub(crate) prefix: Box<str>,
    pub(crate) weights: NamedWeights,
}

/// The weights of tubes by their names.
#[derive(Debug)]
pub(crate) struct NamedWeights {
    pub(crate) named: BTreeMap<Box<str>, u32>,
    /// Of those that are not named.
    pub(crate) others: u32,
}

impl NamedWeights {
    /// One weight for all.
    pub(crate) const EQUAL: Self = Self { named: BTreeMap::new(), others: 1 };

    pub(crate) fn of(&self, name: &str) -> u32 {
        self.named.get(name).copied().unwrap_or(self.others)
    }
}

/// A tube of a list.
#[derive(Clone, Debug)]
pub(crate) struct ListedTube {
    pub(crate) tube: u32,
    pub(crate) name: Arc<str>,
    pub(crate) weight: u32,
}

impl TubeSets {
    pub(crate) fn new(seats: Arc<Seats>) -> Self {
        Self { sets: BTreeMap::new(), seats }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    /// Begins a set without tubes. Returns its number.
    pub(crate) fn begin(&mut self, choice: Choice, prefix: Option<&Arc<PrefixedTubes>>) -> u32 {
        let last = self.sets.last_key_value().map_or(0, |(last, _)| *last);
        let free = |number: &u32| !self.sets.contains_key(number);
        let number = last.checked_add(1).or_else(|| (0..u32::MAX).find(free)).unwrap_or(0);
        let kept = KeptSet { set: TubeSet::new(choice), prefix: prefix.cloned() };
        self.sets.insert(number, kept);
        number
    }

    /// Ends a set. Its tubes still have seats for it, and its number stays in use until it is
    /// [freed](Self::free): a set that began under it would lose its seats with them.
    pub(crate) fn end(&mut self, number: u32) -> Option<TubeSet> {
        let ended = KeptSet { set: TubeSet::new(Choice::InOrder), prefix: None };
        self.sets.get_mut(&number).map(|kept| mem::replace(kept, ended).set)
    }

    /// Frees the number of a set that has ended, after its seats are gone.
    pub(crate) fn free(&mut self, number: u32) {
        self.sets.remove(&number);
    }

    /// Adds a tube to a set.
    pub(crate) fn add(&mut self, number: u32, tube: u32, (order, weight): (TubeOrder, u32)) {
        if let Some(KeptSet { set, prefix }) = self.sets.get_mut(&number) {
            self.seats.add(tube, Seat { set: number, is_named: prefix.is_none() });
            set.add(tube, order, weight);
        }
    }

    /// The set of this number, also one without tubes.
    pub(crate) fn get(&self, number: u32) -> Option<&TubeSet> {
        self.sets.get(&number).map(|kept| &kept.set)
    }

    /// The same; `None` if all tubes of its list were dropped.
    pub(crate) fn usable(&self, number: u32) -> Option<&TubeSet> {
        let kept = self.sets.get(&number)?;
        (kept.prefix.is_some() || !kept.set.is_empty()).then_some(&kept.set)
    }

    /// Something became takeable in a tube.
    pub(crate) fn wake(&mut self, tube: u32) {
        for Seat { set, .. } in self.seats.of(tube) {
            if let Some(kept) = self.sets.get_mut(&set) {
                kept.set.wake(tube);
            }
        }
    }

    /// A tube was made: it comes into the sets that have its prefix.
    pub(crate) fn join(&mut self, tube: u32, name: &Arc<str>) {
        let weight = |kept: &KeptSet| {
            let prefixed = kept.prefix.as_ref().filter(|it| name.starts_with(&*it.prefix));
            prefixed.map(|it| it.weights.of(name))
        };
        let sets = self.sets.iter().filter_map(|(number, kept)| Some((*number, weight(kept)?)));
        for (number, weight) in sets.collect::<Vec<_>>() {
            self.add(number, tube, (TubeOrder { place: 0, name: name.clone() }, weight));
        }
    }

    /// A tube was dropped. Returns whether the list of a set has no tube any more.
    pub(crate) fn leave(&mut self, tube: u32) -> bool {
        let mut has_ended = false;
        for Seat { set: number, .. } in self.seats.remove_tube(tube) {
            if let Some(kept) = self.sets.get_mut(&number) {
                kept.set.remove(tube);
                has_ended |= self.usable(number).is_none();
            }
        }
        has_ended
    }

    /// Takes over what a take has seen.
    pub(crate) fn see(&mut self, effects: &mut Effects) {
        if let Some(looked) = effects.looked.take()
            && let Some(kept) = self.sets.get_mut(&looked.set)
        {
            kept.set.apply(*looked);
        }
    }

    /// Follows a commit: what a take has seen, and then what has become takeable since.
    #[cold]
    pub(crate) fn follow(&mut self, effects: &mut Effects) {
        self.see(effects);
        for (tube, _) in &effects.wakes {
            self.wake(*tube);
        }
    }
}
