//! Adoption: the leases that the session of one consumer has left go to another one.

use crate::api::consumer::Consumer;
use crate::api::resume::Resumed;
use crate::api::tube::Tube;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::macros::debug;

/// The session of a consumer that has ended, in the hands of another one; from
/// [`Consumer::adopt`]. When it is dropped, leases that were not taken over wait for a grace again,
/// and may be adopted again.
#[must_use = "when it is dropped, what was not taken over waits for its grace again"]
pub struct Adopted {
    /// The session as it was, open again.
    session: Consumer,
    by: Consumer,
}

impl Consumer {
    /// Adopts what the consumer of this name has left: its session has ended, and its leases wait
    /// for its grace. From then on no other call gets them, neither by the end of the grace nor by
    /// another adoption; [`Adopted::tasks`] hands them out, tube by tube. Only a consumer that is
    /// opened under the same name meanwhile joins that session, and may resume them as well.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{ErrorKind, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tube = queue.tube("letters")?;
    /// tube.put(b"hello")?;
    /// let ada = queue.consumer_with_grace("ada", Duration::from_secs(60))?;
    /// tube.by(&ada).take()?.detach();
    /// let bob = queue.consumer("bob")?;
    /// assert_eq!(bob.adopt("ada").unwrap_err().kind(), ErrorKind::WrongState); // she is there
    /// drop(ada);
    ///
    /// let left = bob.adopt("ada")?;
    /// let task = left.tasks(&tube).next().unwrap()?;
    /// assert_eq!(queue.taken()?[0].holder.as_deref(), Some("bob"));
    /// task.ack()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`WrongState`](ErrorKind::WrongState) if its session is open, as it is after another call
    /// has adopted it, or if no such consumer is known or its leases have returned;
    /// [`Unsupported`](ErrorKind::Unsupported) if this session has no name;
    /// [`DiskFull`](ErrorKind::DiskFull); [`Closed`](ErrorKind::Closed);
    /// [`InTransaction`](ErrorKind::InTransaction).
    pub fn adopt(&self, name: &str) -> Result<Adopted> {
        let adopted = self.number().and_then(|_| match self.name() {
            None => {
                let text = "a session without a name adopts nothing";
                Err(Error::new(ErrorKind::Unsupported).because(text))
            }
            Some(_) => Consumer::reopen(&self.identity().inner, name),
        });
        let session = adopted.map_err(|error| error.during("adopt"))?;
        Ok(Adopted { session, by: self.clone() })
    }
}

impl Adopted {
    /// Takes over its leases in `tube`, as [`Consumer::resume`] does: with new tickets, the same
    /// number of attempts, and their full ttr from then on. The adopter holds them.
    ///
    /// # Errors
    /// Of an item: as of [`Consumer::resume`].
    pub fn tasks<T: ?Sized>(&self, tube: &Tube<T>) -> Resumed<T> {
        Resumed::new(tube.by(&self.by), Some(self.session.clone()))
    }
}

debug!([] Adopted, "Adopted", this, "of": &this.session.name(), "by": &this.by.name());
