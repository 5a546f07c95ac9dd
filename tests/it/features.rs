//! Features in use: what is entered in the journal's head at its first use, and only then, so that
//! a folder that does without them opens in every version of format 1.

use crate::{home, secs, still};
use std::fs;
use std::path::Path;
use tubewell::{Advance, Backoff, HistoryLimits, Lapse, Queue, Task, Tube, TubeKind, TubeOptions};

/// The names in both slots of the head, at the offsets that the page on the format gives.
fn entered(folder: &Path) -> Vec<String> {
    let journal = fs::read(folder.join("journal")).unwrap();
    let slots = [4096, 8192].map(|at| {
        let slot = &journal[at..at + 4096];
        let count = u16::from_be_bytes(slot[8..10].try_into().unwrap());
        let (mut at, mut names) = (10, Vec::new());
        for _ in 0..count {
            let length = usize::from(slot[at + 3]);
            names.push(String::from_utf8(slot[at + 4..at + 4 + length].to_vec()).unwrap());
            at += 4 + length;
        }
        (slot[..8].to_vec(), names)
    });
    slots.into_iter().max().unwrap().1
}

#[test]
fn a_feature_is_entered_at_its_first_use() {
    let (_home, path) = home();
    let queue = still().0.open(&path).unwrap();
    let tube = queue.tube("t").unwrap();
    tube.put(b"plain").unwrap();
    tube.task(b"all").priority(1).group("g").key("k").put().unwrap();
    let jitter = Backoff::linear(crate::secs(1)).jitter(10);
    queue.create_tube("linear", TubeOptions::default().backoff(jitter)).unwrap();
    assert_eq!(entered(&path), [""; 0], "older versions wait without step and jitter");
    tube.task(b"x").max_attempts(3).put().unwrap();
    assert_eq!(entered(&path), ["retry-terms"]);
    queue.create_tube("higher", TubeOptions::default().higher_first(true)).unwrap();
    let both = ["higher-first", "retry-terms"];
    assert_eq!(entered(&path), both);
    queue.create_tube("plain", TubeOptions::default().lapse(Lapse::new())).unwrap();
    assert_eq!(entered(&path), both);
    queue.create_tube("free", TubeOptions::default().lapse(Lapse::new().charged(false))).unwrap();
    let both = ["higher-first", "retry-terms", "lapses"];
    assert_eq!(entered(&path), both);
    queue.close().unwrap();
    let queue = still().0.open(&path).unwrap();
    assert_eq!(
        (queue.check().unwrap(), entered(&path)),
        (Vec::new(), both.map(String::from).to_vec())
    );
}

#[test]
fn each_use_enters_it() {
    let uses: [fn(&Queue, &Tube); 3] = [
        |_, tube| {
            let id = tube.put(b"x").unwrap();
            tube.update(id).backoff(Backoff::NONE).apply().unwrap();
        },
        |queue, tube| {
            queue.transact(|tx| tube.task(b"x").retries(1).put_in(tx)).unwrap();
        },
        |_, tube| {
            tube.batch_of([tube.task(b"a"), tube.task(b"b")]).max_attempts(1).put().unwrap();
        },
    ];
    for using in uses {
        let (_home, path) = home();
        let queue = still().0.open(&path).unwrap();
        using(&queue, &queue.tube("t").unwrap());
        assert_eq!(entered(&path), ["retry-terms"]);
    }
}

fn without_history(queue: &Queue, name: &str) -> Tube {
    queue.create_tube(name, TubeOptions::default().history(HistoryLimits::none())).unwrap()
}

