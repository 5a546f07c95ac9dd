//! A match over tags has no arm for all others: a tag that it forgets must be a compile error, not
//! the wrong kind of row.

use super::report;
use super::source::{Source, block_end, code_without_tests, library, line_of, planted, words};

/// The patterns of the arms of a match with this block.
fn patterns(block: &str) -> Vec<String> {
    let (mut found, mut pattern, mut depth) = (Vec::new(), String::new(), 0_usize);
    let mut is_body = false;
    let inner = block.trim_start_matches('{').trim_end_matches('}');
    let mut rest = inner;
    while let Some(char) = rest.chars().next() {
        if depth == 0 && !is_body && rest.starts_with("=>") {
            found.push(std::mem::take(&mut pattern).trim().trim_start_matches('|').to_owned());
            (is_body, rest) = (true, rest[2..].trim_start());
            if rest.starts_with('{') {
                // A block ends the arm, with or without a comma.
                rest = rest[block_end(rest)..].trim_start().trim_start_matches(',');
                is_body = false;
            }
            continue;
        }
        match char {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 && is_body => {
                is_body = false;
                rest = &rest[1..];
                continue;
            }
            _ => {}
        }
        if !is_body {
            pattern.push(char);
        }
        rest = &rest[char.len_utf8()..];
    }
    found
}

/// Whether a pattern, with its guard, is for all that is left.
fn is_for_the_rest(pattern: &str) -> bool {
    let pattern = pattern.split(" if ").next().unwrap_or_default();
    let either: Vec<_> = pattern.split('|').map(str::trim).collect();
    let is_some = |one: &&str| {
        one.strip_prefix("Some(").and_then(|one| one.strip_suffix(')')).is_some_and(is_any)
    };
    either.iter().any(|one| is_any(one)) || either.contains(&"None") && either.iter().any(is_some)
}

/// Whether it is a name, a `_`, or a tuple of these.
fn is_any(pattern: &str) -> bool {
    let is_name = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '_';
    match pattern.strip_prefix('(').and_then(|parts| parts.strip_suffix(')')) {
        Some(parts) => parts.split(',').all(|part| is_any(part.trim())),
        None => !pattern.is_empty() && pattern.chars().all(is_name),
    }
}

fn forgetful(sources: &[Source]) -> Vec<String> {
    let mut findings = Vec::new();
    for source in sources {
        let code = code_without_tests(&source.text);
        for at in words(&code, "match") {
            let Some(open) = code[at..].find('{') else { continue };
            let block = &code[at + open..];
            let patterns = patterns(&block[..block_end(block)]);
            let names_tag = |pattern: &String| words(pattern, "Tag").next().is_some();
            if patterns.iter().any(names_tag) && patterns.iter().any(|it| is_for_the_rest(it)) {
                findings.push(format!(
                    "{}:{}: a match over tags with an arm for the rest; match on `tag.state()` or \
                     `tag.scope()`, list the tags, or ask for one tag with `if`",
                    source.path,
                    line_of(&code, at)
                ));
            }
        }
    }
    findings
}

#[test]
fn a_match_over_tags_names_all_of_them() {
    report(&forgetful(&library()));
}

#[test]
fn planted_arms_for_the_rest_are_found() {
    for rest in ["_ => 2,", "_ if x => 2,", "other => { 2 }", "Some(_) | None => 3", "(_, _) => 3"]
    {
        let text = format!("fn f() {{\n match tag {{\n Tag::A | Tag::B => {{ 1 }} {rest} }} }}");
        let found = forgetful(&planted(&[("src/a.rs", &text)]));
        assert_eq!(found.len(), 1, "{rest}");
        assert!(found[0].starts_with("src/a.rs:2: a match over tags"), "{found:?}");
    }
    for sound in [
        "match tag { Tag::A => match x { Some(1) => 1, _ => 2 }, Tag::B => 3 }",
        "match x { (true, _) => f(Tag::A), _ => Tag::B }",
        "match (tag, x) { (Tag::A, _) => 1, (Tag::B, Some(_) | None) => { 2 } }",
    ] {
        assert_eq!(forgetful(&planted(&[("src/a.rs", sound)])), Vec::<String>::new(), "{sound}");
    }
}
