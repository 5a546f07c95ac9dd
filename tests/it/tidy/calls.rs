//! Calls between the files that `impl` one type: `self.x()` needs no import, so the layers are
//! checked for it here. A call goes to a file that stands above, and no calls lead round.

use super::layers::Crate;
use super::names::{impls, is_stand_in};
use super::report;
use super::source::{Source, block_end, code_without_tests, library, line_of, planted, words};
use std::collections::{BTreeMap, BTreeSet};

/// A call of a method of the same type: the two files, the line, and `Type::method`.
struct Call {
    from: String,
    to: String,
    line: usize,
    of: String,
}

/// The blocks of inherent `impl`s: type, where the block begins in the code, and its end.
fn blocks(code: &str) -> Vec<(String, usize, usize)> {
    let block = |it: super::names::Impl| {
        let open = it.at + code[it.at..].find('{').unwrap_or_default();
        (it.of, open, open + block_end(&code[open..]))
    };
    impls(code).into_iter().map(block).collect()
}

fn name(text: &str) -> &str {
    let end = text.find(|char: char| !char.is_alphanumeric() && char != '_');
    &text[..end.unwrap_or(text.len())]
}

/// The calls that leave their file. A method that several files define, for several platforms, is
/// left out.
fn calls(sources: &[Source]) -> Vec<Call> {
    let read: Vec<(&str, String)> = sources
        .iter()
        .filter(|source| !is_stand_in(source))
        .map(|source| (source.path.as_str(), code_without_tests(&source.text)))
        .collect();
    let mut homes: BTreeMap<(String, String), BTreeSet<&str>> = BTreeMap::new();
    for (path, code) in &read {
        for (of, open, end) in blocks(code) {
            for at in words(&code[open..end], "fn") {
                let method = name(code[open + at + 2..].trim_start()).to_owned();
                homes.entry((of.clone(), method)).or_default().insert(path);
            }
        }
    }
    let mut calls = Vec::new();
    for (path, code) in &read {
        for (of, open, end) in blocks(code) {
            let block = &code[open..end];
            for (own, dot) in [("self", "."), ("Self", "::")] {
                for at in words(block, own) {
                    let rest = block[at + own.len()..].trim_start();
                    let Some(rest) = rest.strip_prefix(dot).map(str::trim_start) else { continue };
                    let method = name(rest);
                    if !rest[method.len()..].starts_with('(') {
                        continue;
                    }
                    let home = homes.get(&(of.clone(), method.to_owned()));
                    let Some(home) = home.filter(|home| home.len() == 1) else { continue };
                    let to = home.iter().next().copied().unwrap_or_default();
                    if to != *path {
                        let (from, to) = ((*path).to_owned(), to.to_owned());
                        let line = line_of(code, open + at);
                        calls.push(Call { from, to, line, of: format!("{of}::{method}") });
                    }
                }
            }
        }
    }
    calls
}

/// Calls of what stands below in `mod` order. As with imports, the files of a folder may call what
/// the file that assembles it defines itself, but then it may not call back.
fn upward(sources: Vec<Source>) -> Vec<String> {
    let calls = calls(&sources);
    let read = Crate::read(sources);
    let modules: BTreeMap<&str, &Vec<String>> =
        read.files.iter().map(|(module, source)| (source.path.as_str(), module)).collect();
    let mut findings = Vec::new();
    for Call { from, to, line, of } in &calls {
        let (Some(module), Some(target)) = (modules.get(from.as_str()), modules.get(to.as_str()))
        else {
            continue;
        };
        let common = module.iter().zip(*target).take_while(|(a, b)| a == b).count();
        if common == module.len() || common == target.len() {
            continue;
        }
        let place = |path: &[String]| read.modules.get(&path[..=common]);
        if place(target) > place(module) {
            findings.push(format!(
                "{from}:{line}: calls {of} of {to}, which stands below it; move one of them"
            ));
        }
    }
    findings
}

/// Calls to a file from which calls lead back, over any number of files.
fn round(calls: &[Call]) -> Vec<String> {
    let mut next: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for call in calls {
        next.entry(&call.from).or_default().insert(&call.to);
    }
    let reached = |from: &str| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from.to_owned()]);
        while let Some(at) = open.pop() {
            for to in next.get(at.as_str()).into_iter().flatten() {
                if seen.insert(*to) {
                    open.push((*to).to_owned());
                }
            }
        }
        seen
    };
    let leads_back = |call: &&Call| reached(&call.to).contains(call.from.as_str());
    calls
        .iter()
        .filter(leads_back)
        .map(|Call { from, to, line, of }| {
            format!("{from}:{line}: calls {of} of {to}, from which calls lead back; move one")
        })
        .collect()
}

#[test]
fn no_method_calls_one_from_below() {
    report(&upward(library()));
}

#[test]
fn no_calls_of_methods_lead_round() {
    let calls = calls(&library());
    assert!(calls.len() > 100, "{}", calls.len());
    report(&round(&calls));
}

#[test]
fn planted_calls_from_below_and_round_are_found() {
    let lib = ("src/lib.rs", "mod room;");
    let room = ("src/room/mod.rs", "mod a;\nmod b;\nimpl T { fn c(&self) { self.b() } }");
    let a = ("src/room/a.rs", "struct T;\nimpl T { fn a(&self) {}\n fn d() { Self::b(); } }");
    let b = ("src/room/b.rs", "impl T { fn b(&self) { self.x.a(); self\n .c() } }");
    let found = upward(planted(&[lib, room, a, b]));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("src/room/a.rs:3: calls T::b of src/room/b.rs, which stands be"));
    let found = round(&calls(&planted(&[lib, room, a, b])));
    let lines: Vec<_> = found.iter().map(|it| it.split(',').next().unwrap_or_default()).collect();
    assert_eq!(
        lines,
        [
            "src/room/mod.rs:3: calls T::b of src/room/b.rs",
            "src/room/b.rs:1: calls T::c of src/room/mod.rs"
        ]
    );
    let a = ("src/room/a.rs", "struct T;\nimpl T { fn a(&self) {} }");
    let b = ("src/room/b.rs", "impl T { fn b(&self) { self.a(); self.field.c(); self.c; } }");
    assert!(upward(planted(&[lib, room, a, b])).is_empty());
    assert!(round(&calls(&planted(&[lib, room, a, b]))).is_empty());
}
