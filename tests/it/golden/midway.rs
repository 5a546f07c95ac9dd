//! The folders of work that goes in steps and was cut off: a cascade and a merge; and that of
//! schedules by the wall clock. Their listing is `more.txt`, as that of `flows`, and names the
//! tasks at both ends of edges, what a blocked task waits for, merges, and texts of schedules.

use super::write::{Story, ready, take};
use super::{flows, folder, opened};
use crate::{close_sound, secs};
use std::fmt::Write;
use std::fs;
#[cfg(feature = "cron")]
use tubewell::{Missed, Overlap};
use tubewell::{Orphaned, Queue, Retry, State, TaskSummary, Tube, WhyNot};

/// A parent with more dependents than one step of its cascade reports to, of every kind of edge.
/// The last verb is its ack.
pub(super) fn cascading(story: &mut Story) {
    let parts = story.tube("parts", "general kept=9");
    let whole = story.tube("whole", "general");
    let parent = parts.put(b"parent").unwrap();
    let torn = parts.task(b"torn").priority(1).put().unwrap();
    let open = parts.task(b"open").priority(2).put().unwrap();

    let holding = whole.task(b"holds").after([torn]).put().unwrap();
    whole.task(b"after what holds").after([holding]).put().unwrap();
    whole.task(b"after a failure").after_failure([torn]).put().unwrap();
    whole.task(b"after both ends").after_any_end([torn, open]).put().unwrap();
    whole.batch(vec![*b"c"; 40]).after([parent]).put().unwrap();

    let last = whole.task(b"success").after([parent]).put().unwrap();
    whole.task(b"any end").after_any_end([parent]).put().unwrap();
    let failure = |text: &'static [u8]| whole.task(text).after_failure([parent]);
    failure(b"ignores it").orphaned(Orphaned::Ignore).put().unwrap();
    failure(b"is cancelled").orphaned(Orphaned::Cancel).put().unwrap();
    whole.task(b"both").after([parent, open]).put().unwrap();
    whole.task(b"late").after([parent]).delay(secs(300)).put().unwrap();
    whole.task(b"after the last").after([last]).put().unwrap();
    story.pass(1);

    let held = take(&parts);
    take(&parts).fail("paper", "torn").unwrap();
    story.begin_last();
    held.ack_with(b"its result").unwrap();
}

/// A tube in every state, with more leases than one step moves. The last verb is its merge.
pub(super) fn merging(story: &mut Story) {
    let old = story.tube("old", "general kept=9");
    let new = story.tube("new", "general kept=9");
    let queue = story.queue.clone();
    queue.set_throttle("gpu", 1).unwrap();
    let ada = queue.consumer_with_grace("ada", secs(90)).unwrap();
    ready(&new, "here");
    new.task(b"grouped here").group("g").put().unwrap();
    new.task(b"gated here").throttle("gpu").put().unwrap();

    old.put_many(vec![*b"x"; 64]).unwrap();
    old.task(b"with the slot").throttle("gpu").put().unwrap();
    old.task(b"first of its group").group("g").put().unwrap();
    let held = old.by(&ada).take_many(66).unwrap();
    let aside = old.put(b"aside").unwrap();
    old.bury(aside, "for now").unwrap();
    let trashed = old.put(b"trashed").unwrap();
    old.trash(trashed, "not wanted").unwrap();
    ready(&old, "done torn");
    take(&old).ack_with(b"a result").unwrap();
    take(&old).retry_with(Retry::new("torn").group("paper").after(secs(200))).unwrap();

    old.task(b"second of its group").group("g").put().unwrap();
    old.task(b"third of its group").group("g").priority(1).put().unwrap();
    old.task(b"later").delay(secs(300)).tag("red").put().unwrap();
    for text in [b"gated 1", b"gated 2"] {
        old.task(text).throttle("gpu").priority(-1).put().unwrap();
    }
    let first = old.task(b"keyed").key("k").tag("blue").put().unwrap();
    new.task(b"after another").after([first]).put().unwrap();
    ready(&old, "plain");
    // It steps over the heads of the lines.
    take(&old).release().unwrap();
    story.pass(1);
    story.hold((held, ada));
    story.begin_last();
    story.queue.merge("old", "new").unwrap();
}

