//! Repairs of a task while work waits on the pieces of its earlier payloads, in whichever tube that
//! work began: no payload that a task has is removed, and no piece is left.

use super::edited::Played;
use super::{NOTHING, Rows};
use crate::api::queue::Queue;
use crate::engine::by_id::{Tool, Verb};
use crate::engine::context::Op;
use crate::engine::lookup;
use crate::engine::moves::{Move, Which};
use crate::engine::new_row::NewRow;
use crate::engine::payload_verb::VerbWithPayload;
use crate::engine::pieces;
use crate::engine::repair::Repair;
use crate::engine::replace::Replacement;
use crate::engine::settle::Settle;
use crate::engine::staging::RollBack;
use crate::engine::sweep::Sweep;
use crate::engine::take::Claim;
use crate::engine::update::Changes;
use crate::format::key::{self, Key, Run, Work};
use crate::format::piece::{PIECE_BYTES_MAX, PieceWork};
use crate::format::{Tag, Value, View};
use crate::words::error::{DamagedRow, Result};
use crate::words::task::{State, TaskId};
use crate::words::verb::{Release, Verdict};

/// Of so many pieces that they go by a work row.
const LARGE: usize = 20 * PIECE_BYTES_MAX;

fn payload(number: u8) -> Vec<u8> {
    vec![number; LARGE + usize::from(number)]
}

/// One task that goes through tubes and payloads.
struct Scene {
    played: Played,
    id: TaskId,
}

impl Scene {
    /// With the first payload, in the first tube.
    fn new() -> Self {
        let queue = Queue::builder().by_hand(true).in_memory().unwrap();
        for name in ["first", "second"] {
            queue.tube(name).unwrap();
        }
        let mut played = Played::over(&queue);
        let id = played.put_up_to(NewRow { payload: &payload(1), ..NewRow::PLAIN }, 1 << 21);
        Self { played, id }
    }

    fn run<O: Op>(&mut self, op: &O) -> O::Done {
        let done = self.played.run(op).unwrap();
        assert_eq!(self.played.rows.faults(), NOTHING);
        done
    }

    /// Replaces the payload.
    fn replace(&mut self, new: &[u8]) {
        let tube = self.played.tube;
        if self.played.state(self.id) == State::Buried {
            self.run(&Tool { tube, id: self.id, verb: Verb::Kick });
        }
        let ticket = self.run(&Claim { tube, id: self.id, holder: 0 }).ticket();
        let verdict = Verdict::Release(Release::new());
        let verb = &Settle { tube, tickets: &[ticket], verdict };
        let (payload_bytes_max, durable_bytes_max) = (1 << 30, u64::MAX);
        let new =
            Replacement { payload: new.into(), payload_bytes_max, durable_bytes_max, staged: None };
        assert_eq!(self.run(&VerbWithPayload { verb, new }), []);
    }

    fn move_on(&mut self) {
        let (from, to) = (self.played.tube, 3 - self.played.tube);
        let (which, changes) = (Which::ById(self.id, &NewRow::PLAIN), Changes::default());
        let (others_wait, puts_wait, after) = (false, false, None);
        self.run(&Move { from, to, which, changes, others_wait, puts_wait, after });
        self.played.tube = to;
    }

    fn run_of_tube(&self) -> Run {
        let name = ["first", "second"][self.played.tube as usize - 1];
        self.played.rows.tube(name).run()
    }

    fn keys(&self, tag: Tag) -> Vec<Key> {
        self.played.rows.keys(tag)
    }

    /// Damages the task's own row, and repairs it.
    fn repair(&mut self) {
        let (id, run) = (self.id, self.run_of_tube());
        let of_task = |key: &Key| {
            key::id_of(key) == Some(id) && key[1..key::RUN_PREFIX] == run.0.to_be_bytes()
        };
        let find = |rows: &Rows, tags: &[Tag]| {
            tags.iter().flat_map(|tag| rows.keys(*tag)).find(of_task).unwrap()
        };
        let rows = &mut self.played.rows;
        let own = find(rows, &Tag::TASKS);
        rows.rows.insert(own, None);
        let state = find(rows, &[Tag::Ready, Tag::Buried, Tag::Fresh]);
        assert_ne!(rows.faults(), NOTHING);
        let row = DamagedRow { tube: self.played.tube, key: state.as_slice().into() };
        self.played.run(&Repair::Row(row)).unwrap();
        assert_eq!(self.played.state(id), State::Buried);
    }

