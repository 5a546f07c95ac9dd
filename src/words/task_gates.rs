//! The gates that a task needs by itself, beside those of its tube: names of conditions and of
//! throttles. The tasks of a tube with the same gates and without a group stand in one line, as
//! those of a group do, and the name of the line says which gates they are: no group has such a
//! name. The gates of a task of a group are written in the same way. Plain values.

use crate::words::error::{Error, ErrorKind, Result};
use crate::words::gates::{NamedGate, condition_name, throttle_name};
use crate::words::limits::{LABEL_BYTES_MAX, REQUIRED_MAX, THROTTLES_OF_TUBE_MAX};
use std::collections::BTreeSet;

/// What stands before the name of each gate in the name of a line. Names of groups have no control
/// characters.
const CONDITION: char = '\u{1}';
const THROTTLE: char = '\u{2}';

/// The gates of a task, as the caller gives them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TaskGates<'a> {
    pub(crate) required: BTreeSet<&'a str>,
    pub(crate) throttles: BTreeSet<&'a str>,
}

impl<'a> TaskGates<'a> {
    /// Those of the tasks in this line.
    pub(crate) fn of_line(line: &'a str) -> Self {
        let mut gates = Self::default();
        for gate in in_line(line) {
            _ = match named(gate) {
                NamedGate::Condition(name) => gates.required.insert(name),
                NamedGate::Throttle(name) => gates.throttles.insert(name),
            };
        }
        gates
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.required.is_empty() && self.throttles.is_empty()
    }

    /// Refuses names that no gate has, and too many.
    ///
    /// # Errors
    /// `Invalid`.
    pub(crate) fn check(&self) -> Result<()> {
        self.required.iter().try_for_each(|name| condition_name(name).map(drop))?;
        self.throttles.iter().try_for_each(|name| throttle_name(name).map(drop))?;
        let (required, throttles) = (self.required.len(), self.throttles.len());
        let bytes = self.line().len();
        if required > REQUIRED_MAX || throttles > THROTTLES_OF_TUBE_MAX || bytes > LABEL_BYTES_MAX {
            let text = format!(
                "a task requires at most {REQUIRED_MAX} conditions and has at most \
                 {THROTTLES_OF_TUBE_MAX} throttles, whose names have at most {LABEL_BYTES_MAX} \
                 bytes together, with one for each; not {required}, {throttles} and {bytes}"
            );
            return Err(Error::new(ErrorKind::Invalid).because(text));
        }
        Ok(())
    }

    /// The name of the line. Conditions come first, because what is not set holds a task back
    /// without a look at slots.
    pub(crate) fn line(&self) -> String {
        let required = self.required.iter().map(|name| NamedGate::Condition(name));
        let throttles = self.throttles.iter().map(|name| NamedGate::Throttle(name));
        required.chain(throttles).map(text).collect()
    }
}

/// Whether a line is of tasks with gates, and not of a group.
#[inline]
pub(crate) fn is_line(name: &str) -> bool {
    name.starts_with([CONDITION, THROTTLE])
}

/// Whether it is the name of a line as [`TaskGates::line`] gives it.
pub(crate) fn is_sound(line: &str) -> bool {
    let gates = TaskGates::of_line(line);
    !gates.is_empty() && gates.line() == line && gates.check().is_ok()
}

/// The group of a task, of its group or line.
#[inline]
pub(crate) fn group_in(name: Option<&str>) -> Option<&str> {
    name.filter(|name| !is_line(name))
}

/// In which group or line a task of this group with these gates stands, and which of its gates the
/// name of that does not say.
#[inline]
pub(crate) fn place<'a>(
    group: Option<&'a str>,
    gates: Option<&'a str>,
) -> (Option<&'a str>, Option<&'a str>) {
    if group.is_some() { (group, gates) } else { (gates, None) }
}

/// The conditions and throttles of these gates.
pub(crate) fn names(gates: Option<&str>) -> [Vec<String>; 2] {
    let gates = gates.map(TaskGates::of_line).unwrap_or_default();
    let owned = |names: BTreeSet<&str>| names.into_iter().map(str::to_owned).collect();
    [owned(gates.required), owned(gates.throttles)]
}

