//! Callbacks on changes. They run on one thread of their own, in commit order, with no lock held. A
//! panic in one does not leave that thread.

use crate::runtime::core::Core;
use crate::runtime::events::{Event, Interest, InterestFilter, Subscriber};
use crate::words::error::Result;
use crate::words::limits::EVENTS_KEPT;
use crate::words::options::EventOptions;
use crate::words::sync::{Arc, AtomicU64, Mutex, Ordering};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A callback of one tube.
pub(crate) type Call = Arc<dyn Fn(&Event) + Send + Sync>;

/// A callback, and whether it receives the payloads.
pub(crate) struct Callback {
    pub(crate) call: Call,
    pub(crate) payloads: bool,
}

/// By the tube's name.
type CallbackList = BTreeMap<Box<str>, Callback>;

/// Events kept for slow callbacks; above that the oldest are dropped. Any callback may ask for
/// payloads.
const KEPT: EventOptions = EventOptions::new().kept(16 * EVENTS_KEPT).payloads();

/// The callbacks of a queue.
#[derive(Default)]
pub(crate) struct Watchers {
    calls: Arc<Mutex<CallbackList>>,
    stream: Mutex<Option<Arc<Subscriber>>>,
    /// Events that earlier streams dropped.
    dropped: AtomicU64,
}

impl Watchers {
    /// Sets, replaces or removes a tube's callback. The first callback starts the thread, the
    /// removal of the last one ends it.
    pub(crate) fn set(
        self: &Arc<Self>,
        core: &Arc<Core>,
        tube: &str,
        watcher: Option<Callback>,
    ) -> Result<()> {
        let asks = watcher.as_ref().is_some_and(|watcher| watcher.payloads);
        // An op that is running may have skipped the payloads of its first steps.
        let between = asks.then(|| core.quiesce());
        let mut stream = self.stream.lock();
        if watcher.is_some() {
            core.health.serves()?;
        }
        if watcher.is_some() && stream.is_none() {
            let subscriber = core.hub.subscribe(KEPT, self.interest());
            let (watchers, events) = (self.clone(), subscriber.clone());
            if !core.settings.by_hand {
                core.spawn("tubewell-events", move |_| {
                    while let Some(event) = events.next(None) {
                        watchers.tell(&event);
                    }
                })?;
            }
            *stream = Some(subscriber);
        }
        let (old, none_left) = {
            let mut calls = self.calls.lock();
            let old = match watcher {
                Some(watcher) => calls.insert(tube.into(), watcher),
                None => calls.remove(tube),
            };
            (old, calls.is_empty())
        };
        if none_left && let Some(subscriber) = stream.take() {
            core.hub.unsubscribe(&subscriber);
            self.dropped.fetch_add(subscriber.dropped(), Ordering::Relaxed);
            subscriber.end();
        }
        drop(stream);
        drop(between);
        // A close removes all callbacks; this one may have been set after that.
        if core.health.is_closing() {
            self.clear();
        }
        // It may have captured the last handle of a queue, so it is dropped with no lock held.
        drop(old);
        Ok(())
    }

    /// What the present callbacks need from events.
    fn interest(&self) -> InterestFilter {
        let calls = self.calls.clone();
        Box::new(move |tube| match calls.lock().get(tube) {
            None => Interest::Nothing,
            Some(Callback { payloads: false, .. }) => Interest::Events,
            Some(Callback { payloads: true, .. }) => Interest::Payloads,
        })
    }

    /// Calls the callbacks for all events that wait, for a queue without threads.
    pub(crate) fn tell_all(&self) {
        loop {
            let stream = self.stream.lock().clone();
            let Some(event) = stream.and_then(|stream| stream.try_next()) else { return };
            self.tell(&event);
        }
    }

    fn tell(&self, event: &Event) {
        let call = self.calls.lock().get(&*event.tube).map(|watcher| watcher.call.clone());
        if let Some(call) = call {
            // The panic hook has reported the panic; the callback is kept for the next event.
            let _ = catch_unwind(AssertUnwindSafe(|| call(event)));
        }
    }

    /// How many events were dropped because callbacks were slow.
    pub(crate) fn dropped(&self) -> u64 {
        let stream = self.stream.lock();
        let now = stream.as_ref().map_or(0, |stream| stream.dropped());
        self.dropped.load(Ordering::Relaxed) + now
    }

    /// Removes all callbacks, with the handles that they may have captured.
    pub(crate) fn clear(&self) {
        let calls = std::mem::take(&mut *self.calls.lock());
        drop(calls);
    }
}
