//! Calls that wait, in the model. A wait is one step: the call, what happens while it waits, and
//! its end, which is the stop at the latest.

use super::{Expected, Model};
use crate::step::*;
use tubewell::ErrorKind;

impl Model {
    pub(super) fn waited(&mut self, wait: &Wait, picked: &Picked) -> Expected {
        self.play_wait(wait, picked).0
    }

    /// What will end the call of this step. None if the documents leave that open.
    pub fn foresee(&self, step: &Step, picked: &Picked) -> Option<Over> {
        let Step::Wait(wait) = step else { return None };
        let mut after = self.clone();
        after.time.read();
        after.end_graces_before(step, picked);
        match after.play_wait(wait, picked) {
            (_, true) => None,
            (Ok(Answer::Waited(waited)), _) => Some(waited.over),
            _ => Some(Over::AtOnce),
        }
    }

    /// The result, and whether the documents leave it open.
    fn play_wait(&mut self, wait: &Wait, picked: &Picked) -> (Expected, bool) {
        // After the stop a take looks for nothing.
        let is_silent = wait.is_stopped && wait.what == Awaited::Task;
        if !is_silent && !self.tubes.contains_key(&wait.tube) {
            return (Err(vec![ErrorKind::TubeNotFound]), false);
        }
        self.work_off(wait.tube);
        let first = self.try_once(wait, picked);
        let waits = wait.length > 0 && !wait.is_stopped;
        match first {
            Err(kinds) if kinds != [ErrorKind::Full] => {
                let is_open = kinds.contains(&ErrorKind::Full);
                return (Err(kinds), is_open);
            }
            Ok(got) if !waits || got != Answer::Took(vec![]) => {
                let (left, meanwhile, over) = (None, None, Over::AtOnce);
                let waited = Waited { left, meanwhile, over, got };
                return (Ok(Answer::Waited(Box::new(waited))), false);
            }
            first if !waits => return (first, false),
            _ => {}
        }
        let (end, sessions) = (self.time.mono.saturating_add(wait.length), self.sessions.clone());
        let meanwhile = self.happens(wait, picked);
        let is_late = end <= self.time.mono;
        // Leases return session by session, and the first one may be taken before the next.
        let mut is_open = self.sessions != sessions;
        let mut after = self.clone();
        let got = after.try_once(wait, picked);
        let is_served = got.as_ref().is_ok_and(|got| *got != Answer::Took(vec![]));
        // Its time is over, and there is what it waits for.
        is_open |= is_late && is_served;
        if is_served && !is_late {
            *self = after;
        }
        let over = if is_served || is_late { Over::Then } else { Over::Stop };
        let got = got.unwrap_or_else(|kinds| {
            is_open |= kinds != [ErrorKind::Full];
            Answer::Refused(ErrorKind::Full)
        });
        let waited = Waited { left: Some(wait.length), meanwhile, over, got };
        (Ok(Answer::Waited(Box::new(waited))), is_open)
    }

    /// A look of the call. Its put has the number after that of [`Then::Put`].
    fn try_once(&mut self, wait: &Wait, picked: &Picked) -> Expected {
        let tube = wait.tube;
        match &wait.what {
            Awaited::Room(new) => self.put(tube, new, picked.serial + 1),
            Awaited::Task if wait.is_stopped => Ok(Answer::Took(vec![])),
            Awaited::Task => {
                let is_shut = self.tubes[&tube].pause.is_some() || self.is_closed(tube);
                let next = self.next(tube).filter(|_| !is_shut);
                let hand = next.map(|serial| self.hand_out(serial, picked.lease));
                Ok(Answer::Took(hand.into_iter().collect()))
            }
        }
    }

    /// What happens once the call waits.
    fn happens(&mut self, wait: &Wait, picked: &Picked) -> Option<Answer> {
        let happened = match wait.then {
            Then::Nothing => return None,
            Then::Pass(by) => {
                self.time.turn(&Turn::Advance(by));
                self.work_off_all();
                Ok(Answer::Done)
            }
            Then::Put => self.put(wait.tube, &New::default(), picked.serial),
            Then::Trash(task) => self.of_tube(&Step::TrashAny { tube: wait.tube, task }, picked),
            Then::Capacity(capacity) => {
                let (tube, to) = (wait.tube, Tune::Capacity(capacity));
                self.of_tube(&Step::Tune { tube, to, is_set: true }, picked)
            }
            Then::Delete(_) => self.one_of(wait.tube, picked.task, true).map(|serial| {
                self.remove(serial, Call::Delete);
                Answer::Done
            }),
        };
        Some(happened.unwrap_or_else(|kinds| Answer::Refused(kinds[0])))
    }
}
