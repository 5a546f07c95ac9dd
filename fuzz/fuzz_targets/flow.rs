//! Runs bytes as a program of dependencies, gates and schedules, on a queue in memory. The body is
//! a plain function, which tests run over the kept corpus.

#![no_main]

#[path = "../../tests/fuzzed/bodies/mod.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bodies::flow(bytes));
