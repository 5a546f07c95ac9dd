//! Takes from several tubes: which tube they take from, that they wait at all of them, first come
//! first served beside calls that wait at one, and what ends such a wait.

use crate::{counts, kind, lone_with, next, secs, still, until};
use std::fmt::Debug;
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};
use tubewell::{
    Codec, ErrorKind, ManualClock, Queue, Result, Stop, Task, Tube, TubeKind, TubeOptions, Tubes,
    WaitsFor,
};

fn queue() -> (Queue, ManualClock) {
    let (builder, clock) = still();
    (builder.in_memory().unwrap(), clock)
}

/// Puts so many tasks into tubes of these names.
fn fill(queue: &Queue, tasks: &[(&str, usize)]) {
    for (name, count) in tasks {
        let tube = queue.tube(name).unwrap();
        (0..*count).for_each(|_| _ = tube.put(b"x").unwrap());
    }
}

/// Acks a task; the name of its tube.
fn ended(task: Task) -> String {
    let tube = task.tube().to_owned();
    task.ack().unwrap();
    tube
}

/// Takes all that there is, one by one; the names of the tubes.
fn sequence(tubes: &Tubes) -> String {
    std::iter::from_fn(|| tubes.try_take().unwrap().map(ended)).collect()
}

/// Takes so many.
fn some(tubes: &Tubes, count: usize) -> String {
    (0..count).map(|_| ended(tubes.try_take().unwrap().unwrap())).collect()
}

/// Starts a thread that waits in this call; returns when it waits.
fn waiting<R: Send + 'static>(
    queue: &Queue,
    tubes: &Tubes,
    wait: impl FnOnce(&Tubes) -> R + Send + 'static,
) -> JoinHandle<R> {
    let before = queue.waiters().unwrap().len();
    let own = tubes.clone();
    let thread = thread::spawn(move || wait(&own));
    until(|| queue.waiters().unwrap().len() > before);
    thread
}

/// The two sequences of qless, literally.
#[test]
fn the_seeds_two_sequences() {
    let (queue, _) = queue();
    let tubes = queue.tubes_of(["C", "B", "A"]).unwrap();
    let tasks = [("A", 5), ("B", 2), ("C", 3)];
    fill(&queue, &tasks);
    assert_eq!(sequence(&tubes), "CCCBBAAAAA");
    assert_eq!(sequence(&tubes), "");
    fill(&queue, &tasks);
    assert_eq!(sequence(&tubes.round_robin()), "CBACBACAAA");
    fill(&queue, &tasks);
    assert_eq!(sequence(&tubes.round_robin().in_order()), "CCCBBAAAAA");
}

#[test]
fn a_batch_has_the_order_of_single_takes() {
    let (queue, _) = queue();
    let tubes = queue.tubes_of(["C", "B", "A"]).unwrap();
    let ways: [fn(&Tubes) -> Tubes; 5] = [
        |tubes| tubes.in_order(),
        |tubes| tubes.round_robin(),
        |tubes| tubes.shuffled(7),
        |tubes| tubes.weighted(&[1, 2, 3]).unwrap(),
        |tubes| tubes.by_priority(),
    ];
    for way in ways {
        let tasks = [("A", 5), ("B", 2), ("C", 3)];
        fill(&queue, &tasks);
        let single = sequence(&way(&tubes));
        fill(&queue, &tasks);
        let tubes = way(&tubes);
        let mut batch = String::new();
        for most in [0, 1, 4, 100] {
            let tasks = tubes.take_many(most).unwrap();
            assert!(tasks.len() <= most);
            batch.extend(tasks.into_iter().map(ended));
        }
        assert_eq!(batch, single);
        assert!(tubes.take_many(usize::MAX).unwrap().is_empty());
    }
}

