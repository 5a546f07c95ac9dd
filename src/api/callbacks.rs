//! Callbacks on changes. They run on one thread of their own, in commit order, with no lock held. A
//! panic in one does not leave that thread.

use crate::runtime::events::{Event, Interest, Subscriber};
use crate::runtime::shared::Shared;
use crate::words::error::Result;
use crate::words::limits::EVENTS_KEPT;
use crate::words::macros::debug;
use crate::words::options::EventOptions;
use crate::words::sync::{Arc, AtomicU64, Mutex, Ordering};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The callback of one tube, as [`Tube::on_task_change`](crate::Tube::on_task_change) returns it
/// after another has replaced it. [`Tube::set_callback`](crate::Tube::set_callback) sets it again.
#[must_use = "if it is dropped, what it has captured is dropped"]
#[derive(Clone)]
pub struct Callback {
    call: Arc<dyn Fn(&Event) + Send + Sync>,
    /// What its events have.
    interest: Interest,
}

impl Callback {
    pub(crate) fn new(call: impl Fn(&Event) + Send + Sync + 'static, interest: Interest) -> Self {
        Self { call: Arc::new(call), interest }
    }
}

/// Events kept for slow callbacks; above that the oldest are dropped. Any callback may ask for
/// payloads.
const KEPT: EventOptions = EventOptions::new().kept(16 * EVENTS_KEPT).payloads();

/// The callbacks of a queue.
#[derive(Default)]
pub(crate) struct Callbacks {
    /// By the tube's name.
    by_tube: Arc<Mutex<BTreeMap<Box<str>, Callback>>>,
    /// `None` without callbacks.
    stream: Mutex<Option<Arc<Subscriber>>>,
    /// Events that earlier streams dropped.
    dropped: AtomicU64,
}

impl Callbacks {
    /// The callback of a tube.
    pub(crate) fn of(&self, tube: &str) -> Option<Callback> {
        self.by_tube.lock().get(tube).cloned()
    }

    /// Sets, replaces or removes a tube's callback, and returns the one before it.
    pub(crate) fn set(
        self: &Arc<Self>,
        core: &Arc<Shared>,
        tube: &str,
        callback: Option<Callback>,
    ) -> Result<Option<Callback>> {
        self.set_if(core, tube, callback, |_| true)
    }

    /// Replaces or removes a tube's callback, unless it is no longer this one.
    pub(crate) fn replace(
        self: &Arc<Self>,
        core: &Arc<Shared>,
        tube: &str,
        own: Option<&Callback>,
        by: Option<Callback>,
    ) -> Result<()> {
        let is_own = |now: Option<&Callback>| match (own, now) {
            (Some(own), Some(now)) => Arc::ptr_eq(&own.call, &now.call),
            (own, now) => own.is_none() && now.is_none(),
        };
        self.set_if(core, tube, by, is_own).map(drop)
    }

    /// Sets, replaces or removes a tube's callback if the one before it is as asked, and returns
    /// that. The first callback starts the thread, the removal of the last one ends it.
    fn set_if(
        self: &Arc<Self>,
        core: &Arc<Shared>,
        tube: &str,
        callback: Option<Callback>,
        is_asked: impl FnOnce(Option<&Callback>) -> bool,
    ) -> Result<Option<Callback>> {
        let interest = callback.as_ref().map(|callback| callback.interest);
        // An op that is running may have skipped the payloads of its first steps.
        let between = (interest == Some(Interest::Payloads)).then(|| core.quiesce());
        let mut stream = self.stream.lock();
        if callback.is_some() {
            core.health.serves()?;
            if stream.is_none() {
                *stream = Some(self.start(core)?);
            }
        }
        let (old, none_left) = {
            let mut by_tube = self.by_tube.lock();
            let old = match callback {
                _ if !is_asked(by_tube.get(tube)) => None,
                Some(callback) => by_tube.insert(tube.into(), callback),
                None => by_tube.remove(tube),
            };
            (old, by_tube.is_empty())
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
        Ok(old)
    }

    /// Subscribes, and starts the thread that calls the callbacks.
    fn start(self: &Arc<Self>, core: &Arc<Shared>) -> Result<Arc<Subscriber>> {
        let by_tube = self.by_tube.clone();
        let interest = move |tube: &str| {
            by_tube.lock().get(tube).map_or(Interest::Nothing, |callback| callback.interest)
        };
        let subscriber = core.hub.subscribe(KEPT, Box::new(interest));
        let (callbacks, events) = (self.clone(), subscriber.clone());
        if !core.settings.by_hand {
            let started = core.spawn("tubewell-events", move |_| {
                while let Some(event) = events.next(None) {
                    callbacks.call(&event);
                }
            });
            started.inspect_err(|_| core.hub.unsubscribe(&subscriber))?;
        }
        Ok(subscriber)
    }

    /// Calls the callbacks for all events that wait, for a queue without threads.
    pub(crate) fn call_all(&self) {
        loop {
            let stream = self.stream.lock().clone();
            let Some(event) = stream.and_then(|stream| stream.try_next()) else { return };
            self.call(&event);
        }
    }

    fn call(&self, event: &Event) {
        if event.task.is_none() {
            return;
        }
        let call = self.by_tube.lock().get(&*event.tube).map(|callback| callback.call.clone());
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
        let removed = std::mem::take(&mut *self.by_tube.lock());
        drop(removed);
    }
}

debug!([] Callback, "Callback", _this);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Queue;

    /// A `create_tube_with` that was refused, and a drop of the tube, removed the callback that
    /// another call had set in the meantime.
    #[test]
    fn only_ones_own_callback_is_replaced() {
        let queue = Queue::builder().by_hand(true).in_memory().unwrap();
        let (core, callbacks) = (&queue.hold.core, &queue.hold.callbacks);
        let make = || Callback::new(|_| (), Interest::Events);
        let (own, other) = (make(), make());
        assert!(callbacks.set(core, "t", Some(own.clone())).unwrap().is_none());
        callbacks.replace(core, "t", Some(&other), None).unwrap();
        callbacks.replace(core, "t", None, Some(make())).unwrap();
        let is_own = callbacks.of("t").is_some_and(|now| Arc::ptr_eq(&now.call, &own.call));
        assert!(is_own);
        callbacks.replace(core, "t", Some(&own), None).unwrap();
        assert!(callbacks.of("t").is_none());
        callbacks.replace(core, "t", None, Some(other)).unwrap();
        assert!(callbacks.of("t").is_some());
    }
}
