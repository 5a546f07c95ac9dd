//! Rows that follow a change of options: after each step of the change, and after each verb between
//! two of them, all rows agree, and no step reads more than a sweep.

use super::edited::Played;
use super::mended::mend;
use super::{NOTHING, Rows};
use crate::engine::by_id::{Tool, Verb};
use crate::engine::context::Op;
use crate::engine::new_row::NewRow;
use crate::engine::settings::{ChangeSetting, Changed};
use crate::engine::settle::Settle;
use crate::engine::sweep::{FollowOptions, Sweep};
use crate::engine::take::{Claim, Delivery, Take, TakeGroup};
use crate::engine::tubes::Truncate;
use crate::format::row::{PendingGroups, PendingOptions, PendingSum, TubeRow};
use crate::format::{Tag, key, row};
use crate::words::clock::NEVER;
use crate::words::error::ErrorKind;
use crate::words::limits::SWEEP_TASKS;
use crate::words::options::TubeOptions;
use crate::words::retention::Retention;
use crate::words::setting::SettingValue;
use crate::words::task::{Reason, TaskId, Ticket};
use crate::words::verb::{Release, Verdict};
use std::collections::BTreeSet;

const BEGUN: Changed = Changed::Done { is_any: true, is_left: true };
/// The value is in force, and rows still follow.
const AGAIN: Changed = Changed::Done { is_any: false, is_left: true };

/// More than two sweeps.
const MANY: usize = 2 * SWEEP_TASKS + 9;

/// A tube "first" in which verbs come by chance.
struct Scene {
    played: Played,
    chance: u64,
    ids: Vec<TaskId>,
    in_hand: Vec<Ticket>,
}

/// The name of a group. The longer ones come later.
fn group(number: usize) -> String {
    format!("{}{number}", "x".repeat(number % 3))
}

fn buried() -> Reason {
    Reason::Buried("no".into())
}

impl Scene {
    fn new(options: TubeOptions, chance: u64) -> Self {
        let played = Played::of(options);
        Self { played, chance: chance * 0x9e37_79b9 + 1, ids: vec![], in_hand: vec![] }
    }

    fn again(&self) -> Self {
        let (ids, in_hand) = (self.ids.clone(), self.in_hand.clone());
        Self { played: self.played.again(), ids, in_hand, ..*self }
    }

    fn below(&mut self, most: usize) -> usize {
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        (self.chance % most as u64) as usize
    }

    fn set(&mut self, name: &str, value: impl Into<SettingValue>) -> Changed {
        let value = Some(&value.into());
        let changed = self.played.run(&ChangeSetting { owner: 1, name, value }).unwrap();
        self.agrees();
        changed
    }

    fn agrees(&self) {
        assert_eq!(self.played.rows.faults(), NOTHING);
    }

    fn row(&self) -> TubeRow {
        self.played.rows.tube("first").row
    }

    /// A verb that may be refused.
    fn tried<O: Op>(&mut self, op: &O) -> Option<O::Done> {
        match self.played.run(op) {
            Ok(done) => Some(done),
            Err(error) => {
                assert_ne!(error.kind(), ErrorKind::Damaged, "{error}");
                None
            }
        }
    }

    fn took(&mut self, handed: impl IntoIterator<Item = Delivery>) {
        self.in_hand.extend(handed.into_iter().map(|task| task.ticket()));
    }

    fn put(&mut self, group: Option<&str>) {
        let id = self.played.put(NewRow { group, payload: b"payload", ..NewRow::PLAIN });
        self.ids.push(id);
    }

    fn take(&mut self, most: usize) {
        let handed = self.played.run(&Take::new(1, most, 0)).unwrap();
        self.took(handed);
    }

    fn take_group(&mut self, group: &str) -> bool {
        let handed = self.tried(&TakeGroup { tube: 1, group, holder: 0 });
        let is_any = handed.as_ref().is_some_and(Option::is_some);
        self.took(handed.flatten());
        is_any
    }

    fn settle(&mut self, verdict: Verdict<'_>) {
        if self.in_hand.is_empty() {
            return;
        }
        let at = self.below(self.in_hand.len());
        let tickets = [self.in_hand.swap_remove(at)];
        self.tried(&Settle { tube: 1, tickets: &tickets, verdict });
    }

    fn tool(&mut self, verb: Verb<'_>) {
        let at = self.below(self.ids.len());
        self.tried(&Tool { tube: 1, id: self.ids[at], verb });
    }

