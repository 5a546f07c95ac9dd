//! Opening: a queue is found or created, its two files are proved to belong together, and the
//! records after the base's anchor are replayed. Everything that was read is on the medium before
//! the opening returns. Before that proof no byte of the journal is changed; redb notes in the
//! base's header that it was opened. An opening allocates no block of the disk. An opening that
//! only reads changes no byte, and keeps in memory what it replays.

use super::base::Base;
use super::carry::{self, Carry};
use super::clean_end;
use super::create::{NO_JOURNAL, create, random};
use super::disk::{Access, Disk, DiskFile, FileName, Found};
use super::features::{Features, Slot};
use super::head::{self, HEAD_BYTES, HeadFault, JournalHead, QueueId};
use super::io_counters::CountedDisk;
use super::journal_reader::{self, RingReader};
use super::open_base::open_base;
use super::progress::{ProgressFn, Stage, report};
use super::record::{Kind, MetaDelta, Preamble, RecordMeta, Span, boot_of, next_row, set_boot};
use super::redb_errors::{corruption_as_damage, unreadable};
use super::ring::{Ring, WriteFault};
use super::tables::{CheckpointPosition, decode_tally};
use super::view::Rows;
use super::{Config, Store};
use crate::format::FORMAT;
use crate::format::extension::Extension;
use crate::format::feature::Needs;
use crate::format::key::Run;
use crate::format::pack::Unpacker;
use crate::words::clock::{Boot, Clock, ClockStep, QueueClock};
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::NUMBER_BLOCK;
use crate::words::numbers::Numbers;
use crate::words::sync::plain::AtomicU64;
use crate::words::sync::{Arc, Ordering};
use std::io;

/// How often a creation is tried while other processes begin one and give it up.
const TRIES: u32 = 8;

/// A store as it was opened.
pub(crate) struct Opened {
    pub(crate) store: Store,
    pub(crate) queue_clock: QueueClock,
    /// How the wall clock has moved since the last opening.
    pub(crate) step: Option<ClockStep>,
    /// The first numbers that were never given out. They are durably reserved.
    pub(crate) first: Numbers,
    /// The end of the durably reserved numbers.
    pub(crate) reserved: Numbers,
}

/// The clock with which queue time continues.
pub(crate) struct Clocks<'a> {
    pub(crate) clock: &'a dyn Clock,
    /// Microseconds that queue time advances at most for a time that only the wall clock measured.
    pub(crate) gap_max: u64,
}

fn damaged(what: &str) -> Error {
    Error::new(ErrorKind::Damaged).because(what)
}

const NO_QUEUE: &str = "there is no queue at this path, and a read-only opening makes none";
const MISMATCHED: &str = "base.redb and journal do not belong together; restore both from one copy";
const UNRELEASED: &str = "made by a version before the first release: finish its tasks with that \
                          version, or move the folder away and begin a new queue";
const LOST_RECORD: &str = "a synced record of the journal is missing; restore the folder from a \
                           copy, or open with accept_loss to continue without the records after it";

// Also an error with accept_loss. The journal has no earlier record to continue from, and the base
// already has some of the carried rows, but neither the others nor the row counts: tasks without
// their index rows, and counts that hide rows.
const LOST_CARRIED_ROW: &str = "a row that the journal has kept since the disk was full is \
                                missing; restore the folder from a copy";

