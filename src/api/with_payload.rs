//! The verbs on a taken task that bring a new payload. Which verbs there are is written in
//! `verdicts`; what a payload does to a task is the engine's.

use crate::api::codec::not_encoded;
use crate::api::lease::{Lease, Task};
use crate::api::ticket_handle::TicketHandle;
use crate::api::transact::Transaction;
use crate::api::tube::Tube;
use crate::engine::payload_verb::VerbWithPayload;
#[cfg(doc)]
use crate::words::error::ErrorKind;
use crate::words::error::Result;
use crate::words::macros::debug;
use crate::words::payload::{Encoded, NewPayload};
use crate::words::verb::{Advance, Verdict};

/// A taken task and the payload that its next verb brings, from [`Task::with_payload`],
/// [`Lease::with_payload`] or [`TicketHandle::with_payload`]. Nothing happens before the verb,
/// which replaces the payload in the same commit. Its verbs are those of a [`Lease`].
///
/// The payload is only borrowed. If the verb is refused, nothing has changed: the task stays taken,
/// also with a guard. Once the verb has settled the task, the guard holds nothing any more. A
/// heartbeat ([`touch`](WithPayload::touch), [`renew`](WithPayload::renew),
/// [`renew_for`](WithPayload::renew_for)) keeps the task; the payload in the guard's memory stays
/// the one that was taken.
///
/// Every verb returns as a [put](Tube::put) does: in a durable queue after its sync. Beside the
/// errors of a [`Lease`] there are [`TooLarge`](ErrorKind::TooLarge) above the queue's payload
/// limit; [`DiskFull`](ErrorKind::DiskFull); [`Full`](ErrorKind::Full) at the limit of all
/// [durable](crate::Builder::durable_bytes_max) or all
/// [temporary](crate::Builder::temporary_bytes_max) tubes; [`Unsupported`](ErrorKind::Unsupported)
/// for an ack in a tube that does not [keep finished tasks](crate::TubeOptions::keep_finished), or
/// keeps them [without their payloads](crate::TubeOptions::drop_payloads);
/// [`WrongState`](ErrorKind::WrongState) if another call has replaced the payload at the same time;
/// [`Invalid`](ErrorKind::Invalid) for plain bytes where a codec has encoded the task.
#[derive(Debug)]
#[must_use = "nothing happens before a verb"]
pub struct WithPayload<'a> {
    holder: Holder<'a>,
    payload: NewPayload<'a>,
}

#[derive(Debug)]
enum Holder<'a> {
    Guard(&'a mut Lease),
    Ticket(&'a TicketHandle),
}

/// A task in a transaction, and the payload that its verdict brings, from
/// [`Transaction::with_payload`]. Its verdicts are those of a [`WithPayload`].
#[must_use = "nothing happens before a verdict"]
pub struct WithPayloadIn<'a, 'q> {
    tx: &'a Transaction<'q>,
    lease: &'a Lease,
    payload: NewPayload<'a>,
}

impl<T: ?Sized> Task<T> {
    /// Brings a new payload with the next verb: the task is retried, buried, finished, advanced or
    /// kept with it, in one commit. Of a tube with a [codec](crate::Tube::with_codec) it is what
    /// [`Tube::encode`] returns.
    ///
    /// [`TaskSummary::payload_generation`](crate::TaskSummary::payload_generation) counts up.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// let id = tube.put(b"to ada, to bob")?;
    /// let mut task = tube.take()?;
    /// task.with_payload(b"to bob").retry_after("no answer from bob", Duration::ZERO)?;
    ///
    /// let mut task = tube.take()?;
    /// assert_eq!((task.id(), &task[..]), (id, &b"to bob"[..]));
    /// task.with_payload(b"half of it to bob").renew()?; // a heartbeat, and a checkpoint
    /// drop(task);
    /// assert_eq!(&tube.take()?[..], b"half of it to bob");
    /// assert_eq!(tube.peek(id)?.payload_generation, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_payload<'a>(&'a mut self, payload: impl Into<NewPayload<'a>>) -> WithPayload<'a> {
        self.lease.with_payload(payload)
    }
}

impl Lease {
    /// As [`Task::with_payload`].
    pub fn with_payload<'a>(&'a mut self, payload: impl Into<NewPayload<'a>>) -> WithPayload<'a> {
        WithPayload { holder: Holder::Guard(self), payload: payload.into() }
    }
}

impl TicketHandle {
    /// As [`Task::with_payload`].
    pub fn with_payload<'a>(&'a self, payload: impl Into<NewPayload<'a>>) -> WithPayload<'a> {
        WithPayload { holder: Holder::Ticket(self), payload: payload.into() }
    }
}

