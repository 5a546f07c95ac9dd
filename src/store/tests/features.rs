//! Features in use: entered before the first record that needs them, for every end of the process,
//! and refused by a version that does not know them, with every byte unchanged.

use super::disk::{Plan, SimDisk};
use super::*;
use crate::format::feature::{Feature, HISTORY, KNOWN, Needs, TAGS, TRACKING, Unknown};
use crate::store::disk::FileName;
use crate::store::features::SLOT_BYTES;
use crate::store::head::PAGE;
use crate::words::error::ErrorKind;
use std::borrow::Cow;

const NAP: Feature = Feature { number: 7, unknown: Unknown::Refuse, name: Cow::Borrowed("nap") };
const INK: Feature = Feature { number: 2, unknown: Unknown::ReadOnly, name: Cow::Borrowed("ink") };
const FAD: Feature = Feature { number: 9, unknown: Unknown::Ignore, name: Cow::Borrowed("fad") };

fn knowing(known: &'static [Feature]) -> Config {
    Config { known, ..config() }
}

/// Enters a feature, also one that this version does not have.
fn use_feature(store: &mut Store, feature: &Feature) -> Result<()> {
    store.ensure_running()?;
    match store.head_with([feature].into_iter())? {
        Some(features) => store.use_features(features),
        None => Ok(()),
    }
}

fn files(disk: &SimDisk) -> [Vec<u8>; 2] {
    [FileName::Base, FileName::Journal].map(|name| disk.file(name).shown)
}

/// Checks that a version without features refuses it with this text and changes nothing.
fn is_refused(disk: &SimDisk, word: &str) {
    let (before, calls) = (files(disk), disk.calls());
    let error = refused(open(disk));
    assert_eq!(error.kind(), ErrorKind::NewerFormat, "{error}");
    assert!(error.to_string().contains(word), "{error}");
    assert!(files(disk) == before && disk.calls() == calls, "no byte written and no sync");
    disk.kill();
}

/// Clears the features in the head, like a slot that lost its bytes.
fn forget_head(disk: &SimDisk) {
    let fresh = SimDisk::new(2);
    drop(open(&fresh).unwrap());
    let queue = |bytes: &[u8]| crate::store::head::JournalHead::decode(bytes).unwrap().0;
    disk.poke(FileName::Journal, |bytes| {
        let head = queue(bytes).encode();
        bytes[..head.len()].copy_from_slice(&head);
    });
}

#[test]
fn a_version_without_the_feature_refuses_and_changes_nothing() {
    for killed in [false, true] {
        // In the head alone, in the anchor alone, in both.
        for place in ["head", "anchor", "both"] {
            let disk = SimDisk::new(1);
            let mut store = open(&disk).unwrap();
            write(&mut store, vec![add(1, b"before")]).unwrap();
            use_feature(&mut store, &FAD).unwrap();
            use_feature(&mut store, &NAP).unwrap();
            use_feature(&mut store, &NAP).unwrap();
            if place != "head" {
                store.checkpoint().unwrap();
            }
            write(&mut store, vec![add(2, b"nap")]).unwrap();
            if killed || place == "head" {
                disk.kill();
                drop(store);
            } else {
                store.close().unwrap();
            }
            if place == "anchor" {
                forget_head(&disk);
            }
            is_refused(&disk, "it uses nap, which");
            let store = open_with(&disk, knowing(&[NAP])).unwrap();
            assert_eq!(numbers(&store), [1, 2]);
            let used = &store.ring.as_ref().unwrap().slot.features;
            assert!(used.has(7) && used.has(9), "{place}: both copies are complete again");
            disk.kill();
            drop(store);
            is_refused(&disk, "nap");
        }
    }
}

