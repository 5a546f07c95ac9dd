//! The index of kinds: a search by a kind reads it, and its rows follow every step in the life of a
//! task, until none is left.

use crate::{close_sound, home, killed, kind, open, secs, still};
use std::collections::BTreeSet;
use tubewell::{
    Conflict, ErrorKind, Filter, Queue, Retention, State, TaskId, Tube, TubeKind, TubeOptions,
};

fn indexed() -> TubeOptions {
    TubeOptions::default().index_kinds(true)
}

/// The tasks of a kind that one page finds, which must be all.
fn found(tube: &Tube, kind: &str) -> BTreeSet<TaskId> {
    let page = tube.search(&Filter::new().kind(kind), None, 256).unwrap();
    assert!(page.next.is_none());
    page.tasks.into_iter().map(|task| task.id).collect()
}

fn sound(queue: &Queue) {
    queue.tick().unwrap();
    assert_eq!(queue.check().unwrap(), Vec::<String>::new());
}

/// Rows of the base after a checkpoint.
fn rows(queue: &Queue) -> u64 {
    sound(queue);
    queue.checkpoint().unwrap();
    queue.base_space().unwrap().rows
}

#[test]
fn a_search_looks_at_tasks_of_its_kind_only() {
    for temporary in [false, true] {
        let queue = still().0.in_memory().unwrap();
        let tube = queue.create_tube("t", indexed().temporary(temporary)).unwrap();
        tube.kind("rarely").put_many((0..20_000).map(|_| b"x".to_vec())).unwrap();
        let mut ids: Vec<_> = (0..100).map(|_| tube.kind("rare").put(b"x").unwrap()).collect();
        tube.put_many((0..20_000).map(|_| b"x".to_vec())).unwrap();
        assert_eq!(found(&tube, "rare"), ids.iter().copied().collect());
        assert_eq!((found(&tube, "rar").len(), found(&tube, "").len()), (0, 0));
        assert_eq!(found(&tube, &"k".repeat(256)).len(), 0);
        // In pages, and with a state; what is in the trash is left out.
        let (filter, mut next, mut seen) = (Filter::new().kind("rare"), None, Vec::new());
        loop {
            let page = tube.search(&filter, next.as_ref(), 7).unwrap();
            seen.extend(page.tasks.iter().map(|task| task.id));
            next = page.next;
            if next.is_none() {
                break;
            }
        }
        assert_eq!(seen, ids, "by id");
        tube.trash(ids.remove(0), "no").unwrap();
        tube.bury(ids[0], "no").unwrap();
        let buried = tube.search(&filter.clone().state(State::Buried), None, 9).unwrap();
        assert_eq!(buried.tasks.iter().map(|task| task.id).collect::<Vec<_>>(), ids[..1]);
        assert_eq!(found(&tube, "rare").len(), 99);
    }
}

#[test]
fn the_rows_follow_each_put_and_each_end() {
    let (_home, path) = home();
    let queue = open(&path);
    let kept = Retention::new().count(2);
    for (name, options) in [
        ("durable", indexed()),
        ("temporary", indexed().temporary(true)),
        ("fifo", TubeOptions::new(TubeKind::Fifo).index_kinds(true)),
        ("utube", TubeOptions::new(TubeKind::Utube).index_kinds(true)),
        ("dropping", indexed().drop_payloads(true)),
    ] {
        let tube = queue.create_tube(name, options.keep_finished(kept)).unwrap();
        let mail = tube.kind("mail");
        for length in [1, 5000, 3_000_000] {
            let payload = vec![7; length];
            mail.put(&payload).unwrap();
            mail.task(&payload).key("k").put().unwrap();
            mail.put_front(&payload).unwrap();
            sound(&queue);
            assert_eq!(found(&tube, "mail").len(), 3, "{name}: {length}");
            // Acked, completed, and kept; the first one goes with the last.
            while let Some(task) = tube.try_take().unwrap() {
                task.ack().unwrap();
                sound(&queue);
            }
            assert_eq!(found(&tube, "mail").len(), 2, "{name}: {length}");
            let ids: Vec<_> = found(&tube, "mail").into_iter().collect();
            assert_eq!(tube.delete_many(&ids).unwrap(), 2);
            sound(&queue);
        }
        let batch = tube.batch([b"a".to_vec(), b"b".to_vec()]).kind("mail").put().unwrap();
        tube.delete(batch[0]).unwrap();
        queue.transact(|tx| mail.task(b"c").put_in(tx).map(drop)).unwrap();
        tube.bury(batch[1], "no").unwrap();
        assert_eq!(found(&tube, "mail").len(), 2);
        tube.kick(1).unwrap();
        tube.trash(batch[1], "no").unwrap();
        sound(&queue);
        tube.restore(batch[1]).unwrap();
        tube.trash(batch[1], "no").unwrap();
        assert_eq!((found(&tube, "mail").len(), tube.empty_trash().unwrap()), (1, 1));
        sound(&queue);
        tube.truncate().unwrap();
        sound(&queue);
        assert_eq!(found(&tube, "mail").len(), 0);
        mail.put(b"d").unwrap();
        assert_eq!(found(&tube, "mail").len(), 1);
        drop(mail);
        queue.force_drop_tube(name).unwrap();
        sound(&queue);
    }
    close_sound(queue);
}

