//! Opens damaged files. The body is a plain function, which tests run over the kept corpus.

#![no_main]

#[path = "../../tests/fuzzed/bodies/mod.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(
    // The fuzzer's hook aborts on every panic. Only panics that escape count here: the store
    // catches panics of redb, which a damaged file can cause.
    init: std::panic::set_hook(Box::new(|_| {})),
    |bytes: &[u8]| {
        bodies::open(bytes);
    }
);
