//! A switch that ends waiting. It works once.

use crate::words::sync::{Arc, Mutex, Receiver, Sender, bounded};

/// Ends every wait that it is passed to, now and later: [`take_until`](crate::Tube::take_until),
/// [`wait_ready_until`](crate::Tube::wait_ready_until) and
/// [`wait_for_room_until`](crate::NewTask::wait_for_room_until). All clones are the same switch.
///
/// ```
/// use tubewell::{Queue, Stop};
///
/// let tube = Queue::in_memory()?.tube("mail")?;
/// let stop = Stop::new();
/// let stopped = std::thread::spawn({
///     let (tube, stop) = (tube.clone(), stop.clone());
///     move || tube.take_until(&stop)
/// });
/// stop.stop();
/// assert!(stopped.join().unwrap()?.is_none());
/// # Ok::<(), tubewell::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Stop {
    /// `stop` drops it, which disconnects all receivers at once.
    alive: Arc<Mutex<Option<Sender>>>,
    stopped: Receiver,
}

impl Default for Stop {
    fn default() -> Self {
        Self::new()
    }
}

impl Stop {
    /// Not stopped yet.
    pub fn new() -> Self {
        let (alive, stopped) = bounded(0);
        Self { alive: Arc::new(Mutex::new(Some(alive))), stopped }
    }

    /// Ends every wait, now and later. A second call changes nothing.
    ///
    /// ```
    /// use tubewell::{Queue, Stop};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// let stop = Stop::new();
    /// let other = stop.clone();
    /// other.stop();
    /// assert!(stop.is_stopped());
    /// tube.put(b"hello")?;
    /// assert!(tube.take_until(&stop)?.is_none()); // it takes nothing more
    /// # Ok(())
    /// # }
    /// ```
    pub fn stop(&self) {
        *self.alive.lock() = None;
    }

    /// Whether [`stop`](Stop::stop) was called.
    pub fn is_stopped(&self) -> bool {
        self.alive.lock().is_none()
    }

    /// Disconnected by `stop`.
    pub(crate) fn stopped(&self) -> &Receiver {
        &self.stopped
    }
}