    fn read(&self) -> Result<Vec<u8>> {
        let name = ["first", "second"][self.played.tube as usize - 1];
        let (rows, tube) = (&self.played.rows, self.played.rows.tube(name));
        let (stored, _) = lookup::find(rows, &tube, self.id)?;
        let content = stored.task(&tube)?.content(rows)?;
        content.payload.read(rows).map(|payload| payload.to_vec())
    }

    /// The payload is there, now and after all work, and no piece of another.
    fn has(&mut self, expected: &[u8]) {
        assert!(self.read().unwrap() == expected, "before the work");
        assert_eq!(self.played.rows.faults(), NOTHING);
        while self.run(&Sweep) {}
        assert!(self.read().unwrap() == expected, "after the work");
        let generations = self.keys(Tag::Piece).into_iter().map(|key| key::of_piece(&key).unwrap());
        let mut generations: Vec<_> = generations.map(|(_, generation, _)| generation).collect();
        generations.dedup();
        assert_eq!(generations.len(), usize::from(expected.len() > 3500));
        assert_eq!(self.keys(Tag::Work).len(), 0);
    }
}

/// Regression: work on pieces was looked for only under the run of the present tube. The task then
/// seemed to have two payloads, and both were removed.
#[test]
fn a_repair_keeps_the_payload_while_work_of_another_tube_waits() {
    for replaced in 1..4 {
        let mut scene = Scene::new();
        for number in 0..replaced {
            scene.replace(&payload(2 + number));
        }
        scene.move_on();
        assert_eq!(scene.keys(Tag::Work).len(), usize::from(replaced));
        scene.repair();
        let mut again = Scene { played: scene.played.again(), id: scene.id };
        scene.has(&payload(1 + replaced));
        // Another payload and another repair, while all of the work still waits.
        again.replace(&payload(9));
        again.repair();
        again.move_on();
        again.repair();
        again.has(&payload(9));
    }
}

/// A payload of which a piece is missing is removed with all that is left of it, and that of a
/// later generation, which comes while the work waits, is not.
#[test]
fn what_is_left_of_a_payload_goes_alone() {
    for replaced in 0..3 {
        let mut scene = Scene::new();
        (0..replaced).for_each(|number| scene.replace(&payload(2 + number)));
        scene.move_on();
        // Not the last one: without it a shorter payload is whole.
        let lost = scene.keys(Tag::Piece).into_iter().nth_back(1).unwrap();
        scene.played.rows.rows.remove(&lost);
        scene.repair();
        // How many bytes were lost is not known.
        scene.played.rows.bytes = 0;
        let mut again = Scene { played: scene.played.again(), id: scene.id };
        scene.has(b"");
        again.replace(&payload(9));
        again.repair();
        again.has(&payload(9));
        let mut small = again;
        small.replace(b"small");
        small.replace(&payload(8));
        small.repair();
        small.has(&payload(8));
    }
}

/// Where work rows are lost with the task's row, the last payload counts, and the others go.
#[test]
fn of_several_payloads_the_last_is_kept() {
    let mut scene = Scene::new();
    (0..2).for_each(|number| scene.replace(&payload(2 + number)));
    for work in scene.keys(Tag::Work) {
        scene.played.rows.rows.remove(&work);
    }
    scene.repair();
    scene.has(&payload(3));
}

/// Of a task without a sound row the last generation is known by its pieces and the work on them.
/// Work whose pieces are gone already must not meet those of a later payload.
#[test]
fn a_new_payload_is_behind_all_work_even_of_no_pieces() {
    let works = [
        (Work::Pieces, 1, Some(PieceWork::unknown())),
        (Work::Pieces, 1, Some(PieceWork { generation: 5, ..PieceWork::unknown() })),
        (Work::Pieces, 2, None),
        (Work::Pieces, 4, Some(PieceWork::new(4, 0..30))),
        (Work::Staged, 3, Some(PieceWork::new(3, 0..30))),
        (Work::Staged, 2, None),
    ];
    for (kind, generation, work) in works {
        for name in ["first", "second"] {
            let mut scene = Scene::new();
            let told = format!("{kind:?} {generation} {work:?} {name}");
            // The payload is small, and its generation lost with the row.
            scene.replace(b"small");
            while scene.run(&Sweep) {}
            scene.repair();
            assert_eq!(scene.keys(Tag::Piece).len(), 0, "{told}");
            let run = scene.played.rows.tube(name).run();
            let at = key::piece_work(kind, run, scene.id, generation);
            scene.played.rows.rows.insert(at, work.as_ref().map(PieceWork::encode));
            let stated = work.as_ref().map_or(0, |work| work.generation);
            let last = generation.max(stated);
            let next = pieces::next_generation(&scene.played.rows, (run, scene.id), 1);
            assert_eq!(next.unwrap(), last + 1, "{told}");
            let of_other = pieces::next_generation(&scene.played.rows, (run, TaskId::new(99)), 1);
            assert_eq!(of_other.unwrap(), 2, "{told}");
        }
    }
}

