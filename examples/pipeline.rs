//! Counts the words of text files in three steps. It may be killed at any moment and run again.
//!
//! ```text
//! cargo run --example pipeline -- FILE...
//! ```
//!
//! A file is one task that goes through three tubes. *fetch* copies it, *parse* counts its lines
//! and words, *store* writes the counts into a table of the application. Each step passes its
//! result on and goes to the next tube in one commit. A file that cannot be read is tried three
//! times; one that is no text is set aside at once. Stop the program with `kill -9` and run it
//! again with the same files: it goes on where it was, and ends with the same answer. Until then
//! its folder is `pipeline.work`. Without a FILE it takes those of the examples, one that does not
//! exist, and one that is no text.

use redb::{ReadableTable, TableDefinition};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use tubewell::{Advance, Backoff, Queue, Retry, Stop, Task, Tube, TubeOptions};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// The files that were put.
const FILES: TableDefinition<&str, ()> = TableDefinition::new("files");
/// File → its lines and words.
const COUNTS: TableDefinition<&str, (u64, u64)> = TableDefinition::new("counts");

/// One step of the work. Returns after it has settled the task or has sent it on.
type Step = fn(&Pipeline, Task) -> Outcome<()>;

struct Pipeline {
    queue: Queue,
    fetch: Tube,
    parse: Tube,
    store: Tube,
    /// The folder of the copies.
    copies: PathBuf,
    stop: Stop,
}

fn main() -> Outcome<()> {
    let mut files: Vec<String> = std::env::args().skip(1).collect();
    if files.is_empty() {
        files = some_files()?;
    }
    let home = Path::new("pipeline.work");
    fs::create_dir_all(home.join("copies"))?;
    let queue = Queue::open(home.join("queue"))?;
    let options = TubeOptions::default().max_attempts(3).backoff(Backoff::NONE);
    let tube = |name| queue.create_tube(name, options.clone().if_not_exists());
    let pipeline = Pipeline {
        fetch: tube("fetch")?,
        parse: tube("parse")?,
        store: tube("store")?,
        copies: home.join("copies"),
        stop: Stop::new(),
        queue,
    };
    pipeline.put(&files)?;
    pipeline.run()?;
    pipeline.tell()?;
    pipeline.queue.close()?;
    Ok(fs::remove_dir_all(home)?)
}

/// The sources of the examples, a file that does not exist, and one that is no text.
fn some_files() -> Outcome<Vec<String>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut files = vec![folder.join("missing.txt"), std::env::current_exe()?];
    for entry in fs::read_dir(folder)? {
        files.push(entry?.path());
    }
    Ok(files.into_iter().map(|file| file.to_string_lossy().into_owned()).collect())
}

impl Pipeline {
    /// Puts the files that were not put by an earlier run. The list and the tasks are one commit.
    fn put(&self, files: &[String]) -> Outcome<()> {
        let done = self.queue.transact(|tx| -> Outcome<()> {
            for file in files {
                let is_new = tx.table(FILES)?.insert(file.as_str(), ())?.is_none();
                if is_new {
                    self.fetch.put_in(tx, file.as_bytes())?;
                }
            }
            Ok(())
        });
        Ok(done?)
    }

    /// Works until every file is counted or set aside, one thread for each step.
    fn run(&self) -> Outcome<()> {
        if self.is_done()? {
            return Ok(());
        }
        let steps: [(&Tube, Step); 3] =
            [(&self.fetch, Self::fetch), (&self.parse, Self::parse), (&self.store, Self::store)];
        thread::scope(|scope| {
            let workers = steps.map(|(tube, step)| {
                scope.spawn(move || self.work(tube, step).inspect_err(|_| self.stop.stop()))
            });
            workers.into_iter().try_for_each(|worker| worker.join().expect("a worker panicked"))
        })
    }

    fn work(&self, tube: &Tube, step: Step) -> Outcome<()> {
        while let Some(task) = tube.take_until(&self.stop)? {
            step(self, task)?;
            if self.is_done()? {
                self.stop.stop();
            }
        }
        Ok(())
    }

    /// Whether no tube has more than buried tasks. They are looked at in the order of the steps, so
    /// that a task that goes on meanwhile is not overlooked.
    fn is_done(&self) -> Outcome<bool> {
        for tube in [&self.fetch, &self.parse, &self.store] {
            let stats = tube.stats()?;
            if stats.total > stats.buried {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Copies the file, so that the next step reads what does not change. Passes on the copy's
    /// name.
    fn fetch(&self, mut task: Task) -> Outcome<()> {
        let file = String::from_utf8(task.to_vec())?;
        let bytes = match fs::read(&file) {
            Ok(bytes) => bytes,
            Err(error) => return Ok(task.retry_with(Retry::new(error).group("unreadable"))?),
        };
        let copy = self.copies.join(task.id().to_string());
        fs::write(&copy, bytes)?;
        let name = copy.to_string_lossy();
        Ok(task.advance_with(&self.parse, Advance::new().result(name.as_bytes()))?)
    }

    /// Counts, and passes on the counts.
    fn parse(&self, mut task: Task) -> Outcome<()> {
        let copy = String::from_utf8(task.passed()?.unwrap_or_default())?;
        let Ok(text) = String::from_utf8(fs::read(&copy)?) else {
            return Ok(task.fail("no text", "it is not UTF-8")?);
        };
        let counts = format!("{} {}", text.lines().count(), text.split_whitespace().count());
        task.advance_with(&self.store, Advance::new().result(counts.as_bytes()))?;
        // After the commit: a kill before it needs the copy again.
        Ok(fs::remove_file(&copy)?)
    }

    /// Stores the counts and ends the task, in one commit.
    fn store(&self, task: Task) -> Outcome<()> {
        let counts = String::from_utf8(task.passed()?.unwrap_or_default())?;
        let (lines, words) = counts.split_once(' ').ok_or("no counts were passed")?;
        let (lines, words) = (lines.parse()?, words.parse()?);
        let file = String::from_utf8(task.to_vec())?;
        let done = self.queue.transact(|tx| -> Outcome<()> {
            tx.table(COUNTS)?.insert(file.as_str(), (lines, words))?;
            Ok(tx.ack(&task)?)
        });
        Ok(done?)
    }

    /// Prints the counts, and why files were set aside.
    fn tell(&self) -> Outcome<()> {
        self.queue.read(|rows| -> Outcome<()> {
            for row in rows.table(COUNTS)?.iter()? {
                let (file, counts) = row?;
                let (lines, words) = counts.value();
                println!("{lines:7} lines {words:7} words  {}", file.value());
            }
            Ok(())
        })?;
        for tube in [&self.fetch, &self.parse] {
            for group in tube.failure_groups()? {
                for task in tube.failed(&group.group) {
                    let file = tube.peek(task?.id)?;
                    let reason = file.reason.as_ref().map(ToString::to_string);
                    let name = String::from_utf8_lossy(&file.payload);
                    println!("{}: {} ({name})", group.group, reason.unwrap_or_default());
                }
            }
        }
        Ok(())
    }
}
