//! What the README names exists.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

fn readme() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md"))
        .expect("README.md is missing")
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn it_shows_the_two_commands_and_they_exist() {
    let readme = readme();
    for command in ["cargo run --release --example checksums -- ", "cargo test --all-features"] {
        assert!(readme.contains(command), "README.md does not show `{command}`");
    }
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/checksums.rs");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/checksums/main.rs");
    assert!(example.exists() || folder.exists(), "the example checksums is missing");
}

/// The text that a reader sees, and the names of its links: `[text][name]`.
fn linked(text: &str) -> (String, Vec<&str>) {
    let (mut plain, mut names) = (String::new(), Vec::new());
    let mut rest = text;
    while let Some((before, link)) = rest.split_once('[') {
        plain += before;
        let (text, after) = link.split_once(']').unwrap_or((link, ""));
        plain += text;
        let named = after.strip_prefix('[').and_then(|after| after.split_once(']'));
        rest = named.map_or(after, |(name, after)| {
            names.push(name);
            after
        });
    }
    (plain + rest, names)
}

/// `[name]: file#function`, by name.
fn linked_tests(readme: &str) -> BTreeMap<&str, (&str, &str)> {
    readme
        .lines()
        .filter_map(|line| line.strip_prefix('[')?.split_once("]: tests/"))
        .map(|(name, test)| (name, test.split_once('#').unwrap_or((test, ""))))
        .collect()
}

/// The rows of the table of what survives, each cell as text.
fn survival(readme: &str) -> Vec<Vec<&str>> {
    let table = readme.split("## What survives").nth(1).expect("README.md: what survives");
    let rows = table.lines().skip_while(|line| !line.starts_with('|'));
    let rows = rows.take_while(|line| line.starts_with('|')).skip(2);
    rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

#[test]
fn every_cell_of_what_survives_links_a_test_that_exists() {
    let readme = readme();
    let tests = linked_tests(&readme);
    for (name, (file, test)) in &tests {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(file);
        let text = fs::read_to_string(path).unwrap_or_default();
        let head = format!("fn {test}()");
        let place = text.find(&head).unwrap_or_else(|| panic!("README.md: [{name}] links nothing"));
        // The kills are a separate program.
        let is_run = text[..place].trim_end().ends_with("#[test]") || *file == "kill.rs";
        assert!(is_run, "README.md: [{name}] links {head}, which is no test");
        assert!(readme.contains(&format!("][{name}]")), "README.md: nothing leads to [{name}]");
    }
    let rows = survival(&readme);
    assert_eq!(rows.len(), 6);
    for row in rows {
        assert_eq!(row.len(), 4, "{row:?}");
        for cell in &row[1..] {
            let names = linked(cell).1;
            assert!(!names.is_empty(), "README.md: no test shows {cell:?} of {}", row[0]);
            for name in names {
                assert!(tests.contains_key(name), "README.md: [{name}] is not defined");
            }
        }
    }
}

#[test]
fn links_are_separated_from_the_text() {
    let cell = "| [its tasks][a]; [they] stay |";
    assert_eq!(linked(cell), ("| its tasks; they stay |".to_owned(), vec!["a"]));
    assert_eq!(linked("[one][a], [two][b]").1, ["a", "b"]);
    assert!(linked("no link: a[0]").1.is_empty());
}

#[test]
fn it_states_what_a_kill_and_a_power_cut_undo() {
    let readme = linked(&words(&readme())).0;
    for row in [
        "| level | the call returns when | a killed process takes back | a power cut takes back |",
        "| `Durable` (default) | what it did, and all that it saw, is synced | nothing that \
         returned | nothing that returned |",
        "| `Relaxed` | it is written to the operating system | nothing that returned | at most the \
         last `flush_interval` (50 ms) and one sync, as a suffix |",
        "| take, touch, release, drop of a guard, at either level | it is written to the operating \
         system | nothing | the lease, void anyway, and the attempt |",
        "| `start`, `progress`, `log`, a heartbeat without a payload, at either level | it is \
         written to the operating system | nothing | the report, and the attempt |",
        "| `checkpoint`, and every verb with a payload or a result | as a put of its level does | \
         nothing that returned | as of a put of its level |",
        "| temporary tube | it is applied | its tasks; they never touch the disk | the same |",
    ] {
        assert!(readme.contains(row), "README.md lacks the row {row}");
    }
}

#[test]
fn it_asks_for_the_compiler_that_the_package_asks_for() {
    assert!(readme().contains(env!("CARGO_PKG_RUST_VERSION")), "README.md: rust-version");
}

#[test]
fn what_it_links_to_in_the_repository_is_there() {
    let readme = readme();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for link in readme.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
        let file = link.split('#').next().unwrap_or_default();
        if !file.is_empty() && !link.contains("://") && !link.starts_with('#') {
            assert!(root.join(file).exists(), "README.md links to {link}, which is missing");
        }
    }
}