impl<'q> Transaction<'q> {
    /// Brings a new payload with the verdict, as [`Task::with_payload`] does.
    pub fn with_payload<'a>(
        &'a self,
        task: &'a impl AsRef<Lease>,
        payload: impl Into<NewPayload<'a>>,
    ) -> WithPayloadIn<'a, 'q> {
        WithPayloadIn { tx: self, lease: task.as_ref(), payload: payload.into() }
    }
}

impl Holder<'_> {
    fn held(&self) -> &TicketHandle {
        match self {
            Self::Guard(lease) => lease.active(),
            Self::Ticket(held) => held,
        }
    }

    /// Runs a verb that settles the task. If it is refused, the lease stays.
    fn settle(self, verb: impl FnOnce(&TicketHandle) -> Result<()>) -> Result<()> {
        match self {
            Self::Ticket(held) => verb(held),
            Self::Guard(lease) => lease.settle_kept(verb),
        }
    }
}

impl WithPayload<'_> {
    /// Applies a verdict after which the task is kept.
    pub(super) fn keep(&self, verdict: Verdict<'_>) -> Result<()> {
        apply(self.holder.held(), verdict, self.payload)
    }

    /// Applies a verdict that settles the task.
    pub(super) fn settle(self, verdict: Verdict<'_>) -> Result<()> {
        self.holder.settle(|held| apply(held, verdict, self.payload))
    }

    /// As [`Task::advance`](crate::Task::advance): the next step has this payload.
    ///
    /// # Errors
    /// As [`Task::advance`](crate::Task::advance), and as [`WithPayload`] says.
    pub fn advance<U: ?Sized>(self, next: &Tube<U>) -> Result<()> {
        self.advance_with(next, Advance::new())
    }

    /// As [`Task::advance_with`](crate::Task::advance_with): the next step has this payload.
    ///
    /// # Errors
    /// As [`Task::advance_with`](crate::Task::advance_with), and as [`WithPayload`] says.
    pub fn advance_with<U: ?Sized>(self, next: &Tube<U>, terms: Advance<'_>) -> Result<()> {
        let payload = self.payload;
        self.holder.settle(|held| {
            held.advance_by(next, terms, |op, durability| {
                let core = &held.inner.core;
                core.run_with_payload(op, core.replacement(payload), durability)
            })
        })
    }
}

fn apply(held: &TicketHandle, verdict: Verdict<'_>, payload: NewPayload<'_>) -> Result<()> {
    let core = &held.inner.core;
    held.settle_by(verdict, |op, _| {
        core.run_with_payload(op, core.replacement(payload), held.durability)
    })
}

impl WithPayloadIn<'_, '_> {
    /// Adds a verdict.
    pub(super) fn settle(self, verdict: Verdict<'_>) -> Result<()> {
        let held = self.lease.active();
        self.tx.settle_with(held, verdict, held.inner.core.replacement(self.payload))
    }

    /// As [`Transaction::advance`]: the next step has this payload.
    ///
    /// # Errors
    /// As [`Transaction::advance`], and as [`WithPayload`] says.
    pub fn advance<U: ?Sized>(self, next: &Tube<U>) -> Result<()> {
        self.advance_with(next, Advance::new())
    }

    /// As [`Transaction::advance_with`]: the next step has this payload.
    ///
    /// # Errors
    /// As [`Transaction::advance_with`], and as [`WithPayload`] says.
    pub fn advance_with<U: ?Sized>(self, next: &Tube<U>, terms: Advance<'_>) -> Result<()> {
        let new = self.lease.held.inner.core.replacement(self.payload);
        self.tx
            .advance_by(self.lease, next, terms, |verb| self.tx.run(&VerbWithPayload { verb, new }))
    }
}

impl<T: ?Sized> Tube<T> {
    /// Encodes a value as a put does, for [`Task::with_payload`].
    ///
    /// ```
    /// # #[cfg(feature = "bincode")]
    /// # fn main() -> tubewell::Result<()> {
    /// use tubewell::Queue;
    ///
    /// let sums = Queue::in_memory()?.tube("sums")?.typed::<(u32, u32)>();
    /// sums.put(&(1, 2))?;
    /// let mut task = sums.take()?;
    /// task.with_payload(&sums.encode(&(3, 0))?).release()?;
    /// assert_eq!(*sums.take()?, (3, 0));
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "bincode"))]
    /// # fn main() {}
    /// ```
    ///
    /// # Errors
    /// [`Codec`](ErrorKind::Codec) if the value cannot be encoded.
    pub fn encode(&self, value: &T) -> Result<Encoded> {
        let (coding, mut buffer) = (self.coding, Vec::new());
        let encoded = (coding.encode)(value, &mut buffer).map(<[u8]>::to_vec);
        let encoded = encoded.map_err(not_encoded);
        let bytes = self.name_errors("encode", encoded)?;
        Ok(Encoded { bytes, codec: (coding.codec, coding.version) })
    }
}

debug!([] WithPayloadIn<'_, '_>, "WithPayloadIn", this, "lease": &this.lease);
