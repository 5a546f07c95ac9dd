//! The options of a tube that are gates: what all of its tasks need before they are taken.

use crate::words::gates::{Gates, Rate};
use crate::words::options::TubeOptions;
use crate::words::sync::Arc;

impl TubeOptions {
    /// How many tasks of the tube may be taken at the same time, whatever their groups. 0: no
    /// limit, which is the default.
    ///
    /// While so many are taken, the takes of the tube wait. A taken task counts until its lease has
    /// ended, in whatever way, and also while it is [stalled](crate::Lapse) or waits for the
    /// [grace](crate::Queue::consumer_with_grace) of its consumer, after a crash too. Set with
    /// [`Tube::set`](crate::Tube::set) it is in force at once for all tasks of the tube: a lower
    /// limit ends no lease.
    ///
    /// ```
    /// use tubewell::{Queue, TubeOptions};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tube = queue.create_tube("letters", TubeOptions::default().limit(2))?;
    /// tube.put_many([b"a".to_vec(), b"b".to_vec(), b"c".to_vec()])?;
    /// let mut taken = tube.take_many(3)?;
    /// assert_eq!((taken.len(), tube.stats()?.limited), (2, 1));
    /// assert!(tube.try_take()?.is_none());
    /// taken.remove(0).ack()?;
    /// assert_eq!(&tube.take()?[..], b"c");
    /// # Ok(())
    /// # }
    /// ```
    pub fn limit(mut self, tasks: u64) -> Self {
        self.change_gates(|gates| gates.limit = tasks);
        self
    }

    /// How many tasks of the tube may be taken at the same time. `None`: no limit.
    pub fn get_limit(&self) -> Option<u64> {
        self.gates.as_ref().map(|gates| gates.limit).filter(|limit| *limit > 0)
    }

    /// How often tasks of the tube are taken; [`Rate`] has an example. Set with
    /// [`Tube::set`](crate::Tube::set) it is in force at once. Default: as often as takers come.
    pub fn rate(mut self, rate: Rate) -> Self {
        self.change_gates(|gates| gates.rate = Some(rate));
        self
    }

    /// How often tasks of the tube are taken. `None`: as often as takers come.
    pub fn get_rate(&self) -> Option<Rate> {
        self.gates.as_ref()?.rate
    }

    /// Changes its gates.
    pub(crate) fn change_gates(&mut self, change: impl FnOnce(&mut Gates)) {
        let mut gates = self.gates.take().unwrap_or_default();
        change(Arc::make_mut(&mut gates));
        self.gates = (*gates != Gates::default()).then_some(gates);
    }
}
