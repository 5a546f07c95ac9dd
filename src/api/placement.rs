//! Custom ordering. A placement is called once, before the put. Its answer is stored with the task,
//! so that take, release, kick and recovery never call user code.

use crate::engine::new_row::{NewRow, Placed};
use std::time::SystemTime;

/// Decides the order of a tube's new tasks. Registered by name with
/// [`Builder::placement`](crate::Builder::placement); a tube made with
/// [`TubeOptions::placement`](crate::TubeOptions::placement) of that name calls it at every put.
///
/// It runs in the caller's thread with no lock held, except those of a
/// [transaction](crate::Queue::transact) that puts. In a tube whose placement is not registered all
/// other verbs work; only puts are refused, with
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
    /// Returns the place of a task that is about to be put.
    fn place(&self, put: &PutView<'_>) -> Place;
}

/// The properties of a put that a [`Placement`] can read.
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

/// The place of a task among those of its priority, and further terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    order: Box<[u8]>,
    group: Option<String>,
    not_before: Option<SystemTime>,
}

impl Place {
    /// At this order: up to 16 bytes, compared as bytes, smaller first; a shorter order is filled
    /// with zeros. Tasks of equal order are in put order. With more bytes the put is refused as
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid).
    #[must_use]
    pub fn new(order: &[u8]) -> Self {
        Self { order: order.into(), group: None, not_before: None }
    }

    /// In this group, instead of the one that the caller asked for.
    ///
    /// ```
    /// use tubewell::{Place, Placement, PutView, Queue, TubeOptions};
    ///
    /// struct OneByOne;
    ///
    /// impl Placement for OneByOne {
    ///     fn place(&self, _: &PutView<'_>) -> Place {
    ///         Place::new(b"").group("all")
    ///     }
    /// }
    ///
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::builder().placement("one by one", OneByOne).in_memory()?;
    /// let films = queue.create_tube("films", TubeOptions::default().placement("one by one"))?;
    /// films.put_many([*b"a", *b"b"])?;
    /// assert_eq!(films.take_many(2)?.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.group = Some(group.into());
        self
    }

    /// Not before this time of day, instead of the delay that the caller asked for.
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use tubewell::{Place, Placement, PutView, Queue, State, TubeOptions};
    ///
    /// struct Premiere(SystemTime);
    ///
    /// impl Placement for Premiere {
    ///     fn place(&self, _: &PutView<'_>) -> Place {
    ///         Place::new(b"").not_before(self.0)
    ///     }
    /// }
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let premiere = Premiere(SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 40));
    /// let queue = Queue::builder().placement("premiere", premiere).in_memory()?;
    /// let films = queue.create_tube("films", TubeOptions::default().placement("premiere"))?;
    /// let id = films.put(b"Alien")?;
    /// assert_eq!(films.peek(id)?.state, State::Delayed);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn not_before(mut self, time: SystemTime) -> Self {
        self.not_before = Some(time);
        self
    }

    pub(crate) fn placed(&self) -> Placed<'_> {
        Placed { order: &self.order, group: self.group.as_deref(), not_before: self.not_before }
    }
}
