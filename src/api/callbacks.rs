//! The calls of the callbacks. They run on one thread of their own, in commit order, with no lock
//! held. A panic in one does not leave that thread.

use crate::api::callback_list::{Callback, CallbackList, ListedCallback};
use crate::runtime::event_filter::EventFilter;
use crate::runtime::events::{Event, Interest, Subscriber};
use crate::runtime::shared::Shared;
use crate::words::error::Result;
use crate::words::event_options::EventOptions;
use crate::words::limits::EVENTS_KEPT;
use crate::words::sync::{Arc, AtomicU64, Mutex, Ordering, Weak};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Events kept for slow callbacks; above that the oldest are dropped. Any callback may ask for
/// payloads.
const KEPT: EventOptions = EventOptions::new().kept(16 * EVENTS_KEPT).payloads();

/// The callbacks of a queue, and the stream of the events that reach one of them.
#[derive(Default)]
pub(crate) struct Callbacks {
    list: Arc<Mutex<CallbackList>>,
    /// `None` without callbacks.
    stream: Mutex<Option<Arc<Subscriber>>>,
    /// Events that earlier streams dropped.
    dropped: AtomicU64,
    /// Whether a call of a queue without threads calls the callbacks now.
    has_caller: Mutex<bool>,
}

impl Callbacks {
    /// Adds a callback after all others, for the events that this filter passes.
    fn add(
        self: &Arc<Self>,
        core: &Arc<Shared>,
        filter: EventFilter,
        callback: Callback,
    ) -> Result<Arc<ListedCallback>> {
        self.change(core, callback.interest, None, |list, since| list.add(filter, callback, since))
    }

    /// Removes a callback that was added. The caller drops it, as in [`change`](Self::change).
    fn remove(self: &Arc<Self>, core: &Arc<Shared>, added: &Arc<ListedCallback>) {
        // Only what adds can fail.
        let _ = self.change(core, Interest::Nothing, None, |list, _| list.remove(added));
    }

    /// Removes the callbacks of the tubes that were dropped before or at this event.
    fn remove_ended(self: &Arc<Self>, core: &Arc<Shared>, seq: u64) {
        // Only what adds can fail.
        let ended = self.change(core, Interest::Nothing, None, |list, _| list.take_ended(seq));
        // A panic in the drop of what they have captured stays here, as one in a call does.
        let _ = catch_unwind(AssertUnwindSafe(move || drop(ended)));
    }

