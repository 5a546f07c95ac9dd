//! How many takers a step wakes in tubes with gates, and which tube gets a slot of a throttle that
//! is free.

use super::DerivedState;
use crate::engine::effects::{Effects, LineSteps, LookedBehind, NextDue, SlotSteps};
use crate::engine::gates;
use crate::engine::named_gate::{self, GateNow};
use crate::engine::tube_cache::KnownTubes;
use crate::format::View;
use crate::format::key::Run;
use crate::words::clock::Now;
use crate::words::gates::NamedGate;
use crate::words::limits::LOOKS_OF_STEP;
use smallvec::SmallVec;

impl DerivedState {
    /// Sets how many takers a step wakes in tubes with gates, after it was written.
    #[cold]
    pub(crate) fn bound_wakes(&mut self, view: &dyn View, effects: &mut Effects, now: Now) {
        if let Some(steps) = effects.slots.take() {
            self.follow_lines(&steps);
            self.slot_lines.follow(&steps);
        }
        if let Some(sets) = &mut self.sets {
            // First, because the take that has looked may have found a tube closed that gets one.
            sets.see(effects);
        }
        self.offer_slots(view, now);
        if !self.is_waited_for() {
            return;
        }
        for tube in gates::bound_wakes(view, self, effects, now) {
            self.outbox.add(tube, 0, usize::MAX);
        }
        for (throttle, tube) in effects.slots.take().iter().flat_map(|steps| &steps.closed) {
            self.slot_lines.enter(*throttle, *tube);
        }
    }

    /// Rows or counts were mended that say where the fresh tasks of a tube begin, which of its
    /// deadlines is the first, or what there is to take: all of it is searched again, and all that
    /// wait look again.
    #[cold]
    pub(crate) fn look_again(&mut self, numbers: &[u32]) {
        for number in numbers.iter().copied() {
            if let Some(state) = self.tubes.get_mut(&number) {
                state.tube.border = None;
            }
            self.set_bound(number, NextDue::UNKNOWN);
            self.gated.lines.doubt(number);
            self.outbox.add(number, usize::MAX, 0);
            if let Some(sets) = &mut self.sets {
                sets.wake(number);
            }
        }
        self.slot_lines.doubt();
        (self.outbox.sooner, self.outbox.freed) = (true, true);
    }

    /// Whether any call may be woken. One that comes later looks itself after it has registered.
    fn is_waited_for(&self) -> bool {
        self.sets.is_some() || self.takers.has_any() || self.ready_waiters.has_any()
    }

    /// Offers slots that became free to the tubes that wait for them, at most so many at a time.
    fn offer_slots(&mut self, view: &dyn View, now: Now) {
        let mut looks = LOOKS_OF_STEP;
        while let Some(throttle) = self.slot_lines.unsettled.pop_first() {
            while let Some(number) = self.slot_lines.next(throttle) {
                if looks == 0 || !self.offer_slot(view, (throttle, number), now) {
                    self.slot_lines.put_back(throttle, number);
                    break;
                }
                looks -= 1;
            }
            if looks == 0 {
                self.slot_lines.unsettled.insert(throttle);
                self.outbox.sooner = true;
                break;
            }
        }
    }

