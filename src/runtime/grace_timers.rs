//! The sessions that have ended: until the end of their grace their leases may be resumed, after it
//! they return. Also those whose end the disk has refused, which is tried again. This list is in
//! memory only, and an opening makes it again from the rows.

use crate::engine::consumers::{LeasePlace, Leaving};
use crate::runtime::session_leases::{SessionLeases, TubeLease};
use crate::words::clock::NEVER;
use crate::words::sync::{AtomicBool, AtomicU64, Mutex, MutexGuard, Ordering};

/// Consumers whose sessions are to end as soon as the disk takes it.
pub(crate) type Refused = Vec<(u32, Leaving)>;

/// The graces of the sessions that have ended.
pub(crate) struct GraceTimers {
    waiting: Mutex<Vec<Grace>>,
    /// Sessions without a name, and so without a grace, whose leases have not all returned.
    nameless: Mutex<Vec<SessionLeases>>,
    /// Leases whose guard's drop was refused: those whose attempts do not count, then the others.
    guards: [SessionLeases; 2],
    refused: Mutex<Refused>,
    /// Whether there is any of them, so that a change of `waiting` does not take their lock.
    has_refused: AtomicBool,
    /// Lease time at which the first grace ends, or [`NEVER`], so that a check costs one load.
    next: AtomicU64,
    /// Lease time before which no op tries again to return leases that a full disk has refused.
    put_off: AtomicU64,
}

/// The grace of one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grace {
    pub(crate) consumer: u32,
    /// The number that the end of the session drew. It distinguishes this session from later ones.
    pub(crate) left: u64,
    /// Lease time of the end of the grace.
    pub(crate) until: u64,
    /// Where the return of the leases continues.
    pub(crate) from: LeasePlace,
}

impl Grace {
    fn is_of_session(&self, other: &Self) -> bool {
        (self.consumer, self.left) == (other.consumer, other.left)
    }
}

impl Default for GraceTimers {
    fn default() -> Self {
        let (next, put_off) = (AtomicU64::new(NEVER), AtomicU64::new(0));
        let (waiting, nameless, guards, refused, has_refused) = Default::default();
        Self { waiting, nameless, guards, refused, has_refused, next, put_off }
    }
}

impl GraceTimers {
    /// Lease time at which the next grace ends; 0 if something is to return at once.
    pub(crate) fn next(&self) -> u64 {
        self.next.load(Ordering::Acquire)
    }

    /// Lease time at which the next grace ends that is not over now, or [`NEVER`].
    pub(crate) fn next_after(&self, now: u64) -> u64 {
        let waiting = self.waiting.lock();
        waiting.iter().map(|grace| grace.until).filter(|until| *until > now).min().unwrap_or(NEVER)
    }

    pub(crate) fn insert(&self, grace: Grace) {
        self.change(|waiting| waiting.push(grace));
    }

    pub(crate) fn insert_nameless(&self, leases: &SessionLeases) {
        self.nameless.lock().push(leases.clone());
        self.change(|_| ());
    }

    pub(crate) fn remove_nameless(&self, leases: &SessionLeases) {
        self.nameless.lock().retain(|ended| !ended.is_same(leases));
        self.change(|_| ());
    }

    pub(crate) fn insert_guard(&self, lease: TubeLease, is_charged: bool) {
        let [uncharged, charged] = &self.guards;
        if is_charged {
            charged.keep(lease)
        } else {
            uncharged.keep(lease)
        }
        self.change(|_| ());
    }

    /// The leases without a named consumer that have not all returned, and whether their attempts
    /// count.
    pub(crate) fn nameless(&self) -> Vec<(SessionLeases, bool)> {
        let [uncharged, charged] = &self.guards;
        let guards = [(uncharged, false), (charged, true)].into_iter();
        let guards = guards.filter(|(leases, _)| !leases.is_empty());
        let sessions = self.nameless.lock().clone().into_iter().map(|leases| (leases, true));
        sessions.chain(guards.map(|(leases, is_charged)| (leases.clone(), is_charged))).collect()
    }

    /// Whether nothing is left to do of the end of a session.
    pub(crate) fn has_ended(&self, consumer: u32, now: u64) -> bool {
        let is_over = |grace: &Grace| grace.consumer == consumer && grace.until <= now;
        !self.refused.lock().iter().any(|(refused, _)| *refused == consumer)
            && !self.waiting.lock().iter().any(is_over)
    }

    /// The sessions whose end the disk has refused. Held from an op that ends one of them until its
    /// grace is noted, so that no session of its consumer begins meanwhile. After a change
    /// [`note_refused`](Self::note_refused) is called.
    pub(crate) fn refused(&self) -> MutexGuard<'_, Refused> {
        self.refused.lock()
    }

    /// The same if there is any, and if no other thread is at it.
    pub(crate) fn try_refused(&self) -> Option<MutexGuard<'_, Refused>> {
        self.has_refused.load(Ordering::Relaxed).then(|| self.refused.try_lock()).flatten()
    }

    pub(crate) fn note_refused(&self, refused: &Refused) {
        self.has_refused.store(!refused.is_empty(), Ordering::Relaxed);
        self.change(|_| ());
    }

    /// A full disk has refused the return of leases: no op tries it again before this lease time.
    pub(crate) fn put_off(&self, until: u64) {
        self.put_off.store(until, Ordering::Relaxed);
    }

    pub(crate) fn is_put_off(&self, now: u64) -> bool {
        now < self.put_off.load(Ordering::Relaxed)
    }

    /// The consumer was opened again.
    pub(crate) fn forget(&self, consumer: u32) {
        self.change(|waiting| waiting.retain(|grace| grace.consumer != consumer));
    }

    /// The leases of this session have returned.
    pub(crate) fn remove(&self, ended: Grace) {
        self.change(|waiting| waiting.retain(|grace| !grace.is_of_session(&ended)));
    }

    /// The leases of this session have returned, and its consumer is remembered until this time.
    pub(crate) fn postpone(&self, session: Grace, until: u64) {
        self.change(|waiting| {
            for grace in waiting.iter_mut().filter(|grace| grace.is_of_session(&session)) {
                grace.until = grace.until.max(until);
            }
        });
    }

    /// The leases of this session before `from` have returned.
    pub(crate) fn advance(&self, session: Grace, from: LeasePlace) {
        for grace in self.waiting.lock().iter_mut().filter(|grace| grace.is_of_session(&session)) {
            // Another thread may have got further.
            grace.from = grace.from.max(from);
        }
    }

    /// The graces that are over. They stay in the list until `remove`, so that concurrent calls
    /// also return their leases before they go on.
    pub(crate) fn expired(&self, now: u64) -> Vec<Grace> {
        if now < self.next() {
            return Vec::new();
        }
        self.waiting.lock().iter().filter(|grace| grace.until <= now).copied().collect()
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Grace>)) {
        let mut waiting = self.waiting.lock();
        change(&mut waiting);
        let is_at_once = self.has_refused.load(Ordering::Relaxed)
            || !self.nameless.lock().is_empty()
            || self.guards.iter().any(|leases| !leases.is_empty());
        let next = match is_at_once {
            true => 0,
            false => waiting.iter().map(|grace| grace.until).min().unwrap_or(NEVER),
        };
        self.next.store(next, Ordering::Release);
    }
}
