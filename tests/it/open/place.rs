//! Where a queue is made. An existing folder keeps its inode, its owner and its mode, and only
//! files are made in it. A new folder is readable by its owner only.

use crate::{drain, home, killed, kind, open, still};
use std::ffi::{OsStr, OsString};
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::Barrier;
use tubewell::{ErrorKind, Queue};

const FILES: [&str; 2] = ["base.redb", "journal"];
/// The names of the two files until a creation in an existing folder has finished.
const STAGED: [&str; 2] = [".base.redb.creating", ".journal.creating"];

/// Inode, owner and mode.
fn identity(path: &Path) -> (u64, u32, u32) {
    let found = fs::metadata(path).unwrap();
    (found.ino(), found.uid(), found.mode() & 0o7777)
}

fn names(path: &Path) -> Vec<OsString> {
    let mut names: Vec<_> =
        fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    names
}

fn made_folder(path: &Path, mode: u32) {
    fs::create_dir(path).unwrap();
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Makes a queue there, and finds its task again.
fn serves(path: &Path) {
    let queue = open(path);
    queue.tube("t").unwrap().put(b"a").unwrap();
    queue.close().unwrap();
    assert_eq!(names(path), FILES);
    for file in FILES {
        assert_eq!(identity(&path.join(file)).2, 0o600, "{file}: only the owner may read payloads");
    }
    assert_eq!(drain(&open(path).tube("t").unwrap()), "a");
}

/// Regression: a folder of mode 700 became one of 755, and all users could read payloads.
#[test]
fn an_empty_folder_keeps_its_inode_owner_and_mode() {
    for mode in [0o700, 0o750, 0o2775] {
        let (home, path) = home();
        made_folder(&path, mode);
        // The user `nobody`, if this test may change the owner.
        let _ = std::os::unix::fs::chown(&path, Some(65_534), None);
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        let before = identity(&path);
        serves(&path);
        assert_eq!(identity(&path), before);
        assert_eq!(names(home.path()), ["q"]);
    }
}

#[test]
fn a_new_folder_is_its_owners_alone() {
    let (home, path) = home();
    serves(&path);
    assert_eq!(identity(&path).2, 0o700);
    assert_eq!(names(home.path()), ["q"]);
}

#[test]
fn an_empty_folder_that_a_link_points_to_is_used() {
    let (home, path) = home();
    let real = home.path().join("real");
    made_folder(&real, 0o700);
    symlink(&real, &path).unwrap();
    let before = identity(&real);
    serves(&path);
    assert_eq!(identity(&real), before);
    assert!(fs::symlink_metadata(&path).unwrap().is_symlink());
    // And a link to a path where there is nothing yet.
    let other = home.path().join("other");
    symlink(home.path().join("new"), &other).unwrap();
    assert_eq!(kind(still().0.open(&other)), ErrorKind::Io);
}

#[test]
fn a_folder_in_one_of_another_owner() {
    crate::damage::modes::not_as_root("open::place::a_folder_in_one_of_another_owner", || {
        let (home, path) = home();
        made_folder(&path, 0o700);
        fs::set_permissions(home.path(), Permissions::from_mode(0o555)).unwrap();
        let before = identity(&path);
        serves(&path);
        assert_eq!(identity(&path), before);
        // Also where the parent cannot be listed.
        fs::set_permissions(home.path(), Permissions::from_mode(0o311)).unwrap();
        assert_eq!(open(&path).tube("t").unwrap().len().unwrap(), 0);
        fs::set_permissions(home.path(), Permissions::from_mode(0o755)).unwrap();
    });
}

/// A mount point can neither be renamed nor replaced by a rename.
#[test]
fn an_empty_mount_point() {
    struct Mounted<'a>(&'a Path);
    impl Drop for Mounted<'_> {
        fn drop(&mut self) {
            let _ = Command::new("umount").arg(self.0).status();
        }
    }
    let (_home, path) = home();
    fs::create_dir(&path).unwrap();
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "size=64m,mode=700", "tubewell-test"]).arg(&path);
    let refusal = match mount.output() {
        Ok(done) if done.status.success() => None,
        Ok(done) => Some(String::from_utf8_lossy(&done.stderr).into_owned()),
        Err(error) => Some(error.to_string()),
    };
    if let Some(why) = refusal {
        println!("SKIPPED: a file system could not be mounted here: {}", why.trim());
        return;
    }
    let mounted = Mounted(&path);
    let before = identity(&path);
    // As in every new ext4.
    fs::create_dir(path.join("lost+found")).unwrap();
    let queue = open(&path);
    queue.tube("t").unwrap().put(b"a").unwrap();
    queue.close().unwrap();
    drop(queue);
    assert_eq!(identity(&path), before);
    assert_eq!(drain(&open(&path).tube("t").unwrap()), "a");
    drop(mounted);
}

/// Set for the child below.
const CHILD: &str = "TUBEWELL_TEST_HERE";

/// Regression: the working directory of a process was replaced by a rename, and the process was
/// left in a deleted one.
#[test]
fn the_current_folder() {
    if std::env::var_os(CHILD).is_some() {
        let before = identity(Path::new("."));
        serves(Path::new("."));
        assert_eq!(identity(Path::new(".")), before);
        return;
    }
    let (home, path) = home();
    fs::create_dir(&path).unwrap();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "open::place::the_current_folder", "--nocapture"])
        .env(CHILD, "1")
        .current_dir(&path)
        .output()
        .unwrap();
    let reported = String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "{reported}");
    assert_eq!(names(&path), FILES);
    assert_eq!(names(home.path()), ["q"]);
}