#[test]
fn in_turn_the_clones_share_whose_turn_it_is() {
    let (queue, _) = queue();
    let tubes = queue.tubes_of(["a", "b", "c"]).unwrap().round_robin();
    fill(&queue, &[("a", 9), ("b", 9), ("c", 9)]);
    assert_eq!(some(&tubes, 2), "ab");
    let ada = queue.consumer("ada").unwrap();
    assert_eq!(some(&tubes.clone(), 2), "ca");
    assert_eq!(some(&tubes.by(&ada), 1), "b");
    assert_eq!(some(&tubes.round_robin(), 1), "a", "a handle with an order begins with the first");
    assert_eq!(some(&tubes, 1), "c");
}

/// What was empty for a long time is not served more than others afterwards.
#[test]
fn in_turn_a_tube_does_not_catch_up() {
    let (queue, _) = queue();
    let lists = queue.tubes_of(["a", "b"]).unwrap();
    for tubes in [lists.round_robin(), lists.weighted(&[1, 1]).unwrap()] {
        fill(&queue, &[("b", 20)]);
        assert_eq!(some(&tubes, 10), "bbbbbbbbbb");
        fill(&queue, &[("a", 10)]);
        let mixed = some(&tubes, 6);
        assert!(["ababab", "bababa"].contains(&&*mixed), "{mixed}");
        sequence(&tubes);
    }
}

#[test]
fn shuffled_each_round_has_each_tube_once_in_an_order_of_its_own() {
    let (queue, _) = queue();
    let names = ["a", "b", "c", "d", "e"];
    let lists = queue.tubes_of(names).unwrap();
    let rounds = |tubes: &Tubes| -> Vec<String> {
        fill(&queue, &names.map(|name| (name, 20)));
        let rounds = (0..20).map(|_| some(tubes, 5)).collect();
        assert!(tubes.try_take().unwrap().is_none());
        rounds
    };
    let first = rounds(&lists.shuffled(1));
    for round in &first {
        let mut sorted: Vec<char> = round.chars().collect();
        sorted.sort_unstable();
        assert_eq!(sorted.into_iter().collect::<String>(), "abcde");
    }
    assert!(first.iter().any(|round| *round != first[0]));
    assert_eq!(rounds(&lists.shuffled(1)), first, "the number alone decides");
    assert_ne!(rounds(&lists.shuffled(2)), first);
}

#[test]
fn weights_are_kept_as_long_as_all_have_tasks() {
    let (queue, _) = queue();
    let tubes = queue.tubes_of(["a", "b", "c"]).unwrap().weighted(&[5, 3, 1]).unwrap();
    fill(&queue, &[("a", 60), ("b", 60), ("c", 60)]);
    let taken = some(&tubes, 90);
    let count = |taken: &str, name| taken.chars().filter(|of| *of == name).count();
    assert_eq!(['a', 'b', 'c'].map(|name| count(&taken, name)), [50, 30, 10]);
    let begin = &taken[..9];
    assert_eq!(['a', 'b', 'c'].map(|name| count(begin, name)), [5, 3, 1], "{begin}: in turn");
    sequence(&tubes);
    // Of two the weights count alone.
    fill(&queue, &[("b", 40), ("c", 40)]);
    let taken = some(&tubes, 40);
    assert!((29..=31).contains(&count(&taken, 'b')), "{taken}");
}

#[test]
fn weights_by_name_hold_for_a_prefix_and_what_is_made_later() {
    let (queue, _) = queue();
    let all = queue.tubes_with_prefix("").unwrap();
    let tubes = all.weighted_by_name([("a", 5), ("c", 3)], 1).unwrap();
    fill(&queue, &[("a", 60), ("b", 60)]);
    let count = |taken: &str, name| taken.chars().filter(|of| *of == name).count();
    let taken = some(&tubes, 12);
    assert_eq!(['a', 'b'].map(|name| count(&taken, name)), [10, 2], "{taken}");
    fill(&queue, &[("c", 60), ("d", 60)]);
    let taken = some(&tubes, 50);
    assert_eq!(['a', 'b', 'c', 'd'].map(|name| count(&taken, name)), [25, 5, 15, 5], "{taken}");
    sequence(&tubes);
    // A list has them as well, and keeps its order among equal turns.
    fill(&queue, &[("a", 40), ("b", 40)]);
    let list = queue.tubes_of(["b", "a"]).unwrap().weighted_by_name([("a", 3)], 1).unwrap();
    let taken = some(&list, 40);
    assert_eq!((count(&taken, 'a'), taken.chars().next()), (30, Some('b')), "{taken}");
}

