//! Custom ordering. A placement is asked once, before the put; what it answers is stored with the
//! task, so that take, release, kick and recovery never call user code.

use crate::engine::put::{NewRow, Placed};
use std::time::SystemTime;

/// Decides where a tube's new tasks stand. Registered by name with
/// [`Builder::placement`](crate::Builder::placement); a tube made with
/// [`TubeOptions::placement`](crate::TubeOptions::placement) of that name asks it at every put.
///
/// It runs in the caller's thread with no lock held, save those of the
/// [transaction](crate::Queue::transact) that puts. A tube whose placement is not registered still
/// serves every other verb; only its puts are refused with
/// [`ErrorKind::DriverMissing`](crate::ErrorKind::DriverMissing).
///
/// ```
/// use tubewell::{Place, Placement, PutView, Queue, TubeOptions};
///
/// /// The shortest payload first.
/// struct Shortest;
///
/// impl Placement for Shortest {
///     fn place(&self, put: &PutView<'_>) -> Place {
///         Place::new(&(put.payload.len() as u64).to_be_bytes())
///     }
/// }
///
/// # fn main() -> tubewell::Result<()> {
/// let queue = Queue::builder().placement("shortest", Shortest).in_memory()?;
/// let tube = queue.create_tube("jobs", TubeOptions::default().placement("shortest"))?;
/// tube.put(b"long")?;
/// tube.put(b"s")?;
/// assert_eq!(&*tube.take()?, b"s");
/// # Ok(())
/// # }
/// ```
pub trait Placement: Send + Sync + 'static {
    /// The place of a task that is about to be put.
    fn place(&self, put: &PutView<'_>) -> Place;
}

/// What a [`Placement`] sees of a put.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct PutView<'a> {
    /// The payload's bytes, as they will be stored.
    pub payload: &'a [u8],
    /// The priority the caller asked for. Smaller first.
    pub priority: Option<i64>,
    /// The group the caller asked for.
    pub group: Option<&'a str>,
    /// The caller's own key.
    pub key: Option<&'a str>,
}

impl<'a> PutView<'a> {
    pub(crate) fn of(row: &NewRow<'a>) -> Self {
        Self { payload: row.payload, priority: row.priority, group: row.group, key: row.key }
    }
}

/// Where a task stands among those of its priority, and on what terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    order: Box<[u8]>,
    group: Option<String>,
    not_before: Option<SystemTime>,
}

impl Place {
    /// At this order: up to 16 bytes, compared as bytes, smaller first; shorter ones are filled up
    /// with zeros. Tasks of equal order stand in put order. The put is refused with
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if there are more bytes.
    #[must_use]
    pub fn new(order: &[u8]) -> Self {
        Self { order: order.into(), group: None, not_before: None }
    }

    /// In this group, whatever the caller asked for.
    #[must_use]
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.group = Some(group.into());
        self
    }

    /// Not before this time of day, whatever delay the caller asked for.
    #[must_use]
    pub fn not_before(mut self, time: SystemTime) -> Self {
        self.not_before = Some(time);
        self
    }

    pub(crate) fn placed(&self) -> Placed<'_> {
        Placed { order: &self.order, group: self.group.as_deref(), not_before: self.not_before }
    }
}
