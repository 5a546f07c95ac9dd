//! Random runs of the merged view compared with one ordered map: layers, checkpoints in all stages,
//! refused writes, kills, power cuts and reopenings.

use super::disk::{Dice, Plan, SimDisk};
use super::*;
use crate::format::{Range, Tag};
use crate::store::base::Base;
use crate::store::checkpoint::Checkpoint;
use std::collections::BTreeMap;

type Map = BTreeMap<Key, Vec<u8>>;

struct Run_ {
    disk: SimDisk,
    store: Store,
    map: Map,
    /// The map after each record since the last that is known to be synced.
    history: Vec<(u64, Map)>,
    checkpoint: Option<Checkpoint>,
    renewed: Option<Base>,
    dice: Dice,
}

fn some_key(dice: &mut Dice) -> Key {
    let tag = [0x03, 0x12, 0x12, 0x12, 0x19, 0x10][dice.below(6) as usize];
    let mut key = Key::from_slice(&[tag]);
    if tag >= 0x10 {
        key.extend_from_slice(&(1 + dice.below(2) as u32).to_be_bytes());
    }
    key.push(dice.below(40) as u8);
    key
}

impl Run_ {
    fn write(&mut self) {
        let mut writes = Vec::new();
        let mut map = self.map.clone();
        if self.dice.one_in(32) {
            self.write_many(&mut map, &mut writes);
        }
        for _ in 0..1 + self.dice.below(4) {
            let key = some_key(&mut self.dice);
            if writes.iter().any(|write: &RowWrite| write.key == key) {
                continue;
            }
            let value = self.dice.roll().to_be_bytes()[..self.dice.below(9) as usize].to_vec();
            let op = match (map.contains_key(&key), self.dice.below(3)) {
                (true, 0) => RowOp::Change(Value::from(value.as_slice())),
                (true, _) => RowOp::Remove,
                (false, _) => RowOp::Add(Value::from(value.as_slice())),
            };
            match op {
                RowOp::Remove => map.remove(&key),
                _ => map.insert(key.clone(), value),
            };
            writes.push(RowWrite { key, op });
        }
        // Sometimes the disk refuses the writes; then the dead ranges must not have changed.
        let refused = self.dice.one_in(8);
        if refused {
            self.disk.plan(0, Plan::FailOnce);
        }
        match append(&mut self.store, &mut writes) {
            Err(StoreFailure::Refused(_)) if refused => {}
            Ok(number) => {
                self.map = map;
                self.history.push((number, self.map.clone()));
            }
            Err(StoreFailure::NoRoom) => {
                self.disk.no_plan();
                self.finish_checkpoint();
                self.store.checkpoint().unwrap();
            }
            Err(failure) => panic!("{failure:?}"),
        }
        self.disk.no_plan();
    }

    /// Adds a hundred rows beside one another, as a batch does, or removes as many.
    fn write_many(&mut self, map: &mut Map, writes: &mut Vec<RowWrite>) {
        let first = some_key(&mut self.dice);
        if self.dice.one_in(2) {
            let last = Range::holding(&first).unwrap().end();
            let keys: Vec<Key> = map.range(first..last).map(|(key, _)| key.clone()).collect();
            for key in keys.into_iter().take(100) {
                map.remove(&key);
                writes.push(RowWrite { key, op: RowOp::Remove });
            }
            return;
        }
        for number in 0..100 {
            let mut key = first.clone();
            key.push(number);
            if !map.contains_key(&key) {
                map.insert(key.clone(), vec![number]);
                writes.push(RowWrite { key, op: RowOp::Add(Value::from([number])) });
            }
        }
    }

    fn finish_checkpoint(&mut self) {
        if let Some(mut checkpoint) = self.checkpoint.take() {
            if checkpoint.txn.is_none() {
                checkpoint.begin().unwrap();
            }
            while checkpoint.step(7).unwrap() {}
            self.renewed = Some(checkpoint.commit().unwrap());
        }
        if let Some(renewed) = self.renewed.take() {
            drop(self.store.renew(renewed));
        }
    }

