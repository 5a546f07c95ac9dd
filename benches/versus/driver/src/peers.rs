//! Who takes part, and what each is set to.

pub struct Peer {
    /// The name that its binary knows it by.
    pub name: &'static str,
    pub binary: &'static str,
    pub label: &'static str,
    /// Another way of using it, for several threads.
    pub grouped: Option<&'static str>,
    /// From so many threads on.
    grouped_from: usize,
    pub set_to: &'static str,
}

impl Peer {
    pub fn variant(&self, threads: usize) -> &'static str {
        self.grouped.filter(|_| threads >= self.grouped_from).unwrap_or(self.name)
    }
}

pub fn peer(name: &str) -> &'static Peer {
    let peer = PEERS.iter().find(|peer| peer.name == name);
    peer.unwrap_or_else(|| panic!("there is no peer {name}"))
}

const fn peer_of(
    name: &'static str,
    binary: &'static str,
    label: &'static str,
    grouped: Option<&'static str>,
    set_to: &'static str,
) -> Peer {
    Peer { name, binary, label, grouped, grouped_from: 2, set_to }
}

pub static PEERS: &[Peer] = &[
    peer_of(
        "limit",
        "versus-ours",
        "*limit*",
        Some("limit-grouped"),
        "overwriting a preallocated file and fdatasync; several threads: one of them writes and \
         syncs for all that wait. A cycle is two synced records",
    ),
    peer_of(
        "writes",
        "versus-ours",
        "*bare writes*",
        None,
        "the same file without syncs: a cycle is three `write()` calls, the task and twice 32 \
         bytes",
    ),
    peer_of(
        "crossbeam",
        "versus-ours",
        "*crossbeam channel*",
        None,
        "an unbounded channel in memory",
    ),
    peer_of("tubewell", "versus-ours", "tubewell", None, "as it comes: `Durable`"),
    peer_of(
        "tubewell-relaxed",
        "versus-ours",
        "tubewell",
        None,
        "as it comes: `Relaxed`, synced within 50 ms",
    ),
    peer_of(
        "redb",
        "versus-ours",
        "bare redb",
        Some("redb-grouped"),
        "two tables, cache 32 MiB; put and ack are durable commits, take is not",
    ),
    peer_of(
        "sqlite-full",
        "versus-sqlite",
        "SQLite FULL",
        Some("sqlite-full-grouped"),
        "two tables, prepared statements, WAL, exclusive, cache 32 MiB, checkpoints every 32 MiB; \
         put and ack at synchronous=FULL, take at NORMAL",
    ),
    peer_of(
        "sqlite-normal",
        "versus-sqlite",
        "SQLite NORMAL",
        None,
        "the same at synchronous=NORMAL",
    ),
    peer_of(
        "lmdb-sync",
        "versus-lmdb",
        "LMDB",
        Some("lmdb-sync-grouped"),
        "two databases; put and ack synced, take with NO_SYNC",
    ),
    peer_of(
        "lmdb-nosync",
        "versus-lmdb",
        "LMDB nosync",
        None,
        "the same with NO_SYNC: never synced, a power cut may take the whole file",
    ),
    peer_of(
        "lmdb-map",
        "versus-lmdb",
        "LMDB nosync, writable map",
        None,
        "the same with WRITE_MAP",
    ),
    peer_of(
        "fjall-sync",
        "versus-fjall",
        "fjall",
        Some("fjall-sync-grouped"),
        "two keyspaces, a low-water mark for each priority in memory; put and ack at SyncData, \
         take at Buffer",
    ),
    peer_of("fjall-buffered", "versus-fjall", "fjall buffered", None, "the same, all at Buffer"),
    peer_of(
        "effectum",
        "versus-effectum",
        "effectum (NORMAL)",
        None,
        "as it comes: SQLite with a rollback journal at synchronous=NORMAL",
    ),
    peer_of(
        "apalis",
        "versus-apalis",
        "apalis-sqlite",
        None,
        "WAL, synchronous=FULL, one connection",
    ),
    Peer {
        // With fewer its calls wait out ten milliseconds, and alone each is synced in half of one.
        grouped_from: 64,
        ..peer_of(
            "rustqueue",
            "versus-rustqueue",
            "RustQueue",
            Some("rustqueue-grouped"),
            "embedded, on redb, done tasks removed; 64 threads: write coalescing as it comes, 10 \
             ms or 100 calls; a take is synced too",
        )
    },
    peer_of(
        "yaque",
        "versus-yaque",
        "yaque",
        None,
        "as it comes: never synced; first in first out, and a kill gives back what was acked \
         last, up to 250 tasks",
    ),
    peer_of(
        "beanstalkd-sync",
        "versus-servers",
        "beanstalkd -f0",
        None,
        "a log, synced at each write",
    ),
    peer_of("beanstalkd", "versus-servers", "beanstalkd", None, "a log, synced every 50 ms"),
    peer_of(
        "redis-sync",
        "versus-servers",
        "Redis always",
        None,
        "the commands of redis-work-queue; appendfsync always, no snapshots; a take is synced \
         too, it cannot be told otherwise",
    ),
    peer_of(
        "redis",
        "versus-servers",
        "Redis everysec",
        None,
        "the same with appendfsync everysec: synced once a second",
    ),
    peer_of(
        "tarantool-sync",
        "versus-servers",
        "tarantool fsync",
        None,
        "a queue in Lua, a procedure for each verb and one transaction for all that wait; wal_mode \
         fsync; a take is not in the log",
    ),
    peer_of(
        "tarantool",
        "versus-servers",
        "tarantool write",
        None,
        "the same at wal_mode write: never synced",
    ),
];
