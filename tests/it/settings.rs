//! Settings that are stored in the queue: in force at once and after the next opening, typed, with
//! defaults and events, and as many of the application's own as there may be.

use crate::{close_sound, counts, home, kind, lone, lone_with, next, open, secs, still, until};
use std::collections::BTreeMap;
use std::time::Duration;
use tubewell::{
    Backoff, Cause, Conflict, Durability, ErrorKind, Event, HistoryLimits, Hours, Lapse, Queue,
    Rate, Retention, ReturnTo, Setting, SettingSource, SettingValue, State, Tube, TubeKind,
    TubeOptions,
};

fn value(tube: &Tube, name: &str) -> SettingValue {
    tube.setting(name).unwrap().value
}

/// Each option of a tube that may be changed, with a value that is not its default.
pub(crate) fn unusual() -> [(&'static str, SettingValue); 20] {
    let details = BTreeMap::from([("stamp".to_owned(), "blue".to_owned())]);
    [
        ("backoff", Backoff::linear(secs(3)).jitter(5).into()),
        ("book", "post office".into()),
        ("capacity", 1000.into()),
        ("details", details.into()),
        ("drop_payloads", true.into()),
        ("history", HistoryLimits::new().entries(7).into()),
        ("hours", "Mon-Fri 09:00-17:00".parse::<Hours>().unwrap().into()),
        ("in_flight", 3.into()),
        ("keep_buried", Retention::new().age(secs(9)).into()),
        ("keep_days", 8.into()),
        ("keep_finished", Retention::new().bytes(100).count(4).into()),
        ("lapse", Lapse::new().grace(secs(4)).to(ReturnTo::Back).charged(false).into()),
        ("limit", 6.into()),
        ("max_attempts", SettingValue::Nothing),
        ("priority", (-7).into()),
        ("rate", Rate::new(5).per(secs(60)).burst(2).into()),
        ("require", ["online", "paid"].into()),
        ("throttle", ["api", "disk"].into()),
        ("ttl", secs(70).into()),
        ("ttr", secs(80).into()),
    ]
}

/// The options that a tube keeps as it was made.
const FIXED: [&str; 8] = [
    "kind",
    "temporary",
    "placement",
    "higher_first",
    "unique",
    "index_kinds",
    "ttl_spares_buried",
    "hold_group_while_delayed",
];

/// The options that those values make.
fn unusual_options() -> TubeOptions {
    TubeOptions::default()
        .backoff(Backoff::linear(secs(3)).jitter(5))
        .book("post office")
        .capacity(1000)
        .detail("stamp", "blue")
        .drop_payloads(true)
        .history(HistoryLimits::new().entries(7))
        .hours("Mon-Fri 09:00-17:00".parse().unwrap())
        .in_flight(3)
        .keep_buried(Retention::new().age(secs(9)))
        .keep_days(8)
        .keep_finished(Retention::new().bytes(100).count(4))
        .lapse(Lapse::new().grace(secs(4)).to(ReturnTo::Back).charged(false))
        .limit(6)
        .max_attempts(0)
        .priority(-7)
        .rate(Rate::new(5).per(secs(60)).burst(2))
        .require("online")
        .require("paid")
        .throttle("api")
        .throttle("disk")
        .ttl(secs(70))
        .ttr(secs(80))
}

#[test]
fn the_settings_of_a_queue_are_listed_with_their_defaults() {
    let queue = still().0.in_memory().unwrap();
    let mib = |many: i64| SettingValue::from(many << 20);
    let defaults = [
        ("consumer_keep", secs(0).into()),
        ("durability", Durability::Durable.into()),
        ("durable_bytes_max", SettingValue::Nothing),
        ("flush_interval", Duration::from_millis(50).into()),
        ("payload_bytes_max", mib(16)),
        ("session_grace", secs(0).into()),
        ("temporary_bytes_max", mib(256)),
    ];
    let settings = queue.settings().unwrap();
    let listed: Vec<_> = settings.iter().map(|it| (&it.name[..], it.default.clone())).collect();
    assert_eq!(listed, defaults);
    assert!(settings.iter().all(|it| it.value == it.default && it.stored.is_none()));
}

#[test]
fn every_option_is_set_shown_and_unset_again() {
    let (_home, path) = home();
    let queue = open(&path);
    let made = TubeOptions::default().ttl(secs(8)).max_attempts(5);
    let tube = queue.create_tube("t", made.clone()).unwrap();
    let names: Vec<_> = tube.settings().unwrap().into_iter().map(|it| it.name).collect();
    assert_eq!(names, unusual().map(|(name, _)| name));
    let defaults = tube.settings().unwrap();
    for setting in &defaults {
        assert_eq!((setting.source, &setting.stored), (SettingSource::Default, &None));
        assert_eq!(setting.value, setting.default);
    }
    for (name, to) in unusual() {
        tube.set(name, to).unwrap();
    }
    assert_eq!(tube.info().unwrap().options, unusual_options());
    queue.close().unwrap();

    let queue = open(&path);
    let tube = queue.create_tube("t", made.clone().if_not_exists()).unwrap();
    let changed = unusual_options().if_not_exists();
    assert_eq!(kind(queue.create_tube("t", changed)), ErrorKind::TubeMismatch);
    assert_eq!(tube.info().unwrap().options, unusual_options());
    for ((name, to), default) in unusual().into_iter().zip(&defaults) {
        let setting = tube.setting(name).unwrap();
        assert_eq!((setting.source, setting.value), (SettingSource::Stored, to.clone()));
        assert_eq!((setting.stored, &setting.default), (Some(to), &default.default));
        assert!(tube.unset(name).unwrap());
        assert!(!tube.unset(name).unwrap(), "twice");
    }
    assert_eq!(tube.settings().unwrap(), defaults);
    assert_eq!(tube.info().unwrap().options, made);
    drop(tube);
    close_sound(queue);
}

/// What an option decides is decided as it is then, for tasks put before the change, too.
#[test]
fn an_option_is_in_force_once_it_is_set() {
    let (tube, clock) = lone();
    let other = tube.clone();
    let before = tube.put(b"a").unwrap();
    tube.set("priority", -1).unwrap();
    tube.set("ttl", secs(5)).unwrap();
    tube.set("ttr", secs(2)).unwrap();
    let after = other.put(b"b").unwrap();
    assert_eq!(
        (tube.peek(before).unwrap().priority, tube.peek(before).unwrap().ttl_left),
        (0, None)
    );
    let info = tube.peek(after).unwrap();
    assert_eq!((info.priority, info.ttl_left, info.ttr), (-1, Some(secs(5)), Some(secs(2))));
    assert_eq!(next(&tube), "b");
    tube.set("max_attempts", 1).unwrap();
    tube.set("book", "b").unwrap();
    assert_eq!(tube.peek(before).unwrap().max_attempts, Some(1));
    assert_eq!(tube.peek(before).unwrap().book.as_deref(), Some("b"));
    tube.take().unwrap().retry("no").unwrap();
    assert_eq!(tube.peek(before).unwrap().state, State::Buried);
    tube.kick(1).unwrap();
    tube.set("max_attempts", None::<u32>).unwrap();
    tube.set("backoff", Backoff::constant(secs(30))).unwrap();
    tube.take().unwrap().retry("no").unwrap();
    assert_eq!(tube.peek(before).unwrap().delay_left, Some(secs(30)));
    clock.advance(secs(30));
    tube.set("keep_finished", Retention::new().count(1)).unwrap();
    tube.take().unwrap().ack().unwrap();
    assert_eq!(tube.peek(before).unwrap().state, State::Done);
    tube.unset("keep_finished").unwrap();
    assert!(tube.peek(before).unwrap_err().is_not_found(), "it is kept no more");
    tube.put(b"c").unwrap();
    assert_eq!((next(&tube), tube.stats().unwrap().finished), ("c".into(), 0));
}

#[test]
fn history_lapse_and_details_are_in_force_once_they_are_set() {
    let (tube, clock) = lone_with(TubeOptions::default().ttr(secs(10)));
    let id = tube.task(b"a").detail("own", "1").put().unwrap();
    let details = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    };
    let both = details(&[("own", "1"), ("stamp", "blue")]);
    tube.set("details", details(&[("own", "2"), ("stamp", "blue")])).unwrap();
    assert_eq!(tube.peek(id).unwrap().details, both);
    tube.set("history", HistoryLimits::new().entries(3)).unwrap();
    for line in 0..9 {
        tube.log(id, &line.to_string()).unwrap();
    }
    assert_eq!(tube.peek(id).unwrap().history, 3);
    tube.set("history", HistoryLimits::none()).unwrap();
    assert_eq!(kind(tube.log(id, "none")), ErrorKind::Unsupported);

    // Also for a lease that has begun.
    let task = tube.take().unwrap();
    assert_eq!(task.details().unwrap(), both);
    tube.set("lapse", Lapse::new().grace(secs(5)).charged(false)).unwrap();
    clock.advance(secs(14));
    assert_eq!(tube.peek(id).unwrap().grace_left, Some(secs(1)));
    clock.advance(secs(1));
    assert!(task.is_lost().unwrap());
    let seen = tube.peek(id).unwrap();
    assert_eq!((seen.state, seen.attempts), (State::Ready, 0));
    tube.unset("lapse").unwrap();
    drop(tube.take().unwrap());
    let _task = tube.take().unwrap();
    clock.advance(secs(10));
    assert_eq!((counts(&tube)[0], tube.peek(id).unwrap().attempts), (1, 2));
}

