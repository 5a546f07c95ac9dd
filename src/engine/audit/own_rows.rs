//! The audit of what the fields of a task's own row call for, or exclude, and of where it is.

use super::Fix;
use super::seen::{Audit, Homes};
use crate::engine::kinds;
use crate::engine::stored::{StoredTask, TaskRef, TaskState};
use crate::engine::tube_cache::TubeEntry;
use crate::format::key::{self, Home};
use crate::format::row::{TaskRow, replaced_section};
use crate::format::{Scan, Tag, Value, View};
use crate::words::error::Result;
use crate::words::task::TaskId;

impl Audit<'_> {
    /// A task whose own row is not where the row of its state says: its home is where that row is,
    /// so that its payload stays.
    pub(super) fn at_home(&mut self, id: TaskId, stored: StoredTask) -> Result<StoredTask> {
        let homes = match self.homes.take() {
            Some(homes) => homes,
            None => homes(self.view, self.tube)?,
        };
        let home = homes.get(&id).copied().flatten();
        self.homes = Some(homes);
        // Orders of one tube have one length.
        let is_placed = stored.place.order.is_placed();
        let Some(home) = home.filter(|home| home.rank.order.is_placed() == is_placed) else {
            return Ok(stored);
        };
        let raw = self.view.get(&key::task(self.tube.run(), &home, id))?;
        Ok(match raw {
            Some(raw) => stored.at_home(home, raw),
            None => stored,
        })
    }

    pub(super) fn own_row(&mut self, task: &TaskRef<'_>, task_state: &TaskState) {
        let Some((_, row)) = task.read else { return };
        if row.is_moved() {
            self.led(task.id);
        }
        if let Some(key) = kinds::row_of(task) {
            self.expect(Tag::Kind, key, Some(Value::EMPTY));
        }
        // Rows that do not say the group of a task are of the one of its tube.
        if let Some(group) = task.tube.plain_group().filter(|_| task.group.is_none()) {
            let what = format!("it is of no group, and its tube has all in {group:?}");
            self.say_of(task.id, what, Fix::Nothing);
        }
        let is_done = matches!(task_state, TaskState::Done(_));
        if row.is_payload_dropped() && (!is_done || task.bytes > 0) {
            let (state, bytes) = (task_state.state(), task.bytes);
            let what =
                format!("its payload was not kept, but it is {state:?} and has {bytes} bytes");
            self.say_of(task.id, what, kept(task, &row));
        }
    }
}

fn homes(view: &dyn View, tube: &TubeEntry) -> Result<Homes> {
    let mut homes = Homes::new();
    for tag in Tag::TASKS {
        let mut rows = Scan::over(tube.range(tag));
        while let Some((met, row)) = rows.next(view)? {
            let is_sound = row.as_deref().and_then(TaskRow::decode).is_some();
            let place = key::place_of(&met, key::RUN_PREFIX).filter(|_| is_sound);
            let Some((rank, id)) = place.zip(key::id_of(&met)) else { continue };
            let home = Home { rank, is_fresh: tag == Tag::Fresh };
            homes.entry(id).and_modify(|home| *home = None).or_insert(Some(home));
        }
    }
    Ok(homes)
}

/// If there is a payload, its row says so again. Without one it is lost.
fn kept(task: &TaskRef<'_>, row: &TaskRow<'_>) -> Fix {
    let section = replaced_section(row.extension, row.payload_generation());
    match section.filter(|_| task.bytes > 0) {
        Some(section) => {
            let own = key::task(task.tube.run(), &task.home, task.id);
            Fix::Set(own, TaskRow { extension: &section, ..*row }.encode())
        }
        None => Fix::Unkept(task.tube.number, task.id),
    }
}