#[test]
fn a_delay_and_a_ttl_that_end_take_the_rows_with_them() {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let tube = queue.create_tube("t", indexed().index_kinds(true)).unwrap();
    tube.task(b"x").kind("a").delay(secs(5)).put().unwrap();
    tube.task(b"x").kind("a").ttl(secs(9)).put().unwrap();
    sound(&queue);
    clock.advance(secs(6));
    sound(&queue);
    assert_eq!((tube.stats().unwrap().ready, found(&tube, "a").len()), (2, 2));
    clock.advance(secs(6));
    sound(&queue);
    assert_eq!(found(&tube, "a").len(), 1);
    close_sound(queue);
}

#[test]
fn a_task_that_is_put_again_or_moved_stands_under_its_kind_in_its_tube() {
    let (_home, path) = home();
    let queue = open(&path);
    let options = || indexed().keep_finished(Retention::new());
    let [a, b] = ["a", "b"].map(|name| queue.create_tube(name, options()).unwrap());
    let plain = queue.tube("plain").unwrap();
    for length in [1, 100_000] {
        let empty = rows(&queue);
        let payload = vec![7; length];
        let again = |tube: &Tube, kind: Option<&str>| {
            let task = tube.task(&payload).key("k").on_conflict(Conflict::Replace);
            let id = match kind {
                Some(kind) => task.kind(kind).put().unwrap(),
                None => task.put().unwrap(),
            };
            sound(&queue);
            id
        };
        let id = again(&a, Some("mail"));
        let only = BTreeSet::from([id]);
        assert_eq!(found(&a, "mail"), only);
        again(&a, None);
        assert_eq!(found(&a, "mail"), only, "kept");
        again(&a, Some("post"));
        assert_eq!((found(&a, "mail").len(), found(&a, "post")), (0, only.clone()));
        a.move_to(id, &b).apply().unwrap();
        sound(&queue);
        assert_eq!((found(&a, "post").len(), found(&b, "post")), (0, only.clone()));
        b.move_to(id, &plain).apply().unwrap();
        sound(&queue);
        assert_eq!((found(&b, "post").len(), found(&plain, "post")), (0, only.clone()));
        plain.take().unwrap().advance(&a).unwrap();
        sound(&queue);
        assert_eq!(found(&a, "post"), only);
        a.take().unwrap().advance(&a).unwrap();
        a.take().unwrap().with_payload(&payload).release().unwrap();
        a.take().unwrap().fail("g", "no").unwrap();
        sound(&queue);
        assert_eq!(queue.unfail_into("g", 9, &b).unwrap().moved, 1);
        sound(&queue);
        assert_eq!((found(&a, "post").len(), found(&b, "post")), (0, only.clone()));
        b.take().unwrap().ack().unwrap();
        assert_eq!(found(&b, "post"), only, "finished");
        let new = again(&b, Some("new"));
        assert_eq!((found(&b, "post").len(), found(&b, "new")), (0, BTreeSet::from([new])));
        let (_copy, copy) = killed(&path);
        let after = open(&copy);
        assert_eq!(found(&after.tube("b").unwrap(), "new").len(), 1);
        close_sound(after);
        b.delete(new).unwrap();
        // The failure group's counts, at the most, are of another kind.
        assert_eq!(rows(&queue), empty, "{length}");
    }
    close_sound(queue);
}

#[test]
fn it_stays_as_the_tube_was_made() {
    let (_home, path) = home();
    let queue = open(&path);
    let tube = queue.create_tube("t", indexed()).unwrap();
    assert_eq!(kind(tube.set("index_kinds", false)), ErrorKind::Invalid);
    assert!(tube.setting("index_kinds").is_err());
    queue.close().unwrap();
    let queue = open(&path);
    let plain = TubeOptions::default().if_not_exists();
    assert_eq!(kind(queue.create_tube("t", plain)), ErrorKind::TubeMismatch);
    let tube = queue.create_tube("t", indexed().if_not_exists()).unwrap();
    assert!(tube.info().unwrap().options.get_index_kinds());
    close_sound(queue);
}
