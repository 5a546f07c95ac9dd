//! Tubes, their tasks and the handles that take from several of them, in plain values.

use super::turns::{Drawn, Made, Offer, Turns, Way};
use std::collections::BTreeMap;
use tubewell::{ErrorKind, State};

pub const SECOND: u64 = 1_000_000;
/// In the order of a prefix.
pub const NAMES: [&str; 5] = ["a", "b", "m/1", "m/2", "m/3"];
/// The first tubes stay, the others are made and dropped.
pub const FIXED: usize = 2;
/// In this tube higher priorities are first.
pub const HIGHER_FIRST: usize = 1;
pub const PREFIXES: [&str; 2] = ["", "m/"];
/// Those of a handle on a prefix.
pub const WEIGHTS: [u64; 5] = [1, 2, 3, 5, 2];
pub const HANDLES: usize = 5;

/// The number of a task, which is its payload.
pub type Serial = u64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Of {
    /// Tubes with their weights.
    List(Vec<(Made, u64)>),
    Prefix(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Ready,
    /// Until its ttr ends.
    Taken(Option<u64>),
    Delayed(u64),
    Buried,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    pub tube: usize,
    pub terms: Terms,
    pub place: Place,
    pub deliveries: u32,
}

/// How a task is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    pub priority: i64,
    /// Seconds.
    pub delay: u64,
    /// Seconds.
    pub ttr: Option<u64>,
    /// It is in the group, of which one is in flight.
    pub is_grouped: bool,
    /// It requires the condition itself.
    pub requires: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tube {
    /// Which one of its name it is.
    made: u64,
    /// 0: none.
    pub limit: u64,
    /// It requires the condition.
    pub requires: bool,
    /// When the pause ends, if it does.
    pub pause: Option<Option<u64>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handle {
    of: Of,
    turns: Turns,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Model {
    pub tubes: BTreeMap<usize, Tube>,
    pub tasks: BTreeMap<Serial, Stored>,
    pub condition: Option<bool>,
    pub handles: BTreeMap<usize, Handle>,
    /// The tubes that ever were.
    made: u64,
    drawn: Drawn,
}

#[derive(Clone, Debug)]
pub enum Step {
    Make(usize),
    Drop {
        tube: usize,
        by_force: bool,
    },
    /// So many tasks.
    Put {
        tube: usize,
        first: Serial,
        count: u64,
        terms: Terms,
    },
    /// A handle in the place of an earlier one.
    Handle(usize, Of, Way),
    /// A handle that begins again with another order, or the same, of the tubes of this one.
    Reorder(usize, Way),
    Take {
        from: usize,
        most: usize,
    },
    Ack(Serial),
    Release(Serial),
    /// A release with a delay in seconds.
    Snooze(Serial, u64),
    Bury(Serial),
    Kick(Serial),
    /// Perhaps for so many seconds.
    Pause(usize, Option<u64>),
    Resume(usize),
    Limit(usize, u64),
    Require(usize, bool),
    Condition(Option<bool>),
    Checkpoint,
    /// With or without a tick.
    Advance(u64, bool),
}

/// What a step answers: the tasks that it takes, or that it is refused.
pub type Answer = Result<Vec<Serial>, ErrorKind>;

/// What is seen of a tube: its limit, what it requires, and when its pause ends, if it does.
pub type SeenTube = (u64, bool, Option<Option<u64>>);

/// What is seen of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sight {
    pub tubes: BTreeMap<usize, SeenTube>,
    /// The tube and the state of each task, and how often it was taken.
    pub tasks: BTreeMap<Serial, (usize, State, u32)>,
    pub condition: Option<bool>,
}

impl Model {
    /// Tasks in a state of this kind.
    pub fn some(&self, is_in: fn(&Place) -> bool) -> Vec<Serial> {
        let some = self.tasks.iter().filter(|(_, task)| is_in(&task.place));
        some.map(|(serial, _)| *serial).collect()
    }

    pub fn is_taken(&self, serial: Serial) -> bool {
        let task = self.tasks.get(&serial);
        task.is_some_and(|task| matches!(task.place, Place::Taken(_)))
    }

    fn taken(&self, tube: usize) -> impl Iterator<Item = &Stored> {
        let here = self.tasks.values().filter(move |task| task.tube == tube);
        here.filter(|task| matches!(task.place, Place::Taken(_)))
    }

    fn is_open(&self, no: usize) -> bool {
        let Tube { limit, requires, pause, .. } = &self.tubes[&no];
        let is_full = *limit > 0 && self.taken(no).count() as u64 >= *limit;
        pause.is_none() && !is_full && (!requires || self.condition == Some(true))
    }

    /// The best task of a tube that nothing holds back.
    fn best(&self, tube: usize) -> Option<(i64, Serial)> {
        if !self.is_open(tube) {
            return None;
        }
        let here = self.tasks.iter().filter(|(_, task)| task.tube == tube);
        let ready = here.filter(|(_, task)| task.place == Place::Ready);
        let mut ready: Vec<_> = ready.map(|(serial, task)| (rank(*serial, task), task)).collect();
        ready.sort_by_key(|(rank, _)| *rank);
        // Nothing overtakes the first task of a group.
        let mut is_behind = self.taken(tube).any(|task| task.terms.is_grouped);
        for (rank, task) in ready {
            let has_turn = !task.terms.is_grouped || !is_behind;
            is_behind |= task.terms.is_grouped;
            if has_turn && (!task.terms.requires || self.condition == Some(true)) {
                return Some(rank);
            }
        }
        None
    }

    /// The tubes of a handle that are there, with their places and weights.
    fn members(&self, of: &Of) -> Vec<(usize, Made, u64)> {
        let is_there = |(no, made): &Made| self.tubes.get(no).is_some_and(|it| it.made == *made);
        match of {
            Of::List(tubes) => {
                let placed = tubes.iter().enumerate();
                let placed = placed.map(|(place, (tube, weight))| (place, *tube, *weight));
                placed.filter(|(_, tube, _)| is_there(tube)).collect()
            }
            Of::Prefix(prefix) => {
                let has_it = |no: &usize| NAMES[*no].starts_with(PREFIXES[*prefix]);
                let tubes = self.tubes.iter().filter(|(no, _)| has_it(no));
                tubes.map(|(no, tube)| (0, (*no, tube.made), WEIGHTS[*no])).collect()
            }
        }
    }

    /// The tubes that there are now, in a list.
    pub fn there(&self) -> Vec<Made> {
        self.tubes.iter().map(|(no, tube)| (*no, tube.made)).collect()
    }

    /// A take gets the best task of the tube whose turn it is.
    fn take(&mut self, (from, most): (usize, usize), now: u64, got: &[Serial]) -> Answer {
        let Handle { of, .. } = &self.handles[&from];
        let (members, is_list) = (self.members(of), matches!(of, Of::List(_)));
        if members.is_empty() && is_list {
            return Err(ErrorKind::TubeNotFound);
        }
        let mut taken = Vec::new();
        while taken.len() < most {
            let offer = |(place, tube, weight): &(usize, Made, u64)| {
                let (priority, _) = self.best(tube.0)?;
                Some(Offer { rank: (*place, *tube), priority, weight: *weight })
            };
            let offers: Vec<_> = members.iter().filter_map(offer).collect();
            if offers.is_empty() {
                break;
            }
            let got = got.get(taken.len()).and_then(|got| self.tasks.get(got));
            let got = got.map(|task| (task.tube, self.tubes[&task.tube].made));
            let turns = &mut self.handles.get_mut(&from).unwrap().turns;
            let (tube, _) = turns.serve(&offers, got, &mut self.drawn);
            let (_, serial) = self.best(tube).unwrap();
            let task = self.tasks.get_mut(&serial).unwrap();
            task.place = Place::Taken(task.terms.ttr.map(|seconds| now + seconds * SECOND));
            task.deliveries += 1;
            taken.push(serial);
        }
        Ok(taken)
    }

    fn put_at(&mut self, serial: Serial, place: Place) {
        self.tasks.get_mut(&serial).unwrap().place = place;
    }

    fn tune(&mut self, tube: usize, change: impl FnOnce(&mut Tube)) {
        change(self.tubes.get_mut(&tube).unwrap());
    }

    /// Does a step; `got` are the tasks that it took.
    pub fn apply(&mut self, step: &Step, now: u64, got: &[Serial]) -> Answer {
        self.pass(now);
        match step {
            Step::Make(no) => {
                self.made += 1;
                self.tubes.insert(*no, Tube { made: self.made, ..Tube::default() });
            }
            Step::Drop { tube, by_force } => {
                if !by_force && self.taken(*tube).next().is_some() {
                    return Err(ErrorKind::TubeBusy);
                }
                self.tubes.remove(tube);
                self.tasks.retain(|_, task| task.tube != *tube);
            }
            Step::Put { tube, first, count, terms } => {
                let place = match terms.delay {
                    0 => Place::Ready,
                    delay => Place::Delayed(now + delay * SECOND),
                };
                let new = Stored { tube: *tube, terms: *terms, place, deliveries: 0 };
                self.tasks.extend((*first..first + count).map(|serial| (serial, new.clone())));
            }
            Step::Handle(no, of, order) => {
                self.handles.insert(*no, Handle { of: of.clone(), turns: Turns::new(*order) });
            }
            Step::Reorder(no, order) => {
                self.handles.get_mut(no).unwrap().turns = Turns::new(*order);
            }
            Step::Take { from, most } => return self.take((*from, *most), now, got),
            Step::Ack(serial) => drop(self.tasks.remove(serial)),
            Step::Release(serial) | Step::Kick(serial) => self.put_at(*serial, Place::Ready),
            Step::Snooze(serial, by) => self.put_at(*serial, Place::Delayed(now + by * SECOND)),
            Step::Bury(serial) => self.put_at(*serial, Place::Buried),
            Step::Pause(tube, seconds) => {
                let ends = seconds.map(|seconds| now + seconds * SECOND);
                self.tune(*tube, |tube| tube.pause = Some(ends));
            }
            Step::Resume(tube) => self.tune(*tube, |tube| tube.pause = None),
            Step::Limit(tube, limit) => self.tune(*tube, |tube| tube.limit = *limit),
            Step::Require(tube, requires) => self.tune(*tube, |tube| tube.requires = *requires),
            Step::Condition(to) => self.condition = *to,
            Step::Checkpoint | Step::Advance(..) => {}
        }
        Ok(Vec::new())
    }

    /// What is due by now is done.
    pub fn pass(&mut self, now: u64) {
        for task in self.tasks.values_mut() {
            if let Place::Taken(Some(ends)) | Place::Delayed(ends) = task.place
                && ends <= now
            {
                task.place = Place::Ready;
            }
        }
        for tube in self.tubes.values_mut() {
            tube.pause = tube.pause.filter(|ends| ends.is_none_or(|ends| ends > now));
        }
    }

    /// The process dies: what was taken comes back, and the handles are gone.
    pub fn crash(&mut self) {
        self.handles.clear();
        for task in self.tasks.values_mut() {
            if matches!(task.place, Place::Taken(_)) {
                task.place = Place::Ready;
            }
        }
    }

    /// After a take that was cut off in a shuffled round, what it took is read off.
    pub fn read_off(&mut self, step: &Step, before: &Self, seen: &Sight) {
        let Step::Take { from, .. } = step else { return };
        if !matches!(before.handles[from].turns.way, Way::Shuffled(_)) {
            return;
        }
        // Which tubes it gave the turn is not seen.
        self.drawn = before.drawn.clone();
        for (serial, task) in &mut self.tasks {
            let was = before.tasks[serial].deliveries;
            let deliveries = seen.tasks.get(serial).map_or(was, |(.., deliveries)| *deliveries);
            task.deliveries = deliveries.clamp(was, was + 1);
        }
    }

    pub fn sight(&self) -> Sight {
        let state = |task: &Stored| match task.place {
            Place::Ready => State::Ready,
            Place::Taken(_) => State::Taken,
            Place::Delayed(_) => State::Delayed,
            Place::Buried => State::Buried,
        };
        let tasks = self.tasks.iter();
        let tasks = tasks.map(|(no, task)| (*no, (task.tube, state(task), task.deliveries)));
        let tubes = self.tubes.iter();
        let tubes = tubes.map(|(no, tube)| (*no, (tube.limit, tube.requires, tube.pause)));
        let (tubes, tasks) = (tubes.collect(), tasks.collect());
        Sight { tubes, tasks, condition: self.condition }
    }

    /// The names of the tubes that a handle shows.
    pub fn names(&self, handle: usize) -> Vec<&'static str> {
        let members = self.members(&self.handles[&handle].of);
        members.into_iter().map(|(_, (no, _), _)| NAMES[no]).collect()
    }
}

/// What the order of a tube goes by.
fn rank(serial: Serial, task: &Stored) -> (i64, Serial) {
    let priority = task.terms.priority;
    (if task.tube == HIGHER_FIRST { -priority } else { priority }, serial)
}
