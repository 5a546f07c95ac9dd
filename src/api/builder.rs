//! Options for opening a queue, with every default written out.

#[cfg(feature = "serde")]
mod form;

use crate::api::placement::Placement;
use crate::api::queue::Queue;
use crate::format::feature::KNOWN;
use crate::runtime::shared::{CoreSettings, Shared};
use crate::store::{Access, Clocks, Config, Disk, Folder, Progress, Store};
use crate::words::clock::{Clock, SystemClock, micros};
use crate::words::durability::Durability;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits;
use crate::words::macros::{debug, setters};
use crate::words::name;
use crate::words::queue_options::QueueOptions;
use crate::words::sync::Arc;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

/// Options for opening a queue, from [`Queue::builder`].
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
///     .read_only(false)
///     .by_hand(false)
///     .open(&path)?; // and no placement, no progress
/// assert!(spelled_out.tubes()?.is_empty());
/// # Ok(())
/// # }
/// ```
///
/// Some settings can be stored in the queue by [`Queue::set`]. What the builder is given goes
/// before what is stored, also if it is the default.
///
/// # In a configuration file
///
/// With the feature `serde` the settings can be serialised and deserialised. The form has a field
/// for each setter, with its name and the value that it takes. A field that is absent is not given,
/// and so is null for those that can be [stored](Queue::set): then the stored value counts, or the
/// default. An unknown field is refused. A value outside its limits is refused by the opening, as
/// without a file. Lengths of time are as in
/// [`TubeOptions`](crate::TubeOptions#in-a-configuration-file).
///
/// The clock, the placements and the progress function are code: the form does not have them, and
/// they are given to the builder after it was read.
///
/// ```
/// # #[cfg(feature = "serde")]
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use tubewell::{Builder, ErrorKind, ManualClock};
///
/// let file = r#"{ "durability": "relaxed", "payload_bytes_max": 4 }"#;
/// let builder: Builder = serde_json::from_str(file)?;
/// assert_eq!(serde_json::to_value(&builder)?["durability"], "relaxed");
///
/// let queue = builder.clock(ManualClock::new()).in_memory()?;
/// let refused = queue.tube("letters")?.put(b"hello").unwrap_err();
/// assert_eq!(refused.kind(), ErrorKind::TooLarge);
///
/// let builder: Builder = serde_json::from_str(r#"{ "journal_bytes": 1 }"#)?;
/// assert_eq!(builder.in_memory().unwrap_err().kind(), ErrorKind::Invalid);
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "serde"))]
/// # fn main() {}
/// ```
#[must_use = "nothing is opened before `open`"]
pub struct Builder {
    core: CoreSettings,
    clock_gap_max: Duration,
    placements: Vec<(String, Arc<dyn Placement>)>,
    config: Config,
    progress: Box<dyn FnMut(Progress) -> ControlFlow<()>>,
    disk: Option<Arc<dyn Disk>>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            core: CoreSettings {
                clock: Arc::new(SystemClock::default()),
                by_hand: false,
                given: QueueOptions::default(),
            },
            clock_gap_max: limits::CLOCK_GAP_MAX,
            placements: Vec::new(),
            config: Config {
                journal_bytes: limits::JOURNAL_BYTES,
                cache_bytes: limits::CACHE_BYTES,
                accept_loss: false,
                access: Access::Write,
                known: KNOWN,
            },
            progress: Box::new(|_| ControlFlow::Continue(())),
            disk: None,
        }
    }
}

