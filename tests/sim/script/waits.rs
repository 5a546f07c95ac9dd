//! Calls that wait, and callbacks. Their draws are their own.

use super::{Maker, SECOND, SPANS};
use crate::step::*;
use tubewell::TubeKind;

impl Maker {
    /// Some steps of these kinds, or none.
    pub(super) fn some_waits(&mut self) -> Vec<Step> {
        let mut steps = Vec::new();
        if self.waits.one_in(3) {
            steps.push(self.wait());
        }
        if self.waits.one_in(12) {
            let tube = self.waits.of(&[0, 1, 1, 1, 3]);
            steps.push(Step::Callback { tube, is_set: !self.waits.one_in(3) });
        }
        if self.waits.one_in(12) {
            // As it is, unless it was dropped or made otherwise.
            let tube = self.waits.of(&[1, 1, 3]);
            let again = self.made[usize::from(tube)].clone();
            steps.extend(again.map(|opts| Step::Create { tube, opts, if_not_exists: true }));
        }
        steps
    }

    /// Room for a few tasks only.
    pub(super) fn make_narrow(&mut self, opts: &mut Opts) {
        let has_capacity = matches!(opts.kind, TubeKind::General | TubeKind::LimFifoTtl);
        if has_capacity && self.waits.one_in(2) {
            opts.capacity = Some(1 + self.waits.below(3));
        }
    }

    fn wait(&mut self) -> Step {
        let tube = self.waits.of(&[0, 0, 0, 1, 1, 2, 3]);
        let what = match self.waits.below(5) {
            0..2 => Awaited::Task,
            2 => Awaited::Room(New::default()),
            _ => Awaited::Room(self.new_task(tube)),
        };
        let rng = &mut self.waits;
        let length = rng.of(&[0, SECOND, SECOND, 3 * SECOND, 5 * SECOND, 60 * SECOND, EVER]);
        let then = match rng.below(10) {
            0 => Then::Nothing,
            1..4 => Then::Pass(rng.of(&SPANS)),
            4..6 if what == Awaited::Task => Then::Put,
            6 => Then::Trash(rng.below(8) as u32),
            7 => Then::Capacity(rng.of(&[None, Some(1), Some(4)])),
            _ => Then::Delete(rng.below(8) as u32),
        };
        Step::Wait(Wait { tube, what, length, is_stopped: rng.one_in(8), then })
    }
}