#[test]
fn by_priority_the_best_of_all_then_the_first_tube_then_its_own_order() {
    let (queue, clock) = queue();
    let tubes = queue.tubes_of(["b", "a"]).unwrap().by_priority();
    let (a, b) = (queue.tube("a").unwrap(), queue.tube("b").unwrap());
    let put = |tube: &Tube, text: &str, priority| {
        tube.task(text.as_bytes()).priority(priority).put().unwrap()
    };
    for (tube, text, priority) in
        [(&a, "a0", 0), (&a, "a1", 1), (&b, "b0", 0), (&b, "b2", 2), (&a, "a0'", 0), (&b, "b9", 9)]
    {
        put(tube, text, priority);
    }
    let text = || {
        let task = tubes.try_take().unwrap().unwrap();
        let text = String::from_utf8(task.to_vec()).unwrap();
        task.ack().unwrap();
        text
    };
    assert_eq!([text(), text(), text()], ["b0", "a0", "a0'"]);
    // What is better and comes later comes first, however it comes.
    let late = put(&b, "late", 50);
    put(&a, "a-1", -1);
    assert_eq!(text(), "a-1");
    b.update(late).priority(-2).apply().unwrap();
    assert_eq!(text(), "late");
    b.task(b"due").priority(-3).delay(secs(5)).put().unwrap();
    a.task(b"first").group("g").priority(-4).put().unwrap();
    a.task(b"second").group("g").priority(-4).put().unwrap();
    let first = tubes.try_take().unwrap().unwrap();
    assert_eq!(&first[..], b"first");
    clock.advance(secs(5));
    assert_eq!(text(), "due", "and the group is busy");
    first.ack().unwrap();
    assert_eq!([text(), text(), text(), text()], ["second", "a1", "b2", "b9"]);
    assert!(tubes.try_take().unwrap().is_none());
}

#[test]
fn by_priority_a_tube_with_higher_first_is_compared_by_how_its_tasks_stand() {
    let (queue, _) = queue();
    queue.create_tube("high", TubeOptions::default().higher_first(true)).unwrap();
    let tubes = queue.tubes_of(["low", "high"]).unwrap().by_priority();
    let (low, high) = (queue.tube("low").unwrap(), queue.tube("high").unwrap());
    for priority in [-5, 5, 0] {
        high.task(b"x").priority(2 * priority).put().unwrap();
        low.task(b"x").priority(priority).put().unwrap();
    }
    high.task(b"x").priority(5).put().unwrap();
    let mut taken = Vec::new();
    while let Some(task) = tubes.try_take().unwrap() {
        taken.push((task.tube().to_owned(), task.priority()));
        task.ack().unwrap();
    }
    let taken: Vec<_> = taken.iter().map(|(tube, priority)| (&**tube, *priority)).collect();
    let equal = [("low", 0), ("high", 0), ("low", 5)];
    assert_eq!(taken[..3], [("high", 10), ("low", -5), ("high", 5)]);
    assert_eq!((&taken[3..6], taken[6]), (&equal[..], ("high", -10)));
}

