//! What every handle and guard shares: the running queue, and with it the folder. The drop of the
//! last one closes it.

use crate::api::callbacks::Callbacks;
use crate::api::placement::Placement;
use crate::runtime::activity::Activity;
use crate::runtime::reentrancy;
use crate::runtime::session_leases::SessionLeases;
use crate::runtime::shared::Shared;
use crate::words::durability::Durability;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::sync::{Arc, AtomicBool, Mutex, RwLock, Weak};
use std::collections::BTreeMap;

pub(crate) struct QueueInner {
    pub(crate) core: Arc<Shared>,
    pub(crate) placements: BTreeMap<String, Arc<dyn Placement>>,
    pub(crate) callbacks: Arc<Callbacks>,
    /// Held by a call that makes a tube, alone by one that sets the callback of the tube before.
    pub(crate) making: RwLock<()>,
    /// The open sessions by name, so that a second `consumer(name)` joins the first.
    pub(crate) sessions: Mutex<BTreeMap<String, Weak<Session>>>,
}

impl QueueInner {
    /// The queue's durability, for the handles that are made now.
    pub(crate) fn durability(&self) -> Durability {
        self.core.live.durability()
    }

    /// Refuses what is of another queue; `what` names it.
    pub(crate) fn ensure_owns(
        &self,
        other: &Arc<Self>,
        what: impl FnOnce() -> String,
    ) -> Result<()> {
        if std::ptr::eq(self, Arc::as_ptr(other)) {
            return Ok(());
        }
        let text = format!("{} is of another queue", what());
        Err(Error::new(ErrorKind::Invalid).because(text))
    }
}

/// The session of a consumer. The drop of its last handle ends it.
pub(crate) struct Session(pub(crate) Arc<Identity>);

/// What a session is known by. It outlives the session for as long as its end takes.
pub(crate) struct Identity {
    pub(crate) inner: Arc<QueueInner>,
    pub(crate) owner: LeaseOwner,
    pub(crate) closed: AtomicBool,
}

/// Who owns the leases of a session.
pub(crate) enum LeaseOwner {
    /// A consumer with rows.
    Named { name: String, number: u32, activity: Activity },
    /// The session itself.
    Nameless(SessionLeases),
}

impl Drop for QueueInner {
    fn drop(&mut self) {
        let (core, callbacks) = (self.core.clone(), self.callbacks.clone());
        // Inside another queue's transaction the close would be refused, and no later call would
        // close it.
        reentrancy::defer_until_outside(move || {
            // No caller can receive an error here. The next opening replays what was written.
            let _ = core.close();
            callbacks.clear();
        });
    }
}