/// A row of work that counts for all generations up to its own, as an earlier version wrote them.
#[test]
fn work_up_to_a_generation_is_about_each_of_them() {
    let mut scene = Scene::new();
    (0..3).for_each(|number| scene.replace(&payload(2 + number)));
    scene.move_on();
    let works = scene.keys(Tag::Work);
    let first = works[0].clone();
    works.iter().for_each(|work| drop(scene.played.rows.rows.remove(work)));
    let up_to = PieceWork { generation: 3, ..PieceWork::unknown() };
    scene.played.rows.set(first, up_to.encode());
    assert_eq!(scene.played.rows.faults(), NOTHING);
    scene.repair();
    scene.has(&payload(4));
}

/// It may be removed with the pieces that it is about only if they are of no task.
#[test]
fn work_on_the_pieces_of_a_task_is_reported() {
    let mut scene = Scene::new();
    scene.replace(&payload(2));
    scene.move_on();
    let run = scene.run_of_tube();
    for (generation, work) in [
        (1, PieceWork { generation: 2, ..PieceWork::unknown() }),
        (2, PieceWork::unknown()),
        (2, PieceWork::new(2, 0..21)),
    ] {
        let mut rows = scene.played.rows.clone();
        rows.set(key::piece_work(Work::Pieces, run, scene.id, generation), work.encode());
        let faults = rows.faults();
        assert!(faults.iter().any(|it| it.contains("two rows name the pieces")), "{faults:?}");
    }
    // What a damaged row of work no longer says is not accounted for.
    let first = scene.keys(Tag::Work).remove(0);
    scene.played.rows.rows.insert(first, None);
    let stray = key::piece(run, scene.id, 7, 0);
    scene.played.rows.set(stray, Value::from([7]));
    let faults = scene.played.rows.faults();
    assert!(faults.iter().any(|it| it.contains("that no task accounts for")), "{faults:?}");
}

/// Some of the pieces of a work row are gone: those that were removed first.
#[test]
fn work_goes_on_after_pieces_that_are_gone() {
    for kind in [Work::Pieces, Work::Staged] {
        for (generation, gone) in [(1, 0), (1, 1), (1, 70), (1, 90), (3, 70), (3, 90)] {
            let mut scene = Scene::new();
            scene.move_on();
            let (run, id) = (scene.run_of_tube(), TaskId::new(77));
            for number in gone..90 {
                let piece = key::piece(run, id, generation, number);
                scene.played.rows.set(piece, Value::from([7]));
            }
            let work = PieceWork::new(generation, 0..90);
            let at = key::piece_work(kind, run, id, generation);
            scene.played.rows.set(at, work.encode());
            while scene.played.run(&RollBack).unwrap() {}
            while scene.played.run(&Sweep).unwrap() {}
            scene.has(&payload(1));
        }
    }
}

/// Work whose row says another generation than its key removes nothing of a task.
#[test]
fn work_is_about_the_payload_of_its_key() {
    let mut scene = Scene::new();
    scene.replace(&payload(2));
    let at = scene.keys(Tag::Work).remove(0);
    scene.played.rows.set(at, PieceWork::new(2, 0..21).encode());
    while scene.played.run(&Sweep).unwrap() {}
    scene.has(&payload(2));
}

/// The step of a large payload reads few of its pieces.
#[test]
fn a_step_reads_few_pieces() {
    let mut scene = Scene::new();
    for number in 2..6 {
        scene.replace(&payload(number));
        let before = scene.played.rows.reads.get();
        let steps = (0..99).take_while(|_| scene.played.run(&Sweep).unwrap()).count();
        let reads = scene.played.rows.reads.get() - before;
        assert!(steps == 1 && reads < 20, "{steps} steps, {reads} reads");
        assert_eq!(scene.played.rows.count(key::Range::of(Tag::Piece)), 21);
    }
}