    /// Keeps a slot for a tube and wakes a taker for it, or drops the tube from the line: it has no
    /// taker, or no task that the gates let through. Returns `false` if no slot is free.
    fn offer_slot(&mut self, view: &dyn View, (throttle, number): (Run, u32), now: Now) -> bool {
        let Some(tube) = self.known(number) else { return true };
        // Each throttle, and how many tasks each gate lets through.
        let now_free = |gate: &GateNow<'_>| (gate.throttle, gate.free_for(self, number));
        let gates: SmallVec<[(Option<Run>, u64); 2]> =
            gates::at(view, tube, now).unwrap_or_default().iter().map(now_free).collect();
        let kept = self.slot_lines.kept(throttle, number);
        let own = gates.iter().find(|(own, _)| *own == Some(throttle)).map(|(_, free)| *free);
        // Without a limit the tube is open to all.
        let free = own.or_else(|| self.free_of_lines(view, (throttle, number), now));
        if free.is_some_and(|free| free <= kept) {
            return false;
        }
        // Also for takes that come later: it may have been kept for others until now.
        self.gated.lines.open_throttle(number, throttle);
        let (Some(_), Some(tube)) = (free, self.known(number)) else { return true };
        let open = gates.iter().map(|(_, free)| *free).min().unwrap_or(u64::MAX);
        let open = if tube.row.shut.is_some() { 0 } else { open };
        if open.min(gates::takeable((view, self), tube)) <= kept {
            let closed = |(throttle, free): &(Option<Run>, u64)| {
                throttle.filter(|throttle| *free <= self.slot_lines.kept(*throttle, number))
            };
            // It waits for the others; for tasks and other gates it is woken when they come.
            let closed: SmallVec<[Run; 1]> = gates.iter().filter_map(closed).collect();
            closed.into_iter().for_each(|other| self.slot_lines.enter(other, number));
            return true;
        }
        let own = gates.iter().filter_map(|(throttle, _)| *throttle);
        let others = own.filter(|own| *own != throttle);
        let all: SmallVec<[Run; 1]> = others.chain([throttle]).collect();
        self.wake_for_slots(&all, (throttle, number));
        true
    }

    /// How many slots of a throttle are free for a tube of which only tasks have it; `None` without
    /// a limit, or without such tasks behind it.
    #[cold]
    fn free_of_lines(
        &self,
        view: &dyn View,
        (throttle, number): (Run, u32),
        now: Now,
    ) -> Option<u64> {
        let name = NamedGate::Throttle(self.gated.lines.throttle(number, throttle)?);
        let gate = named_gate::read(view, name, now).ok()??;
        Some(gate.free_for(self, number))
    }

    /// Wakes a taker of a tube, keeps a slot of each of these throttles for it, and puts the tube
    /// at the end of the line of the one.
    fn wake_for_slots(&mut self, kept: &[Run], (throttle, number): (Run, u32)) {
        if self.takers.wake_one(number) {
            kept.iter().for_each(|throttle| self.slot_lines.keep(*throttle, number));
            self.slot_lines.enter(throttle, number);
        } else {
            // Those look who only wait for a task that could be taken, and choosy takers: for them
            // no slot is kept, as they may have no use for it.
            self.outbox.add(number, 1, 0);
        }
        if let Some(sets) = &mut self.sets {
            // Takes from several tubes have found it closed.
            sets.wake(number);
        }
    }

    /// Follows what a step says of lines behind gates of their tasks. Their tubes wait for slots of
    /// the throttles among them.
    fn follow_lines(&mut self, steps: &SlotSteps) {
        if self.gated.lines.is_empty() && steps.lines.closed.is_empty() {
            return;
        }
        self.gated.lines.follow(&steps.lines, &steps.left);
        for (tube, _, throttle) in &steps.lines.closed {
            throttle.iter().for_each(|throttle| self.slot_lines.enter(*throttle, *tube));
        }
        for (tube, _, looked) in &steps.lines.looked {
            if let LookedBehind::IsClosed(Some(throttle)) = looked {
                self.slot_lines.enter(*throttle, *tube);
            }
        }
    }

    /// Lines of a tube stand behind these gates, as an opening has read. Each may be open.
    pub(crate) fn load_lines(&mut self, number: u32, gates: Vec<(String, Option<Run>)>, end: u64) {
        let opened = gates.iter().map(|(gate, _)| (number, gate.clone())).collect();
        let closed = gates.into_iter().map(|(gate, run)| (number, gate, run)).collect();
        let ends = vec![(number, end)];
        let steps = LineSteps { closed, opened, ends, ..LineSteps::default() };
        self.gated.lines.follow(&steps, &[]);
    }
}

