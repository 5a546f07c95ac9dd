//! Read-only openings before others: after every end they must show what the next opening shows,
//! and must not change the disk.

use crate::disk::SimDisk;
use crate::world::kind_of;
use std::collections::BTreeMap;
use std::time::Duration;
use tubewell::{Builder, ErrorKind, Queue, Result, State, TaskId, TaskInfo};

const STATES: [State; 6] =
    [State::Blocked, State::Ready, State::Delayed, State::Taken, State::Buried, State::Done];

/// Every task, by its id.
pub type Shown = BTreeMap<TaskId, TaskInfo>;

fn all(queue: &Queue) -> Result<Shown> {
    let mut all = Shown::new();
    for name in queue.tubes()? {
        let Some(tube) = queue.find_tube(&name)? else { continue };
        for task in STATES.into_iter().flat_map(|state| tube.tasks(state)) {
            let task = task?;
            all.insert(task.id, task);
        }
        let open = |task: &&TaskInfo| task.tube == name && task.state != State::Done;
        assert_eq!(tube.len()?, all.values().filter(open).count() as u64);
    }
    Ok(all)
}

/// What a read-only opening shows. `None` if there is no queue yet.
pub fn shown(builder: Builder, disk: &SimDisk) -> Option<Result<Shown>> {
    let before = disk.syncs().len();
    let opened = builder.read_only(true).disk(disk.lend()).open_disk();
    if kind_of(&opened) == Some(ErrorKind::ReadOnly) {
        return None;
    }
    let shown = opened.and_then(|queue| {
        let shown = all(&queue)?;
        assert_eq!(queue.check()?, Vec::<String>::new());
        queue.close().map(|()| shown)
    });
    assert_eq!(disk.syncs().len(), before, "it has changed something");
    Some(shown)
}

/// Whether a tube removes tasks that have ended.
fn keeps_some(queue: &Queue, tube: &str) -> Result<bool> {
    let Some(tube) = queue.find_tube(tube)? else { return Ok(false) };
    let options = tube.info()?.options;
    Ok(options.get_keep_finished().or(options.get_keep_buried()).is_some())
}

/// Compares it with what an opening for writing shows, which has returned leases and works off what
/// is due.
pub fn compare(read: &Shown, queue: &Queue) -> Result<()> {
    let written = all(queue)?;
    for (id, task) in read {
        // A retention may remove it, at once or when a lease that ends buries it or another.
        let has_ended = matches!(task.state, State::Done | State::Buried | State::Taken);
        let ends = has_ended && keeps_some(queue, &task.tube)?
            || task.ttl_left == Some(Duration::ZERO) && task.state != State::Delayed;
        // The end of another one may let it through or cancel it.
        let waits = task.state == State::Blocked;
        let moves = waits || task.state == State::Taken || task.delay_left == Some(Duration::ZERO);
        let Some(after) = written.get(id) else {
            assert!(ends || waits || moves && task.ttl_left.is_some(), "{task:?} is gone");
            continue;
        };
        let lasting = |task: &TaskInfo| {
            let texts = (task.tube.clone(), task.key.clone(), task.group.clone());
            ((task.priority, task.created, task.deliveries), texts, task.payload.clone())
        };
        assert_eq!(lasting(task), lasting(after));
        assert!(moves || task.state == after.state, "{task:?} {after:?}");
    }
    let new: Vec<_> = written.keys().filter(|id| !read.contains_key(id)).collect();
    assert!(new.is_empty(), "not shown before: {new:?}");
    Ok(())
}
