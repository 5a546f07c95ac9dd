//! The leases of named consumers, some at a time, so that a reading of all of them holds the
//! engine's lock for no longer than one page. Changes nothing.

use crate::engine::context::{damaged, sound};
use crate::engine::description;
use crate::engine::query;
use crate::format::key::{self, of_held};
use crate::format::{Scan, Tag, View};
use crate::words::clock::Now;
use crate::words::error::Result;
use crate::words::limits::{SWEEP_TASKS, SWEEP_TUBES};
use crate::words::task::{TakenInfo, TaskId};

/// A place among the leases, which are in the order of tubes, then of consumers, then of tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeldPlace {
    tube: u32,
    consumer: u32,
    task: u64,
}

/// Some leases, each with the number of its holder.
pub(crate) struct HeldPage {
    pub(crate) leases: Vec<(u32, TakenInfo)>,
    /// Where the next page begins; `None` after the last.
    pub(crate) next: Option<HeldPlace>,
}

/// The leases from a place on, of all consumers or of one. Damaged ones are left out.
pub(crate) fn page(
    view: &dyn View,
    now: Now,
    of: Option<u32>,
    from: HeldPlace,
) -> Result<HeldPage> {
    let mut leases = Vec::new();
    let mut tubes = Scan::through(key::tube(from.tube), &key::tube(u32::MAX));
    let mut tubes_left = SWEEP_TUBES;
    while let Some((met, _)) = tubes.next(view)? {
        let number = query::number_in(&met).ok_or_else(|| damaged("tube"))?;
        if tubes_left == 0 {
            let next = Some(HeldPlace { tube: number, ..HeldPlace::default() });
            return Ok(HeldPage { leases, next });
        }
        tubes_left -= 1;
        let Some(tube) = sound(query::tube(view, number))? else { continue };
        if view.count(tube.range(Tag::Held)) == 0 {
            continue;
        }
        let mut rows = match of {
            Some(consumer) => Scan::prefixed(key::held_by(tube.run(), consumer)),
            None => Scan::over(tube.range(Tag::Held)),
        };
        if number == from.tube {
            rows.skip_to(key::held(tube.run(), from.consumer, TaskId::new(from.task)));
        }
        while let Some((met, _)) = rows.next(view)? {
            let (consumer, id) = of_held(&met).ok_or_else(|| damaged("held"))?;
            if leases.len() >= SWEEP_TASKS {
                let next = Some(HeldPlace { tube: number, consumer, task: id.get() });
                return Ok(HeldPage { leases, next });
            }
            let at = key::taken(tube.run(), id);
            let Some(Some(row)) = sound(view.get(&at))? else { continue };
            if let Some(info) = sound(description::taken(view, &tube, &(at, Some(row)), now))? {
                leases.push((consumer, info));
            }
        }
    }
    Ok(HeldPage { leases, next: None })
}
