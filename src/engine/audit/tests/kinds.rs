//! Repairs of tasks with a kind in a tube with an index of kinds: the row of the index is the only
//! one that still says the kind, and stays.

use super::NOTHING;
use super::edited::Played;
use crate::api::queue::Queue;
use crate::engine::description;
use crate::engine::query;
use crate::engine::repair::Repair;
use crate::format::{Tag, key};
use crate::words::error::DamagedRow;
use crate::words::options::TubeOptions;
use crate::words::task::State;

#[test]
fn a_task_whose_own_row_is_damaged_keeps_its_kind() {
    for (kind, indexed) in [(Some("mail"), true), (Some("mail"), false), (None, true)] {
        for payload in [vec![7; 5], vec![7; 5000]] {
            let queue = Queue::builder().by_hand(true).in_memory().unwrap();
            let options = TubeOptions::default().index_kinds(indexed);
            let tube = queue.create_tube("first", options).unwrap();
            tube.kind("another").put(b"x").unwrap();
            let task = tube.task(&payload);
            let id = kind.map_or(tube.task(&payload), |kind| task.kind(kind)).put().unwrap();
            tube.bury(id, "no").unwrap();
            tube.kick_task(id).unwrap();
            let mut played = Played::over(&queue);
            let of_task = |tags: &[Tag]| {
                let mut keys = tags.iter().flat_map(|tag| played.rows.keys(*tag));
                keys.find(|key| key::id_of(key) == Some(id)).unwrap()
            };
            let (own, state) = (of_task(&[Tag::Task]), of_task(&[Tag::Ready]));
            played.rows.rows.insert(own, None);
            assert_ne!(played.rows.faults(), NOTHING);
            let row = DamagedRow { tube: played.tube, key: state.as_slice().into() };
            played.run(&Repair::Row(row)).unwrap();
            assert_eq!(played.state(id), State::Buried);
            // How long a payload in a damaged row was is not known.
            let mut faults = played.rows.faults();
            faults.retain(|line| !line.contains("payload bytes"));
            assert_eq!(faults, NOTHING);
            let tube = query::tube(&played.rows, played.tube).unwrap();
            let now = super::edited::NOW;
            let found = description::info(&played.rows, &tube, id, now).unwrap().summary;
            assert_eq!(found.kind.as_deref(), kind.filter(|_| indexed));
        }
    }
}
