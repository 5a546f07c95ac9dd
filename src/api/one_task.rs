//! What only the put of one task says: its key, whether it goes to the front, and how long it waits
//! for room. What is done with that is decided elsewhere.

use crate::api::put::NewTask;
#[cfg(doc)]
use crate::words::error::ErrorKind;
use crate::words::macros::setters;
use crate::words::stop::Stop;
use crate::words::verb::Conflict;
use crate::words::wait::WaitLength;
use std::time::Duration;

setters! {
    ['a, T: ?Sized] NewTask<'a, T>;

    /// Under the caller's own key, which one task of the tube can have until it is finished or
    /// gone, also while it is buried: a task that failed and is not tried again keeps its key until
    /// it is kicked, deleted or replaced. [`unique`](crate::TubeOptions::unique) may say otherwise.
    /// 1 to 255 bytes without control characters.
    key(key: &'a str) => row.key = Some(key);

    /// What to do if a task has the key. Default: [`Conflict::Keep`]. It has no effect without a
    /// [`key`](NewTask::key).
    on_conflict(conflict: Conflict) => row.conflict = conflict;

    /// Before all others of its priority, also before earlier front puts. A tube with a
    /// [placement](crate::TubeOptions::placement) refuses it.
    front() => row.front = true;

    /// Waits at most this long, in [lease time](crate#time), while the tube is at its capacity, or
    /// all [durable](crate::Builder::durable_bytes_max) or all
    /// [temporary](crate::Builder::temporary_bytes_max) tubes at theirs. Default: not at all.
    ///
    /// In each tube the put that waits longest is served first. Later puts of new tasks stand
    /// behind it: those that do not wait are [`Full`](ErrorKind::Full).
    /// [`Queue::waiters`](crate::Queue::waiters) lists the waiting puts.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{Queue, TubeOptions};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tube = queue.create_tube("letters", TubeOptions::default().capacity(1))?;
    /// tube.put(b"a")?;
    /// let refused = tube.task(b"b").wait_for_room(Duration::from_millis(1)).put();
    /// assert!(refused.unwrap_err().is_full());
    /// tube.take()?.ack()?;
    /// tube.task(b"b").wait_for_room(Duration::MAX).put()?;
    /// # Ok(())
    /// # }
    /// ```
    wait_for_room(timeout: Duration) => room.length = Some(WaitLength::For(timeout));

    /// Waits for room like [`wait_for_room`](NewTask::wait_for_room), until [`stop`](Stop::stop) is
    /// called. After that the put is refused where it would wait. With both, the wait ends at the
    /// first of the two.
    ///
    /// ```
    /// use tubewell::{ErrorKind, Queue, Stop, TubeOptions};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tube = queue.create_tube("letters", TubeOptions::default().capacity(1))?;
    /// tube.put(b"a")?;
    /// let stop = Stop::new();
    /// let waiting = std::thread::spawn({
    ///     let (tube, stop) = (tube.clone(), stop.clone());
    ///     move || tube.task(b"b").wait_for_room_until(&stop).put()
    /// });
    /// stop.stop();
    /// assert_eq!(waiting.join().unwrap().unwrap_err().kind(), ErrorKind::Full);
    /// # Ok(())
    /// # }
    /// ```
    wait_for_room_until(stop: &'a Stop) => room.stop = Some(stop);
}
