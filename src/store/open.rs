//! Opening: a queue is found or created, its two files are proved to belong together, the chain of
//! records behind the base's anchor is replayed, and everything that was read is on the medium
//! before anything is answered. Up to that proof no byte of the journal is changed;
//! redb notes in the base's header that it was opened. Nothing of it needs a new block of the disk.

use super::base::{Base, of_its_bytes, unreadable};
use super::carry::{self, Carry};
use super::create::{NO_JOURNAL, create, random};
use super::disk::{Disk, DiskFile, FileName, Found};
use super::features::{Features, Slot};
use super::head::{self, HEAD_BYTES, HeadFault, JournalHead, QueueId};
use super::io_counters::IoCounters;
use super::journal::{Ring, WriteFault};
use super::journal_reader::{self, RingReader};
use super::progress::{ProgressFn, Stage, tell};
use super::record::{
    Kind, MetaDelta, Preamble, RecordMeta, RowSeen, Span, boot_of, next_row, set_boot,
};
use super::reserve::{BaseFile, touch_len};
use super::shield::Shield;
use super::tables::{CheckpointPosition, decode_tally};
use super::view::Rows;
use super::{Config, Store};
use crate::format::FORMAT;
use crate::format::extension::Extension;
use crate::format::key::Run;
use crate::format::pack::Unpacker;
use crate::words::clock::{Boot, Clock, ClockMarks, ClockStep, QueueClock};
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::NUMBER_BLOCK;
use crate::words::numbers::Numbers;
use crate::words::sync::Arc;

/// How often a queue is created while others remove what is there.
const TRIES: u32 = 8;

/// A store as it was opened.
pub(crate) struct Opened {
    pub(crate) store: Store,
    pub(crate) reckoning: QueueClock,
    /// What the wall clock did while nobody looked.
    pub(crate) step: Option<ClockStep>,
    /// The numbers that are reserved durably and were never given out: from these on, ...
    pub(crate) first: Numbers,
    /// ... to those before these.
    pub(crate) reserved: Numbers,
}

/// What queue time goes on by.
pub(crate) struct Clocks<'a> {
    pub(crate) clock: &'a dyn Clock,
    /// Microseconds that count at most for a time that only the wall clock tells of.
    pub(crate) gap_max: u64,
}

impl Clocks<'_> {
    fn resume(&self, marks: ClockMarks, boot: Option<Boot>) -> (QueueClock, Option<ClockStep>) {
        QueueClock::resume(marks, boot, self.clock, self.gap_max)
    }
}

fn damaged(what: &str) -> Error {
    Error::new(ErrorKind::Damaged).because(what)
}

const STRANGERS: &str = "base.redb and journal do not belong together; restore both from one copy";
const UNRELEASED: &str = "made by a version before the first release: finish its tasks with that \
                          version, or move the folder away and begin a new queue";
const GAP: &str = "a synced record of the journal is missing; restore the folder from a copy, or \
                   open with accept_loss to go on without what came after";

// Also with accept_loss: the base holds a part of the carried rows, so what is left of them is no
// state that the queue was ever in.
const CARRY_GAP: &str = "a row that the journal keeps since the disk was full is missing; restore \
                         the folder from a copy";

