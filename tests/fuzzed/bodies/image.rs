//! Bytes as damage to the two files of a queue. Opening, check, repair and service must not panic,
//! and must not return a payload that was never put.

use super::Bytes;
use std::collections::BTreeSet;
use std::io::{Error, ErrorKind, Result};
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use tubewell::testing::{Access, Disk, DiskFile, FileName, Found, Staging};
use tubewell::{ManualClock, Queue, Repairs, Tube};

/// Tasks that are taken from a damaged queue.
const TAKES: usize = 100;
/// Changes of one input.
const EDITS: usize = 16;

pub fn open(bytes: &[u8]) {
    let mut bytes = Bytes::of(bytes);
    let [closed, killed, young] = images();
    let image = match bytes.byte() % 4 {
        0 => closed,
        1 => young,
        _ => killed,
    };
    let how = bytes.byte();
    let (accept_loss, repairs_first, repairs_last) =
        (how.is_multiple_of(4), how & 4 != 0, how & 8 != 0);
    let mut files = image.clone();
    for _ in 0..EDITS {
        if bytes.is_empty() {
            break;
        }
        edit(&mut files, &mut bytes);
    }
    let disk = MemoryDisk::of(files);
    let builder = builder().accept_loss(accept_loss).disk(disk);
    let queue = match builder.open_disk() {
        Ok(queue) => queue,
        Err(error) => {
            assert!(names_damage(error.kind()), "an opening of damage says: {error}");
            return;
        }
    };
    let checked = queue.check().is_ok_and(|lines| lines.is_empty());
    if repairs_first {
        repair(&queue, checked);
    }
    serve_all(&queue);
    if repairs_last {
        // What a rule has met is repaired already, the rest now.
        repair(&queue, checked);
        serve_all(&queue);
    }
    if checked {
        // What was sound before stays sound.
        assert_eq!(queue.check().ok(), Some(Vec::new()));
    }
    drop(queue.close());
}

/// Repairs it: nothing if it was checked and sound. An error may be damage that redb finds, and
/// that stops the queue.
fn repair(queue: &Queue, checked: bool) {
    let repaired = queue.repair();
    if checked {
        assert_eq!(repaired.ok(), Some(Repairs::default()));
    }
}

fn serve_all(queue: &Queue) {
    for tube in queue.tubes().unwrap_or_default() {
        if let Ok(Some(tube)) = queue.find_tube(&tube) {
            serve(&tube);
        }
    }
}

/// An opening is refused as damaged, as not a queue, or as of a newer version; a bad disk, a lock
/// or an own failure is none of these.
fn names_damage(kind: tubewell::ErrorKind) -> bool {
    use tubewell::ErrorKind::{Damaged, NewerFormat, NotAQueue};
    matches!(kind, Damaged | NewerFormat | NotAQueue)
}

/// Inputs that flip one bit of the base each, of a queue that was closed and of one that was killed
/// after a checkpoint: one byte in `head` of the first 16 KiB, where redb keeps its own data, and
/// one in `rest` after them, where the rows are. Blocks of zeros are skipped.
pub fn flips(head: usize, rest: usize) -> Vec<[u8; 7]> {
    const HEAD: usize = 16 << 10;
    let [closed, killed, _] = images();
    let mut flips = Vec::new();
    for (image, [base, _]) in [(0, closed), (2, killed)] {
        let written = |at: &usize| {
            let block = base.chunks(4096).nth(at / 4096);
            block.is_some_and(|block| block.iter().any(|byte| *byte != 0))
        };
        let places = (0..HEAD).step_by(head).chain((HEAD..base.len()).step_by(rest));
        for (count, at) in places.filter(written).enumerate() {
            let [.., high, middle, low] = at.to_be_bytes();
            // Most are served as they are; a repair of each would take minutes.
            let how = if (count / 8).is_multiple_of(8) { 13 } else { 1 };
            flips.push([image, how, 0, high, middle, low, 1 << (count % 8)]);
        }
    }
    flips
}