/// A change of the default priority does not move the tasks that were put with the one before.
#[test]
fn another_default_priority_moves_no_task() {
    let (_home, path) = home();
    let queue = open(&path);
    for (name, made) in [("low", false), ("high", true)] {
        let tube = queue.create_tube(name, TubeOptions::default().higher_first(made)).unwrap();
        tube.put(b"a").unwrap();
        tube.set("priority", if made { 5 } else { -5 }).unwrap();
        tube.put(b"b").unwrap();
        tube.unset("priority").unwrap();
        tube.put(b"c").unwrap();
        tube.set("priority", if made { -5 } else { 5 }).unwrap();
        tube.put(b"d").unwrap();
    }
    assert_eq!(queue.check().unwrap(), [""; 0]);
    queue.close().unwrap();
    let queue = open(&path);
    for name in ["low", "high"] {
        assert_eq!(crate::drain(&queue.tube(name).unwrap()), "b a c d");
    }
    close_sound(queue);
}

#[test]
fn a_higher_capacity_is_room_for_a_waiting_put() {
    let queue = still().0.in_memory().unwrap();
    let tube = queue.create_tube("t", TubeOptions::default().capacity(1)).unwrap();
    tube.put(b"a").unwrap();
    let own = tube.clone();
    let put = std::thread::spawn(move || own.task(b"b").wait_for_room(secs(1_000_000)).put());
    until(|| !queue.waiters().unwrap().is_empty());
    tube.set("capacity", 2).unwrap();
    put.join().unwrap().unwrap();
    assert_eq!(kind(tube.put(b"c")), ErrorKind::Full);
    tube.set("capacity", 0).unwrap();
    tube.put(b"c").unwrap();
    assert_eq!(value(&tube, "capacity"), SettingValue::Nothing);
    tube.set("ttr", Duration::MAX).unwrap();
    assert_eq!(value(&tube, "ttr"), SettingValue::Nothing);
}