#[test]
fn paused_tubes_busy_groups_and_what_is_due_are_as_in_one_tube() {
    let (queue, clock) = queue();
    let tubes = queue.tubes_of(["a", "b"]).unwrap();
    let (a, b) = (queue.tube("a").unwrap(), queue.tube("b").unwrap());
    fill(&queue, &[("a", 2), ("b", 1)]);
    a.pause_for(secs(5)).unwrap();
    assert_eq!(sequence(&tubes), "b");
    clock.advance(secs(5));
    assert_eq!(sequence(&tubes), "aa");

    a.task(b"1").group("g").put().unwrap();
    a.task(b"2").group("g").put().unwrap();
    let first = tubes.take().unwrap();
    assert!(tubes.try_take().unwrap().is_none());
    first.ack().unwrap();
    assert_eq!(&tubes.try_take().unwrap().unwrap()[..], b"2");

    a.truncate().unwrap();
    a.task(b"expired").ttl(secs(5)).put().unwrap();
    b.task(b"delayed").delay(secs(5)).put().unwrap();
    let lapsing = b.task(b"lapsing").ttr(secs(5)).put().unwrap();
    assert_eq!(&tubes.try_take().unwrap().unwrap()[..], b"expired");
    assert_eq!(tubes.take_many(2).unwrap().len(), 2);
    let mut taken = tubes.take_many(2).unwrap();
    assert_eq!(taken.pop().unwrap().detach().id(), lapsing);
    drop(taken);
    clock.advance(secs(5));
    // No tick: the takes work off what is due.
    let texts = tubes.take_many(9).unwrap();
    let texts: Vec<_> = texts.iter().map(|task| std::str::from_utf8(task).unwrap()).collect();
    assert_eq!(texts, ["delayed", "lapsing"]);

    fill(&queue, &[("b", 300)]);
    b.take_many(300).unwrap().into_iter().for_each(|task| _ = task.detach());
    assert!(tubes.try_take().unwrap().is_none());
    b.release_all().unwrap();
    assert_eq!(tubes.take_many(1000).unwrap().len(), 302, "without a tick");
}

/// A codec that refuses what begins with an x.
struct Refusing;

impl Codec<String> for Refusing {
    const ID: u8 = 9;
    const VERSION: u16 = 0;

    fn encode(value: &String, out: &mut Vec<u8>) -> std::result::Result<(), tubewell::BoxError> {
        out.extend_from_slice(value.as_bytes());
        Ok(())
    }

    fn decode(bytes: &[u8]) -> std::result::Result<String, tubewell::BoxError> {
        let text = String::from_utf8(bytes.to_vec())?;
        if text.starts_with('x') { Err("an x".into()) } else { Ok(text) }
    }
}

#[test]
fn what_cannot_be_decoded_is_buried_in_its_tube_and_the_next_one_is_taken() {
    let (queue, _) = queue();
    let tubes = queue.tubes_of(["a", "b"]).unwrap().with_codec::<String, Refusing>();
    let (a, b) = (queue.tube("a").unwrap(), queue.tube("b").unwrap());
    for (tube, text) in [(&a, "x"), (&b, "x"), (&b, "y"), (&b, "x"), (&a, "x")] {
        tube.with_codec::<String, Refusing>().put(&text.to_owned()).unwrap();
    }
    let task = tubes.take().unwrap();
    assert_eq!((&**task, task.tube()), ("y", "b"));
    task.ack().unwrap();
    assert!(tubes.take_many(9).unwrap().is_empty());
    assert_eq!((counts(&a), counts(&b)), ([0, 0, 0, 2], [0, 0, 0, 2]));
}

#[test]
fn a_put_into_any_of_them_wakes_the_call() {
    let (queue, _) = queue();
    for name in ["a", "b", "c"] {
        let tubes = queue.tubes_of(["a", "b", "c"]).unwrap();
        let taker = waiting(&queue, &tubes, |tubes| ended(tubes.take().unwrap()));
        fill(&queue, &[(name, 1)]);
        assert_eq!(taker.join().unwrap(), name);
    }
}

