//! Counts the entries that look-ups visit, for tests: work per task must not grow with the number
//! of tasks. Does nothing in a build without tests.

#[cfg(test)]
crate::words::sync::thread_local! {
    static STEPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Counts one entry visited by this thread.
#[inline]
pub(crate) fn step() {
    #[cfg(test)]
    STEPS.with(|steps| steps.set(steps.get() + 1));
}

/// Returns how many entries this thread visited while `work` ran.
#[cfg(test)]
pub(crate) fn during<T>(work: impl FnOnce() -> T) -> u64 {
    let before = STEPS.with(std::cell::Cell::get);
    drop(work());
    STEPS.with(std::cell::Cell::get) - before
}
