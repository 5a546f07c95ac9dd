//! Calls that wait, against the library, and the callbacks of tubes.

use super::tubes::Texts;
use super::*;
use std::sync::{Arc, Mutex, Weak};
use std::thread::yield_now;
use std::time::Instant;
use tubewell::{Event, Stop};

/// How long a call that is over may take to return, which depends on the machine alone.
const PATIENCE: Duration = Duration::from_secs(20);

/// The callbacks of one process.
#[derive(Default)]
pub(super) struct Callbacks {
    /// Each with its tube, and with what is dropped together with it.
    made: BTreeMap<Serial, (u8, Weak<()>)>,
    /// Which of them were called since the last tick, each with the tube of the event.
    called: Arc<Mutex<BTreeSet<(Serial, String)>>>,
    /// The tubes whose callbacks must be called in the next tick. One that replaces another is
    /// called in its place.
    owed: BTreeSet<u8>,
    /// Those of tubes that were dropped since the last tick: they may be called for what was
    /// before, and must be if that was owed.
    ended: BTreeSet<(Serial, String)>,
    owed_last: BTreeSet<(Serial, String)>,
}

impl Callbacks {
    pub(super) fn make(
        &mut self,
        tube: u8,
        number: Serial,
    ) -> impl Fn(&Event) + Send + Sync + use<> {
        let (alive, called) = (Arc::new(()), self.called.clone());
        self.made.insert(number, (tube, Arc::downgrade(&alive)));
        move |event: &Event| {
            let _with_it = &alive;
            called.lock().unwrap().insert((number, event.tube.to_string()));
        }
    }

    /// Those that were not dropped.
    pub(super) fn kept(&self) -> BTreeSet<(u8, Serial)> {
        let kept = self.made.iter().filter(|(_, (_, alive))| alive.strong_count() > 0);
        kept.map(|(number, (tube, _))| (*tube, *number)).collect()
    }

    /// A tick that is no step, as after trouble, has made the calls that were due.
    pub(super) fn forget_calls(&mut self) {
        self.called.lock().unwrap().clear();
        self.forget_what_is_owed();
    }

    fn forget_what_is_owed(&mut self) {
        (self.owed, self.ended, self.owed_last) = Default::default();
    }

    /// A put makes a call due. A tick makes the calls, of callbacks that were not replaced, also of
    /// one whose tube was dropped since.
    pub(super) fn note(&mut self, step: &Step, answer: &Answer) -> Verdict<()> {
        let ticks = match (step, answer) {
            (Step::Tick | Step::Look, _) => true,
            (Step::Wait(Wait { then: Then::Pass(_), .. }), Answer::Waited(waited)) => {
                waited.meanwhile.is_some()
            }
            _ => false,
        };
        match (step, answer) {
            (Step::Put { tube, .. }, Answer::Put(_, Found::New)) => {
                let of_tube = self.kept().into_iter().filter(|(of, _)| of == tube);
                self.owed.extend(of_tube.map(|(of, _)| of));
            }
            (Step::Callback { tube, is_set: false }, Answer::Callback(_)) => {
                self.owed.remove(tube);
            }
            (Step::DropTube { tube, .. } | Step::DropEmpty { tube }, Answer::Done) => {
                let of_tube = self.kept().into_iter().filter(|(of, _)| of == tube);
                let ends: BTreeSet<_> = of_tube.map(|(of, no)| (no, tube_name(of))).collect();
                let ends: Vec<_> = ends.difference(&self.ended).cloned().collect();
                if self.owed.remove(tube) {
                    self.owed_last.extend(ends.iter().cloned());
                }
                self.ended.extend(ends);
            }
            _ if ticks => {
                let called = std::mem::take(&mut *self.called.lock().unwrap());
                let kept = self.kept().into_iter();
                let own: BTreeSet<_> = kept.map(|(tube, no)| (no, tube_name(tube))).collect();
                if !called.iter().all(|it| own.contains(it) || self.ended.contains(it)) {
                    return Err(format!("of the callbacks {own:?} were called {called:?}"));
                }
                let is_owed = |(_, name): &&(Serial, String)| {
                    self.owed.iter().any(|tube| tube_name(*tube) == *name)
                };
                let mut owed = own.iter().filter(is_owed).chain(&self.owed_last);
                if let Some(missed) = owed.find(|callback| !called.contains(callback)) {
                    return Err(format!("after a put {missed:?} was not called"));
                }
                self.forget_what_is_owed();
            }
            _ => {}
        }
        Ok(())
    }
}

/// What a call has got.
enum Got {
    Task(Option<Task>),
    Put(Put),
}

/// Lets other threads run until it holds. Returns whether it did.
fn until(mut so: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    loop {
        match so() {
            true => return true,
            false if begun.elapsed() > PATIENCE => return false,
            false => yield_now(),
        }
    }
}

