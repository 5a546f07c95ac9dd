//! Hashes every file under a folder, whatever happens to the process meanwhile.
//!
//! ```text
//! cargo run --release --example checksums -- PATH
//! ```
//!
//! The walk puts each file into a durable tube; what was seen and what was put commit together. A
//! pool of threads hashes; one transaction per batch acks the tasks and writes the digests into a
//! table of our own. Stop it with Ctrl-C or `kill -9` at any moment and run it again: it goes on
//! where it was, and at the end every file has exactly one digest. What cannot be read is listed at
//! the end, with the reason. Links are not followed.

use redb::{ReadableTable, ReadableTableMetadata, TableDefinition};
use std::collections::BTreeSet;
use std::error::Error;
use std::fs::File;
use std::io::{ErrorKind, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};
use tubewell::{Queue, State, Stop, Task, Tube, TubeKind, TubeOptions};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// File → its digest.
const DIGESTS: TableDefinition<&[u8], u128> = TableDefinition::new("digests");
/// Folder that is not walked to its end → the last name in it that was.
const FOLDERS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("folders");
/// Folder that could not be read to its end → the reason.
const UNREAD: TableDefinition<&[u8], &str> = TableDefinition::new("unread");
/// "begun" and "files", the number of files put.
const WALK: TableDefinition<&str, u64> = TableDefinition::new("walk");

/// Names of one folder, and about as many of all, that one transaction of the walk handles.
const NAMES: usize = 1024;
/// Folders that it handles.
const FOLDERS_AT_ONCE: usize = 256;
/// Tasks that a worker takes at once.
const TAKES: usize = 64;
/// Results that one transaction settles.
const RESULTS: usize = 1024;
/// How long the first result of a transaction waits for others.
const GATHER: Duration = Duration::from_millis(20);

/// Time between two drawings of the bar.
const FRAME: Duration = Duration::from_millis(200);

/// What the bar shows.
#[derive(Default)]
struct Seen {
    found: AtomicU64,
    settled: AtomicU64,
    bytes: AtomicU64,
    walked: AtomicBool,
}

fn main() -> Outcome<()> {
    let stop = Stop::new();
    let interrupted = stop.clone();
    ctrlc::set_handler(move || interrupted.stop())?;

    let root = match std::env::args_os().nth(1) {
        Some(path) => PathBuf::from(path),
        None => some_folder(),
    };
    let root = root.canonicalize().map_err(|error| format!("{}: {error}", root.display()))?;
    let home = std::env::current_dir()?.join(format!("checksums-{:08x}.queue", name_of(&root)));
    let queue = Queue::open(&home)?;
    // The walk spells its paths this way, and must know the queue when it meets it.
    let home = home.canonicalize()?;
    // A file is not to blame for our being killed while it is hashed, however often that happens.
    let options = TubeOptions::new(TubeKind::Fifo).if_not_exists();
    let files = queue.create_tube("files", options)?;
    eprintln!("{}: the queue is {}", root.display(), home.display());

    let seen = Seen::default();
    recall(&queue, &files, &seen)?;
    let worked: Outcome<()> = std::thread::scope(|scope| {
        let walker = scope.spawn(|| end(&stop, walk(&queue, &files, &root, &home, &stop, &seen)));
        let (send, receive) = mpsc::sync_channel(RESULTS);
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            let send = send.clone();
            scope.spawn(|| end(&stop, hash_all(&files, send, &stop, &seen)));
        }
        drop(send);
        let (over, at_work) = mpsc::channel::<()>();
        scope.spawn(|| draw_until_over(&seen, at_work));
        let settled = end(&stop, settle_all(&queue, &files, receive, &stop, &seen));
        stop.stop();
        drop(over);
        settled.and(walker.join().map_err(|_| "the walk panicked")?)
    });
    worked?;
    summary(&queue, &files, &seen)?;
    queue.close()?;
    Ok(())
}

/// A failure anywhere stops everything.
fn end<T>(stop: &Stop, done: Outcome<T>) -> Outcome<T> {
    if done.is_err() {
        stop.stop();
    }
    done
}

