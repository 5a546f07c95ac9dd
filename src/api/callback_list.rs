//! The callbacks of a queue, in the order of their registration, and which of them an event
//! reaches. The callback of a tube is one whose filter is the tasks of that tube.

use crate::runtime::event_filter::EventFilter;
use crate::runtime::events::{Event, EventSelector, Interest};
use crate::words::macros::debug;
use crate::words::sync::{Arc, AtomicU64, Mutex, Ordering};
use crate::words::task::Cause;
use std::collections::{BTreeMap, VecDeque};

/// The callback of one tube, as [`Tube::on_task_change`](crate::Tube::on_task_change) returns it
/// after another has replaced it. [`Tube::set_callback`](crate::Tube::set_callback) sets it again.
#[must_use = "if it is dropped, what it has captured is dropped"]
#[derive(Clone)]
pub struct Callback {
    call: Arc<dyn Fn(&Event) + Send + Sync>,
    /// What it receives of its events.
    pub(crate) interest: Interest,
}

impl Callback {
    pub(crate) fn new(call: impl Fn(&Event) + Send + Sync + 'static, interest: Interest) -> Self {
        Self { call: Arc::new(call), interest }
    }

    /// Whether it is the same, not an equal one.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.call, &other.call)
    }
}

/// A callback in the list.
pub(crate) struct ListedCallback {
    /// Its place in the order, from 1.
    pub(crate) number: u64,
    /// The last event before it was registered.
    since: u64,
    /// The drop of its tube, which ends it; the greatest number before.
    until: AtomicU64,
    filter: EventFilter,
    callback: Callback,
    /// Whether it is the one that its tube has, of which there is one.
    is_of_tube: bool,
}

impl ListedCallback {
    fn receives(&self, event: &Event) -> bool {
        event.seq > self.since && event.seq <= self.until() && self.filter.passes(event)
    }

    /// Changes under the lock of the list.
    fn until(&self) -> u64 {
        self.until.load(Ordering::Relaxed)
    }

    pub(crate) fn call(&self, event: &Event) {
        let Callback { call, interest } = &self.callback;
        if *interest == Interest::Payload || event.payload().is_none() {
            call(event);
        } else {
            // Another callback asked for the payload.
            call(&event.without_payload());
        }
    }
}

/// The callbacks. No change of the list drops one: what is removed is dropped by the caller.
#[derive(Default)]
pub(crate) struct CallbackList {
    /// The number of the last registration.
    last: u64,
    /// Those whose filters name the only tubes, under each of the names, so that an event is not
    /// compared with those of other tubes.
    by_tube: BTreeMap<Box<str>, Vec<Arc<ListedCallback>>>,
    others: Vec<Arc<ListedCallback>>,
    /// Those of dropped tubes, in the order of the drops. A later tube of such a name has another
    /// callback, or none.
    ending: VecDeque<Arc<ListedCallback>>,
}

impl CallbackList {
    pub(crate) fn is_empty(&self) -> bool {
        self.by_tube.is_empty() && self.others.is_empty()
    }

    /// The callback of a tube.
    pub(crate) fn of_tube(&self, tube: &str) -> Option<Callback> {
        self.listed_of_tube(tube).map(|listed| listed.callback.clone())
    }

    fn listed_of_tube(&self, tube: &str) -> Option<&Arc<ListedCallback>> {
        let mut listed = self.by_tube.get(tube)?.iter();
        listed.find(|listed| listed.is_of_tube && listed.until() == u64::MAX)
    }

    /// Adds a callback at the end. It receives the events after `since`.
    pub(crate) fn add(
        &mut self,
        filter: EventFilter,
        callback: Callback,
        since: u64,
    ) -> Arc<ListedCallback> {
        self.last += 1;
        let (number, until, is_of_tube) = (self.last, AtomicU64::new(u64::MAX), false);
        self.insert(ListedCallback { number, since, until, filter, callback, is_of_tube })
    }

