//! What the operating system counts of a process. Linux only.

use std::path::Path;

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

/// Bytes that have gone to the device that the folder lies on, by everybody.
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
