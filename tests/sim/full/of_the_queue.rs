//! The verbs of tubes, schedules, sessions and settings, and of the queue as a whole.

use super::stage::{Change, WAVE_AT, added, nothing};
use super::verbs::{May, Verb, long};
use std::ops::ControlFlow;
use std::time::{Duration, SystemTime};
use tubewell::{ConsumerOptions, ErrorKind, Event, EventFilter, PauseTerms, TaskId, TubeOptions};

pub fn of_the_queue() -> Vec<Verb> {
    vec![
        ("merge", May::Disk, |s| s.queue.merge(s.side.name(), s.bare.name()).map(nothing)),
        ("pause", May::Never, |s| s.tube.pause().map(nothing)),
        ("pause with an end", May::Never, |s| s.tube.pause_for(WAVE_AT * 9).map(nothing)),
        ("pause of what runs", May::Never, |s| {
            s.held = None;
            s.tube.pause_with(PauseTerms::new().time_out_running()).map(nothing)
        }),
        // Its row is of the queue, so that temporary tubes have no part in it.
        ("track", May::Row, |s| s.queue.track(s.keyed).map(nothing)),
        ("untrack", May::Never, |s| s.queue.untrack(s.buried).map(nothing)),
        ("make a schedule", May::Disk, |s| {
            s.queue.schedule("new").every(WAVE_AT * 9).offset(WAVE_AT * 9).to(&s.tube).make()?;
            Ok(Change::default())
        }),
        ("update a schedule", May::Disk, |s| {
            s.queue.schedule_named("plan").update(|it| it.priority(1).tag("b")).map(nothing)
        }),
        ("pause a schedule", May::Never, |s| s.queue.schedule_named("plan").pause().map(nothing)),
        ("resume a schedule", May::Never, |s| {
            s.queue.schedule_named("paused").resume().map(nothing)
        }),
        ("run a schedule", May::Always, |s| s.queue.schedule_named("plan").run_now().map(added)),
        ("tag a schedule", May::Disk, |s| {
            s.queue.schedule_named("plan").tag(&["x".repeat(255).as_str()]).map(nothing)
        }),
        ("untag a schedule", May::Never, |s| {
            s.queue.schedule_named("plan").untag(&["kept"]).map(nothing)
        }),
        ("remove a schedule", May::Never, |s| {
            assert!(s.queue.schedule_named("plan").remove()?);
            Ok(Change::default())
        }),
        ("set", May::Disk, |s| s.tube.set("ttl", WAVE_AT * 9).map(nothing)),
        ("set_condition", May::Disk, |s| s.queue.set_condition("paid", true).map(nothing)),
        ("set_condition to false", May::Never, |s| {
            s.queue.set_condition("paid", false).map(nothing)
        }),
        ("set_condition_for_run", May::Never, |s| {
            s.queue.set_condition_for_run("online", true).map(nothing)
        }),
        ("set_throttle", May::Disk, |s| s.queue.set_throttle("api", 2).map(nothing)),
        ("set_throttle_for", May::Disk, |s| {
            s.queue.set_throttle_for("api", 2, Duration::from_secs(60)).map(nothing)
        }),
        ("release_throttle", May::Never, |s| {
            s.queue.release_throttle("api", &[TaskId::new(1)]).map(nothing)
        }),
        ("remove_throttle", May::Never, |s| s.queue.remove_throttle("api").map(nothing)),
        ("remove_condition", May::Never, |s| s.queue.remove_condition("paid").map(nothing)),
        ("set of what rows follow", May::Disk, |s| s.tube.set("in_flight", 2).map(nothing)),
        ("set of a text", May::Disk, |s| s.queue.set("app.text", long()).map(nothing)),
        ("set of what is set", May::Disk, |s| {
            s.side.set("app.text", "old")?;
            s.side.set("app.text", "new").map(nothing)
        }),
        ("unset", May::Never, |s| s.side.unset("ttr").map(nothing)),
        ("repair", May::Never, |s| {
            assert!(s.queue.repair()?.is_empty());
            Ok(Change::default())
        }),
        ("put beside", May::Disk, |s| {
            let id = s.side.put(b"another")?;
            s.side.delete(id).map(nothing)
        }),
        ("create_tube", May::Disk, |s| {
            s.queue.create_tube("new", TubeOptions::default()).map(nothing)
        }),
        ("drop_tube_if_empty", May::Never, |s| {
            assert_eq!(s.queue.drop_tube_if_empty("side").unwrap_err().kind(), ErrorKind::TubeBusy);
            s.queue.drop_tube_if_empty(s.bare.name()).map(nothing)
        }),
        ("force_drop_tube", May::Never, |s| {
            s.held = None;
            s.queue.force_drop_tube("full")?;
            let gone = s.there.iter().copied().collect();
            Ok(Change { gone, is_dropped: true, ..Change::default() })
        }),
        ("consumer", May::Disk, |s| s.queue.consumer("bob").map(nothing)),
        ("consumer with metadata", May::Disk, |s| {
            let about = ConsumerOptions::new().keep(WAVE_AT).meta("m".repeat(4000));
            s.queue.consumer_with("ada", about).map(nothing)
        }),
        ("adopt", May::Disk, |s| {
            let left = s.ada.adopt("bob")?;
            let task = left.tasks(&s.tube).next().unwrap()?;
            task.release().map(nothing)
        }),
        ("resume", May::Disk, |s| {
            let task = s.queue.consumer("bob")?.resume(&s.tube).next().unwrap()?;
            task.release().map(nothing)
        }),
        ("deregister", May::Never, |s| {
            s.held = Some(s.tube.by(&s.ada).take()?);
            s.queue.deregister(&["ada"]).map(nothing)
        }),
        ("close of a consumer", May::Never, |s| {
            s.held = Some(s.tube.by(&s.ada).take()?);
            s.ada.close().map(nothing)
        }),
        ("checkpoint", May::Disk, |s| s.queue.checkpoint().map(nothing)),
        ("flush", May::Never, |s| s.queue.flush().map(nothing)),
        ("a wave of what is due", May::Never, |s| {
            s.clock.advance(WAVE_AT);
            s.queue.tick()?;
            Ok(Change { gone: s.mortal.clone(), ..Change::default() })
        }),
        ("tube", May::Disk, |s| s.queue.tube("new").map(nothing)),
        ("consumer with a grace", May::Disk, |s| {
            s.queue.consumer_with_grace("eve", WAVE_AT).map(nothing)
        }),
        ("create_tube_with", May::Disk, |s| {
            let made = s.queue.create_tube_with("new", TubeOptions::default(), |_: &Event| {});
            made.map(nothing)
        }),
        ("drop_tube", May::Never, |s| s.queue.drop_tube(s.bare.name()).map(nothing)),
        ("pause with an end of its own", May::Never, |s| {
            s.tube.pause_until(SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 40)).map(nothing)
        }),
        ("compact", May::Disk, |s| s.queue.compact().map(nothing)),
        ("compact with progress", May::Disk, |s| {
            s.queue.compact_with(|_| ControlFlow::Continue(())).map(nothing)
        }),
        ("callbacks", May::Never, |s| {
            let on_change = |_: &Event| {};
            s.tube.on_task_change(Some(on_change))?;
            s.tube.on_task_change_with_payload(Some(on_change))?;
            s.queue.on_event(EventFilter::new(), on_change).map(drop)?;
            s.held.as_mut().unwrap().on_lost(|_| {}).map(nothing)
        }),
    ]
}
