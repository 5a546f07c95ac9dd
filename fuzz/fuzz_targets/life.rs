//! Runs bytes as a life of verbs, on a queue in memory. The body is a plain function, which tests
//! run over the kept corpus.

#![no_main]

#[path = "../../tests/fuzzed/bodies/mod.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bodies::life(bytes));
