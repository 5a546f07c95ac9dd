//! Waits until a task is ready, and takes none.

use crate::api::tube::Tube;
use crate::engine::{gates, query};
#[cfg(doc)]
use crate::words::error::ErrorKind;
use crate::words::error::Result;
use crate::words::stop::Stop;
use crate::words::task::State;
use crate::words::wait::Wait;
use std::time::Duration;

impl<T: ?Sized> Tube<T> {
    /// Waits until there is a ready task, at most this long, in [lease time](crate#time). Returns
    /// whether there is one. It takes nothing, and does not use up a wake-up of a waiting taker.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// assert!(!tube.wait_ready(Duration::ZERO)?);
    /// tube.put(b"hello")?;
    /// assert!(tube.wait_ready(Duration::MAX)?);
    /// assert_eq!(tube.stats()?.ready, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Closed`](ErrorKind::Closed) if the queue is closed, also during the wait;
    /// [`TubeNotFound`](ErrorKind::TubeNotFound) if the tube was dropped, also during it;
    /// [`InTransaction`](ErrorKind::InTransaction).
    pub fn wait_ready(&self, timeout: Duration) -> Result<bool> {
        self.look_waiting(Wait::within(timeout))
    }

    /// Waits until there is a ready task, as [`wait_ready`](Tube::wait_ready), or until
    /// [`stop`](Stop::stop) is called. After that it returns `false` without a look at the tube.
    ///
    /// ```
    /// use tubewell::{Queue, Stop};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// let stop = Stop::new(); // a clone of it stops from any thread
    /// tube.put(b"hello")?;
    /// assert!(tube.wait_ready_until(&stop)?);
    /// assert_eq!(tube.stats()?.ready, 1); // it took nothing
    /// stop.stop();
    /// assert!(!tube.wait_ready_until(&stop)?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`wait_ready`](Tube::wait_ready).
    pub fn wait_ready_until(&self, stop: &Stop) -> Result<bool> {
        self.look_waiting(Wait::until(stop))
    }

    /// Waits until there is a ready task, as [`wait_ready`](Tube::wait_ready), and no longer than
    /// until [`stop`](Stop::stop) is called. After that it returns `false` without a look at the
    /// tube.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{Queue, Stop};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// let stop = Stop::new();
    /// assert!(!tube.wait_ready_timeout_until(Duration::from_millis(1), &stop)?);
    /// tube.put(b"hello")?;
    /// assert!(tube.wait_ready_timeout_until(Duration::MAX, &stop)?);
    /// stop.stop();
    /// assert!(!tube.wait_ready_timeout_until(Duration::MAX, &stop)?); // stopped
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`wait_ready`](Tube::wait_ready).
    pub fn wait_ready_timeout_until(&self, timeout: Duration, stop: &Stop) -> Result<bool> {
        self.look_waiting(Wait::within(timeout).or_until(stop))
    }

    fn look_waiting(&self, wait: Wait<'_>) -> Result<bool> {
        if wait.is_stopped() {
            return Ok(false);
        }
        let (core, number) = (&self.inner.core, self.number);
        let look = || {
            core.catch_up(number)?;
            let ready = core.look_at(|state, now| {
                let tube = state.tube(number)?;
                if tube.row.may_be_closed()
                    && gates::free((&state.store, &state.derived), &tube, now)? == 0
                {
                    return Ok(None);
                }
                Ok(query::next(&state.store, &tube, State::Ready, now)?.map(drop))
            })?;
            if ready.is_none() {
                // Read-only none will come.
                core.health.runs()?;
            }
            Ok(ready)
        };
        let ready = core.wait_for(&core.ready_waiters, number, 0, wait, look);
        self.name_errors("wait", ready.map(|ready| ready.is_some()))
    }
}
