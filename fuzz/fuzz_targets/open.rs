//! Damaged files to an opening. The body is a plain function, which stable tests replay
//! over the kept corpus.

#![no_main]

#[path = "../../tests/fuzzed/bodies/mod.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(
    // The fuzzer's hook aborts on every panic. Here only those count that escape: the store fences
    // redb's, which a damaged file provokes.
    init: std::panic::set_hook(Box::new(|_| {})),
    |bytes: &[u8]| {
        bodies::open(bytes);
    }
);
