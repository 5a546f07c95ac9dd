//! Whose leases live how long: sessions begin and end, graces run out, and an opening or a close
//! voids what nobody may hold on to. Every step is an op; here is only who does them, and when.

use crate::clock::NEVER;
use crate::engine::consumers::{self, End, Join, Leave};
use crate::engine::look;
use crate::engine::recover::{Return, Silence};
use crate::error::{ErrorKind, Result};
use crate::live::core::Core;
use crate::options::Durability;
use crate::task::TaskId;

impl Core {
    /// Opens a consumer or joins it.
    pub(crate) fn join(&self, op: &Join<'_>, durability: Durability) -> Result<u32> {
        let consumer = self.run(op, durability)?;
        self.graces.forget(consumer);
        Ok(consumer)
    }

    /// Ends a consumer's session: its leases wait for its grace, or return now.
    pub(crate) fn leave(&self, consumer: u32, now: bool, durability: Durability) -> Result<()> {
        let grace = self.run(&Leave { consumer }, durability)?;
        self.takers.nudge_all();
        if now || grace == 0 {
            let ended = self.end_session(consumer);
            // Until its last task was back, its takers could look and find it alive.
            self.takers.nudge_all();
            return ended;
        }
        self.graces.keep(consumer, self.lease_now().saturating_add(grace));
        self.alarm.ring();
        Ok(())
    }

    /// Returns the leases of consumers whose grace is over.
    pub(crate) fn end_graces(&self) -> Result<()> {
        let next = self.graces.next();
        if next == NEVER {
            return Ok(());
        }
        let now = self.lease_now();
        if now < next {
            return Ok(());
        }
        while let Some(consumer) = self.graces.over(now) {
            self.end_session(consumer)?;
        }
        Ok(())
    }

    fn end_session(&self, consumer: u32) -> Result<()> {
        let ended = loop {
            match self.apply_inside(&End { consumer, charged: true }) {
                Ok((true, _)) => {}
                Ok((false, _)) => return Ok(()),
                Err(error) => break Err(error),
            }
        };
        // What a failing disk kept is tried again by whoever comes by; what is damaged stays so.
        ended.inspect_err(|error| {
            if error.kind() != ErrorKind::Damaged {
                self.graces.keep(consumer, self.lease_now());
            }
        })
    }

    /// Returns every lease that does not wait for a named consumer, and ends the consumers that
    /// have no grace left.
    pub(crate) fn void_leases(&self, charged: bool) -> Result<()> {
        let (over, _) = self.apply_inside(&Silence)?;
        let tubes = look::numbers(&self.state.lock().store)?;
        for tube in tubes {
            let mut from = Some(TaskId::new(0));
            while let Some(start) = from {
                from = self.apply_inside(&Return { tube, from: start, charged })?.0;
            }
        }
        for consumer in over {
            while self.apply_inside(&End { consumer, charged })?.0 {}
        }
        let consumers = consumers::all(&self.state.lock().store)?;
        let (queue, lease) = {
            let now = self.state.lock().now(&*self.settings.clock);
            (now.queue, now.lease)
        };
        for (consumer, row) in consumers {
            let until = lease.saturating_add(row.until.saturating_sub(queue));
            self.graces.keep(consumer, until);
        }
        Ok(())
    }
}
