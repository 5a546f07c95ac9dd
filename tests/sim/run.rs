//! Runs a script: gets the expected result of a step from the model, the result from the library,
//! and the verdict from the judge. Detects the end of the library's process, and starts the next
//! one.

use crate::disk::{Fault, SimDisk};
use crate::judge::{Judge, Silent};
use crate::model::{Model, Time};
use crate::step::*;
use crate::world::{LEASES_A_STEP, START, Verdict, World, is_trouble};
use std::collections::BTreeMap;
use tubewell::Durability;

/// Whether a call was for room, what has ended it, and whether it got what it waited for.
pub type Way = (bool, Over, bool);

pub struct Run {
    pub world: World,
    pub judge: Judge,
    serial: Serial,
    lease: LeaseNo,
    /// The steps done, for the report of a failure.
    pub trace: Vec<String>,
    /// How a process that ends in the middle of a step is followed.
    pub after_death: End,
    /// Ends of the process in the openings that follow an end, one after the other.
    pub deaths_in_recovery: Vec<u64>,
    pub crashes: u64,
    /// The calls at which planned ends came, the first one counted from the caller's plan, each
    /// other from the beginning of its recovery.
    pub deaths: Vec<u64>,
    /// Of the ends planned in recoveries, those that came only after the recovery.
    pub late_deaths: u64,
    /// How often calls that may wait have ended in each way.
    pub waits: BTreeMap<Way, u64>,
    /// What the clocks do between the next end and the opening after it.
    pub while_closed: Vec<Turn>,
}

impl Run {
    pub fn new(disk: Option<SimDisk>, durability: Durability) -> Self {
        let has_disk = disk.is_some();
        let world = World::new(disk, durability);
        let mut model = Model::new(Time::at(START));
        model.work_off_all();
        Self {
            world,
            judge: Judge::new(model, durability, has_disk),
            serial: 1,
            lease: 1,
            trace: Vec::new(),
            after_death: End::Kill,
            deaths_in_recovery: Vec::new(),
            crashes: 0,
            deaths: Vec::new(),
            late_deaths: 0,
            waits: BTreeMap::new(),
            while_closed: Vec::new(),
        }
    }

    /// The first opening; a planned end in it is followed like any other.
    pub fn open(&mut self) -> Verdict<()> {
        match self.world.open() {
            Ok(()) => Ok(()),
            Err(error) if self.is_struck(error.kind()) => self.recover(),
            Err(error) => Err(format!("the first opening: {error}")),
        }
    }

    fn is_dead(&self) -> bool {
        self.world.disk.as_ref().is_some_and(SimDisk::is_dead)
    }

    fn disk(&self) -> &SimDisk {
        self.world.disk.as_ref().expect("a run with faults has a disk")
    }

