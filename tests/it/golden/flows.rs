//! The folder of what depends on other things: tasks that come after others, gates, schedules,
//! tags, tracked tasks and statistics of days. Its listing is a file of its own, `more.txt`,
//! because those of the other folders must not change.

use super::listing;
use super::write::{Story, ready, take};
use super::{folder, opened};
use crate::{close_sound, secs};
use std::fmt::Write;
use std::fs;
use std::time::SystemTime;
use tubewell::{Missed, Orphaned, Overlap, Queue, ScheduleInfo, State, TaskSummary, Tube};

const TAGS: [&str; 3] = ["red", "blue", "chore"];

/// Edges in every state, lines behind gates that are open again, schedules with children, a day.
pub(super) fn flows(story: &mut Story) {
    let parts = story.tube("parts", "general kept=9 days=9 throttle=api rate=1000");
    let whole = story.tube("whole", "general require=online hours days=9 limit=5");
    let queue = story.queue.clone();
    queue.set_throttle("api", 2).unwrap();
    queue.set_throttle_for("gpu", 1, secs(900_000)).unwrap();
    queue.set_condition("online", true).unwrap();
    queue.set_condition("paid", false).unwrap();
    queue.set_condition_for_run("this run", true).unwrap();

    let done = parts.task(b"done").tag("red").put().unwrap();
    let failed = parts.task(b"failed").priority(1).tag("red").tag("blue").put().unwrap();
    let open = parts.task(b"open").priority(2).throttle("gpu").put().unwrap();
    let all = whole.task(b"after all").after([done, open]).put().unwrap();
    let after_failure = whole.task(b"after a failure").after_failure([failed, open]);
    after_failure.orphaned(Orphaned::Ignore).put().unwrap();
    let ignoring = whole.task(b"ignoring").after([open]).orphaned(Orphaned::Ignore);
    ignoring.delay(secs(400)).put().unwrap();
    whole.task(b"after any end").after_any_end([all]).put().unwrap();
    queue.track(failed).unwrap();
    queue.track(all).unwrap();

    story.pass(3);
    take(&parts).ack_with(b"its result").unwrap();
    story.pass(2);
    take(&parts).fail("paper", "torn").unwrap();
    let held = take(&parts);
    story.queue.checkpoint().unwrap();

    for (text, priority) in [(b"paid 1", 0), (b"paid 2", 0), (b"paid 0", -1)] {
        whole.task(text).priority(priority).require("paid").put().unwrap();
    }
    whole.task(b"both").require("paid").throttle("gpu").put().unwrap();
    ready(&whole, "plain");
    let plain = take(&whole);
    assert_eq!(&plain[..], b"plain");
    assert!(whole.try_take().unwrap().is_none());
    queue.set_condition("paid", true).unwrap();

    let sweep = queue.schedule("sweep").every(secs(3600)).missed(Missed::CatchUp(1));
    let sweep = sweep.overlap(Overlap::Skip).to(&parts).payload(b"dust").priority(7);
    sweep.tag("chore").kind("chore").make().unwrap();
    let late = queue.schedule("late").every(secs(60)).offset(secs(900)).require("online");
    let late = late.throttle("gpu").to(&whole).make().unwrap();
    late.run_now().unwrap();
    late.pause().unwrap();
    story.pass(1);
    story.hold((held, plain));
}

/// Tasks of groups with gates of their own, in every state.
pub(super) fn grouped(story: &mut Story) {
    let calls = story.tube("calls", "general kept=9");
    let lanes = story.tube("lanes", "utube");
    let queue = story.queue.clone();
    queue.set_throttle("api", 1).unwrap();
    let gated = |text: &'static [u8], priority: i64| {
        calls.task(text).group("ada").throttle("api").priority(priority)
    };
    gated(b"held", -9).put().unwrap();
    let held = take(&calls);
    gated(b"first", -8).put().unwrap();
    calls.task(b"second").group("ada").priority(-7).put().unwrap();
    calls.task(b"paid").group("bob").require("online").require("paid").put().unwrap();
    calls.task(b"alone").throttle("api").put().unwrap();
    gated(b"delayed", 0).delay(secs(300)).put().unwrap();
    let buried = gated(b"buried", 1).group("carl").put().unwrap();
    calls.bury(buried, "torn").unwrap();
    lanes.task(b"lane").require("online").put().unwrap();
    lanes.task(b"next").put().unwrap();
    story.pass(1);
    assert!(calls.try_take().unwrap().is_none() && lanes.try_take().unwrap().is_none());
    for name in ["online", "paid"] {
        queue.set_condition(name, true).unwrap();
    }
    let plan = queue.schedule("plan").every(secs(3600)).group("ada").require("online");
    plan.throttle("api").to(&calls).payload(b"again").make().unwrap();
    story.pass(1);
    story.hold(held);
}

