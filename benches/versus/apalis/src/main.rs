//! apalis-sqlite: tasks in SQLite, run by workers of its own on tokio. Its take and ack are inside
//! these workers, so only its puts can be set beside the others'.

use apalis_core::task::builder::TaskBuilder;
use apalis_sqlite::queries::push_tasks;
use apalis_sqlite::{
    SqliteConnectOptions, SqlitePool, SqlitePoolOptions, SqliteStorage, SqliteTask,
};
use sqlx::sqlite::{SqliteJournalMode, SqliteSynchronous};
use std::process::ExitCode;
use tokio::runtime::Runtime;
use versus_common::{Folder, Has, Queue};

fn main() -> ExitCode {
    let args = versus_common::args();
    match args.peer.as_str() {
        "apalis" => versus_common::main(&args, |_, folder| Apalis::open(folder)),
        _ => versus_common::unknown(&args),
    }
}

struct Apalis {
    pool: SqlitePool,
    runtime: Runtime,
}

impl Apalis {
    fn open(folder: &Folder) -> Self {
        let runtime = Runtime::new().unwrap();
        let options = SqliteConnectOptions::new()
            .filename(folder.join("apalis.sqlite"))
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full);
        let pool = runtime.block_on(async {
            // Its setup turns syncs off on the connection that it is given, so this one is closed.
            let first = SqlitePool::connect_with(options.clone()).await.unwrap();
            SqliteStorage::setup(&first).await.unwrap();
            first.close().await;
            // One connection that all wait for: several would only find the file locked.
            SqlitePoolOptions::new().max_connections(1).connect_with(options).await.unwrap()
        });
        Self { pool, runtime }
    }

    /// In one commit.
    fn push(&self, tasks: &[SqliteTask]) {
        self.runtime.block_on(async {
            let mut writing = self.pool.begin().await.unwrap();
            push_tasks(&mut *writing, "versus", tasks).await.unwrap();
            writing.commit().await.unwrap();
        });
    }
}

fn task(task: &[u8], priority: u8) -> SqliteTask {
    // Higher first, with apalis.
    TaskBuilder::new(task.to_vec()).priority(usize::from(u8::MAX - priority)).build()
}

impl Queue for Apalis {
    type Task = ();

    const HAS: Has = Has { takes: false, waiting: false, opening: false, ..Has::USUAL };

    fn put(&self, payload: &[u8], priority: u8) {
        self.push(&[task(payload, priority)]);
    }

    fn put_many(&self, tasks: &[(u8, Vec<u8>)]) {
        let tasks = tasks.iter().map(|(priority, payload)| task(payload, *priority));
        let tasks: Vec<SqliteTask> = tasks.collect();
        self.push(&tasks);
    }

    fn take(&self) -> Option<()> {
        None
    }

    fn ack(&self, (): ()) {}
}