/// The gates in the name of a line, each as [`text`] gives it, in their order.
pub(crate) fn in_line(line: &str) -> impl Iterator<Item = &str> {
    let starts = line.char_indices().filter(|(_, char)| [CONDITION, THROTTLE].contains(char));
    let starts: Vec<usize> = starts.map(|(at, _)| at).collect();
    let ends: Vec<usize> = starts.iter().skip(1).copied().chain([line.len()]).collect();
    let parts = starts.into_iter().zip(ends);
    parts.filter_map(|(from, to)| line.get(from..to))
}

/// The throttles among these gates.
pub(crate) fn throttles(line: &str) -> impl Iterator<Item = &str> {
    in_line(line).filter_map(|gate| match named(gate) {
        NamedGate::Throttle(name) => Some(name),
        NamedGate::Condition(_) => None,
    })
}

/// A gate as it stands in the name of a line.
pub(crate) fn text(gate: NamedGate<'_>) -> String {
    match gate {
        NamedGate::Condition(name) => format!("{CONDITION}{name}"),
        NamedGate::Throttle(name) => format!("{THROTTLE}{name}"),
    }
}

/// The gate that stands so in the name of a line.
pub(crate) fn named(text: &str) -> NamedGate<'_> {
    match text.strip_prefix(THROTTLE) {
        Some(name) => NamedGate::Throttle(name),
        None => NamedGate::Condition(text.strip_prefix(CONDITION).unwrap_or(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_which_gates_its_tasks_need() {
        let mut gates = TaskGates::default();
        assert!(gates.is_empty() && gates.line().is_empty() && !is_line(""));
        gates.required.extend(["online", "approved"]);
        gates.throttles.extend(["gpu", "ä"]);
        let line = gates.line();
        assert_eq!(line, "\u{1}approved\u{1}online\u{2}gpu\u{2}ä");
        assert!(is_line(&line) && !is_line("group"));
        assert_eq!(TaskGates::of_line(&line), gates);
        assert_eq!(named("\u{2}gpu"), NamedGate::Throttle("gpu"));
        assert_eq!(in_line("group").count(), 0);
        assert!(is_sound(&line) && !is_sound("") && !is_sound("group"));
        for wrong in ["\u{2}gpu\u{1}online", "\u{1}b\u{1}a", "\u{1}a\u{1}a", "\u{1}", "x\u{1}a"] {
            assert!(!is_sound(wrong), "{wrong:?}");
        }
        let owned = |names: [&str; 2]| names.map(str::to_owned).to_vec();
        let both = [owned(["approved", "online"]), owned(["gpu", "ä"])];
        assert_eq!((names(Some(&line)), names(None)), (both, [vec![], vec![]]));
    }

    #[test]
    fn the_gates_of_a_task_of_a_group_stand_apart() {
        let (group, gates) = (Some("group"), Some("\u{1}online"));
        assert_eq!(place(group, gates), (group, gates));
        assert_eq!((place(group, None), place(None, gates)), ((group, None), (gates, None)));
        assert_eq!((group_in(group), group_in(gates), group_in(None)), (group, None, None));
    }

    #[test]
    fn names_and_numbers_on_both_sides_of_each_limit() {
        let names = |most: usize| (0..most).map(|it| it.to_string()).collect::<Vec<_>>();
        let check = |required: &[String], throttles: &[String]| {
            let required = required.iter().map(|name| &**name).collect();
            let throttles = throttles.iter().map(|name| &**name).collect();
            TaskGates { required, throttles }.check().map_err(|error| error.kind())
        };
        let wrong = Err(ErrorKind::Invalid);
        assert_eq!(check(&names(16), &names(8)), Ok(()));
        assert_eq!((check(&names(17), &[]), check(&[], &names(9))), (wrong, wrong));
        assert_eq!(check(&["n".repeat(254)], &[]), Ok(()));
        assert_eq!(check(&["n".repeat(254)], &["n".to_owned()]), wrong);
        assert_eq!(
            (check(&["a\u{2}b".to_owned()], &[]), check(&[], &[String::new()])),
            (wrong, wrong)
        );
    }
}