impl Store {
    /// Opens the queue on this disk, or creates it.
    ///
    /// # Errors
    /// `Locked`, `NotAQueue`, `NewerFormat`, `Damaged`, `Io`, `DiskFull`, or `Cancelled` by
    /// `progress`; `ReadOnly` if there is none and it may not be created.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        config: Config,
        clocks: &Clocks<'_>,
        progress: ProgressFn<'_>,
    ) -> Result<Opened> {
        let folder = disk.folder().to_owned();
        let counted = CountedDisk::new(disk.clone(), config.access);
        find_or_create(&*disk, &config, progress)
            .and_then(|()| Self::open_files(counted, config, clocks, progress))
            .map_err(|error| corruption_as_damage(error).during("open").at(&folder))
    }

    fn open_files(
        disk: CountedDisk,
        config: Config,
        clocks: &Clocks<'_>,
        progress: ProgressFn<'_>,
    ) -> Result<Opened> {
        let Some(file) = disk.open_journal()? else {
            return Err(Error::new(ErrorKind::Locked));
        };
        let (head, slot) = read_head(&*file)?;
        slot.features.admit(config.known, config.access)?;
        let (base, base_file) = open_base(&disk, &config)?;
        let anchor = &base.anchor;
        if anchor.queue != head.queue {
            return Err(damaged(MISMATCHED));
        }
        let features = slot.features.union(&anchor.features()?)?;
        let mut rows = Rows::load(&base)?;
        let last_carry = read_last_carry(&*file, &head, anchor)?;
        // A carry that was made for an earlier base is not valid.
        let carry = last_carry.filter(|carry| carry.serial == anchor.serial);
        let floor = carry.map_or(anchor.span, |carry| carry.floor);
        let upto = carry.map_or(0, |carry| carry.upto);
        let mut reader = RingReader::new(&*file, &head, upto);
        let tail = replay(&mut reader, &base, floor, &mut rows, progress)?;
        if tail.span.link.number < upto {
            return Err(damaged(LOST_CARRIED_ROW));
        }
        let is_clean = has_clean_end(&*file, &head, tail.span)?;
        let lost = if is_clean { Vec::new() } else { search(&mut reader, tail.span, progress)? };
        if !lost.is_empty() && !config.accept_loss {
            return Err(damaged(LOST_RECORD));
        }
        report(progress, Stage::Settle, 0, 1)?;
        let is_written = config.access == Access::Write;
        if is_written {
            journal_reader::wipe(&*file, &lost)
                .and_then(|()| {
                    let (from, to) = (floor.end, tail.span.end);
                    journal_reader::write_records_again(&*file, &head, from, to)
                })
                .and_then(|()| write_head_again(&*file, &head, &slot, carry))
                .map_err(Error::io)?;
        }
        let ring = Ring::resume(file.clone(), (&head, slot), last_carry, floor, tail.span);
        let Tail { span, meta, boot } = tail;
        let (queue_clock, step) =
            QueueClock::resume(meta.marks, boot, clocks.clock, clocks.gap_max);
        let mut store = Self {
            disk: Some(disk),
            base_file: Some(base_file),
            ring: Some(ring),
            rows,
            meta,
            boot: queue_clock.boot(),
            number: span.link.number,
            ..Self::over(base, config)
        };
        store.write_days()?;
        let mut reserved = meta.reserved;
        if is_written {
            reserved = reserved.plus(Numbers::both(NUMBER_BLOCK));
            let advance = MetaDelta { marks: queue_clock.marks, reserved, durable_bytes: 0 };
            store.begin_writing(&*file, features, meta.advanced(advance))?;
        } else {
            store.health.forbid_writes();
        }
        report(progress, Stage::Settle, 1, 1)?;
        Ok(Opened { store, queue_clock, step, first: meta.reserved, reserved })
    }

    /// Brings what was read to the medium, with both copies of the features in use, and writes the
    /// first record of the opening.
    fn begin_writing(
        &mut self,
        journal: &dyn DiskFile,
        features: Features,
        meta: RecordMeta,
    ) -> Result<()> {
        // The replayed records must be on the medium before a checkpoint's anchor names one.
        journal.sync().map_err(|error| Error::not_synced("the journal", error))?;
        if self.ring.as_ref().is_some_and(|ring| ring.slot.features != features) {
            self.use_features(features)?;
        }
        // Until the reserve stands, or a checkpoint finds space without it.
        self.full = true;
        self.restore_reserve();
        self.make_room_for_opening()?;
        self.write_opening(meta)?;
        self.journal().map_or(Ok(()), |journal| journal.sync().map(drop))
    }

    /// A store in memory over this base, without rows.
    fn over(base: Base, config: Config) -> Self {
        Self {
            queue: base.anchor.queue,
            disk: None,
            config,
            ring: None,
            rows: Rows::default(),
            meta: base.anchor.meta,
            base: Some(base),
            base_file: None,
            boot: None,
            number: 0,
            reserved_at: 0,
            checkpoints_done: 0,
            checkpoints_failed: 0,
            full: false,
            number_when_full: 0,
            retry_at: 0,
            refused_at: None,
            entered: Needs::default(),
            health: Arc::default(),
        }
    }

    fn write_opening(&mut self, meta: RecordMeta) -> Result<()> {
        let nonce = u64::from_be_bytes(random()?);
        let mut extension = Extension::default();
        set_boot(&mut extension, self.boot);
        for _ in 0..2 {
            let Some(ring) = &mut self.ring else { break };
            match ring.append_opening(&meta, &extension, nonce) {
                Ok(number) => {
                    (self.number, self.meta) = (number, meta);
                    return Ok(());
                }
                Err(WriteFault::NoRoom | WriteFault::TooLarge) => self.checkpoint()?,
                Err(WriteFault::Undone(error) | WriteFault::Fatal(error)) => {
                    return Err(Error::io(error));
                }
            }
        }
        Err(Error::new(ErrorKind::Broken).because("the journal has no space for an opening"))
    }

    /// The error of an opening that failed at the rows. A row that refers to a missing tube is
    /// damage, too.
    pub(crate) fn opening_failed(&self, error: Error) -> Error {
        match error.kind() {
            ErrorKind::TubeNotFound => damaged("a tube is missing").caused_by(error),
            // Another call may have got the error that stopped the store.
            ErrorKind::Broken if self.health.is_broken_in_bytes() => unreadable(error),
            _ => corruption_as_damage(error),
        }
    }

    /// Opens a queue in memory, with nothing to replay and nothing to sync.
    pub(crate) fn in_memory(config: Config, clocks: &Clocks<'_>) -> Result<Opened> {
        let anchor = CheckpointPosition::genesis(next_in_memory(), 0);
        let base = Base::in_memory(config.cache_bytes, &anchor)?;
        let (queue_clock, step) =
            QueueClock::resume(anchor.meta.marks, None, clocks.clock, clocks.gap_max);
        let first = anchor.meta.reserved;
        let reserved = first.plus(Numbers::both(NUMBER_BLOCK));
        let mut store = Self::over(base, config);
        store.meta.reserved = reserved;
        Ok(Opened { store, queue_clock, step, first, reserved })
    }
}

