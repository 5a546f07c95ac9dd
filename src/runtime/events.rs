//! The stream of changes. Events are pushed in commit order, and a push never waits: a slow
//! subscriber loses the oldest events and can read how many.

use crate::engine::effects::{Change, Effects, TubeChange};
use crate::engine::{EventSubscribers, StepWords};
use crate::runtime::group_commit::Mark;
use crate::words::clock::machine_now;
use crate::words::event_options::EventOptions;
use crate::words::macros::debug;
use crate::words::sync::{Arc, AtomicU64, AtomicUsize, Condvar, Mutex, Ordering};
use crate::words::task::{Cause, State, TaskId};
use std::collections::VecDeque;
use std::time::Duration;

/// A task's step from one state to another, or a change of a tube or of a setting. It is sent after
/// the commit; a power cut may undo a commit that was not synced, see
/// [`Events::synced`](crate::Events::synced).
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// Counts the changes since the queue was opened, from 1, in commit order.
    pub seq: u64,
    /// The tube's name; empty for a setting of the queue.
    pub tube: Arc<str>,
    /// The task; none if the tube itself or a setting was changed.
    pub task: Option<TaskId>,
    /// The name of the setting that was set or unset, if one was.
    pub setting: Option<Arc<str>>,
    /// The name of the [schedule](crate::Queue::schedule) that was made, changed or removed, or has
    /// missed a fire, if one was. A child of it is a task.
    pub schedule: Option<Arc<str>>,
    /// The state that the task left; none if it is new.
    pub from: Option<State>,
    /// The state that it entered; none if it was removed.
    pub to: Option<State>,
    /// What moved it, or how the tube was changed.
    pub cause: Cause,
    pub(crate) mark: u64,
    payload: Option<Arc<[u8]>>,
    /// None of a plain step.
    words: Option<Arc<StepWords>>,
    /// Its commit had more payload bytes after it than any reader keeps.
    is_outrun: bool,
}

impl Event {
    /// The task's payload, also after a removal, if the reader asked for it with
    /// [`EventOptions::payloads`], [`EventFilter::payloads`] or
    /// [`Tube::on_task_change_with_payload`]. `None` also if it could not be read, for the end of a
    /// finished task in whose place a new one is put, and for steps of a transaction that happened
    /// before the reader asked.
    ///
    /// [`EventFilter::payloads`]: crate::EventFilter::payloads
    /// [`Tube::on_task_change_with_payload`]: crate::Tube::on_task_change_with_payload
    pub fn payload(&self) -> Option<&[u8]> {
        self.payload.as_deref()
    }

    /// The named consumer that holds the task after the step, or held it before: the one that took
    /// it, that settled it, or that has lost it. After an [adoption](crate::Adopted) it is the new
    /// one.
    ///
    /// This and the other words of a step are `None`, and the generation is 0, for steps of a
    /// transaction that happened before the first reader of events subscribed.
    pub fn holder(&self) -> Option<&str> {
        self.words.as_ref()?.holder.as_deref()
    }

