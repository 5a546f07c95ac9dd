//! A callback on the events that a filter passes, and the guard that deregisters it.

use crate::api::callback_list::Callback;
use crate::api::callbacks::CallbackGuard;
use crate::api::queue::Queue;
use crate::runtime::event_filter::EventFilter;
use crate::runtime::events::{Event, Interest};
#[cfg(doc)]
use crate::words::error::ErrorKind;
use crate::words::error::Result;
use crate::words::macros::debug;

/// A registered callback, from [`Queue::on_event`]. Its drop deregisters the callback: after that
/// no call begins.
///
/// The drop never waits. If a call has begun in another thread, it runs to its end, and what the
/// callback has captured is dropped after it; otherwise that is dropped at once. So a subscription
/// may be dropped anywhere: in its own callback, in another one, inside
/// [`transact`](Queue::transact), and while the caller holds a lock that the callback takes. To
/// wait for the end of the last call, let the callback own the sender of a channel: the receiver is
/// disconnected then.
///
/// A subscription does not keep its queue open. A callback that has captured a handle of its queue
/// does, until it is deregistered or the queue is closed.
///
/// ```
/// use std::sync::mpsc;
/// use tubewell::{Cause, EventFilter, Queue};
///
/// # fn main() -> tubewell::Result<()> {
/// let queue = Queue::in_memory()?;
/// let tube = queue.tube("letters")?;
/// let (sender, received) = mpsc::channel();
/// let subscription = queue.on_event(EventFilter::new().cause(Cause::Put), move |event| {
///     let _ = sender.send(event.task);
/// })?;
/// let id = tube.put(b"hello")?;
/// assert_eq!(received.recv(), Ok(Some(id)));
/// drop(subscription);
/// tube.put(b"not seen")?;
/// assert!(received.recv().is_err()); // the sender was dropped with the callback
/// # Ok(())
/// # }
/// ```
#[must_use = "if it is dropped, its callback is deregistered"]
pub struct Subscription {
    /// Its drop deregisters the callback.
    _guard: CallbackGuard,
}

/// Subscriptions.
impl Queue {
    /// Calls `f` for every event from now on that the filter passes, until the [`Subscription`] is
    /// dropped or the queue is closed. Every change is one event; [`EventFilter`] says what passes.
    ///
    /// `f` is called in commit order, on a thread that all callbacks of the queue share, or in
    /// [`tick`](Queue::tick) if the queue was opened [`by_hand`](crate::Builder::by_hand). An event
    /// that reaches several callbacks reaches them in the order in which they were registered,
    /// those of [`on_task_change`](crate::Tube::on_task_change) among them. The same `f` may be
    /// registered several times, and is then called as often.
    ///
    /// No lock is held: `f` may call any verb. A panic in it is caught, and the next callback is
    /// called. The queue never waits for it: of the events that no callback was called for yet, the
    /// newest 65 536 are kept for all callbacks together (and 64 MiB of their payloads and texts),
    /// and [`callbacks_dropped`](Queue::callbacks_dropped) counts the others.
    ///
    /// Every change is compared with the filters that name its tube by [`EventFilter::tube`], and
    /// with all filters that name no tube in that way, so many of the latter make every verb
    /// slower.
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use tubewell::{Cause, Event, EventFilter, Queue, State};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let (sender, received) = mpsc::channel();
    /// let filter = EventFilter::new().tube("letters").to(State::Buried).payloads();
    /// let _alarm = queue.on_event(filter, move |event: &Event| {
    ///     let _ = sender.send((event.cause, event.payload().map(<[u8]>::to_vec)));
    /// })?;
    /// let tube = queue.tube("letters")?;
    /// tube.put(b"hello")?;
    /// tube.take()?.bury("no such address")?;
    /// assert_eq!(received.recv(), Ok((Cause::Bury, Some(b"hello".to_vec()))));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Closed`](ErrorKind::Closed); [`Io`](ErrorKind::Io) if the thread cannot be started;
    /// [`Invalid`](ErrorKind::Invalid) if the filter has a consumer's name that is empty, longer
    /// than 255 bytes or has control characters.
    pub fn on_event(
        &self,
        filter: EventFilter,
        f: impl Fn(&Event) + Send + Sync + 'static,
    ) -> Result<Subscription> {
        filter.check().map_err(|error| error.during("on_event"))?;
        let interest = if filter.wants_payloads() { Interest::Payload } else { Interest::Event };
        let (core, callbacks) = (&self.inner.core, &self.inner.callbacks);
        let added = CallbackGuard::new(core, callbacks, filter, Callback::new(f, interest));
        let _guard = added.map_err(|error| error.during("on_event"))?;
        Ok(Subscription { _guard })
    }
}

debug!([] Subscription, "Subscription", _this);