impl Store {
    /// Opens the queue on this disk, or makes it.
    ///
    /// # Errors
    /// `Locked`, `NotAQueue`, `NewerFormat`, `Damaged`, `Io`, `DiskFull`, or `Cancelled` by
    /// `progress`.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        config: Config,
        clocks: &Clocks<'_>,
        progress: ProgressFn<'_>,
    ) -> Result<Opened> {
        let folder = disk.folder().to_owned();
        let (disk, traffic) = IoCounters::of(disk);
        Self::find(disk, traffic, config, clocks, progress)
            .map_err(|error| of_its_bytes(error).during("open").at(&folder))
    }

    fn find(
        disk: Arc<dyn Disk>,
        traffic: Arc<IoCounters>,
        config: Config,
        clocks: &Clocks<'_>,
        told: ProgressFn<'_>,
    ) -> Result<Opened> {
        for tries in 0.. {
            match disk.found().map_err(Error::io)? {
                Found::Whole => break,
                // Others begin and give up all the time.
                Found::Nothing | Found::Unfinished if tries == TRIES => {
                    return Err(Error::new(ErrorKind::Locked));
                }
                Found::Nothing | Found::Unfinished => {
                    create(&*disk, config.journal_bytes, told)?;
                }
                Found::Missing(FileName::Journal) => {
                    return Err(damaged(NO_JOURNAL));
                }
                Found::Missing(FileName::Base) => return Err(missing_base(&*disk)),
                Found::Foreign(what) => return Err(Error::new(ErrorKind::NotAQueue).because(what)),
            }
        }
        let Some(journal) = disk.open_journal().map_err(Error::io)? else {
            return Err(Error::new(ErrorKind::Locked));
        };
        let (head, slot) = read_head(&*journal)?;
        slot.features.admit(config.known)?;
        let base = open_base(&*disk, &config)?;
        Self::open_files((disk, traffic), (config, clocks), told, journal, base, (head, slot))
    }

    fn open_files(
        (disk, traffic): (Arc<dyn Disk>, Arc<IoCounters>),
        (config, clocks): (Config, &Clocks<'_>),
        told: ProgressFn<'_>,
        file: Arc<dyn DiskFile>,
        base: Base,
        (head, slot): (JournalHead, Slot),
    ) -> Result<Opened> {
        let anchor = base.anchor();
        if anchor.queue != head.queue {
            return Err(damaged(STRANGERS));
        }
        let features = slot.features.union(&copied_features(anchor)?)?;
        let mut rows = Rows::load(&base)?;
        let carry = read_carry(&*file, &head, anchor)?;
        let floor = carry.map_or(anchor.span, |carry| carry.floor);
        let tail = replay(&*file, &head, (anchor, carry), &mut rows, told)?;
        let lost = RingReader::new(&*file, &head)
            .beyond(tail.span.link.number, |done| tell(told, Stage::Scan, done, head.ring))?;
        if !lost.is_empty() && !config.accept_loss {
            return Err(damaged(GAP));
        }
        tell(told, Stage::Settle, 0, 1)?;
        journal_reader::wipe(&*file, &lost).map_err(Error::io)?;
        journal_reader::write_again(&*file, &head, floor.end, tail.span.end).map_err(Error::io)?;
        // After a failed sync the slot, too, may be in the system's memory only. Without it the
        // next opening begins at the anchor, where the ring is written over by then.
        if let Some(carry) = carry {
            file.write_at(carry.at(), &carry.encode(head.seed())).map_err(Error::io)?;
        }
        let carries = carry.map_or(0, |carry| carry.sequence);
        let ring = Ring::resume(file.clone(), (&head, slot), floor, tail.span, carries);
        let (reckoning, step) = clocks.resume(tail.stamp.marks, tail.boot);
        let number = tail.span.link.number;
        let stamp = tail.stamp;
        let mut store = Self::of((Some(disk), traffic), config, Some(ring), base, rows);
        (store.number, store.stamp, store.boot) = (number, stamp, reckoning.boot());
        // The replayed records must be on the medium before a checkpoint is anchored to one.
        file.sync().map_err(|error| Error::not_synced("the journal", error))?;
        if store.ring.as_ref().is_some_and(|ring| *ring.features() != features) {
            store.use_features(features)?;
        }
        store.full = !store.refill();
        store.make_room_for_opening()?;
        let reserved = stamp.reserved.plus(Numbers::both(NUMBER_BLOCK));
        let advance = MetaDelta { marks: reckoning.marks(), reserved, durable_bytes: 0 };
        store.write_opening(stamp.moved(advance))?;
        if let Some(journal) = store.journal() {
            journal.sync()?;
        }
        tell(told, Stage::Settle, 1, 1)?;
        Ok(Opened { store, reckoning, step, first: stamp.reserved, reserved })
    }

    fn of(
        (disk, traffic): (Option<Arc<dyn Disk>>, Arc<IoCounters>),
        config: Config,
        ring: Option<Ring>,
        base: Base,
        rows: Rows,
    ) -> Self {
        Self {
            disk,
            traffic,
            config,
            ring,
            rows,
            stamp: base.anchor().stamp,
            base: Some(base),
            boot: None,
            number: 0,
            checkpoints_done: 0,
            full: false,
            stuck: (0, 0),
            refused_at: None,
            frozen_runs: Vec::new(),
            health: Arc::default(),
        }
    }

    fn write_opening(&mut self, stamp: RecordMeta) -> Result<()> {
        let nonce = u64::from_be_bytes(random()?);
        let mut extension = Extension::default();
        if let Some(boot) = self.boot {
            set_boot(&mut extension, boot);
        }
        for _ in 0..2 {
            let Some(ring) = &mut self.ring else { break };
            match ring.append_opening(&stamp, &extension, nonce) {
                Ok(number) => {
                    (self.number, self.stamp) = (number, stamp);
                    return Ok(());
                }
                Err(WriteFault::NoRoom | WriteFault::TooLarge) => self.checkpoint()?,
                Err(WriteFault::Undone(error) | WriteFault::Stuck(error)) => {
                    return Err(Error::io(error));
                }
            }
        }
        Err(Error::new(ErrorKind::Broken).because("the journal has no room for an opening"))
    }

    /// What an opening says that failed over the rows: a row that points nowhere is damage, too.
    pub(crate) fn blamed(&self, error: Error) -> Error {
        match error.kind() {
            ErrorKind::TubeNotFound => damaged("a tube is missing").caused_by(error),
            // What stopped the store may have been told to somebody else.
            ErrorKind::Broken if self.health.is_broken_in_bytes() => unreadable(error),
            _ => of_its_bytes(error),
        }
    }

    /// A queue of this process's memory, with nothing to replay and nothing to sync.
    pub(crate) fn in_memory(config: Config, clocks: &Clocks<'_>) -> Result<Opened> {
        let anchor = CheckpointPosition::genesis(QueueId::default(), 0);
        let base = Base::in_memory(config.cache_bytes, &anchor)?;
        let (reckoning, step) = clocks.resume(anchor.stamp.marks, None);
        let first = anchor.stamp.reserved;
        let reserved = first.plus(Numbers::both(NUMBER_BLOCK));
        let mut store = Self::of((None, Arc::default()), config, None, base, Rows::default());
        store.stamp.reserved = reserved;
        Ok(Opened { store, reckoning, step, first, reserved })
    }
}

