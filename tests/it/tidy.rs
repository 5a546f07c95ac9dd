//! Style as a test: what a reader may rely on everywhere. Every finding names the file, the line
//! and what to do.
//!
//! The layering first. `mod` lines stand in reading order, and that order is the layering: a file
//! imports only from files listed above it. A `mod.rs` assembles its folder, so it may import from
//! all of it; its folder's files may use what it defines itself, and what it passes on counts as
//! the file where it stands.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Lines of a function.
const FUNCTION_LINES_MAX: usize = 70;

/// One file: its path below the root of the repository, and its text.
struct Source {
    path: String,
    text: String,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The Rust files below these folders of the repository.
fn sources(folders: &[&str]) -> Vec<Source> {
    let mut sources = Vec::new();
    let mut folders: Vec<PathBuf> = folders.iter().map(|folder| root().join(folder)).collect();
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(folder) else { continue };
        for entry in entries {
            let path = entry.unwrap().path();
            if path.is_dir() {
                // What the compiler leaves in fuzz/ is nobody's style.
                if !path.ends_with("target") {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                let path = path.strip_prefix(root()).unwrap().to_string_lossy().replace('\\', "/");
                sources.push(Source { path, text });
            }
        }
    }
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    sources
}

/// The library's own files, without those that only its tests compile.
fn library() -> Vec<Source> {
    let mut sources = sources(&["src"]);
    sources
        .retain(|source| !source.path.contains("/tests/") && !source.path.ends_with("/tests.rs"));
    sources
}

fn report(findings: &[String]) {
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

/// The text with comments and the insides of literals blanked, line for line.
fn code(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let blank = |out: &mut String, part: &str| {
        out.extend(part.chars().map(|char| if char == '\n' { '\n' } else { ' ' }));
    };
    while let Some(first) = rest.chars().next() {
        let word = out.ends_with(|char: char| char.is_alphanumeric() || char == '_');
        let skipped = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(hashes) = raw_string(rest).filter(|_| !word) {
            let open = rest.find('"').unwrap_or(0) + 1;
            let close = format!("\"{}", "#".repeat(hashes));
            rest[open..].find(&close).map_or(rest.len(), |end| open + end + close.len())
        } else if first == '"' {
            string_end(rest)
        } else if first == '\'' {
            char_end(rest)
        } else {
            0
        };
        if skipped == 0 {
            out.push(first);
            rest = &rest[first.len_utf8()..];
        } else {
            blank(&mut out, &rest[..skipped]);
            rest = &rest[skipped..];
        }
    }
    out
}

/// The number of hashes of a raw string that begins here.
fn raw_string(rest: &str) -> Option<usize> {
    let rest = rest.strip_prefix("br").or_else(|| rest.strip_prefix('r'))?;
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    rest[hashes..].starts_with('"').then_some(hashes)
}

fn string_end(rest: &str) -> usize {
    let mut escaped = false;
    for (at, char) in rest.char_indices().skip(1) {
        match char {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// The end of a character; 0 for a lifetime.
fn char_end(rest: &str) -> usize {
    if let Some(escaped) = rest.strip_prefix("'\\") {
        return escaped
            .char_indices()
            .skip(1)
            .find(|(_, char)| *char == '\'')
            .map_or(0, |(at, _)| at + 3);
    }
    let mut chars = rest.char_indices().skip(2);
    match chars.next() {
        Some((at, '\'')) => at + 1,
        _ => 0,
    }
}

/// Code without what only tests compile, line for line.
fn code_without_tests(text: &str) -> String {
    let mut code = code(text);
    while let Some(at) = code.find("#[cfg(test)]") {
        let item = &code[at..];
        let end = match (item.find('{'), item.find(';')) {
            (Some(open), Some(end)) if end < open => end + 1,
            (Some(open), _) => open + block_end(&item[open..]),
            (None, end) => end.map_or(item.len(), |end| end + 1),
        };
        let blank: String =
            item[..end].chars().map(|char| if char == '\n' { '\n' } else { ' ' }).collect();
        code.replace_range(at..at + end, &blank);
    }
    code
}

/// Where the block that begins here ends.
fn block_end(block: &str) -> usize {
    let mut depth = 0_usize;
    for (at, char) in block.char_indices() {
        match char {
            '{' => depth += 1,
            '}' if depth == 1 => return at + 1,
            '}' => depth -= 1,
            _ => {}
        }
    }
    block.len()
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// Where a word stands in code.
fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let part = |char: char| char.is_alphanumeric() || char == '_';
    code.match_indices(word).map(|(at, _)| at).filter(move |at| {
        !code[..*at].ends_with(part) && !code[at + word.len()..].starts_with(part)
    })
}

/// The modules of a crate.
#[derive(Default)]
struct Crate {
    /// Of each module its place in reading order, by its path, which is empty for the crate.
    modules: BTreeMap<Vec<String>, usize>,
    files: BTreeMap<Vec<String>, Source>,
    /// What a module passes on, by its path and the name, and where it stands.
    passed_on: BTreeMap<(Vec<String>, String), Vec<String>>,
}

impl Crate {
    /// Reads the modules from the root file on, in the order of their `mod` lines.
    fn read(sources: Vec<Source>) -> Self {
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

    /// The module that a path leads to, as seen from a module.
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
                        // Names that the crate exports are nobody's way of importing.
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

/// The paths that a piece of code spells from `crate` or `super` on, and where.
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

/// The paths of a use tree that begins here: `a::{b, c::d}` is `a::b` and `a::c::d`.
fn paths(tree: &str) -> Vec<Vec<String>> {
    fn walk(mut rest: &str, prefix: &[String], found: &mut Vec<Vec<String>>) -> usize {
        let whole = rest.len();
        let mut path = prefix.to_vec();
        loop {
            rest = rest.trim_start();
            let part: String =
                rest.chars().take_while(|char| char.is_alphanumeric() || *char == '_').collect();
            rest = &rest[part.len()..];
            if !part.is_empty() {
                path.push(part);
            }
            if let Some(inside) = rest.trim_start().strip_prefix('{') {
                rest = inside;
                loop {
                    rest = &rest[walk(rest, &path, found)..];
                    rest = rest.trim_start();
                    match rest.strip_prefix(',') {
                        Some(more) => rest = more,
                        None => break,
                    }
                }
                rest = rest.strip_prefix('}').unwrap_or("");
                return whole - rest.len();
            }
            match rest.trim_start().strip_prefix("::") {
                Some(more) => rest = more,
                None => break,
            }
        }
        if path.len() > prefix.len() {
            found.push(path);
        }
        whole - rest.len()
    }
    let mut found = Vec::new();
    walk(tree, &[], &mut found);
    found
}

/// Words that stand where they should not.
fn misplaced(sources: &[Source], word: &str, home: &[&str], advice: &str) -> Vec<String> {
    let mut findings = Vec::new();
    for source in sources {
        if home.iter().any(|home| source.path.starts_with(home)) {
            continue;
        }
        let code = code_without_tests(&source.text);
        for at in words(&code, word) {
            findings.push(format!("{}:{}: {word}; {advice}", source.path, line_of(&code, at)));
        }
    }
    findings
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
fn only_the_store_and_transact_name_redb() {
    let home = ["src/store/", "src/transact"];
    report(&misplaced(&library(), "redb", &home, "go through src/store"));
}

#[test]
fn the_engine_knows_no_store_no_lock_and_no_thread() {
    let mut sources = library();
    sources.retain(|source| {
        ["src/bytes/", "src/engine/"].iter().any(|it| source.path.starts_with(it))
    });
    assert!(sources.len() > 20);
    for word in ["crate::store", "crate::live", "Mutex", "Condvar", "thread", "File"] {
        report(&misplaced(&sources, word, &[], "the engine decides over values; see src/lib.rs"));
    }
}

#[test]
fn only_the_clock_reads_a_clock() {
    let (all, home) = (library(), ["src/clock.rs"]);
    let advice = "read time through `Clock`, see src/clock.rs";
    report(&misplaced(&all, "Instant::now", &home, advice));
    report(&misplaced(&all, "SystemTime::now", &home, advice));
}

#[test]
fn only_one_door_leads_to_locks_and_channels() {
    let (all, home) = (library(), ["src/sync.rs", "src/sync/"]);
    for word in ["std::sync", "std::thread", "parking_lot", "crossbeam_channel", "shuttle::"] {
        report(&misplaced(&all, word, &home, "take it from src/sync.rs"));
    }
}

#[test]
fn nothing_sleeps() {
    let mut findings = Vec::new();
    for source in sources(&["src", "tests", "examples", "fuzz"]) {
        let code = code(&source.text);
        for word in ["thread::sleep", "sleep_ms"] {
            for at in words(&code, word) {
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

fn planted(files: &[(&str, &str)]) -> Vec<Source> {
    let source =
        |(path, text): &(&str, &str)| Source { path: (*path).into(), text: (*text).into() };
    files.iter().map(source).collect()
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
fn downward_imports_tests_and_comments_are_none_of_its_business() {
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

#[test]
fn planted_words_are_found_where_they_should_not_be() {
    let files = planted(&[("src/a.rs", "//! redb\nfn f() {\n    redb::f(); predb(); }")]);
    let found = misplaced(&files, "redb", &["src/store/"], "go through src/store");
    assert_eq!(found, ["src/a.rs:3: redb; go through src/store"]);
    assert!(misplaced(&files, "redb", &["src/a"], "").is_empty());
}

#[test]
fn a_planted_long_function_is_found() {
    let text = format!("fn short() {{}}\nfn long() {{\n{}}}\n", "    work();\n".repeat(9));
    let files = planted(&[("src/a.rs", text.as_str())]);
    assert_eq!(long_functions(&files[0], 10), ["src/a.rs:2: a function of 11 lines; split it"]);
    assert!(long_functions(&files[0], 11).is_empty());
}
