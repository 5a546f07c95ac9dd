//! Counts the words of text files in three steps. It may be killed at any moment and run again.
//!
//! ```text
//! cargo run --example pipeline -- FILE...
//! ```
//!
//! A file is one task that goes through three tubes. *fetch* copies it, *parse* counts its lines
//! and words and reports how far it is, *store* adds the counts to a table of the application. Each
//! step passes its result on and goes to the next tube in one commit, and the last one keeps it as
//! the result of the task. A file that cannot be read is tried three times; one that is no text is
//! set aside at once. The task of a folder waits until all its files have ended, and *sum* adds up
//! their results.
//!
//! Nothing is fetched before the condition *started* is set, which is open for one run. The tasks
//! of *fetch* and *parse* share a throttle: two of them read or write files at a time. A schedule
//! puts a task into *clean* each second, which removes the copies that are no longer needed.
//!
//! Stop the program with `kill -9` and run it again with the same files: it goes on where it was,
//! and ends with the same answer. Until then its folder is `pipeline.work`. Without a FILE it takes
//! those of the examples, one that does not exist, and one that is no text.

use redb::{ReadableTable, TableDefinition};
use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;
use tubewell::{
    Advance, Backoff, Ended, Queue, Retention, State, Stop, Task, TaskId, Tube, TubeOptions,
};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// The files that were put → the ids of their tasks.
const FILES: TableDefinition<&str, u64> = TableDefinition::new("files");
/// The tasks that add up the files of a folder → the folder.
const FOLDERS: TableDefinition<u64, &str> = TableDefinition::new("folders");
/// "lines" and "words" → how many all files have. A file that was added twice would be seen here.
const TOTALS: TableDefinition<&str, u64> = TableDefinition::new("totals");

/// Files of a folder that one task adds up, fewer than a task in a transaction may come after.
const FILES_OF_A_SUM: usize = 200;
/// How often a file is tried that cannot be read.
const ATTEMPTS: u32 = 3;
/// Tasks that read or write files at a time, and threads of each step that does.
const BUSY: usize = 2;

/// One step of the work. Returns after it has settled the task or has sent it on.
type Step = fn(&Pipeline, Task) -> Outcome<()>;

struct Pipeline {
    queue: Queue,
    fetch: Tube,
    parse: Tube,
    store: Tube,
    sum: Tube,
    clean: Tube,
    /// The folder of the copies.
    copies: PathBuf,
    stop: Stop,
}

