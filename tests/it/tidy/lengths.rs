//! Files of the library have at most 500 lines, without the tests in them. Those that are longer
//! are listed with their lines: they may shrink, and then the list does, but never grow.

use super::report;
use super::source::{Source, library, planted};

const FILE_LINES_MAX: usize = 500;

/// The files that are longer, and how long they may be.
const LONGER: [(&str, usize); 9] = [
    ("src/api/put.rs", 775),
    ("src/api/verdicts.rs", 544),
    ("src/engine/audit.rs", 518),
    ("src/engine/query.rs", 544),
    ("src/engine/transition.rs", 720),
    ("src/format/key.rs", 654),
    ("src/format/row/state.rs", 572),
    ("src/runtime/reads.rs", 594),
    ("src/words/options.rs", 653),
];

/// Lines before the tests in the file.
fn lines(text: &str) -> usize {
    text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default().lines().count()
}

fn long(sources: &[Source], longer: &[(&str, usize)]) -> Vec<String> {
    let mut findings = Vec::new();
    for source in sources {
        let (path, lines) = (&source.path, lines(&source.text));
        match longer.iter().find(|(file, _)| file == path) {
            None if lines > FILE_LINES_MAX => {
                findings.push(format!("{path}: {lines} lines; split it, {FILE_LINES_MAX} is most"));
            }
            Some((_, most)) if lines > *most => {
                findings.push(format!("{path}: {lines} lines, it had {most}; split it"));
            }
            Some((_, most)) if lines < *most => {
                findings.push(format!("{path}: {lines} lines now; write that instead of {most}"));
            }
            None | Some(_) => {}
        }
    }
    for (file, _) in longer.iter().filter(|(_, most)| *most <= FILE_LINES_MAX) {
        findings.push(format!("{file}: short enough; leave it out of the list"));
    }
    for (file, _) in longer {
        if !sources.iter().any(|source| source.path == *file) {
            findings.push(format!("{file}: does not exist; leave it out of the list"));
        }
    }
    findings
}

#[test]
fn no_file_is_longer_than_500_lines_or_grows() {
    report(&long(&library(), &LONGER));
}

#[test]
fn planted_long_files_are_found() {
    let text = |lines: usize| "f();\n".repeat(lines) + "#[cfg(test)]\nmod tests {\n  f();\n}\n";
    let files = |lines| planted(&[("src/a.rs", text(lines).as_str())]);
    let found = |lines, longer: &[(&str, usize)]| long(&files(lines), longer);
    assert!(found(500, &[]).is_empty());
    assert_eq!(found(501, &[]), ["src/a.rs: 501 lines; split it, 500 is most"]);
    assert!(found(600, &[("src/a.rs", 600)]).is_empty());
    assert_eq!(found(601, &[("src/a.rs", 600)]), ["src/a.rs: 601 lines, it had 600; split it"]);
    assert_eq!(found(599, &[("src/a.rs", 600)]).len(), 1);
    assert_eq!(found(500, &[("src/a.rs", 500)]).len(), 1);
    assert_eq!(found(1, &[("src/b.rs", 600)]).len(), 1);
}