/// Regression: a name that is not UTF-8 was changed: the folder made beside it got another name,
/// and the leftovers of a crash were never found.
#[test]
fn a_path_that_is_no_utf_8() {
    let (home, _) = home();
    let name = OsStr::from_bytes(b"q\xff\xfe");
    let path = home.path().join(name);
    let left = home.path().join(OsStr::from_bytes(b".q\xff\xfe.creating-1-1"));
    fs::create_dir(&left).unwrap();
    fs::write(left.join("journal"), "half").unwrap();
    serves(&path);
    assert_eq!(names(home.path()), [name]);
}

/// Regression: leftovers were removed by the next creation only, and a kill during the removal left
/// a base that was not recognised as a leftover.
#[test]
fn leftovers_beside_a_queue_are_cleared_by_every_opening() {
    let (home, path) = home();
    serves(&path);
    let halves: [&[&str]; 4] = [&[], &["journal"], &["base.redb"], &["base.redb", "journal"]];
    for (number, half) in halves.iter().enumerate() {
        let left = home.path().join(format!(".q.creating-7-{number}"));
        fs::create_dir(&left).unwrap();
        half.iter().for_each(|file| fs::write(left.join(file), "half").unwrap());
        if number == 3 {
            fs::write(left.join("a letter"), "mine").unwrap();
        }
    }
    let alive = home.path().join(".q.creating-8-1");
    fs::create_dir(&alive).unwrap();
    let journal = fs::File::create(alive.join("journal")).unwrap();
    journal.try_lock().unwrap();
    open(&path).close().unwrap();
    assert_eq!(names(home.path()), [".q.creating-7-3", ".q.creating-8-1", "q"]);
    assert_eq!(names(&home.path().join(".q.creating-7-3")), ["a letter"]);
    assert_eq!(names(&alive), ["journal"], "the process that makes it lives");
    drop(journal);
    open(&path).close().unwrap();
    assert_eq!(names(home.path()), [".q.creating-7-3", "q"]);
}

/// After a kill anywhere in a creation in an existing folder, a queue can be made there, and no
/// leftover stays.
#[test]
fn a_creation_after_a_killed_one_replaces_its_files() {
    // As in a new queue without any put.
    let (_first, first) = home();
    let queue = open(&first);
    let (_copy, copy) = killed(&first);
    drop(queue);
    let [base, journal] = FILES.map(|file| fs::read(copy.join(file)).unwrap());
    type Half<'a> = (&'a str, &'a [u8]);
    let halves: [&[Half<'_>]; 6] = [
        &[(STAGED[1], b"")],
        &[(STAGED[1], &journal[..9000])],
        &[(STAGED[1], &journal), (STAGED[0], &base[..5000])],
        &[(STAGED[1], &journal), (STAGED[0], &base)],
        &[(STAGED[0], &base)],
        // Between the two renames.
        &[(STAGED[1], &journal), (FILES[0], &base)],
    ];
    for half in halves {
        let (home, path) = home();
        fs::create_dir(&path).unwrap();
        for (file, bytes) in half {
            fs::write(path.join(file), bytes).unwrap();
            fs::set_permissions(path.join(file), Permissions::from_mode(0o600)).unwrap();
        }
        serves(&path);
        assert_eq!(names(home.path()), ["q"]);
    }
    // Beside a finished queue.
    let (_home, path) = home();
    serves(&path);
    STAGED.iter().for_each(|file| fs::write(path.join(file), "half").unwrap());
    assert_eq!(drain(&open(&path).tube("t").unwrap()), "");
    assert_eq!(names(&path), FILES);
}

/// A lost journal does not look like a running creation, and a base with content is never taken for
/// a leftover.
#[test]
fn a_queue_without_its_journal_is_not_made_again() {
    for (with_tasks, staged) in [(true, false), (true, true), (false, false)] {
        let (_home, path) = home();
        let queue = open(&path);
        if with_tasks {
            queue.tube("t").unwrap().put(b"a").unwrap();
            queue.close().unwrap();
        }
        drop(queue);
        let base = fs::read(path.join(FILES[0])).unwrap();
        if staged {
            fs::rename(path.join(FILES[1]), path.join(STAGED[1])).unwrap();
        } else {
            fs::remove_file(path.join(FILES[1])).unwrap();
        }
        let error = still().0.open(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Damaged, "{with_tasks} {staged}");
        assert!(error.to_string().contains("the file journal is missing"), "{error}");
        assert_eq!(fs::read(path.join(FILES[0])).unwrap(), base, "{with_tasks} {staged}");
    }
}

/// Two at the same time make one queue; the other one gets `Locked`.
#[test]
fn two_creators_in_one_empty_folder() {
    for round in 0..40 {
        let (home, path) = home();
        if round % 2 == 0 {
            made_folder(&path, 0o700);
        }
        let begin = Barrier::new(2);
        let opened = || {
            begin.wait();
            still().0.journal_bytes(64 << 10).open(&path)
        };
        let both: [tubewell::Result<Queue>; 2] = std::thread::scope(|scope| {
            let other = scope.spawn(opened);
            [opened(), other.join().unwrap()]
        });
        let mut locked = 0;
        for queue in both {
            match queue {
                Ok(queue) => {
                    queue.tube("t").unwrap().put(b"a").unwrap();
                    queue.close().unwrap();
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Locked, "{error}");
                    locked += 1;
                }
            }
        }
        assert!(locked < 2, "one of them has it");
        assert_eq!(drain(&open(&path).tube("t").unwrap()), "a", "round {round}");
        assert_eq!(
            (names(home.path()), names(&path)),
            (vec!["q".into()], FILES.map(Into::into).to_vec())
        );
    }
}
