//! A call over many tasks, divided into steps of which each is one op. Knows nothing of the tasks.

use crate::words::error::{ErrorKind, Result};
use crate::words::limits::BATCH_TASKS_MAX;
use std::ops::Range;

/// A step that is too large for a full disk is divided into so many parts.
pub(crate) const PARTS: usize = 8;

/// Runs so many tasks in steps. The steps before an error stay done. There is at least one step: a
/// call without tasks also waits for the sync of the writes that it has read.
pub(crate) fn in_steps(
    tasks: usize,
    mut run: impl FnMut(Range<usize>) -> Result<()>,
) -> Result<()> {
    let (mut done, mut at_once) = (0, BATCH_TASKS_MAX);
    loop {
        let step = done..tasks.min(done + at_once);
        let (end, count) = (step.end, step.len());
        match run(step) {
            Err(error) if error.kind() == ErrorKind::DiskFull && count > 1 => {
                at_once = count.div_ceil(PARTS);
                continue;
            }
            ended => ended?,
        }
        done = end;
        if done == tasks {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::error::Error;

    #[test]
    fn steps_are_bounded_and_smaller_on_a_full_disk() {
        let mut steps = Vec::new();
        let run = |step: Range<usize>| {
            let fits = step.len() <= 1000 || step.start < BATCH_TASKS_MAX;
            steps.push((step.len(), fits));
            if fits { Ok(()) } else { Err(Error::new(ErrorKind::DiskFull)) }
        };
        in_steps(BATCH_TASKS_MAX + 2000, run).unwrap();
        let sizes = [(BATCH_TASKS_MAX, true), (2000, false)];
        assert_eq!(steps[..2], sizes);
        assert_eq!(steps[2..], [(250, true); 8]);
    }

    #[test]
    fn no_task_is_one_step_and_one_that_never_fits_is_refused() {
        let mut steps = 0;
        let mut count = |_| {
            steps += 1;
            Ok(())
        };
        in_steps(0, &mut count).unwrap();
        assert_eq!(steps, 1);
        let mut steps = 0;
        let refused = in_steps(8, |_| {
            steps += 1;
            Err(Error::new(ErrorKind::DiskFull))
        });
        assert_eq!((refused.unwrap_err().kind(), steps), (ErrorKind::DiskFull, 2));
    }
}
