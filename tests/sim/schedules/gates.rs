//! The gates that children need, and which tasks may be taken while they are as they are.

use super::SCHEDULES;
use super::model::{Model, Said, Serial, Task};
use tubewell::{NewSchedule, State};

pub const CONDITIONS: [&str; 2] = ["online", "paid"];
pub const THROTTLES: [&str; 2] = ["api", "gpu"];

/// The conditions that a task requires, and the throttles of which it needs a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Needs {
    pub conditions: [bool; CONDITIONS.len()],
    pub throttles: [bool; THROTTLES.len()],
}

/// The gates as they stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gates {
    /// None: it is not declared.
    pub conditions: [Option<bool>; CONDITIONS.len()],
    /// 0: none.
    pub limits: [u64; THROTTLES.len()],
}

impl Default for Gates {
    fn default() -> Self {
        Self { conditions: [None; CONDITIONS.len()], limits: [1, 2] }
    }
}

impl Needs {
    /// By the names that a task or a schedule has.
    pub fn of(requires: &[String], throttles: &[String]) -> Self {
        let is_in = |names: &[String], name: &str| names.iter().any(|other| other == name);
        Self {
            conditions: CONDITIONS.map(|name| is_in(requires, name)),
            throttles: THROTTLES.map(|name| is_in(throttles, name)),
        }
    }

    /// Gives them to a schedule.
    pub fn give<T: ?Sized>(self, to: NewSchedule<'_, T>) -> NewSchedule<'_, T> {
        let conditions = CONDITIONS.into_iter().zip(self.conditions).filter(|(_, needs)| *needs);
        let throttles = THROTTLES.into_iter().zip(self.throttles).filter(|(_, needs)| *needs);
        let to = conditions.fold(to, |to, (name, _)| to.require(name));
        throttles.fold(to, |to, (name, _)| to.throttle(name))
    }
}

impl Model {
    /// How many slots of a throttle are held.
    pub fn in_flight(&self, throttle: usize) -> u64 {
        let holds = |task: &&Task| task.state == State::Taken && task.needs.throttles[throttle];
        self.tasks.values().filter(holds).count() as u64
    }

    /// Whether nothing holds a ready task back.
    pub fn is_open(&self, needs: Needs) -> bool {
        let Gates { conditions, limits } = &self.gates;
        let is_set = |no: usize| conditions[no] == Some(true);
        let has_slot = |no: usize| limits[no] == 0 || self.in_flight(no) < limits[no];
        (0..CONDITIONS.len()).all(|no| !needs.conditions[no] || is_set(no))
            && (0..THROTTLES.len()).all(|no| !needs.throttles[no] || has_slot(no))
    }

    /// Takes at most so many tasks of a tube, whose keys come in the order of takes. Says
    /// which of them are taken.
    pub fn take(&mut self, tube: usize, most: usize, order: &[String]) -> Said {
        let found = order.iter().filter_map(|key| self.ready(tube, key));
        let all: Vec<Serial> = found.collect();
        if !self.is_in_order(&all) {
            return Said::OutOfOrder(format!("{order:?}"));
        }
        let mut taken = Vec::new();
        for serial in all {
            let needs = self.tasks[&serial].needs;
            if taken.len() < most && self.is_open(needs) {
                let task = self.tasks.get_mut(&serial).unwrap();
                task.state = State::Taken;
                taken.push(task.key.clone());
            }
        }
        Said::Took(taken)
    }

    /// Whether these may stand in this order: by the time of the put, and the children of one
    /// schedule as it has made them. Which of two schedules fires first is not promised.
    fn is_in_order(&self, all: &[Serial]) -> bool {
        let made = |serial: &Serial| self.tasks[serial].made;
        let by = |serial: &Serial| self.tasks[serial].spawned.map(|(by, _)| by);
        let of = |no: usize| all.iter().filter(move |serial| by(serial) == Some(no));
        all.is_sorted_by_key(made) && (0..SCHEDULES.len()).all(|no| of(no).is_sorted())
    }
}