/// Rows of tasks follow it before the call returns.
#[test]
fn in_flight_changes_while_tasks_are_in_flight() {
    let (tube, _clock) = lone_with(TubeOptions::default());
    for text in ["a", "b", "c", "d"] {
        tube.task(text.as_bytes()).group("g").put().unwrap();
    }
    let first = tube.take().unwrap();
    let next = || tube.try_take_group("g").unwrap();
    assert!(next().is_none());
    tube.set("in_flight", 3).unwrap();
    let (second, third) = (tube.take().unwrap(), tube.take().unwrap());
    assert!(next().is_none());
    tube.set("in_flight", 2).unwrap();
    second.release().unwrap();
    assert!(next().is_none(), "two are still in flight");
    third.ack().unwrap();
    assert_eq!(&next().unwrap()[..], b"b");
    assert!(tube.unset("in_flight").unwrap());
    assert!(next().is_none());
    first.ack().unwrap();
    assert_eq!(&next().unwrap()[..], b"b", "a dropped guard returned it");
}

/// Many groups follow it in steps. A taker that waits for one of them is served.
#[test]
fn a_change_of_in_flight_wakes_those_that_wait() {
    let queue = still().0.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    const GROUPS: usize = 300;
    for task in 0..2 * GROUPS {
        tube.task(b"x").group(&(task % GROUPS).to_string()).put().unwrap();
    }
    let taken = tube.take_many(2 * GROUPS).unwrap();
    assert_eq!(taken.len(), GROUPS);
    let own = tube.clone();
    let taker = std::thread::spawn(move || own.take_timeout(secs(1_000_000)).unwrap().is_some());
    until(|| !queue.waiters().unwrap().is_empty());
    tube.set("in_flight", 2).unwrap();
    assert!(taker.join().unwrap());
    let more = tube.take_many(2 * GROUPS).unwrap();
    assert_eq!(more.len(), GROUPS);
    tube.set("in_flight", 1).unwrap();
    drop(taken);
    assert_eq!(tube.take_many(2 * GROUPS).unwrap().len(), 0, "each group has one in flight");
    drop(more);
    assert_eq!(tube.take_many(2 * GROUPS).unwrap().len(), GROUPS);
    assert_eq!(queue.check().unwrap(), [""; 0]);
}

