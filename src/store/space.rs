//! The bytes that a queue uses, on the disk and in memory. It changes nothing.

use super::Store;
use super::database::Opening;
use super::redb_errors::fenced;
use super::ring::Ring;
use crate::format::layer::Layer;
use crate::words::error::Result;
use redb::{ReadableDatabase, ReadableTableMetadata, TableStats};

/// How full things are, and how much was written. All numbers are counters in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Space {
    /// Bytes of the journal's ring that the base does not hold yet.
    pub journal_used: u64,
    /// Bytes of the journal's ring.
    pub journal_bytes: u64,
    /// Bytes in memory that the base does not hold yet.
    pub overlay_bytes: u64,
    /// Rows in memory that the base does not hold yet.
    pub overlay_rows: u64,
    /// Bytes of the base's file; [`base_space`](crate::Queue::base_space) returns how many of them
    /// are in use.
    pub base_bytes: u64,
    /// Bytes of the rows of temporary tubes.
    pub temporary_bytes: u64,
    /// Bytes of the payloads of all durable tubes, limited by
    /// [`durable_bytes_max`](crate::Builder::durable_bytes_max). Those of a tube that was truncated
    /// or dropped count until a sweep has removed its rows, in steps, soon after the call.
    pub durable_bytes: u64,
    /// Checkpoints since the queue was opened.
    pub checkpoints: u64,
    /// Syncs of both files since the queue was opened.
    pub syncs: u64,
    /// Bytes written to both files since the queue was opened, including by the opening. The
    /// padding after a record that begins a new page of the journal counts once.
    pub written_bytes: u64,
    /// Tasks put since the queue was opened.
    pub tasks_put: u64,
}

impl Space {
    /// Bytes written for each task that was put since the queue was opened, for all verbs; `None`
    /// before the first put.
    pub fn written_per_task(&self) -> Option<u64> {
        self.written_bytes.checked_div(self.tasks_put)
    }
}

/// What the base's file consists of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BaseSpace {
    /// Bytes of the file.
    pub bytes: u64,
    /// Bytes of the rows in it, the application's own tables included, and of the pages that lead
    /// to them.
    pub live_bytes: u64,
    /// The rest: free and partly filled pages. [`compact`](crate::Queue::compact) returns what it
    /// can of them.
    pub dead_bytes: u64,
    /// Rows in it, the application's own included.
    pub rows: u64,
}

impl Store {
    pub(crate) fn space(&self) -> Space {
        let layers = [Some(&self.rows.active), self.rows.frozen.as_deref()];
        let of_layers = |measure: fn(&Layer) -> usize| {
            layers.iter().flatten().map(|layer| measure(layer) as u64).sum()
        };
        let counters = self.disk.as_ref().map(|disk| &disk.counters);
        Space {
            journal_used: self.ring.as_ref().map_or(0, Ring::used),
            journal_bytes: self.ring.as_ref().map_or(0, |ring| ring.size),
            overlay_bytes: of_layers(Layer::bytes),
            overlay_rows: of_layers(Layer::entries),
            base_bytes: self.base.as_ref().map_or(0, |base| base.opening().bytes()),
            temporary_bytes: self.rows.temporary.bytes() as u64,
            durable_bytes: self.meta.durable_bytes,
            checkpoints: self.checkpoints_done,
            syncs: counters.map_or(0, |counters| counters.syncs()),
            written_bytes: counters.map_or(0, |counters| counters.written()),
            tasks_put: 0,
        }
    }
}

impl BaseSpace {
    /// Reads every page that leads to a row. Needs no lock of the store.
    pub(crate) fn measure(opening: &Opening) -> Result<Self> {
        let mut space = Self { bytes: opening.bytes(), ..Self::default() };
        fenced(&opening.health, || {
            let read = opening.db()?.begin_read()?;
            let mut add = |stats: TableStats, rows: u64| {
                space.live_bytes += stats.stored_bytes() + stats.metadata_bytes();
                space.rows += rows;
            };
            for table in read.list_tables()? {
                let table = read.open_untyped_table(table)?;
                add(table.stats()?, table.len()?);
            }
            for table in read.list_multimap_tables()? {
                let table = read.open_untyped_multimap_table(table)?;
                add(table.stats()?, table.len()?);
            }
            Ok(())
        })?;
        space.dead_bytes = space.bytes.saturating_sub(space.live_bytes);
        Ok(space)
    }
}
