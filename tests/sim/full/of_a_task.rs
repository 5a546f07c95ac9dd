//! The verbs of a task in hand, and those that name a task.

use super::stage::{Change, Limit, WAVE_AT, gone, nothing};
use super::verbs::{May, Verb, long};
use std::time::Duration;
use tubewell::{Advance, Cause, Event, Release, Retry, State};

pub fn of_a_task() -> Vec<Verb> {
    vec![
        ("ack", May::Never, |s| {
            let task = s.held();
            let id = task.id();
            task.ack().map(|()| gone(id))
        }),
        ("ack of a kept task", May::Never, |s| {
            let (task, events) = (s.sum.take().unwrap(), s.queue.events());
            let id = task.id();
            task.ack()?;
            // On a full disk it leaves no row, and its event says so.
            let is_kept = s.limit != Limit::Disk;
            assert_eq!(s.keeper.peek(id).is_ok(), is_kept);
            assert_eq!(s.keeper.finished().count(), usize::from(is_kept));
            let step = |event: Event| (event.cause, event.task, event.to);
            let seen: Vec<_> = std::iter::from_fn(|| events.try_recv()).map(step).collect();
            assert_eq!(seen, [(Cause::Ack, Some(id), is_kept.then_some(State::Done))]);
            Ok(Change::default())
        }),
        ("ack with a result", May::Bytes, |s| {
            let ticket = s.sum.as_ref().unwrap().ticket();
            let done = s.keeper.ticket(ticket).ack_with(&[5; 16 << 10]);
            let result = s.keeper.peek(ticket.id())?.result;
            assert_eq!(result.is_some(), done.is_ok());
            done.map(nothing)
        }),
        ("complete_by_id with a result", May::Bytes, |s| {
            let id = s.sum.as_ref().unwrap().id();
            assert!(s.keeper.complete_by_id_with(id, &[5; 16 << 10])?);
            Ok(Change::default())
        }),
        ("complete_by_id", May::Never, |s| {
            s.tube
                .complete_by_id(s.keyed)
                .map(|done| if done { gone(s.keyed) } else { nothing(()) })
        }),
        ("fail_by_id", May::Disk, |s| s.tube.fail_by_id(s.ticket.id(), "g", long()).map(nothing)),
        ("delete_many", May::Never, |s| {
            let ids = [s.keyed, s.buried];
            s.tube.delete_many(&ids)?;
            Ok(Change { gone: ids.to_vec(), ..Change::default() })
        }),
        ("snooze", May::Disk, |s| s.held().snooze(WAVE_AT).map(nothing)),
        ("kick_where", May::Never, |s| s.tube.kick_where(10, |_| true).map(nothing)),
        ("ack of a ticket", May::Never, |s| {
            s.tube.ticket(s.ticket).ack().map(|()| gone(s.ticket.id()))
        }),
        ("drop of a guard", May::Never, |s| {
            drop(s.held());
            Ok(Change::default())
        }),
        ("release", May::Never, |s| s.held().release().map(nothing)),
        ("release to the back", May::Disk, |s| {
            s.held().release_with(Release::new().to_back()).map(nothing)
        }),
        ("release delayed", May::Disk, |s| {
            s.held().release_with(Release::new().delay(WAVE_AT)).map(nothing)
        }),
        ("retry", May::Disk, |s| s.held().retry(long()).map(nothing)),
        ("retry after a wait", May::Disk, |s| s.held().retry_after(long(), WAVE_AT).map(nothing)),
        ("retry in a group", May::Disk, |s| {
            s.held().retry_with(Retry::new(long()).group("g")).map(nothing)
        }),
        ("advance", May::Disk, |s| s.held().advance(&s.tube).map(nothing)),
        ("advance with a result", May::Always, |s| {
            let result = [3; 8 << 10];
            let held = s.held.as_mut().unwrap();
            held.advance_with(&s.tube, Advance::new().result(&result)).map(nothing)
        }),
        ("release with a payload", May::Payload, |s| {
            s.brings(|held, new| held.with_payload(new).release())
        }),
        ("retry with a payload", May::Payload, |s| {
            s.brings(|held, new| held.with_payload(new).retry(long()))
        }),
        ("fail with a payload", May::Payload, |s| {
            s.brings(|held, new| held.with_payload(new).fail("g", long()))
        }),
        ("renew with a payload", May::Payload, |s| {
            s.brings(|held, new| held.with_payload(new).renew())
        }),
        ("touch with a payload in turns", May::Payload, |s| {
            let held = s.tube.ticket(s.ticket);
            held.with_payload(&[3; 200 << 10]).touch(Duration::from_secs(1)).map(nothing)
        }),
        ("advance with a payload", May::Payload, |s| {
            let tube = s.tube.clone();
            s.brings(|held, new| held.with_payload(new).advance(&tube))
        }),
        ("ack with a payload", May::Payload, |s| {
            let ticket = s.sum.as_ref().unwrap().ticket();
            let done = s.keeper.ticket(ticket).with_payload(&[5; 16 << 10]).ack();
            let generation = s.keeper.peek(ticket.id())?.payload_generation;
            assert_eq!(generation, u32::from(done.is_ok()));
            done.map(nothing)
        }),
        ("move_to", May::Disk, |s| s.tube.move_to(s.keyed, &s.tube).apply().map(nothing)),
        ("move_to another tube", May::Disk, |s| {
            s.tube.move_to(s.keyed, &s.keeper).apply().map(|()| gone(s.keyed))
        }),
        ("bury", May::Disk, |s| s.held().bury(long()).map(nothing)),
        ("fail", May::Disk, |s| s.held().fail("g", long()).map(nothing)),
        ("renew", May::Never, |s| s.held.as_ref().unwrap().renew_for(WAVE_AT * 2).map(nothing)),
        ("touch", May::Never, |s| {
            s.tube.ticket(s.ticket).touch(Duration::from_secs(1)).map(nothing)
        }),
        ("bury with a priority", May::Disk, |s| {
            s.held().bury_with_priority(long(), 3).map(nothing)
        }),
        ("trash", May::Disk, |s| s.held().trash(long()).map(nothing)),
        ("trash by id", May::Disk, |s| s.tube.trash(s.keyed, long()).map(nothing)),
        ("restore", May::Always, |s| {
            s.tube.trash(s.buried, "no")?;
            s.tube.restore(s.buried).map(nothing)
        }),
        ("empty_trash", May::Disk, |s| {
            s.tube.trash(s.buried, "no")?;
            s.tube.empty_trash().map(|_| gone(s.buried))
        }),
        ("bury by id", May::Disk, |s| s.tube.bury(s.keyed, long()).map(nothing)),
        ("kick", May::Never, |s| s.tube.kick(10).map(nothing)),
        ("unfail", May::Never, |s| s.tube.unfail("g", 10).map(nothing)),
        ("unfail_into", May::Disk, |s| {
            s.held().fail("g", "no")?;
            s.queue.unfail_into("g", 10, &s.tube).map(nothing)
        }),
        ("kick_task", May::Never, |s| s.tube.kick_task(s.buried).map(nothing)),
        ("delete", May::Never, |s| s.tube.delete(s.keyed).map(|()| gone(s.keyed))),
        ("delete of a buried one", May::Never, |s| {
            s.tube.delete(s.buried).map(|()| gone(s.buried))
        }),
        ("force_timeout", May::Disk, |s| s.tube.force_timeout(&[s.ticket.id()]).map(nothing)),
        ("release_all", May::Never, |s| s.tube.release_all().map(nothing)),
        ("truncate", May::Never, |s| {
            s.held = None;
            s.tube.truncate()?;
            Ok(Change { gone: s.there.iter().copied().collect(), ..Change::default() })
        }),
        ("delete only if ready", May::Never, |s| {
            s.tube.delete_only_if(s.keyed, &[State::Ready]).map(|()| gone(s.keyed))
        }),
        ("log", May::Bytes, |s| s.tube.log(s.keyed, &"x".repeat(1024)).map(nothing)),
        ("log of a task in hand", May::Bytes, |s| {
            s.held.as_ref().unwrap().log(&"x".repeat(1024)).map(nothing)
        }),
        ("tag", May::Bytes, |s| s.tube.tag(s.keyed, ["x".repeat(255).as_str()]).map(nothing)),
        ("untag", May::Never, |s| s.tube.untag(s.keyed, ["kept"]).map(nothing)),
        ("tag of a task in hand", May::Bytes, |s| {
            s.held.as_ref().unwrap().tag(["y".repeat(255).as_str()]).map(nothing)
        }),
        ("untag of a task in hand", May::Never, |s| {
            s.held.as_ref().unwrap().untag(["absent"]).map(nothing)
        }),
        ("start", May::Bytes, |s| s.held.as_ref().unwrap().start(&"x".repeat(255)).map(nothing)),
        ("progress", May::Bytes, |s| {
            s.held.as_ref().unwrap().progress(40, &"x".repeat(1024)).map(nothing)
        }),
        ("checkpoint", May::Bytes, |s| {
            s.held.as_ref().unwrap().checkpoint(&[b'x'; 16 << 10]).map(nothing)
        }),
        ("ack of a task that another one waits for", May::Never, |s| {
            s.tube.claim(s.root)?.ack()?;
            s.is_let_through();
            Ok(gone(s.root))
        }),
        ("bury of a task that another one waits for", May::Disk, |s| {
            s.tube.bury(s.root, long())?;
            s.is_let_through();
            Ok(Change::default())
        }),
        ("force_delete", May::Never, |s| {
            s.tube.force_delete(s.root)?;
            s.is_let_through();
            Ok(gone(s.root))
        }),
        ("cancel_tree", May::Never, |s| {
            assert_eq!(s.queue.cancel_tree(s.root)?, 2);
            Ok(Change { gone: vec![s.root, s.blocked], ..Change::default() })
        }),
        ("depend", May::Disk, |s| s.tube.depend(s.blocked, [s.buried]).map(nothing)),
        ("undepend", May::Never, |s| s.tube.undepend(s.blocked, [s.root]).map(nothing)),
        ("undepend_all", May::Never, |s| s.tube.undepend_all(s.blocked).map(nothing)),
    ]
}
