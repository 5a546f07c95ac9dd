//! Words that comments, messages and names must not use; each has a plainer replacement.

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
const ALLOWED: [(&str, &str, &str); 9] = [
    ("tests/it/damage/modes.rs", "nobody", "the Unix user"),
    ("tests/it/open/place.rs", "nobody", "the Unix user"),
    ("tests/it/format.rs", "guests", "a golden folder"),
    ("tests/it/golden.rs", "guests", "a golden folder"),
    ("tests/it/golden/write.rs", "guests", "a golden folder"),
    ("tests/it/golden/listing.rs", "let go", "text of the golden contents"),
    ("tests/it/golden/listing.rs", "nobody", "text of the golden contents"),
    ("tests/race/main.rs", "silence", "a field of shuttle's"),
    ("tests/it/tidy/vocabulary.rs", "", "the list itself"),
];

/// Comments and literals of a file, all other code blanked, line for line.
fn prose(text: &str) -> String {
    let code = code(text);
    let prose = text.chars().zip(code.chars());
    let prose = prose.map(|(char, code)| if char == '\n' || char != code { char } else { ' ' });
    prose.collect::<String>().to_lowercase()
}

/// The names in the code of a file, each as its words, line for line.
fn names(text: &str) -> String {
    let (mut names, mut before) = (String::new(), ' ');
    for char in code(text).chars() {
        // A word of a type's name begins with a capital letter.
        if char == '_' || char.is_uppercase() && before.is_lowercase() {
            names.push(' ');
        }
        match char {
            '_' => {}
            // No phrase goes over two names.
            ' ' => names.push('.'),
            _ => names.extend(char.to_lowercase()),
        }
        before = char;
    }
    names
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
    let of = |source: &Source| {
        let mut found = refused(&source.path, &prose(&source.text));
        found.extend(refused(&source.path, &names(&source.text)));
        found
    };
    sources.iter().flat_map(of).collect()
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
    let text = "//! Nobody, luck\nfn whoever_waits() { let guests = tells; say(\"for ever\"); }\n\
                struct OpenDoor; const LUCK: u8 = 1; // ok\nfor ever in all { let go = 1; }\n\
                fn let_go() {}";
    let found = refused_in(&planted(&[("src/a.rs", text)]));
    let lines: Vec<_> = found.iter().map(|it| it.split(';').next().unwrap()).collect();
    let expected = [
        "src/a.rs:2: \"for ever\"",
        "src/a.rs:1: \"luck\"",
        "src/a.rs:1: \"nobody\"",
        "src/a.rs:3: \"door\"",
        "src/a.rs:2: \"guests\"",
        "src/a.rs:5: \"let go\"",
        "src/a.rs:3: \"luck\"",
        "src/a.rs:2: \"tells\"",
        "src/a.rs:2: \"whoever\"",
    ];
    assert_eq!(lines, expected);
    assert!(refused_in(&planted(&[("tests/it/golden.rs", "// guests")])).is_empty());
}
