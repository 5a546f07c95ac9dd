//! Tasks that wait for others, with the rest of their ttls, in plain maps, by the documents.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tubewell::{ErrorKind, Orphaned, State, TaskId};

/// A delay that does not end in a run.
pub const LATE: Duration = Duration::from_secs(1 << 30);

/// The number of a task, which is its payload.
pub type Serial = u64;
/// Of each task that was ever put.
pub type Ids = BTreeMap<Serial, TaskId>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    Success,
    Failure,
    AnyEnd,
}

/// How a task ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Done,
    Buried,
    Gone,
}

#[derive(Clone, Debug)]
pub struct Edge {
    pub on: On,
    pub orphaned: Orphaned,
}

#[derive(Clone, Debug)]
pub struct Task {
    pub tube: usize,
    pub state: State,
    /// Put with a delay that has not ended.
    pub is_late: bool,
    /// When the delay ends.
    due: u64,
    /// Its ttl, if it has one.
    pub life: Option<Life>,
    /// Those that it waits for.
    pub open: BTreeMap<Serial, Edge>,
    /// Those that it has waited for and that were there then.
    pub met: BTreeSet<Serial>,
    /// The number in its key, if it has one.
    pub key: Option<Serial>,
}

/// A ttl. It runs while the task is ready or buried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    pub left: u64,
    length: u64,
}

/// What an end does to an edge; `None` if nothing.
fn fate(edge: &Edge, end: End) -> Option<Orphaned> {
    let is_met = match edge.on {
        On::Success => end == End::Done,
        On::Failure => end == End::Buried,
        On::AnyEnd => true,
    };
    match edge.orphaned {
        _ if is_met => Some(Orphaned::Ignore),
        Orphaned::Hold => None,
        policy => Some(policy),
    }
}

/// The queue by the documents.
#[derive(Clone, Debug, Default)]
pub struct Model {
    pub tasks: BTreeMap<Serial, Task>,
    pub next: Serial,
    /// Seconds since the first opening.
    pub now: u64,
}

/// What the next step of a task comes after.
type After = (Vec<(Serial, On)>, Orphaned);

/// What a put says.
#[derive(Clone, Debug)]
pub struct Terms {
    /// `None`: it says nothing of other tasks.
    pub after: Option<Vec<(Serial, On)>>,
    pub orphaned: Orphaned,
    pub is_late: bool,
    /// In seconds.
    pub ttl: Option<u64>,
}

#[derive(Clone, Debug)]
pub enum Step {
    Put {
        tube: usize,
        has_key: bool,
        terms: Terms,
    },
    /// A put that meets the task of its key.
    Again(Serial, Terms),
    /// Puts in one commit, which may be given up.
    Transact {
        puts: Vec<Step>,
        commits: bool,
    },
    /// A taken task goes on to this tube, after these.
    Advance {
        task: Serial,
        to: usize,
        after: After,
        is_late: bool,
    },
    Truncate(usize),
    Complete(Serial),
    Bury(Serial),
    Kick(Serial),
    Delete {
        task: Serial,
        by_force: bool,
    },
    Move(Serial),
    /// All tasks of this tube go to the other one.
    Merge(usize),
    Depend(Serial, (Serial, On), Orphaned),
    UndependAll(Serial),
    CancelTree(Serial),
    Checkpoint,
    /// So many seconds, perhaps none, and what is due then.
    Pass(u64),
}

impl Model {
    /// What is told to those that wait for a task that has ended.
    fn end(&mut self, ended: Serial, end: End) {
        let waiting = |task: &Task| task.open.contains_key(&ended);
        let later: Vec<_> = self
            .tasks
            .iter()
            .filter(|(_, task)| waiting(task))
            .map(|(serial, _)| *serial)
            .collect();
        for serial in later {
            let is_there = self.tasks.contains_key(&ended);
            // An earlier one of these may have taken it away.
            let Some(task) = self.tasks.get_mut(&serial) else { continue };
            match fate(&task.open[&ended], end) {
                None => {}
                Some(Orphaned::Cancel) => self.remove(serial),
                Some(_) => {
                    task.open.remove(&ended);
                    if is_there {
                        task.met.insert(ended);
                    }
                    unblock(task);
                }
            }
        }
    }

    fn remove(&mut self, serial: Serial) {
        let task = self.tasks.remove(&serial).unwrap();
        if task.state != State::Done {
            self.end(serial, End::Gone);
        }
    }

    /// Lets a task wait for another one. Returns whether it is removed by that at once.
    fn link(&self, task: &mut Task, earlier: Serial, edge: Edge) -> bool {
        let there = self.tasks.get(&earlier).map(|earlier| earlier.state);
        let end = match there {
            None | Some(State::Done) => End::Done,
            Some(State::Buried) => End::Buried,
            _ => {
                task.open.insert(earlier, edge);
                return false;
            }
        };
        match fate(&edge, end) {
            None => drop(task.open.insert(earlier, edge)),
            Some(Orphaned::Cancel) => return true,
            Some(_) if there.is_some() => drop(task.met.insert(earlier)),
            Some(_) => {}
        }
        false
    }

