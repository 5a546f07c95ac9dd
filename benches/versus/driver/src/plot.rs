//! Plain SVG: for each of a row of places a group of bars, on a logarithmic scale.

use std::fmt::Write;

pub struct Series {
    pub label: String,
    pub values: Vec<Option<f64>>,
}

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 340.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 170.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 40.0;

/// Grey for the first, which the others are set against.
const COLOURS: [&str; 12] = [
    "#999999", "#0b5fa5", "#e07b39", "#4a9c5d", "#b5484f", "#7d5ba6", "#8c6d46", "#d58bb5",
    "#5fb3b3", "#b8a12f", "#34495e", "#c0c0c0",
];

pub fn plot(title: &str, unit: &str, places: &[&str], series: &[Series]) -> String {
    let values = || series.iter().flat_map(|series| series.values.iter().flatten().copied());
    let most = values().fold(f64::MIN_POSITIVE, f64::max);
    let least = values().fold(most, f64::min).max(most / 1e7);
    // Whole powers of ten round the values.
    let (low, high) = (least.log10().floor(), (most * 1.001).log10().ceil());
    let (wide, high_px) = (WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM);
    let y = |value: f64| {
        let share = (value.max(least).log10() - low) / (high - low).max(1.0);
        TOP + high_px * (1.0 - share)
    };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"20\" font-size=\"14\">{title}, {unit}</text>\n"
    );
    let mut power = low;
    while power <= high {
        let at = y(10f64.powf(power));
        let label = short(10f64.powf(power));
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{:.0}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#dddddd\"/>\
             <text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
            LEFT + wide,
            LEFT - 8.0,
            at + 4.0,
        );
        power += 1.0;
    }
    let group = wide / places.len().max(1) as f64;
    let bar = group * 0.85 / series.len().max(1) as f64;
    for (place, name) in places.iter().enumerate() {
        let from = LEFT + group * (place as f64 + 0.075);
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{name}</text>",
            LEFT + group * (place as f64 + 0.5),
            HEIGHT - BOTTOM + 18.0,
        );
        for (number, one) in series.iter().enumerate() {
            let Some(value) = one.values.get(place).copied().flatten() else { continue };
            let (at, foot) = (y(value), TOP + high_px);
            let _ = writeln!(
                svg,
                "<rect x=\"{:.1}\" y=\"{at:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{}\">\
                 <title>{}, {name}: {}</title></rect>",
                from + bar * number as f64,
                bar * 0.9,
                (foot - at).max(1.0),
                COLOURS[number % COLOURS.len()],
                one.label,
                short(value),
            );
        }
    }
    for (number, one) in series.iter().enumerate() {
        let (x, at) = (LEFT + wide + 16.0, TOP + 18.0 * number as f64);
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.0}\" y=\"{at:.0}\" width=\"12\" height=\"12\" fill=\"{}\"/>\
             <text x=\"{:.0}\" y=\"{:.0}\">{}</text>",
            COLOURS[number % COLOURS.len()],
            x + 18.0,
            at + 10.0,
            one.label,
        );
    }
    svg + "</svg>\n"
}

fn short(value: f64) -> String {
    match value {
        v if v >= 1e6 => format!("{} M", round(v / 1e6)),
        v if v >= 1e4 => format!("{} k", round(v / 1e3)),
        v => round(v),
    }
}

fn round(value: f64) -> String {
    let digits =
        if value >= 100.0 { 0 } else { (2 - value.log10().floor() as i32).max(0) as usize };
    let text = format!("{value:.digits$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}