/// Schedules by queue time and by the wall clock of zones. The next fires of the latter are weeks
/// ahead, so that the tasks are the same without the feature.
#[cfg(feature = "cron")]
pub(super) fn cron(story: &mut Story) {
    let mail = story.tube("mail", "general");
    let queue = story.queue.clone();
    let often = queue.schedule("often").every(secs(17)).to(&mail).payload(b"dust");
    often.tag("chore").make().unwrap();
    let monthly = queue.schedule("monthly").cron("0 9 1 * *").zone("Europe/Berlin").to(&mail);
    let monthly = monthly.missed(Missed::CatchUp(3)).overlap(Overlap::Skip).tag("red").tag("blue");
    monthly.payload(b"a bill").kind("bill").make().unwrap();
    // The night in which this time does not exist.
    let spring = queue.schedule("spring").cron("30 2 29 3 *").zone("Europe/Berlin").to(&mail);
    spring.priority(-1).make().unwrap();
    let paused = queue.schedule("paused").cron("15 4 * * 1-5").missed(Missed::Skip).to(&mail);
    let paused = paused.make().unwrap();
    story.pass(1);
    paused.pause().unwrap();
    let yearly = queue.schedule("yearly").cron("0 0 1 1 *").zone("Asia/Tokyo").to(&mail);
    let yearly = yearly.overlap(Overlap::Replace).make().unwrap();
    yearly.run_now().unwrap();
    // The first fire was at once. Of the three after it the last one stands for all.
    story.pass(51);
    story.queue.checkpoint().unwrap();
    queue.schedule("other").every(secs(50)).offset(secs(700)).to(&mail).make().unwrap();
}

/// What the other listings leave out.
pub(super) fn describe(queue: &Queue) -> String {
    let mut text = flows::describe(queue);
    for info in queue.schedules() {
        let info = info.unwrap();
        let timing = (info.cron.as_deref(), info.zone.as_deref());
        write!(text, "schedule {}: {timing:?}, ", info.name).unwrap();
        write!(text, "paused {}, tags {:?}, ", info.is_paused, info.tags).unwrap();
        let payload = String::from_utf8_lossy(&info.payload);
        writeln!(text, "payload {payload:?}, last {:?}", info.last_nominal.map(flows::at)).unwrap();
    }
    for name in queue.tubes().unwrap() {
        let tube = queue.tube(&name).unwrap();
        if let Some(into) = tube.info().unwrap().merges_into {
            writeln!(text, "{name} goes to {into}").unwrap();
        }
        for state in
            [State::Taken, State::Blocked, State::Ready, State::Delayed, State::Buried, State::Done]
        {
            tube.summaries(state).for_each(|task| edges(&mut text, (queue, &tube), &task.unwrap()));
        }
        tube.trashed().for_each(|task| edges(&mut text, (queue, &tube), &task.unwrap()));
    }
    text
}

/// The tasks before and after one, and what a blocked one waits for; why it was buried.
fn edges(text: &mut String, (queue, tube): (&Queue, &Tube), task: &TaskSummary) {
    if let Some(reason) = &task.reason {
        writeln!(text, "{} {} was buried: {reason:?}", tube.name(), task.id).unwrap();
    }
    let whole = tube.peek(task.id).unwrap();
    for (what, linked) in [("after", &whole.dependencies), ("before", &whole.dependents)] {
        if linked.count > 0 {
            let ids: Vec<_> = linked.first.iter().map(ToString::to_string).collect();
            let (count, ids) = (linked.count, ids.join(" "));
            writeln!(text, "{} is {what} {count}: {ids}", task.id).unwrap();
        }
    }
    for reason in queue.explain(task.id).unwrap().reasons {
        if let WhyNot::WaitsFor { tasks, first, has_ended, is_ending } = reason {
            write!(text, "{} waits for {tasks}, first {first}, ", task.id).unwrap();
            writeln!(text, "ended {has_ended}, its end on the way {is_ending}").unwrap();
        }
    }
}

#[test]
fn what_was_cut_off_and_schedules_in_zones_are_read_as_they_were_written() {
    for name in ["cascading", "merging", "cron"] {
        if name == "cron" && !cfg!(feature = "cron") {
            continue;
        }
        let found = fs::read_to_string(folder(name).join("more.txt")).unwrap().replace('\r', "");
        let (queue, _clock, _home) = opened(name);
        assert_eq!(describe(&queue), found);
        close_sound(queue);
    }
}

/// What an opening has found half done is worked off by the first round of due work.
#[test]
fn what_was_cut_off_goes_on() {
    let (queue, _clock, _home) = opened("cascading");
    let whole = queue.tube("whole").unwrap();
    let blocked = || whole.stats().unwrap().blocked;
    let before = blocked();
    queue.tick().unwrap();
    assert!(before > blocked(), "{before} are blocked, and then {}", blocked());
    let text = |task: Result<TaskSummary, tubewell::Error>| {
        String::from_utf8(whole.peek(task.unwrap().id).unwrap().payload.clone()).unwrap()
    };
    let left: Vec<_> = whole.summaries(State::Blocked).map(text).collect();
    assert_eq!(left, ["holds", "after what holds", "after both ends", "both", "after the last"]);
    close_sound(queue);

    let (queue, _clock, _home) = opened("merging");
    let [old, new] = ["old", "new"].map(|name| queue.tube(name).unwrap());
    let count = |tube: &Tube| tube.stats().unwrap().taken;
    assert!(count(&old) > 0 && count(&new) > 0, "{} of {}", count(&new), count(&old));
    queue.tick().unwrap();
    let stats = old.stats().unwrap();
    assert_eq!((stats.total, stats.finished, old.info().unwrap().merges_into), (0, 0, None));
    close_sound(queue);
}