    /// Sets, replaces or removes the callback of a tube. Returns the one before it.
    pub(crate) fn set_of_tube(
        &mut self,
        tube: &str,
        callback: Option<Callback>,
        since: u64,
    ) -> Option<Callback> {
        let before = self.listed_of_tube(tube).cloned();
        if let Some(before) = &before {
            self.remove(before);
        }
        if let Some(callback) = callback {
            let (number, since) = match &before {
                // It takes the place of the other, and also the events that wait for that.
                Some(before) => (before.number, before.since),
                None => {
                    self.last += 1;
                    (self.last, since)
                }
            };
            let filter = EventFilter::new().tube(tube).tasks_only();
            let (until, is_of_tube) = (AtomicU64::new(u64::MAX), true);
            self.insert(ListedCallback { number, since, until, filter, callback, is_of_tube });
        }
        before.map(|before| before.callback.clone())
    }

    fn insert(&mut self, listed: ListedCallback) -> Arc<ListedCallback> {
        let listed = Arc::new(listed);
        self.each_list_of(&listed, |list| {
            let at = list.partition_point(|other| other.number < listed.number);
            list.insert(at, listed.clone());
        });
        listed
    }

    pub(crate) fn remove(&mut self, listed: &Arc<ListedCallback>) {
        self.each_list_of(listed, |list| list.retain(|other| !Arc::ptr_eq(other, listed)));
    }

    /// Changes every list in which a callback stands.
    fn each_list_of(
        &mut self,
        listed: &ListedCallback,
        change: impl Fn(&mut Vec<Arc<ListedCallback>>),
    ) {
        let Some(names) = listed.filter.names() else { return change(&mut self.others) };
        for name in names {
            let list = self.by_tube.entry(name.clone()).or_default();
            change(list);
            if list.is_empty() {
                self.by_tube.remove(name);
            }
        }
    }

    /// Notes the drop of a tube, if it has a callback: that receives the steps before it, which may
    /// still wait for their calls.
    fn note_drop(&mut self, event: &Event) -> Interest {
        if event.cause != Cause::DropTube {
            return Interest::Nothing;
        }
        let Some(listed) = self.listed_of_tube(&event.tube).cloned() else {
            return Interest::Nothing;
        };
        listed.until.store(event.seq, Ordering::Relaxed);
        self.ending.push_back(listed);
        // After this event, or after a later one if it is dropped, the callback is removed.
        Interest::Event
    }

    /// Whether a callback has ended before or at this event.
    pub(crate) fn has_ended(&self, seq: u64) -> bool {
        self.ending.front().is_some_and(|listed| listed.until() <= seq)
    }

    /// Removes the callbacks that have ended before or at this event, and returns them.
    pub(crate) fn take_ended(&mut self, seq: u64) -> Vec<Arc<ListedCallback>> {
        let mut ended = Vec::new();
        while self.has_ended(seq)
            && let Some(listed) = self.ending.pop_front()
        {
            self.remove(&listed);
            ended.push(listed);
        }
        ended
    }

    /// Removes all callbacks and returns them.
    pub(crate) fn take_all(&mut self) -> Self {
        let last = self.last;
        std::mem::replace(self, Self { last, ..Self::default() })
    }

    /// The first callback after this number that the event reaches.
    pub(crate) fn next_for(&self, event: &Event, number: u64) -> Option<Arc<ListedCallback>> {
        let lists = self.lists_of(&event.tube).into_iter();
        let first = lists.filter_map(|list| {
            let next = list.partition_point(|listed| listed.number <= number);
            list.iter().skip(next).find(|listed| listed.receives(event))
        });
        first.min_by_key(|listed| listed.number).cloned()
    }

    /// The lists in which the callbacks stand that an event of this tube may reach.
    fn lists_of(&self, tube: &str) -> [&[Arc<ListedCallback>]; 2] {
        [self.by_tube.get(tube).map_or(&[], Vec::as_slice), &self.others]
    }
}

impl EventSelector for Mutex<CallbackList> {
    fn interest(&self, event: &Event) -> Interest {
        let mut list = self.lock();
        let of_drop = list.note_drop(event);
        let entries = list.lists_of(&event.tube).into_iter().flatten();
        let reached = entries.filter(|listed| listed.receives(event));
        reached
            .map(|listed| listed.callback.interest)
            .max()
            .unwrap_or(Interest::Nothing)
            .max(of_drop)
    }

    fn payloads_of(&self, tube: &str) -> bool {
        let list = self.lock();
        let mut entries = list.lists_of(tube).into_iter().flatten();
        let wants = |listed: &ListedCallback| listed.callback.interest == Interest::Payload;
        entries.any(|listed| wants(listed) && listed.filter.passes_tube(tube))
    }
}

debug!([] Callback, "Callback", _this);
