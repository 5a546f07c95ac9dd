//! What every handle and guard shares: the running queue, and with it the folder. The drop of the
//! last one closes it.

use crate::api::callbacks::Watchers;
use crate::api::placement::Placement;
use crate::runtime::core::Core;
use crate::runtime::reentrancy;
use crate::words::options::Durability;
use crate::words::sync::{Arc, Mutex, Weak};
use std::any::Any;
use std::collections::BTreeMap;
use std::time::Duration;

pub(crate) struct QueueInner {
    core: Arc<Core>,
    pub(crate) settings: HandleSettings,
    pub(crate) watchers: Arc<Watchers>,
    /// The open sessions by name, so that a second `consumer(name)` joins the first.
    pub(crate) sessions: Mutex<BTreeMap<String, Weak<dyn Any + Send + Sync>>>,
}

/// The builder's options that only handles use.
pub(crate) struct HandleSettings {
    pub(crate) durability: Durability,
    pub(crate) payload_bytes_max: usize,
    pub(crate) session_grace: Duration,
    pub(crate) placements: BTreeMap<String, Arc<dyn Placement>>,
}

impl QueueInner {
    pub(crate) fn new(core: Arc<Core>, settings: HandleSettings) -> Arc<Self> {
        Arc::new(Self { core, settings, watchers: Arc::default(), sessions: Mutex::default() })
    }

    #[inline]
    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }
}

impl Drop for QueueInner {
    fn drop(&mut self) {
        let (core, watchers) = (self.core.clone(), self.watchers.clone());
        // Inside another queue's transaction the close would be refused, and no later call would
        // close it.
        reentrancy::defer_until_outside(move || {
            // No caller can receive an error here. The next opening replays what was written.
            let _ = core.close();
            watchers.clear();
        });
    }
}
