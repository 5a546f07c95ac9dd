//! Every line that the audit can report, each caused by one fault.

use super::{Rows, filled, work};
use crate::format::key::{self, Direction, Key, Range, ReportPart, Run, Work};
use crate::format::piece::PieceWork;
use crate::format::row::{
    self, BuriedRow, CascadeRow, DayRow, EdgeCounts, EdgeRow, LinkingRow, PayloadPlace,
    ScheduleRow, SettingRow, TaskEnds, TaskRow, ThrottleRow, WorkRow,
};
use crate::format::{Deadline, Tag, Value, View};
use crate::words::dependency::{On, Orphaned};
use crate::words::setting::SettingValue;
use crate::words::task::TaskId;
use crate::words::tube_kind::TubeKind;

/// Says of a task that its payload was not kept.
pub(super) fn drop_payload(rows: &mut Rows, at: Key, payload: PayloadPlace<'_>) {
    let row = rows.get(&at).unwrap().unwrap();
    let row = TaskRow::decode(&row).unwrap();
    let section = row::dropped_section(row.extension).unwrap();
    rows.set(at, TaskRow { payload, extension: &section, ..row }.encode());
}

/// Plants an edge.
fn edge_of(rows: &mut Rows, (earlier, later): (TaskId, TaskId)) {
    let row = EdgeRow { on: On::AnyEnd, orphaned: Orphaned::Hold, tube: 0 }.encode();
    let run = Run::QUEUE;
    rows.set(key::edge(Direction::Dependent, run, (earlier, later), false), row.clone());
    rows.set(key::edge(Direction::Dependency, run, (later, earlier), false), row);
}

/// The work of a put that has written so many open edges.
fn linking(open: u32) -> Value {
    let counts = EdgeCounts { open, met: 0 };
    LinkingRow { counts, is_cancelled: false }.encode()
}