#[test]
fn a_limit_of_bytes_comes_and_goes_while_tasks_are_kept() {
    let (_home, path) = home();
    let queue = open(&path);
    let all = Retention::new().count(1000);
    let tube = queue.create_tube("t", TubeOptions::default().keep_finished(all)).unwrap();
    let tube = tube.durability(Durability::Relaxed);
    const TASKS: usize = 300;
    let end = || {
        tube.put(b"1234567").unwrap();
        tube.take().unwrap().ack_with(b"890").unwrap();
        tube.stats().unwrap().finished
    };
    (0..TASKS).for_each(|_| _ = end());
    for task in 0..TASKS {
        let id = tube.put(b"x").unwrap();
        tube.bury(id, task.to_string()).unwrap();
    }
    let most = 10 * TASKS as u64;
    tube.set("keep_finished", all.bytes(most)).unwrap();
    tube.set("keep_buried", all.bytes(TASKS as u64)).unwrap();
    assert_eq!(tube.stats().unwrap().finished, TASKS as u64, "a setting removes none");
    assert_eq!(end(), TASKS as u64, "one goes for each that comes");
    let id = tube.put(b"y").unwrap();
    tube.bury(id, "no").unwrap();
    assert_eq!(tube.stats().unwrap().buried, TASKS as u64);
    assert_eq!(queue.check().unwrap(), [""; 0]);
    tube.unset("keep_buried").unwrap();
    tube.set("keep_finished", all).unwrap();
    assert_eq!(end(), TASKS as u64 + 1, "without it none goes");
    tube.set("keep_finished", Retention::new().bytes(10)).unwrap();
    assert_eq!(queue.check().unwrap(), [""; 0]);
    queue.close().unwrap();
    let queue = open(&path);
    let tube = queue.tube("t").unwrap();
    assert_eq!(value(&tube, "keep_finished"), Retention::new().bytes(10).into());
    close_sound(queue);
}

/// Tasks that have ended go by the options that their tube has now, not by those of their end.
#[test]
fn a_changed_retention_holds_for_tasks_that_are_kept_already() {
    let aged = |seconds| Retention::new().age(secs(seconds));
    let options = TubeOptions::default().keep_finished(aged(60)).keep_buried(aged(60));
    let (tube, clock) = lone_with(options);
    let end = || {
        tube.put_many([*b"done", *b"lost"]).unwrap();
        tube.take().unwrap().ack().unwrap();
        tube.take().unwrap().bury("no").unwrap();
    };
    let left = || tube.stats().map(|stats| (stats.finished, stats.buried)).unwrap();
    end();
    clock.advance(secs(10));
    end();

    // Longer: they stay when the old time comes, and go when the new one does.
    for name in ["keep_finished", "keep_buried"] {
        tube.set(name, aged(100)).unwrap();
    }
    clock.advance(secs(89));
    assert_eq!(left(), (2, 2));
    clock.advance(secs(1));
    assert_eq!(left(), (1, 1));
    // Without an end, and then with one that is over.
    for name in ["keep_finished", "keep_buried"] {
        tube.set(name, Retention::new()).unwrap();
    }
    clock.advance(secs(1000));
    assert_eq!(left(), (1, 1));
    tube.set("keep_finished", aged(5)).unwrap();
    assert_eq!(left(), (0, 1));
    tube.set("keep_buried", SettingValue::Nothing).unwrap();
    end();
    clock.advance(secs(4));
    assert_eq!(left(), (1, 2), "all that are buried");
    tube.set("keep_finished", SettingValue::Nothing).unwrap();
    assert_eq!(left(), (0, 2), "none that is finished");
    tube.set("keep_buried", Retention::new().count(1)).unwrap();
    assert_eq!(left(), (0, 1));
}

/// Regression: of a task whose ttl ended with its age, a longer age kept it until something else
/// was due.
#[test]
fn a_longer_age_keeps_no_task_whose_ttl_ends() {
    let options = TubeOptions::default().keep_buried(Retention::new().age(secs(5)));
    let (tube, clock) = lone_with(options);
    let id = tube.task(b"a").ttl(secs(10)).put().unwrap();
    clock.advance(secs(5));
    tube.bury(id, "no").unwrap();
    tube.set("keep_buried", Retention::new().age(secs(100))).unwrap();
    clock.advance(secs(5));
    assert_eq!(tube.stats().unwrap().buried, 0);
}

/// Regression: an update of a buried task removed those that had ended after it.
#[test]
fn tasks_beyond_a_lower_limit_go_in_the_order_of_their_ends() {
    let (tube, _clock) = lone_with(TubeOptions::default());
    let ids = tube.put_many(["a", "b", "c"].map(str::as_bytes)).unwrap();
    ids.iter().for_each(|id| tube.bury(*id, "no").unwrap());
    tube.update(ids[0]).max_attempts(7).apply().unwrap();
    tube.set("keep_buried", Retention::new().count(2)).unwrap();
    tube.update(ids[1]).max_attempts(7).apply().unwrap();
    let left = || tube.tasks(State::Buried).map(|task| task.unwrap().id).collect::<Vec<_>>();
    assert_eq!(left(), ids[1..]);
    let last = tube.put(b"d").unwrap();
    tube.bury(last, "no").unwrap();
    assert_eq!(left(), [ids[2], last]);
}