/// The name of a queue in memory, among those of this process.
fn next_in_memory() -> QueueId {
    static OPENED: AtomicU64 = AtomicU64::new(0);
    u128::from(OPENED.fetch_add(1, Ordering::Relaxed)).to_be_bytes()
}

/// Finds the two files, or makes them.
fn find_or_create(disk: &dyn Disk, config: &Config, progress: ProgressFn<'_>) -> Result<()> {
    for _ in 0..TRIES {
        match disk.found().map_err(Error::io)? {
            Found::Whole => return Ok(()),
            Found::Nothing | Found::Unfinished if config.access == Access::Read => {
                return Err(Error::new(ErrorKind::ReadOnly).because(NO_QUEUE));
            }
            Found::Nothing | Found::Unfinished => create(disk, config.journal_bytes, progress)?,
            Found::Missing(FileName::Journal) => return Err(damaged(NO_JOURNAL)),
            Found::Missing(FileName::Base) => return Err(missing_base(disk, config.access)),
            Found::Foreign(what) => return Err(Error::new(ErrorKind::NotAQueue).because(what)),
        }
    }
    match disk.found().map_err(Error::io)? {
        Found::Whole => Ok(()),
        // Other processes begin creations and give them up again and again.
        _ => Err(Error::new(ErrorKind::Locked)),
    }
}

