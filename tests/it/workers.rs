//! Named consumers as workers: what is known of them, for how long, what they hold, and what
//! becomes of it when they are gone.

use crate::{home, killed, secs, still};
use std::path::Path;
use std::sync::Barrier;
use tubewell::{
    Cause, ConsumerInfo, ConsumerOptions, ErrorKind, Lapse, ManualClock, PauseTerms, Queue, State,
    TubeOptions,
};

fn queue() -> (Queue, ManualClock) {
    let clock = ManualClock::new();
    let queue = Queue::builder().clock(clock.clone()).by_hand(true).in_memory().unwrap();
    (queue, clock)
}

fn open(path: &Path, clock: &ManualClock) -> Queue {
    Queue::builder().clock(clock.clone()).by_hand(true).open(path).unwrap()
}

fn known(queue: &Queue, name: &str) -> Option<ConsumerInfo> {
    queue.consumers().unwrap().into_iter().find(|info| info.name == name)
}

fn names(queue: &Queue) -> Vec<String> {
    queue.consumers().unwrap().into_iter().map(|info| info.name).collect()
}

#[test]
fn what_a_consumer_says_of_itself_is_kept_over_sessions_and_openings() {
    let (_home, path) = home();
    let clock = ManualClock::new();
    let queue = open(&path, &clock);
    let about = ConsumerOptions::new().kind("conductor").host("north").meta("floor 2");
    let ada = queue.consumer_with("ada", about.keep(secs(600)).grace(secs(60))).unwrap();
    let plain = queue.consumer("bob").unwrap();
    let info = known(&queue, "ada").unwrap();
    assert_eq!((info.kind.as_deref(), info.host.as_deref()), (Some("conductor"), Some("north")));
    assert_eq!((info.meta.as_deref(), info.pid), (Some("floor 2"), Some(std::process::id())));
    assert!(info.is_open);
    let bob = known(&queue, "bob").unwrap();
    assert_eq!((bob.kind, bob.host, bob.meta, bob.pid), (None, None, None, info.pid));
    // What is given to an open session is changed, the rest stays.
    let joined = queue.consumer_with("ada", ConsumerOptions::new().meta("floor 3")).unwrap();
    drop((ada, joined, plain));
    queue.close().unwrap();

    let queue = open(&path, &clock);
    assert_eq!(known(&queue, "bob"), None, "nothing of it was to be kept");
    let info = known(&queue, "ada").unwrap();
    assert!(!info.is_open);
    assert_eq!((info.kind.as_deref(), info.meta.as_deref()), (Some("conductor"), Some("floor 3")));
    let _ada = queue.consumer("ada").unwrap();
    let info = known(&queue, "ada").unwrap();
    assert_eq!((info.is_open, info.host.as_deref()), (true, Some("north")));
}

#[test]
fn texts_over_their_limits_are_refused() {
    let (queue, _) = queue();
    let refused = |about: ConsumerOptions| queue.consumer_with("ada", about).unwrap_err().kind();
    let about = ConsumerOptions::new;
    assert_eq!(refused(about().kind("")), ErrorKind::Invalid);
    assert_eq!(refused(about().kind("k".repeat(256))), ErrorKind::Invalid);
    assert_eq!(refused(about().host("h".repeat(256))), ErrorKind::Invalid);
    assert_eq!(refused(about().meta("m".repeat(4097))), ErrorKind::TooLarge);
    assert_eq!(names(&queue), [""; 0]);
    let all = about().kind("k".repeat(255)).host("h".repeat(255)).meta("m".repeat(4096));
    let _ada = queue.consumer_with("ada", all).unwrap();
    assert_eq!(known(&queue, "ada").unwrap().meta.unwrap().len(), 4096);
}

