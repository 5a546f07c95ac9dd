//! The merges of tubes that no call goes on with: a call has failed in the middle, or the process
//! of an earlier one ended. The timer goes on with them. Decides nothing.

use crate::engine::merge::MergePlace;
use crate::words::sync::Mutex;
use std::collections::BTreeMap;

/// By the tubes that are merged into others, and where each is.
#[derive(Default)]
pub(crate) struct LeftMerges(Mutex<BTreeMap<u32, MergePlace>>);

impl LeftMerges {
    /// Takes one of them out, the first after this tube. Who does not come to its end leaves it
    /// again.
    pub(crate) fn take_after(&self, tube: Option<u32>) -> Option<(u32, MergePlace)> {
        let mut left = self.0.lock();
        let first = tube.map_or(Some(0), |tube| tube.checked_add(1))?;
        let next = left.range(first..).next().map(|(tube, _)| *tube)?;
        left.remove_entry(&next)
    }

    /// The merge of this tube is left there.
    pub(crate) fn leave(&self, tube: u32, place: MergePlace) {
        self.0.lock().insert(tube, place);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }
}
