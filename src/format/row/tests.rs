//! The exact bytes of every row. They are on the disks of users, and must never change within a
//! format.

use super::*;
use crate::format::key::{Direction, Order, Rank, Run};
use crate::format::piece::Pieces;
use crate::words::backoff::{Backoff, RetryTerms};
use crate::words::clock::NEVER;
use crate::words::dependency::{On, Orphaned};
use crate::words::lapse::{Lapse, ReturnTo};
use crate::words::options::TubeOptions;
use crate::words::task::{Reason, State, TaskId};
use crate::words::tube_kind::TubeKind;
use std::fmt::Write;
use std::time::Duration;

fn hex(row: &[u8]) -> String {
    row.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn progress() -> TaskProgress {
    TaskProgress {
        deliveries: 3,
        attempts: 2,
        releases: 1,
        buries: 4,
        expires: 5,
        ttr: 6,
        last_error: "e".into(),
        extension: Extension::default(),
    }
}

/// One field with the number 99.
fn extension() -> Extension {
    let mut extension = Extension::default();
    assert!(extension.set(99, b"x"));
    extension
}

const SECTION: &[u8] = &[0, 5, 0, 99, 0, 1, b'x'];

/// What a consumer says of itself, byte by byte.
#[test]
fn golden_fields_of_a_consumer() {
    let extension = Extension::default();
    let mut row = ConsumerRow { name: "c".into(), grace: 1, until: 2, void_to: 3, extension };
    row.describe(Some("k"), Some("h"), Some("m"));
    row.set_pid(7);
    row.set_active(8);
    row.set_keep(9);
    row.set_forgotten(Some(10));
    let fields = [
        "0001 0001 6b",
        "0002 0001 68",
        "0003 0004 00000007",
        "0004 0001 6d",
        "0005 0008 0000000000000008",
        "0006 0008 0000000000000009",
        "0007 0008 000000000000000a",
    ];
    let frame = "0163 0000000000000001 0000000000000002 0000000000000003 003b";
    let bytes = [frame].into_iter().chain(fields).collect::<String>().replace(' ', "");
    assert_eq!(hex(&row.encode()), bytes);
    assert_eq!(ConsumerRow::decode(&row.encode()), Some(row));
}

/// Fields of a later version are kept, in every row that may have them.
#[test]
fn golden_extensions() {
    let section = hex(SECTION);
    let counters = Counters { tube: 1, run: 2, consumer: 3, extension: extension() };
    let work = WorkRow { tube: 1, from: 2, extension: extension() };
    let consumer =
        ConsumerRow { name: "c".into(), grace: 1, until: 2, void_to: 3, extension: extension() };
    let (group, key, payload) = (Some("g"), None, PayloadPlace::Inline(&[0xaa]));
    let (created, codec, version) = (1, 4, 5);
    let task =
        TaskRow { created, codec, version, times: None, group, key, extension: SECTION, payload };
    let fresh = TaskProgress { extension: extension(), ..TaskProgress::fresh(NEVER, NEVER) };
    let delayed = DelayedRow { progress: fresh.clone(), due: 9, wall: false, holds_group: false };
    let golden = [
        (counters.encode(), format!("000000010000000200000003{section}")),
        (work.encode(), format!("000000010000000000000002{section}")),
        (consumer.encode(), {
            format!("0163000000000000000100000000000000020000000000000003{section}")
        }),
        (task.encode(), format!("0904000500000000000000010167{section}aa")),
        (fresh.encode(&HERE), format!("40{section}")),
        (delayed.encode(&Away { extended: true, ..PLAIN }, &HERE), {
            format!("8000000000000000090000000a40{section}")
        }),
    ];
    for (row, bytes) in golden {
        assert_eq!(hex(&row), bytes);
        probe(&row);
    }
    assert_eq!(WorkRow::decode(&work.encode()), Some(work));
    assert_eq!(TaskRow::decode(&task.encode()), Some(task));
    // An empty section is left out.
    assert_eq!(WorkRow::decode(&[0; 14]), None);
    assert_eq!(TaskRow::decode(&[8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), None);
}

/// All fields, after the flags that announce them.
const HEAD: &str = "0f0000000300000002000000010000000400000000000000050000000000000006000165";

const PLAIN: Away<'_> =
    Away { place: None, group: None, keyed: false, extended: false, apart: false, bytes: 10 };

/// The home of most tasks that are not fresh: the rank that they have now.
const HERE: StoredHome = StoredHome { rank: None, is_fresh: false };

fn at_home(rank: Rank) -> StoredHome {
    StoredHome { rank: Some(rank), ..HERE }
}

#[test]
fn golden_rows() {
    let task = TaskRow {
        created: 1,
        codec: 4,
        version: 5,
        times: Some(Times { expires: 6, ttr: NEVER }),
        group: Some("g"),
        key: Some("k"),
        extension: &[],
        payload: PayloadPlace::Inline(&[0xaa, 0xbb]),
    };
    let (at, back) = (|order| Rank { priority: -1, order }, Order::back);
    let placed = Rank { priority: 0, order: Order::placed(b"ab").unwrap() };
    let moved = PositionRow { home: at(back(7)), place: at(back(8)) };
    let payload = PayloadPlace::Separate(Pieces { bytes: 6, generation: 7, hash: 8 });
    let apart = TaskRow { times: None, group: None, key: None, payload, ..task };
    let mut options = TubeOptions::new(TubeKind::LimFifoTtl).capacity(9).priority(-2);
    options = options.ttl(Duration::from_secs(1)).ttl_spares_buried(true);
    let tube = TubeRow {
        name: "t".into(),
        run: Run(8),
        shut: Shut::of(Some(5), None),
        void_to: 6,
        made_priority: -3,
        pace: 0,
        schedules: 0,
        options,
        pending: PendingOptions::default(),
        extension: Extension::default(),
    };
    let taken = TakenRow { progress: progress(), token: 7, holder: 8, since: 9, deadline: NEVER };
    let delayed = DelayedRow { progress: progress(), due: 9, wall: true, holds_group: true };
    let bury = |reason| BuriedRow { progress: progress(), time: 9, reason };
    let failed = Reason::Failed { group: "g".into(), message: "m".into() };
    let exhausted = |group: &str| Reason::Exhausted { group: group.into(), message: "x".into() };
    let extension = Extension::default();
    let consumer = ConsumerRow { name: "c".into(), grace: 1, until: 2, void_to: 3, extension };
    let away = Away { place: Some(placed), group: Some("g"), keyed: true, apart: true, ..PLAIN };
    let golden: Vec<(Value, String)> = vec![
        (
            Counters { tube: 1, run: 2, consumer: 3, ..Counters::default() }.encode(),
            "000000010000000200000003".into(),
        ),
        (
            tube.encode(),
            "017400000008000000000000000619\
             03fffffffffffffffdfffffffffffffffe00000000000f4240ffffffffffffffff0000000000000009\
             00000000000000000000000000000001000000000000000000000001\
             000000000000000005"
                .into(),
        ),
        (
            WorkRow { tube: 1, from: 2, ..WorkRow::default() }.encode(),
            "000000010000000000000002".into(),
        ),
        (consumer.encode(), "0163000000000000000100000000000000020000000000000003".into()),
        (task.encode(), {
            "130400050000000000000001 0000000000000006 ffffffffffffffff 0167016baabb".into()
        }),
        (apart.encode(), "0404000500000000000000010000000000000006000000070000000000000008".into()),
        (moved.encode(), {
            "02ffffffffffffffff8000000000000007ffffffffffffffff8000000000000008".into()
        }),
        (PositionRow { place: moved.home, ..moved }.encode(), {
            "00ffffffffffffffff8000000000000007".into()
        }),
        (PositionRow { home: placed, place: placed }.encode(), {
            "01000000000000000061620000000000000000000000000000".into()
        }),
        (TaskProgress::fresh(NEVER, NEVER).encode(&HERE), String::new()),
        (TaskProgress::fresh(NEVER, 6).encode(&HERE), "040000000000000006".into()),
        (progress().encode(&HERE), HEAD.into()),
        (TaskProgress::fresh(NEVER, NEVER).encode(&at_home(moved.home)), {
            "10ffffffffffffffff8000000000000007".into()
        }),
        (TaskProgress::fresh(NEVER, NEVER).encode(&at_home(placed)), {
            "30000000000000000061620000000000000000000000000000".into()
        }),
        (TaskProgress::fresh(NEVER, NEVER).encode(&StoredHome { is_fresh: true, ..HERE }), {
            "80".into()
        }),
        (taken.encode(&PLAIN, &HERE), {
            format!("01000000000000000700000000000000090000000a00000008{HEAD}")
        }),
        (TakenRow { holder: 0, deadline: 3, ..taken.clone() }.encode(&away, &HERE), {
            format!(
                "7e000000000000000700000000000000090000000a0000000000000003\
                 0000000000000000616200000000000000000000000000000167{HEAD}"
            )
        }),
        (delayed.encode(&PLAIN, &HERE), format!("0300000000000000090000000a{HEAD}")),
        (delayed.encode(&away, &HERE), {
            format!(
                "7f00000000000000090000000a\
                 0000000000000000616200000000000000000000000000000167{HEAD}"
            )
        }),
        (bury(Reason::Buried("b".into())).encode(&HERE), format!("000000000000000901000162{HEAD}")),
        (bury(failed).encode(&HERE), format!("00000000000000090200016700016d{HEAD}")),
        (bury(exhausted("")).encode(&HERE), format!("000000000000000903000178{HEAD}")),
        (bury(exhausted("g")).encode(&HERE), format!("0000000000000009050001670001 78{HEAD}")),
        (bury(Reason::Undecodable("u".into())).encode(&HERE), {
            format!("000000000000000904000175{HEAD}")
        }),
        (bury(Reason::Trashed("t".into())).encode(&HERE), {
            format!("000000000000000906000174{HEAD}")
        }),
        (number(258), "0000000000000102".into()),
    ];
    for (row, bytes) in golden {
        assert_eq!(hex(&row), bytes.replace(char::is_whitespace, ""));
        probe(&row);
    }
}

/// Every flag of a row alone, so that no flag changes its bit.
#[test]
fn golden_flags() {
    let task = TaskRow {
        created: 3,
        codec: 0,
        version: 0,
        times: None,
        group: None,
        key: None,
        extension: &[],
        payload: PayloadPlace::Inline(b""),
    };
    let bare = "0000000000000000000003";
    let key = TaskRow { key: Some("k"), ..task };
    let fresh = TaskProgress::fresh(NEVER, NEVER);
    let counted = TaskProgress { buries: 1, ..fresh.clone() };
    let failed = TaskProgress { last_error: "e".into(), ..fresh.clone() };
    let delayed =
        |wall, holds_group| DelayedRow { progress: fresh.clone(), due: 9, wall, holds_group };
    let due = |away: Away<'_>| delayed(false, false).encode(&away, &HERE);
    let place = Rank { priority: 2, order: Order::back(1) };
    let pieces = Pieces { bytes: 9, generation: 1, hash: 2 };
    let golden: Vec<(Value, String)> = vec![
        (task.encode(), format!("00{bare}")),
        (key.encode(), format!("02{bare}016b")),
        (TaskRow { group: Some("g"), ..task }.encode(), format!("01{bare}0167")),
        (TaskRow { times: Some(Times { expires: NEVER, ttr: 5 }), ..task }.encode(), {
            format!("10{bare}ffffffffffffffff0000000000000005")
        }),
        (TaskRow { payload: PayloadPlace::Separate(pieces), ..task }.encode(), {
            format!("04{bare}0000000000000009000000010000000000000002")
        }),
        (counted.encode(&HERE), "0100000000000000000000000000000001".into()),
        (TaskProgress::fresh(5, NEVER).encode(&HERE), "020000000000000005".into()),
        (failed.encode(&HERE), "08000165".into()),
        (delayed(false, false).encode(&PLAIN, &HERE), "0000000000000000090000000a".into()),
        (delayed(true, false).encode(&PLAIN, &HERE), "0100000000000000090000000a".into()),
        (delayed(false, true).encode(&PLAIN, &HERE), "0200000000000000090000000a".into()),
        (due(Away { group: Some("g"), ..PLAIN }), "0400000000000000090000000a0167".into()),
        (due(Away { keyed: true, ..PLAIN }), "0800000000000000090000000a".into()),
        (due(Away { apart: true, ..PLAIN }), "1000000000000000090000000a".into()),
        (due(Away { place: Some(place), ..PLAIN }), {
            "2000000000000000090000000a00000000000000028000000000000001".into()
        }),
    ];
    for (row, bytes) in golden {
        assert_eq!(hex(&row), bytes);
        probe(&row);
    }
}

/// The row of a tube of these options, with no field but theirs.
fn tube_of(options: TubeOptions) -> TubeRow {
    TubeRow {
        name: "t".into(),
        run: Run(8),
        shut: None,
        void_to: 0,
        made_priority: 0,
        options,
        pace: 0,
        schedules: 0,
        pending: PendingOptions::default(),
        extension: Extension::default(),
    }
}

#[test]
fn golden_tubes() {
    assert_eq!(Counters::WHAT, 1);
    let row = |options: TubeOptions, run| {
        let tube = TubeRow { run: Run(run), ..tube_of(options) };
        probe(&tube.encode());
        hex(&tube.encode())
    };
    let never = "ffffffffffffffff";
    let general = |flags: &str, run: &str, placement: &str| {
        format!(
            "0174{run}0000000000000000{flags}00{:016x}{:016x}{never}{never}\
             00000000000000000000001400000000000f424000000002\
             00000000d693a40000000001{placement}",
            0, 0
        )
    };
    let plain = TubeOptions::default();
    assert_eq!(row(plain.clone(), 8), general("00", "00000008", "00"));
    let temporary = plain.clone().temporary(true);
    assert_eq!(row(temporary, Run::TEMPORARY | 8), general("02", "80000008", "00"));
    let holding = plain.clone().hold_group_while_delayed(true);
    assert_eq!(row(holding, 8), general("04", "00000008", "00"));
    let higher = plain.clone().higher_first(true);
    assert_eq!(row(higher, 8), general("20", "00000008", "00"));
    let backoff = Backoff { step: Duration::from_micros(7), jitter: 9, ..plain.backoff };
    let grows = "000d00010009000000000000000709";
    assert_eq!(row(plain.clone().backoff(backoff), 8), general("00", "00000008", "00") + grows);
    for (lapse, field) in [
        (Lapse::new().grace(Duration::from_micros(7)), "000e0002000a 0000000000000007 0100"),
        (Lapse::new().to(ReturnTo::Front).charged(false), { "000e0002000a 0000000000000000 0201" }),
        (Lapse::new().to(ReturnTo::Back), "000e0002000a 0000000000000000 0300"),
        (Lapse::new().grace(Duration::MAX).to(ReturnTo::After(Duration::from_micros(9))), {
            "00160002 0012ffffffffffffffff 0400 0000000000000009"
        }),
    ] {
        let row = row(plain.clone().lapse(lapse), 8);
        assert_eq!(row, general("00", "00000008", "00") + &field.replace(' ', ""));
    }
    assert_eq!(row(plain.placement("p"), 8), general("00", "00000008", "0170"));
    for (kind, code) in [
        (TubeKind::Fifo, "01"),
        (TubeKind::FifoTtl, "02"),
        (TubeKind::LimFifoTtl, "03"),
        (TubeKind::Utube, "04"),
        (TubeKind::UtubeTtl, "05"),
    ] {
        let zeros = "0".repeat(16);
        let expected = format!(
            "017400000008{zeros}00{code}{zeros}{zeros}{never}{never}{zeros}00000000\
             {zeros}00000001{zeros}0000000100"
        );
        assert_eq!(row(TubeOptions::new(kind), 8), expected);
    }
}

#[test]
fn golden_retry_terms() {
    let backoff = Backoff { first: Duration::from_micros(4), jitter: 9, ..Backoff::NONE };
    let limit = RetryTerms { max_attempts: Some(3), backoff: None };
    let both = RetryTerms { backoff: Some(backoff), ..limit };
    let (eight, zeros) = ("0000000000000004", "0000000000000000");
    let golden = [
        (limit, "4000090001000501 00000003".into()),
        (both, format!("4000260001002203 00000003 {eight} 00000001 {zeros} {zeros} 09")),
        (RetryTerms { max_attempts: None, ..both }, {
            format!("4000220001001e02 {eight} 00000001 {zeros} {zeros} 09")
        }),
    ];
    let fresh = TaskProgress::fresh(NEVER, NEVER);
    for (terms, bytes) in golden {
        let mut progress = fresh.clone();
        assert!(progress.set_retry_terms(&terms));
        let row = progress.encode(&HERE);
        assert_eq!(hex(&row), bytes.replace(' ', ""));
        probe(&row);
        assert_eq!(TaskProgress::decode(&row).unwrap().0.retry_terms(), terms);
        // Terms that say nothing, with a bit too many, cut, or longer.
        for (at, flags) in [(7, 0), (7, 4), (7, row[7] ^ 3)] {
            let mut wrong = row.to_vec();
            wrong[at] = flags;
            assert_eq!(TaskProgress::decode(&wrong), None, "{flags}");
        }
        assert!(progress.set_retry_terms(&RetryTerms::default()));
        assert_eq!(progress, fresh);
    }
}

#[test]
fn golden_stalled() {
    let mut progress = TaskProgress::fresh(NEVER, NEVER);
    assert!(progress.stall(6));
    let stalled = TakenRow { progress, token: 7, holder: 0, since: 8, deadline: 9 };
    let row = stalled.encode(&PLAIN, &HERE);
    let field = "40000c000300080000000000000006";
    let taken = "02000000000000000700000000000000080000000a0000000000000009";
    assert_eq!(hex(&row), format!("{taken}{field}"));
    probe(&row);
    assert_eq!(TakenRow::decode(&row), Some((PLAIN, (stalled.clone(), HERE))));
    // Cut, longer, and a stall that never began.
    let at = row.len() - 8;
    let never = [&row[..at], &[255; 8]].concat();
    assert_eq!(TakenRow::decode(&never), None);
    let mut short = row[..row.len() - 1].to_vec();
    (short[at - 5], short[at - 1]) = (11, 7);
    assert_eq!(TakenRow::decode(&short), None);
    let mut full = TaskProgress { extension: extension(), ..stalled.progress.clone() };
    assert!(full.stall(6));
    let row = TakenRow { progress: full, ..stalled }.encode(&PLAIN, &HERE);
    probe(&row);
    assert_eq!(TakenRow::decode(&row).unwrap().1.0.progress.lapsed(), 6);
}

#[test]
fn golden_ranks_ahead() {
    let (fresh, eight) = (TaskProgress::fresh(NEVER, NEVER), "0000000000000008");
    let (number, placed) = (Order::back(7), Order::placed(b"ab").unwrap());
    for (order, field, ahead) in [
        (number, "4000140004 0010 0000000000000002 8000000000000007", eight.to_owned()),
        (placed, "40001c0004 0018 0000000000000002 61620000000000000000000000000000", {
            "0000000000000000".to_owned() + eight
        }),
    ] {
        let (mut progress, own) = (fresh.clone(), Rank { priority: 2, order });
        assert!(progress.set_own_rank(&own));
        let row = progress.encode(&HERE);
        assert_eq!(hex(&row), field.replace(' ', ""));
        probe(&row);
        assert_eq!(TaskProgress::decode(&row[..row.len() - 1]), None);
        assert_eq!((progress.own_rank(), progress.take_own_rank()), (Some(own), Some(own)));
        assert_eq!(progress, fresh);
        let first = own.ahead(8);
        assert_eq!((first.priority, hex(first.order.as_bytes())), (i64::MIN, ahead));
    }
    // Nothing at the front comes before it.
    let front = Order::front(1 << 48);
    assert!(
        Rank { priority: 0, order: number }.ahead(u64::MAX).order.as_bytes() < front.as_bytes()
    );
}

/// Fields that this version knows, beside one of a later version.
#[test]
fn known_and_later_fields_are_kept_together() {
    let options = TubeOptions::default().backoff(Backoff::linear(Duration::from_secs(1)).jitter(5));
    let tube = TubeRow { extension: extension(), ..tube_of(options) };
    let row = tube.encode();
    assert_eq!(TubeRow::decode(&row), Some(tube));
    probe(&row);
    let mut wrong = row.to_vec();
    let jitter = row.len() - SECTION.len() + 1;
    assert_eq!(wrong[jitter], 5);
    wrong[jitter] = 101;
    assert_eq!(TubeRow::decode(&wrong), None);
}

/// The number of the tube that it is merged into, and of its schedules.
#[test]
fn numbers_that_this_code_has_not_written() {
    let shut = Shut::of(None, Some(9));
    let tube = TubeRow { shut, schedules: 7, ..tube_of(TubeOptions::default()) };
    let row = tube.encode();
    assert!(row.ends_with(&[0, 16, 0, 22, 0, 4, 0, 0, 0, 9, 0, 23, 0, 4, 0, 0, 0, 7]));
    assert_eq!(TubeRow::decode(&row), Some(tube.clone()));
    for (number, field) in [(22, &[0; 3][..]), (22, &[]), (23, &[0; 4]), (23, &[0, 0, 7])] {
        let mut extension = Extension::default();
        assert!(extension.set(number, field));
        let wrong = TubeRow { shut: None, schedules: 0, extension, ..tube.clone() };
        assert_eq!(TubeRow::decode(&wrong.encode()), None, "{number}: {field:?}");
    }
}

/// Fields without content: with content they were not written by this code.
#[test]
fn a_dropped_payload_is_an_empty_field() {
    let options = TubeOptions::default().drop_payloads(true).index_kinds(true);
    let tube = tube_of(options);
    let row = tube.encode();
    assert!(row.ends_with(&[0, 8, 0, 9, 0, 0, 0, 10, 0, 0]));
    assert_eq!(TubeRow::decode(&row), Some(tube.clone()));
    for field in [9, 10] {
        let mut extension = Extension::default();
        assert!(extension.set(field, b"x"));
        let plain = TubeRow { options: TubeOptions::default(), extension, ..tube.clone() };
        assert_eq!(TubeRow::decode(&plain.encode()), None);
    }

    let section = dropped_section(SECTION).unwrap();
    assert_eq!(*section, [0, 9, 0, 8, 0, 0, 0, 99, 0, 1, b'x']);
    let (group, key, payload, times) = (None, None, PayloadPlace::Inline(&[]), None);
    let (created, codec, version, extension) = (1, 4, 5, &*section);
    let task = TaskRow { created, codec, version, times, group, key, extension, payload };
    let row = task.encode();
    assert_eq!(TaskRow::decode(&row), Some(task));
    assert!(task.is_payload_dropped());
    assert_eq!(*replaced_section(&section, 0).unwrap(), *SECTION, "not of another payload");
    let wrong = TaskRow { extension: &[0, 5, 0, 8, 0, 1, b'x'], ..task };
    assert_eq!(TaskRow::decode(&wrong.encode()), None);
}

/// A change of options that rows still have to follow.
#[test]
fn what_is_pending_is_a_field() {
    let groups = PendingGroups { before: 9, to: "bc".into(), until: "aaa".into() };
    let before = ["", "a", "bc", "bd", "aaa", "aab"].map(|group| groups.before_in(group));
    assert_eq!(before, [None, None, None, Some(9), Some(9), None], "in the order of the keys");
    let pending = PendingOptions { groups: Some(groups), ..PendingOptions::default() };
    let tube = TubeRow { pending, ..tube_of(TubeOptions::default()) };
    let row = tube.encode();
    assert!(row.ends_with(b"\0\x0f\0\x0b\0\x0b\0\0\0\x09\x02bc\x03aaa"));
    assert_eq!(TubeRow::decode(&row), Some(tube.clone()));
    assert_eq!(["bc", "bd", "aab"].map(|group| tube.most_in_flight(group)), [1, 9, 1]);
    let place = |time, id| (time, TaskId::new(id));
    let sum = PendingSum { to: place(2, 3), until: place(5, 6) };
    let contains =
        [(2, 3), (2, 4), (5, 6), (5, 7), (6, 1)].map(|(t, id)| sum.contains(place(t, id)));
    assert_eq!(contains, [true, false, false, true, true]);
    let (finished, buried) = (Some(sum), Some(PendingSum { until: place(7, 8), ..sum }));
    let both = PendingOptions { finished, buried, ..PendingOptions::default() };
    let states = [State::Done, State::Buried, State::Ready];
    assert_eq!(states.map(|state| both.sum(state)), [finished, buried, None]);
    let summing = TubeRow { pending: both, ..tube.clone() };
    let row = summing.encode();
    let field = |number, ends: [u64; 4]| {
        let mut field = vec![0, number, 0, 32];
        field.extend(ends.map(u64::to_be_bytes).as_flattened());
        field
    };
    let fields = [field(12, [2, 3, 5, 6]), field(13, [2, 3, 7, 8])].concat();
    assert!(row.ends_with(&[&[0, 72][..], &fields].concat()));
    assert_eq!(TubeRow::decode(&row), Some(summing));
    let groups =
        [&[0, 0, 0, 0, 1, b'b', 1, b'b'][..], &[0, 0, 9], &[0, 0, 0, 9, 1, 0xff, 0], &[1; 260]];
    let wrong = groups.map(|field| (11, field)).into_iter();
    for (number, field) in wrong.chain([(12, &[0; 31][..]), (13, &[0; 33]), (13, &[])]) {
        let mut extension = Extension::default();
        assert!(extension.set(number, field));
        let wrong = TubeRow { pending: PendingOptions::default(), extension, ..tube.clone() };
        assert_eq!(TubeRow::decode(&wrong.encode()), None);
    }
}

#[test]
fn no_cut_of_a_row_decodes_as_another() {
    let delayed = DelayedRow { progress: progress(), due: 9, wall: false, holds_group: false };
    let row = delayed.encode(&PLAIN, &HERE);
    // At its end a row may have no progress section.
    let bare = row.len() - HEAD.len() / 2;
    for end in (0..row.len()).filter(|end| *end != bare) {
        assert_eq!(DelayedRow::decode(&row[..end]), None);
        probe(&row[..end]);
    }
    assert_eq!(DelayedRow::decode(&row), Some((PLAIN, (delayed, HERE))));
    assert_eq!(TubeRow::decode(&[]), None);
}

/// The rows and fields of tasks that come after others, byte by byte.
#[test]
fn golden_edges() {
    let fresh = TaskProgress::fresh(NEVER, NEVER);
    let blocked = BlockedRow { progress: fresh.clone(), since: 9, due: 0, wall: false };
    let timed = BlockedRow { due: 7, ..blocked.clone() };
    let by_wall = BlockedRow { wall: true, ..timed.clone() };
    let mut linked = blocked.clone();
    let counts = EdgeCounts { open: 2, met: 3 };
    assert!(linked.progress.set_edges(Direction::Dependency, counts));
    assert!(linked.progress.set_edges(Direction::Dependent, EdgeCounts { open: 0, met: 1 }));
    assert!(linked.progress.set_edges(Direction::Dependent, EdgeCounts::default()));
    let rows = [
        (&blocked, "00 0000000000000009 0000000a"),
        (&timed, "02 0000000000000009 0000000a 0000000000000007"),
        (&by_wall, "03 0000000000000009 0000000a 0000000000000007"),
        (&linked, "00 0000000000000009 0000000a 40 000c 000b 0008 00000002 00000003"),
    ];
    for (row, bytes) in rows {
        let encoded = row.encode(&PLAIN, &HERE);
        assert_eq!(hex(&encoded), bytes.replace(' ', ""));
        assert_eq!(BlockedRow::decode(&encoded), Some((PLAIN, (row.clone(), HERE))));
        for end in 0..13 {
            assert_eq!(BlockedRow::decode(&encoded[..end]), None);
        }
    }
    // A wall clock without a time, and a time of 0.
    for wrong in ["01", "0200000000000000090000000a0000000000000000"] {
        let bytes: Vec<u8> = (0..wrong.len() / 2)
            .map(|at| u8::from_str_radix(&wrong[2 * at..2 * at + 2], 16).unwrap())
            .collect();
        let mut padded = bytes.clone();
        padded.resize(bytes.len().max(13), 0);
        assert_eq!(BlockedRow::decode(&padded), None, "{wrong}");
    }
    let mut none = fresh.clone();
    assert!(none.extension.set(10, &[0; 8]));
    assert_eq!(TaskProgress::decode(&none.encode(&HERE)), None);

    let edges = [
        (On::Success, Orphaned::Hold, "01 01 00000007"),
        (On::Failure, Orphaned::Cancel, "02 02 00000007"),
        (On::AnyEnd, Orphaned::Ignore, "03 03 00000007"),
    ];
    for (on, orphaned, bytes) in edges {
        let row = EdgeRow { on, orphaned, tube: 7 };
        assert_eq!(hex(&row.encode()), bytes.replace(' ', ""));
        assert_eq!(EdgeRow::decode(&row.encode()), Some(row));
    }
    for wrong in [[0, 1, 0, 0, 0, 7], [4, 1, 0, 0, 0, 7], [1, 0, 0, 0, 0, 7], [1, 4, 0, 0, 0, 7]] {
        assert_eq!(EdgeRow::decode(&wrong), None);
    }
    let ends = [(true, false, false, "01"), (false, true, false, "02"), (true, false, true, "05")];
    for (done, buried, gone, bits) in ends {
        let ended = TaskEnds { done, buried, gone };
        let row = CascadeRow { ended, tube: 7, from: 9, buried_to: 11, spared: Vec::new() };
        assert_eq!(hex(&row.encode()), format!("{bits}000000070000000000000009000000000000000b"));
        assert_eq!(CascadeRow::decode(&row.encode()), Some(row));
    }
    let ended = TaskEnds { buried: true, ..TaskEnds::default() };
    let row = CascadeRow { ended, tube: 7, from: 9, buried_to: 11, spared: vec![4, 10] };
    let golden = "0200000007000000000000000900000000000000\
                  0b0000000000000004000000000000000a";
    assert_eq!(hex(&row.encode()), golden);
    assert_eq!(CascadeRow::decode(&row.encode()), Some(row.clone()));
    let told = [3, 4, 9, 10, 11].map(|id| row.ended_for(TaskId::new(id)).buried);
    assert_eq!(told, [true, false, true, false, false]);
    assert_eq!(row.clone().spare(TaskId::new(9)).unwrap().spared, [4, 9, 10]);
    assert_eq!(row.clone().spare(TaskId::new(12)), Some(row.clone()));
    let many = CascadeRow { buried_to: 99_999, spared: (0..10_000).collect(), ..row.clone() };
    assert_eq!(many.clone().spare(TaskId::new(7)), Some(many.clone()));
    assert_eq!(many.spare(TaskId::new(70_000)), None);
    for (wrong, buried_to) in
        [(vec![4, 4], 11), (vec![10, 4], 11), (vec![11], 11), ((0..10_001).collect(), 99_999)]
    {
        let row = CascadeRow { spared: wrong, buried_to, ..row.clone() };
        assert_eq!(CascadeRow::decode(&row.encode()), None, "{row:?}");
    }
    assert_eq!(CascadeRow::decode(&[0; 21]), None);
    assert_eq!(CascadeRow::decode(&[&[8][..], &[0; 20]].concat()), None);
    let row = LinkingRow { counts, is_cancelled: true };
    assert_eq!(hex(&row.encode()), "000000020000000301");
    assert_eq!(LinkingRow::decode(&row.encode()), Some(row));
    assert_eq!(LinkingRow::decode(&[0, 0, 0, 2, 0, 0, 0, 3, 2]), None);
}
