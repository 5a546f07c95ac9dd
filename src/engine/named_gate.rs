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
pub(crate) struct GateNow<'a> {
    /// How many more tasks it lets through. 0: it is closed.
    pub(crate) free: u64,
    why: ClosedBy<'a>,
    /// The throttle that it is.
    pub(crate) throttle: Option<Run>,
}

/// What a gate is that lets no more through. Every take asks a gate, and few need its name.
enum ClosedBy<'a> {
    Condition { name: &'a str, is_declared: bool },
    Throttle { name: &'a str, in_flight: u64, limit: u64 },
    Nameless(WhyNot),
}

impl<'a> GateNow<'a> {
    /// One without a name.
    pub(crate) fn nameless(free: u64, why: WhyNot) -> Self {
        Self { free, why: ClosedBy::Nameless(why), throttle: None }
    }

    /// Why it lets no more through.
    pub(crate) fn why(self) -> WhyNot {
        match self.why {
            ClosedBy::Condition { name, is_declared } => {
                WhyNot::Requires { condition: name.to_owned(), is_declared }
            }
            ClosedBy::Throttle { name, in_flight, limit } => {
                WhyNot::Throttled { throttle: name.to_owned(), in_flight, limit }
            }
            ClosedBy::Nameless(why) => why,
        }
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
pub(crate) fn enter<'a>(gates: impl IntoIterator<Item = GateNow<'a>>, id: TaskId) -> Result<()> {
    match gates.into_iter().find(|gate| gate.free == 0) {
        None => Ok(()),
        Some(closed) => {
            let text = closed.why().to_string();
            Err(Error::new(ErrorKind::WrongState).because(text).on_task(id))
        }
    }
}

/// The gate of this name; `None` if it is a throttle without a limit.
pub(crate) fn read<'a>(
    view: &dyn View,
    gate: NamedGate<'a>,
    now: Now,
) -> Result<Option<GateNow<'a>>> {
    match gate {
        NamedGate::Condition(name) => {
            let is_set = conditions::is_set(view, name)?;
            let free = if is_set == Some(true) { u64::MAX } else { 0 };
            let why = ClosedBy::Condition { name, is_declared: is_set.is_some() };
            Ok(Some(GateNow { free, why, throttle: None }))
        }
        NamedGate::Throttle(name) => {
            Ok(slots::limited(view, name, now)?.map(|Throttled { run, limit, in_flight }| {
                let why = ClosedBy::Throttle { name, in_flight, limit };
                let free = limit.saturating_sub(in_flight);
                GateNow { free, why, throttle: Some(run) }
            }))
        }
    }
}