    /// The failure group of a [`fail`](crate::Task::fail), of a retry that gave one, and of a task
    /// that has used up its attempts.
    ///
    /// ```
    /// use tubewell::{Cause, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tube = queue.tube("letters")?;
    /// let ada = queue.consumer("ada")?;
    /// tube.put(b"hello")?;
    /// let events = queue.events();
    /// tube.by(&ada).take()?.fail("address", "no such street")?;
    /// queue.close()?;
    /// let failed = events.last().unwrap();
    /// assert_eq!((failed.cause, failed.holder()), (Cause::Bury, Some("ada")));
    /// assert_eq!(failed.failure_group(), Some("address"));
    /// assert_eq!(failed.message(), Some("no such street"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn failure_group(&self) -> Option<&str> {
        self.words.as_ref()?.failure_group.as_deref()
    }

    /// The error of a retry or a fail, or the reason of a bury or a trash, cut as it is stored;
    /// none if it is empty. Of a missed fire, why it was.
    pub fn message(&self) -> Option<&str> {
        self.words.as_ref()?.message.as_deref()
    }

    /// The tube that the task goes to, of a step by which it leaves one for another, or for the
    /// same again: by [`Advance`](Cause::Advance), by [`Move`](Cause::Move), by
    /// [`Merge`](Cause::Merge), and by a put of its key.
    ///
    /// ```
    /// use tubewell::{Cause, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let (fetch, parse) = (queue.tube("fetch")?, queue.tube("parse")?);
    /// fetch.put(b"hello")?;
    /// let mut task = fetch.take()?;
    /// let events = queue.events();
    /// task.advance(&parse)?;
    /// let left = events.recv().unwrap();
    /// assert_eq!((&*left.tube, left.cause), ("fetch", Cause::Advance));
    /// assert_eq!(left.to_tube(), Some("parse"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn to_tube(&self) -> Option<&str> {
        self.words.as_ref()?.to_tube.as_deref()
    }

    /// The generation of the task's payload after the step, see
    /// [`TaskSummary::payload_generation`](crate::TaskSummary::payload_generation).
    pub fn payload_generation(&self) -> u32 {
        self.words.as_ref().map_or(0, |words| words.payload_generation)
    }

    /// Whether the task [is tracked](crate::Queue::track), or was until this event.
    pub fn is_tracked(&self) -> bool {
        self.words.as_ref().is_some_and(|words| words.is_tracked)
    }

    /// Whether the holder of the lease that ends has put the task again.
    pub(crate) fn is_of_holder(&self) -> bool {
        self.words.as_ref().is_some_and(|words| words.is_of_holder)
    }

    /// The same event for a reader that did not ask for the payload.
    pub(crate) fn without_payload(&self) -> Self {
        let (tube, setting) = (self.tube.clone(), self.setting.clone());
        let (schedule, words) = (self.schedule.clone(), self.words.clone());
        Self { payload: None, words, tube, setting, schedule, ..*self }
    }

    fn bytes(&self) -> usize {
        let words = self.words.as_ref().map_or(0, |words| words.bytes());
        words + self.payload().map_or(0, <[u8]>::len)
    }
}

/// Sends events to subscribers.
#[derive(Default)]
pub(crate) struct Hub {
    subscribers: Mutex<Subscribers>,
    subscribed: AtomicUsize,
    /// How many of them may want payloads.
    wanting: AtomicUsize,
    seq: AtomicU64,
}

/// What a subscriber receives of an event; a later one includes those before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Interest {
    Nothing,
    Event,
    Payload,
}

/// Which events a subscriber receives. It may take a lock of its own, under which no other lock is
/// taken.
pub(crate) trait EventSelector: Send + Sync {
    fn interest(&self, event: &Event) -> Interest;

    /// Whether it may want the payload in an event of a task of this tube.
    fn payloads_of(&self, tube: &str) -> bool;
}

/// The same of every event.
impl EventSelector for Interest {
    fn interest(&self, _: &Event) -> Interest {
        *self
    }

    fn payloads_of(&self, _: &str) -> bool {
        *self == Self::Payload
    }
}

#[derive(Default)]
struct Subscribers {
    list: Vec<Arc<Subscriber>>,
    /// No event will follow; a new subscription ends at once.
    ended: bool,
}

/// One bounded stream.
pub(crate) struct Subscriber {
    options: EventOptions,
    selector: Arc<dyn EventSelector>,
    stream: Mutex<Stream>,
    arrived: Condvar,
}

#[derive(Default)]
struct Stream {
    events: VecDeque<Event>,
    /// Bytes of the payloads and the words of the kept events.
    bytes: usize,
    /// How many events were dropped so far.
    dropped: u64,
    ended: bool,
}

impl Hub {
    pub(crate) fn subscribe(
        &self,
        options: EventOptions,
        selector: Arc<dyn EventSelector>,
    ) -> Arc<Subscriber> {
        let mut subscribers = self.subscribers.lock();
        let subscriber = Arc::new(Subscriber {
            options,
            selector,
            stream: Mutex::new(Stream { ended: subscribers.ended, ..Stream::default() }),
            arrived: Condvar::new(),
        });
        subscribers.list.push(subscriber.clone());
        self.count(&subscribers.list);
        subscriber
    }

    pub(crate) fn unsubscribe(&self, subscriber: &Arc<Subscriber>) {
        let mut subscribers = self.subscribers.lock();
        subscribers.list.retain(|other| !Arc::ptr_eq(other, subscriber));
        self.count(&subscribers.list);
    }

    fn count(&self, subscribers: &[Arc<Subscriber>]) {
        let wanting = subscribers.iter().filter(|subscriber| subscriber.options.payloads).count();
        self.subscribed.store(subscribers.len(), Ordering::Release);
        self.wanting.store(wanting, Ordering::Release);
    }

    /// The subscribers; `None` without any.
    pub(crate) fn wants(&self) -> Option<&dyn EventSubscribers> {
        (self.subscribed.load(Ordering::Acquire) > 0).then_some(self)
    }

