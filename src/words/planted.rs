//! Faults that .ci/canaries plants in a build of tests, to see that a test finds them. No other
//! build has this file, and no test plants a fault itself.

/// Whether this process was started with the fault of this name.
pub(crate) fn is_planted(fault: &str) -> bool {
    std::env::var_os("TUBEWELL_PLANTED").is_some_and(|planted| planted == fault)
}
