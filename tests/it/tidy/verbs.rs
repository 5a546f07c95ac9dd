//! Every verb of a queue, a tube and a taken task is in a page for readers: README.md or the guide,
//! src/jobs.md or src/flows.md.

use super::names::impls;
use super::report;
use super::source::{Source, block_end, code_without_tests, library, planted, root, words};
use std::fs;

/// The types whose public methods are verbs. A task derefs to a ticket's handle.
const OWNERS: [&str; 5] = ["Queue", "Tube", "Tubes", "Task", "TicketHandle"];

/// What no page needs to name, with the reason.
const ALLOWED: [(&str, &str, &str); 6] = [
    ("Queue", "callbacks_dropped", "a count; `Tube::on_task_change` leads to it"),
    ("Queue", "clock_step", "a value; the chapter about time in src/lib.rs leads to it"),
    ("Queue", "is_closed", "a value, beside `close`"),
    ("Task", "deliveries", "a value, beside `attempt`"),
    ("Tubes", "with_codec", "a handle, not a verb; that of a tube leads to it"),
    ("Tube", "with_codec", "a handle, not a verb; `Codec` leads to it"),
];

/// The name that begins here.
fn name(text: &str) -> &str {
    let end = text.find(|char: char| !char.is_alphanumeric() && char != '_');
    &text[..end.unwrap_or(text.len())]
}

/// The public methods of these types, each with its type and file.
fn verbs(sources: &[Source]) -> Vec<(String, String, String)> {
    let mut found = Vec::new();
    for source in sources {
        let code = code_without_tests(&source.text);
        let mut add = |of: &str, verb: &str| {
            found.push((of.to_owned(), verb.to_owned(), source.path.clone()));
        };
        for item in impls(&code).iter().filter(|item| OWNERS.contains(&item.of.as_str())) {
            let open = item.at + code[item.at..].find('{').unwrap_or_default();
            let block = &code[open..open + block_end(&code[open..])];
            for at in words(block, "pub").map(|at| &block[at + 3..]) {
                let Some(method) = at.trim_start().strip_prefix("fn ") else { continue };
                add(&item.of, name(method));
            }
        }
        // The verdicts on a task come from a macro: `name(arguments) => verdict;`, or `->`.
        for call in words(&code, "verdicts!").filter(|at| !code[..*at].ends_with("macro_rules! ")) {
            let block = &code[call..call + block_end(&code[call..])];
            for (at, _) in block.match_indices("> ") {
                let at = at - 1;
                let line = block[..at].lines().next_back().unwrap_or_default().trim();
                if line.ends_with(')') {
                    add("Task", name(line));
                }
            }
        }
    }
    found
}

/// The code in a page of Markdown: what is in back-quotes, in a line or in a block.
fn quoted(page: &str) -> String {
    page.split('`').skip(1).step_by(2).collect::<Vec<_>>().join(" ")
}

fn unnamed(sources: &[Source], pages: &str) -> Vec<String> {
    let quoted = quoted(pages);
    let mut findings = Vec::new();
    for (of, verb, path) in verbs(sources) {
        let is_named = words(&quoted, &verb).next().is_some();
        let is_allowed = ALLOWED.iter().any(|it| (it.0, it.1) == (&of, &verb));
        match (is_named, is_allowed) {
            (false, false) => {
                findings.push(format!("{path}: {of}::{verb} is in no page; name it in README.md"));
            }
            (true, true) => {
                findings.push(format!("{path}: {of}::{verb} is in a page; it is no exception"));
            }
            _ => {}
        }
    }
    findings
}

#[test]
fn every_verb_is_in_a_page() {
    let read = |name| fs::read_to_string(root().join(name)).unwrap();
    let pages = [read("README.md"), read("src/jobs.md"), read("src/flows.md")].join("\n");
    report(&unnamed(&library(), &pages));
    let verbs = verbs(&library());
    for known in ["transact", "put", "ack", "bury_with_priority", "touch", "time_left", "passed"] {
        assert!(verbs.iter().any(|(_, verb, _)| verb == known), "{known} is not read");
    }
    assert!(verbs.len() > 150, "{}", verbs.len());
    for (of, verb, _) in ALLOWED {
        let is_there = verbs.iter().any(|it| (it.0.as_str(), it.1.as_str()) == (of, verb));
        assert!(is_there, "{of}::{verb} is an exception, and does not exist");
    }
}

#[test]
fn planted_verbs_without_a_page_are_found() {
    let tube = "impl<T: ?Sized> Tube<T> { pub fn put(&self) {}\n fn own() {}\n pub fn lift() {} }\n\
                impl Other { pub fn other() {} }";
    let task = "verdicts! { settles {\n /// As it is.\n ack() => V;\n drop_it(why: A) => V {\n \
                x: (1),\n };\n } reads {\n left() -> Result<()>;\n } }";
    let files = planted(&[("src/tube.rs", tube), ("src/task.rs", task)]);
    let page = "To lift: `put`, and\n```\ntask.ack()\n```\n";
    assert_eq!(
        unnamed(&files, page),
        [
            "src/tube.rs: Tube::lift is in no page; name it in README.md",
            "src/task.rs: Task::drop_it is in no page; name it in README.md",
            "src/task.rs: Task::left is in no page; name it in README.md"
        ]
    );
    let closed = planted(&[("src/queue.rs", "impl Queue { pub fn is_closed() {} }")]);
    assert!(unnamed(&closed, "nothing").is_empty());
    assert_eq!(unnamed(&closed, "`is_closed`").len(), 1);
}
