//! What is said of a consumer, and what is known of it. Plain values, which the engine stores.

use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::META_BYTES_MAX;
use crate::words::macros::setters;
use crate::words::name::label;
use std::time::Duration;

/// What a consumer says of itself, for [`Queue::consumer_with`](crate::Queue::consumer_with), and
/// how long it is remembered. What is not given stays as the consumer's last session has said it.
///
/// ```
/// use std::time::Duration;
/// use tubewell::{ConsumerOptions, Queue};
///
/// # fn main() -> tubewell::Result<()> {
/// let queue = Queue::in_memory()?;
/// let day = Duration::from_secs(24 * 3600);
/// let about = ConsumerOptions::new().kind("conductor").meta("floor 2").keep(day);
/// let ada = queue.consumer_with("ada", about)?;
/// let known = &queue.consumers()?[0];
/// assert_eq!((known.name.as_str(), known.kind.as_deref()), ("ada", Some("conductor")));
/// assert_eq!((known.is_open, known.pid), (true, Some(std::process::id())));
///
/// ada.close()?;
/// assert!(!queue.consumers()?[0].is_open); // still known for a day
/// queue.deregister(&["ada"])?;
/// assert!(queue.consumers()?.is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct ConsumerOptions {
    pub(crate) grace: Option<Duration>,
    pub(crate) keep: Option<Duration>,
    pub(crate) kind: Option<String>,
    pub(crate) host: Option<String>,
    pub(crate) meta: Option<String>,
}

impl ConsumerOptions {
    /// Says nothing.
    pub const fn new() -> Self {
        Self { grace: None, keep: None, kind: None, host: None, meta: None }
    }

    /// Refuses texts over their limits.
    pub(crate) fn check(&self) -> Result<()> {
        self.kind.as_deref().map_or(Ok(""), |kind| label("consumer kind", kind))?;
        self.host.as_deref().map_or(Ok(""), |host| label("host name", host))?;
        match self.meta.as_ref().map_or(0, String::len) {
            0..=META_BYTES_MAX => Ok(()),
            bytes => {
                let text = format!("the metadata has {bytes} of at most {META_BYTES_MAX} bytes");
                Err(Error::new(ErrorKind::TooLarge).because(text))
            }
        }
    }
}

setters! {
    [] ConsumerOptions;

    /// For how long its leases outlive its session, see [`Consumer`](crate::Consumer). Zero: no
    /// grace; [`Duration::MAX`]: without end. Default for a new session: the [builder's
    /// grace](crate::Builder::session_grace).
    grace(grace: Duration) => grace = Some(grace);

    /// For how long it is listed after its session has ended and its leases have returned, in
    /// [queue time](crate#time). Zero: it is forgotten at once. Default: as the
    /// [builder](crate::Builder::consumer_keep) says.
    keep(keep: Duration) => keep = Some(keep);

    /// What kind of worker it is, a text of 1 to 255 bytes.
    kind(kind: impl Into<String>) => kind = Some(kind.into());

    /// The name of the machine on which it runs, a text of 1 to 255 bytes.
    host(host: impl Into<String>) => host = Some(host.into());

    /// Anything else, a text of at most 4096 bytes.
    meta(meta: impl Into<String>) => meta = Some(meta.into());
}

/// A named consumer, from [`Queue::consumers`](crate::Queue::consumers).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConsumerInfo {
    /// Its name.
    pub name: String,
    /// What kind of worker it is.
    pub kind: Option<String>,
    /// The machine on which it said that it runs.
    pub host: Option<String>,
    /// The id of the process that began its last session.
    pub pid: Option<u32>,
    /// What else it has said.
    pub meta: Option<String>,
    /// Whether its session is open. Otherwise its leases wait for its grace to end, or it is only
    /// remembered.
    pub is_open: bool,
    /// How long ago it was active: it began its session or a take, also one that found nothing, was
    /// handed a task, or settled, kept or reported one by its guard. A ticket is of no consumer. In
    /// [lease time](crate#time) while its session is open, else in queue time; after a kill, since
    /// the begin of its last session.
    pub idle: Option<Duration>,
    /// How many tasks it holds, also stalled ones and those that wait for its grace to end.
    pub taken: u64,
    /// How many of them are [stalled](crate::TaskSummary::is_stalled).
    pub stalled: u64,
}