#[test]
fn what_is_no_setting_or_no_value_of_it_is_refused() {
    let queue = Queue::in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    let fifo = queue.create_tube("fifo", TubeOptions::new(TubeKind::Fifo)).unwrap();
    for name in FIXED {
        for refused in [tube.set(name, true), tube.unset(name).map(drop)] {
            let text = refused.unwrap_err().to_string();
            assert!(
                text.contains(&format!("the option {name} stays as the tube was made")),
                "{text}"
            );
        }
        assert_eq!(kind(tube.setting(name)), ErrorKind::Invalid);
    }
    let refusals = [
        (tube.set("tll", secs(1)), "no setting \"tll\"; there are backoff, book, capacity"),
        (tube.set("kind", "fifo"), "; there are backoff, book, capacity"),
        (tube.set("ttl", 5), "ttl takes a length of time, or Nothing, and not Integer(5)"),
        (tube.set("capacity", -1), "capacity takes a whole number, 0 or Nothing for no limit"),
        (tube.set("max_attempts", 1_u64 << 32), "max_attempts takes a whole number"),
        (tube.set("priority", None::<i64>), "priority takes a whole number"),
        (tube.set("ttl", Duration::ZERO), "a microsecond or more"),
        (tube.set("in_flight", 0), "in_flight takes 1 or more"),
        (tube.set("keep_buried", Retention::new().count(0)), "keeps nothing"),
        (tube.set("app.", 1), "goes on behind \"app.\""),
        (tube.set("", 1), "name of a setting is empty"),
        (queue.set("ttl", secs(1)), "a queue has no setting \"ttl\"; there are consumer_keep"),
        (queue.set("cache_bytes", 5), "the builder gives it at each opening; there are"),
        (queue.set("payload_bytes_max", (1 << 30) + 1), "at most 1 GiB, and not"),
        (queue.set("durability", "weak"), "durability takes a Durability, and not Text"),
        (queue.set("durable_bytes_max", -1), "a number of bytes, or Nothing for no limit"),
    ];
    for (refused, text) in refusals {
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains(text), "{text}: {error}");
    }
    assert_eq!(kind(fifo.set("ttl", secs(1))), ErrorKind::Unsupported);
    assert_eq!(kind(tube.setting("tll")), ErrorKind::Invalid);
    assert_eq!(kind(queue.setting("read_only")), ErrorKind::Invalid);
    let long = HistoryLimits::new().entries(1001);
    assert_eq!(kind(tube.set("history", long)), ErrorKind::Invalid);
    assert_eq!(kind(tube.set("book", "b".repeat(256))), ErrorKind::Invalid);
    let changed = |settings: Vec<Setting>| settings.iter().any(|it| it.stored.is_some());
    assert!(!changed(tube.settings().unwrap()) && !changed(queue.settings().unwrap()));
}

#[test]
fn own_settings_have_limits() {
    let (_home, path) = home();
    let queue = open(&path);
    let tube = queue.tube("t").unwrap();
    let longest = format!("app.{}", "n".repeat(251));
    tube.set(&longest, "v".repeat(4096)).unwrap();
    assert_eq!(kind(tube.set(&format!("{longest}n"), 1)), ErrorKind::Invalid);
    assert_eq!(kind(tube.set("app.long", "v".repeat(4097))), ErrorKind::TooLarge);
    let details = |bytes: usize| BTreeMap::from([("a".to_owned(), "b".repeat(bytes))]);
    tube.set("app.details", details(4092)).unwrap();
    assert_eq!(kind(tube.set("app.details", details(4093))), ErrorKind::TooLarge);
    for number in 2..256 {
        tube.set(&format!("app.{number}"), number).unwrap();
    }
    assert_eq!(kind(tube.set("app.one more", true)), ErrorKind::Full);
    tube.set("app.2", "another").unwrap();
    tube.set("ttl", secs(1)).unwrap();
    queue.set("app.one more", true).unwrap();
    assert!(tube.unset("app.3").unwrap());
    tube.set("app.one more", false).unwrap();
    queue.close().unwrap();

    let queue = open(&path);
    let tube = queue.tube("t").unwrap();
    assert_eq!(tube.settings().unwrap().len(), unusual().len() + 256);
    assert_eq!(value(&tube, &longest), "v".repeat(4096).into());
    assert_eq!(value(&tube, "app.2"), "another".into());
    assert_eq!(value(&tube, "app.one more"), false.into());
    let absent = tube.setting("app.3").unwrap();
    assert_eq!((absent.value, absent.source), (SettingValue::Nothing, SettingSource::Default));
    assert_eq!(queue.setting("app.one more").unwrap().stored, Some(true.into()));
    assert_eq!(queue.setting("app.2").unwrap().stored, None);
    drop(tube);
    // They go with their tube, and stay over a truncation.
    queue.tube("t").unwrap().truncate().unwrap();
    assert_eq!(value(&queue.tube("t").unwrap(), "app.2"), "another".into());
    queue.drop_tube("t").unwrap();
    let tube = queue.tube("t").unwrap();
    assert_eq!(tube.settings().unwrap().len(), unusual().len());
    assert_eq!(value(&tube, "ttl"), SettingValue::Nothing);
    drop(tube);
    close_sound(queue);
}

