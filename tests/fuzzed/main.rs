//! Replays the kept corpus of the fuzz targets, so that every `cargo test` checks what a fuzzer
//! once found. The corpus is in the repository, not in the published crate.

mod bodies;
#[path = "../seeds/mod.rs"]
mod seeds;

use std::path::Path;

/// Runs every kept input, at least so many, and names the one that fails.
fn replay(target: &str, least: usize, body: fn(&[u8])) {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    if !fuzz.is_dir() {
        return;
    }
    let kept = std::fs::read_dir(fuzz.join("corpus").join(target)).expect("the kept corpus");
    let mut paths: Vec<_> = kept.map(|input| input.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() >= least, "{} inputs are kept for {target}", paths.len());
    for path in paths {
        let bytes = std::fs::read(&path).unwrap();
        let ran = std::panic::catch_unwind(|| body(&bytes));
        assert!(ran.is_ok(), "{} fails; see above", path.display());
    }
}

/// Runs random inputs, one for each seed.
fn random(count: u64, longest: usize, body: fn(&[u8])) {
    for seed in seeds::seeds(count) {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB) >> 32
        };
        let length = next() as usize % longest;
        let bytes: Vec<u8> = (0..length).map(|_| next() as u8).collect();
        body(&bytes);
    }
}

#[test]
fn kept_scripts_leave_a_sound_queue() {
    replay("script", 14, bodies::script);
}

#[test]
fn random_scripts_leave_a_sound_queue() {
    random(300, 600, bodies::script);
}

#[test]
fn kept_bytes_decode_to_one_thing_or_to_none() {
    replay("decode", 38, bodies::decode);
}

#[test]
fn random_bytes_decode_to_one_thing_or_to_none() {
    random(20_000, 200, bodies::decode);
}

#[test]
fn kept_damage_is_reported_and_serves_no_wrong_payload() {
    replay("open", 56, bodies::open);
}

#[test]
fn random_damage_is_reported_and_serves_no_wrong_payload() {
    random(300, 60, bodies::open);
}

#[test]
fn an_unharmed_image_opens_and_serves_everything() {
    bodies::unharmed();
}

/// A sample, so that it takes seconds. With `TUBEWELL_FLIPS` set, every byte of the first 16 KiB
/// and one in eleven elsewhere.
#[test]
fn a_flip_in_the_base_is_survived_and_serves_no_wrong_payload() {
    let (head, rest) = match std::env::var_os("TUBEWELL_FLIPS") {
        Some(_) => (1, 11),
        None => (17, 211),
    };
    let flips = bodies::flips(head, rest);
    assert!(flips.len() > 2000, "{}", flips.len());
    for flip in flips {
        let ran = std::panic::catch_unwind(|| bodies::open(&flip));
        assert!(ran.is_ok(), "{flip:02x?} fails; see above");
    }
}