/// Opens and serves each image unchanged, so that a refusal of every damage is a finding.
pub fn unharmed() {
    for image in images() {
        let queue = builder().disk(MemoryDisk::of(image.clone())).open_disk().unwrap();
        assert_eq!(queue.check().unwrap(), Vec::<String>::new());
        for name in ["first", "second"] {
            let tube = queue.find_tube(name).unwrap().unwrap();
            assert!(serve(&tube) > 5);
            // What is left is locked: the others of its group were taken and kept.
            assert!(tube.try_take().unwrap().is_none());
        }
        queue.close().unwrap();
    }
}

/// Takes all tasks; each payload must be one that was put. Returns how many there were.
fn serve(tube: &Tube) -> usize {
    let mut seen = BTreeSet::new();
    for number in 0..TAKES {
        // A damaged task is buried or is an error, and the others are served.
        let task = match tube.try_take() {
            Ok(Some(task)) => task,
            Ok(None) => break,
            Err(_) => continue,
        };
        assert!(is_ours(&task), "a payload that was never put: {:?}", &task[..]);
        assert!(seen.insert(task.id()), "task {} is handed out twice", task.id());
        match number % 3 {
            0 => drop(task.ack()),
            1 => drop(task.bury("seen")),
            _ => drop(task.detach()),
        }
    }
    seen.len()
}

/// The payload of this number: as long as the number says, each byte derived from the one before.
fn payload(number: u8) -> Vec<u8> {
    // Some in pieces.
    let large = if number % 16 == 3 { 4000 + 100 * usize::from(number) } else { 0 };
    let length = large + 8 + usize::from(number) * 37 % 600;
    let next = |byte: &u8| Some(byte.wrapping_mul(5).wrapping_add(17));
    let body = std::iter::successors(Some(number), next).skip(1);
    std::iter::once(number).chain(body).take(length).collect()
}

fn is_ours(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(|number| payload(*number) == bytes)
}

/// One change to one of the files.
fn edit(files: &mut Files, bytes: &mut Bytes<'_>) {
    let kind = bytes.byte();
    let file = &mut files[usize::from(kind & 1)];
    let length = file.len().max(1);
    let at = bytes.long() as usize % length;
    let value = bytes.byte();
    let run = |count: usize| at..(at + count).min(length);
    match kind >> 1 & 7 {
        // Most damage is a flipped byte.
        0..=2 => file.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= value.max(1)),
        3 => file.get_mut(run(1)).into_iter().for_each(|byte| byte.fill(value)),
        4 => file.get_mut(run(512 * (1 + usize::from(value % 9)))).into_iter().for_each(|run| {
            run.fill(0);
        }),
        5 => file.truncate(at),
        6 => file.resize(file.len() + usize::from(value) * 8, value),
        _ => {
            // A sector from elsewhere in the file.
            let from = usize::from(value) * 512 % length;
            let sector = file.get(from..(from + 512).min(length)).unwrap_or_default().to_vec();
            let room = file.len().saturating_sub(at).min(sector.len());
            file.get_mut(at..at + room)
                .into_iter()
                .for_each(|to| to.copy_from_slice(&sector[..room]));
        }
    }
}

fn builder() -> tubewell::Builder {
    Queue::builder()
        .by_hand(true)
        .clock(ManualClock::new())
        .journal_bytes(64 << 10)
        .cache_bytes(1 << 20)
}

/// The bytes of base and journal.
type Files = [Vec<u8>; 2];

/// The files of a queue that was closed, of one that was killed after a checkpoint, and of one that
/// was killed before its first.
fn images() -> &'static [Files; 3] {
    static IMAGES: OnceLock<[Files; 3]> = OnceLock::new();
    IMAGES.get_or_init(|| {
        let disk = MemoryDisk::of(Files::default());
        let queue = builder().disk(disk.clone()).open_disk().unwrap();
        let tubes = ["first", "second"].map(|name| queue.tube(name).unwrap());
        fill(&tubes, 0);
        let young = disk.files();
        queue.checkpoint().unwrap();
        fill(&tubes, 100);
        let killed = disk.files();
        queue.close().unwrap();
        [disk.files(), killed, young]
    })
}

