//! One file of the simulated disk: what reads see, what is on the medium, and what is pending
//! between the two. Only this file decides what a power cut keeps. It must never keep what a real
//! disk could not have kept, nor lose what was synced.

use crate::script::Rng;
use std::collections::BTreeSet;
use std::sync::Arc;

pub const SECTOR: usize = 512;
pub const BLOCK: usize = 4096;

pub enum Pending {
    Write { at: usize, data: Vec<u8> },
    Len(usize),
}

#[derive(Default)]
pub struct File {
    pub cache: Vec<u8>,
    pub medium: Vec<u8>,
    pub pending: Vec<Pending>,
    /// How many of the pending writes are synced.
    pub settled: u64,
    /// One clone for each opening of the file that is not dropped.
    pub openings: Arc<()>,
    /// Allocated blocks, for the quota.
    pub blocks: BTreeSet<usize>,
}

pub fn put(bytes: &mut Vec<u8>, at: usize, data: &[u8]) {
    if bytes.len() < at + data.len() {
        bytes.resize(at + data.len(), 0);
    }
    bytes[at..at + data.len()].copy_from_slice(data);
}

impl File {
    /// All writes that were ever pending.
    pub fn written(&self) -> u64 {
        self.settled + self.pending.len() as u64
    }

    /// Makes the writes before `to` durable.
    pub fn settle(&mut self, to: u64) {
        let count = to.saturating_sub(self.settled);
        self.settled += count;
        for pending in self.pending.drain(..count as usize) {
            match pending {
                Pending::Write { at, data } => put(&mut self.medium, at, &data),
                Pending::Len(len) => self.medium.resize(len, 0),
            }
        }
    }

    pub fn cut(&mut self, rng: &mut Rng) {
        // Some cuts lose all, some keep all: both find more faults than a mix of many writes.
        let keeps = rng.of(&[0, 1, 1, 2, 2, 3, 4]);
        let lengths = self.pending.iter().filter(|p| matches!(p, Pending::Len(_))).count();
        let mut lengths = rng.below(lengths as u64 + 1);
        let mut grown = self.medium.len();
        self.settled = self.written();
        for pending in self.pending.drain(..) {
            match pending {
                Pending::Len(len) if lengths > 0 => {
                    lengths -= 1;
                    grown = len;
                    self.medium.resize(len, 0);
                }
                Pending::Len(_) => {}
                Pending::Write { at, data } => {
                    let kept = keeps == 4 || keeps > 0 && rng.below(4) < keeps;
                    let torn = keeps != 4 && rng.one_in(3);
                    let mut from = 0;
                    while kept && from < data.len() {
                        let to = ((at + from) / SECTOR + 1) * SECTOR - at;
                        let (to, end) = (to.min(data.len()), grown.saturating_sub(at));
                        // After a length that was lost there is nothing to keep.
                        if (!torn || rng.one_in(2)) && from < end {
                            // Sometimes a sector is torn, too.
                            let to = match torn && rng.one_in(8) {
                                true => from + rng.below((to - from) as u64) as usize,
                                false => to,
                            };
                            put(&mut self.medium, at + from, &data[from..to.min(end)]);
                        }
                        from = to;
                    }
                }
            }
        }
        self.cache = self.medium.clone();
        self.blocks.retain(|block| block * BLOCK < self.cache.len());
    }
}
