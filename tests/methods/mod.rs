//! The public methods that can fail, read from the sources. A list of calls compares itself with
//! them, so that a new method cannot be left out by mistake.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// What a method returns that can fail: a result, or a listing whose items are results.
const ANSWERS: [&str; 12] = [
    "Result<",
    "-> NewestFirst",
    "-> Resumed",
    "-> Schedules",
    "-> Summaries",
    "-> TaggedTasks",
    "-> TakenBy",
    "-> Tasks",
    "-> ThrottleHolders",
    "-> TopTags",
    "-> TrackedTasks",
    "-> TubesBehind",
];

/// The public methods that can fail and that none of these files calls.
pub(super) fn uncalled(files: &[&str]) -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &Path| fs::read_to_string(path).unwrap();
    let here = files.iter().map(|name| read(&root.join("tests").join(name)));
    let here: Vec<_> = here.collect();
    let is_called = |name: &str| here.iter().any(|it| it.contains(&format!(".{name}(")));
    let mut missing = BTreeSet::new();
    for entry in fs::read_dir(root.join("src/api")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "rs") {
            let text = read(&path);
            missing.extend(fallible(&text).filter(|name| !is_called(name)).map(str::to_owned));
        }
    }
    missing
}

/// The public methods in a source that can fail.
fn fallible(text: &str) -> impl Iterator<Item = &str> {
    text.split("\n    pub fn ").skip(1).filter_map(|rest| {
        let signature = rest.split_once('{').map_or(rest, |(signature, _)| signature);
        let can_fail = ANSWERS.iter().any(|answer| signature.contains(answer));
        let name = rest.split(['(', '<']).next().unwrap_or_default();
        (can_fail && signature.contains("self")).then_some(name)
    })
}