#[cfg(test)]
mod tests {
    use crate::engine::slots::{self, OfferSlots};
    use crate::engine::{Op, OpContext};
    use crate::format::{Value, key};
    use crate::runtime::wake::{Registration, WaitPlace, Waiting};
    use crate::words::clock::NEVER;
    use crate::words::durability::Durability;
    use crate::words::error::Result;
    use crate::words::task::TaskId;
    use crate::{ManualClock, Queue, Tube, TubeOptions};
    use std::time::Duration;

    /// Two tubes of two tasks each that share one slot.
    fn shared() -> (Queue, [Tube; 2]) {
        let queue = Queue::builder().by_hand(true).in_memory().unwrap();
        queue.set_throttle("api", 1).unwrap();
        let options = TubeOptions::default().throttle("api");
        let tubes = ["a", "b"].map(|name| queue.create_tube(name, options.clone()).unwrap());
        tubes.iter().for_each(|tube| _ = tube.put_many([*b"x", *b"y"]).unwrap());
        (queue, tubes)
    }

    /// A taker that has looked in vain, and looks no more.
    fn waits(tube: &Tube) -> Registration<'_> {
        let (at, until) = (tube.number.into(), NEVER);
        let entry = tube.inner.core.takers.register(Waiting {
            at,
            holder: 0,
            since: 0,
            until,
            is_choosy: false,
        });
        assert!(tube.try_take().unwrap().is_none());
        entry
    }

    fn is_woken(entry: &Registration<'_>) -> bool {
        entry.signal.try_recv().is_ok()
    }

    #[test]
    fn a_slot_is_kept_until_the_taker_that_was_woken_leaves() {
        let (_queue, [a, b]) = shared();
        let core = &a.inner.core;
        let held = b.take().unwrap();
        let (of_a, of_b) = (waits(&a), waits(&b));
        held.ack().unwrap();
        assert_eq!((is_woken(&of_a), is_woken(&of_b)), (true, false));
        assert!(b.try_take().unwrap().is_none(), "it is kept");
        let unused: Vec<u32> = of_a.leave().into_iter().flatten().collect();
        assert_eq!(unused, [a.number]);
        core.apply(&OfferSlots { kept_for: Some(a.number) }).unwrap();
        assert!(is_woken(&of_b) && a.try_take().unwrap().is_none());
        b.try_take().unwrap().unwrap().ack().unwrap();
        drop(of_b);
        a.try_take().unwrap().unwrap().ack().unwrap();
    }

    /// Regression: the step of a take from several tubes that found one closed offered a slot to
    /// that tube, and then noted that there was nothing to take in it. The call that was woken did
    /// not look there, and the slot was kept for it without end.
    #[test]
    fn a_slot_that_the_look_itself_has_left_is_found_by_the_next() {
        let (queue, [a, b]) = shared();
        let c = queue.create_tube("c", TubeOptions::default().throttle("api")).unwrap();
        c.put(b"x").unwrap();
        let several = queue.tubes_of(["a", "b"]).unwrap();
        let held = c.take().unwrap();
        let at = WaitPlace::Set(several.list.set().unwrap());
        let waiting = Waiting { at, holder: 0, since: 0, until: NEVER, is_choosy: false };
        let entry = a.inner.core.takers.register(waiting);
        assert!(several.try_take().unwrap().is_none());
        held.ack().unwrap();
        assert!(is_woken(&entry));
        a.truncate().unwrap();
        entry.begin_look();
        assert!(several.try_take().unwrap().is_none(), "it is kept for a");
        assert!(is_woken(&entry), "it is kept for b now");
        assert_eq!(
            several.try_take().unwrap().map(|task| task.tube().to_owned()),
            Some("b".into())
        );
        drop((entry, b));
    }

    /// Two tubes without gates, and a throttle of their tasks.
    fn of_tasks() -> (Queue, [Tube; 2], ManualClock) {
        let clock = ManualClock::new();
        let queue = Queue::builder().clock(clock.clone()).by_hand(true).in_memory().unwrap();
        let tubes = ["a", "b"].map(|name| queue.tube(name).unwrap());
        queue.set_throttle("gpu", 1).unwrap();
        (queue, tubes, clock)
    }

    fn with_gpu(tube: &Tube) {
        tube.task(b"x").throttle("gpu").put().unwrap();
    }

    /// Regression: a tube whose only task waits for a condition of its own was offered a slot of
    /// the tube's throttle again and again, and its taker was woken each time.
    #[test]
    fn a_slot_is_not_offered_for_a_task_behind_another_gate() {
        let (_queue, [a, b]) = shared();
        a.truncate().unwrap();
        a.task(b"x").require("online").put().unwrap();
        let held = b.take().unwrap();
        let of_a = waits(&a);
        held.ack().unwrap();
        let was_woken = is_woken(&of_a);
        of_a.begin_look();
        assert!(a.try_take().unwrap().is_none());
        assert!(!is_woken(&of_a), "woken before: {was_woken}");
        assert!(b.try_take().unwrap().is_some());
    }

    /// Regression: only a tube with a throttle of its own gave up what was kept for its tasks.
    #[test]
    fn a_slot_that_is_kept_for_tasks_is_given_up() {
        let hinder: [fn(&Tube); 3] = [
            |tube| tube.pause().unwrap(),
            |tube| _ = tube.truncate().unwrap(),
            |tube| _ = tube.task(b"better").priority(-1).put().unwrap(),
        ];
        for (number, hinder) in hinder.into_iter().enumerate() {
            let (queue, [a, b], _clock) = of_tasks();
            let c = queue.tube("c").unwrap();
            [&a, &b, &c].into_iter().for_each(with_gpu);
            let held = c.take().unwrap();
            let (of_a, of_b) = (waits(&a), waits(&b));
            held.ack().unwrap();
            assert_eq!((is_woken(&of_a), is_woken(&of_b)), (true, false));
            assert!(b.try_take().unwrap().is_none(), "it is kept");
            hinder(&a);
            of_a.begin_look();
            assert_eq!(a.try_take().unwrap().map(|task| task.detach()).is_some(), number == 2);
            assert!(is_woken(&of_b), "{number}");
            assert!(b.try_take().unwrap().is_some());
        }
    }

    /// Regression: a tube that was closed when a slot for its tasks was left waited for no slot of
    /// the throttle that closed it.
    #[test]
    fn a_tube_with_a_throttle_and_tasks_with_another_waits_for_both() {
        let (queue, [_, c], _clock) = of_tasks();
        queue.set_throttle("api", 1).unwrap();
        let options = TubeOptions::default().throttle("api");
        let [a, b] = ["d", "e"].map(|name| queue.create_tube(name, options.clone()).unwrap());
        with_gpu(&a);
        with_gpu(&c);
        b.put(b"x").unwrap();
        let gpu = c.take().unwrap();
        let of_a = waits(&a);
        let api = b.take().unwrap();
        gpu.ack().unwrap();
        assert!(!is_woken(&of_a));
        api.ack().unwrap();
        assert!(is_woken(&of_a));
        assert!(a.try_take().unwrap().is_some());
    }

    /// Regression: a limit that got an end while tasks stood behind it ended for no tube without a
    /// throttle of its own; and its end woke one taker, whatever stood there.
    #[test]
    fn the_end_of_a_limit_opens_what_stands_behind_it() {
        let (queue, [a, _b], clock) = of_tasks();
        with_gpu(&a);
        let _held = a.take().unwrap();
        with_gpu(&a);
        a.task(b"x").throttle("gpu").throttle("free").put().unwrap();
        let takers = [waits(&a), waits(&a)];
        queue.set_throttle_for("gpu", 1, Duration::from_secs(60)).unwrap();
        takers.iter().for_each(|taker| _ = (is_woken(taker), taker.begin_look()));
        assert!(a.try_take().unwrap().is_none());
        clock.advance(Duration::from_secs(60));
        queue.tick().unwrap();
        assert!(takers.iter().all(is_woken));
        assert_eq!(a.take_many(9).unwrap().len(), 2);
    }

    /// Regression: a throttle that was removed and made again has another run, which those who
    /// waited for the one before did not follow.
    #[test]
    fn a_throttle_that_was_made_again_is_waited_for() {
        let (queue, [a, b], _clock) = of_tasks();
        with_gpu(&a);
        let held = a.take().unwrap();
        with_gpu(&a);
        assert!(a.try_take().unwrap().is_none());
        held.ack().unwrap();
        queue.remove_throttle("gpu").unwrap();
        queue.set_throttle("gpu", 1).unwrap();
        with_gpu(&b);
        let held = b.take().unwrap();
        let of_a = waits(&a);
        held.ack().unwrap();
        assert!(is_woken(&of_a));
        assert!(a.try_take().unwrap().is_some());
    }

    /// Regression: a slot that was kept for another tube when a take looked was not found free by
    /// the takes after that.
    #[test]
    fn a_slot_that_was_kept_for_others_is_found() {
        for own in [false, true] {
            let (queue, [a, b], _clock) = of_tasks();
            if own {
                a.set("throttle", ["gpu"]).unwrap();
            }
            with_gpu(&a);
            with_gpu(&b);
            let c = queue.tube("c").unwrap();
            with_gpu(&c);
            let held = c.take().unwrap();
            let of_b = waits(&b);
            held.ack().unwrap();
            assert!(is_woken(&of_b));
            a.task(b"plain").priority(5).put().unwrap();
            let plain = a.try_take().unwrap();
            assert_eq!(plain.map(|task| task.detach()).is_some(), !own);
            b.truncate().unwrap();
            of_b.begin_look();
            assert!(b.try_take().unwrap().is_none());
            assert!(a.try_take().unwrap().is_some(), "own {own}");
        }
    }

    /// A slot that no task holds.
    struct LostSlot {
        tube: u32,
    }

    impl Op for LostSlot {
        type Done = ();

        fn decide(&self, ctx: &mut OpContext<'_>) -> Result<()> {
            let throttle = slots::read(ctx, "gpu")?.unwrap().run;
            ctx.set(key::slot(throttle, TaskId::new(900), self.tube), Value::EMPTY)
        }
    }

    /// Regression: a repair that removed a slot left what stood behind its throttle there.
    #[test]
    fn a_repair_opens_what_stands_behind_a_gate() {
        let (queue, [a, _b], _clock) = of_tasks();
        a.inner.core.run(&LostSlot { tube: a.number }, Durability::Durable).unwrap();
        with_gpu(&a);
        let of_a = waits(&a);
        queue.repair().unwrap();
        assert_eq!(queue.throttle("gpu").unwrap().unwrap().in_flight, 0);
        assert!(is_woken(&of_a));
        assert!(a.try_take().unwrap().is_some());
    }

    /// It is kept in each throttle of the tube, and given up in each.
    #[test]
    fn a_slot_of_each_throttle_is_kept() {
        let (queue, [a, b]) = shared();
        queue.set_throttle("disk", 1).unwrap();
        b.set("throttle", ["api", "disk"]).unwrap();
        let other = queue.create_tube("other", TubeOptions::default().throttle("disk")).unwrap();
        other.put(b"x").unwrap();
        let held = a.take().unwrap();
        let of_b = waits(&b);
        held.ack().unwrap();
        assert!(is_woken(&of_b));
        assert!(other.try_take().unwrap().is_none() && a.try_take().unwrap().is_none());
        b.delete(b.peek_next(crate::State::Ready).unwrap().unwrap().id).unwrap();
        b.truncate().unwrap();
        assert!(b.try_take().unwrap().is_none(), "there is nothing to take");
        assert!(other.try_take().unwrap().is_some() && a.try_take().unwrap().is_some());
    }
}
