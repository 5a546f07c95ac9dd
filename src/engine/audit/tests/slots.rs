//! Slots of throttles whose tasks are damaged or gone.

use super::NOTHING;
use super::edited::Played;
use crate::engine::repair::Repair;
use crate::engine::slots::in_flight;
use crate::engine::sweep::Sweep;
use crate::engine::throttles::ReleaseSlots;
use crate::engine::tubes::Truncate;
use crate::format::Tag;
use crate::format::key::{self, Run};
use crate::words::error::DamagedRow;
use crate::words::task::{State, TaskId};
use crate::{Queue, TubeOptions};

/// A tube "first" with a taken task that holds a slot, and the run of the throttle.
fn held(is_temporary: bool) -> (Played, Run, TaskId) {
    let queue = Queue::builder().by_hand(true).in_memory().unwrap();
    queue.set_throttle("api", 1).unwrap();
    queue.set_throttle("else", 1).unwrap();
    let options = TubeOptions::default().throttle("api").temporary(is_temporary);
    let tube = queue.create_tube("first", options).unwrap();
    let id = tube.put(b"x").unwrap();
    tube.take().unwrap().detach();
    let played = Played::over(&queue);
    assert_eq!(in_flight(&played.rows, Run(1)), 1);
    (played, Run(1), id)
}

/// Regression: a damaged lease was repaired as one that holds no slot, and the slot was held for
/// ever. A call by force did not release it, either.
#[test]
fn a_damaged_lease_leaves_its_slots() {
    for is_temporary in [false, true] {
        for is_repaired in [true, false] {
            let (mut played, throttle, id) = held(is_temporary);
            let taken = played.rows.in_tube("first", Tag::Taken);
            played.rows.rows.insert(key::copy(&taken), None);
            if is_repaired {
                let row = DamagedRow { tube: played.tube, key: taken.as_slice().into() };
                played.run(&Repair::Row(row)).unwrap();
                assert_eq!(played.state(id), State::Buried);
                assert_eq!(played.rows.faults(), NOTHING);
            } else {
                let op = ReleaseSlots { throttle: "api", ids: &[id] };
                assert_eq!(played.run(&op).unwrap(), 1);
            }
            assert_eq!(in_flight(&played.rows, throttle), 0);
        }
    }
}

/// The sweep of a truncated tube finds the slots of a lease that is damaged.
#[test]
fn a_sweep_leaves_the_slots_of_a_damaged_lease() {
    for is_temporary in [false, true] {
        let (mut played, throttle, _) = held(is_temporary);
        let taken = played.rows.in_tube("first", Tag::Taken);
        played.rows.rows.insert(taken, None);
        let tube = played.tube;
        played.run(&Truncate { tube }).unwrap();
        while played.run(&Sweep).unwrap() {}
        assert_eq!(in_flight(&played.rows, throttle), 0);
        assert_eq!(played.rows.faults(), NOTHING);
    }
}
