//! What a reader of events asks for. A plain value, with the defaults.

use crate::words::limits;

/// What a reader of events receives, and how many events are kept while it is slow.
///
/// ```
/// use tubewell::EventOptions;
///
/// let plain = EventOptions::default(); // without payloads
/// let spelled_out = EventOptions::new().kept(4096).bytes_kept(64 << 20);
/// assert_eq!(plain, spelled_out);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct EventOptions {
    pub(crate) payloads: bool,
    pub(crate) kept: usize,
    pub(crate) bytes_kept: usize,
}

impl Default for EventOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl EventOptions {
    /// Without payloads, and with the bounds of [`kept`](EventOptions::kept) and
    /// [`bytes_kept`](EventOptions::bytes_kept).
    pub const fn new() -> Self {
        let (kept, bytes_kept) = (limits::EVENTS_KEPT, limits::EVENT_BYTES_KEPT);
        Self { payloads: false, kept, bytes_kept }
    }

    /// Each event with a copy of the task's payload, see
    /// [`Event::payload`](crate::Event::payload). Every verb then makes that copy, and for a
    /// payload of more than 3500 bytes it may have to read the disk. Default: off.
    pub const fn payloads(mut self) -> Self {
        self.payloads = true;
        self
    }

    /// How many events are kept, at least one. Default: 4096.
    pub const fn kept(mut self, events: usize) -> Self {
        self.kept = events;
        self
    }

    /// The bytes of payloads, errors and names that are kept in events together, of payloads also
    /// of one commit; the newest event is kept, whatever its size. Default: 64 MiB.
    pub const fn bytes_kept(mut self, bytes: usize) -> Self {
        self.bytes_kept = bytes;
        self
    }
}
