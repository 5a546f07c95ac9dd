//! How a queue is opened, every default written out.

use crate::api::placement::Placement;
use crate::api::queue::Queue;
use crate::api::queue_inner::{self, QueueInner};
use crate::runtime::core::Core;
use crate::runtime::shared;
use crate::store::{Clocks, Config, Disk, Folder, KNOWN, Opened, Progress, Store};
use crate::words::clock::{Clock, SystemClock, micros};
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits;
use crate::words::name;
use crate::words::options::Durability;
use crate::words::sync::Arc;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

/// How a queue is opened, from [`Queue::builder`].
///
/// ```
/// use std::time::Duration;
/// use tubewell::{Durability, Queue, SystemClock};
///
/// # fn main() -> tubewell::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("work.queue");
/// let plain = Queue::open(&path)?;
/// # plain.close()?;
/// let spelled_out = Queue::builder()
///     .durability(Durability::Durable)
///     .flush_interval(Duration::from_millis(50))
///     .cache_bytes(32 << 20)
///     .journal_bytes(32 << 20)
///     .payload_bytes_max(16 << 20)
///     .temporary_bytes_max(256 << 20)
///     .durable_bytes_max(u64::MAX)
///     .session_grace(Duration::ZERO)
///     .clock(SystemClock::default())
///     .clock_gap_max(Duration::from_secs(30 * 86_400))
///     .accept_loss(false)
///     .by_hand(false)
///     .open(&path)?; // and no placement, no progress
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is opened before `open`"]
pub struct Builder {
    durability: Durability,
    flush_interval: Duration,
    payload_bytes_max: usize,
    durable_bytes_max: u64,
    clock: Arc<dyn Clock>,
    clock_gap_max: Duration,
    session_grace: Duration,
    placements: Vec<(String, Arc<dyn Placement>)>,
    by_hand: bool,
    config: Config,
    progress: Watch,
    disk: Option<Arc<dyn Disk>>,
}

type Watch = Box<dyn FnMut(Progress) -> ControlFlow<()>>;

impl Default for Builder {
    fn default() -> Self {
        Self {
            durability: Durability::default(),
            flush_interval: limits::FLUSH_INTERVAL,
            payload_bytes_max: limits::PAYLOAD_BYTES,
            durable_bytes_max: limits::DURABLE_BYTES,
            clock: Arc::new(SystemClock::default()),
            clock_gap_max: limits::CLOCK_GAP_MAX,
            session_grace: Duration::ZERO,
            placements: Vec::new(),
            by_hand: false,
            config: Config {
                journal_bytes: limits::JOURNAL_BYTES,
                cache_bytes: limits::CACHE_BYTES,
                temporary_bytes_max: limits::TEMPORARY_BYTES,
                accept_loss: false,
                known: KNOWN,
            },
            progress: Box::new(|_| ControlFlow::Continue(())),
            disk: None,
        }
    }
}

impl Builder {
    /// When calls return; a tube handle and a put may say otherwise, and a
    /// [`transact`](Queue::transact) is always durable. Default: [`Durability::Durable`].
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// How long a relaxed write may stay unsynced. Default: 50 ms.
    pub fn flush_interval(mut self, interval: Duration) -> Self {
        self.flush_interval = interval;
        self
    }

    /// Bytes of the cache over the folder's base. Default: 32 MiB.
    pub fn cache_bytes(mut self, bytes: usize) -> Self {
        self.config.cache_bytes = bytes;
        self
    }

    /// Bytes of the journal, from 64 KiB to 1 GiB, for a queue that is made by this opening; an
    /// existing one keeps its own. More of them make checkpoints rarer and longer, and an opening
    /// after a kill slower. Default: 32 MiB.
    pub fn journal_bytes(mut self, bytes: u64) -> Self {
        self.config.journal_bytes = bytes;
        self
    }

    /// The most bytes of one payload, up to 1 GiB; a put of more is refused as
    /// [`TooLarge`](ErrorKind::TooLarge). Default: 16 MiB.
    pub fn payload_bytes_max(mut self, bytes: usize) -> Self {
        self.payload_bytes_max = bytes;
        self
    }

    /// The most bytes of memory that all temporary tubes take together, the rows around their
    /// payloads included; a put that would go over is refused as [`Full`](ErrorKind::Full).
    /// Default: 256 MiB.
    pub fn temporary_bytes_max(mut self, bytes: u64) -> Self {
        self.config.temporary_bytes_max = bytes;
        self
    }

