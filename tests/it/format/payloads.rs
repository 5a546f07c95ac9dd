//! Payloads in pieces: how long each piece is, and that each is named once.

use super::bytes::{Read, ensure};
use super::rows::{Apart, PieceWork};
use std::collections::BTreeMap;
use xxhash_rust::xxh3::xxh3_64;

/// Bytes of pieces that fill a page.
const FULL_SIZES: [u64; 5] = [65_503, 32_735, 16_351, 8_159, 4_063];

#[derive(Default)]
pub(crate) struct Payloads {
    /// By the task's id, the generation and the number.
    pub(crate) pieces: BTreeMap<(u64, u32, u32), Vec<u8>>,
    /// What each task says of its payload.
    tasks: BTreeMap<u64, Apart>,
    /// By the task's id and the generation.
    work: BTreeMap<(u64, u32), PieceWork>,
}

/// The lengths of the pieces of a payload.
fn lengths(mut left: u64) -> Vec<u64> {
    let mut lengths = Vec::new();
    while left > 0 {
        let piece = FULL_SIZES.into_iter().find(|size| *size <= left).unwrap_or(left);
        lengths.push(piece);
        left -= piece;
    }
    lengths
}

impl Payloads {
    pub(crate) fn name_task(&mut self, id: u64, apart: Apart) -> Read<()> {
        let before = self.tasks.insert(id, apart);
        ensure(before.is_none(), || format!("two tasks have the pieces of {id}"))
    }

    pub(crate) fn name_work(&mut self, id: u64, generation: u32, work: PieceWork) -> Read<()> {
        let of = work.generation;
        ensure(of == generation, || format!("work on pieces of {of} under {generation}"))?;
        let before = self.work.insert((id, generation), work);
        ensure(before.is_none(), || format!("work twice on the pieces of {id}"))
    }

    /// The payload of a task.
    pub(crate) fn whole(&self, id: u64, apart: &Apart) -> Read<Vec<u8>> {
        let mut payload = Vec::new();
        for (number, length) in (0..).zip(lengths(apart.length)) {
            let piece = self.pieces.get(&(id, apart.generation, number));
            let piece = piece.ok_or_else(|| format!("piece {number} of {id} is missing"))?;
            ensure(piece.len() as u64 == length, || format!("piece {number} of {id}"))?;
            payload.extend(piece);
        }
        ensure(xxh3_64(&payload) == apart.hash, || format!("the hash of {id}"))?;
        Ok(payload)
    }

    /// Each piece is named once, and each that is named is there.
    pub(crate) fn agree(&self) -> Read<()> {
        let mut named = BTreeMap::new();
        for (id, apart) in &self.tasks {
            self.whole(*id, apart)?;
            let count = lengths(apart.length).len() as u32;
            (0..count)
                .for_each(|number| *named.entry((*id, apart.generation, number)).or_default() += 1);
        }
        for ((id, _), work) in &self.work {
            ensure(work.to != u32::MAX, || "an opening of a sound folder wrote it".into())?;
            for number in work.from..work.to {
                *named.entry((*id, work.generation, number)).or_default() += 1;
            }
        }
        let once: BTreeMap<_, u32> = self.pieces.keys().map(|key| (*key, 1)).collect();
        ensure(named == once, || format!("pieces {:?}, named {named:?}", once.keys()))
    }
}
