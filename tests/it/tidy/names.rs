//! Types: each name is one type, and an `impl` is in the folder of its type.

use super::report;
use super::source::{Source, code_without_tests, library, line_of, planted, words};
use std::collections::BTreeMap;

/// The item name after a keyword, if there is one.
fn name_after(code: &str, at: usize) -> &str {
    let rest = code[at..].trim_start();
    let end = rest.find(|char: char| !char.is_alphanumeric() && char != '_');
    &rest[..end.unwrap_or(rest.len())]
}

/// The depth of a position in nested blocks.
fn depth(code: &str, at: usize) -> usize {
    let opened = code[..at].matches('{').count();
    opened.saturating_sub(code[..at].matches('}').count())
}

/// Replacements of the schedule explorer have the names of what they replace.
pub(super) fn is_stand_in(source: &Source) -> bool {
    source.path.contains("sync/explored")
}

/// Every type of the library: its name, and the file and line of each definition.
fn types(sources: &[Source]) -> BTreeMap<String, Vec<(String, usize)>> {
    let mut types: BTreeMap<String, Vec<(String, usize)>> = BTreeMap::new();
    for source in sources.iter().filter(|source| !is_stand_in(source)) {
        let code = code_without_tests(&source.text);
        for keyword in ["struct", "enum", "trait", "type"] {
            for at in words(&code, keyword) {
                let name = name_after(&code, at + keyword.len());
                let is_type = name.starts_with(char::is_uppercase);
                // A `type` inside an `impl` or a trait belongs to that.
                if is_type && (keyword != "type" || depth(&code, at) == 0) {
                    let place = (source.path.clone(), line_of(&code, at));
                    types.entry(name.to_owned()).or_default().push(place);
                }
            }
        }
    }
    types
}

fn doubled(sources: &[Source]) -> Vec<String> {
    let mut findings = Vec::new();
    for (name, places) in types(sources) {
        if let [first, others @ ..] = places.as_slice() {
            // Variants for two platforms are in one file.
            for (path, line) in others.iter().filter(|other| other.0 != first.0) {
                let other = &first.0;
                findings.push(format!(
                    "{path}:{line}: {name} is also a type in {other}; one name for one idea"
                ));
            }
        }
    }
    findings
}

/// An inherent `impl`: its type, and where it begins.
pub(super) struct Impl {
    pub(super) of: String,
    pub(super) at: usize,
}

pub(super) fn impls(code: &str) -> Vec<Impl> {
    let mut found = Vec::new();
    // An `impl` in a signature does not begin a line.
    let begins_a_line = |at: &usize| *at == 0 || code[..*at].ends_with('\n');
    for at in words(code, "impl").filter(begins_a_line) {
        let item = &code[at..];
        let Some(open) = item.find('{') else { continue };
        let head = &item[4..open];
        // `impl Trait for Type` is called through the trait.
        if words(head, "for").next().is_some() {
            continue;
        }
        let head = head.replace("->", "  ");
        let head = behind_generics(head.trim_start());
        let end = head.find(|char: char| !char.is_alphanumeric() && char != '_');
        found.push(Impl { of: head[..end.unwrap_or(head.len())].to_owned(), at });
    }
    found
}

fn behind_generics(head: &str) -> &str {
    if !head.starts_with('<') {
        return head;
    }
    let mut depth = 0;
    for (at, char) in head.char_indices() {
        match char {
            '<' => depth += 1,
            '>' if depth == 1 => return head[at + 1..].trim_start(),
            '>' => depth -= 1,
            _ => {}
        }
    }
    head
}

fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

fn strayed(sources: &[Source]) -> Vec<String> {
    let types = types(sources);
    let mut findings = Vec::new();
    for source in sources.iter().filter(|source| !is_stand_in(source)) {
        let code = code_without_tests(&source.text);
        for Impl { of, at } in impls(&code) {
            let Some([(home, _)]) = types.get(&of).map(Vec::as_slice) else { continue };
            if !folder(&source.path).starts_with(folder(home)) {
                let (path, line) = (&source.path, line_of(&code, at));
                findings.push(format!("{path}:{line}: an impl of {of}, which is in {home}"));
            }
        }
    }
    findings
}

#[test]
fn a_name_is_one_type() {
    report(&doubled(&library()));
}

#[test]
fn an_impl_is_in_the_folder_of_its_type() {
    report(&strayed(&library()));
}

#[test]
fn a_planted_second_type_is_found() {
    let one = ("src/a.rs", "struct Head;\nimpl Iterator for Head { type Item = u8; }");
    let files = planted(&[one, ("src/b.rs", "\nenum Head {}\ntrait X { type Item; }")]);
    assert_eq!(
        doubled(&files),
        ["src/b.rs:2: Head is also a type in src/a.rs; one name for one idea"]
    );
}

#[test]
fn planted_impls_far_from_home_are_found() {
    let home = ("src/low/a.rs", "struct A<T>(T);");
    let files = planted(&[
        home,
        ("src/high/b.rs", "impl<T: Into<u8>> A<T> {}\nimpl From<u8> for A<u8> {}"),
    ]);
    assert_eq!(strayed(&files), ["src/high/b.rs:1: an impl of A, which is in src/low/a.rs"]);
    assert!(strayed(&planted(&[home, ("src/low/b.rs", "impl A<u8> {}")])).is_empty());
}