/// What the listing of the other folders leaves out.
pub(super) fn describe(queue: &Queue) -> String {
    let mut text = String::new();
    for it in queue.conditions().unwrap() {
        writeln!(text, "condition {}: {}, stored {}", it.name, it.is_set, it.is_stored).unwrap();
    }
    for it in queue.throttles().unwrap() {
        let held: Vec<_> = queue.throttle_holders(&it.name).map(Result::unwrap).collect();
        writeln!(text, "throttle {}: {}, {:?} left, held by {held:?}", it.name, it.limit, it.left)
            .unwrap();
    }
    queue.schedules().for_each(|info| schedule(&mut text, &info.unwrap()));
    for tag in TAGS {
        let tagged = queue.tagged(tag).map(|task| task.unwrap().id.to_string());
        writeln!(text, "tag {tag}: {}", tagged.collect::<Vec<_>>().join(" ")).unwrap();
    }
    let tracked = queue.tracked().map(|it| it.unwrap().id.to_string());
    writeln!(text, "tracked: {}", tracked.collect::<Vec<_>>().join(" ")).unwrap();
    for name in queue.tubes().unwrap() {
        let tube = queue.tube(&name).unwrap();
        for state in [State::Blocked, State::Ready, State::Delayed, State::Buried, State::Done] {
            tube.summaries(state).for_each(|task| line(&mut text, &tube, &task.unwrap()));
        }
        days(&mut text, &tube);
    }
    text
}

pub(super) fn at(time: SystemTime) -> f64 {
    time.duration_since(listing::written()).unwrap().as_secs_f64()
}

fn schedule(text: &mut String, info: &ScheduleInfo) {
    let ScheduleInfo { name, tube, missed, overlap, children, missed_fires, .. } = info;
    write!(text, "schedule {name} to {tube}: {missed:?}, {overlap:?}, ").unwrap();
    write!(text, "every {:?} from {:?}, next {:?}, ", info.every, info.offset, info.next.map(at))
        .unwrap();
    write!(text, "{children} children, {missed_fires} missed, last {:?}, ", info.last).unwrap();
    writeln!(text, "requires {:?}, throttles {:?}", info.requires, info.throttles).unwrap();
}

/// One task. A field that is not listed is empty or zero.
fn line(text: &mut String, tube: &Tube, task: &TaskSummary) {
    write!(text, "{} {} {:?}", tube.name(), task.id, task.state).unwrap();
    for (what, names) in
        [("tags", &task.tags), ("requires", &task.requires), ("throttles", &task.throttles)]
    {
        if !names.is_empty() {
            write!(text, ", {what} {}", names.join(" ")).unwrap();
        }
    }
    if let Some(by) = &task.spawned_from {
        write!(text, ", from {by} for {:?}", task.nominal.map(at)).unwrap();
    }
    let linked = [("after", task.dependencies.count), ("before", task.dependents.count)];
    for (what, tasks) in linked.into_iter().filter(|(_, tasks)| *tasks > 0) {
        write!(text, ", {what} {tasks}").unwrap();
    }
    if task.tracked {
        text.push_str(", tracked");
    }
    text.push('\n');
}

fn days(text: &mut String, tube: &Tube) {
    for day in tube.days().unwrap() {
        let of = tube.statistics(day).unwrap().unwrap();
        let (waits, runs) = (&of.waits, &of.runs);
        write!(text, "{} on day {day}: ", tube.name()).unwrap();
        write!(text, "{} waits of {:?}, ", waits.count(), waits.total()).unwrap();
        write!(text, "{} runs of {:?}, ", runs.count(), runs.total()).unwrap();
        writeln!(text, "{} failures, {} failed, {} retries", of.failures, of.failed, of.retries)
            .unwrap();
    }
}

#[test]
fn what_depends_on_other_things_is_read_as_it_was_written() {
    for name in ["flows", "grouped"] {
        let found = fs::read_to_string(folder(name).join("more.txt")).unwrap().replace('\r', "");
        let (queue, _clock, _home) = opened(name);
        assert_eq!(describe(&queue), found);
        close_sound(queue);
    }
}
