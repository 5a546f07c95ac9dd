//! Every method that can fail is played against a model, or is said not to be.

use crate::methods;

/// What no model plays: reads, handles, and other ways to the same op.
const NOT_PLAYED: [&str; 21] = [
    "base_space",
    "compact_with",
    "consumer_with",
    "encode",
    "latencies",
    "on_event",
    "on_lost",
    "on_task_change_with_payload",
    "put_front", // by `front`
    "put_receipt",
    "repair", // tests/sim/repairs.rs
    "synced",
    "take_group", // by `try_take_group`
    "take_group_timeout",
    "take_group_until",
    "take_timeout", // by `take_timeout_until`
    "take_until",
    "undepend",
    "wait_for_until",
    "wait_ready_timeout_until",
    "wait_ready_until",
];

#[test]
fn every_method_that_can_fail_is_in_a_model() {
    let missing = methods::uncalled(&[
        "sim/world.rs",
        "sim/world/payloads.rs",
        "sim/world/sight.rs",
        "sim/world/tubes.rs",
        "sim/world/waits.rs",
        "sim/gates.rs",
        "sim/dependencies.rs",
        "sim/several.rs",
        "sim/several/model.rs",
        "sim/several/turns.rs",
        "sim/schedules.rs",
        "sim/schedules/gates.rs",
        "sim/schedules/merge.rs",
        "sim/schedules/model.rs",
        "sim/schedules/times.rs",
        "sim/days.rs",
        "sim/merges.rs",
        "sim/failures.rs",
        "sim/reading.rs",
        "sim/put_all.rs",
        "sim/clocks.rs",
        "sim/fans.rs",
    ]);
    assert_eq!(missing, NOT_PLAYED.map(str::to_owned).into());
}
