//! The listing of the tubes that name a condition or a throttle.

use crate::api::queue::Queue;
use crate::api::queue_inner::QueueInner;
use crate::engine::query;
use crate::engine::tube_cache::KnownTubes;
use crate::words::error::Result;
use crate::words::gates::NamedGate;
use crate::words::limits::PAGE_TASKS;
use crate::words::macros::debug;
use crate::words::sync::Arc;
use crate::words::task::State;
use std::collections::VecDeque;

/// The tubes that require a condition or have a throttle, each with the number of its ready tasks,
/// from [`Queue::requiring`] and [`Queue::throttled`].
pub struct TubesBehind {
    inner: Arc<QueueInner>,
    is_throttle: bool,
    name: String,
    page: VecDeque<(String, u64)>,
    /// Where the next page begins; none after the last one.
    next: Option<u32>,
}

impl TubesBehind {
    pub(crate) fn new(queue: &Queue, gate: NamedGate<'_>) -> Self {
        let (is_throttle, name) = match gate {
            NamedGate::Condition(name) => (false, name),
            NamedGate::Throttle(name) => (true, name),
        };
        let (inner, page, next) = (queue.inner.clone(), VecDeque::new(), Some(0));
        Self { inner, is_throttle, name: name.to_owned(), page, next }
    }

    fn read(&mut self) -> Result<Option<(String, u64)>> {
        let name = &*self.name;
        let gate =
            if self.is_throttle { NamedGate::Throttle(name) } else { NamedGate::Condition(name) };
        while self.page.is_empty() {
            // After an error the listing is over.
            let Some(from) = self.next.take() else { return Ok(None) };
            (self.page, self.next) = self.inner.core.look_at(|state, _| {
                let (mut page, mut last) = (VecDeque::new(), None);
                for number in state.derived.gated.naming(gate, from, PAGE_TASKS) {
                    last = Some(number);
                    if let Some(tube) = state.derived.known(number) {
                        let ready = query::count(&state.store, tube, State::Ready);
                        page.push_back((tube.row.name.clone(), ready));
                    }
                }
                Ok((page, last.and_then(|last| last.checked_add(1))))
            })?;
        }
        Ok(self.page.pop_front())
    }
}

impl Iterator for TubesBehind {
    type Item = Result<(String, u64)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().map_err(|error| error.during("list")).transpose()
    }
}

debug!([] TubesBehind, "TubesBehind", _this);
