//! Five names for priorities.

use crate::words::error::{Error, ErrorKind, Result};
use std::fmt;
use std::str::FromStr;

/// Five names for priorities, in the order in which tasks are taken: a [`VeryHigh`](Self::VeryHigh)
/// one is the smallest. As numbers they are −2 to 2, so they mix with other priorities. In a tube
/// with [`higher_first`](crate::TubeOptions::higher_first) numbers count the other way round, and
/// these names do not fit.
///
/// As text they are `VERY_HIGH`, `HIGH`, `NORMAL`, `LOW` and `VERY_LOW`; upper and lower case are
/// the same when they are read.
///
/// ```
/// use tubewell::{Queue, Urgency};
///
/// # fn main() -> tubewell::Result<()> {
/// let tube = Queue::in_memory()?.tube("letters")?;
/// tube.put(b"plain")?; // normal: 0
/// tube.task(b"urgent").priority("high".parse::<Urgency>()?.into()).put()?;
/// let task = tube.take()?;
/// assert_eq!((&task[..], task.priority()), (&b"urgent"[..], -1));
/// assert_eq!(Urgency::of(task.priority()), Some(Urgency::High));
/// assert!(Urgency::VeryHigh < Urgency::Low); // sorts as tasks are taken
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Urgency {
    /// −2.
    VeryHigh = -2,
    /// −1.
    High = -1,
    /// 0, the priority of a task that is put without one.
    #[default]
    Normal = 0,
    /// 1.
    Low = 1,
    /// 2.
    VeryLow = 2,
}

impl Urgency {
    /// All five, the most urgent first.
    pub const ALL: [Self; 5] = [Self::VeryHigh, Self::High, Self::Normal, Self::Low, Self::VeryLow];

    /// The name of a priority, if it has one.
    pub fn of(priority: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|urgency| i64::from(*urgency) == priority)
    }

    fn name(self) -> &'static str {
        match self {
            Self::VeryHigh => "VERY_HIGH",
            Self::High => "HIGH",
            Self::Normal => "NORMAL",
            Self::Low => "LOW",
            Self::VeryLow => "VERY_LOW",
        }
    }
}

impl From<Urgency> for i64 {
    fn from(urgency: Urgency) -> Self {
        urgency as Self
    }
}

impl fmt::Display for Urgency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Urgency {
    type Err = Error;

    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) for any other text.
    fn from_str(text: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|urgency| urgency.name().eq_ignore_ascii_case(text));
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            Error::new(ErrorKind::Invalid).because(format!("{text:?} is none of {names}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_go_both_ways() {
        for (urgency, number) in Urgency::ALL.into_iter().zip(-2..) {
            assert_eq!((i64::from(urgency), Urgency::of(number)), (number, Some(urgency)));
            let name = urgency.to_string();
            assert_eq!(name.parse::<Urgency>().unwrap(), urgency);
            assert_eq!(name.to_lowercase().parse::<Urgency>().unwrap(), urgency);
        }
        assert_eq!((Urgency::of(3), Urgency::of(i64::MIN)), (None, None));
        assert_eq!(Urgency::default(), Urgency::Normal);
    }

    /// What the seed calls reorder: from high to low, and those of one urgency stay in order.
    #[test]
    fn a_stable_sort_is_from_the_most_urgent_on() {
        let mut jobs = [("a", Urgency::Low), ("b", Urgency::VeryHigh), ("c", Urgency::Low)];
        jobs.sort_by_key(|(_, urgency)| *urgency);
        assert_eq!(jobs.map(|(name, _)| name), ["b", "a", "c"]);
    }

    #[test]
    fn an_unknown_name_is_refused_with_all_names() {
        for text in ["", "urgent", "VERY HIGH", " high"] {
            let refused = text.parse::<Urgency>().unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Invalid);
            assert!(refused.to_string().contains("VERY_HIGH, HIGH, NORMAL"), "{refused}");
        }
    }
}