/// How rustdoc names the place of a headline.
fn anchor(headline: &str) -> String {
    headline.to_lowercase().replace(' ', "-")
}

#[test]
fn it_links_every_chapter_of_the_guides_and_no_other() {
    for guide in ["jobs", "flows"] {
        links_every_chapter(guide);
    }
}

fn links_every_chapter(guide: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("src/{guide}.md"));
    let text = fs::read_to_string(path).unwrap();
    let mut is_code = false;
    let chapters = text.lines().filter_map(|line| {
        is_code ^= line.starts_with("```");
        line.strip_prefix("# ").filter(|_| !is_code).map(anchor)
    });
    let readme = readme();
    let version = env!("CARGO_PKG_VERSION");
    let place = format!("https://docs.rs/tubewell/{version}/tubewell/{guide}/#");
    let mut linked: Vec<_> = readme
        .lines()
        .filter_map(|line| line.strip_prefix('[')?.split_once("]: ")?.1.strip_prefix(&*place))
        .collect();
    linked.sort_unstable();
    let mut chapters: Vec<_> = chapters.collect();
    chapters.sort_unstable();
    assert_eq!(linked, chapters);
    for line in readme.lines().filter(|line| line.contains(&place)) {
        let name = line.split(':').next().unwrap_or_default();
        assert!(readme.contains(&format!("**{name}**")), "README.md: nothing leads to {name}");
    }
}

/// What a text names: paths in the repository, and tests with their place: `module::name` is in
/// tests/it, `module::name` in a folder, or `name` in a file.
fn named(text: &str) -> (Vec<&str>, Vec<(String, &str)>) {
    let plain = |word: &str| {
        let part = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '_';
        !word.is_empty() && word.chars().all(part)
    };
    let is_place = |word: &&str| {
        ["tests/", "src/", "benches/", "examples/"].iter().any(|root| word.starts_with(root))
    };
    let words: Vec<&str> = text
        .split_whitespace()
        .map(|word| word.trim_matches(|char| "`,;:().|".contains(char)))
        .collect();
    let mut tests = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let (modules, name) = word.rsplit_once("::").unwrap_or(("", word));
        if !plain(name)
            || !name.contains('_')
            || !modules.split("::").all(|it| plain(it) || it.is_empty())
        {
            continue;
        }
        let place = words.get(at + 2).filter(|_| words[at + 1] == "in").filter(|it| is_place(it));
        let place = match (place, modules) {
            (Some(file), "") => (*file).to_owned(),
            (None, "") => continue,
            (folder, modules) => {
                format!("{}/{}.rs", folder.unwrap_or(&"tests/it"), modules.replace("::", "/"))
            }
        };
        tests.push((place, name));
    }
    (words.into_iter().filter(is_place).collect(), tests)
}

/// Whether this function exists and is marked as a test.
fn has_test(text: &str, name: &str) -> bool {
    let Some(place) = text.find(&format!("fn {name}()")) else { return false };
    let marks = text[..place].trim_end().lines().rev();
    marks.map(str::trim).take_while(|line| line.starts_with("#[")).any(|line| line == "#[test]")
}

