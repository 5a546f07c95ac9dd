//! The callback of a holder whose lease has lapsed or is lost: it is registered as long as the
//! guard exists.

use crate::api::callback_list::Callback;
use crate::api::callbacks::CallbackGuard;
use crate::api::ticket_handle::TicketHandle;
use crate::runtime::event_filter::EventFilter;
use crate::runtime::events::{Event, Interest};
use crate::words::error::Result;
use crate::words::sync::{Arc, AtomicBool, Mutex, Ordering};
use crate::words::task::{Cause, State};

/// The callback of one lease, as long as this exists.
pub(crate) struct LostCallback {
    _guard: CallbackGuard,
    muted: Arc<Muted>,
}

/// Which ends of the lease are not told, because its holder is the one that ends it.
struct Muted {
    all: AtomicBool,
    /// By a put of its key, perhaps into another tube.
    puts: AtomicBool,
}

impl LostCallback {
    /// Whether the end of the lease is not told from now on, because its holder ends it. A loss in
    /// the meantime is the answer of the holder's verb.
    pub(crate) fn mute(&self, yes: bool) {
        self.muted.all.store(yes, Ordering::Release);
    }

    /// The same of an end by a put of its key. Any other loss in the meantime is told.
    pub(crate) fn mute_puts(&self, yes: bool) {
        self.muted.puts.store(yes, Ordering::Release);
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
    let muted = Muted { all: AtomicBool::new(false), puts: AtomicBool::new(false) };
    let (is_over, muted) = (AtomicBool::new(false), Arc::new(muted));
    let of_callback = muted.clone();
    // Where the task is, by the events so far.
    let tube = Arc::new(Mutex::new(held.name.clone()));
    let now_in = tube.clone();
    let on_event = move |event: &Event| {
        if event.cause == Cause::Merge {
            // The lease goes on in the other tube.
            if let Some(to) = event.to_tube() {
                *tube.lock() = to.into();
            }
            return;
        }
        if event.task.is_none() && event.tube != *tube.lock() {
            return;
        }
        // Later events are of other leases on the task.
        let ends = event.to != Some(State::Taken);
        let was_over = if ends {
            is_over.swap(true, Ordering::AcqRel)
        } else {
            is_over.load(Ordering::Acquire)
        };
        let is_put = matches!(event.cause, Cause::Put | Cause::Move);
        // A stall is none of its holder's verbs.
        let is_muted = ends && of_callback.all.load(Ordering::Acquire)
            || is_put && of_callback.puts.load(Ordering::Acquire);
        if !was_over && !is_muted {
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
        let mut tube = now_in.lock();
        if *tube == held.name {
            *tube = present.into();
        }
        drop(tube);
        Ok(guard)
    });
    let registered = registered.map_err(|error| held.named(error, "on_lost"))?;
    Ok(LostCallback { _guard: registered, muted })
}
