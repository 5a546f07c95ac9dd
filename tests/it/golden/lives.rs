//! The folder of what the second half of format 1 brought: the rest of the life of a task. Its
//! listing is a file of its own, `more.txt`, because those of the other folders must not change.

use super::listing;
use super::write::{Story, ready, take};
use super::{folder, opened};
use crate::{close_sound, secs};
use std::fmt::Write;
use std::fs;
use std::time::SystemTime;
use tubewell::{Conflict, Filter, Queue, Retry, Setting, State, TaskSummary, Tube};

/// Keys that move, reports, payloads that were replaced, history, trash, stalls, settings, results
/// without payloads, an index of kinds.
pub(super) fn lives(story: &mut Story) {
    let mail =
        story.tube("mail", "general ttr=60 unique grace=300 few=3 kinds book=ledger attempts=4");
    let done = story.tube("done", "general kept=9 dropping");
    story.queue.set("app.word", "seven").unwrap();
    mail.set("max_attempts", 4i64).unwrap();
    mail.set("app.number", 7i64).unwrap();
    let ada = story.queue.consumer_with_grace("ada", secs(900)).unwrap();
    let by_ada = mail.by(&ada);

    mail.task(b"one").key("k1").kind("letter").detail("to", "bob").put().unwrap();
    mail.task(b"one again").key("k1").on_conflict(Conflict::Replace).put().unwrap();
    let mut one = take(&by_ada);
    one.start("pid 7").unwrap();
    one.progress(40, "half of it").unwrap();
    one.checkpoint(b"state").unwrap();
    one.with_payload(b"one, the rest").renew().unwrap();

    story.pass(1);
    mail.task(b"two").kind("bill").put().unwrap();
    let two = take(&by_ada);
    (0..5).for_each(|line| two.log(&format!("line {line}")).unwrap());
    two.retry_with(Retry::new("no route").group("network")).unwrap();

    story.pass(1);
    mail.task(&[b'p'; 4000]).key("k3").kind("bill").priority(-1).put().unwrap();
    take(&mail).with_payload(&[b'q'; 5000]).retry("with more").unwrap();
    let away = mail.task(b"away").priority(-2).put().unwrap();
    mail.trash(away, "not wanted").unwrap();
    mail.task(b"slow").priority(-3).ttr(secs(5)).put().unwrap();
    let slow = take(&mail);
    mail.task(b"forced").priority(-4).put().unwrap();
    let forced = take(&mail);
    mail.force_timeout(&[forced.id()]).unwrap();

    done.task(b"small").key("k1").put().unwrap();
    done.task(&[b'z'; 4000]).put().unwrap();
    take(&done).ack_with(b"the result").unwrap();
    take(&done).ack().unwrap();
    ready(&done, "stays");
    story.pass(6);
    story.hold((one, slow, forced, ada));
}

/// What the listing of the other folders leaves out.
pub(super) fn describe(queue: &Queue) -> String {
    let mut text = String::new();
    let mut stored = |owner: &str, settings: Vec<Setting>| {
        for setting in settings {
            let Some(value) = setting.stored else { continue };
            writeln!(text, "{owner} has set {} to {value:?}", setting.name).unwrap();
        }
    };
    let tubes: Vec<Tube> =
        queue.tubes().unwrap().iter().map(|name| queue.tube(name).unwrap()).collect();
    stored("the queue", queue.settings().unwrap());
    tubes.iter().for_each(|tube| stored(tube.name(), tube.settings().unwrap()));
    for tube in &tubes {
        for state in [State::Ready, State::Delayed, State::Taken, State::Buried, State::Done] {
            tube.summaries(state).for_each(|task| line(&mut text, tube, &task.unwrap()));
        }
        tube.trashed().for_each(|task| line(&mut text, tube, &task.unwrap()));
        for kind in ["letter", "bill"] {
            let found = tube.search(&Filter::new().kind(kind), None, 99).unwrap();
            let ids: Vec<_> = found.tasks.iter().map(|task| task.id.to_string()).collect();
            writeln!(text, "{} has {kind}: {}", tube.name(), ids.join(" ")).unwrap();
        }
    }
    text
}

/// One task. A field that is not listed is empty or zero.
fn line(text: &mut String, tube: &Tube, task: &TaskSummary) {
    let at = |time: SystemTime| time.duration_since(listing::written()).unwrap();
    write!(text, "{} {} {:?}, updated at {:?}", tube.name(), task.id, task.state, at(task.updated))
        .unwrap();
    let named = [("kind", &task.kind), ("book", &task.book), ("before", &task.previous_holder)];
    for (what, name) in named {
        name.iter().for_each(|name| write!(text, ", {what} {name}").unwrap());
    }
    task.details.iter().for_each(|(name, value)| write!(text, ", {name}={value}").unwrap());
    if let Some(progress) = &task.progress {
        write!(text, ", {} % {:?}", progress.percent, progress.text).unwrap();
    }
    if task.payload_generation > 0 {
        write!(text, ", payload {}", task.payload_generation).unwrap();
    }
    if task.payload_dropped {
        text.push_str(", without its payload");
    }
    if let Some(state) = tube.last_checkpoint(task.id).unwrap() {
        write!(text, ", checkpoint {:?}", String::from_utf8_lossy(&state)).unwrap();
    }
    text.push('\n');
    let history = tube.history(task.id).unwrap();
    for entry in history.entries {
        let by = entry.by.as_deref().unwrap_or("-");
        let group = entry.group.as_deref().unwrap_or("-");
        let (event, attempt) = (entry.event, entry.attempt.unwrap_or(0));
        writeln!(text, "  {event:?} {attempt} {by} {group} {:?} {:?}", at(entry.at), entry.text)
            .unwrap();
    }
    if history.dropped > 0 {
        writeln!(text, "  and {} more", history.dropped).unwrap();
    }
}

#[test]
fn the_rest_of_the_life_of_a_task_is_read_as_it_was_written() {
    let found = fs::read_to_string(folder("lives").join("more.txt")).unwrap().replace('\r', "");
    let (queue, _clock, _home) = opened("lives");
    assert_eq!(describe(&queue), found);
    close_sound(queue);
}