/// Ten times as many tubes as usual, and one call that waits on all.
#[test]
fn a_call_waits_on_a_thousand_tubes() {
    let (queue, _) = queue();
    let names: Vec<String> = (0..1000).map(|number| format!("{number:04}")).collect();
    let list = queue.tubes_of(&names).unwrap();
    let (prefix, all) =
        (queue.tubes_with_prefix("09").unwrap(), queue.tubes_with_prefix("").unwrap());
    assert_eq!((list.names().unwrap(), all.names().unwrap()), (names.clone(), names.clone()));
    assert_eq!(prefix.names().unwrap(), names[900..]);
    let ways =
        [list.clone(), list.round_robin(), list.shuffled(3), list.by_priority(), prefix, all];
    for tubes in ways {
        assert!(tubes.try_take().unwrap().is_none());
        for name in ["0999", "0901", "0950"] {
            let taker = waiting(&queue, &tubes, |tubes| ended(tubes.take().unwrap()));
            fill(&queue, &[(name, 1)]);
            assert_eq!(taker.join().unwrap(), name);
        }
        fill(&queue, &[("0998", 1)]);
        assert_eq!(sequence(&tubes), "0998");
    }
    // All are full: no tube is left out.
    fill(&queue, &names.iter().map(|name| (&**name, 1)).collect::<Vec<_>>());
    assert_eq!(sequence(&list.by_priority()), names.concat());
    fill(&queue, &names.iter().map(|name| (&**name, 1)).collect::<Vec<_>>());
    assert_eq!(list.round_robin().take_many(5000).unwrap().len(), 1000);
}

/// One call waits on two tubes, one on the first alone. Each takes again as soon as it has one.
#[test]
fn a_call_on_two_tubes_gets_its_half_beside_one_on_a_single_tube() {
    const PUTS: usize = 400;
    let (queue, _) = queue();
    let tube = queue.tube("a").unwrap();
    let both = queue.tubes_of(["a", "b"]).unwrap();
    let (served, of) = channel();
    let stop = Stop::new();
    let takers = [false, true].map(|on_both| {
        let (tube, both, stop, served) = (tube.clone(), both.clone(), stop.clone(), served.clone());
        thread::spawn(move || {
            let take = || if on_both { both.take_until(&stop) } else { tube.take_until(&stop) };
            while let Some(task) = take().unwrap() {
                task.ack().unwrap();
                served.send(on_both).unwrap();
            }
        })
    });
    let mut share = 0;
    for _ in 0..PUTS {
        until(|| tube.info().unwrap().waiters == 2);
        tube.put(b"x").unwrap();
        share += usize::from(of.recv().unwrap());
    }
    stop.stop();
    takers.into_iter().for_each(|taker| taker.join().unwrap());
    assert!((PUTS * 45 / 100..=PUTS * 55 / 100).contains(&share), "{share} of {PUTS}");
}

#[test]
fn a_tube_that_is_made_later_comes_into_its_prefix() {
    let (queue, _) = queue();
    let mail = queue.tubes_with_prefix("mail/").unwrap();
    let taker = waiting(&queue, &mail, |mail| ended(mail.take().unwrap()));
    queue.tube("mailbox").unwrap().put(b"x").unwrap();
    fill(&queue, &[("mail/b", 1)]);
    assert_eq!(taker.join().unwrap(), "mail/b");
    // In the order of the names, not of their making.
    fill(&queue, &[("mail/c", 1), ("mail/a", 1), ("mail/b", 1)]);
    assert_eq!(sequence(&mail), "mail/amail/bmail/c");
    assert_eq!(mail.names().unwrap(), ["mail/a", "mail/b", "mail/c"]);
    // One that was dropped and made again is there again.
    queue.force_drop_tube("mail/b").unwrap();
    fill(&queue, &[("mail/c", 1)]);
    assert_eq!(sequence(&mail), "mail/c");
    fill(&queue, &[("mail/b", 1)]);
    assert_eq!(sequence(&mail), "mail/b");
}