#[test]
fn every_test_that_the_rows_name_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let rows = fs::read_to_string(root.join("tests/ROWS.md")).unwrap();
    let (places, tests) = named(&rows);
    for place in places {
        assert!(root.join(place).exists(), "ROWS.md: {place} is missing");
    }
    let mut elsewhere = 0;
    for (place, name) in &tests {
        let text = fs::read_to_string(root.join(place)).unwrap_or_default();
        assert!(has_test(&text, name), "ROWS.md: {name} is missing in {place}");
        elsewhere += usize::from(!place.starts_with("tests/it/"));
    }
    assert!(tests.len() > 150 && elsewhere > 3, "{} and {elsewhere}", tests.len());
    for (system, count) in [("TQ", 74), ("QL", 72), ("TF", 34), ("RW", 16), ("BQ", 15), ("F", 22)] {
        let dash = if system == "F" { "" } else { "-" };
        for row in 1..=count {
            let start = format!("| {system}{dash}{row} |");
            assert!(rows.contains(&start), "ROWS.md: {start} is missing");
        }
    }
}

/// The paths in the repository that a page names, the scripts of CI among them.
fn paths(page: &str) -> Vec<&str> {
    let roots = ["src/", "tests/", "benches/", "examples/", "fuzz/", ".ci/"];
    let words = page.split_whitespace().map(|word| {
        word.trim_start_matches(['`', '(']).trim_end_matches(|char| "`,;:.)|".contains(char))
    });
    words.filter(|word| roots.iter().any(|root| word.starts_with(root))).collect()
}

#[test]
fn the_paths_in_contributing_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("CONTRIBUTING.md")).unwrap();
    let paths = paths(&page);
    assert!(paths.len() > 80 && paths.contains(&".ci/run"), "{paths:?}");
    for path in paths {
        assert!(root.join(path).exists(), "CONTRIBUTING.md: {path} is missing");
    }
}

#[test]
fn paths_are_separated_from_other_words() {
    let page = "- `src/a.rs`: put, (see `tests/b`); `.ci/c`. A src, `x/src/d`";
    assert_eq!(paths(page), ["src/a.rs", "tests/b", ".ci/c"]);
}

#[test]
fn names_of_tests_are_separated_from_other_words() {
    let text = "| `State::Ready`, `wait_ready(d)`, one_each in src/runtime/wake.rs | `put::a_b`; \
                `run::deep::c_d` in `tests/sim`. tests/kill.rs: `no_test` |";
    let (places, tests) = named(text);
    assert_eq!(places, ["src/runtime/wake.rs", "tests/sim", "tests/kill.rs"]);
    let tests: Vec<_> = tests.iter().map(|(place, name)| (place.as_str(), *name)).collect();
    let wanted = [
        ("src/runtime/wake.rs", "one_each"),
        ("tests/it/put.rs", "a_b"),
        ("tests/sim/run/deep.rs", "c_d"),
    ];
    assert_eq!(tests, wanted);
    assert!(has_test("    #[test]\n    #[cfg(unix)]\n    fn a_b() {", "a_b"));
    assert!(!has_test("#[test]\nfn other() {}\n\nfn a_b() {", "a_b"));
}

/// A page may have a verb of a handle; these of the core are in the table, also those of builders.
#[test]
fn the_table_of_verbs_has_the_core() {
    let readme = readme();
    let table = readme.split("\nThe verbs:\n").nth(1).expect("README.md: the verbs");
    let rows: Vec<_> = table
        .lines()
        .skip_while(|line| !line.starts_with('|'))
        .take_while(|line| line.starts_with('|'))
        .collect();
    let rows = rows.join("\n");
    let quoted: Vec<_> = rows.split('`').skip(1).step_by(2).collect();
    let begins = |quoted: &str, verb: &str| {
        quoted.split(['(', '.', '=', ' ', ':', ')']).any(|word| word == verb)
    };
    for verb in [
        "put_all",
        "batch_of",
        "put_outcomes",
        "wait_for_room",
        "wait_for_room_until",
        "take_timeout_until",
        "wait_ready_timeout_until",
        "claim",
        "time_left",
        "priority",
        "ttr",
        "age",
        "find",
        "delete_only_if",
        "update",
        "bury_with_priority",
        "pause_for",
        "pause_until",
        "resume",
        "drop_tube_if_empty",
        "create_tube_with",
        "on_task_change",
        "set_callback",
        "session",
        "tasks",
        "summaries",
        "waiters",
        "events",
        "read_only",
    ] {
        assert!(quoted.iter().any(|quoted| begins(quoted, verb)), "README.md, the verbs: {verb}");
    }
}