#[test]
fn the_builder_goes_before_what_is_stored() {
    let (_home, path) = home();
    let queue = open(&path);
    let max = |queue: &Queue| queue.setting("payload_bytes_max").unwrap();
    assert_eq!(
        (max(&queue).value, max(&queue).source),
        ((16 << 20).into(), SettingSource::Default)
    );
    queue.set("payload_bytes_max", 3).unwrap();
    let tube = queue.tube("t").unwrap();
    assert_eq!(kind(tube.put(b"four")), ErrorKind::TooLarge);
    queue.close().unwrap();

    let queue = still().0.payload_bytes_max(4).open(&path).unwrap();
    let tube = queue.tube("t").unwrap();
    tube.put(b"four").unwrap();
    assert_eq!(kind(tube.put(b"fives")), ErrorKind::TooLarge);
    let setting = max(&queue);
    assert_eq!((setting.value, setting.stored), (4.into(), Some(3.into())));
    assert_eq!((setting.source, setting.default), (SettingSource::Builder, (16 << 20).into()));
    queue.set("payload_bytes_max", 2).unwrap();
    tube.put(b"four").unwrap();
    queue.close().unwrap();

    let queue = open(&path);
    let tube = queue.tube("t").unwrap();
    assert_eq!((max(&queue).value, max(&queue).source), (2.into(), SettingSource::Stored));
    assert_eq!(kind(tube.put(b"abc")), ErrorKind::TooLarge);
    assert!(queue.unset("payload_bytes_max").unwrap());
    tube.put(b"fives").unwrap();
    drop(tube);
    close_sound(queue);
}

#[test]
fn every_setting_of_the_queue_is_in_force_once_it_is_set() {
    let (_home, path) = home();
    let (builder, clock) = still();
    let queue = builder.open(&path).unwrap();
    let tube = queue.tube("t").unwrap();
    let memory = queue.create_tube("m", TubeOptions::default().temporary(true)).unwrap();
    queue.set("durable_bytes_max", 3).unwrap();
    tube.put(b"abc").unwrap();
    assert_eq!(kind(tube.put(b"d")), ErrorKind::Full);
    queue.set("durable_bytes_max", None::<u64>).unwrap();
    tube.put(b"d").unwrap();
    memory.put(b"a").unwrap();
    queue.set("temporary_bytes_max", 0).unwrap();
    assert_eq!(kind(memory.put(b"a")), ErrorKind::Full);
    queue.unset("temporary_bytes_max").unwrap();
    memory.put(b"a").unwrap();

    queue.set("session_grace", secs(60)).unwrap();
    let ada = queue.consumer("ada").unwrap();
    let ticket = tube.by(&ada).take().unwrap().detach();
    drop(ada);
    clock.advance(secs(59));
    queue.tick().unwrap();
    assert_eq!(tube.stats().unwrap().taken, 1);
    clock.advance(secs(1));
    queue.tick().unwrap();
    assert!(tube.ticket(ticket).ack().unwrap_err().is_lease_lost());

    queue.set("durability", Durability::Relaxed).unwrap();
    let relaxed = queue.tube("t").unwrap();
    let syncs = |tube: &Tube| {
        let before = queue.space().unwrap().syncs;
        tube.put(b"x").unwrap();
        queue.space().unwrap().syncs - before
    };
    assert_eq!((syncs(&tube), syncs(&relaxed)), (1, 0));
    // In the call of a queue without threads, when the oldest write is older.
    queue.set("flush_interval", secs(1)).unwrap();
    queue.flush().unwrap();
    assert_eq!(syncs(&relaxed), 0);
    clock.advance(Duration::from_millis(900));
    assert_eq!(syncs(&relaxed), 0);
    clock.advance(Duration::from_millis(200));
    assert_eq!(syncs(&relaxed), 1);
    drop((tube, memory, relaxed));
    close_sound(queue);
}

/// Regression: the thread that syncs slept to the end of the interval that was in force when it
/// fell asleep. What was written after the change waited for that, unsynced.
#[test]
fn a_shorter_flush_interval_holds_for_what_waits() {
    let (_home, path) = home();
    let queue = Queue::builder().durability(Durability::Relaxed).open(&path).unwrap();
    let tube = queue.tube("t").unwrap();
    for _ in 0..3 {
        queue.set("flush_interval", Duration::MAX).unwrap();
        let receipt = tube.put_receipt(b"a").unwrap();
        std::thread::yield_now();
        queue.set("flush_interval", Duration::from_millis(1)).unwrap();
        while !receipt.is_synced() {
            std::thread::yield_now();
        }
    }
    drop(tube);
    close_sound(queue);
}

