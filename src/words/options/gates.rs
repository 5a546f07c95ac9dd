//! The options of a tube that are gates: what all of its tasks need before they are taken.

use crate::words::gates::{Gates, Rate};
use crate::words::hours::Hours;
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

    /// Tasks are taken only while the queue's [condition](crate::Queue::set_condition) of this name
    /// is set. Each call adds a condition, at most 16: all of them must be set. One that was never
    /// declared is not set. Set with [`Tube::set`](crate::Tube::set), which takes all names at
    /// once, it is in force at once for all tasks of the tube. Default: none.
    ///
    /// ```
    /// use tubewell::{Queue, TubeOptions};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let uploads = queue.create_tube("uploads", TubeOptions::default().require("online"))?;
    /// uploads.put(b"photo")?;
    /// assert!(uploads.try_take()?.is_none());
    /// queue.set_condition_for_run("online", true)?;
    /// uploads.take()?.ack()?;
    /// uploads.set("require", ["online", "unmetered"])?;
    /// assert_eq!(uploads.info()?.options.get_require().count(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn require(mut self, condition: &str) -> Self {
        self.change_gates(|gates| _ = gates.required.insert(condition.to_owned()));
        self
    }

    /// The conditions that must be set, in the order of their names.
    pub fn get_require(&self) -> impl Iterator<Item = &str> {
        let gates = self.gates.as_ref();
        gates.into_iter().flat_map(|gates| gates.required.iter().map(String::as_str))
    }

    /// The hours of the week in which tasks are taken, by the wall clock; [`Hours`] has the texts
    /// that they are made of. A time zone needs the feature `cron`. At their end no lease ends;
    /// takers that wait go on when they begin. Set with [`Tube::set`](crate::Tube::set) they are in
    /// force at once. Default: all.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{Clock, ManualClock, Queue, TubeOptions};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let clock = ManualClock::new();
    /// # let since_epoch = clock.wall().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    /// # let into_week = (since_epoch.as_secs() + 3 * 86_400) % (7 * 86_400);
    /// # clock.advance(Duration::from_secs(7 * 86_400 - into_week));
    /// // It is Monday, 00:00.
    /// let queue = Queue::builder().by_hand(true).clock(clock.clone()).in_memory()?;
    /// let office = "Mon-Fri 09:00-17:00".parse()?;
    /// let calls = queue.create_tube("calls", TubeOptions::default().hours(office))?;
    /// calls.put(b"ada")?;
    /// assert!(calls.try_take()?.is_none());
    /// clock.advance(Duration::from_secs(9 * 3600));
    /// calls.take()?.ack()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn hours(mut self, hours: Hours) -> Self {
        self.change_gates(|gates| gates.hours = Some(hours));
        self
    }

    /// The hours of the week in which tasks are taken. `None`: all.
    pub fn get_hours(&self) -> Option<&Hours> {
        self.gates.as_ref()?.hours.as_ref()
    }

    /// A task of the tube takes a slot of the queue's [throttle](crate::Queue::set_throttle) of
    /// this name with the tubes that share it, and holds it while it is taken. Each call adds a
    /// throttle, at most 8: a slot of all of them must be free. One that was never set lets all
    /// through. Set with [`Tube::set`](crate::Tube::set), which takes all names at once, it is in
    /// force at once for all tasks of the tube; those that are taken keep what they hold. Default:
    /// none.
    ///
    /// ```
    /// use tubewell::{Queue, TubeOptions};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// queue.set_throttle("api", 1)?;
    /// let (options, names) = (TubeOptions::default().throttle("api"), ["read", "write"]);
    /// let [read, write] = names.map(|name| queue.create_tube(name, options.clone()));
    /// let (read, write) = (read?, write?);
    /// read.put(b"a")?;
    /// write.put(b"b")?;
    /// let task = read.take()?;
    /// assert!(write.try_take()?.is_none());
    /// task.ack()?;
    /// assert!(write.try_take()?.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn throttle(mut self, name: &str) -> Self {
        self.change_gates(|gates| _ = gates.throttles.insert(name.to_owned()));
        self
    }

    /// The throttles of which a taken task holds a slot, in the order of their names.
    pub fn get_throttles(&self) -> impl Iterator<Item = &str> {
        let gates = self.gates.as_ref();
        gates.into_iter().flat_map(|gates| gates.throttles.iter().map(String::as_str))
    }

    /// Changes its gates.
    pub(crate) fn change_gates(&mut self, change: impl FnOnce(&mut Gates)) {
        let mut gates = self.gates.take().unwrap_or_default();
        change(Arc::make_mut(&mut gates));
        self.gates = (*gates != Gates::default()).then_some(gates);
    }
}