/// Also a take that finds nothing is a sign of life.
#[test]
fn the_last_one_to_be_active_comes_first() {
    let (queue, clock) = queue();
    let tube = queue.tube("t").unwrap();
    let workers = ["ada", "bob", "cy"].map(|name| {
        clock.advance(secs(1));
        queue.consumer(name).unwrap()
    });
    assert_eq!(names(&queue), ["cy", "bob", "ada"]);
    clock.advance(secs(10));
    assert!(tube.by(&workers[1]).try_take().unwrap().is_none());
    clock.advance(secs(5));
    assert_eq!(names(&queue), ["bob", "cy", "ada"]);
    assert_eq!(known(&queue, "bob").unwrap().idle, Some(secs(5)));
    assert_eq!(known(&queue, "ada").unwrap().idle, Some(secs(17)));
}

/// What a guard does is one, too, whether it is done or refused; what a ticket does is of no
/// consumer.
#[test]
fn a_worker_is_active_at_every_verb_of_its_guards() {
    let (queue, clock) = queue();
    let tube = queue.tube("t").unwrap();
    let ada = queue.consumer("ada").unwrap();
    let idle = || known(&queue, "ada").unwrap().idle;
    let take = || {
        tube.put(b"x").unwrap();
        tube.by(&ada).take().unwrap()
    };
    let verbs: [fn(tubewell::Task); 9] = [
        |task| task.ack().unwrap(),
        |task| task.retry_after("no", secs(0)).unwrap(),
        |task| task.renew().unwrap(),
        |task| task.touch(secs(1)).unwrap(),
        |task| task.start("pid 1").unwrap(),
        |task| task.progress(1, "begun").unwrap(),
        |task| task.checkpoint(b"half").unwrap(),
        |mut task| task.with_payload(b"y").renew().unwrap(),
        |mut task| task.with_payload(b"y").bury("no").unwrap(),
    ];
    for verb in verbs {
        let task = take();
        clock.advance(secs(5));
        assert_eq!(idle(), Some(secs(5)));
        verb(task);
        assert_eq!(idle(), Some(secs(0)));
        tube.truncate().unwrap();
    }
    let others: [&dyn Fn(tubewell::Task); 4] = [
        &|task| queue.transact(|tx| tx.ack(&task)).unwrap(),
        &|task| queue.transact(|tx| tx.with_payload(&task, b"y").advance(&tube)).unwrap(),
        &|task| task.log("half").unwrap(),
        &|task| drop(task.tag(["a"]).unwrap()),
    ];
    for verb in others {
        let task = take();
        clock.advance(secs(5));
        verb(task);
        assert_eq!(idle(), Some(secs(0)));
        tube.truncate().unwrap();
    }
    let ticket = take().detach();
    clock.advance(secs(5));
    tube.ticket(ticket).renew().unwrap();
    assert_eq!(idle(), Some(secs(5)));

    // A take that waited is active when it returns.
    let other = queue.tube("u").unwrap();
    other.task(b"x").delay(secs(7)).put().unwrap();
    let task = clock.advance_until(|| other.by(&ada).take_timeout(secs(60))).unwrap().unwrap();
    assert_eq!(idle(), Some(secs(0)));
    drop(task);
}

#[test]
fn the_last_activity_is_written_down_by_a_close_and_by_the_end_of_a_session() {
    let (_home, path) = home();
    let clock = ManualClock::new();
    let queue = open(&path, &clock);
    let tube = queue.tube("t").unwrap();
    let about = || ConsumerOptions::new().keep(secs(600));
    let [ada, bob] = ["ada", "bob"].map(|name| queue.consumer_with(name, about()).unwrap());
    clock.advance(secs(20));
    assert!(tube.by(&ada).try_take().unwrap().is_none());
    clock.advance(secs(30));
    assert!(tube.by(&bob).try_take().unwrap().is_none());
    drop(ada);
    clock.advance(secs(1));
    queue.close().unwrap();

    let queue = open(&path, &clock);
    assert_eq!(names(&queue), ["bob", "ada"]);
    let idle = |name| known(&queue, name).unwrap().idle;
    assert_eq!((idle("ada"), idle("bob")), (Some(secs(31)), Some(secs(1))));
}