/// An entry of a task's history: not by a put, a take, a renew or an ack.
#[test]
fn each_entry_of_a_history_enters_it() {
    let uses: [fn(&Tube); 4] = [
        |tube| tube.take().unwrap().release().unwrap(),
        |tube| drop(tube.take().unwrap()),
        |tube| tube.log(tube.peek_next(tubewell::State::Ready).unwrap().unwrap().id, "x").unwrap(),
        |tube| tube.take().unwrap().log("x").unwrap(),
    ];
    for using in uses {
        let (_home, path) = home();
        let queue = still().0.open(&path).unwrap();
        let memory = queue.create_tube("m", TubeOptions::default().temporary(true)).unwrap();
        memory.put(b"y").unwrap();
        using(&memory);
        let tube = queue.tube("t").unwrap();
        tube.put_many([b"x".to_vec(), b"y".to_vec()]).unwrap();
        let task = tube.take().unwrap();
        task.renew().unwrap();
        task.ack().unwrap();
        assert_eq!(entered(&path), [""; 0]);
        using(&tube);
        assert_eq!(entered(&path), ["history"]);
    }
}

/// A lease that goes to another holder is an entry, too.
#[test]
fn an_adoption_enters_the_histories() {
    let (_home, path) = home();
    let queue = still().0.open(&path).unwrap();
    let tube = queue.tube("t").unwrap();
    tube.put(b"x").unwrap();
    let ada = queue.consumer_with_grace("ada", secs(60)).unwrap();
    drop((tube.by(&ada).take().unwrap().detach(), ada));
    let bob = queue.consumer("bob").unwrap();
    assert_eq!(entered(&path), [""; 0]);
    let _task = bob.adopt("ada").unwrap().tasks(&tube).next().unwrap().unwrap();
    assert_eq!(entered(&path), ["history"]);
}

/// A report of a holder.
#[test]
fn each_report_enters_it() {
    let uses: [fn(&Task); 3] = [
        |task| task.start("x").unwrap(),
        |task| task.progress(1, "x").unwrap(),
        |task| task.checkpoint(b"x").unwrap(),
    ];
    for using in uses {
        let (_home, path) = home();
        let queue = still().0.open(&path).unwrap();
        let memory = queue.create_tube("m", TubeOptions::default().temporary(true)).unwrap();
        let tube = queue.tube("t").unwrap();
        for tube in [&memory, &tube] {
            tube.put(b"x").unwrap();
            assert_eq!(entered(&path), [""; 0]);
            let task = tube.take().unwrap();
            using(&task);
            task.ack().unwrap();
        }
        assert_eq!(entered(&path), ["reports"]);
    }
}

/// A setting of a tube or of the queue, also of a temporary tube; not a refused one, and not unset.
#[test]
fn each_setting_enters_it() {
    type Using = fn(&Queue, &Tube);
    let uses: [(&[&str], Using); 19] = [
        (&["settings", "gates"], |_, tube| tube.set("limit", 1).unwrap()),
        (&["settings", "gates", "conditions"], |_, tube| tube.set("require", ["a"]).unwrap()),
        (&["settings", "gates", "hours"], |_, tube| {
            tube.set("hours", "09:00-10:00".parse::<tubewell::Hours>().unwrap()).unwrap();
        }),
        (&["settings", "hours"], |_, tube| tube.set("hours", None::<tubewell::Hours>).unwrap()),
        (&["settings", "gates", "conditions", "throttles"], |_, tube| {
            tube.set("throttle", ["a"]).unwrap();
        }),
        (&["settings", "conditions", "throttles"], |_, tube| {
            tube.set("throttle", [""; 0]).unwrap();
        }),
        (&["throttles"], |queue, _| assert!(queue.set_throttle("a", 0).unwrap())),
        (&["settings", "conditions"], |_, tube| tube.set("require", [""; 0]).unwrap()),
        (&["settings", "conditions"], |queue, _| queue.set("app.names", ["a"]).unwrap()),
        (&["settings", "gates"], |queue, _| queue.set("app.rate", tubewell::Rate::new(1)).unwrap()),
        (&["settings", "hours"], |_, tube| {
            tube.set("app.hours", "09:00-10:00".parse::<tubewell::Hours>().unwrap()).unwrap();
        }),
        (&["conditions"], |queue, _| assert!(queue.set_condition("a", false).unwrap())),
        (&["settings", "day-statistics"], |_, tube| tube.set("keep_days", 1).unwrap()),
        (&["settings", "dropped-payloads"], |_, tube| tube.set("drop_payloads", true).unwrap()),
        (&["settings"], |_, tube| tube.set("ttl", secs(1)).unwrap()),
        (&["settings"], |_, tube| tube.set("app.a", 1).unwrap()),
        (&["settings"], |queue, _| queue.set("session_grace", secs(1)).unwrap()),
        (&["lapses", "settings"], |_, tube| {
            tube.set("lapse", Lapse::new().charged(false)).unwrap();
        }),
        (&["retention", "settings"], |_, tube| {
            tube.set("keep_buried", tubewell::Retention::new()).unwrap();
        }),
    ];
    for (names, using) in uses {
        let (_home, path) = home();
        let queue = still().0.open(&path).unwrap();
        let tube = queue.create_tube("t", TubeOptions::default().temporary(true)).unwrap();
        assert!(tube.set("ttl", 1).is_err() && queue.set("ttl", secs(1)).is_err());
        queue.set_condition_for_run("a", true).unwrap();
        assert!(!tube.unset("ttl").unwrap() && !queue.unset("app.a").unwrap());
        assert_eq!(entered(&path), [""; 0]);
        using(&queue, &tube);
        assert_eq!(entered(&path), names);
    }
}

