//! The callback of a holder whose lease has lapsed or is lost: it is registered as long as the
//! guard exists.

use crate::api::callback_list::Callback;
use crate::api::callbacks::CallbackGuard;
use crate::api::ticket_handle::TicketHandle;
use crate::runtime::event_filter::EventFilter;
use crate::runtime::events::{Event, Interest};
use crate::words::error::Result;
use crate::words::sync::{Arc, AtomicBool, Ordering};
use crate::words::task::State;

/// The callback of one lease, as long as this exists.
pub(crate) struct LostCallback {
    _guard: CallbackGuard,
    is_muted: Arc<AtomicBool>,
}

impl LostCallback {
    /// Whether the end of the lease is not told from now on, because its holder ends it. A loss in
    /// the meantime is the answer of the holder's verb.
    pub(crate) fn mute(&self, yes: bool) {
        self.is_muted.store(yes, Ordering::Release);
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
    let (is_over, is_muted) = (AtomicBool::new(false), Arc::new(AtomicBool::new(false)));
    let muted = is_muted.clone();
    let tell = move |event: &Event| {
        // Later events are of other leases on the task.
        let ends = event.to != Some(State::Taken);
        let was_over = if ends {
            is_over.swap(true, Ordering::AcqRel)
        } else {
            is_over.load(Ordering::Acquire)
        };
        if !was_over && !muted.load(Ordering::Acquire) {
            f(event);
        }
    };
    let (core, callbacks) = (&held.hold.core, &held.hold.callbacks);
    let filter = EventFilter::new().tube(&held.name).of_lease(held.id());
    let callback = Callback::new(tell, Interest::Event);
    let guard = CallbackGuard::new(core, callbacks, filter, callback);
    let registered = guard.and_then(|guard| held.left().map(|_| guard));
    let registered = registered.map_err(|error| held.named(error, "on_lost"))?;
    Ok(LostCallback { _guard: registered, is_muted })
}