    /// Some verb.
    fn go(&mut self, is_grouped: bool) {
        let name = group(self.below(MANY));
        match self.below(12) {
            0 => self.put(is_grouped.then_some(&name)),
            1 => self.take(1),
            2 | 3 if is_grouped => {
                self.take_group(&name);
            }
            4 => {
                let at = self.below(self.ids.len());
                let id = self.ids[at];
                let handed = self.tried(&Claim { tube: 1, id, holder: 0 });
                self.took(handed);
            }
            5 => self.settle(Verdict::Ack),
            6 => self.settle(Verdict::Release(Release::default())),
            7 => self.settle(Verdict::bury(buried())),
            8 => self.settle(Verdict::Lost),
            9 => self.tool(Verb::Kick),
            10 => self.tool(Verb::Delete { only_if: None, by_force: false }),
            _ => self.tool(Verb::Trash(buried())),
        }
        self.agrees();
    }

    /// One step of the change. Returns whether there was any.
    fn step(&mut self) -> bool {
        let before = self.played.rows.reads.get();
        let is_any = self.played.run(&FollowOptions { tube: Some(1) }).unwrap();
        let reads = self.played.rows.reads.get() - before;
        assert!(reads <= 12 * SWEEP_TASKS as u64, "{reads}");
        self.agrees();
        is_any
    }

    /// What the timer does. Returns whether there may be more.
    fn sweep(&mut self) -> bool {
        let swept = self.played.run(&Sweep).unwrap();
        let followed = self.played.run(&FollowOptions { tube: None }).unwrap();
        swept || followed
    }

    /// The other steps, with verbs between them. Returns how many they were.
    fn follow(&mut self, is_grouped: bool) -> usize {
        let mut steps = 0;
        loop {
            (0..5).for_each(|_| self.go(is_grouped));
            if !self.step() {
                break;
            }
            steps += 1;
        }
        assert_eq!(self.row().pending, PendingOptions::default());
        assert!(self.played.rows.keys(Tag::Work).is_empty());
        steps
    }

    /// Groups of which this many tasks are in flight, or up to two fewer, and others ready.
    fn grouped(in_flight: u32, chance: u64) -> Self {
        let mut scene = Self::new(TubeOptions::default().in_flight(in_flight), chance);
        for number in 0..MANY {
            (0..=in_flight + 1).for_each(|_| scene.put(Some(&group(number))));
        }
        scene.take(MANY * in_flight as usize);
        for _ in 0..MANY / 2 {
            scene.settle(Verdict::Release(Release::default()));
        }
        // Of each group one is in flight at least.
        for number in 0..MANY {
            scene.take_group(&group(number));
        }
        scene
    }

    /// Many finished and many buried tasks, and some others.
    fn ended(options: TubeOptions, chance: u64) -> Self {
        let mut scene = Self::new(options, chance);
        (0..2 * MANY + 9).for_each(|_| scene.put(None));
        scene.take(2 * MANY);
        for _ in 0..MANY {
            scene.settle(Verdict::Finish(b"result"));
            scene.settle(Verdict::bury(buried()));
        }
        scene
    }
}

#[test]
fn groups_follow_a_change_of_in_flight() {
    for (chance, (before, after)) in [(1, 3), (3, 1), (2, 4), (4, 2)].into_iter().enumerate() {
        let mut scene = Scene::grouped(before, chance as u64);
        let heads = scene.played.rows.keys(Tag::OpenHead).len();
        assert_eq!(scene.set("in_flight", i64::from(after)), BEGUN);
        let pending = scene.row().pending.groups.unwrap();
        assert_eq!(pending.before, before);
        assert_eq!(scene.set("in_flight", 9), Changed::NotYet, "one after the other");
        assert_eq!(scene.row().options.in_flight, after);
        assert_eq!(scene.set("priority", 3), Changed::ALL, "another option");
        assert_eq!(scene.set("in_flight", i64::from(after)), AGAIN, "it is set, not followed");
        let mut quiet = scene.again();
        let steps = (0..9).take_while(|_| quiet.step()).count();
        assert_eq!(steps, 2, "the op of the change does the first of three");
        let heads_after = quiet.played.rows.keys(Tag::OpenHead).len();
        assert_eq!(heads < heads_after, before < after);
        assert!(scene.follow(true) >= 2);
        assert_eq!(scene.row().options.in_flight, after);
        assert_ne!(scene.set("in_flight", 9), Changed::NotYet);
    }
}