/// A tube that is made with an option that an older version would not apply.
#[test]
fn each_option_enters_it() {
    let uses = [
        ("dropped-payloads", TubeOptions::default().drop_payloads(true)),
        ("kind-index", TubeOptions::default().index_kinds(true)),
        ("gates", TubeOptions::default().limit(1)),
        ("gates", TubeOptions::default().rate(tubewell::Rate::new(1))),
        ("day-statistics", TubeOptions::default().keep_days(1)),
    ];
    for (name, options) in uses {
        for temporary in [false, true] {
            let (_home, path) = home();
            let queue = still().0.open(&path).unwrap();
            queue.create_tube("plain", TubeOptions::default()).unwrap();
            assert_eq!(entered(&path), [""; 0]);
            queue.create_tube("t", options.clone().temporary(temporary)).unwrap();
            assert_eq!(entered(&path), [name]);
        }
    }
}

/// What is kept of a failure, and the groups of failed tasks.
#[test]
fn each_failure_enters_it() {
    let uses: [fn(tubewell::Task); 3] = [
        |task| task.fail("g", "no").unwrap(),
        |task| task.retry("no").unwrap(),
        drop, // its last attempt
    ];
    for using in uses {
        let (_home, path) = home();
        let queue = still().0.open(&path).unwrap();
        let options = TubeOptions::default().max_attempts(1).history(HistoryLimits::none());
        let tube = queue.create_tube("t", options).unwrap();
        tube.put(b"x").unwrap();
        let task = tube.take().unwrap();
        tube.bury(tube.put(b"y").unwrap(), "no failure").unwrap();
        assert_eq!(entered(&path), [""; 0]);
        using(task);
        assert_eq!(entered(&path), ["failures"]);
    }
}

/// A task that came from another tube, or whose step is done.
#[test]
fn each_move_enters_it() {
    let uses: [fn(&Tube, &Tube); 3] = [
        |from, to| from.take().unwrap().advance(to).unwrap(),
        |from, _| {
            let terms = Advance::new().result(b"r");
            from.take().unwrap().advance_with(from, terms).unwrap();
        },
        |from, to| {
            let id = from.peek_next(tubewell::State::Ready).unwrap().unwrap().id;
            from.move_to(id, to).apply().unwrap();
        },
    ];
    for using in uses {
        let (_home, path) = home();
        let queue = still().0.open(&path).unwrap();
        let [from, to] = ["from", "to"].map(|name| without_history(&queue, name));
        from.put(b"x").unwrap();
        from.take().unwrap().advance(&from).unwrap();
        assert_eq!(entered(&path), [""; 0], "no row says that it has moved");
        using(&from, &to);
        assert_eq!(entered(&path), ["moves"]);
    }
}

