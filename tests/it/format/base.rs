//! The file `base.redb`: anchor, counts and rows, and their seals.

use super::bytes::{Bytes, Read, ensure};
use super::journal::extension;
use super::rows::Rows;
use redb::StorageBackend;
use redb::backends::InMemoryBackend;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition, TableHandle};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs;
use std::path::Path;
use xxhash_rust::xxh3::xxh3_64;

pub(crate) const OWN: TableDefinition<&[u8], &[u8]> = TableDefinition::new("tubewell");
pub(crate) const ROWS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("tubewell rows");

#[derive(Debug)]
pub(crate) struct Anchor {
    pub(crate) id: [u8; 16],
    pub(crate) serial: u64,
    pub(crate) number: u64,
    pub(crate) checksum: u64,
    pub(crate) at: u64,
    pub(crate) end: u64,
    pub(crate) queue_time: u64,
    pub(crate) wall_clock: u64,
    pub(crate) payload_bytes: u64,
    pub(crate) ids: u64,
    pub(crate) tokens: u64,
}

/// Counts by run and tag.
pub(crate) type Counts = BTreeMap<(u32, u8), u64>;

pub(crate) struct Base {
    pub(crate) anchor: Anchor,
    pub(crate) rows: Rows,
    pub(crate) counted: Counts,
    /// The names of the application's tables.
    pub(crate) others: Vec<String>,
}

pub(crate) fn reported<E: Debug>(error: E) -> String {
    format!("{error:?}")
}

/// The value without its seal.
pub(crate) fn unsealed<'a>(key: &[u8], sealed: &'a [u8]) -> Read<&'a [u8]> {
    let length = sealed.len().checked_sub(4).ok_or("a value without a seal")?;
    let (value, seal) = sealed.split_at(length);
    let hash = (xxh3_64(value) ^ xxh3_64(key).rotate_left(32)) as u32;
    ensure(seal == hash.to_be_bytes(), || format!("the seal of {key:02x?}"))?;
    Ok(value)
}

impl Anchor {
    fn read(bytes: &[u8]) -> Read<Self> {
        let mut rest = Bytes(bytes);
        let anchor = Self {
            id: rest.id()?,
            serial: rest.u64()?,
            number: rest.u64()?,
            checksum: rest.u64()?,
            at: rest.u64()?,
            end: rest.u64()?,
            queue_time: rest.u64()?,
            wall_clock: rest.u64()?,
            payload_bytes: rest.u64()?,
            ids: rest.u64()?,
            tokens: rest.u64()?,
        };
        extension(&rest.section()?)?;
        rest.end()?;
        Ok(anchor)
    }
}

pub(crate) fn counts(run: u32, bytes: &[u8], into: &mut Counts) -> Read<()> {
    let mut rest = Bytes(bytes);
    let mut last = None;
    while !rest.0.is_empty() {
        let (tag, count) = (rest.u8()?, rest.u64()?);
        ensure(last < Some(tag) && count != 0, || format!("counts {bytes:02x?}"))?;
        last = Some(tag);
        into.insert((run, tag), count);
    }
    Ok(())
}

/// Bytes of redb's part of a file of so many bytes.
pub(crate) fn part(length: u64) -> Option<u64> {
    let units = length % 4096 / 2;
    (length / 4096 * 4096).checked_sub(units * 131_072)
}

/// Opens redb's part of the file, in memory.
pub(crate) fn database(path: &Path) -> Read<Database> {
    let file = fs::read(path).map_err(reported)?;
    let part = part(file.len() as u64).ok_or_else(|| format!("{} bytes", file.len()))?;
    let backend = InMemoryBackend::new();
    backend.set_len(part).map_err(reported)?;
    backend.write(0, &file[..part as usize]).map_err(reported)?;
    Database::builder().create_with_backend(backend).map_err(reported)
}

impl Base {
    pub(crate) fn read(path: &Path) -> Read<Self> {
        Self::from(&database(path)?)
    }

    pub(crate) fn from(base: &Database) -> Read<Self> {
        let snapshot = base.begin_read().map_err(reported)?;
        let names = snapshot.list_tables().map_err(reported)?;
        let mut others: Vec<_> = names.map(|table| table.name().to_owned()).collect();
        others.retain(|name| ![OWN.name(), ROWS.name()].contains(&name.as_str()));

        let (mut anchor, mut counted) = (None, Counts::new());
        for row in snapshot.open_table(OWN).map_err(reported)?.iter().map_err(reported)? {
            let (key, sealed) = row.map_err(reported)?;
            let value = unsealed(key.value(), sealed.value())?;
            match key.value() {
                b"anchor" => anchor = Some(Anchor::read(value)?),
                [b'r', b'u', b'n', run @ ..] if run.len() == 4 => {
                    counts(Bytes(run).u32()?, value, &mut counted)?;
                }
                key => return Err(format!("a key {key:02x?}")),
            }
        }
        let mut rows = Rows::new();
        for row in snapshot.open_table(ROWS).map_err(reported)?.iter().map_err(reported)? {
            let (key, sealed) = row.map_err(reported)?;
            let value = unsealed(key.value(), sealed.value())?;
            rows.insert(key.value().to_vec(), value.to_vec());
        }
        Ok(Self { anchor: anchor.ok_or("no anchor")?, rows, counted, others })
    }
}