#[test]
fn the_tasks_of_a_worker_are_counted_and_listed() {
    let (queue, clock) = queue();
    let lapse = Lapse::new().grace(secs(60));
    let first = queue.create_tube("a", TubeOptions::default().lapse(lapse)).unwrap();
    let second = queue.tube("b").unwrap();
    let (ada, bob) = (queue.consumer("ada").unwrap(), queue.consumer("bob").unwrap());
    let short = first.task(b"x").ttr(secs(10)).put().unwrap();
    first.put(b"x").unwrap();
    let other = second.put(b"x").unwrap();
    let tasks = first.by(&ada).take_many(2).unwrap();
    let elsewhere = second.by(&ada).take().unwrap();
    clock.advance(secs(10));
    queue.tick().unwrap();
    let info = known(&queue, "ada").unwrap();
    assert_eq!((info.taken, info.stalled), (3, 1));
    let held: Vec<_> = queue.taken_by("ada").unwrap().map(Result::unwrap).collect();
    let stalled: Vec<_> = held.iter().filter(|info| info.is_stalled).map(|info| info.id).collect();
    assert_eq!((held.len(), stalled, held[2].id), (3, vec![short], other));
    assert_eq!(
        (known(&queue, "bob").unwrap().taken, queue.taken_by("bob").unwrap().count()),
        (0, 0)
    );
    assert_eq!(queue.taken_by("nemo").unwrap().count(), 0);
    elsewhere.ack().unwrap();
    drop((tasks, bob));
    assert_eq!(known(&queue, "ada").unwrap().taken, 0);
}

/// QL-53: a task leaves the list of its worker by whatever ends its lease.
#[test]
fn a_worker_holds_nothing_after_each_end_of_a_lease() {
    type End = fn(&Queue, &tubewell::Tube, tubewell::Task, &ManualClock);
    let ends: [End; 9] = [
        |_, _, task, _| task.ack().unwrap(),
        |_, _, task, _| task.fail("g", "no").unwrap(),
        |_, _, task, _| task.retry("no").unwrap(),
        |_, _, task, _| task.trash("no").unwrap(),
        |_, tube, task, _| tube.delete(task.detach().id()).unwrap(),
        |queue, _, task, _| _ = queue.cancel_tree(task.detach().id()).unwrap(),
        |queue, tube, task, _| {
            let to = queue.tube("to").unwrap();
            tube.move_to(task.detach().id(), &to).apply().unwrap();
        },
        |queue, _, mut task, _| task.advance(&queue.tube("to").unwrap()).unwrap(),
        |queue, tube, task, clock| {
            task.detach();
            clock.advance(secs(10));
            let bob = queue.consumer("bob").unwrap();
            let taken = tube.by(&bob).take().unwrap();
            assert_eq!(known(queue, "bob").unwrap().taken, 1);
            taken.ack().unwrap();
        },
    ];
    for end in ends {
        let (queue, clock) = queue();
        let tube = queue.create_tube("t", TubeOptions::default().ttr(secs(10))).unwrap();
        let ada = queue.consumer("ada").unwrap();
        tube.put(b"x").unwrap();
        let task = tube.by(&ada).take().unwrap();
        assert_eq!(queue.taken_by("ada").unwrap().count(), 1);
        end(&queue, &tube, task, &clock);
        assert_eq!(known(&queue, "ada").unwrap().taken, 0);
        assert_eq!(queue.taken_by("ada").unwrap().count(), 0);
    }
}

