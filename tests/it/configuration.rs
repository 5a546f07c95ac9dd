//! Settings of a queue and options of a tube that an application keeps in its configuration file.

use crate::{kind, secs};
use serde_json::{Value, from_str, json, to_value};
use std::time::Duration;
use tubewell::{Backoff, Builder, ErrorKind, Queue, TubeKind, TubeOptions};

#[derive(serde::Deserialize)]
struct File {
    queue: Builder,
    tube: TubeOptions,
}

fn options(json: Value) -> TubeOptions {
    serde_json::from_value(json).unwrap()
}

#[test]
fn a_queue_and_its_tube_are_made_as_a_file_says() {
    let file = r#"{
        "queue": { "durability": "relaxed", "durable_bytes_max": 5, "by_hand": true },
        "tube": { "kind": "general", "ttr": { "secs": 60, "nanos": 0 }, "max_attempts": 0 }
    }"#;
    let file: File = from_str(file).unwrap();
    let queue = file.queue.in_memory().unwrap();
    let tube = queue.create_tube("t", file.tube).unwrap();
    let set = TubeOptions::default().ttr(secs(60)).max_attempts(0);
    assert_eq!(tube.info().unwrap().options, set);
    tube.put(b"12345").unwrap();
    assert_eq!(kind(tube.put(b"6")), ErrorKind::Full);
}

#[test]
fn what_a_file_leaves_out_is_the_default_of_the_kind() {
    for (name, of) in [
        ("general", TubeKind::General),
        ("fifo", TubeKind::Fifo),
        ("fifo_ttl", TubeKind::FifoTtl),
        ("lim_fifo_ttl", TubeKind::LimFifoTtl),
        ("utube", TubeKind::Utube),
        ("utube_ttl", TubeKind::UtubeTtl),
    ] {
        assert_eq!(options(json!({ "kind": name })), TubeOptions::new(of));
        assert_eq!(to_value(of).unwrap(), name);
    }
    assert_eq!(options(json!({})), TubeOptions::default());
    assert_eq!(options(json!({ "backoff": {} })), TubeOptions::default());
    let linear = json!({ "factor": 1, "step": secs(5), "most": secs(60) });
    let same = Backoff::linear(secs(5)).at_most(secs(60));
    assert_eq!(options(json!({ "backoff": linear })).get_backoff().wait(2), secs(6));
    assert_eq!(options(json!({ "backoff": same })).get_backoff(), same);
}

/// As every setter does it, and no earlier.
#[test]
fn a_value_outside_its_limits_is_refused_where_it_is_without_a_file() {
    let queue = Queue::in_memory().unwrap();
    for (json, refusal) in [
        (json!({ "in_flight": 0 }), ErrorKind::Invalid),
        (json!({ "ttl": Duration::ZERO }), ErrorKind::Invalid),
        (json!({ "kind": "fifo", "ttl": secs(1) }), ErrorKind::Unsupported),
        (json!({ "placement": "" }), ErrorKind::Invalid),
    ] {
        assert_eq!(kind(queue.create_tube("t", options(json.clone()))), refusal, "{json}");
    }
    for json in [r#"{ "journal_bytes": 1 }"#, r#"{ "payload_bytes_max": 2000000000 }"#] {
        let builder: Builder = from_str(json).unwrap();
        assert_eq!(kind(builder.in_memory()), ErrorKind::Invalid, "{json}");
    }
    let jitter = options(json!({ "backoff": { "jitter": 200 } })).get_backoff();
    assert_eq!(jitter.get_jitter(), 100);
    assert_eq!(options(json!({ "capacity": 0 })).get_capacity(), None);
}

#[test]
fn what_no_option_is_called_or_can_be_is_refused() {
    for json in [
        r#"{ "tll": null }"#,
        r#"{ "kind": "Fifo" }"#,
        r#"{ "backoff": { "longest": 1 } }"#,
        r#"{ "in_flight": -1 }"#,
        r#"{ "ttl": { "secs": 18446744073709551615, "nanos": 1000000000 } }"#,
    ] {
        assert!(from_str::<TubeOptions>(json).is_err(), "{json}");
    }
    for json in [r#"{ "clock": null }"#, r#"{ "durability": "weak" }"#] {
        assert!(from_str::<Builder>(json).is_err(), "{json}");
    }
}

/// With a codec that stores no names, so that the order of the fields is checked.
#[test]
#[cfg(feature = "bincode")]
fn options_are_read_from_a_codec_without_names() {
    let form = bincode::config::standard();
    let fifo = TubeOptions::new(TubeKind::Fifo).if_not_exists();
    let general = TubeOptions::default().ttl(Duration::MAX).placement("by age");
    for options in [fifo, general] {
        let stored = bincode::serde::encode_to_vec(&options, form).unwrap();
        let (read, length) = bincode::serde::decode_from_slice(&stored, form).unwrap();
        assert_eq!((options, stored.len()), (read, length));
    }
    let builder = Builder::default().read_only(true).durable_bytes_max(7);
    let stored = bincode::serde::encode_to_vec(&builder, form).unwrap();
    let (read, _): (Builder, _) = bincode::serde::decode_from_slice(&stored, form).unwrap();
    assert_eq!(to_value(read).unwrap(), to_value(builder).unwrap());
}
