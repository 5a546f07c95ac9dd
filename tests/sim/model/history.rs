//! What the model keeps of the history of a task: an entry for each thing that became of it, within
//! the limits of its tube. The put, the present attempt and the end are read off the task.

use super::{Model, Task};
use crate::step::*;
use std::sync::Arc;
use tubewell::{HistoryEvent, State};

/// The entries of one task that are kept, and how many were removed.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept {
    entries: Arc<Vec<Told>>,
    dropped: u64,
}

impl Kept {
    /// Adds an entry. The put is one of those that are counted.
    fn add(&mut self, told: Told, (most, bytes): (u32, u32)) {
        if most < 2 {
            return;
        }
        let entries = Arc::make_mut(&mut self.entries);
        entries.push(told);
        let size = |entries: &[Told]| entries.iter().map(Told::bytes).sum::<u64>();
        while entries.len() > 1
            && (entries.len() >= most as usize || size(entries) > u64::from(bytes))
        {
            entries.remove(0);
            self.dropped += 1;
        }
    }
}

impl Model {
    /// Notes what becomes of a task, before it does.
    pub(super) fn note(&mut self, serial: Serial, event: HistoryEvent, place: &str, text: &str) {
        let task = &self.tasks[&serial];
        let place = Some(place.to_owned()).filter(|place| !place.is_empty());
        let told = Told { event, place, text: text.to_owned(), ..self.attempt_of(task) };
        self.keep(serial, task.tube, told);
    }

    /// Notes the verdict of the holder of a task.
    pub(super) fn note_verdict(&mut self, serial: Serial, step: &Step, words: &str) {
        let group = |group| failure_group(self.tasks[&serial].tube, group);
        let (event, place, text) = match step {
            Step::Release { .. } => (HistoryEvent::Released, String::new(), ""),
            Step::Retry { grouped: true, .. } => (HistoryEvent::Retried, group(1), words),
            Step::Retry { .. } => (HistoryEvent::Retried, String::new(), words),
            Step::Bury { .. } => (HistoryEvent::Buried, String::new(), words),
            Step::Fail { .. } => (HistoryEvent::Failed, group(0), words),
            Step::Trash { .. } => (HistoryEvent::Trashed, String::new(), words),
            _ => return,
        };
        self.note(serial, event, &place, text);
    }

    /// Notes a line that is of no attempt.
    pub(super) fn note_line(&mut self, serial: Serial, event: HistoryEvent, text: &str) {
        let (tube, queue) = (self.tasks[&serial].tube, self.time.queue);
        self.keep(serial, tube, Told::line(event, queue, text));
    }

    /// Notes a return that a sweep does later.
    pub(super) fn note_swept(&mut self, serial: Serial) {
        let task = &self.tasks[&serial];
        let told = Told { is_swept: true, ..self.attempt_of(task) };
        self.keep(serial, task.tube, Told { event: HistoryEvent::Released, ..told });
    }

    /// Leaves open which of several openings has written the newest entries of a task.
    pub(super) fn leave_opening_open(&mut self, serial: Serial) {
        let (queue, task) = (self.time.queue, self.tasks.get_mut(&serial).unwrap());
        let entries = Arc::make_mut(&mut task.history.entries).iter_mut().rev();
        let written = entries.take_while(|told| {
            told.at == queue && matches!(told.event, HistoryEvent::Lost | HistoryEvent::Buried)
        });
        written.take(2).for_each(|told| told.is_swept = true);
    }

    /// Notes an entry within the limits of a tube.
    pub(super) fn keep(&mut self, serial: Serial, tube: u8, told: Told) {
        let limits = self.tubes[&tube].opts.history;
        self.tasks.get_mut(&serial).unwrap().history.add(told, limits);
    }

    /// The attempt that a task is in, as an entry.
    fn attempt_of(&self, task: &Task) -> Told {
        let mut told = Told::line(HistoryEvent::Taken, self.time.queue, "");
        if task.seen.state == State::Taken {
            told.attempt = Some(task.seen.attempts).filter(|attempts| *attempts > 0);
            told.by = task.holder.filter(|who| *who != NAMELESS).map(consumer_name);
            told.held = task.begun.map(|begun| self.time.mono.saturating_sub(begun));
        }
        told
    }

    /// The name of the holder of a task in hand.
    pub(super) fn holder_of(&self, serial: Serial) -> Option<String> {
        self.attempt_of(&self.tasks[&serial]).by
    }

    /// The history as it is read, and how many entries were removed.
    pub(super) fn history(&self, task: &Task) -> (Vec<Told>, u64) {
        let mut all = vec![Told::line(HistoryEvent::Put, task.seen.created, "")];
        all.extend(task.history.entries.iter().cloned());
        match (task.seen.state, task.seen.finished) {
            (State::Taken, _) => {
                let told = self.attempt_of(task);
                let failed = task.seen.failure.as_ref().map_or(0, |failure| failure.2);
                let last = all.iter().map(|told| told.at).max().unwrap_or(0).max(failed);
                // One that waits for its holder since an opening: not before what is known.
                let at = told.held.map_or(last, |held| self.time.queue.saturating_sub(held));
                all.push(Told { at, ..told });
            }
            (State::Done, Some(at)) => all.push(Told::line(HistoryEvent::Done, at, "")),
            _ => {}
        }
        (all, task.history.dropped)
    }
}
