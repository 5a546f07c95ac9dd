//! What the operating system counts of a process. Linux only.

use std::path::Path;
use std::time::Duration;

/// A line `name: number` of a file of a process.
fn counter(process: Option<u32>, file: &str, name: &str) -> Option<u64> {
    let process = process.map_or_else(|| "self".to_owned(), |id| id.to_string());
    let text = std::fs::read_to_string(format!("/proc/{process}/{file}")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}

/// MiB of memory in use, and how much of it is not a mapped file, which the system can take back.
pub(crate) fn memory(process: Option<u32>) -> Option<(f64, f64)> {
    let mib = |name| counter(process, "status", name).map(|kib| kib as f64 / 1024.0);
    Some((mib("VmRSS")?, mib("RssAnon")?))
}

/// Bytes that a process has made the system write. A page of the page cache is counted whole, and
/// again each time it is written to after it has gone to the device.
pub(crate) fn charged(process: Option<u32>) -> Option<u64> {
    counter(process, "io", "write_bytes")
}

/// What the threads of a process did, but for the one that asks: processor time, and how often one
/// of them went to sleep.
#[derive(Clone, Copy, Default)]
pub(crate) struct Activity {
    pub(crate) processor: Duration,
    pub(crate) sleeps: u64,
}

pub(crate) fn activity(process: Option<u32>) -> Option<Activity> {
    let name = process.map_or_else(|| "self".to_owned(), |id| id.to_string());
    let mut all = Activity::default();
    let own = std::fs::read_link("/proc/thread-self").ok()?;
    for thread in std::fs::read_dir(format!("/proc/{name}/task")).ok()?.flatten() {
        if own.file_name() == Some(&thread.file_name()) {
            continue;
        }
        let schedule = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        let nanos = schedule.split_whitespace().next()?.parse().ok()?;
        all.processor += Duration::from_nanos(nanos);
        let status = format!("task/{}/status", thread.file_name().to_string_lossy());
        all.sleeps += counter(process, &status, "voluntary_ctxt_switches")?;
    }
    Some(all)
}

/// Bytes that all processes have written to the device on which the folder lies.
pub(crate) fn to_device(folder: &Path) -> Option<u64> {
    let folder = folder.canonicalize().ok()?;
    let mounts = std::fs::read_to_string("/proc/mounts").ok()?;
    let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let holding = fields.filter(|fields| fields.get(1).is_some_and(|at| folder.starts_with(at)));
    let nearest = holding.max_by_key(|fields| fields.get(1).map_or(0, |at| at.len()))?;
    let device = nearest.first()?.rsplit('/').next()?.to_owned();
    let counters = std::fs::read_to_string("/proc/diskstats").ok()?;
    let mut lines = counters.lines().map(|line| line.split_whitespace().skip(2));
    let mut line = lines.find(|fields| fields.clone().next() == Some(&device))?;
    // Name, four counters of reads, writes, merged ones, sectors of 512 bytes.
    line.nth(7)?.parse::<u64>().ok().map(|sectors| sectors * 512)
}