/// More leases and more tubes than one page has.
#[test]
fn a_listing_goes_over_many_pages_of_leases_and_of_tubes() {
    let (queue, _) = queue();
    let (ada, bob) = (queue.consumer("ada").unwrap(), queue.consumer("bob").unwrap());
    let tubes: Vec<_> = (0..1_100).map(|n| queue.tube(&n.to_string()).unwrap()).collect();
    let mut ids = Vec::new();
    for (number, tasks) in [(0, 200), (1, 63), (511, 64), (512, 65), (1_099, 1)] {
        let tube = &tubes[number];
        ids.extend(tube.put_many((0..tasks).map(|_| b"x".to_vec())).unwrap());
        tube.put(b"x").unwrap();
        for task in tube.by(&ada).take_many(tasks).unwrap() {
            task.detach();
        }
        tube.by(&bob).take().unwrap().detach();
    }
    let held: Vec<_> = queue.taken_by("ada").unwrap().map(|info| info.unwrap().id).collect();
    assert_eq!(held, ids);
    assert_eq!(known(&queue, "ada").unwrap().taken, 393);
    assert_eq!(known(&queue, "bob").unwrap().taken, 5);
    assert_eq!(queue.taken_by("bob").unwrap().count(), 5);
}

#[test]
fn a_worker_is_forgotten_after_its_time() {
    for reopened in [false, true] {
        let (_home, path) = home();
        let clock = ManualClock::new();
        let queue = open(&path, &clock);
        let tube = queue.tube("t").unwrap();
        tube.put(b"x").unwrap();
        let about = ConsumerOptions::new().grace(secs(10)).keep(secs(100));
        let ada = queue.consumer_with("ada", about).unwrap();
        tube.by(&ada).take().unwrap().detach();
        drop(ada);
        clock.advance(secs(10));
        queue.tick().unwrap();
        assert_eq!(tube.stats().unwrap().ready, 1, "its grace has ended");
        let info = known(&queue, "ada").unwrap();
        assert_eq!((info.is_open, info.taken), (false, 0));
        clock.advance(secs(50));
        let (queue, tube) = if reopened {
            queue.close().unwrap();
            drop((queue, tube));
            let queue = open(&path, &clock);
            let tube = queue.tube("t").unwrap();
            (queue, tube)
        } else {
            (queue, tube)
        };
        clock.advance(secs(49));
        queue.tick().unwrap();
        assert_eq!(names(&queue), ["ada"]);
        clock.advance(secs(1));
        queue.tick().unwrap();
        assert_eq!(names(&queue), [""; 0], "reopened: {reopened}");
        assert_eq!(queue.check().unwrap(), [""; 0]);
        assert_eq!(tube.stats().unwrap().ready, 1);
    }
}

/// The list is read in steps.
#[test]
fn many_workers_are_listed_each_once() {
    let (queue, clock) = queue();
    let mut wanted = Vec::new();
    for number in 0..300 {
        let name = format!("{number}");
        drop(queue.consumer_with(&name, ConsumerOptions::new().keep(secs(900))).unwrap());
        if number % 3 == 0 {
            queue.deregister(&[&name]).unwrap();
        } else {
            wanted.push(name);
        }
        clock.advance(secs(1));
    }
    wanted.reverse();
    assert_eq!(names(&queue), wanted, "the last one to be active first");
}