#[test]
fn a_feature_may_ask_for_reading_only_or_for_nothing() {
    let disk = SimDisk::new(1);
    let mut store = open(&disk).unwrap();
    use_feature(&mut store, &FAD).unwrap();
    store.close().unwrap();
    let mut store = open(&disk).unwrap();
    write(&mut store, vec![add(1, b"x")]).unwrap();
    store.close().unwrap();
    let mut store = open(&disk).unwrap();
    assert!(store.ring.as_ref().unwrap().slot.features.has(9), "an ignored feature is kept");
    use_feature(&mut store, &INK).unwrap();
    store.close().unwrap();
    is_refused(&disk, "knows ink to write; this version can open it read-only");
    let reader = || open_with(&disk, Config { access: Access::Read, ..config() });
    let (before, calls) = (files(&disk), disk.calls());
    let mut store = reader().unwrap();
    assert_eq!(numbers(&store), [1]);
    let failure = append(&mut store, &mut vec![add(2, b"y")]).unwrap_err();
    assert!(matches!(failure, StoreFailure::Broken(error) if error.kind() == ErrorKind::ReadOnly));
    store.close().unwrap();
    assert!(files(&disk) == before && disk.calls() == calls, "no byte written and no sync");
    let mut store = open_with(&disk, knowing(&[INK])).unwrap();
    assert_eq!(numbers(&store), [1]);
    use_feature(&mut store, &NAP).unwrap();
    store.close().unwrap();
    assert!(refused(reader()).to_string().contains("it uses nap, which"));
    // The copy in the anchor counts as well.
    forget_head(&disk);
    assert!(refused(reader()).to_string().contains("it uses nap, which"));
}

/// The process ends, or the disk fails, at any call of an entry.
#[test]
fn an_entry_is_complete_or_absent_after_every_end() {
    for plan in [Plan::Crash, Plan::FailOnce, Plan::FailSync] {
        for at in 0..3 {
            for seed in 0..20 {
                let disk = SimDisk::new(seed);
                let mut store = open(&disk).unwrap();
                use_feature(&mut store, &FAD).unwrap();
                disk.plan(at, plan);
                let entered = use_feature(&mut store, &NAP).is_ok();
                disk.no_plan();
                if entered {
                    write(&mut store, vec![add(1, b"nap")]).unwrap();
                    sync(&store).unwrap();
                }
                disk.power_cut();
                drop(store);
                match open(&disk) {
                    Err(error) => assert_eq!(error.kind(), ErrorKind::NewerFormat),
                    Ok(store) => {
                        assert!(!entered && store.ring.as_ref().unwrap().slot.features.has(9));
                    }
                }
                disk.kill();
                let mut store = open_with(&disk, knowing(&[NAP])).unwrap();
                use_feature(&mut store, &NAP).unwrap();
                store.close().unwrap();
                is_refused(&disk, "nap");
            }
        }
    }
}

/// Three first uses at a time: the write of the first is overwritten by one that is synced at once
/// and fails, that by a third. The sync of the first says nothing of the third, although both wrote
/// the same slot.
#[test]
fn a_sync_makes_no_other_write_of_the_slot_true() {
    let disk = SimDisk::new(1);
    let mut store = open(&disk).unwrap();
    let needs = |feature| {
        let mut needs = Needs::default();
        needs.add(feature);
        needs
    };
    let first = store.write_features(needs(&TAGS)).unwrap().unwrap();
    assert_eq!(store.write_features(needs(&HISTORY)).unwrap(), Some(first), "it waits for that");
    disk.plan(0, Plan::FailOnce);
    assert_eq!(use_feature(&mut store, &TRACKING).unwrap_err().kind(), ErrorKind::Io);
    disk.no_plan();
    let third = store.write_features(needs(&HISTORY)).unwrap().unwrap();
    store.head_synced(first, Ok(())).unwrap();
    assert_eq!(store.write_features(needs(&HISTORY)).unwrap(), Some(third));
    store.journal().unwrap().sync_head().unwrap();
    store.head_synced(third, Ok(())).unwrap();
    assert_eq!(store.write_features(needs(&HISTORY)).unwrap(), None);
    let again = store.write_features(needs(&TAGS)).unwrap().unwrap();
    store.journal().unwrap().sync_head().unwrap();
    store.head_synced(again, Ok(())).unwrap();
    disk.power_cut();
    drop(store);
    let store = open_with(&disk, knowing(KNOWN)).unwrap();
    let features = &store.ring.as_ref().unwrap().slot.features;
    assert!(features.has(TAGS.number) && features.has(HISTORY.number), "{features:?}");
}

