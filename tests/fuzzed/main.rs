//! Replays the kept corpus of the fuzz targets, so that every `cargo test` checks what a fuzzer
//! once found. The corpus is in the repository, not in the published crate.

mod bodies;
#[path = "../seeds/mod.rs"]
mod seeds;

use std::path::Path;
use std::process::Command;

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
fn kept_lives_of_tasks_are_as_their_events_say() {
    replay("life", 10, bodies::life);
}

#[test]
fn random_lives_of_tasks_are_as_their_events_say() {
    random(300, 900, bodies::life);
}

#[test]
fn kept_flows_come_in_order_and_leave_nothing_stuck() {
    replay("flow", 11, bodies::flow);
}

#[test]
fn random_flows_come_in_order_and_leave_nothing_stuck() {
    random(300, 900, bodies::flow);
}

#[test]
fn kept_bytes_decode_to_one_thing_or_to_none() {
    replay("decode", 158, bodies::decode);
}

/// A fuzzer finds the fields of a row from one that is kept, hardly from nothing: each tag that the
/// page on the format has stands in the corpus, with a key and, if its rows are not empty, a row.
#[test]
fn every_tag_of_the_format_is_kept() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let corpus = root.join("fuzz/corpus/decode");
    if !corpus.is_dir() {
        return;
    }
    let page = std::fs::read_to_string(root.join("src/format/FORMAT.md")).unwrap();
    let kept = std::fs::read_dir(corpus).unwrap();
    let kept: Vec<_> = kept.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
    let (mut tags, mut missing) = (0, Vec::new());
    let lines =
        page.lines().skip_while(|line| *line != "| tag | row | key after the tag | value |");
    for line in lines.skip(2).take_while(|line| line.starts_with('|')) {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [tag, name, key, value] = cells[..] else { panic!("{line}") };
        let tag = tag.trim_matches('`');
        tags += 1;
        // The others of temporary tubes are alike.
        if key.contains("never on the disk") {
            continue;
        }
        for (what, is_kept) in [("key", true), ("row", value != "nothing")] {
            let begin = format!("{what}-{tag}-");
            if is_kept && !kept.iter().any(|it| it.starts_with(&begin)) {
                missing.push(format!("a {what} of {name}: {begin}*"));
            }
        }
    }
    assert!(tags > 50, "{tags} tags: the table has another head");
    assert!(missing.is_empty(), "fuzz/corpus/decode lacks {missing:#?}");
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

/// Where a child of the sweep begins, and the file in which it names the flip that it runs.
const BEGIN: &str = "TUBEWELL_FLIP_BEGIN";
const AT: &str = "TUBEWELL_FLIP_AT";

/// A sample, so that it takes seconds. With `TUBEWELL_FLIPS` set, every byte of the first 16 KiB
/// and one in eleven elsewhere. The flips run in a child process: redb panics on some bytes of its
/// own pages, and then again in a destructor, which aborts the process. Such a flip is counted, and
/// the next child continues after it.
#[test]
fn a_flip_in_the_base_is_survived_and_serves_no_wrong_payload() {
    let (head, rest) = match std::env::var_os("TUBEWELL_FLIPS") {
        Some(_) => (1, 11),
        None => (17, 211),
    };
    let flips = bodies::flips(head, rest);
    assert!(flips.len() > 2000, "{}", flips.len());
    if let Ok(begin) = std::env::var(BEGIN) {
        run_flips(&flips, begin.parse().unwrap());
        return;
    }
    let flips = &flips;
    let aborted: usize = std::thread::scope(|scope| {
        let sweeps = [0, 1].map(|first| scope.spawn(move || sweep(flips, first)));
        sweeps.into_iter().map(|sweep| sweep.join().unwrap()).sum()
    });
    assert!(aborted <= flips.len() / 1000, "{aborted} of {} abort", flips.len());
}

/// Sweeps that run side by side, with every second flip each.
const SWEEPS: usize = 2;

/// Runs the flips of a sweep, in a child and after an abort in the next one; returns how many of
/// them aborted.
fn sweep(flips: &[[u8; 7]], first: usize) -> usize {
    let at = tempfile::NamedTempFile::new().unwrap();
    let (mut begin, mut aborted) = (first, 0);
    loop {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "a_flip_in_the_base_is_survived_and_serves_no_wrong_payload"]);
        child.arg("--nocapture").env(BEGIN, begin.to_string()).env(AT, at.path());
        let ran = child.output().unwrap();
        if ran.status.success() {
            return aborted;
        }
        let said = String::from_utf8_lossy(&ran.stderr);
        let number: usize = std::fs::read_to_string(at.path()).unwrap().parse().unwrap();
        let is_redb = said.contains("panic in a destructor during cleanup");
        assert!(is_redb, "{:02x?} fails: {said}", flips.get(number));
        (begin, aborted) = (number + SWEEPS, aborted + 1);
    }
}

fn run_flips(flips: &[[u8; 7]], begin: usize) {
    for (number, flip) in flips.iter().enumerate().skip(begin).step_by(SWEEPS) {
        std::fs::write(std::env::var(AT).unwrap(), number.to_string()).unwrap();
        let ran = std::panic::catch_unwind(|| bodies::open(flip));
        assert!(ran.is_ok(), "{flip:02x?} fails; see above");
    }
}
