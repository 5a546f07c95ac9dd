//! `<bin> <peer> <workload> [--threads N] [--payload BYTES] [--backlog N] [--times N] ...`

use std::path::PathBuf;
use std::time::Duration;

#[derive(Clone)]
pub struct Args {
    pub peer: String,
    pub workload: String,
    pub threads: usize,
    pub payload: usize,
    /// Tasks that are there before the clock runs.
    pub backlog: u64,
    pub priorities: u8,
    /// How many ops to do; without it, as many as the time allows.
    pub times: Option<u64>,
    pub time: Duration,
    /// Where folders are made.
    pub base: PathBuf,
    /// The folder of an earlier process, for the workloads that open it again.
    pub folder: Option<PathBuf>,
}

impl Args {
    pub(crate) fn read() -> Result<Self, String> {
        let mut words = std::env::args().skip(1);
        let mut args = Self {
            peer: words.next().ok_or("which peer?")?,
            workload: words.next().ok_or("which workload?")?,
            threads: 1,
            payload: 256,
            backlog: 0,
            priorities: 1,
            times: None,
            time: Duration::from_secs(1),
            base: base(),
            folder: None,
        };
        while let Some(flag) = words.next() {
            let value = words.next().ok_or_else(|| format!("{flag} needs a value"))?;
            let number = || value.parse::<u64>().map_err(|error| format!("{flag}: {error}"));
            match flag.as_str() {
                "--threads" => args.threads = number()? as usize,
                "--payload" => args.payload = number()? as usize,
                "--backlog" => args.backlog = number()?,
                "--priorities" => args.priorities = number()? as u8,
                "--times" => args.times = Some(number()?),
                "--millis" => args.time = Duration::from_millis(number()?),
                "--folder" => args.folder = Some(value.into()),
                _ => return Err(format!("what is {flag}?")),
            }
        }
        Ok(args)
    }
}

/// `$VERSUS_DIR`, or a folder beside the binary: the target folder lies on a real disk where the
/// system's temporary folder may lie in memory.
fn base() -> PathBuf {
    if let Some(base) = std::env::var_os("VERSUS_DIR") {
        return base.into();
    }
    let binary = std::env::current_exe().expect("the binary has a path");
    binary.parent().expect("it lies in a folder").join("versus-data")
}
