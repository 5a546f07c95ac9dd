//! The tables and the page that they stand on.

use crate::peers::{self, PEERS};
use crate::rows::{Figure, Row, grouped};
use crate::{Plan, Turns, plot};
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

const BEGIN: &str = "<!-- benches/versus/run writes from here -->";
const END: &str = "<!-- to here -->";

const HEAD: &str = "# Benchmarks

tubewell beside what one would pick instead, written by `benches/versus/run`; its README says how to
run it, what is fair about it and what each peer is set to.

";

/// One column of a table: a row's figure.
struct Column<'a> {
    row: &'a Row,
    number: usize,
    figure: Figure,
}

impl Column<'_> {
    fn head(&self) -> String {
        let name = &self.row.column;
        match self.figure {
            Figure::Rate => format!("{name}, tasks/s"),
            Figure::P50 => format!("{name} p50"),
            Figure::P99 => format!("{name} p99"),
            Figure::Seconds => format!("{name}, time"),
            Figure::Memory => format!("{name}, memory"),
            Figure::Anonymous => format!("{name}, without mapped files"),
            Figure::BytesPerOp => format!("{name}, bytes to the device each"),
            Figure::Cost => format!("{name}, µs a task"),
            Figure::WakeUps => format!("{name}, wake-ups"),
            Figure::Processor => format!("{name}, processor time"),
            Figure::Written => format!("{name}, bytes written"),
        }
    }

    /// The figure of each round.
    fn rounds(&self, turns: &Turns, peer: &'static str) -> Vec<Option<f64>> {
        let Some(turns) = turns.get(&(self.number, peer)) else { return Vec::new() };
        let read = |turn: &crate::turn::Turn| match self.figure {
            Figure::Rate => Some(turn.number("ops")? / turn.number("seconds")?),
            Figure::P50 => turn.number("p50_us"),
            Figure::P99 => turn.number("p99_us"),
            Figure::Seconds => turn.number("seconds"),
            Figure::Memory => turn.number("rss_mib"),
            Figure::Anonymous => turn.number("anon_mib"),
            Figure::BytesPerOp => Some(turn.number("bytes_to_device")? / turn.number("ops")?),
            Figure::Cost => Some(turn.number("seconds")? / turn.number("ops")? * 1e6),
            Figure::WakeUps => Some(turn.number("sleeps")? / turn.number("seconds")?),
            Figure::Processor => Some(turn.number("processor_us")? / turn.number("seconds")?),
            Figure::Written => Some(turn.number("bytes_written")? / turn.number("seconds")?),
        };
        turns.iter().map(|turn| turn.as_ref().and_then(read)).collect()
    }

    fn value(&self, turns: &Turns, peer: &'static str) -> Option<f64> {
        let mut rounds: Vec<f64> = self.rounds(turns, peer).into_iter().flatten().collect();
        rounds.sort_by(f64::total_cmp);
        match self.figure {
            Figure::BytesPerOp => rounds.first().copied(),
            _ => median(&rounds),
        }
    }

    /// The median of the ratios to the twin's turn of the same round.
    fn ratio(&self, turns: &Turns, peer: &'static str) -> Option<f64> {
        let twin = self.row.twin?;
        if self.figure == Figure::BytesPerOp {
            return Some(self.value(turns, peer)? / self.value(turns, twin)?);
        }
        let (mine, its) = (self.rounds(turns, peer), self.rounds(turns, twin));
        let pairs = mine.into_iter().zip(its);
        let mut ratios: Vec<f64> = pairs.filter_map(|(mine, its)| Some(mine? / its?)).collect();
        ratios.sort_by(f64::total_cmp);
        median(&ratios)
    }

    fn cell(&self, turns: &Turns, peer: &'static str) -> String {
        let Some(value) = self.value(turns, peer) else { return "–".into() };
        let value = match self.figure {
            Figure::Rate => grouped(value.round() as u64),
            Figure::P50 | Figure::P99 => time(value / 1e6),
            Figure::Seconds => time(value),
            Figure::Memory | Figure::Anonymous => format!("{value:.0} MiB"),
            Figure::BytesPerOp => format!("{:.1} kB", value / 1000.0),
            Figure::Cost => format!("{value:.2}"),
            Figure::WakeUps => format!("{value:.1}"),
            Figure::Processor => format!("{value:.0} µs"),
            Figure::Written => grouped(value.round() as u64),
        };
        match self.ratio(turns, peer) {
            Some(_) if self.row.twin == Some(peer) => value,
            Some(ratio) if ratio >= 100.0 => format!("{value} ({})", grouped(ratio.round() as u64)),
            Some(ratio) => format!("{value} ({ratio:.2})"),
            None => value,
        }
    }
}

