//! The leases of named consumers, some at a time, so that a reading of all of them holds the
//! engine's lock for no longer than one page. Changes nothing.

use crate::engine::context::{damaged, sound};
use crate::engine::description;
use crate::engine::query;
use crate::format::key::{self, of_owner_lease};
use crate::format::{Scan, Tag, View};
use crate::words::clock::Now;
use crate::words::error::Result;
use crate::words::limits::{SWEEP_TASKS, SWEEP_TUBES};
use crate::words::task::{TakenInfo, TaskId};

/// A place among the leases, which are in the order of tubes, then of consumers, then of tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OwnerLeasePlace {
    tube: u32,
    consumer: u32,
    task: u64,
}

/// Some leases, each with the number of its holder.
pub(crate) struct LeasePage {
    pub(crate) leases: Vec<(u32, TakenInfo)>,
    /// Where the next page begins; `None` after the last.
    pub(crate) next: Option<OwnerLeasePlace>,
}

/// The leases from a place on, of all consumers or of one. Damaged ones are left out.
pub(crate) fn page(
    view: &dyn View,
    now: Now,
    of: Option<u32>,
    from: OwnerLeasePlace,
) -> Result<LeasePage> {
    let mut leases = Vec::new();
    let mut tubes = Scan::through(key::tube(from.tube), &key::tube(u32::MAX));
    let mut tubes_left = SWEEP_TUBES;
    while let Some((met, _)) = tubes.next(view)? {
        let number = query::number_in(&met).ok_or_else(|| damaged("tube"))?;
        if tubes_left == 0 {
            let next = Some(OwnerLeasePlace { tube: number, ..OwnerLeasePlace::default() });
            return Ok(LeasePage { leases, next });
        }
        tubes_left -= 1;
        let Some(tube) = sound(query::tube(view, number))? else { continue };
        if view.count(tube.range(Tag::OwnerLease)) == 0 {
            continue;
        }
        let mut rows = match of {
            Some(consumer) => Scan::prefixed(key::leases_of(tube.run(), consumer)),
            None => Scan::over(tube.range(Tag::OwnerLease)),
        };
        if number == from.tube {
            rows.skip_to(key::owner_lease(tube.run(), from.consumer, TaskId::new(from.task)));
        }
        while let Some((met, _)) = rows.next(view)? {
            let (consumer, id) = of_owner_lease(&met).ok_or_else(|| damaged("lease"))?;
            if leases.len() >= SWEEP_TASKS {
                let next = Some(OwnerLeasePlace { tube: number, consumer, task: id.get() });
                return Ok(LeasePage { leases, next });
            }
            let at = key::taken(tube.run(), id);
            let Some(Some(row)) = sound(view.get(&at))? else { continue };
            if let Some(info) = sound(description::taken(view, &tube, &(at, Some(row)), now))? {
                leases.push((consumer, info));
            }
        }
    }
    Ok(LeasePage { leases, next: None })
}
