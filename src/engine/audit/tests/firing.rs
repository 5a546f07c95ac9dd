//! Fires over rows of which some are damaged or of another build, and how much one sweep makes.

use super::NOTHING;
use super::edited::Played;
use crate::engine::due::WorkOff;
use crate::engine::new_row::NewRow;
use crate::engine::schedule_verbs::{MakeSchedule, PauseSchedule, RemoveSchedule, ScheduleTerms};
use crate::engine::schedules::{self, StoredSchedule};
use crate::format::key;
use crate::format::row::{ChildTerms, FiringRow, ScheduleRow};
use crate::words::clock::Now;
use crate::words::limits::SWEEP_TASKS;
use crate::words::options::TubeOptions;
use crate::words::schedule::{Missed, Overlap, Timing};
use std::cell::Cell;

/// A schedule with 7 children that is due.
fn due(timing: Timing, bytes: usize) -> Played {
    let mut played = Played::of(TubeOptions::default());
    let row = ScheduleRow {
        tube: played.tube,
        tube_name: "first".into(),
        timing,
        offset: 0,
        missed: Missed::CatchUp(u32::MAX),
        overlap: Overlap::Allow,
        created: 0,
        codec: NewRow::PLAIN.codec,
        version: NewRow::PLAIN.version,
        child: ChildTerms::default(),
        payload: vec![7; bytes],
    };
    let firing = FiringRow { children: 7, ..FiringRow::first(500) };
    let stored = StoredSchedule { row, firing };
    let rows = &mut played.rows;
    rows.set(key::schedule("s"), stored.row.encode());
    rows.set(key::firing("s"), stored.firing.encode());
    rows.set(stored.fire_key("s"), stored.firing.encode());
    let mut tube = rows.tube("first");
    tube.row.schedules = 1;
    rows.set(key::tube(tube.number), tube.row.encode());
    assert_eq!(played.rows.faults(), NOTHING);
    played
}

/// Whether more is due after a sweep, and whether it has made a child.
fn work_off(played: &mut Played) -> (bool, bool) {
    let work = WorkOff { has_fired: Cell::new(false), ..WorkOff::of_dropped(played.tube) };
    let more = played.run(&work).unwrap();
    (more, work.has_fired.get())
}

fn firing(played: &Played) -> FiringRow {
    schedules::named(&played.rows, "s").unwrap().firing
}

#[test]
fn a_copy_at_the_next_fire_stands_in_for_a_damaged_row() {
    for planted in [None, Some(FiringRow::first(1).encode()[..9].into())] {
        let mut played = due(Timing::Every(1_000), 1);
        played.rows.rows.insert(key::firing("s"), planted);
        assert_eq!(work_off(&mut played), (false, true));
        let firing = firing(&played);
        assert_eq!((firing.children, firing.next, firing.is_fresh), (8, 1_500, false));
        assert_eq!(played.rows.faults(), NOTHING);
    }
    // Without a copy nothing is made, and a repair pauses it.
    let mut played = due(Timing::Every(1_000), 1);
    played.rows.rows.insert(key::firing("s"), None);
    let at = schedules::of_copy(&played.rows, "s", Some(&FiringRow::first(500).encode()));
    let at = at.unwrap().unwrap().fire_key("s");
    played.rows.rows.insert(at.clone(), None);
    assert_eq!(work_off(&mut played), (false, false));
    assert!(!played.rows.rows.contains_key(&at));
}