/// The setting holds where the consumer has said nothing itself, also that it is not remembered.
#[test]
fn the_setting_of_the_queue_remembers_those_that_say_nothing_of_it() {
    let (_home, path) = home();
    let clock = ManualClock::new();
    let queue = open(&path, &clock);
    drop(queue.consumer("before").unwrap());
    assert_eq!(names(&queue), [""; 0], "the default");
    queue.set("consumer_keep", secs(100)).unwrap();
    let asked = |name: &str, keep| {
        drop(queue.consumer_with(name, ConsumerOptions::new().keep(secs(keep))).unwrap());
    };
    asked("none", 0);
    asked("short", 10);
    asked("long", 200);
    drop(queue.consumer("ada").unwrap());
    queue.consumer("gone").unwrap().close().unwrap();
    queue.deregister(&["gone"]).unwrap();
    let sorted = |queue: &Queue| {
        let mut names = names(queue);
        names.sort();
        names.join(" ")
    };
    assert_eq!(sorted(&queue), "ada long short");
    clock.advance(secs(10));
    queue.tick().unwrap();
    assert_eq!(sorted(&queue), "ada long");
    // One that is remembered already stays for as long as it was said then.
    queue.unset("consumer_keep").unwrap();
    clock.advance(secs(89));
    queue.close().unwrap();
    let builder = Queue::builder().by_hand(true).clock(clock.clone());
    let queue = builder.consumer_keep(secs(1)).open(&path).unwrap();
    assert_eq!(sorted(&queue), "ada long");
    drop(queue.consumer("by the builder").unwrap());
    drop(queue.consumer("long").unwrap());
    assert_eq!(sorted(&queue), "ada by the builder long");
    clock.advance(secs(1));
    queue.tick().unwrap();
    assert_eq!(sorted(&queue), "long", "as it has said in its first session");
    assert_eq!(queue.check().unwrap(), [""; 0]);
}

/// A session that is open at a kill ends with the next opening, and is remembered from then on.
#[test]
fn the_setting_holds_for_the_sessions_that_a_kill_has_ended() {
    let (_home, path) = home();
    let clock = ManualClock::new();
    let queue = open(&path, &clock);
    queue.set("consumer_keep", secs(100)).unwrap();
    let ada = queue.consumer("ada").unwrap();
    let (_killed, copy) = killed(&path);
    let queue = open(&copy, &clock);
    assert_eq!(names(&queue), ["ada"]);
    clock.advance(secs(100));
    queue.tick().unwrap();
    assert_eq!(names(&queue), [""; 0]);
    drop(ada);
}

/// The time begins when the session ends, so one that comes back is known for the whole time again.
#[test]
fn one_that_comes_back_is_remembered_for_the_whole_time_again() {
    let (queue, clock) = queue();
    let about = ConsumerOptions::new().keep(secs(100));
    drop(queue.consumer_with("ada", about).unwrap());
    clock.advance(secs(99));
    drop(queue.consumer("ada").unwrap());
    clock.advance(secs(99));
    queue.tick().unwrap();
    assert_eq!(names(&queue), ["ada"]);
    clock.advance(secs(1));
    queue.tick().unwrap();
    assert_eq!(names(&queue), [""; 0]);
}

