//! The merges of tubes that no call goes on with: a call has failed in the middle, or the process
//! of an earlier one ended. The timer goes on with them. Decides nothing.

use crate::engine::merge::MergePlace;
use crate::words::sync::Mutex;
use std::collections::BTreeMap;

/// By the tubes that are merged into others, and where each is.
#[derive(Default)]
pub(crate) struct LeftMerges(Mutex<BTreeMap<u32, MergePlace>>);

impl LeftMerges {
    /// One of them.
    pub(crate) fn first(&self) -> Option<(u32, MergePlace)> {
        self.0.lock().first_key_value().map(|(tube, place)| (*tube, place.clone()))
    }

    /// The merge of this tube is left there; `None`: it has ended.
    pub(crate) fn set(&self, tube: u32, place: Option<MergePlace>) {
        let mut left = self.0.lock();
        match place {
            Some(place) => _ = left.insert(tube, place),
            None => _ = left.remove(&tube),
        }
    }
}