/// The first put that waits for room has it when a limit of the queue is raised.
#[test]
fn a_higher_limit_of_the_queue_is_room_for_a_waiting_put() {
    let queue = still().0.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    queue.set("durable_bytes_max", 1).unwrap();
    tube.put(b"a").unwrap();
    let own = tube.clone();
    let put = std::thread::spawn(move || own.task(b"b").wait_for_room(secs(1_000_000)).put());
    until(|| !queue.waiters().unwrap().is_empty());
    queue.unset("durable_bytes_max").unwrap();
    put.join().unwrap().unwrap();
}

#[test]
fn a_change_is_one_event_in_the_order_of_all() {
    let queue = still().0.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    let events = queue.events();
    tube.put(b"a").unwrap();
    tube.set("ttl", secs(1)).unwrap();
    tube.set("ttl", secs(1)).unwrap();
    tube.put(b"b").unwrap();
    queue.set("app.colour", "blue").unwrap();
    queue.set("app.colour", "blue").unwrap();
    tube.set("app.colour", "red").unwrap();
    tube.unset("ttl").unwrap();
    tube.unset("ttl").unwrap();
    queue.unset("app.colour").unwrap();
    queue.unset("durability").unwrap();
    assert!(tube.set("ttl", 1).is_err());
    let seen = |event: Event| {
        let setting = event.setting.map(|name| name.to_string());
        (event.seq, event.tube.to_string(), setting, event.cause)
    };
    let seen: Vec<_> = std::iter::from_fn(|| events.try_recv()).map(seen).collect();
    let begun = seen[0].0;
    let expected = [
        ("t", None, Cause::Put),
        ("t", Some("ttl"), Cause::SetSetting),
        ("t", None, Cause::Put),
        ("", Some("app.colour"), Cause::SetSetting),
        ("t", Some("app.colour"), Cause::SetSetting),
        ("t", Some("ttl"), Cause::UnsetSetting),
        ("", Some("app.colour"), Cause::UnsetSetting),
    ];
    let expected = (begun..).zip(expected).map(|(seq, (tube, setting, cause))| {
        (seq, tube.to_owned(), setting.map(str::to_owned), cause)
    });
    assert_eq!(seen, expected.collect::<Vec<_>>());
}

#[test]
fn a_reader_shows_settings_and_sets_none() {
    let (_home, path) = home();
    let queue = open(&path);
    let tube = queue.tube("t").unwrap();
    tube.set("ttl", secs(1)).unwrap();
    queue.set("session_grace", secs(2)).unwrap();
    queue.close().unwrap();
    let reader = still().0.read_only(true).open(&path).unwrap();
    let tube = reader.tube("t").unwrap();
    assert_eq!(value(&tube, "ttl"), secs(1).into());
    assert_eq!(reader.setting("session_grace").unwrap().value, secs(2).into());
    assert_eq!(kind(tube.set("ttl", secs(2))), ErrorKind::ReadOnly);
    assert_eq!(kind(tube.unset("ttl")), ErrorKind::ReadOnly);
    assert_eq!(kind(reader.set("app.a", 1)), ErrorKind::ReadOnly);
    reader.close().unwrap();
    assert_eq!(kind(reader.settings()), ErrorKind::Closed);
    assert_eq!(kind(reader.set("app.a", 1)), ErrorKind::Closed);
}

#[test]
fn inside_a_transaction_and_of_a_dropped_tube_they_are_refused() {
    let queue = Queue::in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    queue
        .transact(|_| {
            assert_eq!(kind(tube.set("ttl", secs(1))), ErrorKind::InTransaction);
            assert_eq!(kind(queue.settings()), ErrorKind::InTransaction);
            crate::ok(())
        })
        .unwrap();
    queue.drop_tube("t").unwrap();
    assert_eq!(kind(tube.set("ttl", secs(1))), ErrorKind::TubeNotFound);
    assert_eq!(kind(tube.set("app.a", 1)), ErrorKind::TubeNotFound);
    assert_eq!(kind(tube.settings()), ErrorKind::TubeNotFound);
}

/// A temporary tube stays, and so do its settings.
#[test]
fn settings_of_a_temporary_tube_are_durable() {
    let (_home, path) = home();
    let options = TubeOptions::default().temporary(true);
    let queue = open(&path);
    queue.create_tube("t", options.clone()).unwrap().set("capacity", 1).unwrap();
    queue.close().unwrap();
    let queue = open(&path);
    let tube = queue.create_tube("t", options.if_not_exists()).unwrap();
    tube.put(b"a").unwrap();
    assert_eq!(kind(tube.put(b"b")), ErrorKind::Full);
    drop(tube);
    close_sound(queue);
}