/// Opens the base's file. The opening takes no block of the disk: no part of the file is sparse.
/// Nothing is written if the anchor tells of features that this version must know.
fn open_base(disk: &dyn Disk, config: &Config) -> Result<Base> {
    let file = disk.open_base().map_err(Error::io)?;
    let shield = Arc::new(Shield::over(file.clone()));
    let base = Base::open(BaseFile::new(shield.clone()).map_err(Error::io)?, config.cache_bytes)?;
    copied_features(base.anchor())?.admit(config.known)?;
    settle_header(&*file)?;
    shield.release()?;
    Ok(base)
}

/// Opens the base's file once more, behind a change of it.
pub(super) fn open_base_again(
    disk: &dyn Disk,
    cache: usize,
    change: impl FnOnce(&BaseFile) -> Result<()>,
) -> Result<Base> {
    let file = disk.open_base().map_err(Error::io)?;
    settle_header(&*file)?;
    let file = BaseFile::new(file).map_err(Error::io)?;
    change(&file)?;
    Base::open(file, cache)
}

fn copied_features(anchor: &CheckpointPosition) -> Result<Features> {
    anchor.features().ok_or_else(|| damaged("the anchor of base.redb"))
}

/// A folder with a file that happens to be called journal is not a damaged queue.
fn missing_base(disk: &dyn Disk) -> Error {
    let journal = match disk.open_journal() {
        Ok(Some(journal)) => journal,
        Ok(None) => return Error::new(ErrorKind::Locked),
        Err(error) => return Error::io(error),
    };
    match read_head(&*journal) {
        Err(error) if error.kind() == ErrorKind::NotAQueue => error,
        _ => damaged("the file base.redb is missing"),
    }
}

fn read_head(file: &dyn DiskFile) -> Result<(JournalHead, Slot)> {
    let len = file.len().map_err(Error::io)?;
    let mut block = vec![0; HEAD_BYTES.min(usize::try_from(len).unwrap_or(HEAD_BYTES))];
    file.read_at(0, &mut block).map_err(Error::io)?;
    let (head, slot) = JournalHead::decode(&block).map_err(|fault| match fault {
        HeadFault::Foreign => Error::new(ErrorKind::NotAQueue).because("its journal is not ours"),
        HeadFault::Newer(format) => Error::new(ErrorKind::NewerFormat)
            .because(format!("format {format}, this program knows {FORMAT}")),
        HeadFault::Unreleased => Error::new(ErrorKind::NotAQueue).because(UNRELEASED),
        HeadFault::Damaged => damaged("the head of the journal"),
    })?;
    if len < HEAD_BYTES as u64 + head.ring {
        return Err(damaged("the journal is cut short"));
    }
    Ok((head, slot))
}

/// Where redb's first block has its flags, and what they say of the last commit: that nobody has
/// closed the file since, and that what the block points to was synced before it was written.
const FLAGS_AT: usize = 9;
const FLAG_UNCLEAN: u8 = 2;
const FLAG_TWO_PHASES: u8 = 4;

