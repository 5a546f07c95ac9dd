//! The bytes of every row, literally: what stands here stands on the disks of users, and may never
//! change within a format.

use super::*;
use std::fmt::Write;

fn hex(row: &[u8]) -> String {
    row.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn head() -> Head {
    Head {
        deliveries: 3,
        attempts: 2,
        releases: 1,
        buries: 4,
        expires: 5,
        ttr: 6,
        last_error: "e".into(),
    }
}

/// All fields, behind the flags that say so.
const HEAD: &str = "0f0000000300000002000000010000000400000000000000050000000000000006000165";
const TASK: &[u8] = &[0xee, 0xff];

#[test]
fn golden_rows() {
    let task = TaskRow {
        place: Place { priority: -1, order: Order::back(7) },
        created: 1,
        codec: 4,
        version: 5,
        group: Some("g"),
        key: Some("k"),
        payload: Contents::Inline(&[0xaa, 0xbb]),
    };
    let placed = Place { priority: 0, order: Order::placed(b"ab").unwrap() };
    let payload = Contents::Apart(6);
    let apart = TaskRow { place: placed, group: None, key: None, payload, ..task };
    let mut options = TubeOptions::new(TubeKind::LimFifoTtl).capacity(9).priority(-2);
    options = options.ttl(Duration::from_secs(1)).ttl_spares_buried(true);
    let tube = TubeRow {
        name: "t".into(),
        run: Run(8),
        paused: true,
        void_to: 6,
        made_priority: -3,
        options,
    };
    let taken = TakenRow { head: head(), token: 7, holder: 8, since: 9, deadline: NEVER };
    let delayed = DelayedRow { head: head(), due: 9, wall: true, holds_group: true };
    let bury = |reason| BuriedRow { head: head(), time: 9, reason };
    let failed = Reason::Failed { group: "g".into(), message: "m".into() };
    let consumer = ConsumerRow { name: "c".into(), grace: 1, until: 2, void_to: 3 };
    let (put, from) = Head::fresh(NEVER, NEVER).encode_with(&apart);
    assert_eq!(from, 1);
    let golden: Vec<(Value, String)> = vec![
        (Counters { tube: 1, run: 2, consumer: 3 }.encode(), "000000010000000200000003".into()),
        (
            tube.encode(),
            "017400000008000000000000000609\
             03fffffffffffffffdfffffffffffffffe00000000000f4240ffffffffffffffff0000000000000009\
             00000000000000000000000000000001000000000000000000000001\
             00"
            .into(),
        ),
        (WorkRow { tube: 1, from: 2 }.encode(), "000000010000000000000002".into()),
        (consumer.encode(), "0163000000000000000100000000000000020000000000000003".into()),
        (
            task.encode(),
            "030400050000000000000001ffffffffffffffff80000000000000070167016baabb".into(),
        ),
        (
            put,
            "000c04000500000000000000010000000000000000616200000000000000000000000000000000\
             000000000006"
                .into(),
        ),
        (
            PlaceRow { place: task.place, group: task.group }.encode(),
            "01ffffffffffffffff80000000000000070167".into(),
        ),
        (
            PlaceRow { place: placed, group: None }.encode(),
            "02000000000000000061620000000000000000000000000000".into(),
        ),
        (Head::fresh(NEVER, 6).encode(TASK), "040000000000000006eeff".into()),
        (head().encode(TASK), format!("{HEAD}eeff")),
        (
            taken.encode(TASK),
            format!("0000000000000007000000080000000000000009ffffffffffffffff{HEAD}eeff"),
        ),
        (delayed.encode(TASK), format!("000000000000000903{HEAD}eeff")),
        (
            bury(Reason::Buried("b".into())).encode(TASK),
            format!("000000000000000901000162{HEAD}eeff"),
        ),
        (bury(failed).encode(TASK), format!("00000000000000090200016700016d{HEAD}eeff")),
        (
            bury(Reason::Exhausted("x".into())).encode(TASK),
            format!("000000000000000903000178{HEAD}eeff"),
        ),
        (
            bury(Reason::Undecodable("u".into())).encode(TASK),
            format!("000000000000000904000175{HEAD}eeff"),
        ),
        (number(258), "0000000000000102".into()),
    ];
    for (row, bytes) in golden {
        assert_eq!(hex(&row), bytes.replace(char::is_whitespace, ""));
        probe(&row);
    }
}

/// Every flag of a row alone, so that none of them changes its place.
#[test]
fn golden_flags() {
    let task = TaskRow {
        place: Place { priority: 2, order: Order::back(1) },
        created: 3,
        codec: 0,
        version: 0,
        group: None,
        key: None,
        payload: Contents::Inline(b""),
    };
    let bare = "000000000000000000000300000000000000028000000000000001";
    let key = TaskRow { key: Some("k"), ..task };
    let fresh = Head::fresh(NEVER, NEVER);
    let counted = Head { buries: 1, ..fresh.clone() };
    let failed = Head { last_error: "e".into(), ..fresh.clone() };
    let delayed = |wall, holds_group| DelayedRow { head: fresh.clone(), due: 9, wall, holds_group };
    let golden: Vec<(Value, String)> = vec![
        (task.encode(), format!("00{bare}")),
        (key.encode(), format!("02{bare}016b")),
        (TaskRow { group: Some("g"), ..task }.encode(), format!("01{bare}0167")),
        (TaskRow { payload: Contents::Apart(9), ..task }.encode(), {
            format!("04{bare}0000000000000009")
        }),
        (fresh.encode(TASK), "00eeff".into()),
        (counted.encode(TASK), "0100000000000000000000000000000001eeff".into()),
        (Head::fresh(5, NEVER).encode(TASK), "020000000000000005eeff".into()),
        (failed.encode(TASK), "08000165eeff".into()),
        (delayed(false, false).encode(TASK), "00000000000000090000eeff".into()),
        (delayed(true, false).encode(TASK), "00000000000000090100eeff".into()),
        (delayed(false, true).encode(TASK), "00000000000000090200eeff".into()),
    ];
    for (row, bytes) in golden {
        assert_eq!(hex(&row), bytes);
        probe(&row);
    }
}

#[test]
fn golden_tubes() {
    assert_eq!(Counters::WHAT, 1);
    let row = |options: TubeOptions, run| {
        let (name, run, made_priority) = ("t".into(), Run(run), 0);
        let tube = TubeRow { name, run, paused: false, void_to: 0, made_priority, options };
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
fn no_cut_of_a_row_decodes_as_another() {
    let delayed = DelayedRow { head: head(), due: 9, wall: false, holds_group: false };
    let row = delayed.encode(&[]);
    for end in 0..row.len() {
        assert_eq!(DelayedRow::decode(&row[..end]), None);
        probe(&row[..end]);
    }
    assert_eq!(DelayedRow::decode(&row), Some((delayed, row.len())));
    assert_eq!(TubeRow::decode(&[]), None);
}
