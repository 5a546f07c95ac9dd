//! The README keeps its promises: what it names is there.

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
    for command in ["cargo run --release --example checksums -- ", "cargo test"] {
        assert!(readme.contains(command), "README.md does not show `{command}`");
    }
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/checksums.rs");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/checksums/main.rs");
    assert!(example.exists() || folder.exists(), "the example checksums is missing");
}

#[test]
fn it_tells_what_a_kill_and_a_power_cut_take_back() {
    let readme = words(&readme());
    for row in [
        "| level | the call returns when | a killed process takes back | a power cut takes back |",
        "| `Durable` (default) | what it did, and all that it saw, is synced | nothing that \
         returned | nothing that returned |",
        "| `Relaxed` | it is written to the operating system | nothing that returned | at most the \
         last `flush_interval` (50 ms) and one sync, as a suffix |",
        "| take, touch, release, drop of a guard, at either level | it is written to the operating \
         system | nothing | the lease, void anyway, and the attempt |",
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

#[test]
fn every_test_that_the_rows_name_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let rows = fs::read_to_string(root.join("tests/ROWS.md")).unwrap();
    let named = rows.split('`').skip(1).step_by(2).filter_map(|name| name.split_once("::"));
    let mut count = 0;
    for (module, test) in named {
        let plain = |text: &str| {
            text.chars().all(|char| char.is_lowercase() || "_0123456789".contains(char))
        };
        if plain(module) && plain(test) && test.contains('_') {
            let file = root.join(format!("tests/it/{module}.rs"));
            let text = fs::read_to_string(&file).unwrap_or_default();
            assert!(text.contains(&format!("fn {test}()")), "ROWS.md: {module}::{test} is missing");
            count += 1;
        }
    }
    assert!(count > 100, "{count}");
    for row in 1..=74 {
        assert!(rows.contains(&format!("| TQ-{row} |")), "ROWS.md: TQ-{row} is missing");
    }
}