/// redb's first block says which of its two roots counts. After a failed sync the system may show
/// a block, and a length of the file, that are not on the medium, so both are written again and
/// synced before anything is built on them. What the block points to was synced before it was
/// written, save by redb's compaction, which commits in one phase: behind that one the whole file
/// is written again.
pub(super) fn settle_header(file: &dyn DiskFile) -> Result<()> {
    let len = file.len().map_err(Error::io)?;
    let mut chunk = vec![0; usize::try_from(len.min(4096)).unwrap_or(0)];
    file.read_at(0, &mut chunk).map_err(Error::io)?;
    file.write_at(0, &chunk).map_err(Error::io)?;
    let flags = chunk.get(FLAGS_AT).copied().unwrap_or(0);
    let mut at = if flags & (FLAG_UNCLEAN | FLAG_TWO_PHASES) == FLAG_UNCLEAN { 4096 } else { len };
    while at < len {
        chunk.resize((len - at).min(1 << 20) as usize, 0);
        file.read_at(at, &mut chunk).map_err(Error::io)?;
        file.write_at(at, &chunk).map_err(Error::io)?;
        at += chunk.len() as u64;
    }
    touch_len(file).map_err(Error::io)?;
    file.sync().map_err(|error| Error::not_synced("base.redb", error))
}

/// The end of the chain.
struct Tail {
    span: Span,
    stamp: RecordMeta,
    boot: Option<Boot>,
}

/// The carry that an opening begins with, if one was made over this very base.
fn read_carry(
    file: &dyn DiskFile,
    head: &JournalHead,
    anchor: &CheckpointPosition,
) -> Result<Option<Carry>> {
    let mut page = [0; head::PAGE];
    file.read_at(carry::PAGE_AT, &mut page).map_err(Error::io)?;
    match Carry::of(&page, head.seed()) {
        // An older copy of the base.
        Some(carry) if carry.serial > anchor.serial => Err(damaged(STRANGERS)),
        carry => Ok(carry.filter(|carry| carry.serial == anchor.serial)),
    }
}

fn replay(
    file: &dyn DiskFile,
    head: &JournalHead,
    (anchor, carry): (&CheckpointPosition, Option<Carry>),
    rows: &mut Rows,
    told: ProgressFn<'_>,
) -> Result<Tail> {
    let mut reader = RingReader::new(file, head);
    let floor = carry.map_or(anchor.span, |carry| carry.floor);
    let upto = carry.map_or(0, |carry| carry.upto);
    let mut tail = Tail { span: floor, stamp: anchor.stamp, boot: anchor.boot() };
    let (mut done, mut said) = (0, 0);
    tell(told, Stage::Replay, 0, head.ring)?;
    while let Some((header, span, body)) = reader.next(tail.span).map_err(Error::io)? {
        // A carry that came to no end.
        if header.kind.is_carried() && header.number > upto {
            break;
        }
        let preamble = replay_record(header.kind, body, rows)
            .ok_or_else(|| damaged("a record of the journal cannot be read"))?;
        let boot = boot_of(&preamble.extension).or(tail.boot);
        tail = Tail { span, stamp: preamble.behind(tail.stamp), boot };
        done += header.size();
        if done - said >= 1 << 20 {
            said = done;
            tell(told, Stage::Replay, done, head.ring)?;
        }
    }
    if tail.span.link.number < upto {
        return Err(damaged(CARRY_GAP));
    }
    // Without a record behind it the anchor's own record must stand, or this is another journal.
    // The first anchor has none.
    if tail.span == anchor.span && anchor.span.link.number > 0 {
        let own = reader.record(anchor.span.start).map_err(Error::io)?;
        let stands = own.is_some_and(|(header, _)| header.link() == anchor.span.link);
        if !stands {
            return Err(damaged(STRANGERS));
        }
    }
    rows.count_mirror();
    Ok(tail)
}

/// What a record says beside its rows, which were carried out; `None` if it cannot be read.
fn replay_record(kind: Kind, body: &[u8], rows: &mut Rows) -> Option<Preamble> {
    let mut fields = Unpacker::new(body);
    let preamble = Preamble::read(kind, &mut fields)?;
    if !kind.has_rows() {
        return Some(preamble);
    }
    while let Some(row) = next_row(&mut fields) {
        let RowSeen { key, value, adds, is_counts } = row.ok()?;
        match (kind.is_carried(), is_counts) {
            (true, true) => {
                let run = Run(u32::from_be_bytes(key.try_into().ok()?));
                rows.counts.carry(run, decode_tally(value?)?);
            }
            (true, false) => rows.replay_carried(key, value),
            (false, true) => return None,
            (false, false) => rows.replay(key, value, adds),
        }
    }
    Some(preamble)
}
