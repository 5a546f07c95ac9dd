//! The entries of histories, as both sides of the simulation have them. An entry that the documents
//! leave open in a part is equal to each that it may be.

use tubewell::HistoryEvent;

/// One entry of the history of a task.
#[derive(Clone, Debug)]
pub struct Told {
    pub event: HistoryEvent,
    /// Queue time.
    pub at: u64,
    pub attempt: Option<u32>,
    pub by: Option<String>,
    /// Microseconds of the attempt.
    pub held: Option<u64>,
    /// The failure group, or the tube that was left.
    pub place: Option<String>,
    pub text: String,
    /// A sweep writes it some time after the step, or a close does; or one of several openings, of
    /// which the medium may have a part.
    pub is_swept: bool,
}

impl Told {
    /// An entry that is of no attempt.
    pub fn line(event: HistoryEvent, at: u64, text: &str) -> Self {
        let (attempt, by, held, place) = (None, None, None, None);
        Self { event, at, attempt, by, held, place, text: text.to_owned(), is_swept: false }
    }

    /// Bytes of its row, by the format.
    pub fn bytes(&self) -> u64 {
        let len = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        (26 + len(&self.by) + len(&self.place) + self.text.len()) as u64
    }
}

impl PartialEq for Told {
    fn eq(&self, other: &Self) -> bool {
        let rest = |it: &Self| (it.attempt, it.by.clone(), it.place.clone(), it.text.clone());
        let is_swept = self.is_swept || other.is_swept;
        let returns = [HistoryEvent::Released, HistoryEvent::Closed];
        let is_event = self.event == other.event
            || is_swept && [self.event, other.event].iter().all(|event| returns.contains(event));
        let is_held = is_swept && returns.contains(&self.event) || self.held == other.held;
        let is_timed = is_swept || self.at == other.at;
        is_event && is_held && is_timed && rest(self) == rest(other)
    }
}

impl Eq for Told {}
