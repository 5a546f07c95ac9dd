//! The readings of the clocks, and the queue's times derived from them.

use crate::step::Turn;

/// Thirty days, in microseconds.
const CLOCK_GAP_MAX: u64 = 30 * 86_400 * 1_000_000;

/// The three measures of time, as design.md 6 has them.
#[derive(Clone, Debug, Default)]
pub struct Time {
    pub queue: u64,
    pub wall: i64,
    pub mono: u64,
    /// Advances while the machine sleeps, and after the end of a process.
    boot: u64,
    begun: u64,
    /// Queue time and wall clock at the close.
    stored: (u64, u64),
    has_rebooted: bool,
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
            Turn::Reboot(after) => {
                (self.boot, self.has_rebooted) = (0, true);
                self.wall += after as i64;
            }
        }
    }

    /// A close stores the times.
    pub(super) fn store(&mut self) {
        self.read();
        self.stored = (self.queue, self.wall_now());
    }

    /// An opening. After a reboot only the wall clock knows how much time has passed; it counts up
    /// to the default of `clock_gap_max`.
    pub(super) fn resume(&mut self) {
        if std::mem::take(&mut self.has_rebooted) {
            let (queue, wall) = self.stored;
            let counted = self.wall_now().saturating_sub(wall).min(CLOCK_GAP_MAX);
            self.begun = (queue + counted).wrapping_sub(self.boot);
        }
        self.read();
    }

    pub(super) fn wall_now(&self) -> u64 {
        self.wall.max(0) as u64
    }

    pub(super) fn read(&mut self) {
        self.queue = self.begun.wrapping_add(self.boot);
    }
}