impl World {
    /// Sets the callback of a tube. The one that is dropped is the one that is returned.
    pub(super) fn set_callback(
        &mut self,
        tube: u8,
        is_set: bool,
        number: Serial,
    ) -> Verdict<Result<Answer>> {
        let before = self.callbacks.kept();
        let handle = self.tubes[&tube].clone();
        let callback = is_set.then(|| self.callbacks.make(tube, number));
        let returned = match handle.on_task_change(callback) {
            Ok(returned) => returned,
            Err(error) => return Ok(Err(error)),
        };
        let gone = |now: &BTreeSet<(u8, Serial)>| before.difference(now).copied().next();
        if let Some(gone) = gone(&self.callbacks.kept()) {
            return Err(format!("callback {gone:?} was dropped and not returned"));
        }
        drop(returned);
        Ok(Ok(Answer::Callback(gone(&self.callbacks.kept()).map(|(_, number)| number))))
    }

    pub(super) fn wait(&mut self, wait: &Wait, picked: &Picked) -> Verdict<Result<Answer>> {
        let tube = self.tubes[&wait.tube].clone();
        let stop = Stop::new();
        if wait.is_stopped {
            stop.stop();
        }
        let new = if let Awaited::Room(new) = &wait.what { new.clone() } else { New::default() };
        let texts = Texts::of(&new, picked.serial + 1);
        let put = self.new_task(&tube, &new, &texts).wait_for_room(length(wait.length));
        let put = put.wait_for_room_until(&stop);
        let call = || match wait.what {
            Awaited::Task => tube.take_timeout_until(length(wait.length), &stop).map(Got::Task),
            Awaited::Room(_) => put.put_outcome().map(Got::Put),
        };
        let (mut left, mut happened, mut over) = (None, None, Over::AtOnce);
        let got = std::thread::scope(|scope| {
            let call = scope.spawn(call);
            let waits = wait.length > 0 && !wait.is_stopped;
            let is_on_time = until(|| {
                left = self.waits_for().filter(|_| waits);
                left.is_some() || call.is_finished()
            });
            if left.is_some() {
                happened = self.happens(wait, &tube, picked);
                let is_over = match picked.over {
                    Some(Over::Then) => until(|| call.is_finished()),
                    _ => call.is_finished(),
                };
                over = if is_over { Over::Then } else { Over::Stop };
            } else if !is_on_time {
                over = Over::Stop;
            }
            stop.stop();
            call.join().expect("a call does not panic")
        });
        let meanwhile = match happened {
            Some(happened) => Some(self.happened(picked.serial, happened)?),
            None => None,
        };
        let got = match got {
            Ok(Got::Task(task)) => {
                match self.took(wait.tube, &tube, task.into_iter().collect(), picked.lease)? {
                    Ok(took) => took,
                    refused => return Ok(refused),
                }
            }
            Ok(Got::Put(put)) => {
                let (serial, found) = self.bind_put(picked.serial + 1, &put)?;
                Answer::Put(serial, found)
            }
            Err(error) if over == Over::AtOnce => return Ok(Err(error)),
            Err(error) => Answer::Refused(error.kind()),
        };
        Ok(Ok(Answer::Waited(Box::new(Waited { left, meanwhile, over, got }))))
    }

    /// The answer of what happened while a call waited.
    fn happened(&mut self, serial: Serial, happened: Result<Option<TaskId>>) -> Verdict<Answer> {
        Ok(match happened {
            Ok(Some(id)) => {
                self.bind_new(serial, id)?;
                Answer::Put(serial, Found::New)
            }
            Ok(None) => Answer::Done,
            Err(error) => Answer::Refused(error.kind()),
        })
    }

    /// How long the call that waits will go on; None if none waits.
    fn waits_for(&self) -> Option<u64> {
        let waiters = self.queue().waiters().ok()?;
        let left = waiters.first()?.left;
        Some(left.map_or(EVER, |left| left.as_micros() as u64))
    }

    /// What happens while a call waits; the id of a put.
    fn happens(&self, wait: &Wait, tube: &Tube, picked: &Picked) -> Option<Result<Option<TaskId>>> {
        Some(match wait.then {
            Then::Nothing => return None,
            Then::Pass(by) => {
                self.clock.advance(length(by));
                self.queue().tick().map(|()| None)
            }
            Then::Put => tube.put(&payload(picked.serial)).map(Some),
            Then::Capacity(capacity) => {
                let (name, value) = Tune::Capacity(capacity).setting();
                tube.set(name, value).map(|()| None)
            }
            Then::Delete(_) | Then::Trash(_) => {
                let id = picked.task.and_then(|serial| self.ids.get(&serial).copied());
                let id = id.expect("a task of the tube");
                let done = match wait.then {
                    Then::Trash(_) => tube.trash(id, "any"),
                    _ => tube.delete(id),
                };
                done.map(|()| None)
            }
        })
    }
}