    fn pick(&self, step: &Step) -> Option<Picked> {
        let model = self.judge.now();
        let mut picked = Picked { serial: self.serial, lease: self.lease, ..Picked::default() };
        match step.plain() {
            Step::Advance { to, .. } | Step::Move { to, .. } | Step::UnfailInto { to, .. }
                if !self.world.has_tube(*to) =>
            {
                return None;
            }
            // Without a handle of its own no call is made, so nothing is due in the other tube.
            Step::Move { tube, .. } | Step::UnfailInto { tube, .. }
                if !self.world.has_tube(*tube) =>
            {
                return None;
            }
            Step::Claim { tube, task }
            | Step::KickOne { tube, task }
            | Step::BuryAny { tube, task }
            | Step::LogAny { tube, task }
            | Step::Tag { tube, task, .. }
            | Step::TrashAny { tube, task }
            | Step::Restore { tube, task }
            | Step::Delete { tube, task, .. }
            | Step::Finish { tube, task, .. }
            | Step::Update { tube, task, .. }
            | Step::Move { tube, task, .. }
            | Step::Peek { tube, task } => picked.task = model.task_at(*tube, *task),
            Step::Track { tube, task, .. } => picked.task = Some(model.task_at(*tube, task % ANY)?),
            Step::DeleteMany { tube, tasks } => {
                let tasks = tasks.iter().filter_map(|task| model.task_at(*tube, *task));
                picked.tasks = tasks.collect();
            }
            Step::Timeout { tube, tasks } => {
                let tasks = tasks.iter().filter_map(|task| model.task_at(*tube, *task));
                picked.tasks = tasks.collect();
            }
            Step::Callback { tube, .. } if !self.world.has_tube(*tube) => return None,
            Step::Wait(wait) if !self.world.has_tube(wait.tube) => return None,
            Step::Wait(wait) => {
                if let Then::Delete(task) | Then::Trash(task) = wait.then {
                    picked.task = Some(model.task_at(wait.tube, task % ANY)?);
                }
                picked.over = Some(model.foresee(step, &picked)?);
            }
            Step::DropGuard { lease } => {
                picked.leases.push(model.lease_at(*lease)?);
                if !self.world.has_guard(picked.leases[0]) {
                    return None;
                }
            }
            Step::Ack { lease }
            | Step::AckWith { lease }
            | Step::Release { lease, .. }
            | Step::Retry { lease, .. }
            | Step::Bury { lease, .. }
            | Step::Fail { lease }
            | Step::Trash { lease }
            | Step::Advance { lease, .. }
            | Step::Touch { lease, .. }
            | Step::Renew { lease }
            | Step::Log { lease }
            | Step::Report { lease, .. }
            | Step::RenewFor { lease, .. }
            | Step::Detach { lease } => picked.leases.push(model.lease_at(*lease)?),
            Step::AckMany { leases } => {
                let mut all: Vec<_> = leases.iter().filter_map(|at| model.lease_at(*at)).collect();
                all.sort_unstable();
                all.dedup();
                // One call is about one tube, and consumes the guards.
                let tube = all.first().and_then(|no| model.tube_of(*no));
                all.retain(|no| self.world.has_guard(*no) && model.tube_of(*no) == tube);
                picked.leases = if tube.is_some() { all } else { Vec::new() };
            }
            Step::Adopt { who, .. }
                if self.world.has_adopted()
                    || !model.has_session(*who)
                    || !self.world.has_consumer(*who) =>
            {
                return None;
            }
            Step::TakeOver { .. } if !self.world.has_adopted() => return None,
            Step::Leave { who } if self.world.is_adopted(*who) => {}
            Step::Join { who, .. }
            | Step::Leave { who }
            | Step::CloseConsumer { who }
            | Step::Deregister { who }
                if self.world.is_kept_open(*who) =>
            {
                return None;
            }
            Step::TakeBy { who, .. }
            | Step::Resume { who, .. }
            | Step::Leave { who }
            | Step::CloseConsumer { who }
                if !model.has_session(*who) || !self.world.has_consumer(*who) =>
            {
                return None;
            }
            Step::EndCheckpoint if !self.world.is_beside() => return None,
            // These wait for its end, and the script must end it.
            Step::BeginCheckpoint { .. }
            | Step::Checkpoint
            | Step::Compact
            | Step::Transact { .. }
                if self.world.is_beside() =>
            {
                return None;
            }
            Step::PutMany { count, .. } | Step::PutAll { count, .. }
                if self.world.is_beside() && *count > 2 =>
            {
                return None;
            }
            Step::Batch { tasks, .. } if self.world.is_beside() && tasks.len() > 2 => return None,
            Step::Transact { leases, .. } => {
                let mut all: Vec<_> = leases.iter().filter_map(|at| model.lease_at(*at)).collect();
                all.sort_unstable();
                all.dedup();
                all.retain(|no| self.world.has_guard(*no));
                picked.leases = all;
            }
            _ => {}
        }
        (!model.is_open(step, &picked)).then_some(picked)
    }

    /// Whether it puts a payload that the ring has no room for beside a blocked checkpoint.
    fn puts_long(&self, step: &Step) -> bool {
        let count = match step {
            Step::Put { .. } | Step::Bring { .. } | Step::Move { brings: true, .. } => 1,
            Step::PutMany { count, .. } | Step::PutAll { count, .. } => u64::from(*count),
            Step::Batch { tasks, .. } => tasks.len() as u64,
            _ => 0,
        };
        (self.serial..self.serial + count).any(|serial| payload(serial).len() > 10_000)
    }

    pub fn step(&mut self, step: &Step) -> Verdict<()> {
        let is_tight = || self.world.is_tight() || self.puts_long(step);
        if self.world.is_beside() && *step != Step::EndCheckpoint && is_tight() {
            self.step(&Step::EndCheckpoint)?;
        }
        let Some(picked) = self.pick(step) else { return Ok(()) };
        self.serial += 8;
        self.lease += LEASES_A_STEP;
        if let Step::Reopen(end) = step {
            return self.reopen(*end);
        }
        let mut guards = picked.leases.clone();
        guards.retain(|lease| self.world.has_guard(*lease));
        let answer = self.world.run(step, &picked)?;
        guards.retain(|lease| !self.world.has_guard(*lease));
        self.trace.push(format!("{step:?} {:?} {:?} -> {answer:?}", picked.task, picked.leases));
        if let (Step::Wait(wait), Answer::Waited(waited)) = (step, &answer) {
            let is_served =
                !matches!(waited.got, Answer::Refused(_)) && waited.got != Answer::Took(vec![]);
            let way = (wait.what != Awaited::Task, waited.over, is_served);
            *self.waits.entry(way).or_default() += 1;
        }
        let trouble = matches!(answer, Answer::Refused(kind) if is_trouble(kind));
        if self.is_dead() {
            // The drop of a guard returns no error when it cannot write.
            if trouble || matches!(step, Step::DropGuard { .. } | Step::Leave { .. }) {
                self.judge.unanswered(step, &picked);
            } else {
                self.judge.answered(step, &picked, &answer)?;
            }
            return self.recover();
        }
        let is_silent = matches!(step, Step::DropGuard { .. } | Step::Leave { .. });
        // A queue that an earlier call has broken refuses it as well.
        if trouble || is_silent && self.strikes() > 0 {
            return self.in_trouble(step, &picked, &guards);
        }
        self.judge.answered(step, &picked, &answer)?;
        if *step == Step::Look { self.look() } else { Ok(()) }
    }

