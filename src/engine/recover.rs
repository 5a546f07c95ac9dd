//! At open every lease is void: the lock on the folder proves that no holder is alive. Tasks of a
//! named consumer with grace stay taken, without a holder, until the stored end of its grace. In
//! bounded steps, proportional to what was taken. At close leases return too, uncharged.

use crate::bytes::key;
use crate::bytes::row::{ConsumerRow, TakenRow};
use crate::bytes::{Scan, Tag, View};
use crate::clock::NEVER;
use crate::engine::desk::{Desk, Op, damaged};
use crate::engine::index;
use crate::engine::known::Tube;
use crate::engine::stored::Task;
use crate::engine::{aside, consumers, settle};
use crate::error::Result;
use crate::limits::SWEEP_TASKS;
use crate::numbers::Numbers;
use crate::task::{Cause, TaskId};

/// Takes the word from every consumer that had it when the process ended, at open or at close.
/// A grace that nobody has begun begins now: when a killed process was last alive is not known,
/// its last record may be hours older.
pub(crate) struct Silence;

/// The consumers whose leases are to be returned now, and the number under which all have left.
pub(crate) struct Silenced {
    pub(crate) over: Vec<u32>,
    pub(crate) void_to: u64,
}

/// Returns the leases of one tube from an id on, at open or at close. Answers where to go on.
pub(crate) struct Return {
    pub(crate) tube: u32,
    pub(crate) from: TaskId,
    /// False at close: the attempt is given back.
    pub(crate) charged: bool,
}

impl Op for Silence {
    type Done = Silenced;

    fn tube(&self) -> Option<u32> {
        None
    }

    fn numbers(&self) -> Numbers {
        Numbers::of_tokens(1)
    }

    fn decide(&self, desk: &mut Desk<'_>) -> Result<Self::Done> {
        let mut over = Vec::new();
        let void_to = desk.token();
        for (number, row) in consumers::mended(desk)? {
            let mut silenced = ConsumerRow { void_to, ..row.clone() };
            if row.until == NEVER {
                silenced.until = desk.now.queue.saturating_add(row.grace).min(NEVER - 1);
            }
            if row.grace == 0 || silenced.until <= desk.now.queue {
                over.push(number);
            }
            desk.change(key::consumer(number), silenced.encode());
        }
        Ok(Silenced { over, void_to })
    }
}

impl Op for Return {
    type Done = Option<TaskId>;

    fn tube(&self) -> Option<u32> {
        None
    }

    fn decide(&self, desk: &mut Desk<'_>) -> Result<Self::Done> {
        let Some(tube) = desk.sound_tube(self.tube)? else { return Ok(None) };
        let range = tube.range(Tag::Taken);
        let mut rows = Scan::over(range);
        rows.skip_to(key::taken(tube.run(), self.from));
        let mut last = self.from;
        for _ in 0..SWEEP_TASKS {
            if desk.count(range) == 0 {
                return Ok(None);
            }
            let Some((met, row)) = rows.next(desk)? else { return Ok(None) };
            let id = key::id_of(&met).ok_or_else(|| damaged("taken"))?;
            last = id;
            // Whoever held a damaged one cannot settle it, nor come back for it.
            aside::with_lease(desk, &tube, (id, row), |desk, task, taken| {
                self.give_back(desk, &tube, task, taken)
            })?;
        }
        Ok(Some(TaskId::new(last.get().saturating_add(1))))
    }
}

impl Return {
    fn give_back(
        &self,
        desk: &mut Desk<'_>,
        tube: &Tube,
        task: &Task<'_>,
        taken: TakenRow,
    ) -> Result<()> {
        if !settle::is_voided(tube, &taken) && waits(desk, taken.holder)? {
            // Lease time starts again with each process, so its deadline means nothing.
            return match taken.deadline {
                NEVER => Ok(()),
                _ => index::suspend(desk, tube, task, taken),
            };
        }
        if self.charged {
            settle::give_back(desk, tube, task, taken, Cause::Lost)
        } else {
            settle::give_back_uncharged(desk, tube, task, taken, Cause::Close)
        }
    }
}

/// Whether a lease waits for its named consumer.
fn waits(desk: &Desk<'_>, holder: u32) -> Result<bool> {
    if holder == 0 {
        return Ok(false);
    }
    let Some(row) = desk.get(&key::consumer(holder))? else { return Ok(false) };
    let row = ConsumerRow::decode(&row).ok_or_else(|| damaged("consumer"))?;
    Ok(row.grace > 0 && row.until > desk.now.queue)
}
