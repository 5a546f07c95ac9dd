//! The verbs that put tasks, and those that take them.

use super::stage::{Change, Stage, WAVE_AT, added, gone, nothing, payload, refused_inside};
use super::verbs::{May, Verb};
use std::time::Duration;
use tubewell::{Conflict, Orphaned, State, Stop, Task};

pub fn put_and_take() -> Vec<Verb> {
    vec![
        ("put", May::Always, |s| s.tube.put(&payload()).map(added)),
        ("put_front", May::Always, |s| s.tube.put_front(&payload()).map(added)),
        ("put delayed", May::Always, |s| s.tube.task(&payload()).delay(WAVE_AT).put().map(added)),
        ("put of 16 KiB", May::Always, |s| s.tube.put(&[3; 16 << 10]).map(added)),
        ("put of 200 KiB", May::Always, |s| s.tube.put(&[3; 200 << 10]).map(added)),
        ("put_many", May::Always, |s| {
            let ids = s.tube.put_many((0..100).map(|_| payload()))?;
            Ok(Change { added: ids, ..Change::default() })
        }),
        ("batch", May::Always, |s| {
            let ids = s.tube.batch([payload(), payload()]).delay(WAVE_AT).put()?;
            Ok(Change { added: ids, ..Change::default() })
        }),
        ("batch_of", May::Always, |s| {
            let payload = payload();
            let tasks = [s.tube.task(&payload).priority(-1), s.tube.task(&payload).ttr(WAVE_AT)];
            let ids = s.tube.batch_of(tasks).put()?;
            Ok(Change { added: ids, ..Change::default() })
        }),
        ("put_all", May::Always, |s| {
            let before = Stage::found(&s.queue, &s.tube);
            s.tube.put_all((0..100).map(|_| payload()))?;
            let ids = &Stage::found(&s.queue, &s.tube) - &before;
            Ok(Change { added: ids.into_iter().collect(), ..Change::default() })
        }),
        ("put_receipt", May::Always, |s| s.tube.put_receipt(&payload())?.wait().map(added)),
        ("put that replaces", May::Always, |s| {
            let put = s.tube.task(&payload()).key("k").on_conflict(Conflict::Replace).put()?;
            let gone = if put == s.keyed { vec![] } else { vec![s.keyed] };
            Ok(Change { added: vec![put], gone, ..Change::default() })
        }),
        ("put that debounces", May::Always, |s| {
            let payload = payload();
            let put = s.tube.task(&payload).key("k").on_conflict(Conflict::Debounce);
            assert_eq!(put.delay(WAVE_AT).put()?, s.keyed);
            Ok(Change::default())
        }),
        ("put that keeps", May::Always, |s| {
            s.tube.task(&payload()).key("k").on_conflict(Conflict::Keep).put().map(nothing)
        }),
        ("put with a timeout of nothing", May::Always, |s| {
            s.tube.task(&payload()).wait_for_room(Duration::ZERO).put().map(added)
        }),
        ("copy_to", May::Always, |s| s.tube.copy_to(s.keyed, &s.tube).map(added)),
        ("put in a transaction", May::Always, |s| {
            let tube = s.tube.clone();
            refused_inside(s.queue.transact(|tx| tube.put_in(tx, &payload()))).map(added)
        }),
        ("put and advance in a transaction", May::Always, |s| {
            let tube = s.tube.clone();
            let put = s.inside(
                |s| &mut s.held,
                |tx, task| {
                    tx.advance(task, &tube)?;
                    tx.put(&tube, &payload())
                },
            );
            put.map(added)
        }),
        ("take and ack", May::Never, |s| {
            let task = s.tube.try_take()?.unwrap();
            let id = task.id();
            task.ack().map(|()| gone(id))
        }),
        ("take_many and ack_many", May::Never, |s| {
            let tasks = s.tube.take_many(1000)?;
            s.is_bounded("take_many");
            let ids: Vec<_> = tasks.iter().map(Task::id).collect();
            s.tube.ack_many(tasks)?;
            Ok(Change { gone: ids, ..Change::default() })
        }),
        ("take by a consumer", May::Never, |s| {
            let task = s.tube.by(&s.ada).try_take()?.unwrap();
            task.release().map(nothing)
        }),
        ("take by a session without a name", May::Never, |s| {
            s.tube.by(&s.queue.session()).try_take()?.unwrap().release().map(nothing)
        }),
        ("take from several tubes", May::Never, |s| {
            let tubes = s.queue.tubes_of([s.tube.name()])?.by_priority();
            tubes.by(&s.ada).try_take()?.unwrap().release().map(nothing)
        }),
        ("take_many from several tubes", May::Never, |s| {
            let tasks = s.queue.tubes_of([s.tube.name()])?.round_robin().take_many(1000)?;
            s.is_bounded("take_many");
            let ids: Vec<_> = tasks.iter().map(Task::id).collect();
            s.tube.ack_many(tasks)?;
            Ok(Change { gone: ids, ..Change::default() })
        }),
        ("take of a group", May::Never, |s| {
            let (stop, time) = (Stop::new(), Duration::ZERO);
            s.tube.take_group("g")?.release()?;
            s.tube.take_group_timeout("g", time)?.unwrap().release()?;
            s.tube.take_group_until("g", &stop)?.unwrap().release()?;
            let task = s.tube.try_take_group("g")?.unwrap();
            assert_eq!(task.id(), s.keyed);
            task.release().map(nothing)
        }),
        ("claim", May::Never, |s| s.tube.claim(s.keyed)?.release().map(nothing)),
        ("claim of a buried one", May::Never, |s| s.tube.claim(s.buried)?.release().map(nothing)),
        ("update", May::Disk, |s| {
            s.tube.update(s.keyed).priority(-1).ttl(WAVE_AT * 9).apply().map(nothing)
        }),
        ("update of a task in hand", May::Disk, |s| {
            s.tube.update(s.ticket.id()).ttr(WAVE_AT * 2).apply().map(nothing)
        }),
        ("put with tags", May::Always, |s| {
            s.tube.task(&payload()).tags(["a", "b"]).put().map(added)
        }),
        ("put_outcome", May::Always, |s| {
            s.tube.task(&payload()).put_outcome().map(|put| added(put.id))
        }),
        ("put_outcomes", May::Always, |s| {
            let payload = payload();
            let puts = s.tube.batch_of([s.tube.task(&payload)]).put_outcomes()?;
            Ok(Change { added: puts.iter().map(|put| put.id).collect(), ..Change::default() })
        }),
        ("put after a task", May::Always, |s| {
            let put = s.tube.task(&payload()).after([s.root]).orphaned(Orphaned::Ignore).put()?;
            assert_eq!(s.tube.peek(put)?.state, State::Blocked);
            Ok(added(put))
        }),
        ("put after what has ended", May::Always, |s| {
            let put = s.tube.task(&payload()).after_failure([s.buried]).put()?;
            assert_eq!(s.tube.peek(put)?.state, State::Ready);
            Ok(added(put))
        }),
        ("take with a timeout", May::Never, |s| {
            s.tube.take_timeout(Duration::ZERO)?.unwrap().release().map(nothing)
        }),
        ("take with a stop", May::Never, |s| {
            s.tube.take_until(&s.stop)?.unwrap().release()?;
            let tubes = s.queue.tubes_of([s.tube.name()])?;
            tubes.take_until(&s.stop)?.unwrap().release().map(nothing)
        }),
        ("take with a timeout and a stop", May::Never, |s| {
            s.tube.take_timeout_until(Duration::ZERO, &s.stop)?.unwrap().release().map(nothing)
        }),
        ("take from several tubes with a timeout and a stop", May::Never, |s| {
            let tubes = s.queue.tubes_with_prefix(s.tube.name())?;
            tubes.take_timeout(Duration::ZERO)?.unwrap().release()?;
            tubes.take_timeout_until(Duration::ZERO, &s.stop)?.unwrap().release().map(nothing)
        }),
    ]
}
