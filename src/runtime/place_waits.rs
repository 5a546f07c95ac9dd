//! In which tubes puts wait for a place, as the tube is at its capacity. Other puts wait for bytes,
//! of which a task that comes from another tube needs none: it goes before those. Never decides who
//! is served, which is the order of `wake`.

use crate::words::sync::Mutex;
use std::collections::BTreeMap;

/// How many puts wait for a place in each tube.
#[derive(Default)]
pub(crate) struct PlaceWaits(Mutex<BTreeMap<u32, usize>>);

/// One put that waits, until it is dropped.
pub(crate) struct PlaceWait<'a> {
    all: &'a PlaceWaits,
    tube: u32,
    is_counted: bool,
}

impl PlaceWaits {
    pub(crate) fn begin(&self, tube: u32) -> PlaceWait<'_> {
        PlaceWait { all: self, tube, is_counted: false }
    }

    pub(crate) fn has(&self, tube: u32) -> bool {
        self.0.lock().contains_key(&tube)
    }
}

impl PlaceWait<'_> {
    /// Whether it is a place that it waits for.
    pub(crate) fn set(&mut self, is_for_place: bool) {
        if is_for_place == self.is_counted {
            return;
        }
        self.is_counted = is_for_place;
        let mut all = self.all.0.lock();
        let count = all.entry(self.tube).or_default();
        *count = if is_for_place { *count + 1 } else { count.saturating_sub(1) };
        if *count == 0 {
            all.remove(&self.tube);
        }
    }
}

impl Drop for PlaceWait<'_> {
    fn drop(&mut self) {
        self.set(false);
    }
}