#[test]
fn a_dropped_tube_leaves_the_list_and_after_the_last_takes_end() {
    let (queue, _) = queue();
    let list = queue.tubes_of(["a", "b"]).unwrap();
    let prefix = queue.tubes_with_prefix("").unwrap();
    assert!(list.try_take().unwrap().is_none());
    let taker = waiting(&queue, &list, |list| kind(list.take()));
    let patient = waiting(&queue, &prefix, |prefix| ended(prefix.take().unwrap()));
    assert_eq!(kind(queue.drop_tube("a")), ErrorKind::TubeBusy, "a call waits on it by name");
    queue.force_drop_tube("a").unwrap();
    assert_eq!(list.names().unwrap(), ["b"]);
    assert!(!taker.is_finished());
    queue.force_drop_tube("b").unwrap();
    assert_eq!(taker.join().unwrap(), ErrorKind::TubeNotFound);
    assert_eq!(kind(list.try_take()), ErrorKind::TubeNotFound);
    assert_eq!(kind(list.take_many(3)), ErrorKind::TubeNotFound);
    assert_eq!(kind(list.round_robin().try_take()), ErrorKind::TubeNotFound);
    assert!(list.names().unwrap().is_empty());
    // One that is made again is another tube.
    fill(&queue, &[("a", 1)]);
    assert_eq!(patient.join().unwrap(), "a");
    fill(&queue, &[("a", 1)]);
    assert_eq!(kind(list.try_take()), ErrorKind::TubeNotFound);
    // A wait on a prefix keeps none.
    let patient = waiting(&queue, &prefix, |prefix| {
        ended(prefix.take().unwrap()) + &ended(prefix.take().unwrap())
    });
    until(|| queue.tube("a").unwrap().is_empty().unwrap() && queue.waiters().unwrap().len() == 1);
    queue.drop_tube("a").unwrap();
    fill(&queue, &[("c", 1)]);
    assert_eq!(patient.join().unwrap(), "ac");
}

#[test]
fn times_stops_sessions_and_the_close_end_a_wait_on_several() {
    let (queue, clock) = queue();
    let tubes = queue.tubes_of(["a", "b"]).unwrap();
    let taker = waiting(&queue, &tubes, |tubes| tubes.take_timeout(secs(5)).unwrap().is_none());
    clock.advance(secs(5));
    assert!(taker.join().unwrap());

    let stop = Stop::new();
    let takers = [true, false].map(|timed| {
        let stop = stop.clone();
        waiting(&queue, &tubes, move |tubes| match timed {
            true => tubes.take_timeout_until(secs(60), &stop).unwrap().is_none(),
            false => tubes.take_until(&stop).unwrap().is_none(),
        })
    });
    stop.stop();
    takers.into_iter().for_each(|taker| assert!(taker.join().unwrap()));
    fill(&queue, &[("a", 1)]);
    assert!(tubes.take_until(&stop).unwrap().is_none(), "it takes nothing any more");
    assert_eq!(sequence(&tubes), "a");

    let ada = queue.consumer("ada").unwrap();
    let taker = waiting(&queue, &tubes.by(&ada), |tubes| kind(tubes.take()));
    ada.close().unwrap();
    assert_eq!(taker.join().unwrap(), ErrorKind::Closed);
    assert_eq!(kind(tubes.by(&ada).try_take()), ErrorKind::Closed);

    let taker = waiting(&queue, &tubes, |tubes| kind(tubes.take()));
    queue.close().unwrap();
    assert_eq!(taker.join().unwrap(), ErrorKind::Closed);
    assert_eq!(kind(tubes.try_take()), ErrorKind::Closed);
}