/// The error of a folder without a base. If the file `journal` is not a queue's, the folder is not
/// a damaged queue.
fn missing_base(disk: &dyn Disk, access: Access) -> Error {
    let journal = match disk.open_journal(access) {
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
        HeadFault::Foreign => {
            Error::new(ErrorKind::NotAQueue).because("its file journal is not a queue's journal")
        }
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

/// The end of the chain.
struct Tail {
    span: Span,
    meta: RecordMeta,
    boot: Option<Boot>,
}

/// The last carry, for this base or for an earlier one.
fn read_last_carry(
    file: &dyn DiskFile,
    head: &JournalHead,
    anchor: &CheckpointPosition,
) -> Result<Option<Carry>> {
    let mut page = [0; head::PAGE];
    file.read_at(carry::PAGE_AT, &mut page).map_err(Error::io)?;
    match Carry::of(&page, head.seed()) {
        // The base is an older copy.
        Some(carry) if carry.serial > anchor.serial => Err(damaged(MISMATCHED)),
        carry => Ok(carry),
    }
}

/// Whether the last close notes that nothing follows the end of the chain.
fn has_clean_end(file: &dyn DiskFile, head: &JournalHead, tail: Span) -> Result<bool> {
    let mut note = [0; clean_end::BYTES];
    file.read_at(clean_end::AT, &mut note).map_err(Error::io)?;
    Ok(note == clean_end::encode(tail.link, head.seed()))
}

/// Searches the ring for records after a gap. Returns their positions.
fn search(reader: &mut RingReader<'_>, tail: Span, progress: ProgressFn<'_>) -> Result<Vec<u64>> {
    let ring = reader.head.ring;
    reader.beyond(tail.link.number, |done| report(progress, Stage::Scan, done, ring))
}

fn replay(
    reader: &mut RingReader<'_>,
    base: &Base,
    floor: Span,
    rows: &mut Rows,
    progress: ProgressFn<'_>,
) -> Result<Tail> {
    let anchor = &base.anchor;
    let mut tail = Tail { span: floor, meta: anchor.meta, boot: anchor.boot() };
    let (mut done, mut reported, ring) = (0, 0, reader.head.ring);
    report(progress, Stage::Replay, 0, ring)?;
    while let Some((header, span, body)) = reader.next(tail.span).map_err(Error::io)? {
        let preamble = replay_record(header.kind, body, rows)
            .ok_or_else(|| damaged("a record of the journal cannot be read"))?;
        let boot = boot_of(&preamble.extension).or(tail.boot);
        tail = Tail { span, meta: preamble.meta_after(tail.meta), boot };
        rows.write_days_of_replay(base)?;
        done += header.size();
        if done - reported >= 1 << 20 {
            reported = done;
            report(progress, Stage::Replay, done, ring)?;
        }
    }
    // If no record follows the anchor's record, that record itself must be in the ring, or this is
    // the journal of another copy. The first anchor has no record.
    if tail.span == anchor.span && anchor.span.link.number > 0 {
        let own = reader.record(anchor.span.start).map_err(Error::io)?;
        let is_there = own.is_some_and(|header| header.link() == anchor.span.link);
        if !is_there {
            return Err(damaged(MISMATCHED));
        }
    }
    rows.count_mirror();
    Ok(tail)
}

/// Writes the valid slots again, byte for byte, and removes the clean end, also where it looks
/// removed: after a failed sync what is shown may be in the system's memory only. Without its
/// feature a row could not be read, and without its carry the next opening would begin at the
/// anchor, where the ring is overwritten by then.
fn write_head_again(
    file: &dyn DiskFile,
    head: &JournalHead,
    slot: &Slot,
    carry: Option<Carry>,
) -> io::Result<()> {
    file.write_at(slot.at(), &slot.encode(head.seed()))?;
    file.write_at(clean_end::AT, &[0; clean_end::BYTES])?;
    carry.map_or(Ok(()), |carry| file.write_at(carry.at(), &carry.encode(head.seed())))
}

/// Applies the rows of a record, and returns its preamble. `None` if the record cannot be read.
fn replay_record(kind: Kind, body: &[u8], rows: &mut Rows) -> Option<Preamble> {
    let mut fields = Unpacker::new(body);
    let preamble = Preamble::read(kind, &mut fields)?;
    if !kind.has_rows() {
        return Some(preamble);
    }
    while !fields.rest().is_empty() {
        let row = next_row(&mut fields)?;
        if row.adds_to_day {
            let value = row.value.filter(|_| !kind.is_carried())?;
            rows.replay_day(row.key, value)?;
            continue;
        }
        match (kind.is_carried(), row.is_counts) {
            (is_carried, false) => rows.replay(row, is_carried),
            (true, true) => {
                let run = Run(u32::from_be_bytes(row.key.try_into().ok()?));
                rows.counts.carry(run, decode_tally(row.value?)?);
            }
            (false, true) => return None,
        }
    }
    Some(preamble)
}
