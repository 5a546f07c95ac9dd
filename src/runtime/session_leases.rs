//! The leases of a session without a name, in memory: no row says who holds them. A session that
//! has ended never gets another one.

use crate::words::error::{Error, ErrorKind, Result};
use crate::words::sync::{Arc, Mutex};
use crate::words::task::{TaskId, Ticket};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// So many leases are kept before those that have ended are looked for.
const KEPT_MIN: usize = 1024;

/// The lease of a task, with the number of its tube.
pub(crate) type TubeLease = (u32, Ticket);

/// What a session holds; all clones are the same. A lease that ended without its guard, such as by
/// its ttr, stays until the next pruning. The lock is held for no op.
#[derive(Clone, Default)]
pub(crate) struct SessionLeases(Arc<Mutex<Leases>>);

#[derive(Default)]
struct Leases {
    /// By the tube and the task.
    tickets: BTreeMap<(u32, TaskId), Ticket>,
    /// Pruned when there are more.
    prune_above: usize,
    has_ended: bool,
}

impl SessionLeases {
    /// Adds a lease that has no session, and so none that may have ended.
    pub(crate) fn keep(&self, (tube, ticket): TubeLease) {
        self.0.lock().tickets.insert((tube, ticket.id), ticket);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().tickets.is_empty()
    }

    /// Adds a lease. Returns all if there are so many that those that have ended must be removed.
    ///
    /// # Errors
    /// `Closed` if the session has ended.
    pub(crate) fn add(&self, (tube, ticket): TubeLease) -> Result<Option<Vec<TubeLease>>> {
        let mut leases = self.0.lock();
        if leases.has_ended {
            return Err(closed());
        }
        leases.tickets.insert((tube, ticket.id), ticket);
        if leases.tickets.len() <= leases.prune_above.max(KEPT_MIN) {
            return Ok(None);
        }
        // By one thread at a time.
        leases.prune_above = usize::MAX;
        Ok(Some(leases.all()))
    }

    /// Removes leases that have ended.
    pub(crate) fn remove(&self, ended: &[TubeLease]) {
        let mut leases = self.0.lock();
        for (tube, ticket) in ended {
            // The task may have been taken again meanwhile.
            if let Entry::Occupied(lease) = leases.tickets.entry((*tube, ticket.id))
                && lease.get() == ticket
            {
                lease.remove();
            }
        }
    }

    /// All that have ended were removed.
    pub(crate) fn pruned(&self) {
        let mut leases = self.0.lock();
        leases.prune_above = 2 * leases.tickets.len();
    }

    /// Ends the session. Returns the leases that are left.
    pub(crate) fn end(&self) -> Vec<TubeLease> {
        let mut leases = self.0.lock();
        leases.has_ended = true;
        leases.all()
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Leases {
    /// By the tube.
    fn all(&self) -> Vec<TubeLease> {
        self.tickets.iter().map(|(&(tube, _), &ticket)| (tube, ticket)).collect()
    }
}

/// The refusal of a session that was closed.
pub(crate) fn closed() -> Error {
    Error::new(ErrorKind::Closed).because("the session was closed; begin another")
}
