//! The stream of changes. Pushed in commit order and never waited for: a subscriber that does not
//! keep up loses the oldest, and is told how many.

use crate::engine::draft::Change;
use crate::live::gate::Mark;
use crate::sync::{Arc, AtomicU64, AtomicUsize, Condvar, Mutex, Ordering};
use crate::task::{Cause, State, TaskId};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// A task's step from one state to another. It is told once it is committed; a power cut may take
/// back what was not synced, see [`Events::synced`](crate::Events::synced).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// Counts the changes of this process, from 1, in commit order.
    pub seq: u64,
    /// The tube's name.
    pub tube: Arc<str>,
    /// The task.
    pub task: TaskId,
    /// The state it left; none if it is new.
    pub from: Option<State>,
    /// The state it entered; none if it is gone.
    pub to: Option<State>,
    /// What moved it.
    pub cause: Cause,
    pub(crate) mark: u64,
}

/// Hands events to subscribers.
#[derive(Default)]
pub(crate) struct Hub {
    audience: Mutex<Audience>,
    listening: AtomicUsize,
    seq: AtomicU64,
}

#[derive(Default)]
struct Audience {
    subscribers: Vec<Arc<Subscriber>>,
    /// Nothing will be told any more; who comes now comes to an end at once.
    ended: bool,
}

/// One bounded stream.
pub(crate) struct Subscriber {
    kept: usize,
    stream: Mutex<Stream>,
    came: Condvar,
    dropped: AtomicU64,
}

#[derive(Default)]
struct Stream {
    events: VecDeque<Event>,
    ended: bool,
}

impl Hub {
    pub(crate) fn subscribe(&self, kept: usize) -> Arc<Subscriber> {
        let mut audience = self.audience.lock();
        let subscriber = Arc::new(Subscriber {
            kept: kept.max(1),
            stream: Mutex::new(Stream { events: VecDeque::new(), ended: audience.ended }),
            came: Condvar::new(),
            dropped: AtomicU64::new(0),
        });
        audience.subscribers.push(subscriber.clone());
        self.listening.store(audience.subscribers.len(), Ordering::Release);
        subscriber
    }

    pub(crate) fn unsubscribe(&self, subscriber: &Arc<Subscriber>) {
        let mut audience = self.audience.lock();
        audience.subscribers.retain(|other| !Arc::ptr_eq(other, subscriber));
        self.listening.store(audience.subscribers.len(), Ordering::Release);
    }

    /// Tells of changes. Called in commit order.
    pub(crate) fn tell(&self, tube: impl Fn(u32) -> Arc<str>, changes: &[Change], mark: Mark) {
        let first = self.seq.fetch_add(changes.len() as u64, Ordering::Relaxed) + 1;
        if self.listening.load(Ordering::Acquire) == 0 {
            return;
        }
        let event = |(change, seq): (&Change, u64)| Event {
            seq,
            tube: tube(change.tube),
            task: change.task,
            from: change.from,
            to: change.to,
            cause: change.cause,
            mark: mark.0,
        };
        for subscriber in &self.audience.lock().subscribers {
            subscriber.push(changes.iter().zip(first..).map(event));
        }
    }

    /// Ends every stream, once what it holds is read, and those that are still to come.
    pub(crate) fn end(&self) {
        let mut audience = self.audience.lock();
        audience.ended = true;
        for subscriber in &audience.subscribers {
            subscriber.end();
        }
    }
}

impl Subscriber {
    /// All events of one commit at once: a call of the reader costs more than many of them.
    fn push(&self, events: impl Iterator<Item = Event>) {
        let mut stream = self.stream.lock();
        for event in events {
            if stream.events.len() == self.kept {
                stream.events.pop_front();
                self.dropped.fetch_add(1, Ordering::Relaxed);
            }
            stream.events.push_back(event);
        }
        drop(stream);
        self.came.notify_all();
    }

    pub(crate) fn end(&self) {
        self.stream.lock().ended = true;
        self.came.notify_all();
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    pub(crate) fn try_next(&self) -> Option<Event> {
        self.stream.lock().events.pop_front()
    }

    /// The next event; waits for it, for at most `timeout`. `None` if it did not come, or the
    /// stream has ended.
    pub(crate) fn next(&self, timeout: Option<Duration>) -> Option<Event> {
        let until = timeout.and_then(deadline);
        let mut stream = self.stream.lock();
        loop {
            if let Some(event) = stream.events.pop_front() {
                return Some(event);
            }
            if stream.ended {
                return None;
            }
            match until {
                Some(until) => {
                    if self.came.wait_until(&mut stream, until).timed_out() {
                        return stream.events.pop_front();
                    }
                }
                None => self.came.wait(&mut stream),
            }
        }
    }
}

fn deadline(timeout: Duration) -> Option<Instant> {
    crate::clock::machine_now().checked_add(timeout)
}
