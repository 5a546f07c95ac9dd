//! How often a task is tried and how long it waits in between: by its own terms, else by those of
//! its tube. Decides nothing about a state.

use crate::engine::context::OpContext;
use crate::engine::tube_cache::TubeEntry;
use crate::format::feature::RETRY_TERMS;
use crate::format::row::TaskProgress;
use crate::words::backoff::RetryTerms;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::task::TaskId;
use std::time::Duration;

/// After how many attempts a task is buried as exhausted, if it is limited.
pub(crate) fn max_attempts(tube: &TubeEntry, progress: &TaskProgress) -> Option<u32> {
    match progress.retry_terms().max_attempts {
        Some(most) => Some(most).filter(|most| *most > 0),
        None => tube.row.options.max_attempts,
    }
}

/// Whether a failed attempt of a task was its last one.
pub(crate) fn is_exhausted(tube: &TubeEntry, progress: &TaskProgress) -> bool {
    max_attempts(tube, progress).is_some_and(|most| progress.attempts >= most)
}

/// How long a task waits after a failed attempt.
pub(crate) fn wait(tube: &TubeEntry, id: TaskId, progress: &TaskProgress) -> Duration {
    let backoff = progress.retry_terms().backoff.unwrap_or(tube.row.options.backoff);
    backoff.wait_of(id, progress.attempts)
}

/// Sets the terms of a task; what they leave out stays as it is.
///
/// # Errors
/// `TooLarge` if fields of later versions leave no room in its row.
pub(crate) fn set(
    ctx: &mut OpContext<'_>,
    tube: &TubeEntry,
    progress: &mut TaskProgress,
    terms: RetryTerms,
) -> Result<()> {
    if terms == RetryTerms::default() {
        return Ok(());
    }
    // The rows of a temporary tube reach no disk.
    if !tube.run().is_temporary() {
        ctx.needs(&RETRY_TERMS);
    }
    let terms = terms.or(progress.retry_terms());
    match progress.set_retry_terms(&terms) {
        true => Ok(()),
        false => {
            Err(Error::new(ErrorKind::TooLarge).because("its row has no room for more fields"))
        }
    }
}