/// Regression: each step came only to the end of a sweep, and a group or a task that came later was
/// waited for as well. So a tube in which more came than a step reads never ended a change.
#[test]
fn what_comes_after_a_change_follows_at_once() {
    let mut scene = Scene::grouped(1, 5);
    assert_eq!(scene.set("in_flight", 2), BEGUN);
    let mut later = 0..;
    let mut steps = 0;
    while scene.step() {
        steps += 1;
        for number in later.by_ref().take(SWEEP_TASKS + 9) {
            let name = format!("later {number:09}");
            scene.put(Some(&name));
            assert!(scene.take_group(&name));
        }
        let name = format!("later {:09}", 1);
        (0..2).for_each(|_| scene.put(Some(&name)));
        let taken = [scene.take_group(&name), scene.take_group(&name)];
        assert_eq!(taken, [steps == 1, false], "the new number");
        scene.agrees();
    }
    assert_eq!(steps, 2);

    let all = Retention::new().count(1 << 20);
    let mut scene = Scene::ended(TubeOptions::default().keep_finished(all), 6);
    assert_eq!(scene.set("keep_finished", all.bytes(1 << 40)), BEGUN);
    let mut steps = 0;
    while scene.step() {
        steps += 1;
        let before = kept(&scene.played.rows, Tag::Done).unwrap();
        (0..SWEEP_TASKS + 9).for_each(|_| scene.put(None));
        scene.take(2 * MANY);
        while !scene.in_hand.is_empty() {
            scene.settle(Verdict::Ack);
        }
        let added = kept(&scene.played.rows, Tag::Done).unwrap() - before;
        assert!(added >= (SWEEP_TASKS + 9) as u64 * 7, "{added}");
        scene.agrees();
    }
    assert_eq!(steps, 2);
}

#[test]
fn a_change_that_few_groups_follow_leaves_nothing() {
    let mut scene = Scene::new(TubeOptions::default(), 7);
    for number in 0..SWEEP_TASKS {
        (0..3).for_each(|_| scene.put(Some(&group(number))));
    }
    scene.take(MANY);
    for (after, heads) in [(2, SWEEP_TASKS), (1, 0), (3, SWEEP_TASKS)] {
        assert_eq!(scene.set("in_flight", after), Changed::ALL);
        assert_eq!(scene.played.rows.keys(Tag::OpenHead).len(), heads);
        assert_eq!(scene.row().pending, PendingOptions::default());
    }
    assert!(scene.played.rows.keys(Tag::Work).is_empty());
}

#[test]
fn a_sweep_and_a_truncate_end_a_change() {
    let mut scene = Scene::grouped(1, 5);
    assert_eq!(scene.set("in_flight", 2), BEGUN);
    let mut swept = scene.again();
    while swept.sweep() {
        swept.agrees();
    }
    assert!(swept.step() || swept.played.rows.keys(Tag::Work).is_empty());
    scene.played.run(&Truncate { tube: 1 }).unwrap();
    scene.agrees();
    assert_eq!(scene.row().pending, PendingOptions::default());
    scene.put(Some("a"));
    while scene.sweep() {
        scene.agrees();
    }
    assert!(scene.played.rows.keys(Tag::Work).is_empty());
}

/// The sum of the bytes that is stored of the tasks in the state of this tag.
fn kept(rows: &Rows, tag: Tag) -> Option<u64> {
    let kept = key::kept(rows.tube("first").run(), tag);
    rows.rows.get(&kept).map(|sum| row::read_number(sum.as_ref().unwrap()).unwrap())
}

