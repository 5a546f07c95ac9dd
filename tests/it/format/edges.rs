//! The edges between tasks, and the work on them: each has two rows that agree, and tasks say how
//! many they have.

use super::bytes::{Bytes, Read, ensure};
use super::rows::State;
use super::tasks::Stored;
use std::collections::BTreeMap;

/// Which end meets it, the policy, and the number of the tube of the other task.
pub(crate) type EdgeRow = (u8, u8, u32);

/// The earlier and the later task, and whether it is met.
type Edge = (u64, u64, bool);

#[derive(Default)]
pub(crate) struct Edges {
    /// The rows under the earlier tasks, and under the later ones.
    pub(crate) rows: [BTreeMap<Edge, EdgeRow>; 2],
    /// By kind and id: how the task of a cascade has ended, or the counts of a put.
    pub(crate) work: BTreeMap<(u8, u64), [u32; 3]>,
}

impl Bytes<'_> {
    pub(crate) fn edge(mut self) -> Read<EdgeRow> {
        let row = (self.u8()?, self.u8()?, self.u32()?);
        ensure((1..=3).contains(&row.0) && (1..=3).contains(&row.1), || format!("{row:?}"))?;
        self.end()?;
        Ok(row)
    }

    /// Work on edges.
    pub(crate) fn edge_work(mut self, kind: u8) -> Read<[u32; 3]> {
        let work = match kind {
            6 => {
                let ended = self.u8()?;
                ensure((1..8).contains(&ended), || format!("ended as {ended}"))?;
                let (tube, _from, buried_to) = (self.u32()?, self.u64()?, self.u64()?);
                let mut last = None;
                while self.end().is_err() {
                    let spared = Some(self.u64()?);
                    let is_told = ended & 2 != 0 && last < spared && spared < Some(buried_to);
                    ensure(is_told, || format!("{spared:?} after {last:?}"))?;
                    last = spared;
                }
                [u32::from(ended), tube, 0]
            }
            8 => [self.u32()?, self.u32()?, u32::from(self.flags(1)?)],
            _ => [0; 3],
        };
        self.end()?;
        Ok(work)
    }
}

impl Edges {
    pub(crate) fn agree(&self, tasks: &BTreeMap<(u32, u64), Stored>, is_all: bool) -> Read<()> {
        let [under_earlier, under_later] = &self.rows;
        let by_id: BTreeMap<u64, &Stored> = tasks.iter().map(|((_, id), it)| (*id, it)).collect();
        let mut counts: BTreeMap<(u64, usize), [u32; 2]> = BTreeMap::new();
        for (edge @ (earlier, later, met), row) in under_earlier {
            let other = under_later.get(edge);
            let same = other.is_some_and(|other| (other.0, other.1) == (row.0, row.1));
            ensure(same, || format!("edge {edge:?} is {row:?}, and {other:?}"))?;
            counts.entry((*earlier, 0)).or_default()[usize::from(*met)] += 1;
            counts.entry((*later, 1)).or_default()[usize::from(*met)] += 1;
            let goes = [7, 8].iter().any(|kind| self.work.contains_key(&(*kind, *later)));
            let is_there = by_id.contains_key(later) || goes || !is_all;
            ensure(is_there, || format!("edge {edge:?} to no task"))?;
            let told = *met || goes || self.work.contains_key(&(6, *earlier)) || !is_all;
            let stays = match by_id.get(earlier).map(|task| &task.state) {
                None => row.0 != 3 && row.1 == 1,
                Some(State::Done { .. }) => row.0 == 2 && row.1 == 1,
                Some(State::Buried { .. }) => row.0 == 1 && row.1 == 1,
                Some(_) => true,
            };
            ensure(told || stays, || format!("edge {edge:?} does not know of an end"))?;
        }
        ensure(under_earlier.len() == under_later.len(), || "edges without their others".into())?;
        for (id, task) in by_id {
            let mut is = [0, 1].map(|at| counts.get(&(id, at)).copied().unwrap_or_default());
            if self.work.contains_key(&(7, id)) {
                is[1] = [0; 2];
            }
            let said = task.progress.edges;
            ensure(is == said, || format!("edges of {id}: {is:?}, not {said:?}"))?;
            let (blocked, open) = (matches!(task.state, State::Blocked { .. }), is[1][0] > 0);
            let may_be_open = blocked || matches!(task.state, State::Buried { .. });
            let agrees = if open { may_be_open } else { !blocked };
            ensure(agrees, || format!("{id} is {:?} with {is:?}", task.state))?;
        }
        for ((_, id), work) in self.work.iter().filter(|((kind, _), _)| *kind == 8) {
            let is = counts.get(&(*id, 1)).copied().unwrap_or_default();
            ensure(is == [work[0], work[1]], || format!("the put of {id} counts {work:?}"))?;
        }
        Ok(())
    }
}