#[test]
fn a_resume_a_kick_a_release_and_a_due_task_wake_a_call_on_several() {
    type Step = fn(&Queue, &Tube, &ManualClock);
    let events: [(Step, Step); 4] = [
        (|_, tube, _| tube.pause().unwrap(), |_, tube, _| tube.resume().unwrap()),
        (
            |_, tube, _| tube.take().unwrap().bury("no").unwrap(),
            |_, tube, _| assert_eq!(tube.kick(9).unwrap().kicked, 1),
        ),
        (
            |_, tube, _| _ = tube.take().unwrap().detach(),
            |queue, tube, _| {
                tube.release_all().unwrap();
                queue.tick().unwrap();
            },
        ),
        (
            |_, tube, _| tube.take().unwrap().snooze(secs(5)).unwrap(),
            |queue, _, clock| {
                clock.advance(secs(5));
                queue.tick().unwrap();
            },
        ),
    ];
    for (before, event) in events {
        let (queue, clock) = queue();
        let (tube, tubes) = (queue.tube("b").unwrap(), queue.tubes_of(["a", "b"]).unwrap());
        tube.put(b"x").unwrap();
        before(&queue, &tube, &clock);
        let taker = waiting(&queue, &tubes, |tubes| ended(tubes.take().unwrap()));
        event(&queue, &tube, &clock);
        assert_eq!(taker.join().unwrap(), "b");
    }
}

#[test]
fn a_call_on_several_is_listed_once_with_its_tubes() {
    let (queue, clock) = queue();
    let (list, prefix) =
        (queue.tubes_of(["b", "a"]).unwrap(), queue.tubes_with_prefix("m/").unwrap());
    let ada = queue.consumer("ada").unwrap();
    let stop = Stop::new();
    let stops = [stop.clone(), stop.clone()];
    let [first, second] = stops;
    let takers = [
        waiting(&queue, &list.by(&ada), move |tubes| tubes.take_until(&first).unwrap().is_none()),
        waiting(&queue, &prefix, move |tubes| {
            tubes.take_timeout_until(secs(60), &second).unwrap().is_none()
        }),
    ];
    clock.advance(secs(1));
    let waiters = queue.waiters().unwrap();
    assert_eq!(waiters.len(), 2);
    assert_eq!((&*waiters[0].tube, waiters[0].tube_count), ("b", 2));
    assert_eq!(
        (&waiters[0].tubes[..], waiters[0].waits_for),
        (&["b", "a"].map(String::from)[..], WaitsFor::Task)
    );
    assert_eq!((waiters[0].consumer.as_deref(), waiters[0].left), (Some("ada"), None));
    assert_eq!(
        (&*waiters[1].tube, waiters[1].tube_count, waiters[1].left),
        ("", 0, Some(secs(59)))
    );
    let names: Vec<String> = (0..150).map(|number| format!("m/{number:03}")).collect();
    names.iter().for_each(|name| _ = queue.tube(name).unwrap());
    let waiters = queue.waiters().unwrap();
    assert_eq!((&waiters[1].tubes[..], waiters[1].tube_count), (&names[..100], 150));
    let waits_at = |name: &str| queue.tube(name).unwrap().info().unwrap().waiters;
    assert_eq!([waits_at("a"), waits_at("b"), waits_at("m/149"), waits_at("c")], [1, 1, 1, 0]);
    stop.stop();
    takers.into_iter().for_each(|taker| assert!(taker.join().unwrap()));
    assert!(queue.waiters().unwrap().is_empty());
    let active = queue.consumers().unwrap().into_iter().find(|it| it.name == "ada").unwrap();
    assert_eq!(active.idle, Some(secs(0)), "its take ended now");
}