/// A folder that this machine has.
fn some_folder() -> PathBuf {
    let folders = ["/usr/share/doc", "/usr/include", env!("CARGO_MANIFEST_DIR")];
    folders.into_iter().map(PathBuf::from).find(|path| path.is_dir()).unwrap_or_else(|| ".".into())
}

/// One queue for each folder that is hashed.
fn name_of(root: &Path) -> u32 {
    xxh3_64(&to_bytes(root)) as u32
}

/// Reads what an earlier run has done.
fn recall(queue: &Queue, files: &Tube, seen: &Seen) -> Outcome<()> {
    let found = queue.transact(|tx| -> tubewell::Result<u64> {
        // Made here, so that everyone finds them.
        tx.table(DIGESTS)?;
        tx.table(FOLDERS)?;
        tx.table(UNREAD)?;
        Ok(tx.table(WALK)?.get("files")?.map_or(0, |files| files.value()))
    })?;
    let stats = files.stats()?;
    seen.found.store(found, Ordering::Relaxed);
    seen.settled.store(found - stats.ready - stats.taken, Ordering::Relaxed);
    Ok(())
}

/// Puts every file that no earlier run has put.
fn walk(
    queue: &Queue,
    files: &Tube,
    root: &Path,
    home: &Path,
    stop: &Stop,
    seen: &Seen,
) -> Outcome<()> {
    let begun =
        queue.read(|r| -> tubewell::Result<_> { Ok(r.table(WALK)?.get("begun")?.is_some()) })?;
    if !begun {
        queue.transact(|tx| -> tubewell::Result<()> {
            tx.table(FOLDERS)?.insert(&*to_bytes(root), &[][..])?;
            tx.table(WALK)?.insert("begun", 1)?;
            Ok(())
        })?;
    }
    while !stop.is_stopped() {
        let next = queue.read(|r| -> tubewell::Result<_> {
            let mut next = Vec::new();
            for row in r.table(FOLDERS)?.iter()?.take(FOLDERS_AT_ONCE) {
                let (folder, last) = row?;
                next.push((folder.value().to_vec(), last.value().to_vec()));
            }
            Ok(next)
        })?;
        if next.is_empty() {
            seen.walked.store(true, Ordering::Release);
            // The last result may have been settled before.
            return stop_if_done(files, stop, seen);
        }
        let mut pages: Vec<(Vec<u8>, Page)> = Vec::new();
        for (folder, last) in next {
            let page = read_page(&to_path(&folder), &last, home);
            pages.push((folder, page));
            if pages.iter().map(|(_, page)| page.files.len()).sum::<usize>() >= NAMES {
                break;
            }
        }
        let put = queue.transact(|tx| -> tubewell::Result<u64> {
            let mut put = 0;
            for path in pages.iter().flat_map(|(_, page)| &page.files) {
                files.put_in(tx, path)?;
                put += 1;
            }
            let mut folders = tx.table(FOLDERS)?;
            for (folder, page) in &pages {
                for folder in &page.folders {
                    folders.insert(&**folder, &[][..])?;
                }
                match &page.last {
                    Some(last) => folders.insert(&**folder, &**last)?.map(drop),
                    None => folders.remove(&**folder)?.map(drop),
                };
            }
            let mut unread = tx.table(UNREAD)?;
            for (folder, page) in &pages {
                if let Some(reason) = &page.unread {
                    unread.insert(&**folder, &**reason)?;
                }
            }
            let mut walk = tx.table(WALK)?;
            let files = walk.get("files")?.map_or(0, |files| files.value()) + put;
            walk.insert("files", files)?;
            Ok(put)
        })?;
        seen.found.fetch_add(put, Ordering::Relaxed);
    }
    Ok(())
}

/// What the walk does in one transaction.
#[derive(Default)]
struct Page {
    files: Vec<Vec<u8>>,
    folders: Vec<Vec<u8>>,
    /// Where the next page of this folder begins; none at its end.
    last: Option<Vec<u8>>,
    /// Why the rest of the folder is not known.
    unread: Option<String>,
}