/// A task in the trash of a durable tube.
#[test]
fn each_trashing_enters_it() {
    let uses: [fn(&Tube); 2] = [
        |tube| tube.take().unwrap().trash("torn").unwrap(),
        |tube| {
            let id = tube.peek_next(tubewell::State::Ready).unwrap().unwrap().id;
            tube.trash(id, "torn").unwrap();
        },
    ];
    for using in uses {
        let (_home, path) = home();
        let queue = still().0.open(&path).unwrap();
        let memory = queue.create_tube("m", TubeOptions::default().temporary(true)).unwrap();
        memory.put(b"y").unwrap();
        using(&memory);
        let tube = without_history(&queue, "t");
        let id = tube.put(b"x").unwrap();
        assert_eq!((tube.restore(id).is_err(), tube.empty_trash().unwrap()), (true, 0));
        assert_eq!(entered(&path), [""; 0]);
        using(&tube);
        assert_eq!(entered(&path), ["trash"]);
    }
}

/// A payload of a durable tube that was replaced, or that is written for that in turns.
#[test]
fn each_replaced_payload_enters_it() {
    let long = vec![7; 1 << 20];
    let uses: [fn(&mut tubewell::Task, &[u8]); 3] = [
        |task, _| task.with_payload(b"y").release().unwrap(),
        |task, long| task.with_payload(long).renew().unwrap(),
        |task, long| {
            task.with_payload(long).ack_with(b"r").unwrap_err();
            task.with_payload(b"").renew().unwrap();
        },
    ];
    for using in uses {
        let (_home, path) = home();
        let queue = still().0.open(&path).unwrap();
        let memory = queue.create_tube("m", TubeOptions::default().temporary(true)).unwrap();
        memory.put(b"x").unwrap();
        using(&mut memory.take().unwrap(), &long);
        let tube = without_history(&queue, "t");
        tube.put(b"x").unwrap();
        let mut task = tube.take().unwrap();
        task.with_payload(&long).ack().unwrap_err();
        assert_eq!(entered(&path), [""; 0]);
        using(&mut task, &long);
        assert_eq!(entered(&path), ["payloads"]);
    }
}