#[test]
fn bad_lists_are_refused_and_say_what_to_do() {
    let (queue, _) = queue();
    fn text<T: Debug>(refused: Result<T>) -> String {
        let error = refused.expect_err("it should have failed");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        error.to_string()
    }
    assert!(text(queue.tubes_of([""; 0])).contains("no tube"));
    assert!(text(queue.tubes_of(["a", "b", "a"])).contains("\"a\" is in the list twice"));
    assert!(text(queue.tubes_of((0..10_001).map(|it| it.to_string()))).contains("10000 tubes"));
    assert!(queue.tubes().unwrap().is_empty(), "none was made");
    text(queue.tubes_of(["a", ""]));
    text(queue.tubes_with_prefix("a\n"));
    text(queue.tubes_with_prefix(&"a".repeat(256)));
    let tubes = queue.tubes_of(["a", "b"]).unwrap();
    for weights in [&[1][..], &[1, 2, 3], &[]] {
        assert!(text(tubes.weighted(weights)).contains("for 2 tubes"));
    }
    assert!(text(tubes.weighted(&[1, 0])).contains("weight 0; give 1 to 1000"));
    assert!(text(tubes.weighted(&[1001, 1])).contains("weight 1001"));
    let all = queue.tubes_with_prefix("").unwrap();
    assert!(text(all.weighted(&[])).contains("give weights by name"));
    assert!(text(all.weighted_by_name([("a", 0)], 1)).contains("weight 0; give 1 to 1000"));
    assert!(text(all.weighted_by_name([("a", 1)], 1001)).contains("weight 1001"));
    assert!(text(all.weighted_by_name([("a", 1), ("a", 2)], 1)).contains("\"a\" has two weights"));
    let many = (0..10_001).map(|it| (it.to_string(), 1));
    assert!(text(all.weighted_by_name(many, 1)).contains("more than 10000 weights"));
    let other = crate::still().0.in_memory().unwrap();
    let foreign = other.consumer("bob").unwrap();
    text(tubes.by(&foreign).try_take());
}

#[test]
fn in_a_transaction_they_are_refused_and_a_handle_may_be_dropped() {
    let (queue, _) = queue();
    let tubes = queue.tubes_of(["a", "b"]).unwrap();
    let used = tubes.round_robin();
    fill(&queue, &[("a", 2)]);
    assert_eq!(some(&used, 1), "a");
    queue
        .transact(|_| {
            assert_eq!(kind(tubes.try_take()), ErrorKind::InTransaction);
            assert_eq!(kind(used.take()), ErrorKind::InTransaction);
            drop(used);
            crate::ok(())
        })
        .unwrap();
    assert_eq!(sequence(&tubes), "a");
}

#[test]
fn a_temporary_a_limited_and_a_fifo_tube_are_taken_from_together() {
    let (queue, _) = queue();
    queue.create_tube("fifo", TubeOptions::new(TubeKind::Fifo)).unwrap();
    queue.create_tube("temporary", TubeOptions::default().temporary(true)).unwrap();
    let full = queue.create_tube("full", TubeOptions::default().capacity(1)).unwrap();
    let tubes = queue.tubes_of(["temporary", "full", "fifo"]).unwrap().round_robin();
    fill(&queue, &[("fifo", 1), ("temporary", 2), ("full", 1)]);
    assert_eq!(kind(full.put(b"x")), ErrorKind::Full);
    assert_eq!(sequence(&tubes), "temporaryfullfifotemporary");
    full.put(b"there is room again").unwrap();
    let (tube, _) = lone_with(TubeOptions::default());
    tube.put(b"another queue's").unwrap();
    assert_eq!(next(&tube), "another queue's");
}

/// Regression: the bounds of work that is gone count too, one of each kind for each tube. So many
/// of them hid what was due in the tubes behind them from one take.
#[test]
fn a_take_from_many_tubes_meets_what_is_due_behind_old_bounds() {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    for number in 0..32 {
        let tube = queue.tube(&format!("m {number:02}")).unwrap();
        tube.task(b"x").ttl(secs(10)).ttr(secs(10)).put().unwrap();
        tube.take().unwrap().ack().unwrap();
    }
    (32..70).for_each(|number| _ = queue.tube(&format!("m {number:02}")).unwrap());
    let late = queue.tube("m 69").unwrap();
    late.task(b"y").ttr(secs(11)).put().unwrap();
    late.take().unwrap().detach();
    clock.advance(secs(12));
    let tubes = queue.tubes_with_prefix("m ").unwrap();
    assert_eq!(&tubes.try_take().unwrap().unwrap()[..], b"y");
}
