//! The layering. The order of the `mod` lines is the layering: a file imports only from files
//! listed above it. A `mod.rs` assembles its folder, so it may import from all of it; its folder's
//! files may use what it defines itself, and a re-export counts as the file of its definition.

use super::report;
use super::source::{Source, code_without_tests, library, line_of, paths, planted, words};
use std::collections::BTreeMap;

/// The modules of a crate.
#[derive(Default)]
pub(super) struct Crate {
    /// The index of each module in reading order, by its path, which is empty for the crate.
    pub(super) modules: BTreeMap<Vec<String>, usize>,
    pub(super) files: BTreeMap<Vec<String>, Source>,
    /// What a module re-exports, by its path and the name, and where it is defined.
    passed_on: BTreeMap<(Vec<String>, String), Vec<String>>,
}

impl Crate {
    /// Reads the modules from the root file on, in the order of their `mod` lines.
    pub(super) fn read(sources: Vec<Source>) -> Self {
        let mut by_path: BTreeMap<String, Source> =
            sources.into_iter().map(|source| (source.path.clone(), source)).collect();
        let mut this = Self::default();
        let lib = by_path.remove("src/lib.rs").expect("src/lib.rs");
        this.add(Vec::new(), lib, &mut by_path);
        this
    }

    fn add(&mut self, path: Vec<String>, source: Source, rest: &mut BTreeMap<String, Source>) {
        let code = code_without_tests(&source.text);
        self.modules.insert(path.clone(), self.modules.len());
        for at in words(&code, "mod") {
            let name = code[at + 3..].split([';', '{']).next();
            let name = name.unwrap_or_default().trim();
            let mut child = path.clone();
            child.push(name.to_owned());
            let file = child.join("/");
            let file = [format!("src/{file}.rs"), format!("src/{file}/mod.rs")]
                .into_iter()
                .find_map(|file| rest.remove(&file));
            if let Some(file) = file {
                self.add(child, file, rest);
            }
        }
        for at in words(&code, "use") {
            let tree = code[at + 3..].split(';').next().unwrap_or_default();
            for used in paths(tree) {
                let first = used.iter().map(String::as_str).find(|part| *part != "self");
                let mut child = path.clone();
                child.extend(first.map(str::to_owned));
                if self.modules.contains_key(&child)
                    && let Some(name) = used.last()
                {
                    self.passed_on.insert((path.clone(), name.clone()), child);
                }
            }
        }
        self.files.insert(path, source);
    }

    /// The module that a path names, resolved from a module.
    fn resolve(&self, from: &[String], path: &[String]) -> Option<Vec<String>> {
        let mut module = match path.first()?.as_str() {
            "crate" => Vec::new(),
            _ => from.to_vec(),
        };
        for part in path {
            match part.as_str() {
                "crate" | "self" => {}
                "super" => drop(module.pop()),
                part => {
                    let mut child = module.clone();
                    child.push(part.to_owned());
                    let passed = self.passed_on.get(&(module.clone(), part.to_owned()));
                    match (self.modules.contains_key(&child), passed) {
                        (true, _) => module = child,
                        // Names that the crate exports are not used for imports inside it.
                        (false, Some(stands)) => return Some(stands.clone()),
                        (false, None) => return Some(module),
                    }
                }
            }
        }
        Some(module)
    }

    /// Imports from below.
    fn upward(&self) -> Vec<String> {
        let mut findings = Vec::new();
        for (module, source) in &self.files {
            let code = code_without_tests(&source.text);
            for (at, path) in imports(&code) {
                let Some(target) = self.resolve(module, &path) else { continue };
                let common = module.iter().zip(&target).take_while(|(a, b)| a == b).count();
                if common == module.len() || common == target.len() {
                    continue;
                }
                let place = |path: &[String]| self.modules.get(&path[..=common]);
                if place(&target) > place(module) {
                    findings.push(format!(
                        "{}:{}: imports {}, which stands below it; move what is needed up, or the \
                         `mod` lines",
                        source.path,
                        line_of(&code, at),
                        target.join("::"),
                    ));
                }
            }
        }
        findings.dedup();
        findings
    }
}

/// The paths in a piece of code that start with `crate` or `super`, and where they are.
fn imports(code: &str) -> Vec<(usize, Vec<String>)> {
    let mut found = Vec::new();
    for word in ["crate", "super"] {
        for at in words(code, word) {
            let inner = code[..at].trim_end().ends_with("::");
            if !inner && code[at + word.len()..].trim_start().starts_with("::") {
                found.extend(paths(&code[at..]).into_iter().map(|path| (at, path)));
            }
        }
    }
    found
}

#[test]
fn no_file_imports_from_below() {
    report(&Crate::read(library()).upward());
}

#[test]
fn every_file_is_read() {
    let all = library();
    let count = all.len();
    assert_eq!(Crate::read(all).files.len(), count, "a file that no `mod` line names");
    assert!(count > 40);
}

#[test]
fn a_planted_upward_import_is_found() {
    let lib = ("src/lib.rs", "mod low;\nmod high;\n");
    for import in [
        "\nuse crate::high::Thing;",
        "\nfn f() { super::high::f() }",
        "\nuse crate::{high, low::X};",
        "\nuse super::{low::X, high::{A, B}};",
    ] {
        let low = ("src/low.rs", import);
        let found = Crate::read(planted(&[lib, low, ("src/high.rs", "")])).upward();
        assert!(!found.is_empty(), "{import}");
        assert!(found[0].starts_with("src/low.rs:2: imports high"), "{found:?}");
    }
}

#[test]
fn a_planted_upward_import_in_a_folder_is_found() {
    let lib = ("src/lib.rs", "mod room;");
    let room = ("src/room/mod.rs", "mod a;\nmod b;\npub(crate) use b::{Thing, other as Other};");
    for import in ["use super::b::X;", "use crate::room::b;", "use super::Thing;"] {
        let files = planted(&[lib, room, ("src/room/a.rs", import), ("src/room/b.rs", "")]);
        let found = Crate::read(files).upward();
        assert_eq!(found.len(), 1, "{import} {found:?}");
        assert!(found[0].starts_with("src/room/a.rs:1: imports room::b"), "{found:?}");
    }
}

#[test]
fn downward_imports_tests_and_comments_are_accepted() {
    let low = "//! crate::high\n/* crate::high */ const A: &str = \"crate::high\";\n\
               const B: &str = r#\"crate::high\"#; const C: char = '\"';\n\
               fn f<'a>(x: &'a str) -> char { '{' }\n\
               #[cfg(test)]\nmod tests { use crate::high::Thing; }\n";
    let high = "use crate::low::X;\nmod inner;\nuse inner::Y; use crate::Exported;";
    let files = planted(&[
        ("src/lib.rs", "mod low;\nmod high;\npub use high::Exported;"),
        ("src/low.rs", low),
        ("src/high/mod.rs", high),
        ("src/high/inner.rs", "use super::Own; use crate::low::X;"),
    ]);
    assert_eq!(Crate::read(files).upward(), Vec::<String>::new());
}
