//! Making and changing tubes. What concerns all tasks of a tube is a new run or a predicate in the
//! tube's row; sweeps do the rest.

use crate::bytes::extension::Extension;
use crate::bytes::key::{self, Run, Work};
use crate::bytes::row::{Counters, TubeRow, WorkRow};
use crate::bytes::{Tag, View, row};
use crate::engine::desk::{Desk, Op};
use crate::engine::look;
use crate::error::{Error, ErrorKind, Result};
use crate::name::tube_name;
use crate::numbers::Numbers;
use crate::options::TubeOptions;
use crate::task::TaskId;

/// Makes a tube, or finds it. Answers its number.
pub(crate) struct Create<'a> {
    pub(crate) name: &'a str,
    pub(crate) options: &'a TubeOptions,
    /// What to do if it is there.
    pub(crate) exists: Exists,
}

/// What `Create` does with a tube that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exists {
    /// Refuses.
    Refuse,
    /// Takes it, if kind and options are the same.
    Same,
    /// Takes it as it is.
    Any,
}

/// Removes a tube and its tasks.
pub(crate) struct Drop {
    pub(crate) tube: u32,
    /// Whether takers wait.
    pub(crate) awaited: bool,
    pub(crate) force: bool,
}

/// Removes a tube's tasks, in every state. Answers how many there were.
pub(crate) struct Truncate {
    pub(crate) tube: u32,
}

/// Keeps a tube's tasks from being taken, or not any more.
pub(crate) struct Pause {
    pub(crate) tube: u32,
    pub(crate) paused: bool,
}

/// Returns every taken task of a tube, whoever holds it.
pub(crate) struct ReleaseAll {
    pub(crate) tube: u32,
}

fn next_run(counters: &mut Counters, temporary: bool) -> Result<Run> {
    counters.run += 1;
    if counters.run >= Run::TEMPORARY {
        return Err(Error::new(ErrorKind::Invalid).because("2^31 tubes were made and truncated"));
    }
    Ok(Run(if temporary { counters.run | Run::TEMPORARY } else { counters.run }))
}

/// Has the rows of a run removed that belongs to no tube from now on.
fn clear(desk: &mut Desk<'_>, run: Run) -> Result<()> {
    desk.set_work(key::work(Work::Clear, run, TaskId::new(0)), WorkRow::default())
}

impl Op for Create<'_> {
    type Done = u32;

    fn tube(&self) -> Option<u32> {
        None
    }

    fn grows(&self) -> bool {
        true
    }

    fn decide(&self, desk: &mut Desk<'_>) -> Result<u32> {
        tube_name(self.name)?;
        self.options.check()?;
        if let Some(number) = look::tube_named(desk, self.name)? {
            let same = match self.exists {
                Exists::Refuse => return Err(Error::new(ErrorKind::TubeExists)),
                // As they are stored, where times are whole microseconds.
                Exists::Same => {
                    let row = &desk.tube(number)?.row;
                    let asked = TubeRow { options: self.options.clone(), ..row.clone() };
                    asked.encode() == row.encode()
                }
                Exists::Any => true,
            };
            return if same { Ok(number) } else { Err(Error::new(ErrorKind::TubeMismatch)) };
        }
        let mut counters = look::counters(desk)?;
        counters.tube = counters
            .tube
            .checked_add(1)
            .ok_or_else(|| Error::new(ErrorKind::Invalid).because("2^32 tubes were made"))?;
        let run = next_run(&mut counters, self.options.temporary)?;
        desk.set(key::meta(Counters::WHAT), counters.encode())?;
        desk.add(key::name(self.name), row::number(u64::from(counters.tube)));
        let tube = TubeRow {
            name: self.name.to_owned(),
            run,
            paused: false,
            void_to: 0,
            made_priority: self.options.priority,
            options: self.options.clone(),
            extension: Extension::default(),
        };
        desk.set_tube(counters.tube, tube)?;
        Ok(counters.tube)
    }
}

impl Op for Drop {
    type Done = ();

    fn tube(&self) -> Option<u32> {
        Some(self.tube)
    }

    fn decide(&self, desk: &mut Desk<'_>) -> Result<()> {
        let tube = desk.tube(self.tube)?;
        let taken = desk.count(tube.range(Tag::Taken));
        if !self.force && (self.awaited || taken > 0) {
            let text = if self.awaited {
                "takers wait".to_owned()
            } else {
                format!("{taken} tasks are taken")
            };
            return Err(Error::new(ErrorKind::TubeBusy).because(text));
        }
        desk.remove(key::name(&tube.row.name));
        desk.drop_tube(self.tube);
        clear(desk, tube.run())?;
        desk.wake_all(self.tube);
        Ok(())
    }
}

impl Op for Truncate {
    type Done = u64;

    fn tube(&self) -> Option<u32> {
        Some(self.tube)
    }

    fn decide(&self, desk: &mut Desk<'_>) -> Result<u64> {
        let tube = desk.tube(self.tube)?;
        let tasks = Tag::states().map(|tag| desk.count(tube.range(tag))).sum();
        let mut row = tube.row.clone();
        let mut counters = look::counters(desk)?;
        let old = row.run;
        row.run = next_run(&mut counters, old.is_temporary())?;
        desk.change(key::meta(Counters::WHAT), counters.encode());
        desk.set_tube(self.tube, row)?;
        // There is room now.
        desk.wake_all(self.tube);
        clear(desk, old)?;
        Ok(tasks)
    }
}

impl Op for Pause {
    type Done = ();

    fn tube(&self) -> Option<u32> {
        Some(self.tube)
    }

    fn decide(&self, desk: &mut Desk<'_>) -> Result<()> {
        let tube = desk.tube(self.tube)?;
        if tube.row.paused == self.paused {
            return Ok(());
        }
        let row = TubeRow { paused: self.paused, ..tube.row.clone() };
        desk.set_tube(self.tube, row)?;
        if !self.paused {
            desk.wake_all(self.tube);
        }
        Ok(())
    }
}

impl Op for ReleaseAll {
    type Done = ();

    fn tube(&self) -> Option<u32> {
        Some(self.tube)
    }

    fn numbers(&self) -> Numbers {
        Numbers::of_tokens(1)
    }

    fn decide(&self, desk: &mut Desk<'_>) -> Result<()> {
        let tube = desk.tube(self.tube)?;
        if desk.count(tube.range(Tag::Taken)) == 0 {
            return Ok(());
        }
        // Tokens only grow, so every lease given so far is below.
        let row = TubeRow { void_to: desk.token(), ..tube.row.clone() };
        desk.set_tube(self.tube, row)?;
        // One that is under way begins again: leases that it has passed by may be void now.
        let work = key::work(Work::Release, tube.run(), TaskId::new(0));
        let under_way = desk.first(&work, &key::after(&work))?.and_then(|(_, row)| row);
        let under_way = under_way.as_deref().and_then(WorkRow::decode).unwrap_or_default();
        desk.set_work(work, WorkRow { tube: self.tube, from: 0, ..under_way })
    }
}