fn main() -> Outcome<()> {
    let mut files: Vec<String> = std::env::args().skip(1).collect();
    if files.is_empty() {
        files = some_files()?;
    }
    let (home, done) = (Path::new("pipeline.work"), Path::new("pipeline.done"));
    fs::create_dir_all(home.join("copies"))?;
    let queue = Queue::open(home.join("queue"))?;
    // Without a limit of attempts: a kill ends an attempt too, and must not set a file aside.
    let options = TubeOptions::default().backoff(Backoff::NONE).if_not_exists();
    let kept = options.clone().keep_finished(Retention::new()); // with their results
    let busy = options.throttle("files");
    queue.set_throttle("files", BUSY as u64)?;
    let pipeline = Pipeline {
        fetch: queue.create_tube("fetch", busy.clone().require("started"))?,
        parse: queue.create_tube("parse", busy)?,
        store: queue.create_tube("store", kept.clone())?,
        sum: queue.create_tube("sum", kept)?,
        clean: queue.tube("clean")?,
        copies: home.join("copies"),
        stop: Stop::new(),
        queue,
    };
    // Made by every run, it goes on as it was.
    let clean = pipeline.queue.schedule("clean").every(Duration::from_secs(1));
    clean.to(&pipeline.clean).make()?;
    pipeline.put(&files)?;
    pipeline.show_earlier_run()?;
    pipeline.queue.set_condition_for_run("started", true)?;
    let (files, folders) = pipeline.run()?;
    pipeline.show(&files, &folders)?;
    pipeline.queue.close()?;
    // A kill in the middle of this must not leave a part of the folder under its name.
    if done.exists() {
        fs::remove_dir_all(done)?;
    }
    fs::rename(home, done)?;
    Ok(fs::remove_dir_all(done)?)
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

/// Lines and words, as one step passes them to the next.
fn counts(passed: Option<Vec<u8>>) -> Outcome<[u64; 2]> {
    let text = String::from_utf8(passed.unwrap_or_default())?;
    let (lines, words) = text.split_once(' ').ok_or("no counts were passed")?;
    Ok([lines.parse()?, words.parse()?])
}

impl Pipeline {
    /// Puts the files that were not put by an earlier run, folder by folder.
    fn put(&self, files: &[String]) -> Outcome<()> {
        let mut folders = BTreeMap::<_, Vec<&str>>::new();
        for file in files {
            let folder = Path::new(file).parent().unwrap_or(Path::new(""));
            folders.entry(folder.to_string_lossy()).or_default().push(file);
        }
        for (folder, files) in folders {
            for files in files.chunks(FILES_OF_A_SUM) {
                self.put_folder(&folder, files)?;
            }
        }
        Ok(())
    }

    /// Puts files of one folder and the task that adds them up. What the tables say of them and the
    /// tasks are one commit.
    fn put_folder(&self, folder: &str, files: &[&str]) -> Outcome<()> {
        let done = self.queue.transact(|tx| -> Outcome<()> {
            tx.table(TOTALS)?; // made, so that it can be read
            let mut ids = Vec::new();
            for file in files {
                let is_new = tx.table(FILES)?.get(*file)?.is_none();
                if is_new {
                    let id = self.fetch.put_in(tx, file.as_bytes())?;
                    tx.table(FILES)?.insert(*file, id.get())?;
                    ids.push(id);
                }
            }
            if !ids.is_empty() {
                let sum = self.sum.task(folder.as_bytes()).after_any_end(ids).put_in(tx)?;
                tx.table(FOLDERS)?.insert(sum.get(), folder)?;
            }
            Ok(())
        });
        Ok(done?)
    }

    /// Shows how far a run was that was killed in the middle of a file.
    fn show_earlier_run(&self) -> Outcome<()> {
        for task in self.parse.tasks(State::Ready) {
            let task = task?;
            if let Some(progress) = &task.progress {
                let file = String::from_utf8_lossy(&task.payload);
                eprintln!("the last run was at {} % of {file}", progress.percent);
            }
        }
        Ok(())
    }

    /// Works until every folder is added up. Returns how the files and the folders have ended.
    fn run(&self) -> Outcome<(Vec<Ended>, Vec<Ended>)> {
        let steps: [(&Tube, usize, Step); 5] = [
            (&self.fetch, BUSY, Self::fetch),
            (&self.parse, BUSY, Self::parse),
            (&self.store, 1, Self::store),
            (&self.sum, 1, Self::sum),
            (&self.clean, 1, Self::clean),
        ];
        thread::scope(|scope| {
            let mut workers = Vec::new();
            for (tube, threads, step) in steps {
                workers.extend((0..threads).map(|_| {
                    scope.spawn(move || self.work(tube, step).inspect_err(|_| self.stop.stop()))
                }));
            }
            let ended = self.folders().and_then(|folders| Ok((self.files()?, folders)));
            self.stop.stop();
            for worker in workers {
                worker.join().expect("a worker panicked")?;
            }
            ended
        })
    }

    fn work(&self, tube: &Tube, step: Step) -> Outcome<()> {
        while let Some(task) = tube.take_until(&self.stop)? {
            step(self, task)?;
        }
        Ok(())
    }

    /// How each file has ended, in the order of their names. All have, once their folder is added
    /// up.
    fn files(&self) -> Outcome<Vec<Ended>> {
        self.wait(self.queue.read(|rows| -> Outcome<Vec<u64>> {
            rows.table(FILES)?.iter()?.map(|row| Ok(row?.1.value())).collect()
        })?)
    }

    /// Waits until every folder is added up. Returns their tasks.
    fn folders(&self) -> Outcome<Vec<Ended>> {
        self.wait(self.queue.read(|rows| -> Outcome<Vec<u64>> {
            rows.table(FOLDERS)?.iter()?.map(|row| Ok(row?.0.value())).collect()
        })?)
    }

    /// Waits for the end of each of these tasks, also of those that an earlier run has ended.
    fn wait(&self, ids: Vec<u64>) -> Outcome<Vec<Ended>> {
        let mut ends = Vec::new();
        for id in ids {
            match self.queue.wait_for_until(TaskId::new(id), &self.stop)? {
                Some(end) => ends.push(end),
                None => break, // a worker has failed
            }
        }
        Ok(ends)
    }

    /// Copies the file, so that the next step reads what does not change. Passes on the copy's
    /// name.
    fn fetch(&self, mut task: Task) -> Outcome<()> {
        let file = String::from_utf8(task.to_vec())?;
        let bytes = match fs::read(&file) {
            Ok(bytes) => bytes,
            Err(error) if task.attempt() < ATTEMPTS => return Ok(task.retry(error)?),
            Err(error) => return Ok(task.fail("unreadable", error)?),
        };
        let copy = self.copies.join(task.id().to_string());
        fs::write(&copy, bytes)?;
        let name = copy.to_string_lossy();
        Ok(task.advance_with(&self.parse, Advance::new().result(name.as_bytes()))?)
    }

    /// Counts, reports each quarter of the file, and passes on the counts.
    fn parse(&self, mut task: Task) -> Outcome<()> {
        let copy = String::from_utf8(task.passed()?.unwrap_or_default())?;
        let Ok(text) = String::from_utf8(fs::read(&copy)?) else {
            return Ok(task.fail("no text", "it is not UTF-8")?);
        };
        let (mut lines, mut words, mut bytes, mut reported) = (0_u64, 0, 0, 0);
        for line in text.split_inclusive('\n') {
            (lines, words) = (lines + 1, words + line.split_whitespace().count());
            bytes += line.len();
            let quarters = bytes * 4 / text.len();
            if quarters > reported {
                task.progress(25 * quarters as u8, &format!("{lines} lines"))?;
                reported = quarters;
            }
        }
        let counts = format!("{lines} {words}");
        Ok(task.advance_with(&self.store, Advance::new().result(counts.as_bytes()))?)
    }

    /// Adds the counts to the totals and ends the task with its result, in one commit.
    fn store(&self, task: Task) -> Outcome<()> {
        let [lines, words] = counts(task.passed()?)?;
        let done = self.queue.transact(|tx| -> Outcome<()> {
            for (name, more) in [("lines", lines), ("words", words)] {
                let mut totals = tx.table(TOTALS)?;
                let so_far = totals.get(name)?.map_or(0, |total| total.value());
                totals.insert(name, so_far + more)?;
            }
            Ok(tx.ack_with(&task, format!("{lines} {words}").as_bytes())?)
        });
        Ok(done?)
    }

    /// Adds up what the files of a folder have as their results. Those that were set aside have
    /// none.
    fn sum(&self, task: Task) -> Outcome<()> {
        let mut sum = [0; 2];
        for file in self.queue.dependencies(task.id())? {
            if let Some(result) = self.queue.find(file)?.result {
                let [lines, words] = counts(Some(result))?;
                sum = [sum[0] + lines, sum[1] + words];
            }
        }
        Ok(task.ack_with(format!("{} {}", sum[0], sum[1]).as_bytes())?)
    }

    /// Removes the copies of the files that are counted or set aside. Before that a kill makes the
    /// step run again, which needs the copy.
    fn clean(&self, task: Task) -> Outcome<()> {
        for copy in fs::read_dir(&self.copies)? {
            let copy = copy?;
            let id = copy.file_name().to_string_lossy().parse()?;
            let file = self.queue.find(TaskId::new(id))?;
            if file.tube == self.store.name() || file.state == State::Buried {
                fs::remove_file(copy.path())?;
            }
        }
        Ok(task.ack()?)
    }

    /// Prints the results, why files were set aside, and the totals.
    fn show(&self, files: &[Ended], folders: &[Ended]) -> Outcome<()> {
        for end in files {
            match end {
                Ended::Done(task) => {
                    let [lines, words] = counts(task.result.clone())?;
                    let file = String::from_utf8_lossy(&task.payload);
                    println!("{lines:7} lines {words:7} words  {file}");
                }
                Ended::Buried(task) => {
                    let reason = task.reason.as_ref().map(ToString::to_string);
                    let file = String::from_utf8_lossy(&task.payload);
                    println!("set aside: {} ({file})", reason.unwrap_or_default());
                }
                end => println!("{end:?}"),
            }
        }
        for end in folders {
            if let Ended::Done(task) = end {
                let [lines, words] = counts(task.result.clone())?;
                let folder = String::from_utf8_lossy(&task.payload);
                println!("{lines:7} lines {words:7} words  in {folder}");
            }
        }
        let total = |name| -> Outcome<u64> {
            let total = self.queue.read(|rows| -> Outcome<u64> {
                Ok(rows.table(TOTALS)?.get(name)?.map_or(0, |total| total.value()))
            });
            Ok(total?)
        };
        println!("{:7} lines {:7} words  in all", total("lines")?, total("words")?);
        Ok(())
    }
}