/// The count of its tube, and the row of one that is paused, went along with what could be read.
#[test]
fn one_that_has_lost_how_far_it_has_come_is_made_again_and_removed() {
    let terms = |played: &Played| ScheduleTerms {
        tube: Some((played.tube, "first".to_owned())),
        every: Some(1_000),
        ..ScheduleTerms::default()
    };
    for is_paused in [false, true] {
        let lost = || {
            let mut played = due(Timing::Every(1_000), 1);
            let pause = PauseSchedule { tube: None, name: "s", is_paused };
            assert_eq!(played.run(&pause).unwrap(), is_paused);
            played.rows.rows.insert(key::firing("s"), None);
            played
        };
        let counted = |played: &Played| played.rows.tube("first").row.schedules;
        let mut played = lost();
        let terms = terms(&played);
        assert!(played.run(&MakeSchedule { name: "s", terms: &terms }).unwrap());
        assert_eq!(counted(&played), 1);
        let (page, _) =
            schedules::page_of_tube(&played.rows, played.tube, None, 9, Now::FIRST).unwrap();
        assert_eq!(page.len(), 1, "what is left of it is not listed");
        let mut gone = lost();
        assert!(gone.run(&RemoveSchedule { tube: None, name: "s" }).unwrap());
        assert_eq!(counted(&gone), 0);
        // The row of one that was not paused goes when it is due.
        for mut played in [played, gone] {
            work_off(&mut played);
            assert_eq!(played.rows.faults(), NOTHING);
        }
    }
}

/// Long payloads count, so that a sweep writes a few hundred kilobytes.
#[test]
fn a_sweep_makes_few_children_with_long_payloads() {
    let mut played = due(Timing::Every(1), 1);
    assert_eq!(work_off(&mut played), (true, true));
    assert_eq!(firing(&played).children, 7 + SWEEP_TASKS as u64);
    let mut played = due(Timing::Every(1), 16 << 10);
    assert_eq!(work_off(&mut played), (true, true));
    assert_eq!(firing(&played).children, 7 + SWEEP_TASKS.div_ceil(5) as u64);
}

/// A text of a later version: its next fire stands, and nothing is due.
#[cfg(feature = "cron")]
#[test]
fn a_text_that_cannot_be_read_stands_still() {
    let text = || "every full moon".to_owned();
    let mut played = due(Timing::Cron { text: text(), zone: "UTC".to_owned() }, 1);
    assert_eq!(work_off(&mut played), (false, false));
    let stands = firing(&played);
    assert_eq!((stands.next, stands.is_refused, stands.missed), (500, true, 0));
    assert_eq!(played.rows.faults(), NOTHING);
    let info = schedules::info(&played.rows, "s", Now::FIRST).unwrap();
    assert_eq!((info.is_refused, info.next), (true, None));

    // A build that can read it goes on where it was.
    let mut stored = schedules::named(&played.rows, "s").unwrap();
    stored.row.timing = Timing::Cron { text: "* * * * *".to_owned(), zone: "UTC".to_owned() };
    played.rows.set(key::schedule("s"), stored.row.encode());
    let terms = ScheduleTerms {
        tube: Some((played.tube, "first".to_owned())),
        cron: Some("* * * * *".to_owned()),
        ..ScheduleTerms::default()
    };
    assert!(!played.run(&MakeSchedule { name: "s", terms: &terms }).unwrap());
    assert_eq!((firing(&played).next, firing(&played).is_refused), (500, false));
    assert_eq!(played.rows.faults(), NOTHING);
    assert_eq!(work_off(&mut played), (false, true));
    assert_eq!(firing(&played).children, 8);
}

/// A cron text in a build without the feature: its next fire stands, and nothing is due.
#[cfg(not(feature = "cron"))]
#[test]
fn without_the_feature_a_cron_text_stands_still() {
    let text = "* * * * *".to_owned();
    let mut played = due(Timing::Cron { text, zone: "UTC".to_owned() }, 1);
    assert_eq!(work_off(&mut played), (false, false));
    let stands = firing(&played);
    assert_eq!((stands.next, stands.children, stands.is_refused), (500, 7, false));
    let info = schedules::info(&played.rows, "s", Now::FIRST).unwrap();
    assert_eq!((info.lacks_feature, info.next), (true, None));
    assert_eq!(played.rows.faults(), NOTHING);
}
