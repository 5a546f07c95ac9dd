//! Files that end too early, as after a copy onto a full disk.

use super::{FILES, bytes, made, refused};
use crate::{drain, killed, open};
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tubewell::ErrorKind;

fn cut(path: &Path, name: &str, length: u64) {
    let file = OpenOptions::new().write(true).open(path.join(name)).unwrap();
    file.set_len(length).unwrap();
}

#[test]
fn files_that_are_cut_short() {
    for name in FILES {
        for length in [0, 1, 100, 4096, 10_000, 16_384] {
            let (_home, path) = made();
            cut(&path, name, length);
            let refused = refused(&path);
            let fits = matches!(refused, ErrorKind::Damaged | ErrorKind::NotAQueue);
            assert!(fits, "{name} of {length} bytes: {refused:?}");
        }
    }
}

/// A queue with three tasks, closed or killed: its home, its folder.
fn left(killed_open: bool) -> (TempDir, PathBuf) {
    let (home, path) = made();
    if !killed_open {
        return (home, path);
    }
    let _queue = open(&path);
    killed(&path)
}

fn length(path: &Path, name: &str) -> u64 {
    fs::metadata(path.join(name)).unwrap().len()
}

#[test]
fn a_base_that_is_cut_short_is_damaged_and_the_journal_is_left_as_it_is() {
    for killed_open in [false, true] {
        // Behind redb's part stands the reserve, which holds nothing.
        const RESERVE: u64 = 256 << 10;
        let cuts: [fn(u64) -> u64; 3] =
            [|length| length - RESERVE - 1, |length| length - RESERVE - 4096, |l| l / 2];
        for shorter in cuts {
            let (_home, path) = left(killed_open);
            let [whole, journal] = bytes(&path);
            cut(&path, "base.redb", shorter(length(&path, "base.redb")));
            let cut_to = length(&path, "base.redb");
            // A second opening makes it no worse.
            for _ in 0..2 {
                assert_eq!(refused(&path), ErrorKind::Damaged, "{cut_to} bytes");
                assert_eq!(length(&path, "base.redb"), cut_to);
                assert!(bytes(&path)[1] == journal, "{cut_to} bytes: the journal");
            }
            fs::write(path.join("base.redb"), whole).unwrap();
            assert_eq!(drain(&open(&path).tube("t").unwrap()), "a b c", "{cut_to} bytes");
        }
    }
}

#[test]
fn a_journal_whose_ring_is_cut_short_is_damaged_and_nothing_is_changed() {
    for killed_open in [false, true] {
        let (_home, path) = left(killed_open);
        let whole = length(&path, "journal");
        // The head, four blocks, then the ring.
        let ring = u64::from_be_bytes(bytes(&path)[1][32..40].try_into().unwrap());
        let edge = 16_384 + ring;
        for cut_to in [edge - 1, whole / 2] {
            let journal = bytes(&path)[1].clone();
            cut(&path, "journal", cut_to);
            let before = bytes(&path);
            assert_eq!(refused(&path), ErrorKind::Damaged, "{cut_to} bytes");
            assert!(bytes(&path) == before, "{cut_to} bytes");
            fs::write(path.join("journal"), journal).unwrap();
        }
        cut(&path, "journal", edge);
        assert_eq!(drain(&open(&path).tube("t").unwrap()), "a b c", "to the edge of the ring");
    }
}