setters! {
    [] Builder;

    /// When calls return. A [tube handle](crate::Tube::durability) and a
    /// [put](crate::NewTask::durability) may have another, and a [`transact`](Queue::transact) is
    /// always durable. Default: [`Durability::Durable`].
    durability(durability: Durability) => core.given.durability = Some(durability);

    /// How long a relaxed write may stay unsynced. Default: 50 ms.
    flush_interval(interval: Duration) => core.given.flush_interval = Some(interval);

    /// Bytes of the cache over the folder's base. Default: 32 MiB.
    cache_bytes(bytes: usize) => config.cache_bytes = bytes;

    /// Bytes of the journal, from 64 KiB to 1 GiB, for a queue that this opening makes; an existing
    /// queue keeps its size. A larger journal makes checkpoints rarer and longer, and an opening
    /// after a kill slower. Default: 32 MiB.
    journal_bytes(bytes: u64) => config.journal_bytes = bytes;

    /// The most bytes of one payload, up to 1 GiB. A larger payload is refused as
    /// [`TooLarge`](ErrorKind::TooLarge). Default: 16 MiB.
    payload_bytes_max(bytes: usize) => core.given.payload_bytes_max = Some(bytes);

    /// The most bytes of memory that all temporary tubes take together, the rows around their
    /// payloads included; a put that would go over is refused as [`Full`](ErrorKind::Full).
    /// Default: 256 MiB.
    temporary_bytes_max(bytes: u64) => core.given.temporary_bytes_max = Some(bytes);

    /// The most payload bytes that all durable tubes may hold together, in every state, with what
    /// earlier runs have put. [`Space::durable_bytes`](crate::Space::durable_bytes) returns how
    /// many they hold. Default: `u64::MAX`, no limit.
    ///
    /// A put that would exceed it is refused as [`Full`](ErrorKind::Full) before anything is
    /// written, at once or after its [`wait_for_room`](crate::NewTask::wait_for_room). A batch is
    /// refused as a whole. A keyed put that replaces a task counts the bytes that this frees. Every
    /// other verb still works, also above the limit: a queue that is opened with a lower limit
    /// accepts puts again after its takers have removed enough. The bytes of a tube that was
    /// truncated or dropped become free while a sweep removes its rows, in steps and soon after the
    /// call.
    ///
    /// Keys, groups and the rows around a payload do not count. Temporary tubes do not count
    /// either: they have [their own limit](Builder::temporary_bytes_max).
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
    durable_bytes_max(bytes: u64) => core.given.durable_bytes_max = Some(bytes);

    /// The clock. Default: the machine's.
    clock(clock: impl Clock) => core.clock = Arc::new(clock);

    /// How much time at most counts as passed while the queue was not open, if only the wall clock
    /// shows it: the machine was restarted, or has no clock that counts sleep. It limits the effect
    /// of a wall clock that was wrong for a while; see
    /// [`Queue::clock_step`](crate::Queue::clock_step). Default: 30 days.
    clock_gap_max(length: Duration) => clock_gap_max = length;

    /// How long the leases of a [`Consumer`](crate::Consumer) outlive it, unless it was opened with
    /// [a grace of its own](crate::Queue::consumer_with_grace). Default: not at all.
    session_grace(grace: Duration) => core.given.session_grace = Some(grace);

    /// For how long a named [`Consumer`](crate::Consumer) is listed after its session has ended
    /// and its leases have returned, in [queue time](crate#time), unless it has said [for how long
    /// itself](crate::ConsumerOptions::keep). Default: zero, it is forgotten at once.
    consumer_keep(keep: Duration) => core.given.consumer_keep = Some(keep);

    /// Calls `progress` in the caller's thread with how far a long opening has come. `Break` stops
    /// the opening; the next one begins where this one did. Default: none.
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use tubewell::{ErrorKind, Queue};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("work.queue");
    /// let stopped = Queue::builder().progress(|_| ControlFlow::Break(())).open(&path);
    /// assert_eq!(stopped.unwrap_err().kind(), ErrorKind::Cancelled);
    /// ```
    progress(progress: impl FnMut(Progress) -> ControlFlow<()> + 'static) =>
        progress = Box::new(progress);

    /// Opens a damaged journal up to the damage, and loses all records after it. Default: such a
    /// queue is refused. Rows that the journal keeps for the base because the disk was full cannot
    /// be lost in part, because the base has some of them already. With damage there the queue is
    /// always refused.
    accept_loss(yes: bool) => config.accept_loss = yes;

    /// Opens the queue to be read only. No byte of its folder changes, from the opening to the
    /// close, and the folder may be one that this process must not write to. Several processes, or
    /// several openings of one, may read a folder at a time; while one reads no other writes, and
    /// the other way round: the later opening is refused as [`Locked`](ErrorKind::Locked). Default:
    /// off.
    ///
    /// It shows the queue as of its last write, also after a kill: the journal is read into memory,
    /// and the base is repaired there if need be. This takes no more memory than an opening for
    /// writing: the rows of the journal, the cache, and about two bits for each 4 KiB of the base.
    /// Nothing moves: a task whose delay has ended is still delayed, one whose ttl has ended is
    /// still there, and what an ended process had taken is still taken, with no time left of its
    /// lease. Temporary tubes are empty. Every call that only reads works, also
    /// [`check`](Queue::check).
    ///
    /// Every other call returns [`ReadOnly`](ErrorKind::ReadOnly) and does nothing, also a take or
    /// [`wait_ready`](crate::Tube::wait_ready) that would have to wait. [`Queue::tube`] finds a
    /// tube but makes none. There are no threads in the background and no events.
    ///
    /// An opening where no queue is returns [`ReadOnly`](ErrorKind::ReadOnly) and makes nothing. A
    /// folder that needs a newer version to be written, but not to be read, opens.
    ///
    /// ```
    /// use tubewell::{ErrorKind, Queue, State};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("work.queue");
    /// let absent = Queue::builder().read_only(true).open(&path).unwrap_err();
    /// assert_eq!(absent.kind(), ErrorKind::ReadOnly);
    ///
    /// let queue = Queue::open(&path)?;
    /// queue.tube("letters")?.put(b"hello")?;
    /// let beside = Queue::builder().read_only(true).open(&path).unwrap_err();
    /// assert_eq!(beside.kind(), ErrorKind::Locked);
    /// queue.close()?;
    ///
    /// let reader = Queue::builder().read_only(true).open(&path)?;
    /// let another = Queue::builder().read_only(true).open(&path)?;
    /// assert_eq!(another.tube("letters")?.len()?, 1);
    /// let tube = reader.tube("letters")?;
    /// assert_eq!(tube.peek_next(State::Ready)?.unwrap().payload, b"hello");
    /// assert_eq!(tube.take().unwrap_err().kind(), ErrorKind::ReadOnly);
    /// # Ok(())
    /// # }
    /// ```
    read_only(yes: bool) => config.access = if yes { Access::Read } else { Access::Write };

    /// Starts no background threads (default: three, and one more for callbacks). Instead
    /// [`Queue::tick`] handles deadlines and calls the callbacks, [`Queue::flush`] syncs relaxed
    /// writes, and a checkpoint runs in the call that needs one. For tests, and for programs with
    /// their own loop. Default: off.
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
    by_hand(yes: bool) => core.by_hand = yes;

    /// Uses this disk instead of a folder, for [`open_disk`](Builder::open_disk).
    #[doc(hidden)]
    disk(disk: Arc<dyn Disk>) => disk = Some(disk);
}

impl Builder {
    /// Registers a placement under the name that tubes refer to it by, 1 to 255 bytes without
    /// control characters. A second one of the same name is refused when the queue is opened.
    ///
    /// ```
    /// use tubewell::{Place, Placement, PutView, Queue, TubeOptions};
    ///
    /// struct Alphabet;
    ///
    /// impl Placement for Alphabet {
    ///     fn place(&self, put: &PutView<'_>) -> Place {
    ///         Place::new(&put.payload[..put.payload.len().min(16)])
    ///     }
    /// }
    ///
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::builder().placement("alphabet", Alphabet).in_memory()?;
    /// let films = queue.create_tube("films", TubeOptions::default().placement("alphabet"))?;
    /// films.put_many([b"Vertigo".to_vec(), b"Alien".to_vec()])?;
    /// assert_eq!(&films.take()?[..], b"Alien");
    /// # Ok(())
    /// # }
    /// ```
    pub fn placement(mut self, name: impl Into<String>, placement: impl Placement) -> Self {
        self.placements.push((name.into(), Arc::new(placement)));
        self
    }

    /// Opens the queue in this folder, or makes it. If the last run did not close the queue, all
    /// its leases are void: their tasks return to their places, with the attempt counted, except
    /// those of named consumers with a grace.
    ///
    /// An empty folder, also a mount point, keeps its owner and its mode; only files are made in
    /// it. On Unix a new folder and every file can be read by its owner only.
    ///
    /// Damage is refused or contained, with one exception: a few bytes of `base.redb` belong to
    /// redb alone, and redb may abort the process when it meets damage there. Open a folder that
    /// you do not trust in a process of its own first.
    ///
    /// # Errors
    /// [`Locked`](ErrorKind::Locked) if the folder is open in this or another process;
    /// [`NotAQueue`](ErrorKind::NotAQueue) if there is something else, which is not changed;
    /// [`NewerFormat`](ErrorKind::NewerFormat); [`Damaged`](ErrorKind::Damaged);
    /// [`Io`](ErrorKind::Io) such as for a missing parent; [`Cancelled`](ErrorKind::Cancelled) by
    /// the progress function; [`Invalid`](ErrorKind::Invalid) for a setting outside its limits, two
    /// placements of one name, or a placement's name that is not allowed;
    /// [`ReadOnly`](ErrorKind::ReadOnly) where no queue is and [none may be
    /// made](Builder::read_only).
    pub fn open(self, path: impl AsRef<Path>) -> Result<Queue> {
        let path = path.as_ref();
        let disk = Arc::new(Folder::at(path));
        self.start(Some(disk)).map_err(|error| error.during("open").at(path))
    }

    /// Opens the queue on the disk given with [`disk`](Builder::disk).
    ///
    /// # Errors
    /// As [`open`](Builder::open); [`Invalid`](ErrorKind::Invalid) if none was given.
    #[doc(hidden)]
    pub fn open_disk(mut self) -> Result<Queue> {
        let opened = match self.disk.take() {
            None => {
                Err(Error::new(ErrorKind::Invalid).because("no disk was given; call disk() first"))
            }
            disk => self.start(disk),
        };
        opened.map_err(|error| error.during("open"))
    }

    /// Makes a queue in memory, which ends with its last handle. Everything else is the same, also
    /// `transact`. `journal_bytes` is then how many bytes are collected before a checkpoint moves
    /// them to the base; `progress` and `accept_loss` have no effect.
    ///
    /// ```
    /// use tubewell::{ErrorKind, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::builder().payload_bytes_max(4).in_memory()?;
    /// let refused = queue.tube("letters")?.put(b"hello").unwrap_err();
    /// assert_eq!(refused.kind(), ErrorKind::TooLarge);
    /// let refused = Queue::builder().read_only(true).in_memory().unwrap_err();
    /// assert_eq!(refused.kind(), ErrorKind::Invalid);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) as [`open`](Builder::open), and with
    /// [`read_only`](Builder::read_only).
    pub fn in_memory(self) -> Result<Queue> {
        self.start(None).map_err(|error| error.during("open"))
    }

    /// Checks the settings, opens the store on the disk, or in memory without one, and starts the
    /// queue over it.
    fn start(mut self, disk: Option<Arc<dyn Disk>>) -> Result<Queue> {
        let placements = self.check()?;
        let clocks = Clocks { clock: &*self.core.clock, gap_max: micros(self.clock_gap_max) };
        let opened = match disk {
            Some(disk) => Store::open(disk, self.config, &clocks, &mut *self.progress)?,
            None if self.config.access == Access::Read => {
                let why = "read_only is for a folder; a queue in memory begins without tasks";
                return Err(Error::new(ErrorKind::Invalid).because(why));
            }
            None => Store::in_memory(self.config, &clocks)?,
        };
        let core = Shared::start(opened, self.core)?;
        Ok(Queue::over(core, placements))
    }

    /// Checks the settings. Returns the placements by name.
    fn check(&mut self) -> Result<BTreeMap<String, Arc<dyn Placement>>> {
        let invalid = |text: String| Err(Error::new(ErrorKind::Invalid).because(text));
        let journal = limits::JOURNAL_BYTES_MIN..=limits::JOURNAL_BYTES_MAX;
        let given = self.config.journal_bytes;
        if !journal.contains(&given) {
            let (least, most) = journal.into_inner();
            return invalid(format!("journal_bytes is {given}; it takes {least} to {most}"));
        }
        let (given, most) = (self.core.given.payload_bytes_max, limits::PAYLOAD_BYTES_MAX);
        if let Some(given) = given.filter(|given| *given > most) {
            return invalid(format!("payload_bytes_max is {given}; it takes at most {most}"));
        }
        let mut placements = BTreeMap::new();
        for (name, placement) in self.placements.drain(..) {
            name::label("placement name", &name)?;
            match placements.entry(name) {
                Entry::Vacant(free) => _ = free.insert(placement),
                Entry::Occupied(first) => {
                    return invalid(format!("placement {:?} is registered twice", first.key()));
                }
            }
        }
        Ok(placements)
    }
}

/// Opening.
impl Queue {
    /// Opens the queue in this folder with all defaults, or makes it.
    ///
    /// # Errors
    /// As [`Builder::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Builder::default().open(path)
    }

    /// Makes a queue in memory, which ends with its last handle.
    ///
    /// # Errors
    /// As [`Builder::in_memory`].
    pub fn in_memory() -> Result<Self> {
        Builder::default().in_memory()
    }

    /// Returns the options for opening a queue.
    pub fn builder() -> Builder {
        Builder::default()
    }
}

debug!(
    [] Builder, "Builder", this,
    "given": &this.core.given,
    "by_hand": &this.core.by_hand
);