    /// The tasks that wait for this one, by themselves or by others, and itself.
    pub fn tree(&self, root: Serial) -> BTreeSet<Serial> {
        let mut tree = BTreeSet::from([root]);
        loop {
            let waits = |task: &Task| task.open.keys().any(|earlier| tree.contains(earlier));
            let more: Vec<_> = self
                .tasks
                .iter()
                .filter(|(_, task)| waits(task))
                .map(|(serial, _)| *serial)
                .collect();
            let before = tree.len();
            tree.extend(more);
            if tree.len() == before {
                return tree;
            }
        }
    }

    /// The task that a put makes, or puts again.
    pub fn put_by(&self, step: &Step) -> Serial {
        match step {
            Step::Again(task, _) if self.tasks[task].state != State::Done => *task,
            _ => self.next,
        }
    }

    /// Lets a task wait for these, and for no others. Returns whether it is removed by that.
    fn link_all(&self, task: &mut Task, after: &[(Serial, On)], orphaned: Orphaned) -> bool {
        (task.open, task.met) = Default::default();
        let mut is_cancelled = false;
        for (earlier, on) in after {
            let edge = Edge { on: *on, orphaned };
            is_cancelled |= self.link(task, *earlier, edge);
        }
        is_cancelled
    }

    fn put(&mut self, tube: usize, has_key: bool, terms: &Terms) {
        let Terms { after, orphaned, is_late, ttl } = terms;
        let (open, met, now) = (BTreeMap::new(), BTreeSet::new(), self.now);
        let (is_late, due, key) = (*is_late, now + LATE.as_secs(), has_key.then_some(self.next));
        let life = ttl.map(|length| Life { left: length, length });
        let state = State::Blocked;
        let mut task = Task { tube, state, is_late, due, life, open, met, key };
        let after = after.as_deref().unwrap_or_default();
        if !self.link_all(&mut task, after, *orphaned) {
            unblock(&mut task);
            self.tasks.insert(self.next, task);
        }
        self.next += 1;
    }

    /// A task that is put again waits for what it has waited for, unless the put names others.
    /// Its delay is that of the put. In the place of a finished one a new one is put.
    fn put_again(&mut self, serial: Serial, terms: &Terms) -> std::result::Result<(), ErrorKind> {
        let mut task = self.tasks[&serial].clone();
        let is_new = task.state == State::Done;
        task.live_again(terms.ttl);
        task.block(terms.is_late, self.now);
        let is_cancelled = match &terms.after {
            Some(after) => self.link_all(&mut task, after, terms.orphaned),
            None => false,
        };
        if !is_new && self.is_cycle(serial, &task, terms.after.iter().flatten()) {
            return Err(ErrorKind::Cycle);
        }
        unblock(&mut task);
        match (is_new, is_cancelled) {
            (false, true) => self.remove(serial),
            (false, false) => drop(self.tasks.insert(serial, task)),
            (true, _) => {
                self.remove(serial);
                if !is_cancelled {
                    self.tasks.insert(self.next, task);
                }
                self.next += 1;
            }
        }
        Ok(())
    }

