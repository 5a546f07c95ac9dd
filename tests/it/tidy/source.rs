//! The sources as the rules read them: files, and their code without comments, literals and tests.

use std::fs;
use std::path::{Path, PathBuf};

/// One file: its path below the root of the repository, and its text.
pub struct Source {
    pub path: String,
    pub text: String,
}

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The Rust files below these folders of the repository.
pub fn sources(folders: &[&str]) -> Vec<Source> {
    let mut sources = Vec::new();
    let mut folders: Vec<PathBuf> = folders.iter().map(|folder| root().join(folder)).collect();
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(folder) else { continue };
        for entry in entries {
            let path = entry.unwrap().path();
            if path.is_dir() {
                // Compiler output in fuzz/ is not checked.
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
pub fn library() -> Vec<Source> {
    let mut sources = sources(&["src"]);
    sources
        .retain(|source| !source.path.contains("/tests/") && !source.path.ends_with("/tests.rs"));
    sources
}

/// The text with comments and the insides of literals blanked, line for line.
pub fn code(text: &str) -> String {
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
pub fn raw_string(rest: &str) -> Option<usize> {
    let rest = rest.strip_prefix("br").or_else(|| rest.strip_prefix('r'))?;
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    rest[hashes..].starts_with('"').then_some(hashes)
}

pub fn string_end(rest: &str) -> usize {
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
pub fn char_end(rest: &str) -> usize {
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
pub fn code_without_tests(text: &str) -> String {
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
pub fn block_end(block: &str) -> usize {
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

pub fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

fn is_part(char: char) -> bool {
    char.is_alphanumeric() || char == '_'
}

/// The positions of a word in code.
pub fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.match_indices(word).map(|(at, _)| at).filter(move |at| {
        !code[..*at].ends_with(is_part) && !code[at + word.len()..].starts_with(is_part)
    })
}

/// The paths of a use tree that begins here: `a::{b, c::d}` is `a::b` and `a::c::d`.
pub fn paths(tree: &str) -> Vec<Vec<String>> {
    fn walk(mut rest: &str, prefix: &[String], found: &mut Vec<Vec<String>>) -> usize {
        let whole = rest.len();
        let mut path = prefix.to_vec();
        loop {
            rest = rest.trim_start();
            let part: String = rest.chars().take_while(|char| is_part(*char)).collect();
            rest = &rest[part.len()..];
            if !part.is_empty() {
                path.push(part);
            }
            let ends = rest.trim_start();
            if let Some(behind) = ends.strip_prefix('*') {
                rest = behind;
                break;
            }
            if let Some(other) = ends.strip_prefix("as ") {
                rest = other.trim_start().trim_start_matches(is_part);
                break;
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

/// The positions of a path in code, written out or in the tree of a `use`.
pub fn named(code: &str, path: &str) -> Vec<usize> {
    let trees = words(code, "use").filter(|at| {
        let tree = code[at + 3..].split(';').next().unwrap_or_default();
        let grouped = tree.contains('{');
        grouped && paths(tree).iter().any(|used| words(&used.join("::"), path).next().is_some())
    });
    let mut found: Vec<usize> = words(code, path).chain(trees).collect();
    found.sort_unstable();
    found.dedup_by_key(|at| line_of(code, *at));
    found
}

/// Sources for the tests of these rules.
pub fn planted(files: &[(&str, &str)]) -> Vec<Source> {
    let source =
        |(path, text): &(&str, &str)| Source { path: (*path).into(), text: (*text).into() };
    files.iter().map(source).collect()
}
