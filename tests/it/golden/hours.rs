//! The folder of tubes with hours of the week: by the clocks of zones, one of which has a summer
//! time, and by an offset. Its listing is `more.txt`: the text of the hours, and what holds back
//! the first task of each tube.

use super::write::{Story, ready, take};
use super::{folder, is_readable, opened};
use crate::close_sound;
use std::fmt::Write;
use std::fs;
use tubewell::{Queue, State};

/// A tube that is open when the story is told, one that opens the next day, and one on Saturday.
pub(super) fn hours(story: &mut Story) {
    let office = story.tube("office", "general hours=09:00-17:30_Europe/Berlin");
    ready(&office, "one two");
    let friday = story.tube("friday", "general hours=Fri-Sun_22:30-23:30_Australia/Sydney");
    ready(&friday, "three four");
    friday.task(b"grouped").group("g").put().unwrap();
    story.queue.checkpoint().unwrap();
    story.pass(1);
    let weekend =
        story.tube("weekend", "general limit=2 hours=Sat-Sun_17:30-18:00,Wed_00:00-06:00_+05:30");
    ready(&weekend, "five six seven");
    let held = take(&office);
    story.hold(held);
}

pub(super) fn describe(queue: &Queue) -> String {
    let mut text = String::new();
    for name in queue.tubes().unwrap() {
        let tube = queue.tube(&name).unwrap();
        let hours = tube.info().unwrap().options.get_hours().expect("hours").to_string();
        writeln!(text, "{name} is open {hours}").unwrap();
        let first = tube.peek_next(State::Ready).unwrap().expect("a ready task").id;
        writeln!(text, "{first}: {:?}", queue.explain(first).unwrap().reasons).unwrap();
    }
    text
}

#[test]
fn hours_are_read_as_they_were_written() {
    if !is_readable("hours") {
        return;
    }
    let found = fs::read_to_string(folder("hours").join("more.txt")).unwrap().replace('\r', "");
    let (queue, _clock, _home) = opened("hours");
    assert_eq!(describe(&queue), found);
    close_sound(queue);
}
