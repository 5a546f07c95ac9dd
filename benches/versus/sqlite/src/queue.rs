//! A queue in two tables: what is ready, in the order in which it is taken, and what is taken. The
//! ready table is its own index, so a put touches one page. With delays there is a third table.

use rusqlite::{CachedStatement, Connection, OptionalExtension, params, params_from_iter};
use versus_common::{Delayed, Delays, Done, Engine, Folder, Op, Promoted};

pub struct Sqlite {
    connection: Connection,
    durable: bool,
    /// Whether the next commit would be synced as the connection stands.
    synced: bool,
    next: i64,
}

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS ready (
        priority INTEGER NOT NULL,
        id INTEGER NOT NULL,
        attempts INTEGER NOT NULL DEFAULT 0,
        task BLOB NOT NULL,
        PRIMARY KEY (priority, id)
    ) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS taken (
        id INTEGER PRIMARY KEY,
        priority INTEGER NOT NULL,
        attempts INTEGER NOT NULL,
        task BLOB NOT NULL
    );";

/// What is not due, in the order in which it falls due.
const DELAYED: &str = "
    CREATE TABLE IF NOT EXISTS delayed (
        due INTEGER NOT NULL,
        id INTEGER NOT NULL,
        priority INTEGER NOT NULL,
        task BLOB NOT NULL,
        PRIMARY KEY (due, id)
    ) WITHOUT ROWID";

impl Engine for Sqlite {
    fn open(folder: &Folder, durable: bool) -> Self {
        let connection = Connection::open(folder.join("queue.sqlite")).unwrap();
        connection.pragma_update(None, "journal_mode", "WAL").unwrap();
        connection.pragma_update(None, "synchronous", "NORMAL").unwrap();
        // One process, as with the others: no lock calls and no shared memory per commit.
        connection.pragma_update(None, "locking_mode", "EXCLUSIVE").unwrap();
        // As much cache as tubewell has by default. A longer log than SQLite's own 4 MiB: it has to
        // stop for a checkpoint less often; one beyond this gained nothing.
        connection.pragma_update(None, "cache_size", -(32 << 10)).unwrap();
        connection.pragma_update(None, "wal_autocheckpoint", 8192).unwrap();
        connection.pragma_update(None, "temp_store", "MEMORY").unwrap();
        connection.execute_batch(TABLES).unwrap();
        connection.set_prepared_statement_cache_capacity(32);
        let highest = "SELECT max(
            coalesce((SELECT max(id) FROM taken), 0),
            coalesce((SELECT max(id) FROM ready WHERE priority = ?1), 0))";
        let highest = |priority: u8| -> i64 {
            let mut statement = connection.prepare_cached(highest).unwrap();
            statement.query_row([priority], |row| row.get(0)).unwrap()
        };
        let next = (0..=u8::MAX).map(highest).max().unwrap_or(0) + 1;
        Self { connection, durable, synced: false, next }
    }

    fn run(&mut self, ops: &[Op], done: &mut Vec<Done>) {
        self.sync(self.durable && ops.iter().any(Op::must_last));
        // A single put or ack is one statement, which is a commit of its own.
        let alone = matches!(ops, [Op::Put(..) | Op::Ack(_)]);
        if !alone {
            self.statement("BEGIN IMMEDIATE").execute([]).unwrap();
        }
        for op in ops {
            done.push(match op {
                Op::Put(priority, task) => self.put(*priority, task),
                Op::Take => self.take(None),
                Op::TakeOf(priority) => self.take(Some(*priority)),
                Op::Ack(id) => {
                    let mut ack = self.statement("DELETE FROM taken WHERE id = ?1");
                    ack.execute([*id as i64]).unwrap();
                    Done::Nothing
                }
            });
        }
        if !alone {
            self.statement("COMMIT").execute([]).unwrap();
        }
    }
}

