//! Runs every peer on every workload in turns, and writes the tables and plots.
//!
//! `benches/versus/run` builds what is needed and starts it.

mod page;
mod peers;
mod plot;
mod rows;
mod turn;

use peers::{PEERS, Peer};
use rows::Row;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::PathBuf;
use turn::{Ended, Turn};

/// How the command line wants it.
pub struct Plan {
    quick: bool,
    /// Also ten million tasks deep.
    deep: bool,
    /// Only prints what `benches/against` measures.
    lists: bool,
    filter: Option<String>,
    rounds: usize,
    /// How long a turn is.
    millis: u64,
    /// Where the binaries are, and where what is not published goes.
    binaries: PathBuf,
    out: PathBuf,
    /// The repository.
    root: PathBuf,
}

impl Plan {
    fn read() -> Result<Self, String> {
        let variable = |name: &str| std::env::var_os(name).ok_or(format!("{name} is not set"));
        let mut plan = Self {
            quick: false,
            deep: false,
            lists: false,
            filter: None,
            rounds: 5,
            millis: 1000,
            binaries: variable("VERSUS_BINARIES")?.into(),
            out: variable("VERSUS_OUT")?.into(),
            root: variable("VERSUS_ROOT")?.into(),
        };
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            let mut number = || {
                let value = words.next().unwrap_or_default();
                value.parse::<u64>().map_err(|error| format!("{word} {value}: {error}"))
            };
            match word.as_str() {
                "--quick" => (plan.quick, plan.rounds, plan.millis) = (true, 1, 200),
                "--deep" => plan.deep = true,
                "--rows" => plan.lists = true,
                "--rounds" => plan.rounds = number()? as usize,
                "--millis" => plan.millis = number()?,
                flag if flag.starts_with('-') => return Err(format!("what is {flag}?")),
                _ => plan.filter = Some(word),
            }
        }
        Ok(plan)
    }

    /// Only a whole run is published.
    fn publishes(&self) -> bool {
        !self.quick && self.filter.is_none()
    }
}

/// What each peer did in each round of each row: by row, by peer, and then by round.
pub type Turns = BTreeMap<(usize, &'static str), Vec<Option<Turn>>>;

fn main() {
    if std::env::args().nth(1).is_some_and(|word| word == "--list") {
        return PEERS.iter().for_each(|peer| println!("{}\t{}", peer.binary, peer.name));
    }
    let plan = Plan::read().unwrap_or_else(|error| {
        eprintln!("{error}");
        std::process::exit(2)
    });
    let rows: Vec<Row> = rows::rows(&plan);
    if plan.lists {
        return rows.iter().for_each(|row| println!("{}", row.of("tubewell")));
    }
    let wanted = |row: &&Row| plan.filter.as_ref().is_none_or(|part| row.name().contains(part));
    let chosen: Vec<(usize, &Row)> =
        rows.iter().enumerate().filter(|(_, row)| wanted(row)).collect();
    std::fs::create_dir_all(&plan.out).expect("a folder for the results");
    let log = std::fs::File::create(plan.out.join("turns.jsonl"));
    let mut log = log.expect("a file for the turns");
    let load = || std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    eprintln!("load before: {}", load().trim());

    let mut missing: BTreeSet<&str> = PEERS
        .iter()
        .map(|peer| peer.binary)
        .filter(|binary| !plan.binaries.join(binary).exists())
        .collect();
    missing.iter().for_each(|binary| eprintln!("{binary} is not built, its peers are skipped"));
    let mut turns = Turns::new();
    for round in 0..plan.rounds {
        for (number, row) in &chosen {
            eprintln!("round {} of {}: {}", round + 1, plan.rounds, row.name());
            let peers: Vec<&Peer> = row.peers();
            for place in 0..peers.len() {
                // No peer always runs after the same other one.
                let peer = peers[(place + round) % peers.len()];
                if round > 0 && row.once.contains(&peer.name) {
                    continue;
                }
                if missing.contains(peer.binary) || missing.contains(peer.name) {
                    continue;
                }
                let turn = match turn::run(&plan, row, peer) {
                    Ended::Well(turn) => Some(turn),
                    Ended::NotInstalled => {
                        eprintln!("{} is not installed, it is skipped", peer.name);
                        missing.insert(peer.name);
                        continue;
                    }
                    Ended::Badly(why) => {
                        eprintln!("  {}: {why}", peer.name);
                        None
                    }
                };
                if let Some(turn) = &turn {
                    let _ = writeln!(log, "{}", turn.line);
                }
                turns.entry((*number, peer.name)).or_default().push(turn);
            }
        }
    }
    page::write(&plan, &rows, &turns);
    eprintln!("load after: {}", load().trim());
}
