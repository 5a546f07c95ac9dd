//! What events say of a step besides the step: the task's payload, and the words of a step that is
//! not plain. Notes exist only while events are read, so that a plain step stays a small value.

use crate::words::sync::Arc;

/// Words of a step.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct StepWords {
    /// The named consumer that holds the task after the step, or held it before.
    pub(crate) holder: Option<Box<str>>,
    /// The failure group that it failed in.
    pub(crate) failure_group: Option<Box<str>>,
    /// The error or the reason, as it is stored.
    pub(crate) message: Option<Box<str>>,
    /// The tube that the task goes to.
    pub(crate) to_tube: Option<Box<str>>,
    /// Counts the replacements of the task's payload.
    pub(crate) payload_generation: u32,
    /// Whether the task is tracked.
    pub(crate) is_tracked: bool,
    /// Whether the holder of the lease that ends has put the task again.
    pub(crate) is_of_holder: bool,
}

impl StepWords {
    /// Bytes of the texts.
    pub(crate) fn bytes(&self) -> usize {
        let texts = [&self.holder, &self.failure_group, &self.message, &self.to_tube];
        texts.into_iter().flatten().map(|text| text.len()).sum()
    }
}

/// The notes of the steps of a decision, each with the index of its step.
#[derive(Debug, Default)]
pub(crate) struct StepNotes {
    words: Vec<(usize, Arc<StepWords>)>,
    /// The oldest payloads are dropped, so that no more bytes are held than a reader keeps: these
    /// are `None`.
    payloads: Vec<(usize, Option<Arc<[u8]>>)>,
    /// How many of them were dropped.
    payloads_gone: usize,
    /// Bytes of the others.
    payload_bytes: usize,
    /// The most bytes that a reader keeps.
    payload_bytes_max: usize,
}

impl StepNotes {
    /// Bytes of the payloads.
    pub(crate) fn payload_bytes(&self) -> usize {
        self.payload_bytes
    }

    /// Changes the words of a step that is not before the last one with words.
    pub(crate) fn say(&mut self, step: usize, change: impl FnOnce(&mut StepWords)) {
        if self.words.last().is_none_or(|(last, _)| *last != step) {
            self.words.push((step, Arc::default()));
        }
        if let Some((_, words)) = self.words.last_mut()
            && let Some(words) = Arc::get_mut(words)
        {
            change(words);
        }
    }

    /// Adds the payload of the task of a step. No reader keeps more than `most` bytes, except of a
    /// single payload.
    pub(crate) fn add_payload(&mut self, step: usize, payload: Arc<[u8]>, most: usize) {
        self.payload_bytes_max = most;
        self.push_payload(step, Some(payload));
    }

    fn push_payload(&mut self, step: usize, payload: Option<Arc<[u8]>>) {
        self.payload_bytes += payload.as_ref().map_or(0, |payload| payload.len());
        self.payloads.push((step, payload));
        while self.payload_bytes > self.payload_bytes_max
            && self.payloads_gone + 1 < self.payloads.len()
            && let Some((_, oldest)) = self.payloads.get_mut(self.payloads_gone)
        {
            self.payload_bytes -= oldest.take().map_or(0, |payload| payload.len());
            self.payloads_gone += 1;
        }
    }

    /// The payload of the task of the step at this index, if it is wanted and could be read. The
    /// inner value is `None` if the payload was dropped.
    pub(crate) fn payload(&self, step: usize) -> Option<Option<Arc<[u8]>>> {
        found(&self.payloads, step).cloned()
    }

    /// The words of the step at this index, if it has some.
    pub(crate) fn words(&self, step: usize) -> Option<Arc<StepWords>> {
        found(&self.words, step).cloned()
    }

    /// Adds the notes of a later decision, whose steps come after so many.
    pub(crate) fn merge(&mut self, before: usize, later: Self) {
        self.payload_bytes_max = self.payload_bytes_max.max(later.payload_bytes_max);
        for (step, payload) in later.payloads {
            self.push_payload(before + step, payload);
        }
        self.words.extend(later.words.into_iter().map(|(step, words)| (before + step, words)));
    }
}

/// The note of a step in a list in their order.
fn found<T>(notes: &[(usize, T)], step: usize) -> Option<&T> {
    let at = notes.binary_search_by_key(&step, |(step, _)| *step).ok()?;
    notes.get(at).map(|(_, note)| note)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 256 tasks of 4 MiB at the end of their ttl took 569 MiB for a reader that keeps 1 MiB.
    #[test]
    fn no_more_payload_is_held_than_a_reader_keeps() {
        let step = |notes: &mut StepNotes, step: usize, bytes: usize| {
            notes.add_payload(step, Arc::from(vec![7; bytes]), 10);
        };
        let lens = |notes: &StepNotes| -> Vec<Option<usize>> {
            let payloads = (0..9).filter_map(|step| notes.payload(step));
            payloads.map(|payload| payload.map(|payload| payload.len())).collect()
        };
        let mut notes = StepNotes::default();
        for place in 0..3 {
            step(&mut notes, place, 4);
        }
        assert_eq!(lens(&notes), [None, Some(4), Some(4)]);
        let mut later = StepNotes::default();
        step(&mut later, 0, 5);
        notes.merge(3, later);
        assert_eq!(lens(&notes), [None, None, Some(4), Some(5)]);
        step(&mut notes, 4, 11);
        assert_eq!(lens(&notes), [None, None, None, None, Some(11)], "the newest stays");
        assert_eq!(notes.payload_bytes(), 11);
    }

    #[test]
    fn words_stand_at_their_steps_also_after_a_merge() {
        let say = |notes: &mut StepNotes, step: usize, name: &str| {
            notes.say(step, |words| words.holder = Some(name.into()));
            notes.say(step, |words| words.to_tube = Some("to".into()));
        };
        let (mut notes, mut later) = (StepNotes::default(), StepNotes::default());
        say(&mut notes, 1, "ada");
        say(&mut later, 0, "bob");
        notes.merge(3, later);
        let named = (0..5).map(|step| notes.words(step).map(|it| (it.holder.clone(), it.bytes())));
        let of = |name: &str| Some((Some(name.into()), 5));
        assert_eq!(named.collect::<Vec<_>>(), [None, of("ada"), None, of("bob"), None]);
    }
}
