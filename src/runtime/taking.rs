//! Takes of one task from one tube, or of a group of it, at once or after a wait.

use crate::engine::take::{Delivery, Take, TakeGroup};
use crate::engine::{Op, OpContext};
use crate::runtime::shared::Shared;
use crate::words::error::Result;
use crate::words::numbers::Numbers;
use crate::words::wait::Wait;

impl Shared {
    /// Takes one task; waits for one.
    pub(crate) fn take(&self, tube: u32, holder: u32, wait: Wait<'_>) -> Result<Option<Delivery>> {
        let op = UnlessStopped { take: Take::new(tube, 1, holder), wait };
        let take = || Ok(self.apply(&op)?.0.pop());
        let taken = take();
        // A task is long, and is not moved once more.
        if !matches!(taken, Ok(None)) {
            return taken;
        }
        self.take_later(&op.take, wait, take)
    }

    /// Takes after a look that has found nothing; waits for a task.
    #[cold]
    #[inline(never)]
    fn take_later(
        &self,
        op: &Take,
        wait: Wait<'_>,
        take: impl Fn() -> Result<Option<Delivery>>,
    ) -> Result<Option<Delivery>> {
        let take_on = || match op.is_cut.take() {
            true => self.take_on(op, wait),
            false => Ok(None),
        };
        if let Some(task) = take_on()? {
            return Ok(Some(task));
        }
        self.wait_for(&self.takers, op.tube, op.holder, wait, || match take()? {
            None => take_on(),
            task => Ok(task),
        })
    }

    /// Takes after a step that has met many closed gates and found nothing yet, with the lock
    /// passed on between two steps.
    #[cold]
    fn take_on(&self, op: &Take, wait: Wait<'_>) -> Result<Option<Delivery>> {
        // Of another type than the op of a plain take, which has its own copy of the commit so.
        let op = UnlessStopped { take: Take::new(op.tube, 1, op.holder), wait };
        let op = UnlessStopped { take: op, wait };
        loop {
            self.state.pass_on();
            let task = self.apply(&op)?.0.pop();
            if task.is_some() || !op.take.take.is_cut.take() {
                return Ok(task);
            }
        }
    }
}

impl Shared {
    /// Takes the first task of a group; waits for one.
    pub(crate) fn take_group(
        &self,
        take: TakeGroup<'_>,
        wait: Wait<'_>,
    ) -> Result<Option<Delivery>> {
        let (tube, holder) = (take.tube, take.holder);
        let op = UnlessStopped { take, wait };
        let take = || Ok(self.apply(&op)?.0.map(|taken| (taken, None)));
        match take()? {
            None => self.wait_at(&self.takers, (tube.into(), holder, true), wait, take),
            Some((taken, _)) => Ok(Some(taken)),
        }
    }
}

/// A take that takes nothing after the wait was stopped. It checks that under the engine's lock, so
/// a task that is put after the stop is never taken.
pub(crate) struct UnlessStopped<'a, T> {
    pub(crate) take: T,
    pub(crate) wait: Wait<'a>,
}

impl<T: Op<Done: Default>> Op for UnlessStopped<'_, T> {
    type Done = T::Done;

    const OVER_SET: bool = T::OVER_SET;

    fn tube_set(&self) -> Option<u32> {
        self.take.tube_set()
    }

    #[inline]
    fn tube(&self) -> Option<u32> {
        self.take.tube()
    }

    #[inline]
    fn numbers(&self) -> Numbers {
        self.take.numbers()
    }

    #[inline]
    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<Self::Done> {
        if self.wait.is_stopped() { Ok(T::Done::default()) } else { self.take.decide(ctx) }
    }
}