#[test]
fn several_first_uses_of_a_transaction_are_one_write_and_one_sync() {
    let disk = SimDisk::new(1);
    let mut store = open(&disk).unwrap();
    let mut needs = Needs::default();
    [&TAGS, &HISTORY, &TRACKING].into_iter().for_each(|feature| needs.add(feature));
    let before = disk.calls();
    store.enter(needs).unwrap();
    assert_eq!(disk.calls() - before, 2);
    store.enter(needs).unwrap();
    assert_eq!(disk.calls() - before, 2, "they are in use");
    disk.power_cut();
    drop(store);
    let store = open_with(&disk, knowing(KNOWN)).unwrap();
    let features = &store.ring.as_ref().unwrap().slot.features;
    assert!([TAGS, HISTORY, TRACKING].iter().all(|feature| features.has(feature.number)));
}

/// A sync of the head that fails ends the queue, as any other.
#[test]
fn a_failed_sync_of_the_head_stops_the_store() {
    let disk = SimDisk::new(1);
    let mut store = open(&disk).unwrap();
    let mut needs = Needs::default();
    needs.add(&TAGS);
    let write = store.write_features(needs).unwrap().unwrap();
    disk.plan(0, Plan::FailSync);
    let synced = store.journal().unwrap().sync_head();
    assert_eq!(store.head_synced(write, synced).unwrap_err().kind(), ErrorKind::Broken);
    assert_eq!(store.write_features(needs).unwrap_err().kind(), ErrorKind::Broken);
}

/// Regression: a kill after the failed sync of an entry. Reads showed the feature, the medium did
/// not have it, and the next opening did not write it again.
#[test]
fn what_a_failed_sync_of_an_entry_shows_is_made_true() {
    let disk = SimDisk::new(1);
    let mut store = open(&disk).unwrap();
    disk.plan(1, Plan::FailSync);
    assert_eq!(use_feature(&mut store, &NAP).unwrap_err().kind(), ErrorKind::Broken);
    disk.kill();
    drop(store);
    let mut store = open_with(&disk, knowing(&[NAP])).unwrap();
    use_feature(&mut store, &NAP).unwrap();
    write(&mut store, vec![add(1, b"nap")]).unwrap();
    sync(&store).unwrap();
    disk.power_cut();
    drop(store);
    is_refused(&disk, "nap");
}

#[test]
fn one_torn_slot_is_accepted_and_two_are_damage() {
    let disk = SimDisk::new(1);
    let mut store = open(&disk).unwrap();
    use_feature(&mut store, &FAD).unwrap();
    store.close().unwrap();
    let whole = disk.file(FileName::Journal);
    let tear = |slot: usize| {
        disk.poke(FileName::Journal, |bytes| bytes[PAGE + slot * SLOT_BYTES + 5..][..20].fill(1));
    };
    for slot in [0, 1] {
        disk.set_file(FileName::Journal, whole.clone());
        tear(slot);
        let store = open(&disk).unwrap();
        assert!(store.ring.as_ref().unwrap().slot.features.has(9), "the anchor has a copy");
        disk.kill();
        drop(store);
        tear(1 - slot);
        if slot == 0 {
            // The entry was written again, into the torn slot.
            disk.set_file(FileName::Journal, whole.clone());
            tear(0);
            tear(1);
        }
        let before = files(&disk);
        let error = refused(open(&disk));
        assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
        assert!(files(&disk) == before);
        disk.kill();
    }
}

#[test]
fn forty_features_are_kept_and_a_full_slot_says_so() {
    let disk = SimDisk::new(1);
    let mut store = open(&disk).unwrap();
    let feature = |number: u16| {
        let name = format!("{number:032}").into();
        Feature { number, unknown: Unknown::Ignore, name }
    };
    for number in 0..40 {
        use_feature(&mut store, &feature(number)).unwrap();
    }
    store.close().unwrap();
    let mut store = open(&disk).unwrap();
    assert!((0..40).all(|number| store.ring.as_ref().unwrap().slot.features.has(number)));
    let refused =
        (40..400).find_map(|number| use_feature(&mut store, &feature(number)).err()).unwrap();
    assert_eq!(refused.kind(), ErrorKind::Full);
    assert!(refused.to_string().contains("no room for the feature"), "{refused}");
    write(&mut store, vec![add(1, b"on it goes")]).unwrap();
    store.close().unwrap();
    assert_eq!(numbers(&open(&disk).unwrap()), [1]);
}
