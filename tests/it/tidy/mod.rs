//! Style rules as tests. Every finding names the file, the line and what to do.

mod calls;
mod layers;
mod lengths;
mod names;
mod source;
mod tags;
mod verbs;
mod vocabulary;

use source::{
    Source, block_end, code, code_without_tests, library, line_of, named, planted, root, sources,
    words,
};
use std::fs;

/// Lines of a function.
const FUNCTION_LINES_MAX: usize = 70;

fn report(findings: &[String]) {
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

/// Words that are used outside the files that may use them.
fn misplaced(sources: &[Source], word: &str, home: &[&str], advice: &str) -> Vec<String> {
    let mut findings = Vec::new();
    for source in sources {
        if home.iter().any(|home| source.path.starts_with(home)) {
            continue;
        }
        let code = code_without_tests(&source.text);
        for at in named(&code, word) {
            findings.push(format!("{}:{}: {word}; {advice}", source.path, line_of(&code, at)));
        }
    }
    findings
}

#[test]
fn only_the_store_and_transact_name_redb() {
    let home = ["src/store/", "src/api/transact"];
    report(&misplaced(&library(), "redb", &home, "go through src/store"));
}

#[test]
fn the_engine_knows_no_store_no_lock_and_no_thread() {
    let mut sources = library();
    sources.retain(|source| {
        ["src/format/", "src/engine/"].iter().any(|it| source.path.starts_with(it))
    });
    assert!(sources.len() > 20);
    for word in ["crate::store", "crate::runtime", "Mutex", "Condvar", "thread", "File"] {
        report(&misplaced(&sources, word, &[], "the engine decides over values; see src/lib.rs"));
    }
}

#[test]
fn only_the_clock_reads_a_clock() {
    let (all, home) = (library(), ["src/words/clock"]);
    let advice = "read time through `Clock`, see src/words/clock.rs";
    report(&misplaced(&all, "Instant::now", &home, advice));
    report(&misplaced(&all, "SystemTime::now", &home, advice));
}

#[test]
fn only_one_file_imports_locks_and_channels() {
    let (all, home) = (library(), ["src/words/sync.rs", "src/words/sync/"]);
    for word in ["std::sync", "std::thread", "parking_lot", "crossbeam_channel", "shuttle::"] {
        report(&misplaced(&all, word, &home, "take it from src/words/sync.rs"));
    }
}

#[test]
fn nothing_sleeps() {
    let mut findings = Vec::new();
    for source in sources(&["src", "tests", "examples", "fuzz"]) {
        let code = code(&source.text);
        for word in ["thread::sleep", "sleep_ms"] {
            for at in named(&code, word) {
                let (path, line) = (&source.path, line_of(&code, at));
                findings.push(format!("{path}:{line}: sleeps; wait for a signal or move a clock"));
            }
        }
    }
    report(&findings);
}

#[test]
fn nothing_is_left_to_do() {
    // Put together, so that this file does not find itself.
    let marks =
        [["FIX", "ME"], ["to", "do!("], ["TO", "DO"], ["db", "g!("], ["unimpl", "emented!("]];
    let mut findings = Vec::new();
    for source in sources(&["src", "tests", "examples", "benches", "fuzz"]) {
        for (at, line) in source.text.lines().enumerate() {
            for mark in marks.map(|mark| mark.concat()) {
                if line.contains(&mark) {
                    let path = &source.path;
                    findings.push(format!("{path}:{}: {mark}; do it, or leave it out", at + 1));
                }
            }
        }
    }
    report(&findings);
}

#[test]
fn every_file_says_what_it_is() {
    let findings: Vec<String> = sources(&["src", "tests", "examples", "benches", "fuzz"])
        .iter()
        .filter(|source| !source.text.starts_with("//!"))
        .map(|source| format!("{}:1: begin with `//!`: what this file is for", source.path))
        .collect();
    report(&findings);
}

#[test]
fn functions_fit_on_a_screen() {
    let mut findings = Vec::new();
    for source in library() {
        findings.extend(long_functions(&source, FUNCTION_LINES_MAX));
    }
    report(&findings);
}

fn long_functions(source: &Source, most: usize) -> Vec<String> {
    let code = code_without_tests(&source.text);
    let mut findings = Vec::new();
    for at in words(&code, "fn") {
        let item = &code[at..];
        let (Some(open), end) = (item.find('{'), item.find(';')) else { continue };
        if end.is_some_and(|end| end < open && !item[..end].contains('[')) {
            continue;
        }
        let lines = item[..open + block_end(&item[open..])].lines().count();
        if lines > most {
            let (path, line) = (&source.path, line_of(&code, at));
            findings.push(format!("{path}:{line}: a function of {lines} lines; split it"));
        }
    }
    findings
}

#[test]
fn lines_have_100_columns() {
    let mut findings = Vec::new();
    for source in sources(&["src", "tests", "examples", "benches", "fuzz"]) {
        for (at, line) in source.text.lines().enumerate() {
            if line.chars().count() > 100 {
                findings.push(format!("{}:{}: too long; break it", source.path, at + 1));
            }
        }
    }
    report(&findings);
}

#[test]
fn readme_and_changelog_have_the_current_version() {
    for name in ["README.md", "CHANGELOG.md"] {
        let text = fs::read_to_string(root().join(name)).unwrap_or_default();
        let version = env!("CARGO_PKG_VERSION");
        let short = version.rsplit_once('.').map_or(version, |(short, _)| short);
        let has = text.contains(version) || text.contains(&format!("tubewell = \"{short}\""));
        assert!(has, "{name}:1: lacks version {version}; say it");
    }
}

#[test]
fn planted_words_are_found_where_they_should_not_be() {
    let files = planted(&[("src/a.rs", "//! redb\nfn f() {\n    redb::f(); predb(); }")]);
    let found = misplaced(&files, "redb", &["src/store/"], "go through src/store");
    assert_eq!(found, ["src/a.rs:3: redb; go through src/store"]);
    assert!(misplaced(&files, "redb", &["src/a"], "").is_empty());
    for grouped in [
        "use std::{fmt, sync::{Arc, Mutex}};",
        "use std::sync::{Arc, Mutex};",
        "use std::{fmt::*, io as x, sync::Arc};",
    ] {
        let files = planted(&[("src/a.rs", &format!("{grouped}\nuse my::sync::X;"))]);
        let found = misplaced(&files, "std::sync", &[], "no");
        assert_eq!(found, ["src/a.rs:1: std::sync; no"], "{grouped}");
    }
}

#[test]
fn a_planted_long_function_is_found() {
    let text = format!("fn short() {{}}\nfn long() {{\n{}}}\n", "    work();\n".repeat(9));
    let files = planted(&[("src/a.rs", text.as_str())]);
    assert_eq!(long_functions(&files[0], 10), ["src/a.rs:2: a function of 11 lines; split it"]);
    assert!(long_functions(&files[0], 11).is_empty());
}