/// In the unit in which it is at least one.
fn time(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 1e-3 => format!("{:.1} µs", seconds * 1e6),
        seconds if seconds < 1.0 => format!("{:.1} ms", seconds * 1e3),
        seconds => format!("{seconds:.2} s"),
    }
}

fn median(sorted: &[f64]) -> Option<f64> {
    let (low, high) =
        (sorted.get((sorted.len().checked_sub(1)?) / 2)?, sorted.get(sorted.len() / 2)?);
    Some((low + high) / 2.0)
}

pub fn write(plan: &Plan, rows: &[Row], turns: &Turns) {
    let (page, plots) = if plan.publishes() {
        (plan.root.join("BENCHMARKS.md"), plan.root.join("benches/versus/plots"))
    } else {
        let name = if plan.quick { "quick.md" } else { "part.md" };
        (plan.out.join(name), plan.out.join("plots"))
    };
    std::fs::create_dir_all(&plots).expect("a folder for the plots");
    let mut text = said(plan);
    let mut sections: Vec<&str> = rows.iter().map(|row| row.section).collect();
    sections.dedup();
    for section in sections {
        let columns: Vec<Column<'_>> = rows
            .iter()
            .enumerate()
            .filter(|(number, row)| {
                row.section == section && turns.keys().any(|key| key.0 == *number)
            })
            .flat_map(|(number, row)| {
                row.figures.iter().map(move |&figure| Column { row, number, figure })
            })
            .collect();
        if columns.is_empty() {
            continue;
        }
        table(&mut text, section, &columns, turns);
        if plan.rounds > 1 {
            note(&mut text, &columns, turns);
        }
        draw(&mut text, section, &columns, turns, &plots);
    }
    settings(&mut text, plan);
    println!("{text}");
    let old = std::fs::read_to_string(&page).unwrap_or_else(|_| format!("{HEAD}{BEGIN}\n{END}\n"));
    let (head, rest) = old.split_once(BEGIN).unwrap_or((&old, ""));
    let tail = rest.split_once(END).map_or("\n", |(_, tail)| tail);
    std::fs::write(&page, format!("{head}{BEGIN}\n\n{text}\n{END}{tail}")).expect("the page");
    eprintln!("written to {}", page.display());
}

/// Where and how it was measured.
fn said(plan: &Plan) -> String {
    let told = |command: &str, args: &[&str]| {
        let output = Command::new(command).args(args).output();
        output
            .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
            .unwrap_or_default()
    };
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name).map(str::to_owned));
        line.unwrap_or_default().trim_start_matches([' ', '\t', ':']).trim().to_owned()
    };
    let memory = field(&read("/proc/meminfo"), "MemTotal");
    let memory: u64 = memory.split(' ').next().and_then(|kib| kib.parse().ok()).unwrap_or(0);
    let data = std::env::var("VERSUS_DIR").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!(
        "{}. {} cores ({}), {:.0} GB, Linux {}, {} on {}. {} rounds, every peer's turn in each of \
         them {} ms; medians, and in brackets the median of the ratios to the first line's turn \
         of the same round. Payloads have 256 bytes unless it says otherwise. A cycle is a put, a \
         take and an ack; durable ones sync the put and the ack.\n\n",
        told("date", &["-u", "+%F"]),
        cores,
        field(&read("/proc/cpuinfo"), "model name"),
        memory as f64 * 1024.0 / 1e9,
        told("uname", &["-r"]),
        told("df", &["--output=fstype", &data]).lines().last().unwrap_or_default(),
        told("df", &["--output=source", &data]).lines().last().unwrap_or_default(),
        plan.rounds,
        plan.millis,
    )
}