#[test]
fn deregister_ends_sessions_and_forgets_their_consumers() {
    let (queue, _) = queue();
    let tube = queue.tube("t").unwrap();
    tube.put_many([b"a".to_vec(), b"b".to_vec()]).unwrap();
    let about = || ConsumerOptions::new().grace(secs(60)).keep(secs(60));
    let [ada, bob, cy] =
        ["ada", "bob", "cy"].map(|name| queue.consumer_with(name, about()).unwrap());
    let task = tube.by(&ada).take().unwrap();
    tube.by(&bob).take().unwrap().detach();
    drop(bob); // its lease waits for the grace
    queue.deregister(&["ada", "bob", "nemo"]).unwrap();
    assert_eq!(names(&queue), ["cy"]);
    assert!(ada.is_closed() && !cy.is_closed());
    assert!(task.ack().unwrap_err().is_lease_lost());
    assert_eq!(tube.by(&ada).try_take().unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(tube.stats().unwrap().ready, 2);
    // A new session of the name begins with nothing.
    let _ada = queue.consumer("ada").unwrap();
    assert_eq!(known(&queue, "ada").unwrap().kind, None);
    queue.deregister(&["ada", "ada", "cy"]).unwrap();
    assert_eq!(names(&queue), [""; 0]);
    assert_eq!(queue.check().unwrap(), [""; 0]);
}

#[test]
fn the_tasks_of_a_dead_worker_are_adopted_whole_and_once() {
    for is_killed in [false, true] {
        are_adopted(is_killed);
    }
}

fn are_adopted(is_killed: bool) {
    let (_home, path) = home();
    let clock = ManualClock::new();
    let queue = open(&path, &clock);
    let [first, second] = ["a", "b"].map(|name| queue.tube(name).unwrap());
    for tube in [&first, &second] {
        tube.put_many((0..100).map(|_| b"x".to_vec())).unwrap();
    }
    let ada = queue.consumer_with_grace("ada", secs(60)).unwrap();
    for tube in [&first, &second] {
        for task in tube.by(&ada).take_many(100).unwrap() {
            task.detach();
        }
    }
    let copy = is_killed.then(|| {
        queue.flush().unwrap();
        killed(&path)
    });
    drop((ada, first, second));
    queue.close().unwrap();

    let queue = open(copy.as_ref().map_or(&path, |(_, copy)| copy), &clock);
    let [first, second] = ["a", "b"].map(|name| queue.tube(name).unwrap());
    let bob = queue.consumer("bob").unwrap();
    let cy = queue.consumer("cy").unwrap();
    let left = bob.adopt("ada").unwrap();
    assert_eq!(cy.adopt("ada").unwrap_err().kind(), ErrorKind::WrongState);
    clock.advance(secs(600)); // no grace runs any more
    queue.tick().unwrap();
    let mut tasks: Vec<_> = left.tasks(&first).map(Result::unwrap).collect();
    tasks.extend(left.tasks(&second).map(Result::unwrap));
    assert_eq!(tasks.len(), 200);
    assert!(tasks.iter().all(|task| task.attempt() == 1));
    assert_eq!(left.tasks(&first).count(), 0, "each once");
    assert_eq!(known(&queue, "bob").unwrap().taken, 200);
    drop(left);
    clock.advance(secs(600));
    queue.tick().unwrap();
    assert_eq!(names(&queue), ["bob", "cy"], "nothing is left of ada");
    for task in tasks {
        task.ack().unwrap();
    }
    assert!(first.is_empty().unwrap() && second.is_empty().unwrap());
    assert_eq!(queue.check().unwrap(), [""; 0]);
}

#[test]
fn what_an_adopter_has_not_taken_over_waits_for_the_grace_again() {
    let (queue, clock) = queue();
    let [first, second] = ["a", "b"].map(|name| queue.tube(name).unwrap());
    let ada = queue.consumer_with_grace("ada", secs(60)).unwrap();
    for tube in [&first, &second] {
        tube.put(b"x").unwrap();
        tube.by(&ada).take().unwrap().detach();
    }
    drop(ada);
    let bob = queue.consumer("bob").unwrap();
    clock.advance(secs(59));
    let left = bob.adopt("ada").unwrap();
    let task = left.tasks(&first).next().unwrap().unwrap();
    drop(left);
    clock.advance(secs(59));
    queue.tick().unwrap();
    assert_eq!(second.stats().unwrap().taken, 1);
    let left = bob.adopt("ada").unwrap();
    assert_eq!(left.tasks(&second).count(), 1); // each guard is dropped, and so is released
    assert_eq!(second.stats().unwrap().ready, 1);
    task.ack().unwrap();
}

#[test]
fn of_racing_adopters_one_wins() {
    let (queue, _) = queue();
    let tube = queue.tube("t").unwrap();
    for round in 0..20 {
        tube.put(b"x").unwrap();
        let name = format!("dead {round}");
        let dead = queue.consumer_with_grace(&name, secs(60)).unwrap();
        tube.by(&dead).take().unwrap().detach();
        drop(dead);
        let start = Barrier::new(4);
        let won: usize = std::thread::scope(|scope| {
            let adopters = [(); 4].map(|()| {
                scope.spawn(|| {
                    let thread = format!("{:?}", std::thread::current().id());
                    let consumer = queue.consumer(&thread).unwrap();
                    start.wait();
                    let adopted = consumer.adopt(&name);
                    start.wait(); // the winner's handle is there until all have tried
                    let Ok(adopted) = adopted else { return 0 };
                    let tasks = adopted.tasks(&tube).map(|task| task.unwrap().ack().unwrap());
                    assert_eq!(tasks.count(), 1);
                    1
                })
            });
            adopters.into_iter().map(|adopter| adopter.join().unwrap()).sum()
        });
        assert_eq!((won, tube.is_empty().unwrap()), (1, true));
    }
}

#[test]
fn adoptions_that_are_refused() {
    let (queue, clock) = queue();
    let (ada, bob) = (queue.consumer("ada").unwrap(), queue.consumer("bob").unwrap());
    let refused = |name: &str| ada.adopt(name).unwrap_err().kind();
    assert_eq!(refused("ada"), ErrorKind::WrongState);
    assert_eq!(refused("bob"), ErrorKind::WrongState);
    assert_eq!(refused("nemo"), ErrorKind::WrongState);
    drop(bob);
    assert_eq!(refused("bob"), ErrorKind::WrongState, "nothing is left of it");
    let about = ConsumerOptions::new().grace(secs(10)).keep(secs(60));
    drop(queue.consumer_with("cy", about).unwrap());
    clock.advance(secs(10));
    queue.tick().unwrap();
    assert_eq!(
        (known(&queue, "cy").unwrap().is_open, refused("cy")),
        (false, ErrorKind::WrongState)
    );
    assert_eq!(known(&queue, "cy").unwrap().idle, Some(secs(10)), "as before");
    let nameless = queue.session();
    assert_eq!(nameless.adopt("ada").unwrap_err().kind(), ErrorKind::Unsupported);
    ada.close().unwrap();
    assert_eq!(refused("bob"), ErrorKind::Closed);
}

#[test]
fn a_pause_may_time_out_what_runs() {
    let (queue, clock) = queue();
    let tube = queue.tube("t").unwrap();
    let events = queue.events();
    let ids = tube.put_many((0..200).map(|_| b"x".to_vec())).unwrap();
    let tasks = tube.take_many(150).unwrap();
    tube.pause_with(PauseTerms::new().length(secs(60)).time_out_running()).unwrap();
    assert!(tube.try_take().unwrap().is_none());
    for task in tasks {
        assert!(task.ack().unwrap_err().is_lease_lost());
    }
    queue.tick().unwrap();
    assert_eq!(tube.stats().unwrap().ready, 200);
    let steps = std::iter::from_fn(|| events.try_recv());
    let releases = steps.filter(|event| event.cause == Cause::Release).count();
    assert_eq!(releases, 150);
    clock.advance(secs(60));
    let again = tube.take_many(200).unwrap();
    assert_eq!(again.iter().map(|task| task.id()).collect::<Vec<_>>(), ids);
    assert!(again.iter().all(|task| task.attempt() == 1), "not charged");
    // Without it the holders keep their tasks.
    tube.pause().unwrap();
    assert_eq!(tube.tasks(State::Taken).count(), 200);
}

/// Regression: the idle time of a consumer began again when another one adopted what it had left.
#[test]
fn an_adoption_is_no_activity_of_the_consumer_that_left() {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    tube.put(b"x").unwrap();
    let ada = queue.consumer_with_grace("ada", secs(3600)).unwrap();
    tube.by(&ada).take().unwrap().detach();
    drop(ada);
    clock.advance(secs(600));
    let bob = queue.consumer("bob").unwrap();
    let left = bob.adopt("ada").unwrap();
    let idle = || queue.consumers().unwrap().into_iter().find(|it| it.name == "ada").unwrap().idle;
    assert_eq!(idle(), Some(secs(600)));
    drop(left);
    assert_eq!(idle(), Some(secs(600)));
}