/// What the next opening finds is what the last call set, also after a kill.
#[test]
fn settings_survive_a_kill() {
    let (_home, path) = home();
    let queue = open(&path);
    let tube = queue.tube("t").unwrap();
    tube.set("ttl", secs(1)).unwrap();
    tube.set("ttl", secs(2)).unwrap();
    tube.set("app.a", Some(7)).unwrap();
    queue.set("payload_bytes_max", 3).unwrap();
    let (_copy, copy) = crate::killed(&path);
    let queue = open(&copy);
    let tube = queue.tube("t").unwrap();
    assert_eq!((value(&tube, "ttl"), value(&tube, "app.a")), (secs(2).into(), 7.into()));
    assert_eq!(kind(tube.put(b"four")), ErrorKind::TooLarge);
    drop(tube);
    close_sound(queue);
}

/// Damages a row of the base, which is its value and the seal of both.
fn damaged(path: &std::path::Path, key: &[u8], value: &[u8]) {
    crate::rows::flip_value(path, &[&[0x31], key].concat(), value);
}

/// Each is found by `check`, the queue serves as if it were not set, and the next change mends it.
#[test]
fn damaged_settings_are_found_and_set_again() {
    let (_home, path) = home();
    let queue = open(&path);
    let tube = queue.create_tube("t", TubeOptions::default().ttl(secs(1))).unwrap();
    tube.set("ttl", secs(2)).unwrap();
    tube.set("app.colour", "blue").unwrap();
    queue.set("payload_bytes_max", 3).unwrap();
    queue.close().unwrap();
    let millions = |seconds: u64| (seconds * 1_000_000).to_be_bytes();
    damaged(&path, b"\0\0\0\x01ttl", &[&[3, 0, 8][..], &millions(1)].concat());
    damaged(&path, b"\0\0\0\x01app.colour", b"\x04\0\x04blue");
    let three = [&[2, 0, 16][..], &3_i128.to_be_bytes()].concat();
    damaged(&path, b"\0\0\0\0payload_bytes_max", &three);

    let queue = open(&path);
    let faults = queue.check().unwrap();
    let found = faults.iter().filter(|line| line.contains("Setting: a damaged row")).count();
    assert_eq!(found, 3, "{faults:?}");
    let options = TubeOptions::default().ttl(secs(2)).if_not_exists();
    let tube = queue.create_tube("t", options).unwrap();
    let ttl = tube.setting("ttl").unwrap();
    assert_eq!((ttl.value, ttl.default), (secs(2).into(), secs(2).into()));
    assert_eq!(kind(tube.setting("app.colour")), ErrorKind::Damaged);
    assert_eq!(tube.settings().unwrap().len(), unusual().len());
    tube.put(b"four").unwrap();

    assert!(tube.unset("ttl").unwrap());
    assert_eq!(value(&tube, "ttl"), secs(2).into(), "what it was made with is not known");
    tube.set("app.colour", "red").unwrap();
    queue.set("payload_bytes_max", 4).unwrap();
    assert_eq!(kind(tube.put(b"fives")), ErrorKind::TooLarge);
    assert_eq!(value(&tube, "app.colour"), "red".into());
    crate::is_mended(&queue);
}

/// A put that replaces a task adds none, also in a tube that has more than a lowered capacity.
#[test]
fn a_lowered_capacity_refuses_only_what_adds() {
    let (tube, _clock) = lone();
    let put = |text: &[u8]| tube.task(text).key("k").on_conflict(Conflict::Replace).put();
    put(b"a").unwrap();
    tube.put(b"b").unwrap();
    tube.set("capacity", 1).unwrap();
    put(b"c").unwrap();
    assert_eq!(kind(tube.put(b"d")), ErrorKind::Full);
    assert_eq!(next(&tube), "b");
    assert_eq!(kind(tube.put(b"d")), ErrorKind::Full);
    assert_eq!(next(&tube), "c");
    tube.put(b"d").unwrap();
}

/// Regression: no limit has several forms, and one that was set again in another was a change, with
/// a record, an event and wake-ups.
#[test]
fn no_limit_that_is_set_again_is_no_change() {
    let queue = still().0.in_memory().unwrap();
    let tube = queue.create_tube("t", TubeOptions::default().capacity(5)).unwrap();
    let events = queue.events();
    for (name, value) in [
        ("capacity", SettingValue::from(0)),
        ("max_attempts", 0.into()),
        ("limit", 0.into()),
        ("ttl", Duration::MAX.into()),
        ("ttr", Duration::MAX.into()),
    ] {
        tube.set(name, value.clone()).unwrap();
        while events.try_recv().is_some() {}
        tube.set(name, value).unwrap();
        let again = events.try_recv().map(|event| event.cause);
        assert_eq!(again, None, "{name}");
    }
}