impl Sqlite {
    /// Says whether the next commit is synced: a take may be lost, so that of a take is not. This
    /// is parsed each time, which costs less than a second connection that drops its cache whenever
    /// the first one commits.
    fn sync(&mut self, synced: bool) {
        if synced != self.synced {
            let level = if synced { "FULL" } else { "NORMAL" };
            self.connection.pragma_update(None, "synchronous", level).unwrap();
            self.synced = synced;
        }
    }

    /// Prepared once.
    fn statement(&self, sql: &str) -> CachedStatement<'_> {
        self.connection.prepare_cached(sql).unwrap()
    }

    fn put(&mut self, priority: u8, task: &[u8]) -> Done {
        let id = self.next;
        self.next += 1;
        let mut put = self.statement("INSERT INTO ready (priority, id, task) VALUES (?1, ?2, ?3)");
        put.execute(params![priority, id, task]).unwrap();
        Done::Nothing
    }

    fn take(&self, priority: Option<u8>) -> Done {
        let first = match priority {
            None => "SELECT priority, id, attempts, task FROM ready ORDER BY priority, id LIMIT 1",
            Some(_) => {
                "SELECT priority, id, attempts, task FROM ready WHERE priority = ?1
                 ORDER BY id LIMIT 1"
            }
        };
        let mut first = self.statement(first);
        let mut rows = first.query(params_from_iter(priority)).unwrap();
        let Some(row) = rows.next().unwrap() else { return Done::Nothing };
        let key: (u8, i64) = (row.get(0).unwrap(), row.get(1).unwrap());
        let (attempts, task): (i64, Vec<u8>) = (row.get(2).unwrap(), row.get(3).unwrap());
        drop(rows);
        let delete = "DELETE FROM ready WHERE priority = ?1 AND id = ?2";
        self.statement(delete).execute(params![key.0, key.1]).unwrap();
        let insert = "INSERT INTO taken (id, priority, attempts, task) VALUES (?1, ?2, ?3, ?4)";
        let mut insert = self.statement(insert);
        insert.execute(params![key.1, key.0, attempts + 1, task]).unwrap();
        Done::Took(key.1 as u64, task)
    }
}

impl Delays for Sqlite {
    fn delay(&mut self, tasks: Vec<Delayed>) {
        self.sync(self.durable);
        self.statement("BEGIN IMMEDIATE").execute([]).unwrap();
        self.statement(DELAYED).execute([]).unwrap();
        let first = self.next;
        self.next += tasks.len() as i64;
        let put = "INSERT INTO delayed (due, id, priority, task) VALUES (?1, ?2, ?3, ?4)";
        let mut put = self.statement(put);
        for (id, Delayed { due, priority, task }) in (first..).zip(tasks) {
            put.execute(params![due as i64, id, priority, task]).unwrap();
        }
        drop(put);
        self.statement("COMMIT").execute([]).unwrap();
    }

    fn promote(&mut self, now: u64, most: usize) -> Promoted {
        self.sync(false);
        self.statement("BEGIN IMMEDIATE").execute([]).unwrap();
        // The first that stays, if more are due than are moved.
        let end = "SELECT due, id FROM delayed WHERE due <= ?1 ORDER BY due, id LIMIT 1 OFFSET ?2";
        let mut end = self.statement(end);
        let end = end.query_row(params![now as i64, most as i64], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))
        });
        let end = end.optional().unwrap().unwrap_or((now as i64 + 1, 0));
        let copy = "INSERT INTO ready (priority, id, task)
            SELECT priority, id, task FROM delayed WHERE (due, id) < (?1, ?2) ORDER BY due, id";
        let tasks = self.statement(copy).execute(end).unwrap();
        let delete = "DELETE FROM delayed WHERE (due, id) < (?1, ?2)";
        self.statement(delete).execute(end).unwrap();
        let next = "SELECT due FROM delayed ORDER BY due, id LIMIT 1";
        let next = self.statement(next).query_row([], |row| row.get::<_, i64>(0));
        let next = next.optional().unwrap().map(|due| due as u64);
        self.statement("COMMIT").execute([]).unwrap();
        Promoted { tasks, next }
    }
}