    /// Sets, replaces or removes the callback of a tube, and returns the one before it.
    ///
    /// # Errors
    /// `TubeNotFound` if the tube with this number was dropped. One that is being made has none.
    pub(crate) fn set(
        self: &Arc<Self>,
        core: &Arc<Shared>,
        (tube, number): (&str, Option<u32>),
        callback: Option<Callback>,
    ) -> Result<Option<Callback>> {
        self.set_if(core, (tube, number), callback, |_| true)
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
            (Some(own), Some(now)) => own.is(now),
            (own, now) => own.is_none() && now.is_none(),
        };
        self.set_if(core, (tube, None), by, is_own).map(drop)
    }

    /// Sets, replaces or removes a tube's callback if the one before it is as asked, and returns
    /// that.
    fn set_if(
        self: &Arc<Self>,
        core: &Arc<Shared>,
        (tube, number): (&str, Option<u32>),
        mut callback: Option<Callback>,
        is_asked: impl FnOnce(Option<&Callback>) -> bool,
    ) -> Result<Option<Callback>> {
        let added = callback.as_ref().map_or(Interest::Nothing, |callback| callback.interest);
        self.change(core, added, number, |list, since| {
            let is_asked = is_asked(list.of_tube(tube).as_ref());
            is_asked.then(|| list.set_of_tube(tube, callback.take(), since)).flatten()
        })
    }

    /// Changes the list. `added` is what a callback receives that is added, or nothing; the tube
    /// with the number must exist. The first callback starts the thread, the removal of the last
    /// one ends it. A callback that is removed is dropped by the caller, with no lock held: it may
    /// have captured the last handle of a queue.
    fn change<R>(
        self: &Arc<Self>,
        core: &Arc<Shared>,
        added: Interest,
        number: Option<u32>,
        change: impl FnOnce(&mut CallbackList, u64) -> R,
    ) -> Result<R> {
        // An op that is running may have skipped what its first steps say besides.
        let is_between = added != Interest::Nothing || number.is_some();
        let between = is_between.then(|| core.quiesce()).flatten();
        if let (Some(number), Some(state)) = (number, &between)
            && core.health.serves().is_ok()
        {
            state.tube(number)?;
        }
        let mut stream = self.stream.lock();
        if added != Interest::Nothing {
            core.health.serves()?;
            if stream.is_none() {
                *stream = Some(self.start(core)?);
            }
        }
        let (changed, none_left) = {
            let mut list = self.list.lock();
            // An event of a later call has a higher number, also if a commit ends just now.
            (change(&mut list, core.hub.last_seq()), list.is_empty())
        };
        if none_left && let Some(subscriber) = stream.take() {
            core.hub.unsubscribe(&subscriber);
            self.dropped.fetch_add(subscriber.dropped(), Ordering::Relaxed);
            subscriber.end();
        }
        drop(stream);
        drop(between);
        // A close removes all callbacks; this one may have been added after that.
        if core.health.is_closing() {
            self.clear();
        }
        Ok(changed)
    }

    /// Subscribes, and starts the thread that calls the callbacks.
    fn start(self: &Arc<Self>, core: &Arc<Shared>) -> Result<Arc<Subscriber>> {
        let subscriber = core.hub.subscribe(KEPT, self.list.clone());
        let (callbacks, events) = (self.clone(), subscriber.clone());
        if !core.settings.by_hand {
            let started = core.spawn("tubewell-events", move |core| {
                while let Some(event) = events.next(None) {
                    callbacks.call(core, &event);
                }
            });
            started.inspect_err(|_| core.hub.unsubscribe(&subscriber))?;
        }
        Ok(subscriber)
    }

    /// Calls the callbacks for all events that wait, for a queue without threads. While one call
    /// does so, another one, perhaps in a callback, leaves its events to that: they come in order.
    pub(crate) fn call_all(self: &Arc<Self>, core: &Arc<Shared>) {
        let mut caller = None;
        loop {
            let mut has_caller = self.has_caller.lock();
            if *has_caller && caller.is_none() {
                return;
            }
            let stream = self.stream.lock().clone();
            let Some(event) = stream.and_then(|stream| stream.try_next()) else {
                *has_caller = false;
                return caller.into_iter().for_each(std::mem::forget);
            };
            *has_caller = true;
            drop(has_caller);
            caller.get_or_insert_with(|| CallerGuard(&self.has_caller));
            self.call(core, &event);
        }
    }

    fn call(self: &Arc<Self>, core: &Arc<Shared>, event: &Event) {
        let mut number = 0;
        loop {
            let list = self.list.lock();
            // One at a time, because a callback may remove the next one.
            let Some(next) = list.next_for(event, number) else {
                let has_ended = list.has_ended(event.seq);
                drop(list);
                return if has_ended {
                    self.remove_ended(core, event.seq)
                };
            };
            drop(list);
            number = next.number;
            // The panic hook has reported the panic; the callback is kept for the next event. If it
            // was removed meanwhile, what it has captured is dropped in here, too.
            let _ = catch_unwind(AssertUnwindSafe(move || next.call(event)));
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
        let removed = self.list.lock().take_all();
        drop(removed);
    }
}

/// Resets the flag if a panic ends the call: of what a callback has thrown, when that is dropped.
struct CallerGuard<'a>(&'a Mutex<bool>);

impl Drop for CallerGuard<'_> {
    fn drop(&mut self) {
        *self.0.lock() = false;
    }
}

/// A callback in the list of its queue, until this is dropped.
pub(crate) struct CallbackGuard {
    // With strong references, one that is kept would keep the memory of a closed queue.
    core: Weak<Shared>,
    callbacks: Weak<Callbacks>,
    callback: Weak<ListedCallback>,
}

impl CallbackGuard {
    pub(crate) fn new(
        core: &Arc<Shared>,
        callbacks: &Arc<Callbacks>,
        filter: EventFilter,
        callback: Callback,
    ) -> Result<Self> {
        let callback = Arc::downgrade(&callbacks.add(core, filter, callback)?);
        Ok(Self { core: Arc::downgrade(core), callbacks: Arc::downgrade(callbacks), callback })
    }
}

impl Drop for CallbackGuard {
    fn drop(&mut self) {
        // None after a close.
        let Some(callback) = self.callback.upgrade() else { return };
        if let (Some(core), Some(callbacks)) = (self.core.upgrade(), self.callbacks.upgrade()) {
            callbacks.remove(&core, &callback);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Queue;

    /// A `create_tube_with` that was refused removed the callback that another call had set in the
    /// meantime.
    #[test]
    fn only_ones_own_callback_is_replaced() {
        let queue = Queue::builder().by_hand(true).in_memory().unwrap();
        let (core, callbacks) = (&queue.inner.core, &queue.inner.callbacks);
        let make = || Callback::new(|_| (), Interest::Event);
        let (own, other) = (make(), make());
        let of = |tube| callbacks.list.lock().of_tube(tube);
        assert!(callbacks.set(core, ("t", None), Some(own.clone())).unwrap().is_none());
        callbacks.replace(core, "t", Some(&other), None).unwrap();
        callbacks.replace(core, "t", None, Some(make())).unwrap();
        assert!(of("t").is_some_and(|now| now.is(&own)));
        callbacks.replace(core, "t", Some(&own), None).unwrap();
        assert!(of("t").is_none());
        callbacks.replace(core, "t", None, Some(other)).unwrap();
        assert!(of("t").is_some());
    }
}
