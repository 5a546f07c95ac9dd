//! What every handle and guard keeps: the running queue, and with it the folder. The last one to
//! go closes it.

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

/// What the builder said that concerns the handles only.
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
        // Inside another queue's transaction a close would be refused, and nobody would ask again.
        reentrancy::defer_until_outside(move || {
            // Nobody is left to hear of an error; opening again replays what was written.
            let _ = core.close();
            watchers.clear();
        });
    }
}