/// Reads on in a folder, behind the name `last`.
fn read_page(folder: &Path, last: &[u8], home: &Path) -> Page {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        // Of all folders only the root can be a file.
        Err(error) if error.kind() == ErrorKind::NotADirectory => {
            return Page { files: vec![to_bytes(folder)], ..Page::default() };
        }
        Err(error) => return Page { unread: Some(error.to_string()), ..Page::default() },
    };
    // The smallest names behind `last`, in order, so that it says where the next page begins.
    let mut names = BTreeSet::new();
    let mut more = false;
    let mut unread = None;
    for entry in entries {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                unread = Some(error.to_string());
                break;
            }
        };
        let name = to_bytes(Path::new(&entry.file_name()));
        if &*name > last {
            names.insert((name, entry.path(), entry.file_type().ok().map(Kind::of)));
        }
        if names.len() > NAMES {
            names.pop_last();
            more = true;
        }
    }
    let mut page = Page { unread, ..Page::default() };
    if more {
        page.last = names.last().map(|(name, ..)| name.clone());
    }
    for (_, path, kind) in names {
        match kind {
            Some(Kind::Folder) if path == home => {}
            Some(Kind::Folder) => page.folders.push(to_bytes(&path)),
            Some(Kind::File) | None => page.files.push(to_bytes(&path)),
            // Links lead in circles, and opening a pipe waits for its other end.
            Some(Kind::Other) => {}
        }
    }
    page
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    File,
    Folder,
    Other,
}

impl Kind {
    fn of(kind: std::fs::FileType) -> Self {
        match (kind.is_file(), kind.is_dir()) {
            (true, _) => Self::File,
            (_, true) => Self::Folder,
            _ => Self::Other,
        }
    }
}

/// A task and its digest, or why there is none.
type Hashed = (Task, std::io::Result<u128>);

/// A worker: takes files and hashes them until it is stopped.
fn hash_all(files: &Tube, send: mpsc::SyncSender<Hashed>, stop: &Stop, seen: &Seen) -> Outcome<()> {
    while let Some(first) = files.take_until(stop)? {
        for task in std::iter::once(first).chain(files.take_many(TAKES - 1)?) {
            match hash(&to_path(&task), stop, seen).transpose() {
                // Nobody listens after a failure; the task returns as its guard is dropped.
                Some(digest) => drop(send.send((task, digest))),
                None => task.release()?,
            }
        }
    }
    Ok(())
}

/// None if it was stopped before the end of the file, which may be hours away.
fn hash(path: &Path, stop: &Stop, seen: &Seen) -> std::io::Result<Option<u128>> {
    let mut file = File::open(path)?;
    let mut hasher = Xxh3::new();
    let mut buffer = [0; 1 << 16];
    while !stop.is_stopped() {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok(Some(hasher.digest128()));
        }
        hasher.update(buffer.get(..read).unwrap_or_default());
        seen.bytes.fetch_add(read as u64, Ordering::Relaxed);
    }
    Ok(None)
}

/// Acks the tasks of a batch and writes their digests, in one commit.
fn settle_all(
    queue: &Queue,
    files: &Tube,
    receive: mpsc::Receiver<Hashed>,
    stop: &Stop,
    seen: &Seen,
) -> Outcome<()> {
    // Ends when every worker has gone home.
    while let Ok(first) = receive.recv() {
        let end = Instant::now() + GATHER;
        let left = || end.saturating_duration_since(Instant::now());
        let mut batch = vec![first];
        while batch.len() < RESULTS
            && let Ok(hashed) = receive.recv_timeout(left())
        {
            batch.push(hashed);
        }
        settle(queue, &batch)?;
        seen.settled.fetch_add(batch.len() as u64, Ordering::Relaxed);
        stop_if_done(files, stop, seen)?;
    }
    Ok(())
}

/// Lets the workers go home once there is nothing to do for them. Asked by the walk at its end and
/// behind every batch, so that whoever comes last sees it.
fn stop_if_done(files: &Tube, stop: &Stop, seen: &Seen) -> Outcome<()> {
    if seen.walked.load(Ordering::Acquire) {
        let stats = files.stats()?;
        if stats.ready == 0 && stats.taken == 0 {
            stop.stop();
        }
    }
    Ok(())
}

