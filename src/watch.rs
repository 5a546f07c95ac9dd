//! Callbacks on changes. They run on one thread of their own, in commit order, with no lock held;
//! what they do wrong stays there.

use crate::error::Result;
use crate::limits::EVENTS_KEPT;
use crate::live::core::Core;
use crate::live::events::{Event, Subscriber};
use crate::sync::{Arc, Mutex};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A callback of one tube.
pub(crate) type Call = Arc<dyn Fn(&Event) + Send + Sync>;

/// Events kept for callbacks that do not keep up; then the oldest are passed over.
const KEPT: usize = 16 * EVENTS_KEPT;

/// The callbacks of a queue, by the tube's name.
#[derive(Default)]
pub(crate) struct Watchers {
    calls: Mutex<BTreeMap<Box<str>, Call>>,
    stream: Mutex<Option<Arc<Subscriber>>>,
}

impl Watchers {
    /// Sets, replaces or removes a tube's callback. The first one starts the thread, the last one
    /// to go ends it.
    pub(crate) fn set(
        self: &Arc<Self>,
        core: &Arc<Core>,
        tube: &str,
        call: Option<Call>,
    ) -> Result<()> {
        let mut stream = self.stream.lock();
        if call.is_some() {
            core.is_open()?;
        }
        if call.is_some() && stream.is_none() {
            let subscriber = core.hub.subscribe(KEPT);
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
            let old = match call {
                Some(call) => calls.insert(tube.into(), call),
                None => calls.remove(tube),
            };
            (old, calls.is_empty())
        };
        if none_left && let Some(subscriber) = stream.take() {
            core.hub.unsubscribe(&subscriber);
            subscriber.end();
        }
        drop(stream);
        // A close forgets all callbacks; this one may have come behind that.
        if core.is_closing() {
            self.clear();
        }
        // What it captured may be the last handle of a queue: dropped with no lock held.
        drop(old);
        Ok(())
    }

    /// Calls what is due, for a queue without threads.
    pub(crate) fn tell_all(&self) {
        loop {
            let stream = self.stream.lock().clone();
            let Some(event) = stream.and_then(|stream| stream.try_next()) else { return };
            self.tell(&event);
        }
    }

    fn tell(&self, event: &Event) {
        let call = self.calls.lock().get(&*event.tube).cloned();
        if let Some(call) = call {
            // The panic was reported by its hook; the next event finds the callback in place.
            let _ = catch_unwind(AssertUnwindSafe(|| call(event)));
        }
    }

    /// Forgets all callbacks, with the handles that they may have captured.
    pub(crate) fn clear(&self) {
        let calls = std::mem::take(&mut *self.calls.lock());
        drop(calls);
    }
}