fn table(text: &mut String, section: &str, columns: &[Column<'_>], turns: &Turns) {
    let _ = writeln!(text, "## {section}\n");
    let heads: Vec<String> = columns.iter().map(Column::head).collect();
    let _ = writeln!(text, "| | {} |", heads.join(" | "));
    let _ = writeln!(text, "|---|{}", "---|".repeat(columns.len()));
    for (name, label) in members(columns, turns) {
        let cells: Vec<String> = columns.iter().map(|column| column.cell(turns, name)).collect();
        let _ = writeln!(text, "| {label} | {} |", cells.join(" | "));
    }
    text.push('\n');
}

/// Whose figure is not the median of all rounds.
fn note(text: &mut String, columns: &[Column<'_>], turns: &Turns) {
    let mut of_once: Vec<_> = columns.iter().filter(|column| !column.row.once.is_empty()).collect();
    // A row has a column for each of its figures.
    of_once.dedup_by_key(|column| column.number);
    for column in of_once {
        let once = |(name, _): &(&str, &str)| column.row.once.contains(name);
        let members = members(std::slice::from_ref(column), turns);
        let labels: Vec<&str> = members.into_iter().filter(once).map(|(_, label)| label).collect();
        if !labels.is_empty() {
            let (labels, name) = (labels.join(", "), &column.row.column);
            let _ = writeln!(text, "{name} of {labels}: one turn, in the first round.\n");
        }
    }
}

/// Who has a figure in one of the columns, in the order of the columns' lists.
fn members(columns: &[Column<'_>], turns: &Turns) -> Vec<(&'static str, &'static str)> {
    let mut members = Vec::new();
    for column in columns {
        for peer in column.row.peers() {
            let there = turns.contains_key(&(column.number, peer.name));
            if there && !members.contains(&(peer.name, peer.label)) {
                members.push((peer.name, peer.label));
            }
        }
    }
    members
}

fn draw(text: &mut String, section: &str, columns: &[Column<'_>], turns: &Turns, plots: &Path) {
    let members = members(columns, turns);
    let first = columns[0].figure;
    let same: Vec<&Column<'_>> = columns.iter().filter(|column| column.figure == first).collect();
    let names: Vec<&str> = same.iter().map(|column| column.row.column.as_str()).collect();
    let series: Vec<plot::Series> = members
        .iter()
        .map(|(name, label)| {
            let values = same.iter().map(|column| column.value(turns, name)).collect();
            plot::Series { label: label.trim_matches('*').to_owned(), values }
        })
        .collect();
    let unit = match first {
        Figure::Rate => "tasks a second",
        Figure::P50 | Figure::P99 => "µs",
        Figure::Cost => "µs a task",
        Figure::WakeUps => "wake-ups a second",
        _ => "seconds",
    };
    let file = section.to_lowercase().replace(',', "").replace(' ', "-") + ".svg";
    let drawn = plot::plot(section, unit, &names, &series);
    std::fs::write(plots.join(&file), drawn).expect("a plot");
    let _ = writeln!(text, "![{section}](benches/versus/plots/{file})\n");
}

/// What each peer is set to and how often it syncs, as `benches/versus/syncs` counted.
fn settings(text: &mut String, plan: &Plan) {
    let counted = plan.root.join("benches/versus/syncs.tsv");
    let counted = std::fs::read_to_string(counted).unwrap_or_default();
    let syncs = |name: &str| {
        let line = counted.lines().find(|line| line.split('\t').next() == Some(name));
        let mut cells = line.unwrap_or_default().split('\t').skip(1);
        let mut cell = || cells.next().filter(|cell| !cell.is_empty()).unwrap_or("–").to_owned();
        (cell(), cell())
    };
    let _ = writeln!(text, "## What each is set to, and what it syncs\n");
    let _ = writeln!(text, "| | set to | syncs per put | per cycle |\n|---|---|---|---|");
    for peer in PEERS {
        let (put, cycle) = syncs(peer.name);
        let peers::Peer { label, set_to, .. } = peer;
        let _ = writeln!(text, "| {label} | {set_to} | {put} | {cycle} |");
    }
    text.push_str(
        "\nSyncs were counted with strace by `benches/versus/syncs`: fsync, fdatasync, msync and \
         what is written through a descriptor opened for synchronous writing. What happens less \
         often than once in some hundred calls, such as a checkpoint, or by a timer, is hardly in \
         it.\n",
    );
}
