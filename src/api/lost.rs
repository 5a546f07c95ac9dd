//! The callback of a holder whose lease has lapsed or is lost: it is registered as long as the
//! guard exists.

use crate::api::callback_list::Callback;
use crate::api::callbacks::CallbackGuard;
use crate::api::ticket_handle::TicketHandle;
use crate::runtime::event_filter::EventFilter;
use crate::runtime::events::{Event, Interest};
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::sync::{Arc, Mutex};
use crate::words::task::{Cause, State};

/// The callback of one lease, as long as this exists.
pub(crate) struct LostCallback {
    _guard: CallbackGuard,
    watch: Arc<Mutex<Watch>>,
}

/// What is known of the lease by its events.
struct Watch {
    /// Where the task is.
    tube: Box<str>,
    /// Whether the lease has ended. Later events are of other leases on the task.
    is_over: bool,
    /// Whether its end is not told, because a verb runs that answers with it.
    is_muted: bool,
}

impl Watch {
    /// Whether the callback is called for an event.
    fn calls_for(&mut self, event: &Event) -> bool {
        if event.cause == Cause::Merge {
            // The lease goes on in the other tube.
            if let Some(to) = event.to_tube() {
                self.tube = to.into();
            }
            return false;
        }
        if event.task.is_none() && *event.tube != *self.tube {
            return false;
        }
        let (was_over, ends) = (self.is_over, event.to != Some(State::Taken));
        self.is_over |= ends;
        // A stall is none of its holder's verbs.
        !was_over && !(ends && (self.is_muted || event.is_of_holder()))
    }
}

impl LostCallback {
    /// The end of the lease is not told while its holder runs a verb that ends it.
    pub(crate) fn mute(&self) {
        self.watch.lock().is_muted = true;
    }

    /// The end of the lease is told again. Returns whether it has ended.
    pub(crate) fn unmute(&self) -> bool {
        let mut watch = self.watch.lock();
        watch.is_muted = false;
        watch.is_over
    }
}

/// Registers a callback for the events of one lease.
///
/// # Errors
/// `LeaseLost` if the lease is lost already.
pub(crate) fn register(
    held: &TicketHandle,
    f: impl Fn(&Event) + Send + Sync + 'static,
) -> Result<LostCallback> {
    let tube = (*held.name).into();
    let watch = Arc::new(Mutex::new(Watch { tube, is_over: false, is_muted: true }));
    let watched = watch.clone();
    let on_event = move |event: &Event| {
        let is_for_holder = watched.lock().calls_for(event);
        if is_for_holder {
            f(event);
        }
    };
    let (core, callbacks) = (&held.inner.core, &held.inner.callbacks);
    // Of any tube: its own may be merged into another one.
    let filter = EventFilter::new().of_lease(held.id());
    let callback = Callback::new(on_event, Interest::Event);
    let guard = CallbackGuard::new(core, callbacks, filter, callback);
    let registered = guard.and_then(|guard| {
        held.left()?;
        // It may have gone elsewhere before. Where it goes from now on, events say.
        let present =
            held.inner.core.look_at(|state, now| Ok(held.tube_in(state, now)?.row.name.clone()))?;
        let mut known = watch.lock();
        if *known.tube == *held.name {
            known.tube = present.into();
        }
        drop(known);
        let callback = LostCallback { _guard: guard, watch };
        // An end in the meantime is the answer of this call.
        match callback.unmute() {
            true => Err(Error::new(ErrorKind::LeaseLost)),
            false => Ok(callback),
        }
    });
    registered.map_err(|error| held.named(error, "on_lost"))
}

#[cfg(test)]
mod tests {
    use crate::words::error::{Error, ErrorKind};
    use crate::words::sync::{Arc, AtomicBool, Ordering};
    use crate::{Queue, Tube};

    fn lone() -> (Queue, Tube) {
        let queue = Queue::builder().by_hand(true).in_memory().unwrap();
        let tube = queue.tube("t").unwrap();
        tube.put(b"a").unwrap();
        (queue, tube)
    }

    /// Regression: a loss was swallowed for good that came while a verb of the holder ran which was
    /// then refused for another reason.
    #[test]
    fn a_loss_during_a_refused_verb_is_its_answer() {
        for lost in [false, true] {
            let (queue, tube) = lone();
            let (told, task) = (Arc::new(AtomicBool::new(false)), tube.take().unwrap());
            let (_payload, mut task) = task.split();
            let (tell, id) = (told.clone(), task.id());
            task.on_lost(move |_| tell.store(true, Ordering::Relaxed)).unwrap();
            let refused = task.settle_kept(|_| {
                if lost {
                    tube.delete(id).unwrap();
                    queue.tick().unwrap();
                }
                Err(Error::new(ErrorKind::Full))
            });
            let kind = refused.unwrap_err().kind();
            assert_eq!(kind, if lost { ErrorKind::LeaseLost } else { ErrorKind::Full });
            assert!(!told.load(Ordering::Relaxed));
            if !lost {
                tube.delete(id).unwrap();
                queue.tick().unwrap();
                assert!(told.load(Ordering::Relaxed));
            }
        }
    }
}