    /// The most payload bytes that all durable tubes may hold together, in every state, whatever
    /// was put in an earlier run included. [`Space::durable_bytes`](crate::Space::durable_bytes)
    /// tells how many they hold. Default: `u64::MAX`, no limit.
    ///
    /// A put that would go over is refused as [`Full`](ErrorKind::Full) before anything is written,
    /// at once or after its [`wait_for_room`](crate::NewTask::wait_for_room); a batch as a whole; a
    /// keyed put that replaces counts what it frees. Everything else goes on, above the limit too:
    /// a queue that is opened with a lower one is drained by its takers, and then puts go on. The
    /// bytes of a tube that was truncated or dropped are free as the queue clears it away, in steps
    /// and soon after the call.
    ///
    /// Keys, groups and the rows around a payload do not count, nor do temporary tubes, which have
    /// [a limit of their own](Builder::temporary_bytes_max).
    ///
    /// ```
    /// use tubewell::{ErrorKind, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::builder().durable_bytes_max(10).in_memory()?;
    /// let tube = queue.tube("letters")?;
    /// tube.put(b"to ada")?;
    /// let refused = tube.put(b"to bob").unwrap_err(); // 12 bytes would be held
    /// assert_eq!(refused.kind(), ErrorKind::Full);
    /// tube.take()?.ack()?;
    /// tube.put(b"to bob")?;
    /// assert_eq!(queue.space()?.durable_bytes, 6);
    /// # Ok(())
    /// # }
    /// ```
    pub fn durable_bytes_max(mut self, bytes: u64) -> Self {
        self.durable_bytes_max = bytes;
        self
    }

    /// The clock. Default: the machine's.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// How much time at most counts as passed while the queue was not open, if only the wall clock
    /// tells of it: the machine was started anew, or has no clock that counts sleep. So a wall
    /// clock that was wrong for a while costs no more; see
    /// [`Queue::clock_step`](crate::Queue::clock_step). Default: 30 days.
    pub fn clock_gap_max(mut self, length: Duration) -> Self {
        self.clock_gap_max = length;
        self
    }

    /// How long the leases of a [`Consumer`](crate::Consumer) outlive it, unless it
    /// [says otherwise](crate::Queue::consumer_with_grace). Default: not at all.
    pub fn session_grace(mut self, grace: Duration) -> Self {
        self.session_grace = grace;
        self
    }

    /// Registers a placement under the name that tubes refer to it by, 1 to 255 bytes without
    /// control characters. A second one of the same name is refused when the queue is opened.
    pub fn placement(mut self, name: impl Into<String>, placement: impl Placement) -> Self {
        self.placements.push((name.into(), Arc::new(placement)));
        self
    }

    /// Is told how far a long opening has come, in the caller's thread; `Break` stops it, and
    /// leaves everything for the next one.
    pub fn progress(mut self, progress: impl FnMut(Progress) -> ControlFlow<()> + 'static) -> Self {
        self.progress = Box::new(progress);
        self
    }

    /// Opens a damaged journal up to the damage, and loses what stands after it. Default: such a
    /// queue is refused. What the journal keeps for a base that had no room on a full disk cannot
    /// be lost in part: the base holds some of these rows already. With damage there the queue is
    /// refused all the same.
    pub fn accept_loss(mut self, yes: bool) -> Self {
        self.config.accept_loss = yes;
        self
    }

    /// Starts no threads, of which there are else three, and a fourth for callbacks:
    /// [`Queue::tick`] does the work of the one for deadlines and calls the callbacks,
    /// [`Queue::flush`] does that of the one that syncs what is relaxed, and checkpoints run in the
    /// call that needs one. For tests, and for programs with a loop of their own. Default: off.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{ManualClock, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let clock = ManualClock::new();
    /// let queue = Queue::builder().by_hand(true).clock(clock.clone()).in_memory()?;
    /// let tube = queue.tube("letters")?;
    /// tube.task(b"hello").delay(Duration::from_secs(60)).put()?;
    /// assert!(tube.try_take()?.is_none());
    /// clock.advance(Duration::from_secs(60));
    /// queue.tick()?;
    /// assert_eq!(&tube.try_take()?.unwrap()[..], b"hello");
    /// # Ok(())
    /// # }
    /// ```
    pub fn by_hand(mut self, yes: bool) -> Self {
        self.by_hand = yes;
        self
    }

    /// Uses this disk instead of a folder, for [`open_disk`](Builder::open_disk).
    #[doc(hidden)]
    pub fn disk(mut self, disk: Arc<dyn Disk>) -> Self {
        self.disk = Some(disk);
        self
    }

