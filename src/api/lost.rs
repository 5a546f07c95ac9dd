//! The callback of a holder whose lease has lapsed or is lost: it is registered as long as the
//! guard exists.

use crate::api::callback_list::Callback;
use crate::api::callbacks::CallbackGuard;
use crate::api::ticket_handle::TicketHandle;
use crate::runtime::event_filter::EventFilter;
use crate::runtime::events::{Event, Interest};
use crate::words::error::Result;
use crate::words::sync::{AtomicBool, Ordering};
use crate::words::task::State;

/// Registers a callback for the events of one lease.
///
/// # Errors
/// `LeaseLost` if the lease is lost already.
pub(crate) fn register(
    held: &TicketHandle,
    f: impl Fn(&Event) + Send + Sync + 'static,
) -> Result<CallbackGuard> {
    let is_over = AtomicBool::new(false);
    let tell = move |event: &Event| {
        // Later events are of other leases on the task.
        let ends = event.to != Some(State::Taken);
        let was_over = if ends {
            is_over.swap(true, Ordering::AcqRel)
        } else {
            is_over.load(Ordering::Acquire)
        };
        if !was_over {
            f(event);
        }
    };
    let (core, callbacks) = (&held.hold.core, &held.hold.callbacks);
    let filter = EventFilter::new().tube(&held.name).of_lease(held.id());
    let callback = Callback::new(tell, Interest::Event);
    let guard = CallbackGuard::new(core, callbacks, filter, callback);
    let registered = guard.and_then(|guard| held.left().map(|_| guard));
    registered.map_err(|error| held.named(error, "on_lost"))
}
