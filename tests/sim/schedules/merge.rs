//! What becomes of tasks when the tube of their schedules is merged into another one: they move as
//! they stand, and the schedules stay.

use super::model::{Model, Said, Serial, Task};
use super::{KEEPS, SCHEDULES, TUBES};
use std::collections::BTreeMap;
use tubewell::{Overlap, State};

/// Where the tasks of the two tubes are after a merge, by their keys, in the order of their ids:
/// whether each is still in the first one. Done ones are left out.
pub type Places = Vec<(bool, String)>;

impl Model {
    /// Whether the documents say exactly what this merge does.
    pub fn foresees_merge(&self, from: usize, into: usize) -> bool {
        let (Some(number), Some(to)) = (self.tubes[from], self.tubes[into]) else { return false };
        let has_done = self.in_tube(number).any(|(_, task)| task.state == State::Done);
        // The other tube has no place for the finished ones, and they go with an end there.
        let is_kept = KEEPS[into] || !has_done;
        // A fire that deletes a task of a tube that is full is before or after a fire into it.
        let mut last = self.last_children(Overlap::Replace);
        let frees = last.any(|(tube, task)| tube != to && task.tube == number);
        from != into && is_kept && !(TUBES[into].1 > 0 && frees)
    }

    /// The last children that have not ended, of schedules that look for them, each with the tube
    /// of the schedule.
    fn last_children(&self, overlap: Overlap) -> impl Iterator<Item = (u64, &Task)> {
        let of = self.schedules.iter().filter(move |(no, _)| SCHEDULES[**no].overlap == overlap);
        of.filter_map(|(_, it)| Some((it.tube, &self.tasks[&self.alive(it)?])))
    }

    /// Whether the last child of a schedule that looks for it is in another tube than its fires:
    /// what is due in one of them is not done before a verb in the other.
    pub fn has_strangers(&self) -> bool {
        let mut overlaps = [Overlap::Skip, Overlap::Replace].into_iter();
        overlaps.any(|it| self.last_children(it).any(|(tube, task)| tube != task.tube))
    }

    /// Merges a tube into another one. A task whose key another one has there stays. Where there is
    /// no room it ends; which tasks have come by then is looked up, and judged if the merge ran in
    /// one go.
    pub fn merge(&mut self, (from, into): (usize, usize), places: &Places, is_whole: bool) -> Said {
        let [old, new] = [from, into].map(|tube| self.tubes[tube].unwrap());
        let serials = |number: u64| -> BTreeMap<String, Serial> {
            let of = self.in_tube(number).filter(|(_, task)| task.state != State::Done);
            of.map(|(serial, task)| (task.key.clone(), *serial)).collect()
        };
        let (mut come, there) = (serials(old), serials(new));
        let all = come.len();
        come.retain(|key, _| !there.contains_key(key));
        let clashed = (all - come.len()) as u64;
        let room = match TUBES[into].1 {
            0 => usize::MAX,
            most => most.saturating_sub(there.len()),
        };
        if come.len() <= room {
            let done = self.in_tube(old).filter(|(_, task)| task.state == State::Done);
            let come: Vec<_> = come.into_values().chain(done.map(|(serial, _)| *serial)).collect();
            let moved = come.len() as u64;
            come.iter().for_each(|serial| self.tasks.get_mut(serial).unwrap().tube = new);
            return Said::Merged { moved, clashed, is_stopped: false };
        }
        let place = |key: &String, is_left: bool| {
            places.iter().position(|(left, other)| *left == is_left && other == key)
        };
        let (left, moved): (BTreeMap<_, _>, BTreeMap<_, _>) =
            come.into_iter().partition(|(key, _)| place(key, true).is_some());
        let is_before = |(one, first): (&String, &Serial), (other, second): (&String, &Serial)| {
            let turns = (self.turn(*first), self.turn(*second));
            let needs = [first, second].map(|serial| self.tasks[serial].needs);
            // Ready tasks of the same gates stand in one line.
            let is_line = turns == (1, 1) && needs[0] == needs[1];
            turns.0 < turns.1
                || turns.0 == turns.1 && (!is_line || place(one, false) < place(other, true))
        };
        let is_in_order = moved.iter().all(|moved| left.iter().all(|left| is_before(moved, left)));
        if is_whole && !is_in_order {
            return Said::OutOfOrder(format!("{moved:?} came before {left:?}"));
        }
        let count = moved.len() as u64;
        moved.values().for_each(|serial| self.tasks.get_mut(serial).unwrap().tube = new);
        // It has not met all of those that clash.
        Said::Merged { moved: count, clashed: 0, is_stopped: count == room as u64 }
    }

    /// Leases come first, then ready tasks, then the others.
    fn turn(&self, serial: Serial) -> u8 {
        match self.tasks[&serial].state {
            State::Taken => 0,
            State::Ready => 1,
            _ => 2,
        }
    }
}
