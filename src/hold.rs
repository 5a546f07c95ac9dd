//! What every handle and guard keeps: the running queue, and with it the folder. The last one to
//! go closes it.

use crate::engine::Op;
use crate::error::Result;
use crate::live::core::Core;
use crate::options::Durability;
use crate::placement::Placement;
use crate::sync::{Arc, Mutex, Weak};
use crate::watch::Watchers;
use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

pub(crate) struct Hold {
    core: Arc<Core>,
    pub(crate) settings: Settings,
    pub(crate) watchers: Arc<Watchers>,
    /// The open sessions by name, so that a second `consumer(name)` joins the first.
    pub(crate) sessions: Mutex<BTreeMap<String, Weak<dyn Any + Send + Sync>>>,
}

/// What the builder said that concerns the handles only.
pub(crate) struct Settings {
    pub(crate) durability: Durability,
    pub(crate) payload_bytes_max: usize,
    pub(crate) session_grace: Duration,
    pub(crate) placements: BTreeMap<String, Arc<dyn Placement>>,
}

impl Hold {
    pub(crate) fn new(core: Arc<Core>, settings: Settings) -> Arc<Self> {
        Arc::new(Self { core, settings, watchers: Arc::default(), sessions: Mutex::default() })
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    pub(crate) fn run<O: Op>(&self, op: &O, durability: Durability) -> Result<O::Done> {
        self.core.run(op, durability)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        // Nobody is left to hear of an error; opening again replays what was written.
        let _ = self.core.close();
        self.watchers.clear();
    }
}

thread_local! {
    static INSIDE: RefCell<Nest> = const { RefCell::new(Nest { depth: 0, later: Vec::new() }) };
}

struct Nest {
    depth: usize,
    later: Vec<Box<dyn FnOnce()>>,
}

/// Marks this thread as being inside `transact`, until it is dropped. Guards and sessions that go
/// meanwhile cannot reach the engine, which this thread has locked: what they have to do is kept
/// and done at the end.
pub(crate) struct Inside;

impl Inside {
    pub(crate) fn enter() -> Self {
        INSIDE.with_borrow_mut(|nest| nest.depth += 1);
        Self
    }

    /// Does what a drop has to do, now or as soon as the thread is outside.
    pub(crate) fn run_outside(work: impl FnOnce() + 'static) {
        let mut work = Some(work);
        // A thread whose locals are gone already is inside nothing.
        let _ = INSIDE.try_with(|nest| {
            let mut nest = nest.borrow_mut();
            if nest.depth > 0
                && let Some(work) = work.take()
            {
                nest.later.push(Box::new(work));
            }
        });
        if let Some(work) = work {
            work();
        }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let later = INSIDE.with_borrow_mut(|nest| {
            nest.depth -= 1;
            if nest.depth == 0 { std::mem::take(&mut nest.later) } else { Vec::new() }
        });
        for work in later {
            work();
        }
    }
}
