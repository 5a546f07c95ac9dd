//! Waiting for the end of a task, whatever its tube, also of one that an earlier run has put.

use crate::engine::description;
use crate::runtime::shared::{Shared, end_key};
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::task::{State, TaskId, TaskInfo};
use crate::words::wait::Wait;

/// How a task ended.
pub(crate) enum TaskEnd {
    /// It is done or buried.
    Kept(Box<TaskInfo>),
    Gone,
}

/// Keeps a task among those whose ends are published.
struct Awaited<'a> {
    core: &'a Shared,
    id: TaskId,
}

impl<'a> Awaited<'a> {
    fn new(core: &'a Shared, id: TaskId) -> Self {
        core.state.lock().derived.awaited.entry(id).or_default().calls += 1;
        Self { core, id }
    }
}

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        let awaited = &mut self.core.state.lock().derived.awaited;
        match awaited.get_mut(&self.id) {
            Some(awaited) if awaited.calls > 1 => awaited.calls -= 1,
            _ => _ = awaited.remove(&self.id),
        }
    }
}

impl Shared {
    /// Waits until the task ends. `None` if the wait is over. While it waits a retention that
    /// removes the task takes nothing from the call.
    pub(crate) fn wait_for_end(&self, id: TaskId, wait: Wait<'_>) -> Result<Option<TaskEnd>> {
        self.enter()?;
        // Before it begins to look, so that no end is missed.
        let _awaited = Awaited::new(self, id);
        if let Some(end) = self.end_of(id)? {
            return Ok(Some(end));
        }
        self.health.runs()?;
        self.wait_for(&self.ends, end_key(id), 0, wait, || self.end_of(id))
    }

    /// How the task has ended; `None` if it has not.
    fn end_of(&self, id: TaskId) -> Result<Option<TaskEnd>> {
        match self.stored_end(id)? {
            Some(TaskEnd::Gone) => {
                let retired = self.look_at(|state, _| {
                    let awaited = state.derived.awaited.get(&id);
                    Ok(awaited.and_then(|awaited| awaited.retired.clone()))
                })?;
                Ok(Some(match retired {
                    Some(task) => TaskEnd::Kept(Box::new(TaskInfo::clone(&task))),
                    None => TaskEnd::Gone,
                }))
            }
            end => Ok(end),
        }
    }

    /// The same by the rows.
    fn stored_end(&self, id: TaskId) -> Result<Option<TaskEnd>> {
        // Read first: it may be put while the tubes are looked into.
        let was_given = self.look_at(|state, _| Ok(state.was_given(id)))?;
        let state = self.in_its_tube(id, |state, tube, now| {
            Ok(description::info(&state.store, tube, id, now)?.summary.state)
        })?;
        match state {
            Some(State::Done | State::Buried) => {}
            Some(State::Delayed | State::Blocked | State::Ready | State::Taken) => return Ok(None),
            None if was_given => return Ok(Some(TaskEnd::Gone)),
            None => {
                let text = "no task was ever given this id";
                return Err(Error::new(ErrorKind::TaskNotFound).because(text));
            }
        }
        match self.find(id)? {
            None => Ok(Some(TaskEnd::Gone)),
            Some(task) if matches!(task.state, State::Done | State::Buried) => {
                Ok(Some(TaskEnd::Kept(Box::new(task))))
            }
            // It was kicked meanwhile.
            Some(_) => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::words::sync::yield_now;
    use crate::{Ended, ManualClock, Queue, Retention, Tube, TubeOptions};
    use std::thread;
    use std::time::Duration;

    /// What a call gets that waits while `end` ends its task, of two that were put, and a retention
    /// removes it. A call after that gets nothing.
    fn ended(options: TubeOptions, end: impl FnOnce(&Tube, &ManualClock)) -> Ended {
        let clock = ManualClock::new();
        let queue = Queue::builder().clock(clock.clone()).by_hand(true).in_memory().unwrap();
        let tube = queue.create_tube("t", options).unwrap();
        let id = tube.put(&[7; 9000]).unwrap();
        tube.put(b"b").unwrap();
        let awaited = || tube.inner.core.state.lock().derived.awaited.len();
        thread::scope(|scope| {
            let wait = scope.spawn(|| queue.wait_for(id, Duration::MAX).unwrap().unwrap());
            while awaited() == 0 {
                yield_now();
            }
            end(&tube, &clock);
            let ended = wait.join().unwrap();
            assert_eq!(awaited(), 0, "nothing stays in memory");
            assert!(tube.peek(id).is_err());
            let later = queue.wait_for(id, Duration::MAX).unwrap();
            assert!(matches!(later, Some(Ended::Gone)), "{later:?}");
            ended
        })
    }

    fn both(tube: &Tube) -> Vec<crate::Task> {
        tube.take_many(2).unwrap()
    }

    #[test]
    fn a_retention_takes_nothing_from_a_call_that_waits() {
        let one = Retention::new().count(1);
        let finished = || TubeOptions::default().keep_finished(one);
        let acks = |tube: &Tube, _: &ManualClock| {
            for task in both(tube) {
                task.ack_with(b"r").unwrap();
            }
        };
        match ended(finished(), acks) {
            Ended::Done(task) => {
                assert_eq!(
                    (&task.payload[..], task.result.as_deref()),
                    (&[7; 9000][..], Some(&b"r"[..]))
                );
            }
            ended => panic!("{ended:?}"),
        }
        // In the op that ends it.
        let at_once = |tube: &Tube, _: &ManualClock| tube.ack_many(both(tube)).unwrap();
        assert!(matches!(ended(finished(), at_once), Ended::Done(_)));
        let by_age =
            TubeOptions::default().keep_finished(Retention::new().age(Duration::from_secs(1)));
        let passes = |tube: &Tube, clock: &ManualClock| {
            tube.take().unwrap().ack().unwrap();
            clock.advance(Duration::from_secs(1));
            assert_eq!(tube.stats().unwrap().finished, 0);
        };
        assert!(matches!(ended(by_age, passes), Ended::Done(_)));
        let buries = |tube: &Tube, _: &ManualClock| {
            both(tube).into_iter().for_each(|task| task.bury("no").unwrap());
        };
        match ended(TubeOptions::default().keep_buried(one), buries) {
            Ended::Buried(task) => assert_eq!(task.reason.as_ref().unwrap().to_string(), "no"),
            ended => panic!("{ended:?}"),
        }
        // A delete takes it from the call too.
        let deletes = |tube: &Tube, _: &ManualClock| {
            both(tube).into_iter().for_each(|task| tube.delete(task.id()).unwrap());
        };
        assert!(matches!(ended(finished(), deletes), Ended::Gone));
    }
}