    /// The number of the last event.
    pub(crate) fn last_seq(&self) -> u64 {
        self.seq.load(Ordering::Relaxed)
    }

    /// Sends the changes of one commit. Called in commit order.
    #[inline]
    pub(crate) fn send(&self, tube: impl Fn(u32) -> Arc<str>, effects: &Effects, mark: Mark) {
        let changes = &effects.changes;
        let tubes = effects.tubes.iter().filter_map(|change| Some((change, change.cause?)));
        // Only the holder of the engine's lock comes here.
        let last = self.seq.load(Ordering::Relaxed);
        let of_tubes = last + changes.len() as u64;
        self.seq.store(of_tubes + tubes.clone().count() as u64, Ordering::Relaxed);
        if self.subscribed.load(Ordering::Acquire) == 0 {
            return;
        }
        let notes = effects.notes.as_deref();
        let event = |(place, change): (usize, &Change)| {
            let payload = notes.and_then(|notes| notes.payload(place));
            Event {
                seq: last + 1 + place as u64,
                tube: tube(change.tube),
                task: Some(change.task),
                setting: None,
                schedule: None,
                from: change.from,
                to: change.to,
                cause: change.cause,
                mark: mark.0,
                is_outrun: matches!(payload, Some(None)),
                payload: payload.flatten(),
                words: notes.and_then(|notes| notes.words(place)),
            }
        };
        let tube_event = |(place, (change, cause)): (usize, (&TubeChange, Cause))| Event {
            seq: of_tubes + 1 + place as u64,
            // A tube that was just made is not known yet.
            tube: match (&change.row, &change.schedule) {
                (Some(row), _) => Arc::from(row.name.as_str()),
                (None, Some(schedule)) => Arc::from(&*schedule.tube),
                (None, None) => tube(change.number),
            },
            task: None,
            setting: change.setting.as_ref().map(|setting| Arc::from(&*setting.name)),
            schedule: change.schedule.as_ref().map(|schedule| Arc::from(&*schedule.name)),
            from: None,
            to: None,
            cause,
            mark: mark.0,
            is_outrun: false,
            payload: None,
            words: change.schedule.as_ref().and_then(|schedule| {
                let message = Some(schedule.message.clone()).filter(|text| !text.is_empty())?;
                Some(Arc::new(StepWords { message: Some(message), ..StepWords::default() }))
            }),
        };
        for subscriber in &self.subscribers.lock().list {
            let tubes = tubes.clone().enumerate().map(tube_event);
            subscriber.push(changes.iter().enumerate().map(event).chain(tubes));
        }
    }

    /// Ends every stream after its kept events are read, and every later subscription.
    pub(crate) fn end(&self) {
        let mut subscribers = self.subscribers.lock();
        subscribers.ended = true;
        for subscriber in &subscribers.list {
            subscriber.end();
        }
    }
}

impl EventSubscribers for Hub {
    fn payloads_of(&self, tube: &str) -> bool {
        if !self.want_payloads() {
            return false;
        }
        let subscribers = &self.subscribers.lock().list;
        subscribers.iter().any(|subscriber| subscriber.selector.payloads_of(tube))
    }

    fn bytes_kept(&self) -> usize {
        let subscribers = &self.subscribers.lock().list;
        let wanting = subscribers.iter().filter(|subscriber| subscriber.options.payloads);
        wanting.map(|subscriber| subscriber.options.bytes_kept).max().unwrap_or(0)
    }

    fn want_payloads(&self) -> bool {
        self.wanting.load(Ordering::Acquire) > 0
    }
}

impl Stream {
    fn push(&mut self, event: Event) {
        self.bytes += event.bytes();
        self.events.push_back(event);
    }

    fn pop(&mut self) -> Option<Event> {
        let event = self.events.pop_front()?;
        self.bytes -= event.bytes();
        Some(event)
    }

    /// Drops the oldest events until an event with `bytes` fits.
    fn make_room(&mut self, bytes: usize, options: &EventOptions) {
        while self.events.len() >= options.kept.max(1)
            || self.bytes.saturating_add(bytes) > options.bytes_kept
        {
            if self.pop().is_none() {
                return;
            }
            self.dropped += 1;
        }
    }
}

