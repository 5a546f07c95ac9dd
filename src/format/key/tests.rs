//! Keys sort as they are walked, and are read back as they were made.

use super::*;

const RUN: Run = Run(0x0102_0304);

fn hex(key: &[u8]) -> String {
    key.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn place(priority: i64, number: u64) -> Rank {
    Rank { priority, order: Order::back(number) }
}

#[test]
fn temporary_keys_are_told_by_their_run() {
    assert!(is_temporary(&[0x10, 0x80, 0, 0, 1]));
    assert!(!is_temporary(&[0x10, 0x7f, 0, 0, 1]));
    assert!(!is_temporary(&[0x04, 0x80, 0, 0, 1]), "the work on a temporary run is durable");
    assert!(!is_temporary(&[0x10]));
    assert!(!is_temporary(&[]));
    let failed = |run| super::failed(Run(run), "\u{ff}", u64::MAX, TaskId::new(u64::MAX));
    assert!(is_temporary(&failed(Run::TEMPORARY | 1)));
    assert!(!is_temporary(&failed(1)), "whatever its group and time are");
    let piece = |run| piece(Run(run), TaskId::new(u64::MAX), u32::MAX, u32::MAX);
    assert!(is_temporary(&piece(Run::TEMPORARY | 1)));
    assert!(!is_temporary(&piece(1)), "whatever its id is");
    assert_eq!(of_piece(&piece(1)), Some((TaskId::new(u64::MAX), u32::MAX, u32::MAX)));
}

#[test]
fn golden_keys() {
    let id = TaskId::new(0x0a0b);
    let at = place(-1, 0x0a0b);
    let home = |is_fresh| Home { rank: at, is_fresh };
    let golden = [
        (meta(1), "0101"),
        (name("mail"), "026d61696c"),
        (tube(7), "0300000007"),
        (work(Work::Clear, RUN, TaskId::new(0)), "0401010203040000000000000000"),
        (work(Work::Release, RUN, id), "0402010203040000000000000a0b"),
        (work(Work::Staged, RUN, id), "0403010203040000000000000a0b"),
        (work(Work::Pieces, RUN, id), "0404010203040000000000000a0b"),
        (work(Work::Follow, RUN, TaskId::new(0)), "0405010203040000000000000000"),
        (work(Work::Cascade, Run::QUEUE, id), "0406000000000000000000000a0b"),
        (work(Work::Unlink, Run(Run::TEMPORARY), id), "0407800000000000000000000a0b"),
        (work(Work::Linking, Run::QUEUE, id), "0408000000000000000000000a0b"),
        (blocked(RUN, id), "3e010203040000000000000a0b"),
        (held_time(RUN, 9, id), "430102030400000000000000090000000000000a0b"),
        (
            edge(Direction::Dependent, RUN, (id, TaskId::new(7)), true),
            "3f0000000000000a0b010000000000000007",
        ),
        (
            edge(Direction::Dependency, RUN, (TaskId::new(7), id), false),
            "410000000000000007000000000000000a0b",
        ),
        (piece_work(Work::Pieces, RUN, id, 1), "0404010203040000000000000a0b"),
        (piece_work(Work::Staged, RUN, id, 2), "0403010203040000000000000a0b00000002"),
        (failed(RUN, "g", 5, id), "200001670000000000000005010203040000000000000a0b"),
        (
            failed(Run(Run::TEMPORARY), "g", 5, id),
            "210001670000000000000005800000000000000000000a0b",
        ),
        (consumer(7), "0500000007"),
        (consumer_name("me"), "066d65"),
        (position(RUN, id), "10010203040000000000000a0b"),
        (piece(RUN, id, 5, 6), "220000000000000a0b0000000500000006"),
        (piece(Run(Run::TEMPORARY), id, 5, 6), "230000000000000a0b0000000500000006"),
        (report(RUN, id, ReportPart::Report), "2d0000000000000a0b01"),
        (report(Run(Run::TEMPORARY), id, ReportPart::Checkpoint), "2e0000000000000a0b02"),
        (ready(RUN, &at, id), "12010203047fffffffffffffff8000000000000a0b0000000000000a0b"),
        (line(RUN, "g", &at, id), "130102030401677fffffffffffffff8000000000000a0b0000000000000a0b"),
        (open_head(RUN, &at, id), "14010203047fffffffffffffff8000000000000a0b0000000000000a0b"),
        (group(RUN, "g"), "15010203040167"),
        (delayed(RUN, id), "16010203040000000000000a0b"),
        (taken(RUN, id), "17010203040000000000000a0b"),
        (buried(RUN, &at, id), "18010203047fffffffffffffff8000000000000a0b0000000000000a0b"),
        (due(RUN, Deadline::Delay, 5, id), "19010203040100000000000000050000000000000a0b"),
        (due(RUN, Deadline::RunAt, 5, id), "19010203040200000000000000050000000000000a0b"),
        (due(RUN, Deadline::Ttr, 5, id), "19010203040300000000000000050000000000000a0b"),
        (due(RUN, Deadline::Ttl, 5, id), "19010203040400000000000000050000000000000a0b"),
        (key(RUN, "k", true, id), "1a01020304016b0000000000000a0b"),
        (key(RUN, "k", false, id), "2f01020304016b0000000000000a0b"),
        (queue_key("k", true, id), "30016b000000000000000a0b"),
        (queue_key("k", false, id), "30016b010000000000000a0b"),
        (task(RUN, &home(true), id), {
            "11010203047fffffffffffffff8000000000000a0b0000000000000a0b"
        }),
        (task(RUN, &home(false), id), "1e010203047fffffffffffffff8000000000000a0b0000000000000a0b"),
        (owner_lease(RUN, 9, id), "1b01020304000000090000000000000a0b"),
        (buried_time(RUN, 5, id), "1c0102030400000000000000050000000000000a0b"),
        (buried_group(RUN, "g", 5, id), { "1d0102030400016700000000000000050000000000000a0b" }),
    ];
    for (key, bytes) in golden {
        assert_eq!(hex(&key), bytes);
    }
}

#[test]
fn golden_orders() {
    let id = TaskId::new(0x0a0b);
    let of = |order| Rank { priority: i64::MAX, order };
    let placed = of(Order::placed(b"ab").unwrap());
    let golden = [
        (
            ready(RUN, &of(Order::front(0x0a0b)), id),
            "1201020304ffffffffffffffff7ffffffffffff5f40000000000000a0b",
        ),
        (
            buried(RUN, &placed, id),
            "1801020304ffffffffffffffff61620000000000000000000000000000\
             0000000000000a0b",
        ),
        (
            line(RUN, "", &placed, id),
            "130102030400ffffffffffffffff61620000000000000000000000000000\
             0000000000000a0b",
        ),
        (kind(RUN, "mail", id), "3201020304046d61696c0000000000000a0b"),
        (task_tags(RUN, id), "330000000000000a0b"),
        (task_tags(Run(Run::TEMPORARY), id), "340000000000000a0b"),
        (tagged_task(RUN, "red", 5, id), "350372656400000000000000050000000000000a0b"),
        (tagged_task(Run(Run::TEMPORARY), "r", 5, id), "36017200000000000000050000000000000a0b"),
        (tag_count(RUN, "red"), "37726564"),
        (tag_count(Run(Run::TEMPORARY), "red"), "38726564"),
        (top_tag(RUN, 2, "red"), "39fffffffffffffffd726564"),
        (top_tag(Run(Run::TEMPORARY), 2, "red"), "3afffffffffffffffd726564"),
        (tracked(id), "070000000000000a0b"),
        (ready(Run(Run::TEMPORARY), &place(i64::MIN, 1), id), {
            "1280000000000000000000000080000000000000010000000000000a0b"
        }),
    ];
    for (key, bytes) in golden {
        assert_eq!(hex(&key), bytes);
    }
}

#[test]
fn keys_of_tags_say_what_they_were_made_of() {
    let id = TaskId::new(7);
    for run in [RUN, Run(Run::TEMPORARY)] {
        assert_eq!(tag_in(&tagged_task(run, "red", 5, id)), Some(("red", 5)));
        assert_eq!(tag_counted(&tag_count(run, "red")), Some("red"));
        assert_eq!(of_top_tag(&top_tag(run, 9, "red")), Some((9, "red")));
        assert!(top_tag(run, 9, "z") < top_tag(run, 8, "a"), "most first");
        assert_eq!(is_temporary(&task_tags(run, id)), run.is_temporary());
    }
}

#[test]
fn places_sort_by_priority_then_order() {
    let sorted = [
        ready(RUN, &place(i64::MIN, 9), TaskId::new(9)),
        ready(RUN, &place(-1, 8), TaskId::new(8)),
        ready(RUN, &Rank { priority: 0, order: Order::front(7) }, TaskId::new(7)),
        ready(RUN, &Rank { priority: 0, order: Order::front(2) }, TaskId::new(2)),
        ready(RUN, &place(0, 1), TaskId::new(1)),
        ready(RUN, &place(0, 3), TaskId::new(3)),
        ready(RUN, &place(i64::MAX, 1), TaskId::new(1)),
    ];
    assert!(sorted.is_sorted());
    for key in &sorted {
        let found = place_of(key, RUN_PREFIX).unwrap();
        assert_eq!(&ready(RUN, &found, id_of(key).unwrap()), key);
    }
}

#[test]
fn no_group_is_the_beginning_of_another() {
    let end = end_of(&line_of(RUN, "a"));
    assert!(line(RUN, "ab", &place(0, 1), TaskId::new(1)) >= end);
}

#[test]
fn a_range_holds_its_keys_and_ends_before_the_next() {
    let range = Range::in_run(Tag::Ready, Run(u32::MAX));
    let key = ready(Run(u32::MAX), &place(0, 1), TaskId::new(1));
    assert_eq!(Range::holding(&key), Some(range));
    assert!(range.start() <= key && key < range.end());
    assert_eq!(range.end(), Key::from_slice(&[Tag::Line as u8]));
    assert_eq!(Range::holding(&[0x12, 0]), None);
    assert_eq!(Range::holding(&[]), None);
    assert_eq!(Range::holding(&[0xee, 1, 2, 3, 4]), None);
}

#[test]
fn the_middle_of_two_keys_is_between_them() {
    let (mut low, high) = (Range::in_run(Tag::Fresh, RUN).start(), Range::of(Tag::Fresh).end());
    for _ in 0..300 {
        let between = middle(&low, &high);
        assert!(low <= between && between < high, "{low:02x?} {between:02x?}");
        low = after(&between);
        low.truncate(30);
    }
    assert_eq!(middle(&[1, 0], &[1, 3])[..3], [1, 1, 0x80]);
}
