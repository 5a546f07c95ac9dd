//! A gate as it is now, and the gates that have names: conditions and throttles. Tubes name them,
//! and so do single tasks. What a gate says is asked here; who is let through is decided elsewhere.

use crate::engine::conditions;
use crate::engine::slots::{self, Throttled};
use crate::engine::tube_cache::KnownTubes;
use crate::format::View;
use crate::format::key::Run;
use crate::words::clock::Now;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::explain::WhyNot;
use crate::words::gates::NamedGate;
use crate::words::task::TaskId;

/// A gate as it is now.
pub(crate) struct GateNow {
    /// How many more tasks it lets through. 0: it is closed.
    pub(crate) free: u64,
    /// Why no more.
    pub(crate) why: WhyNot,
    /// The throttle that it is.
    pub(crate) throttle: Option<Run>,
}

impl GateNow {
    /// One that is no throttle.
    pub(crate) fn plain(free: u64, why: WhyNot) -> Self {
        Self { free, why, throttle: None }
    }

    /// How many more of this tube it lets through, without the slots that are kept for others.
    pub(crate) fn free_for(&self, known: &dyn KnownTubes, tube: u32) -> u64 {
        let kept = self.throttle.map_or(0, |throttle| known.kept_for_others(throttle, tube));
        self.free.saturating_sub(kept)
    }
}

/// Lets one chosen task through these gates.
///
/// # Errors
/// `WrongState`, with the first of them that is closed.
pub(crate) fn enter(gates: impl IntoIterator<Item = GateNow>, id: TaskId) -> Result<()> {
    match gates.into_iter().find(|gate| gate.free == 0) {
        None => Ok(()),
        Some(closed) => {
            let text = closed.why.to_string();
            Err(Error::new(ErrorKind::WrongState).because(text).on_task(id))
        }
    }
}

/// The gate of this name; `None` if it is a throttle without a limit.
pub(crate) fn read(view: &dyn View, gate: NamedGate<'_>, now: Now) -> Result<Option<GateNow>> {
    match gate {
        NamedGate::Condition(name) => {
            let is_set = conditions::is_set(view, name)?;
            let (condition, is_declared) = (name.to_owned(), is_set.is_some());
            let free = if is_set == Some(true) { u64::MAX } else { 0 };
            Ok(Some(GateNow::plain(free, WhyNot::Requires { condition, is_declared })))
        }
        NamedGate::Throttle(name) => {
            Ok(slots::limited(view, name, now)?.map(|Throttled { run, limit, in_flight }| {
                let why = WhyNot::Throttled { throttle: name.to_owned(), in_flight, limit };
                let free = limit.saturating_sub(in_flight);
                GateNow { free, why, throttle: Some(run) }
            }))
        }
    }
}