/// Tasks in every state, with groups, keys and deadlines.
fn fill(tubes: &[Tube; 2], from: u8) {
    let second = std::time::Duration::from_secs(1);
    for number in from..from + 60 {
        let payload = payload(number);
        let tube = &tubes[usize::from(number % 2)];
        let task = tube.task(&payload).priority(i64::from(number % 3));
        let key = number.to_string();
        let put = match number % 6 {
            0 => task.group("one").put(),
            1 => task.group("other").ttr(60 * second).put(),
            2 => task.delay(60 * second).put(),
            3 => task.key(&key).ttl(60 * second).put(),
            _ => task.put(),
        };
        put.unwrap();
    }
    for tube in tubes {
        tube.try_take().unwrap().unwrap().ack().unwrap();
        tube.try_take().unwrap().unwrap().bury("aside").unwrap();
        tube.try_take().unwrap().unwrap().retry("failed").unwrap();
        tube.try_take().unwrap().unwrap().detach();
    }
}

/// A disk in memory that works correctly.
#[derive(Debug)]
struct MemoryDisk {
    files: [Arc<MemoryFile>; 2],
    locked: Mutex<Weak<Locked>>,
}

#[derive(Debug, Default)]
struct MemoryFile(Mutex<Vec<u8>>);

/// The journal with its lock, which the holder keeps.
#[derive(Debug)]
struct Locked(Arc<MemoryFile>);

struct StagingFiles([Arc<MemoryFile>; 2]);

impl MemoryDisk {
    fn of(files: Files) -> Arc<Self> {
        let files = files.map(|bytes| Arc::new(MemoryFile(Mutex::new(bytes))));
        Arc::new(Self { files, locked: Mutex::default() })
    }

    fn files(&self) -> Files {
        self.files.each_ref().map(|file| file.0.lock().unwrap().clone())
    }
}

fn slot(name: FileName) -> usize {
    usize::from(name == FileName::Journal)
}

impl Disk for MemoryDisk {
    fn folder(&self) -> &Path {
        Path::new("memory")
    }

    fn found(&self) -> Result<Found> {
        let empty = self.files().iter().all(Vec::is_empty);
        Ok(if empty { Found::Nothing } else { Found::Whole })
    }

    fn stage(&self) -> Result<Box<dyn Staging>> {
        Ok(Box::new(StagingFiles(self.files.clone())))
    }

    fn open_journal(&self, _: Access) -> Result<Option<Arc<dyn DiskFile>>> {
        let mut locked = self.locked.lock().unwrap();
        if locked.upgrade().is_some() {
            return Ok(None);
        }
        let journal = Arc::new(Locked(self.files[slot(FileName::Journal)].clone()));
        *locked = Arc::downgrade(&journal);
        Ok(Some(journal))
    }

    fn open_base(&self, _: Access) -> Result<Arc<dyn DiskFile>> {
        Ok(self.files[slot(FileName::Base)].clone())
    }
}

impl Staging for StagingFiles {
    fn create(&self, name: FileName) -> Result<Arc<dyn DiskFile>> {
        Ok(self.0[slot(name)].clone())
    }

    fn settle(self: Box<Self>) -> Result<bool> {
        Ok(true)
    }
}

/// The most that a damaged file may ask for; a disk has an end.
const BYTES_MAX: u64 = 64 << 20;

impl DiskFile for MemoryFile {
    fn len(&self) -> Result<u64> {
        Ok(self.0.lock().unwrap().len() as u64)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let bytes = self.0.lock().unwrap();
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let found = bytes.get(from..from.saturating_add(out.len()));
        let found = found.ok_or_else(|| Error::from(ErrorKind::UnexpectedEof))?;
        out.copy_from_slice(found);
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        let end = offset.saturating_add(data.len() as u64);
        if end > BYTES_MAX {
            return Err(ErrorKind::StorageFull.into());
        }
        let mut bytes = self.0.lock().unwrap();
        let end = end as usize;
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[end - data.len()..end].copy_from_slice(data);
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<()> {
        if len > BYTES_MAX {
            return Err(ErrorKind::StorageFull.into());
        }
        self.0.lock().unwrap().resize(len as usize, 0);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }
}

impl DiskFile for Locked {
    fn len(&self) -> Result<u64> {
        self.0.len()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.0.read_at(offset, out)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.0.write_at(offset, data)
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.0.set_len(len)
    }

    fn sync(&self) -> Result<()> {
        self.0.sync()
    }
}