    pub fn look(&mut self) -> Verdict<()> {
        match self.world.look()? {
            Ok(seen) => self.judge.looked(&seen)?,
            Err(error) => return self.after_trouble(error.kind()),
        }
        Ok(())
    }

    /// The disk refused a call and the process still runs. If the queue goes on, nothing happened;
    /// if it is broken, opening it again decides.
    fn in_trouble(&mut self, step: &Step, picked: &Picked, guards: &[LeaseNo]) -> Verdict<()> {
        if !self.is_planned() {
            return Err(format!("no failing disk explains what {step:?} answered"));
        }
        self.judge.unanswered(step, picked);
        if !guards.is_empty() {
            self.judge.dropped(guards);
        }
        let silent = match step {
            Step::Leave { .. } | Step::CloseConsumer { .. } | Step::Deregister { .. } => {
                Some(Silent::Session)
            }
            _ => (!guards.is_empty()).then_some(Silent::Drop),
        };
        match (self.world.look()?, silent) {
            (Ok(seen), Some(how)) => self.judge.looked_either(&seen, how),
            (Ok(seen), None) => self.judge.looked(&seen),
            (Err(error), _) => self.after_trouble(error.kind()),
        }
    }

    fn after_trouble(&mut self, kind: tubewell::ErrorKind) -> Verdict<()> {
        if !self.is_struck(kind) {
            return Err(format!("no failing disk explains {kind:?}"));
        }
        self.recover()
    }

    /// Checks that the files and rows agree; reads both files.
    pub fn check(&mut self) -> Verdict<()> {
        // It would wait for the running checkpoint.
        self.step(&Step::EndCheckpoint)?;
        match self.world.check()? {
            Ok(()) => Ok(()),
            Err(error) if self.is_struck(error.kind()) => self.recover(),
            Err(error) => Err(format!("check: {error}")),
        }
    }

    fn reopen(&mut self, end: End) -> Verdict<()> {
        self.trace.push(format!("reopen after {end:?}"));
        let closed = self.world.end(end);
        if end == End::Close && (self.is_dead() || closed.is_err()) {
            self.judge.ended(End::Close);
            return self.recover();
        }
        if end == End::Close {
            self.judge.closed()
        } else {
            self.judge.ended(end)
        }
        self.open_again(true)
    }

    fn strikes(&self) -> u64 {
        self.world.disk.as_ref().map_or(0, SimDisk::strikes)
    }

    /// Whether a planned fault explains the result.
    fn is_struck(&self, kind: tubewell::ErrorKind) -> bool {
        self.is_dead() || self.is_planned() && is_trouble(kind)
    }

    fn is_planned(&self) -> bool {
        self.world.disk.as_ref().is_some_and(SimDisk::is_planned)
    }

    /// Ends a process that has died or is broken; the next one has a good disk.
    fn replace(&mut self) {
        self.crashes += 1;
        if self.is_dead() {
            self.deaths.push(self.disk().syncs().len() as u64);
        }
        let _ = self.world.end(self.after_death);
        self.judge.ended(self.after_death);
        self.disk().plan(Fault::None);
    }

    fn recover(&mut self) -> Verdict<()> {
        self.trace.push(format!("died; {:?}", self.after_death));
        self.replace();
        self.open_again(false)
    }

    fn open_again(&mut self, mut in_one_go: bool) -> Verdict<()> {
        for turn in std::mem::take(&mut self.while_closed) {
            self.world.turn(&turn);
            self.judge.turned(&turn);
        }
        loop {
            // A fault that has not struck yet comes first; these are for the recovery from it.
            if !self.is_planned() && !self.deaths_in_recovery.is_empty() {
                in_one_go = false;
                let at = self.deaths_in_recovery.remove(0);
                self.disk().plan(Fault::Die(at));
                let opened = self.world.open();
                if !self.is_dead() {
                    // It finished before the planned end; end here.
                    opened.map_err(|error| format!("opening again: {error}"))?;
                    self.late_deaths += 1;
                }
                self.trace.push("died in the recovery".into());
                self.replace();
                continue;
            }
            let seen = match self.world.open() {
                Ok(()) => self.world.look()?,
                Err(error) => Err(error),
            };
            match seen {
                Ok(seen) => {
                    let world = &self.world;
                    self.judge.reopened(&seen, in_one_go, |lease| world.knows(lease))?;
                    return self.check();
                }
                Err(error) if self.is_struck(error.kind()) => {
                    self.trace.push(format!("the opening failed: {error}"));
                    in_one_go = false;
                    self.replace();
                }
                Err(error) => return Err(format!("opening again: {error}")),
            }
        }
    }

    pub fn play(&mut self, steps: &[Step]) -> Verdict<()> {
        steps.iter().try_for_each(|step| self.step(step))
    }
}
