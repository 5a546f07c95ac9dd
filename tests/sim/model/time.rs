//! The readings of the clocks, and the queue's times derived from them.

use crate::step::Turn;

/// The three measures of time, as design.md 6 has them.
#[derive(Clone, Debug, Default)]
pub struct Time {
    pub queue: u64,
    pub wall: i64,
    pub mono: u64,
    /// Advances while the machine sleeps, and after the end of a process.
    boot: u64,
    begun: u64,
}

impl Time {
    pub fn at(wall: i64) -> Self {
        Self { wall, begun: wall.max(0) as u64, ..Self::default() }
    }

    pub fn turn(&mut self, turn: &Turn) {
        match *turn {
            Turn::Advance(by) => {
                (self.mono, self.boot, self.wall) =
                    (self.mono + by, self.boot + by, self.wall + by as i64);
            }
            Turn::Suspend(by) => (self.boot, self.wall) = (self.boot + by, self.wall + by as i64),
            Turn::FreezeWall(by) => (self.mono, self.boot) = (self.mono + by, self.boot + by),
            Turn::SetWall(by) => self.wall += by,
        }
    }

    pub(super) fn wall_now(&self) -> u64 {
        self.wall.max(0) as u64
    }

    pub(super) fn read(&mut self) {
        self.queue = self.begun + self.boot;
    }
}