#[test]
fn a_sum_of_bytes_follows_a_limit() {
    let many = Retention::new().count(1 << 20);
    for chance in 1..3 {
        let options = TubeOptions::default().keep_finished(many).keep_buried(many);
        let mut scene = Scene::ended(options, chance);
        assert_eq!(scene.set("keep_finished", many.bytes(1 << 40)), BEGUN);
        assert_eq!(scene.set("keep_buried", many.bytes(1 << 40)), BEGUN);
        let mut lost = scene.again();
        let mut quiet = scene.again();
        assert_eq!((0..9).take_while(|_| quiet.step()).count(), 4, "two for each");
        let sums = [Tag::Done, Tag::Buried].map(|tag| kept(&quiet.played.rows, tag));
        let (finished, failed) = (MANY as u64 * (7 + 6), MANY as u64 * 7);
        assert_eq!(sums, [Some(finished), Some(failed)]);
        assert!(scene.follow(false) >= 4);

        // Lost before all is summed.
        assert_eq!(lost.set("keep_finished", many), Changed::ALL);
        assert!(lost.row().pending.buried.is_some(), "the other goes on");
        assert_eq!(lost.set("keep_buried", many), Changed::ALL);
        assert_eq!([Tag::Done, Tag::Buried].map(|tag| kept(&lost.played.rows, tag)), [None; 2]);
        assert!(lost.played.rows.keys(Tag::Work).is_empty());
        assert_eq!(lost.set("keep_buried", many.bytes(1)), BEGUN);
        assert!(lost.follow(false) >= 2);
        let before = lost.played.rows.keys(Tag::Buried).len();
        lost.put(None);
        let last = lost.ids[lost.ids.len() - 1];
        lost.tried(&Tool { tube: 1, id: last, verb: Verb::Bury(buried()) });
        lost.agrees();
        assert!(lost.played.rows.keys(Tag::Buried).len() < before, "the limit is in force");
    }
}

/// Without an index of that state there is nothing to sum, and a tube that begins to keep tasks
/// sums those that it has.
#[test]
fn a_tube_that_keeps_tasks_again_sums_those_that_it_has() {
    let kept_all = Retention::new().count(1 << 20);
    let mut scene = Scene::ended(TubeOptions::default().keep_finished(kept_all), 3);
    assert_eq!(scene.set("keep_finished", SettingValue::Nothing), Changed::ALL);
    assert_eq!(scene.set("keep_finished", Retention::new().bytes(1 << 40)), BEGUN);
    assert!(scene.follow(false) >= 2);
    assert!(kept(&scene.played.rows, Tag::Done).is_some());
}

/// What a row says of the change may be wrong. The audit finds it by the rows that follow it, and
/// the repair makes them agree.
#[test]
fn a_wrong_place_of_a_change_is_found_and_mended() {
    let wrong_groups = |to: &str, before| PendingOptions {
        groups: Some(PendingGroups { before, to: to.to_owned(), until: "xxxxxxxxxxxxxx".into() }),
        ..PendingOptions::default()
    };
    let sums = |last: u64| PendingOptions {
        finished: Some(PendingSum {
            to: (last, TaskId::new(last)),
            until: (NEVER, TaskId::new(0)),
        }),
        ..PendingOptions::default()
    };
    let mut grouped = Scene::grouped(1, 2);
    assert_eq!(grouped.set("in_flight", 2), BEGUN);
    let many = Retention::new().count(1 << 20);
    let mut ended = Scene::ended(TubeOptions::default().keep_finished(many), 2);
    assert_eq!(ended.set("keep_finished", many.bytes(1 << 40)), BEGUN);
    let nothing = PendingOptions::default;
    let wrong = [
        (&grouped, wrong_groups("", 1)),
        (&grouped, wrong_groups("xxxxxxxxxxxxxx", 1)),
        (&grouped, wrong_groups("xx50", 7)),
        (&grouped, nothing()),
        (&ended, sums(0)),
        (&ended, sums(u64::MAX)),
        (&ended, nothing()),
    ];
    for (scene, pending) in wrong {
        let mut rows = scene.played.rows.clone();
        let row = TubeRow { pending: pending.clone(), ..scene.row() };
        rows.set(key::tube(1), row.encode());
        assert_ne!(rows.faults(), NOTHING, "{pending:?}");
        let steps = mend(&mut rows, &mut BTreeSet::new());
        assert_eq!(rows.faults(), NOTHING, "{pending:?}: {steps:?}");
    }
    // Its work was lost, or belongs to no change.
    let work = grouped.played.rows.keys(Tag::Work)[0].clone();
    let mut rows = grouped.played.rows.clone();
    let value = rows.rows.remove(&work).unwrap().unwrap();
    assert!(rows.faults()[0].contains("no sweep lets them"));
    mend(&mut rows, &mut BTreeSet::new());
    assert_eq!((rows.faults(), rows.rows.contains_key(&work)), (vec![], true));
    let mut plain = Played::of(TubeOptions::default()).rows;
    plain.set(work.clone(), value);
    assert!(plain.faults()[0].contains("in which no row has to follow"), "{:?}", plain.faults());
    mend(&mut plain, &mut BTreeSet::new());
    assert_eq!((plain.faults(), plain.rows.contains_key(&work)), (vec![], false));
}
