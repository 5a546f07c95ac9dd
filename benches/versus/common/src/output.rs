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

    /// The median and the 99th percentile, of times that are so many microseconds each.
    pub(crate) fn shares<T: Copy + Ord>(&mut self, mut times: Vec<T>, micros: fn(T) -> f64) {
        times.sort_unstable();
        for (name, share) in [("p50_us", 0.5), ("p99_us", 0.99)] {
            let place = ((times.len() as f64 * share) as usize).min(times.len().saturating_sub(1));
            self.number(name, times.get(place).map(|&time| micros(time)));
        }
    }

    pub(crate) fn print(self) {
        println!("{}}}", self.0);
    }
}

/// Of nanoseconds.
pub(crate) fn micros(nanos: u32) -> f64 {
    f64::from(nanos) / 1000.0
}
