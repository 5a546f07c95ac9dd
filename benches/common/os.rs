//! What the operating system counts of a process. On systems without /proc the counters are not
//! there, and the table says so.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

/// A line `name: number` of a file under /proc/self.
fn counter(file: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(Path::new("/proc/self").join(file)).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Memory of this process, in bytes.
pub(crate) fn resident() -> Option<u64> {
    counter("status", "VmRSS").map(|kib| kib << 10)
}

/// The most memory that this process had since [`forget_peak`], in bytes.
pub(crate) fn peak() -> Option<u64> {
    counter("status", "VmHWM").map(|kib| kib << 10)
}

pub(crate) fn forget_peak() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// Bytes given to `write()`, all files together.
pub(crate) fn written() -> Option<u64> {
    counter("io", "wchar")
}

/// Bytes that all processes wrote to the device of the folder. What a process is charged
/// for would be its own, but counts a whole page of the cache, up to 2 MiB where these are large,
/// for each byte in it that is touched.
pub(crate) fn to_device(folder: &Path) -> Option<u64> {
    let (_, device) = mount(folder)?;
    let device = device.rsplit('/').next()?.to_owned();
    let counters = std::fs::read_to_string("/proc/diskstats").ok()?;
    let mut lines = counters.lines().map(|line| line.split_whitespace().skip(2));
    let mut line = lines.find(|fields| fields.clone().next() == Some(&device))?;
    // Name, four counters of reads, writes, merged ones, sectors of 512 bytes.
    line.nth(7)?.parse::<u64>().ok().map(|sectors| sectors * 512)
}

/// What the threads of this process did: processor time, and how often one of them went to sleep.
#[derive(Clone, Copy, Default)]
pub(crate) struct Activity {
    pub(crate) processor: Duration,
    pub(crate) sleeps: u64,
}

pub(crate) fn activity() -> Option<Activity> {
    activity_but_of(None)
}

/// Without the calling thread, to which reading these counters is an effort, too.
pub(crate) fn activity_of_others() -> Option<Activity> {
    let own = std::fs::read_link("/proc/thread-self").ok()?;
    activity_but_of(own.file_name())
}

fn activity_but_of(left_out: Option<&OsStr>) -> Option<Activity> {
    let mut all = Activity::default();
    for thread in std::fs::read_dir("/proc/self/task").ok()?.flatten() {
        if left_out == Some(&thread.file_name()) {
            continue;
        }
        let schedule = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        let nanos = schedule.split_whitespace().next()?.parse().ok()?;
        all.processor += Duration::from_nanos(nanos);
        let id = thread.file_name();
        let status = format!("task/{}/status", id.to_string_lossy());
        all.sleeps += counter(&status, "voluntary_ctxt_switches")?;
    }
    Some(all)
}

/// The machine in one line, for the table's head.
pub(crate) fn machine(folder: &Path) -> String {
    let mut text = String::new();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let _ = write!(text, "{} {}", std::env::consts::OS, std::env::consts::ARCH);
    let processor = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = processor.lines().find_map(|line| line.strip_prefix("model name"));
    if let Some((_, model)) = model.and_then(|line| line.split_once(':')) {
        let _ = write!(text, ",{model}");
    }
    let _ = write!(text, ", {cores} cores");
    if let Ok(load) = std::fs::read_to_string("/proc/loadavg") {
        let load = load.split_whitespace().next().unwrap_or_default();
        let _ = write!(text, ", load {load} at the end");
    }
    if let Some((kind, device)) = mount(folder) {
        let _ = write!(text, ", {kind} on {device}");
    }
    text
}

/// The file system and the device that the folder lies on.
fn mount(folder: &Path) -> Option<(String, String)> {
    let folder = folder.canonicalize().ok()?;
    let mounts = std::fs::read_to_string("/proc/mounts").ok()?;
    let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let holding = fields.filter(|fields| fields.get(1).is_some_and(|at| folder.starts_with(at)));
    let nearest = holding.max_by_key(|fields| fields.get(1).map_or(0, |at| at.len()))?;
    Some(((*nearest.get(2)?).to_owned(), (*nearest.first()?).to_owned()))
}