    /// Whether one of these, which the task comes after with its new edges, waits for it. An edge
    /// that is not kept makes no circle.
    fn is_cycle<'a>(
        &self,
        serial: Serial,
        task: &Task,
        after: impl IntoIterator<Item = &'a (Serial, On)>,
    ) -> bool {
        let tree = self.tree(serial);
        after.into_iter().any(|(earlier, _)| {
            let comes_after = task.open.contains_key(earlier) || task.met.contains(earlier);
            *earlier == serial || (comes_after && tree.contains(earlier))
        })
    }

    /// A task is taken and goes on. If that is refused, the worker gives it back.
    fn advance(
        &mut self,
        serial: Serial,
        (to, (after, orphaned), is_late): (usize, &After, bool),
    ) -> std::result::Result<(), ErrorKind> {
        let mut task = self.tasks[&serial].clone();
        (task.state, task.is_late) = (State::Ready, false);
        self.tasks.insert(serial, task.clone());
        task.live_again(None);
        task.tube = to;
        task.block(is_late, self.now);
        let is_cancelled = !after.is_empty() && self.link_all(&mut task, after, *orphaned);
        if self.is_cycle(serial, &task, after) {
            return Err(ErrorKind::Cycle);
        }
        unblock(&mut task);
        match is_cancelled {
            true => self.remove(serial),
            false => drop(self.tasks.insert(serial, task)),
        }
        Ok(())
    }

    /// Removes the tasks whose ttl is over.
    fn expire(&mut self) {
        let is_over = |task: &Task| task.runs() && task.life.is_some_and(|life| life.left == 0);
        let over = self.tasks.iter().filter(|(_, task)| is_over(task));
        for serial in over.map(|(serial, _)| *serial).collect::<Vec<_>>() {
            // An earlier one of these may have taken it away.
            if self.tasks.contains_key(&serial) {
                self.remove(serial);
            }
        }
    }

    /// Time passes up to then, and what is due is done.
    pub fn pass(&mut self, to: u64) {
        let by = to - self.now;
        self.now = to;
        for task in self.tasks.values_mut().filter(|task| task.runs()) {
            task.life.iter_mut().for_each(|life| life.left = life.left.saturating_sub(by));
        }
        self.expire();
    }

    fn truncate(&mut self, tube: usize) {
        let (gone, left) = std::mem::take(&mut self.tasks)
            .into_iter()
            .partition(|(_, task): &(Serial, Task)| task.tube == tube);
        self.tasks = left;
        let gone: BTreeMap<_, _> = gone;
        for (serial, _) in gone.iter().filter(|(_, task)| task.state != State::Done) {
            self.end(*serial, End::Gone);
        }
    }

    /// All of it happens, or nothing.
    fn transact(&mut self, puts: &[Step], commits: bool) -> std::result::Result<(), ErrorKind> {
        let mut after = self.clone();
        let done = puts.iter().try_for_each(|put| after.apply(put));
        if done.is_err() || !commits {
            return Err(ErrorKind::Rejected);
        }
        *self = after;
        Ok(())
    }

    /// Does a step, or says how it is refused.
    pub fn apply(&mut self, step: &Step) -> std::result::Result<(), ErrorKind> {
        match step {
            Step::Put { tube, has_key, terms } => self.put(*tube, *has_key, terms),
            Step::Again(task, terms) => return self.put_again(*task, terms),
            Step::Transact { puts, commits } => return self.transact(puts, *commits),
            Step::Advance { task, to, after, is_late } => {
                return self.advance(*task, (*to, after, *is_late));
            }
            Step::Truncate(tube) => self.truncate(*tube),
            Step::Complete(serial) => {
                let task = self.tasks.get_mut(serial).unwrap();
                task.state = State::Done;
                (task.open, task.met) = Default::default();
                self.end(*serial, End::Done);
            }
            Step::Bury(serial) => {
                let task = self.tasks.get_mut(serial).unwrap();
                // All of a delay that was requested counts.
                if task.state == State::Delayed {
                    task.life.iter_mut().for_each(|life| life.left += task.due - self.now);
                }
                task.state = State::Buried;
                self.end(*serial, End::Buried);
            }
            Step::Kick(serial) => {
                let task = self.tasks.get_mut(serial).unwrap();
                task.block(false, self.now);
                unblock(task);
            }
            Step::Delete { task, by_force } => {
                let is_done = self.tasks[task].state == State::Done;
                if !by_force && !is_done && self.tree(*task).len() > 1 {
                    return Err(ErrorKind::HasDependents);
                }
                self.remove(*task);
            }
            Step::Move(serial) => {
                let task = self.tasks.get_mut(serial).unwrap();
                task.live_again(None);
                task.tube = 1 - task.tube;
            }
            Step::Merge(tube) => {
                self.tasks.values_mut().for_each(|task| task.tube = 1 - tube);
            }
            Step::Depend(serial, (earlier, on), orphaned) => {
                let mut task = self.tasks[serial].clone();
                let edge = Edge { on: *on, orphaned: *orphaned };
                let is_cancelled = self.link(&mut task, *earlier, edge);
                if self.is_cycle(*serial, &task, [&(*earlier, *on)]) {
                    return Err(ErrorKind::Cycle);
                }
                match is_cancelled {
                    true => self.remove(*serial),
                    false => drop(self.tasks.insert(*serial, task)),
                }
            }
            Step::UndependAll(serial) => {
                let task = self.tasks.get_mut(serial).unwrap();
                (task.open, task.met) = Default::default();
                unblock(task);
            }
            Step::CancelTree(root) => {
                let tree = self.tree(*root);
                self.tasks.retain(|serial, _| !tree.contains(serial));
            }
            Step::Pass(by) => self.pass(self.now + by),
            Step::Checkpoint => {}
        }
        Ok(())
    }
}

impl Task {
    fn runs(&self) -> bool {
        matches!(self.state, State::Ready | State::Buried)
    }

    /// It waits for others, and for its delay.
    fn block(&mut self, is_late: bool, now: u64) {
        self.state = State::Blocked;
        (self.is_late, self.due) = (is_late, now + LATE.as_secs());
    }

    /// A put or a move: its ttl begins again.
    fn live_again(&mut self, given: Option<u64>) {
        let length = given.or(self.life.map(|life| life.length));
        self.life = length.map(|length| Life { left: length, length });
    }
}

/// A blocked task that waits for none goes on.
fn unblock(task: &mut Task) {
    if task.state == State::Blocked && task.open.is_empty() {
        task.state = if task.is_late { State::Delayed } else { State::Ready };
    }
}
