//! Files of the library have at most 500 lines, without the tests in them, and half of them at most
//! 150.

use super::report;
use super::source::{Source, library, planted};

const FILE_LINES_MAX: usize = 500;
const MEDIAN_LINES_MAX: usize = 150;

/// Lines before the tests in the file.
fn lines(text: &str) -> usize {
    text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default().lines().count()
}

fn long(sources: &[Source]) -> Vec<String> {
    let lines = sources.iter().map(|source| (&source.path, lines(&source.text)));
    let long = lines.filter(|(_, lines)| *lines > FILE_LINES_MAX);
    long.map(|(path, lines)| format!("{path}: {lines} lines; split it, {FILE_LINES_MAX} is most"))
        .collect()
}

#[test]
fn no_file_is_longer_than_500_lines() {
    report(&long(&library()));
}

fn median(sources: &[Source]) -> usize {
    let mut lines: Vec<_> = sources.iter().map(|source| lines(&source.text)).collect();
    lines.sort_unstable();
    lines[lines.len() / 2]
}

#[test]
fn half_of_the_files_have_at_most_150_lines() {
    let found = median(&library());
    assert!(found <= MEDIAN_LINES_MAX, "the median file has {found} lines; split some");
}

#[test]
fn planted_long_files_are_found() {
    let text = |lines: usize| {
        "f();
"
        .repeat(lines)
            + "#[cfg(test)]
mod tests {
  f();
}
"
    };
    let found = |lines| long(&planted(&[("src/a.rs", text(lines).as_str())]));
    assert!(found(500).is_empty());
    assert_eq!(found(501), ["src/a.rs: 501 lines; split it, 500 is most"]);
    let of_three = [("a", "f();"), ("b", "f();\nf();"), ("c", "f();\nf();\nf();")];
    assert_eq!(median(&planted(&of_three)), 2);
}
