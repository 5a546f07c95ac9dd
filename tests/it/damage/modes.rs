//! Folders and files whose modes forbid writing: a clear error, nothing is made and nothing is
//! lost. Modes do not restrict root, so as root these tests run as the user `nobody`.

use super::{FILES, bytes, made};
use crate::{close_sound, drain, home, kind, next, open, still};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use tubewell::ErrorKind;

/// The id of the user `nobody`, who owns no file.
const NOBODY: u32 = 65_534;

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Runs the body; as root runs the whole test in a child with that user.
pub(crate) fn not_as_root(test: &str, body: fn()) {
    let home = tempfile::tempdir().unwrap();
    if fs::metadata(home.path()).unwrap().uid() != 0 {
        return body();
    }
    set_mode(home.path(), 0o777);
    let copy = home.path().join("it");
    // That user cannot reach the original. Not by `fs::copy`: a process that another test is
    // starting may still have its handle, and a file that is open for writing cannot be run.
    let original = std::env::current_exe().unwrap();
    assert!(Command::new("cp").arg(original).arg(&copy).status().unwrap().success());
    let done = Command::new(&copy)
        .args(["--exact", test, "--nocapture"])
        .env("TMPDIR", home.path())
        .current_dir(home.path())
        .uid(NOBODY)
        .gid(NOBODY)
        .output()
        .unwrap();
    let reported =
        [done.stdout, done.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(done.status.success() && reported[0].contains("1 passed"), "{}", reported.join("\n"));
}

fn is_denied(path: &Path) {
    let error = still().0.open(path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    let text = error.to_string();
    let wanted = format!("open at {}: the operating system refused it", path.display());
    assert!(text.starts_with(&wanted) && text.contains("ermission denied"), "{text}");
}

#[test]
fn in_a_folder_that_is_read_only_no_queue_is_made() {
    not_as_root("damage::modes::in_a_folder_that_is_read_only_no_queue_is_made", || {
        let (home, path) = home();
        set_mode(home.path(), 0o555);
        is_denied(&path);
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
        set_mode(home.path(), 0o755);
        open(&path).tube("t").unwrap().put(b"a").unwrap();
        assert_eq!(next(&open(&path).tube("t").unwrap()), "a");
    });
}

#[test]
fn a_read_only_queue_is_refused_and_not_changed() {
    not_as_root("damage::modes::a_read_only_queue_is_refused_and_not_changed", || {
        let cases: [(u32, &[&str], u32); 6] = [
            (0o755, &FILES, 0o444),
            (0o555, &FILES, 0o444),
            (0o755, &["journal"], 0o444),
            (0o755, &["base.redb"], 0o444),
            (0o755, &["base.redb"], 0),
            // A folder whose files cannot even be listed by that user.
            (0o444, &[], 0),
        ];
        for (folder, files, mode) in cases {
            let (home, path) = made();
            let before = bytes(&path);
            files.iter().for_each(|file| set_mode(&path.join(file), mode));
            set_mode(&path, folder);
            is_denied(&path);
            set_mode(&path, 0o755);
            FILES.iter().for_each(|file| set_mode(&path.join(file), 0o644));
            assert_eq!(bytes(&path), before, "{folder:o} {files:?}");
            assert_eq!(fs::read_dir(&path).unwrap().count(), 2);
            assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
            let queue = open(&path);
            assert_eq!(drain(&queue.tube("t").unwrap()), "a b c");
            close_sound(queue);
        }
    });
}

/// After its creation, a queue writes to its two files only.
#[test]
fn a_queue_is_served_in_folders_that_are_read_only() {
    not_as_root("damage::modes::a_queue_is_served_in_folders_that_are_read_only", || {
        let (home, path) = made();
        set_mode(&path, 0o555);
        set_mode(home.path(), 0o555);
        assert_eq!(kind(still().0.open(home.path().join("other"))), ErrorKind::Io);
        let queue = open(&path);
        let tube = queue.tube("t").unwrap();
        tube.put(&[b'd'; 100_000]).unwrap();
        assert_eq!(next(&tube), "a");
        queue.compact().unwrap();
        close_sound(queue);
        let queue = open(&path);
        assert_eq!(queue.tube("t").unwrap().len().unwrap(), 3);
        close_sound(queue);
        set_mode(home.path(), 0o755);
        set_mode(&path, 0o755);
    });
}