/// A tag of a task in a durable tube, at its put or later, and a tracked task of any tube.
#[test]
fn each_tag_and_each_tracked_task_enters_it() {
    type Use = (&'static str, fn(&Queue, &Tube));
    let uses: [Use; 5] = [
        ("tags", |_, tube| _ = tube.task(b"y").tag("a").put().unwrap()),
        ("tags", |_, tube| _ = tube.tag(tube.put(b"y").unwrap(), ["a"]).unwrap()),
        ("tags", |_, tube| _ = tube.batch(vec![b"y".to_vec()]).tag("a").put().unwrap()),
        ("tags", |queue, tube| {
            queue.transact(|tx| tube.task(b"y").tag("a").put_in(tx)).unwrap();
        }),
        ("tracking", |queue, tube| assert!(queue.track(tube.put(b"y").unwrap()).unwrap())),
    ];
    for (name, using) in uses {
        let (_home, path) = home();
        let queue = still().0.open(&path).unwrap();
        let memory = queue.create_tube("m", TubeOptions::default().temporary(true)).unwrap();
        let tube = queue.tube("t").unwrap();
        let id = tube.put(b"x").unwrap();
        tube.tag(id, [""; 0]).unwrap();
        tube.untag(id, ["a"]).unwrap();
        assert!(tube.tag(id, [""]).is_err() && queue.track(tubewell::TaskId::new(99)).is_err());
        let other = memory.task(b"y").tag("a").put().unwrap();
        memory.untag(other, ["a"]).unwrap();
        assert_eq!(entered(&path), [""; 0]);
        using(&queue, &tube);
        assert_eq!(entered(&path), [name]);
    }
}

/// A schedule that is made enters it, and one that is refused does not.
#[test]
fn the_first_schedule_enters_it() {
    let (_home, path) = home();
    let queue = still().0.open(&path).unwrap();
    let tube = queue.tube("t").unwrap();
    let of = |seconds| queue.schedule("s").every(secs(seconds)).to(&tube);
    of(0).make().unwrap_err();
    assert!(!queue.schedule_named("s").remove().unwrap());
    assert_eq!(entered(&path), [""; 0]);
    of(60).make().unwrap();
    assert_eq!(entered(&path), ["schedules"]);
    // The gates of its children are in its own row, before there is a child.
    let later = || queue.schedule("later").every(secs(60)).offset(secs(60));
    later().require("online").to(&tube).make().unwrap();
    assert_eq!(entered(&path), ["schedules", "task-gates"]);
    queue.schedule_named("later").update(|later| later.group("g")).unwrap();
    assert_eq!(entered(&path), ["schedules", "task-gates", "group-gates"]);
}

/// Of a task of a group the gates are no part of its line.
#[test]
fn the_first_gates_in_a_group_enter_theirs() {
    let (_home, path) = home();
    let queue = still().0.open(&path).unwrap();
    let tube = without_history(&queue, "t");
    let memory = queue.create_tube("memory", TubeOptions::default().temporary(true)).unwrap();
    memory.task(b"x").group("g").require("online").put().unwrap();
    tube.task(b"x").group("g").put().unwrap();
    assert_eq!(entered(&path), [""; 0]);
    let id = tube.task(b"x").require("online").put().unwrap();
    assert_eq!(entered(&path), ["task-gates"]);
    let lanes = TubeOptions::new(TubeKind::Utube).history(HistoryLimits::none());
    let lanes = queue.create_tube("lanes", lanes).unwrap();
    tube.move_to(id, &lanes).apply().unwrap();
    assert_eq!(entered(&path), ["moves", "task-gates", "group-gates"]);
    queue.close().unwrap();
    let queue = still().0.open(&path).unwrap();
    assert_eq!(queue.check().unwrap(), Vec::<String>::new());
}

/// A refused call uses nothing, and the rows of a temporary tube reach no disk.
#[test]
fn a_use_that_writes_nothing_to_the_disk_enters_nothing() {
    let (_home, path) = home();
    let queue = still().0.open(&path).unwrap();
    let tube = queue.create_tube("t", TubeOptions::default().capacity(1)).unwrap();
    tube.put(b"x").unwrap();
    tube.task(b"y").max_attempts(1).put().unwrap_err();
    queue.create_tube("t", TubeOptions::default().higher_first(true)).unwrap_err();
    let memory = queue.create_tube("memory", TubeOptions::default().temporary(true)).unwrap();
    let id = memory.task(b"z").max_attempts(1).put().unwrap();
    memory.update(id).max_attempts(2).apply().unwrap();
    assert_eq!(entered(&path), [""; 0]);
}

/// A change that is done in its first step enters nothing: what it has written every version reads.
#[test]
fn a_change_of_options_in_several_steps_enters_a_feature() {
    let (_home, path) = home();
    let queue = still().0.open(&path).unwrap();
    let tube = queue.tube("t").unwrap().durability(tubewell::Durability::Relaxed);
    let take = |groups: usize| {
        for group in 0..groups {
            tube.task(b"x").group(&format!("{groups} {group}")).put().unwrap();
        }
        tube.take_many(groups).unwrap().into_iter().for_each(|task| _ = task.detach());
    };
    take(64);
    tube.set("in_flight", 2).unwrap();
    assert_eq!(entered(&path), ["settings"]);
    take(1);
    tube.set("in_flight", 3).unwrap();
    assert_eq!(entered(&path), ["settings", "pending-options"]);
    assert_eq!(queue.check().unwrap(), [""; 0]);
}