/// Every line that the audit can report, each caused by one fault.
#[test]
fn every_fault_has_its_line() {
    type Spoil = fn(&mut Rows);
    let faults: [(&str, Spoil); 112] = [
        ("Day: a damaged row", |rows| {
            let key = rows.in_tube("first", Tag::Day);
            rows.set(key, Value::from([1]));
        }),
        ("Day: an invalid key", |rows| {
            let key = key::after(&rows.in_tube("first", Tag::Day));
            rows.set(key, DayRow::new(0).encode());
        }),
        ("Day: a damaged row", |rows| {
            let key = rows.in_tube("first", Tag::Day);
            let (run, day) = key::of_day(&key).unwrap();
            let row = rows.rows[&key].clone().unwrap();
            rows.set(key::day(run, day + 1), row);
        }),
        // A day that would never be too old.
        ("Day: an invalid key", |rows| {
            let (run, _) = key::of_day(&rows.in_tube("first", Tag::Day)).unwrap();
            rows.set(key::day(run, u32::MAX), DayRow::new(0).encode());
        }),
        ("Schedule: it cannot be read and is lost", |rows| {
            rows.set(key::schedule("plan"), Value::from([1]));
        }),
        ("Firing: a row without a schedule", |rows| {
            rows.rows.remove(&key::schedule("paused"));
        }),
        ("Fire: a row without a schedule", |rows| {
            rows.rows.remove(&key::schedule("plan"));
        }),
        ("how far it has come is damaged, not its copy", |rows| {
            rows.set(key::firing("plan"), Value::from([1]));
        }),
        ("how far it has come is lost, and it is paused", |rows| {
            rows.rows.remove(&key::firing("paused"));
            let fire = rows.keys(Tag::Fire).remove(1);
            rows.rows.remove(&fire);
        }),
        ("schedule \"paused\": the row of its next fire is missing", |rows| {
            rows.rows.remove(&key::firing("paused"));
            let fire = rows.keys(Tag::Fire).remove(1);
            rows.rows.remove(&fire);
        }),
        ("tube \"planned\": it has 2 schedules, not 3", |rows| {
            let mut tube = rows.tube("planned");
            tube.row.schedules += 1;
            rows.set(key::tube(tube.number), tube.row.encode());
        }),
        ("Fire: \"paused\" does not fire then", |rows| {
            let row = rows.rows[&key::firing("paused")].clone().unwrap();
            rows.set(key::fire(1, key::FireClock::Queue, 7, "paused"), row);
        }),
        ("Fire: a wrong copy of how far \"plan\" has come", |rows| {
            let key = rows.keys(Tag::Fire).remove(0);
            rows.set(key, Value::from([1]));
        }),
        ("schedule \"plan\": the row of its next fire is missing", |rows| {
            let key = rows.keys(Tag::Fire).remove(0);
            rows.rows.remove(&key);
        }),
        ("a row without its other one", |rows| {
            let key = rows.keys(Tag::Dependent).remove(0);
            rows.rows.remove(&key);
        }),
        ("a row that cannot be read", |rows| {
            for tag in [Tag::Dependency, Tag::Dependent] {
                rows.keys(tag).into_iter().for_each(|key| rows.set(key, Value::from([1])));
            }
        }),
        ("its other row says something else", |rows| {
            let key = rows.keys(Tag::Dependency).remove(0);
            let row = EdgeRow::decode(rows.rows[&key].as_ref().unwrap()).unwrap();
            rows.set(key, EdgeRow { orphaned: Orphaned::Ignore, ..row }.encode());
        }),
        ("Dependency: a wrong row", |rows| {
            let key = rows.keys(Tag::Dependency).remove(0);
            let row = EdgeRow::decode(rows.rows[&key].as_ref().unwrap()).unwrap();
            rows.set(key, EdgeRow { tube: 77, ..row }.encode());
        }),
        ("an edge that is both open and met", |rows| {
            let open = rows.keys(Tag::Dependency).remove(0);
            let ((later, earlier), _) = key::of_edge(&open).unwrap();
            let row = rows.rows[&open].clone().unwrap();
            let run = Run::QUEUE;
            let back = key::edge(Direction::Dependent, run, (earlier, later), true);
            rows.set(key::edge(Direction::Dependency, run, (later, earlier), true), row.clone());
            rows.set(back, row);
        }),
        ("Dependency: an invalid key", |rows| {
            let mut key = rows.keys(Tag::Dependency).remove(0);
            let row = rows.rows[&key].clone().unwrap();
            key[9] = 7;
            rows.set(key, row);
        }),
        ("it is gone, and no work removes its edges", |rows| {
            edge_of(rows, (TaskId::new(800), TaskId::new(801)));
        }),
        ("it is gone, and no work removes its edges", |rows| {
            rows.set(key::work(Work::Unlink, Run::QUEUE, TaskId::new(801)), Value::EMPTY);
            edge_of(rows, (TaskId::new(800), TaskId::new(802)));
        }),
        ("it has ended, and no work lets task", |rows| {
            rows.set(key::work(Work::Linking, Run::QUEUE, TaskId::new(801)), linking(1));
            edge_of(rows, (TaskId::new(800), TaskId::new(801)));
        }),
        ("the work of its put counts other edges", |rows| {
            rows.set(key::work(Work::Linking, Run::QUEUE, TaskId::new(801)), linking(2));
            edge_of(rows, (TaskId::new(800), TaskId::new(801)));
        }),
        ("but has EdgeCounts", |rows| {
            for tag in [Tag::Dependent, Tag::Dependency] {
                let key = rows.keys(tag).remove(0);
                rows.rows.remove(&key);
            }
        }),
        ("Work: on the edges of task 7: it cannot be read", |rows| {
            rows.set(key::work(Work::Cascade, Run::QUEUE, TaskId::new(7)), Value::from([0]));
        }),
        ("Work: on the edges of task 7: it cannot be read", |rows| {
            rows.set(key::work(Work::Unlink, Run::QUEUE, TaskId::new(7)), Value::from([0]));
        }),
        ("Work: on the edges of task 7: it cannot be read", |rows| {
            rows.set(key::work(Work::Linking, Run::QUEUE, TaskId::new(7)), Value::from([0]));
        }),
        ("the task has not ended so", |rows| {
            let ((earlier, _), _) = key::of_edge(&rows.keys(Tag::Dependent)[0]).unwrap();
            let ended = TaskEnds { done: true, ..TaskEnds::default() };
            let work = CascadeRow { ended, tube: 1, ..CascadeRow::default() };
            rows.set(key::work(Work::Cascade, Run::QUEUE, earlier), work.encode());
        }),
        ("the task has not ended", |rows| {
            let ((later, _), _) = key::of_edge(&rows.keys(Tag::Dependency)[0]).unwrap();
            rows.set(key::work(Work::Unlink, Run::QUEUE, later), Value::EMPTY);
        }),
        ("the task is there", |rows| {
            let ((later, _), _) = key::of_edge(&rows.keys(Tag::Dependency)[0]).unwrap();
            rows.set(key::work(Work::Linking, Run::QUEUE, later), linking(1));
        }),
        ("Work: an invalid key", |rows| {
            rows.set(key::work(Work::Cascade, Run(1), TaskId::new(7)), Value::EMPTY);
        }),
        ("the row of its tags is missing", |rows| {
            let key = rows.keys(Tag::TaskTags).remove(0);
            rows.rows.remove(&key);
        }),
        ("the row of its tags is damaged", |rows| {
            let key = rows.keys(Tag::TaskTags).remove(0);
            rows.set(key, Value::from([1, 2]));
        }),
        ("no row of its tag \"red\" leads to it", |rows| {
            let mut keys = rows.keys(Tag::Tagged).into_iter();
            let key =
                keys.find(|key| key::tag_in(key).is_some_and(|(tag, _)| tag == "red")).unwrap();
            rows.set(key, row::number(99));
        }),
        ("TaskTags: a row without a task", |rows| {
            let row = rows.rows[&rows.keys(Tag::TaskTags)[0]].clone().unwrap();
            rows.set(key::task_tags(Run(1), TaskId::new(77)), row);
        }),
        ("Tagged: a row without a task", |rows| {
            rows.set(key::tagged_task(Run(1), "red", 7, TaskId::new(77)), row::number(1));
        }),
        ("tag \"red\": 2 tasks have it, stored Some(3)", |rows| {
            rows.set(key::tag_count(Run(1), "red"), row::number(3));
        }),
        ("tag \"blue\": 2 tasks have it, and no row counts them", |rows| {
            rows.rows.remove(&key::tag_count(Run(1), "blue"));
        }),
        ("TopTagged: a row is missing", |rows| {
            rows.rows.remove(&key::top_tag(Run(1), 2, "red"));
        }),
        ("TopTaggedTemporary: a tag at a wrong place", |rows| {
            rows.set(key::top_tag(Run(Run::TEMPORARY), 2, "red"), Value::from([]));
        }),
        ("Tracked: it cannot be read", |rows| {
            let key = rows.keys(Tag::Tracked).remove(0);
            rows.set(key, Value::from([1]));
        }),
        ("Kind: a row is missing", |rows| {
            let key = rows.in_tube("first", Tag::Kind);
            rows.rows.remove(&key);
        }),
        ("Kind: a row without a task", |rows| {
            let key = rows.in_tube("first", Tag::Kind);
            rows.rows.remove(&key);
            let (run, id) = (rows.tube("first").run(), key::id_of(&key).unwrap());
            rows.set(key::kind(run, "another", id), Value::from([]));
        }),
        ("its payload was not kept, but it is Taken and has 5 bytes", |rows| {
            let (at, payload) = (rows.in_tube("first", Tag::Fresh), PayloadPlace::Inline(b"alone"));
            drop_payload(rows, at, payload);
        }),
        ("its payload was not kept, but it is Done and has 4 bytes", |rows| {
            let id = key::id_of(&rows.in_tube("first", Tag::Done)).unwrap();
            let task = rows.keys(Tag::Task).into_iter().find(|key| key::id_of(key) == Some(id));
            let fresh = rows.keys(Tag::Fresh).into_iter().find(|key| key::id_of(key) == Some(id));
            drop_payload(rows, task.or(fresh).unwrap(), PayloadPlace::Inline(b"done"));
        }),
        ("tube \"first\": its name row does not refer to it", |rows| {
            rows.set(key::name("first"), row::number(2))
        }),
        ("name \"first\": there is no such tube", |rows| {
            rows.set(key::name("first"), row::number(99));
        }),
        ("consumer \"ada\": its name row does not refer to it", |rows| {
            rows.set(key::consumer_name("ada"), row::number(2));
        }),
        ("a name of a consumer that does not exist", |rows| {
            rows.set(key::consumer_name("eve"), row::number(1))
        }),
        ("is the last that was assigned", |rows| drop(rows.rows.remove(&key::meta(1)))),
        ("an unknown row", |rows| rows.set(key::meta(9), row::number(1))),
        ("a sweep would clear tube", |rows| {
            let run = rows.tube("first").run();
            rows.set(work(Work::Clear, run), WorkRow::default().encode());
        }),
        ("a sweep of tube 9 under the run", |rows| {
            let run = rows.tube("voided").run();
            rows.set(work(Work::Release, run), WorkRow { tube: 9, ..WorkRow::default() }.encode());
        }),
        ("Work: a merge of tube", |rows| {
            let (run, tube) = (rows.tube("voided").run(), rows.tube("voided").number);
            rows.set(work(Work::Merge, run), WorkRow { tube, ..WorkRow::default() }.encode());
        }),
        ("it is merged into another one, and no work goes on", |rows| {
            let run = rows.tube("merged").run();
            rows.rows.remove(&work(Work::Merge, run));
        }),
        ("Work: a damaged row", |rows| {
            let run = rows.tube("merged").run();
            rows.set(work(Work::Merge, run), row::number(9));
        }),
        ("Work: a damaged row", |rows| {
            let run = rows.tube("voided").run();
            rows.set(work(Work::Release, run), row::number(9));
        }),
        ("its lease is void, and no sweep returns it", |rows| {
            let run = rows.tube("voided").run();
            rows.rows.remove(&work(Work::Release, run));
        }),
        ("its consumer 1 does not exist", |rows| drop(rows.rows.remove(&key::consumer(1)))),
        ("payload bytes, but", |rows| rows.bytes += 1),
        ("an invalid key", |rows| {
            rows.set(Key::from_slice(&[Tag::OwnerLease as u8, 0]), Value::from([]));
        }),
        ("a ready row cannot be decoded", |rows| {
            let ready = rows.in_tube("first", Tag::Ready);
            rows.set(ready, Value::from([u8::MAX]));
        }),
        ("it is in two states", |rows| {
            let delayed = rows.in_tube("first", Tag::Delayed);
            let (id, run) = (key::id_of(&delayed).unwrap(), rows.tube("first").run());
            let tasks = rows.keys(Tag::Task).into_iter();
            let mut own = tasks.filter(|key| key::id_of(key) == Some(id) && key[4] == run.0 as u8);
            let home = key::place_of(&own.next().unwrap(), key::RUN_PREFIX).unwrap();
            rows.set(key::ready(run, &home, id), Value::from([]));
        }),
        ("its position row is wrong", |rows| {
            let key = rows.in_tube("first", Tag::Position);
            let mut place = rows.rows[&key].clone().unwrap().to_vec();
            place[8] ^= 1;
            rows.set(key, Value::from(place.as_slice()));
        }),
        ("a task row cannot be decoded", |rows| {
            let task = rows.in_tube("first", Tag::Task);
            rows.set(task, Value::from([u8::MAX]));
        }),
        ("its rows do not agree", |rows| {
            let taken = rows.in_tube("first", Tag::Taken);
            let mut row = rows.rows[&taken].clone().unwrap().to_vec();
            row[20] ^= 1;
            rows.set(taken, Value::from(row.as_slice()));
        }),
        ("not the bytes of its number", |rows| {
            let piece = rows.keys(Tag::Piece).remove(0);
            rows.set(piece, Value::from([7; 9]));
        }),
        ("a payload is not the one that was put", |rows| {
            let piece = rows.keys(Tag::Piece).remove(0);
            let mut row = rows.rows[&piece].clone().unwrap().to_vec();
            row[9] ^= 1;
            rows.set(piece, Value::from(row.as_slice()));
        }),
        ("a piece is missing", |rows| {
            let piece = rows.keys(Tag::Piece).remove(0);
            rows.rows.remove(&piece);
        }),
        ("PieceTemporary: a row that no task accounts for", |rows| {
            rows.set(key::piece(Run(Run::TEMPORARY), TaskId::new(77), 1, 0), Value::from([7]));
        }),
        ("two rows name the pieces", |rows| {
            let (id, generation, number) = key::of_piece(&rows.keys(Tag::Piece)[0]).unwrap();
            let work = PieceWork::new(generation, number..number + 1);
            rows.set(key::work(Work::Pieces, Run(1), id), work.encode());
        }),
        ("its pieces are of another generation", |rows| {
            let id = key::of_piece(&rows.keys(Tag::Piece)[0]).unwrap().0;
            let is_it = |row: &&Key| key::id_of(row) == Some(id);
            let tasks = Tag::TASKS.map(|tag| rows.keys(tag)).concat();
            let task = tasks.iter().find(is_it).unwrap().clone();
            let raw = rows.rows[&task].clone().unwrap();
            let section = row::replaced_section(&[], 1).unwrap();
            let own = row::TaskRow { extension: &section, ..row::TaskRow::decode(&raw).unwrap() };
            rows.set(task, own.encode());
        }),
        ("Work: on the pieces of another payload", |rows| {
            let work = key::piece_work(Work::Pieces, Run(1), TaskId::new(901), 7);
            rows.set(work, PieceWork::new(6, 2..3).encode());
        }),
        ("Key: a row is missing", |rows| {
            let key = rows.in_tube("first", Tag::Key);
            rows.rows.remove(&key);
        }),
        ("the queue's row of its failure is missing", |rows| {
            let key = rows.keys(Tag::Failed).remove(0);
            rows.rows.remove(&key);
        }),
        ("Work: an unknown kind of work", |rows| {
            let mut key = work(Work::Clear, Run(77));
            key[1] = 99;
            rows.set(key, WorkRow::default().encode());
        }),
        ("Work: an invalid key", |rows| {
            let key = key::work(Work::Clear, Run(77), TaskId::new(1));
            rows.set(key, WorkRow::default().encode());
        }),
        ("Failed: a row without a task", |rows| {
            rows.set(key::failed(Run(1), "g", 1, TaskId::new(1)), Value::from([]));
        }),
        ("a row of its reports is missing: Checkpoint", |rows| {
            let key = rows.keys(Tag::Report).into_iter().find(|key| key.ends_with(&[2]));
            rows.rows.remove(&key.unwrap());
        }),
        ("a damaged row of its reports: Report", |rows| {
            let key = rows.keys(Tag::Report).into_iter().find(|key| key.ends_with(&[1]));
            rows.set(key.unwrap(), row::number(1));
        }),
        ("Report: a row without a task", |rows| {
            rows.set(key::report(Run(1), TaskId::new(77), ReportPart::Checkpoint), row::number(1));
        }),
        ("Setting: \"ttl\" of tube 99, which does not exist", |rows| {
            rows.set(key::setting(99, "ttl"), SettingRow::of(SettingValue::Nothing).encode());
        }),
        ("a tube has no setting \"tll\"", |rows| {
            rows.set(key::setting(1, "tll"), SettingRow::of(SettingValue::Nothing).encode());
        }),
        ("the setting ttr takes a length of time, or Nothing, and not", |rows| {
            rows.set(key::setting(1, "ttr"), SettingRow::of(7.into()).encode());
        }),
        ("the setting flush_interval takes a length of time, and not", |rows| {
            rows.set(key::setting(0, "flush_interval"), SettingRow::of(7.into()).encode());
        }),
        ("a name of the application goes on behind", |rows| {
            rows.set(key::setting(0, "app."), SettingRow::of(7.into()).encode());
        }),
        ("Setting: a damaged row", |rows| {
            rows.set(key::setting(0, "app.a"), Value::from([11, 0, 0]));
        }),
        ("Setting: an invalid key", |rows| {
            let mut key = key::settings_of(0);
            key.push(0xff);
            rows.set(key, SettingRow::of(7.into()).encode());
        }),
        ("Condition: it cannot be read", |rows| {
            rows.set(key::condition("stored", true), Value::from([2]));
        }),
        ("Throttle: it cannot be read", |rows| {
            rows.set(key::throttle("throttle"), Value::from([2]));
        }),
        ("Throttle: an invalid key", |rows| {
            let row = rows.get(&key::throttle("throttle")).unwrap().unwrap();
            rows.set(key::throttle("a\nb"), row);
        }),
        ("Throttle: another one has its slots", |rows| {
            let row = rows.get(&key::throttle("throttle")).unwrap().unwrap();
            rows.set(key::throttle("twin"), row);
        }),
        ("Throttle: a tube has its run", |rows| {
            let at = key::throttle("throttle");
            let row = ThrottleRow::decode(&rows.get(&at).unwrap().unwrap()).unwrap();
            let run = rows.tube("temporary").run().number();
            rows.set(at, ThrottleRow { run: Run(run), ..row }.encode());
        }),
        ("schedule \"plan\": its tube is not \"before\"", |rows| {
            let at = key::schedule("plan");
            let row = ScheduleRow::decode(&rows.get(&at).unwrap().unwrap()).unwrap();
            rows.set(at, ScheduleRow { tube_name: "before".into(), ..row }.encode());
        }),
        ("tube \"first\": its run is not of its kind", |rows| {
            let mut tube = rows.tube("first");
            tube.row.options.temporary = true;
            rows.set(key::tube(tube.number), tube.row.encode());
        }),
        ("it is of no group, and its tube has all in \"\"", |rows| {
            let mut tube = rows.tube("first");
            tube.row.options.kind = TubeKind::Utube;
            rows.set(key::tube(tube.number), tube.row.encode());
        }),
        ("it is fresh, and of a group", |rows| {
            let at = rows.keys(Tag::Fresh).into_iter().find(|at| {
                Tag::states().all(|tag| {
                    rows.keys(tag).iter().all(|state| key::id_of(state) != key::id_of(at))
                })
            });
            let at = at.unwrap();
            let raw = rows.get(&at).unwrap().unwrap();
            let row = TaskRow { group: Some("g"), ..TaskRow::decode(&raw).unwrap() };
            rows.set(at, row.encode());
        }),
        ("its row says what no task says that is Buried", |rows| {
            let at = rows.in_tube("first", Tag::Buried);
            let (mut row, home) = BuriedRow::decode(&rows.get(&at).unwrap().unwrap()).unwrap();
            assert!(row.progress.stall(7));
            rows.set(at, row.encode(&home));
        }),
        ("the task is in another tube", |rows| {
            let buried = key::id_of(&rows.in_tube("first", Tag::Buried)).unwrap();
            let ended = TaskEnds { buried: true, ..TaskEnds::default() };
            let work = CascadeRow { ended, tube: 77, ..CascadeRow::default() };
            rows.set(key::work(Work::Cascade, Run::QUEUE, buried), work.encode());
        }),
        ("Slot: no task holds it", |rows| {
            let slot = rows.keys(Tag::Slot).swap_remove(0);
            let (id, tube) = key::of_slot(&slot).unwrap();
            let run = Range::holding(&slot).unwrap().run.unwrap();
            rows.set(key::slot(run, TaskId::new(id.get() ^ 1), tube), Value::EMPTY);
        }),
        ("Slot: no task holds it", |rows| {
            let slot = rows.keys(Tag::Slot).swap_remove(0);
            rows.set(key::slot(Run(77), key::of_slot(&slot).unwrap().0, 1), Value::EMPTY);
        }),
        ("Slot: a wrong row", |rows| {
            let slot = rows.keys(Tag::Slot).swap_remove(0);
            rows.set(slot, Value::from([1]));
        }),
        ("Slot: an invalid key", |rows| {
            let mut slot = rows.keys(Tag::Slot).swap_remove(0);
            slot.push(0);
            rows.set(slot, Value::EMPTY);
        }),
        ("Slot: 1 rows under run", |rows| {
            let slot = rows.keys(Tag::Slot).swap_remove(0);
            let mut counts = rows.counted();
            *counts.get_mut(&Range::holding(&slot).unwrap()).unwrap() += 1;
            rows.counts = Some(counts);
        }),
        ("a slot that it holds is missing", |rows| {
            let slot = rows.keys(Tag::Slot).swap_remove(0);
            rows.rows.remove(&slot);
        }),
        ("Condition: an invalid key", |rows| {
            rows.set(key::condition("a\nb", false), Value::from([1]));
        }),
        ("1 in flight, stored Some(2)", |rows| {
            let group = rows.in_tube("first", Tag::Group);
            rows.set(group, row::number(2));
        }),
        ("a damaged row", |rows| {
            let due = rows.in_tube("first", Tag::Due);
            rows.rows.insert(due, None);
        }),
        ("a row without a task", |rows| {
            let run = rows.tube("first").run();
            rows.set(key::due(run, Deadline::Ttl, 1, TaskId::new(1)), Value::from([]));
        }),
        ("OpenHead: a row is missing", |rows| {
            let head = rows.in_tube("first", Tag::OpenHead);
            rows.rows.remove(&head);
        }),
        ("the stored count is", |rows| {
            let range = rows.tube("first").range(Tag::Ready);
            let mut counts = rows.counted();
            *counts.get_mut(&range).unwrap() += 1;
            rows.counts = Some(counts);
        }),
    ];
    let sound = filled();
    for (line, spoil) in faults {
        let mut spoilt = sound.clone();
        spoil(&mut spoilt);
        let reported = spoilt.faults();
        assert!(reported.iter().any(|reported| reported.contains(line)), "{line}: {reported:?}");
    }
}
