//! Lists of the whole queue that are read in steps, each of which holds the engine's lock for a
//! bounded number of rows: the names of tubes, and the consumers. They are not one instant.

use crate::engine::{consumers, query};
use crate::format::View;
use crate::format::row::ConsumerRow;
use crate::runtime::shared::Shared;
use crate::words::error::Result;
use crate::words::limits::NAMES_OF_STEP;

impl Shared {
    /// The names of all tubes that begin with this, sorted.
    pub(crate) fn names(&self, prefix: &str) -> Result<Vec<String>> {
        let step =
            |view: &dyn View, from: &String, most| query::names_from(view, prefix, from, most);
        self.all_from(String::new(), step)
    }

    /// All consumers, by number.
    pub(crate) fn consumers(&self) -> Result<Vec<(u32, ConsumerRow)>> {
        self.all_from(0, |view, from, most| consumers::from(view, *from, most))
    }

    /// All that the steps read, each of which says where the next one begins.
    fn all_from<T, F>(
        &self,
        first: F,
        step: impl Fn(&dyn View, &F, usize) -> Result<(Vec<T>, Option<F>)>,
    ) -> Result<Vec<T>> {
        let (mut all, mut from) = (Vec::new(), Some(first));
        while let Some(first) = from {
            self.state.pass_on();
            let (some, next) = self.look(|view, _| step(view, &first, NAMES_OF_STEP))?;
            all.extend(some);
            from = next;
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::query::names_from;
    use crate::{ConsumerOptions, ManualClock, Queue};
    use std::time::Duration;

    /// A step reads no more than it is asked for, and says where the next one begins.
    #[test]
    fn a_step_reads_a_bounded_number_of_rows() {
        let queue = Queue::builder().clock(ManualClock::new()).by_hand(true).in_memory().unwrap();
        for number in 100..100 + 3 * NAMES_OF_STEP {
            queue.tube(&format!("{number}")).unwrap();
            let about = ConsumerOptions::new().keep(Duration::from_secs(1));
            drop(queue.consumer_with(&format!("{number}"), about).unwrap());
        }
        let core = &queue.inner.core;
        let state = core.state.lock();
        let (names, next) = names_from(&state.store, "", "", NAMES_OF_STEP).unwrap();
        let first = format!("{}", 100 + NAMES_OF_STEP);
        assert_eq!((names.len(), next), (NAMES_OF_STEP, Some(first.clone())));
        let (names, _) = names_from(&state.store, "1", &first, NAMES_OF_STEP).unwrap();
        assert_eq!(names[0], first);
        let (some, next) = consumers::from(&state.store, 0, NAMES_OF_STEP).unwrap();
        let first = some[0].0 + NAMES_OF_STEP as u32;
        assert_eq!((some.len(), next), (NAMES_OF_STEP, Some(first)));
        drop(state);
        assert_eq!(core.names("").unwrap().len(), 3 * NAMES_OF_STEP);
        assert_eq!(core.consumers().unwrap().len(), 3 * NAMES_OF_STEP);
        // Each look is one step: that of all rows would be one.
        let looks = std::cell::Cell::new(0);
        let step = |view: &dyn View, from: &u32, most| {
            looks.set(looks.get() + 1);
            assert_eq!(most, NAMES_OF_STEP);
            consumers::from(view, *from, most)
        };
        core.all_from(0, step).unwrap();
        assert_eq!(looks.get(), 3);
    }
}
