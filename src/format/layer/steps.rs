//! Counts the entries that look-ups visit, for tests: work per task must not grow with the number
//! of tasks. In a build without tests it is nothing.

#[cfg(test)]
crate::words::sync::thread_local! {
    static STEPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// One more entry was visited by this thread.
#[inline]
pub(crate) fn step() {
    #[cfg(test)]
    STEPS.with(|steps| steps.set(steps.get() + 1));
}

/// How many entries this thread visited meanwhile.
#[cfg(test)]
pub(crate) fn during<T>(work: impl FnOnce() -> T) -> u64 {
    let before = STEPS.with(std::cell::Cell::get);
    drop(work());
    STEPS.with(std::cell::Cell::get) - before
}
