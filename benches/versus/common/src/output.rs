//! The line of JSON.

use crate::Args;
use std::fmt::Write;

pub(crate) struct Line(String);

impl Line {
    pub(crate) fn new(args: &Args) -> Self {
        Self(format!("{{\"peer\":\"{}\",\"workload\":\"{}\"", args.peer, args.workload))
    }

    pub(crate) fn number(&mut self, name: &str, value: Option<f64>) {
        if let Some(value) = value {
            let _ = write!(self.0, ",\"{name}\":{value}");
        }
    }

    pub(crate) fn print(self) {
        println!("{}}}", self.0);
    }
}

/// The median and the 99th percentile of times in nanoseconds, in microseconds.
pub(crate) fn shares(mut times: Vec<u32>) -> Option<(f64, f64)> {
    times.sort_unstable();
    let at = |share: f64| {
        let place = ((times.len() as f64 * share) as usize).min(times.len().checked_sub(1)?);
        Some(f64::from(times[place]) / 1000.0)
    };
    Some((at(0.5)?, at(0.99)?))
}
