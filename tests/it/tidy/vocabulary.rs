//! Words that comments, messages and function names must not use; each has a plainer replacement.

use super::report;
use super::source::{Source, code, line_of, planted, root, sources, words};
use std::fs;

/// A refused word or phrase, and its replacement.
const REFUSED: [(&str, &str); 22] = [
    ("anew", "again"),
    ("birth", "creation"),
    ("breath", "pause"),
    ("cradle", "staging"),
    ("desk", "context"),
    ("door", "entry, admission"),
    ("everybody", "all callers"),
    ("for ever", "without end"),
    ("guests", "the application's tables"),
    ("hears", "receives"),
    ("leisure", "throttle"),
    ("let go", "released"),
    ("lets go", "releases"),
    ("luck", "chance"),
    ("nobody", "no caller, no thread"),
    ("nursery", "staging"),
    ("silence", "pause, end of output"),
    ("somebody", "a caller, a thread"),
    ("stretch", "span, run"),
    ("tells", "returns, reports"),
    ("under way", "running"),
    ("whoever", "the caller"),
];

/// Where a refused word stays, with the reason.
const ALLOWED: [(&str, &str, &str); 8] = [
    ("tests/it/damage/modes.rs", "nobody", "the Unix user"),
    ("tests/it/open/place.rs", "nobody", "the Unix user"),
    ("tests/it/format.rs", "guests", "a golden folder"),
    ("tests/it/golden.rs", "guests", "a golden folder"),
    ("tests/it/golden/write.rs", "guests", "a golden folder"),
    ("tests/it/golden/listing.rs", "let go", "text of the golden contents"),
    ("tests/it/golden/listing.rs", "nobody", "text of the golden contents"),
    ("tests/it/tidy/vocabulary.rs", "", "the list itself"),
];

/// Comments, literals and function names of a file, all other code blanked, line for line.
fn prose(text: &str) -> String {
    let code = code(text);
    let mut prose: Vec<char> = text
        .chars()
        .zip(code.chars())
        .map(|(char, code)| if char == '\n' || char != code { char } else { ' ' })
        .collect();
    for at in words(&code, "fn") {
        let start = code[..at].chars().count();
        let name = text.chars().skip(start).enumerate().skip(3);
        for (offset, char) in name.take_while(|(_, it)| it.is_alphanumeric() || *it == '_') {
            prose[start + offset] = if char == '_' { ' ' } else { char };
        }
    }
    prose.into_iter().collect::<String>().to_lowercase()
}

/// The refused words in a text of this path.
fn refused(path: &str, prose: &str) -> Vec<String> {
    let mut findings = Vec::new();
    for (word, instead) in REFUSED {
        let stays = |(file, allowed, _): &(&str, &str, &str)| {
            path == *file && (allowed.is_empty() || word == *allowed)
        };
        if ALLOWED.iter().any(stays) {
            continue;
        }
        for at in words(prose, word) {
            let line = line_of(prose, at);
            findings.push(format!("{path}:{line}: \"{word}\"; write: {instead}"));
        }
    }
    findings
}

fn refused_in(sources: &[Source]) -> Vec<String> {
    sources.iter().flat_map(|source| refused(&source.path, &prose(&source.text))).collect()
}

/// The pages in the root, of the library's documentation and of the benches: their paths and texts.
fn pages() -> Vec<(String, String)> {
    let mut pages = Vec::new();
    for folder in [".", "src", "src/format", "benches/versus"] {
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "md") {
                let name = path.strip_prefix(root()).unwrap().to_string_lossy().replace('\\', "/");
                pages.push((name, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    pages.push(("tests/ROWS.md".into(), fs::read_to_string(root().join("tests/ROWS.md")).unwrap()));
    pages
}

#[test]
fn every_page_is_read() {
    let names: Vec<_> = pages().into_iter().map(|(name, _)| name).collect();
    for name in
        ["README.md", "BENCHMARKS.md", "src/jobs.md", "src/flows.md", "src/format/FORMAT.md"]
    {
        assert!(names.iter().any(|it| it == name), "{name} is not read: {names:?}");
    }
}

#[test]
fn comments_messages_and_names_use_plain_words() {
    let mut findings = refused_in(&sources(&["src", "tests", "examples", "benches", "fuzz"]));
    for (name, text) in pages() {
        findings.extend(refused(&name, &text.to_lowercase()));
    }
    report(&findings);
}

#[test]
fn planted_refused_words_are_found() {
    let text =
        "//! Nobody, luck\nfn whoever_waits() { let guests = tells; say(\"for ever\"); }\n// ok";
    let found = refused_in(&planted(&[("src/a.rs", text)]));
    let lines: Vec<_> = found.iter().map(|it| it.split(';').next().unwrap()).collect();
    assert_eq!(
        lines,
        [
            "src/a.rs:2: \"for ever\"",
            "src/a.rs:1: \"luck\"",
            "src/a.rs:1: \"nobody\"",
            "src/a.rs:2: \"whoever\""
        ]
    );
    assert!(refused_in(&planted(&[("tests/it/golden.rs", "// guests")])).is_empty());
}