impl Subscriber {
    /// Pushes all events of one commit at once: waking the reader costs more than many events.
    fn push(&self, events: impl Iterator<Item = Event>) {
        let mut stream = self.stream.lock();
        let mut arrived = false;
        for mut event in events {
            match self.selector.interest(&event) {
                Interest::Nothing => continue,
                Interest::Event => event.payload = None,
                Interest::Payload if event.is_outrun => {
                    stream.dropped += stream.events.len() as u64 + 1;
                    (stream.events, stream.bytes) = (VecDeque::new(), 0);
                    continue;
                }
                Interest::Payload => {}
            }
            stream.make_room(event.bytes(), &self.options);
            stream.push(event);
            arrived = true;
        }
        drop(stream);
        if arrived {
            self.arrived.notify_all();
        }
    }

    pub(crate) fn end(&self) {
        self.stream.lock().ended = true;
        self.arrived.notify_all();
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.stream.lock().dropped
    }

    pub(crate) fn try_next(&self) -> Option<Event> {
        self.stream.lock().pop()
    }

    /// The next event; waits for it, at most for `timeout`. `None` after the timeout or the end of
    /// the stream.
    pub(crate) fn next(&self, timeout: Option<Duration>) -> Option<Event> {
        let until = timeout.and_then(|timeout| machine_now().checked_add(timeout));
        let mut stream = self.stream.lock();
        while stream.events.is_empty() && !stream.ended {
            match until {
                Some(until) if self.arrived.wait_until(&mut stream, until).timed_out() => break,
                Some(_) => {}
                None => self.arrived.wait(&mut stream),
            }
        }
        stream.pop()
    }
}

debug!(
    [] Event, "Event", this,
    "seq": &this.seq,
    "tube": &this.tube,
    "task": &this.task,
    "setting": &this.setting,
    "from": &this.from,
    "to": &this.to,
    "cause": &this.cause,
    "holder": &this.holder(),
    "failure_group": &this.failure_group(),
    "message": &this.message(),
    "to_tube": &this.to_tube(),
    "payload_generation": &this.payload_generation(),
    "is_tracked": &this.is_tracked(),
    "payload_bytes": &this.payload().map(<[u8]>::len)
);

#[cfg(test)]
mod tests {
    use crate::words::limits::SWEEP_BYTES;
    use crate::{EventOptions, ManualClock, Queue, TaskId};
    use std::collections::BTreeMap;
    use std::time::Duration;

    /// A sweep read the payloads of 128 tasks for the readers of events, whatever their size.
    #[test]
    fn a_sweep_reads_a_bounded_number_of_payload_bytes_for_events() {
        const BYTES: usize = 64 << 10;
        let clock = ManualClock::new();
        let queue = Queue::builder().by_hand(true).clock(clock.clone()).in_memory().unwrap();
        let tube = queue.tube("t").unwrap();
        for _ in 0..40 {
            tube.task(&vec![7; BYTES]).ttl(Duration::from_secs(1)).put().unwrap();
        }
        let events = queue.events_with(EventOptions::new().payloads());
        clock.advance(Duration::from_secs(1));
        queue.tick().unwrap();
        let mut commits: BTreeMap<u64, usize> = BTreeMap::new();
        while let Some(event) = events.try_recv() {
            *commits.entry(event.mark).or_default() += event.payload().unwrap().len();
        }
        assert_eq!(commits.values().sum::<usize>(), 40 * BYTES);
        assert_eq!(commits.into_values().max(), Some(SWEEP_BYTES));
    }

    /// What a commit dropped before its events were sent counts as dropped for the reader.
    #[test]
    fn a_large_commit_leaves_the_newest_payloads() {
        let queue = Queue::builder().by_hand(true).in_memory().unwrap();
        let tube = queue.tube("t").unwrap();
        let kept = queue.events_with(EventOptions::new().payloads().bytes_kept(2000));
        let less = queue.events_with(EventOptions::new().payloads().bytes_kept(1000));
        let plain = queue.events();
        tube.put(b"before").unwrap();
        let ids = tube.put_many(vec![vec![7; 1000]; 5]).unwrap();
        let received = |events: &crate::Events| -> Vec<(TaskId, usize)> {
            let events = std::iter::from_fn(|| events.try_recv());
            events
                .map(|event| (event.task.unwrap(), event.payload().map_or(0, <[u8]>::len)))
                .collect()
        };
        assert_eq!(received(&kept), [(ids[3], 1000), (ids[4], 1000)]);
        assert_eq!(received(&less), [(ids[4], 1000)]);
        assert_eq!((kept.dropped(), less.dropped()), (4, 5));
        assert_eq!(received(&plain).len(), 6);
    }
}
