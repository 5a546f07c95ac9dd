//! The verbs that only read.

use super::stage::{Change, nothing};
use super::verbs::{May, Verb};
use std::time::Duration;
use tubewell::{Error, Filter, State};

pub fn reads() -> Vec<Verb> {
    vec![
        ("finished", May::Never, |s| {
            assert_eq!(s.keeper.finished().count(), 0);
            Ok(nothing(()))
        }),
        ("tagged, top_tags and tag_count", May::Never, |s| {
            s.queue.tagged("kept").try_for_each(|task| task.map(drop))?;
            s.queue.top_tags().try_for_each(|top| top.map(drop))?;
            s.queue.tag_count("kept").map(nothing)
        }),
        ("tracked", May::Never, |s| {
            s.queue.tracked().try_for_each(|task| task.map(drop)).map(nothing)
        }),
        ("schedules, info and next", May::Never, |s| {
            assert_eq!(s.queue.schedules().count(), 2);
            assert_eq!(s.tube.schedules().count() as u64, s.tube.stats()?.schedules);
            s.queue.schedule_named("plan").info()?;
            s.queue.schedule_named("plan").next(9).map(nothing)
        }),
        ("search", May::Never, |s| {
            s.tube.search(&Filter::new().key_prefix("k"), None, 100).map(nothing)
        }),
        ("last_checkpoint", May::Never, |s| s.tube.last_checkpoint(s.keyed).map(nothing)),
        ("history", May::Never, |s| s.tube.history(s.keyed).map(nothing)),
        ("peek", May::Never, |s| s.tube.peek(s.keyed).map(nothing)),
        ("failure groups", May::Never, |s| s.queue.failure_groups().map(nothing)),
        ("peek_many", May::Never, |s| s.tube.peek_many(10).map(nothing)),
        ("peek_next", May::Never, |s| s.tube.peek_next(State::Buried).map(nothing)),
        ("find, find_many and explain", May::Never, |s| {
            s.queue.find(s.keyed)?;
            assert_eq!(s.queue.find_many([s.keyed, s.buried]).count(), 2);
            s.queue.explain(s.keyed).map(nothing)
        }),
        ("wait_for", May::Never, |s| {
            assert!(s.queue.wait_for(s.keyed, Duration::ZERO)?.is_none());
            assert!(s.queue.wait_for(s.buried, Duration::MAX)?.is_some());
            Ok(Change::default())
        }),
        ("overview", May::Never, |s| s.queue.overview().map(nothing)),
        ("stats", May::Never, |s| s.queue.stats().map(nothing)),
        ("waiters", May::Never, |s| s.queue.waiters().map(nothing)),
        ("taken", May::Never, |s| s.queue.taken().map(nothing)),
        ("space", May::Never, |s| s.queue.space().map(nothing)),
        ("check", May::Never, |s| s.queue.check().map(nothing)),
        ("settings", May::Never, |s| {
            s.tube.settings()?;
            s.queue.settings().map(nothing)
        }),
        ("consumers", May::Never, |s| s.queue.consumers().map(nothing)),
        ("wait_ready", May::Never, |s| {
            assert!(s.tube.wait_ready(Duration::ZERO)?);
            assert!(s.tube.wait_ready_until(&s.stop)?);
            assert!(s.tube.wait_ready_timeout_until(Duration::MAX, &s.stop)?);
            Ok(Change::default())
        }),
        ("wait_for with a stop", May::Never, |s| {
            assert!(s.queue.wait_for_until(s.buried, &s.stop)?.is_some());
            Ok(Change::default())
        }),
        ("dependencies", May::Never, |s| {
            assert_eq!(s.queue.dependencies(s.blocked)?, [s.root]);
            Ok(Change::default())
        }),
        ("summaries, buried and failed", May::Never, |s| {
            assert_eq!(s.tube.summaries(State::Blocked).count(), 1);
            assert_eq!(s.tube.buried().count(), 1);
            assert_eq!(s.tube.failed("g").count() + s.queue.failed("g").count(), 0);
            Ok(Change::default())
        }),
        ("statistics, latencies and days", May::Never, |s| {
            s.tube.statistics(0)?;
            s.tube.latencies()?;
            s.tube.days().map(nothing)
        }),
        ("conditions, condition and requiring", May::Never, |s| {
            s.queue.conditions()?;
            s.queue.condition("paid")?;
            s.queue.requiring("paid").try_for_each(|tube| tube.map(drop)).map(nothing)
        }),
        ("throttles, throttle, throttled and throttle_holders", May::Never, |s| {
            s.queue.throttles()?;
            s.queue.throttle("api")?;
            s.queue.throttled("api").try_for_each(|tube| tube.map(drop))?;
            s.queue.throttle_holders("api").try_for_each(|task| task.map(drop)).map(nothing)
        }),
        ("taken_by", May::Never, |s| {
            s.queue.taken_by("ada")?.try_for_each(|task| task.map(drop)).map(nothing)
        }),
        ("setting", May::Never, |s| {
            s.tube.setting("ttr")?;
            s.queue.setting("session_grace").map(nothing)
        }),
        ("len, find_tube and trashed", May::Never, |s| {
            assert!(s.queue.find_tube("full")?.unwrap().len()? > 0);
            assert_eq!((s.queue.scope("a").find_tube("new")?, s.tube.trashed().count()), (None, 0));
            Ok(Change::default())
        }),
        ("tubes and names", May::Never, |s| {
            s.queue.tubes()?;
            s.queue.scope("a").tubes()?;
            s.queue.tubes_with_prefix("")?.names().map(nothing)
        }),
        ("details, passed, book and time_left", May::Never, |s| {
            let held = s.tube.ticket(s.ticket);
            held.details()?;
            held.passed()?;
            held.book()?;
            held.time_left()?;
            held.previous()?;
            held.is_lost().map(nothing)
        }),
        ("base_space", May::Never, |s| s.queue.base_space().map(nothing)),
        ("read", May::Never, |s| s.queue.read(|_| Ok::<_, Error>(())).map(nothing)),
    ]
}