    fn move_checkpoint(&mut self) {
        match (&mut self.checkpoint, self.renewed.take(), self.dice.below(3)) {
            (None, None, _) => self.checkpoint = self.store.freeze().unwrap(),
            (_, Some(renewed), _) => drop(self.store.renew(renewed)),
            (Some(checkpoint), _, _) if checkpoint.txn.is_none() => checkpoint.begin().unwrap(),
            (Some(checkpoint), _, 0) => {
                checkpoint.step(3).unwrap();
            }
            (Some(_), _, 1) => {
                // Abandoned in the middle.
                let failed = self
                    .checkpoint
                    .take()
                    .unwrap()
                    .failed(Error::new(crate::words::error::ErrorKind::Io));
                self.store.checkpoint_failed(failed).unwrap_err();
            }
            _ => {
                let mut checkpoint = self.checkpoint.take().unwrap();
                while checkpoint.step(5).unwrap() {}
                self.renewed = Some(checkpoint.commit().unwrap());
            }
        }
    }

    fn look(&mut self) {
        let (a, b) = (some_key(&mut self.dice), some_key(&mut self.dice));
        let (from, to) = if a <= b { (a, b) } else { (b, a) };
        let to = match self.dice.below(3) {
            0 => to,
            1 => Range::holding(&from).unwrap().end(),
            _ => Range::of(Tag::of(from[0]).unwrap()).end(),
        };
        let expected = self.map.range(from.clone()..to.clone()).next();
        let found = self.store.first(&from, &to).unwrap();
        assert_eq!(
            found.map(|(key, value)| (key, value.unwrap().to_vec())),
            expected.map(|(key, value)| (key.clone(), value.clone())),
            "first {from:?} {to:?}"
        );
        let key = some_key(&mut self.dice);
        let found = self.store.get(&key).unwrap().map(|value| value.to_vec());
        assert_eq!(found.as_ref(), self.map.get(&key));
        let range = Range::holding(&key).unwrap();
        let count = self.map.keys().filter(|key| Range::holding(key) == Some(range)).count();
        assert_eq!(self.store.count(range), count as u64);
    }

    fn reopen(self) -> Self {
        let Self { disk, mut store, mut map, mut history, checkpoint, renewed, mut dice } = self;
        match dice.below(4) {
            0 => {
                drop(checkpoint);
                if let Some(renewed) = renewed {
                    drop(store.renew(renewed));
                }
                store.close().unwrap();
            }
            1 => {
                disk.kill();
                drop((checkpoint, renewed, store));
            }
            _ => {
                let synced = store.journal().unwrap().synced();
                disk.power_cut();
                drop((checkpoint, renewed, store));
                history.retain(|(number, _)| *number >= synced);
                let opened = open(&disk).unwrap();
                // A prefix survives, at least up to the last sync.
                let rows: Map = all(&opened).into_iter().collect();
                let survived = history.iter().rev().find(|(_, map)| *map == rows);
                map = survived.expect("a state that never existed").1.clone();
                store = opened;
                let history = vec![(store.written(), map.clone())];
                return Self { disk, store, map, history, checkpoint: None, renewed: None, dice };
            }
        }
        let store = open(&disk).unwrap();
        let history = vec![(store.written(), map.clone())];
        Self { disk, store, map, history, checkpoint: None, renewed: None, dice }
    }
}

fn run(seed: u64, steps: u64) {
    let disk = SimDisk::new(seed);
    let store = open(&disk).unwrap();
    let history = vec![(store.written(), Map::new())];
    let dice = Dice(seed);
    let map = Map::new();
    let mut run = Run_ { disk, store, map, history, checkpoint: None, renewed: None, dice };
    for _ in 0..steps {
        match run.dice.below(64) {
            0..=27 => run.write(),
            28..=51 => run.look(),
            52..=59 => run.move_checkpoint(),
            60 => {
                sync(&run.store).unwrap();
            }
            61 => {
                run.finish_checkpoint();
                checked(&mut run.store);
            }
            62 => {
                let mut faults = Vec::new();
                let mut report = |fault: String| faults.push(fault);
                run.store.check(&mut report, |_, _| Ok(())).unwrap();
                faults.retain(|fault| !fault.contains("in use"));
                assert_eq!(faults, Vec::<String>::new());
            }
            _ => run = run.reopen(),
        }
    }
    assert_eq!(all(&run.store), run.map.into_iter().collect::<Vec<_>>());
}

#[test]
fn the_merged_view_is_one_map() {
    seeds(150).for_each(|seed| run(seed, 600));
}
