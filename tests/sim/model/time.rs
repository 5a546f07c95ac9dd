//! The hands of the clocks, and what a queue makes of them.

use crate::step::Turn;

/// The three measures of time, as design.md 6 has them.
#[derive(Clone, Debug, Default)]
pub struct Time {
    pub queue: u64,
    pub wall: i64,
    pub mono: u64,
    wall_high: u64,
    mono_read: u64,
}

impl Time {
    pub fn at(wall: i64) -> Self {
        Self { wall, ..Self::default() }
    }

    pub fn turn(&mut self, turn: &Turn) {
        match *turn {
            Turn::Advance(by) => (self.mono, self.wall) = (self.mono + by, self.wall + by as i64),
            Turn::Suspend(by) => self.wall += by as i64,
            Turn::FreezeWall(by) => self.mono += by,
            Turn::SetWall(by) => self.wall += by,
        }
    }

    /// A new process: how long it took to come is told by the wall clock alone.
    pub fn begin(&mut self) {
        self.mono_read = self.mono;
    }

    pub(super) fn wall_now(&self) -> u64 {
        self.wall.max(0) as u64
    }

    pub(super) fn read(&mut self) {
        let elapsed = self.mono - self.mono_read;
        let expected = self.wall_high + elapsed;
        self.queue += elapsed + self.wall_now().saturating_sub(expected);
        self.wall_high = expected.max(self.wall_now());
        self.mono_read = self.mono;
    }
}