    /// Opens the queue in this folder, or makes it. Every lease of a run that did not close the
    /// queue is void: its task returns to its place, its attempt counted, except those of named
    /// consumers with a grace.
    ///
    /// An empty folder, a mount point too, keeps its owner and its mode, and only files are made in
    /// it. On Unix a new folder, and every file, may be read by its owner alone.
    ///
    /// # Errors
    /// [`Locked`](ErrorKind::Locked) if the folder is open in this or another process;
    /// [`NotAQueue`](ErrorKind::NotAQueue) if something else is there, which stays untouched;
    /// [`NewerFormat`](ErrorKind::NewerFormat); [`Damaged`](ErrorKind::Damaged);
    /// [`Io`](ErrorKind::Io) such as for a missing parent; [`Cancelled`](ErrorKind::Cancelled) by
    /// the progress function; [`Invalid`](ErrorKind::Invalid) for a setting outside its limits or
    /// two placements of one name.
    pub fn open(self, path: impl AsRef<Path>) -> Result<Queue> {
        let path = path.as_ref();
        let disk = Arc::new(Folder::at(path));
        self.open_on(disk).map_err(|error| error.during("open").at(path))
    }

    /// Opens the queue on the disk that was given.
    ///
    /// # Errors
    /// As [`open`](Builder::open); [`Invalid`](ErrorKind::Invalid) if none was given.
    #[doc(hidden)]
    pub fn open_disk(mut self) -> Result<Queue> {
        let disk = self.disk.take();
        let disk = disk.ok_or_else(|| Error::new(ErrorKind::Invalid).because("no disk was given"));
        disk.and_then(|disk| self.open_on(disk)).map_err(|error| error.during("open"))
    }

    /// Makes a queue in memory, gone with its last handle. Everything else is the same, `transact`
    /// included; `journal_bytes` are then the bytes that gather before they are sorted in, and
    /// `progress` and `accept_loss` have nothing to do.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) as [`open`](Builder::open).
    pub fn in_memory(self) -> Result<Queue> {
        let opened = self.check().and_then(|placements| {
            let clocks = Clocks { clock: &*self.clock, gap_max: micros(self.clock_gap_max) };
            let opened = Store::in_memory(self.config.clone(), &clocks)?;
            self.start(opened, placements)
        });
        opened.map_err(|error| error.during("open"))
    }

    fn open_on(mut self, disk: Arc<dyn Disk>) -> Result<Queue> {
        let placements = self.check()?;
        let clocks = Clocks { clock: &*self.clock, gap_max: micros(self.clock_gap_max) };
        let opened = Store::open(disk, self.config.clone(), &clocks, &mut *self.progress)?;
        self.start(opened, placements)
    }

    fn start(
        self,
        opened: Opened,
        placements: BTreeMap<String, Arc<dyn Placement>>,
    ) -> Result<Queue> {
        let settings = shared::CoreSettings {
            clock: self.clock,
            flush_interval: self.flush_interval,
            by_hand: self.by_hand,
            durable_bytes_max: self.durable_bytes_max,
        };
        let core = Core::start(opened, settings)?;
        let settings = queue_inner::HandleSettings {
            durability: self.durability,
            payload_bytes_max: self.payload_bytes_max,
            session_grace: self.session_grace,
            placements,
        };
        Ok(Queue::over(QueueInner::new(core, settings)))
    }

    fn check(&self) -> Result<BTreeMap<String, Arc<dyn Placement>>> {
        let invalid = |text: String| Err(Error::new(ErrorKind::Invalid).because(text));
        let journal = limits::JOURNAL_BYTES_MIN..=limits::JOURNAL_BYTES_MAX;
        if !journal.contains(&self.config.journal_bytes) {
            return invalid(format!(
                "journal_bytes is {}; it takes {} to {}",
                self.config.journal_bytes,
                journal.start(),
                journal.end()
            ));
        }
        if self.payload_bytes_max > limits::PAYLOAD_BYTES_MAX {
            let (given, most) = (self.payload_bytes_max, limits::PAYLOAD_BYTES_MAX);
            return invalid(format!("payload_bytes_max is {given}; it takes at most {most}"));
        }
        let mut placements = BTreeMap::new();
        for (name, placement) in &self.placements {
            name::label("placement name", name)?;
            if placements.insert(name.clone(), placement.clone()).is_some() {
                return invalid(format!("placement {name:?} is registered twice"));
            }
        }
        Ok(placements)
    }
}

/// The doors in.
impl Queue {
    /// Opens the queue in this folder with every default, or makes it.
    ///
    /// # Errors
    /// As [`Builder::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Builder::default().open(path)
    }

    /// Makes a queue in memory, gone with its last handle.
    ///
    /// # Errors
    /// As [`Builder::in_memory`].
    pub fn in_memory() -> Result<Self> {
        Builder::default().in_memory()
    }

    /// Settings for opening.
    pub fn builder() -> Builder {
        Builder::default()
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("durability", &self.durability)
            .field("flush_interval", &self.flush_interval)
            .field("payload_bytes_max", &self.payload_bytes_max)
            .field("durable_bytes_max", &self.durable_bytes_max)
            .field("session_grace", &self.session_grace)
            .field("by_hand", &self.by_hand)
            .finish_non_exhaustive()
    }
}