fn settle(queue: &Queue, batch: &[Hashed]) -> Outcome<()> {
    queue.transact(|tx| -> Outcome<()> {
        for (task, digest) in batch {
            match digest {
                Ok(digest) => {
                    let before = tx.table(DIGESTS)?.insert(&**task, digest)?.is_some();
                    if before {
                        return Err(format!("{} was hashed twice", to_path(task).display()).into());
                    }
                    tx.ack(task)?;
                }
                Err(error) => tx.bury(task, error)?,
            }
        }
        Ok(())
    })?;
    Ok(())
}

/// Draws a bar on a terminal, a line at a time elsewhere nothing.
fn draw_until_over(seen: &Seen, at_work: mpsc::Receiver<()>) {
    if !std::io::stderr().is_terminal() {
        return;
    }
    let mut bytes_before = 0;
    while at_work.recv_timeout(FRAME) == Err(RecvTimeoutError::Timeout) {
        let (found, settled) =
            (seen.found.load(Ordering::Relaxed), seen.settled.load(Ordering::Relaxed));
        let bytes = seen.bytes.load(Ordering::Relaxed);
        let rate = (bytes - bytes_before) * 5 / 1_000_000;
        bytes_before = bytes;
        let full = (settled * 30).checked_div(found).unwrap_or(0).min(30) as usize;
        let more = if seen.walked.load(Ordering::Relaxed) { "" } else { "+" };
        eprint!("\r[{:<30}] {settled}/{found}{more} files, {rate} MB/s   ", "#".repeat(full));
        let _ = std::io::stderr().flush();
    }
    eprintln!();
}

fn summary(queue: &Queue, files: &Tube, seen: &Seen) -> Outcome<()> {
    let (digests, sum, unread) = queue.read(|r| -> tubewell::Result<_> {
        let digests = r.table(DIGESTS)?;
        let mut all = Xxh3::new();
        for row in digests.iter()? {
            let (path, digest) = row?;
            all.update(path.value());
            all.update(&digest.value().to_be_bytes());
        }
        let mut unread = Vec::new();
        for row in r.table(UNREAD)?.iter()? {
            let (folder, reason) = row?;
            unread.push((to_path(folder.value()), reason.value().to_owned()));
        }
        Ok((digests.len()?, all.digest(), unread))
    })?;
    let stats = files.stats()?;
    let found = seen.found.load(Ordering::Relaxed);
    let left = stats.ready + stats.taken;
    println!("{found} files: {digests} digests, {} failed, {left} to do", stats.buried);
    if digests + stats.buried + left != found {
        return Err("not every file has exactly one digest".into());
    }
    for task in files.tasks(State::Buried) {
        let task = task?;
        let reason = task.summary.reason.map_or_else(String::new, |reason| reason.to_string());
        println!("  failed: {}: {reason}", to_path(&task.payload).display());
    }
    if !unread.is_empty() {
        println!("folders not read to their end: {}", unread.len());
    }
    for (folder, reason) in &unread {
        println!("  not read: {}: {reason}", folder.display());
    }
    match left == 0 && seen.walked.load(Ordering::Relaxed) {
        true => println!("checksum of all: {sum:016x}"),
        false => println!("stopped; run it again to go on"),
    }
    Ok(())
}

#[cfg(unix)]
fn to_bytes(path: &Path) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt;
    path.as_os_str().as_bytes().to_vec()
}

#[cfg(unix)]
fn to_path(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    std::ffi::OsStr::from_bytes(bytes).into()
}

// A name that is no text does not survive this, and its file is reported as failed.
#[cfg(not(unix))]
fn to_bytes(path: &Path) -> Vec<u8> {
    path.to_string_lossy().into_owned().into_bytes()
}

#[cfg(not(unix))]
fn to_path(bytes: &[u8]) -> PathBuf {
    String::from_utf8_lossy(bytes).into_owned().into()
}
