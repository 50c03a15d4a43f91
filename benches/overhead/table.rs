//! The table of results and their markers.

use std::fmt;

use crate::stats::median;

/// A distance marker of the design.
#[derive(Clone, Copy)]
pub(crate) enum Marker {
    /// For the ratio of mcpd to its baseline.
    RatioAtMost(f64),
    RatioAtLeast(f64),
    /// For the ratio of added cost to its baseline, in a separate row.
    AddedAtMost(f64),
    /// For the difference of the last path to its baseline, in a separate row.
    MoreAtMost(f64),
    /// For an absolute value of mcpd.
    AtMost(f64),
    /// Reported without a marker.
    None,
}

impl Marker {
    /// The printed marker, and whether it is met.
    fn judge(self, value: f64, ratio: f64, unit: &str) -> (String, &'static str) {
        let (text, is_met) = match self {
            Self::RatioAtMost(limit) | Self::AddedAtMost(limit) => (format!("≤ {limit}×"), ratio <= limit),
            Self::RatioAtLeast(limit) => (format!("≥ {limit}×"), ratio >= limit),
            Self::AtMost(limit) | Self::MoreAtMost(limit) => (format!("≤ {limit} {unit}"), value <= limit),
            Self::None => return (String::new(), ""),
        };
        (text, if is_met { "ok" } else { "over" })
    }
}

pub(crate) struct Table {
    /// Markers apply to the last path.
    ways: [&'static str; 3],
    /// The index of the baseline path.
    base: usize,
    rows: Vec<[String; 7]>,
}

impl Table {
    pub(crate) fn new(ways: [&'static str; 3], base: usize) -> Self {
        Self { ways, base, rows: Vec::new() }
    }

    /// A row of all three paths, with one value per round.
    ///
    /// The ratio is the median of the rounds' ratios, since adjacent measurements share noise.
    pub(crate) fn compare(&mut self, what: &str, unit: &str, rounds: &[Vec<f64>; 3], marker: Marker) {
        if let Marker::MoreAtMost(_) = marker {
            self.push_compared(what, unit, rounds, Marker::None);
            let more = rounds[2].iter().zip(&rounds[self.base]).map(|(way, base)| way - base);
            return self.single(&format!("{what}, added"), unit, median(more), marker);
        }
        if let Marker::AddedAtMost(_) = marker {
            self.push_compared(what, unit, rounds, Marker::None);
            let base = &rounds[self.base];
            let added = |way: &Vec<f64>| way.iter().zip(base).map(|(way, base)| way - base).collect();
            let mut added: [Vec<f64>; 3] = rounds.each_ref().map(added);
            added[self.base].clone_from(base);
            return self.push_compared(&format!("{what}, added"), unit, &added, marker);
        }
        self.push_compared(what, unit, rounds, marker);
    }

    fn push_compared(&mut self, what: &str, unit: &str, rounds: &[Vec<f64>; 3], marker: Marker) {
        let ratio = median(rounds[2].iter().zip(&rounds[self.base]).map(|(mcpd, base)| mcpd / base));
        let medians = rounds.each_ref().map(|side| median(side.iter().copied()));
        self.push(what, unit, medians, ratio, marker);
    }

    /// A row of the last path alone.
    pub(crate) fn single(&mut self, what: &str, unit: &str, value: f64, marker: Marker) {
        self.push(what, unit, [f64::NAN, f64::NAN, value], f64::NAN, marker);
    }

    fn push(&mut self, what: &str, unit: &str, values: [f64; 3], ratio: f64, marker: Marker) {
        let (marker, verdict) = marker.judge(values[2], ratio, unit);
        let [first, second, mcpd] = values.map(number);
        let ratio = if ratio.is_nan() { number(ratio) } else { format!("{ratio:.2}×") };
        self.rows.push([format!("{what} ({unit})"), first, second, mcpd, ratio, marker, verdict.to_owned()]);
    }
}

/// About three significant digits, and a dash for missing values.
fn number(value: f64) -> String {
    match value {
        value if value.is_nan() || value == 0.0 => "–".to_owned(),
        value if value < 10.0 => format!("{value:.2}"),
        value if value < 100.0 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

impl fmt::Display for Table {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, second, mcpd] = self.ways;
        let ratio = format!("{mcpd} ÷ {}", self.ways[self.base]);
        let header = ["", first, second, mcpd, &ratio, "marker", ""].map(str::to_owned);
        let rows: Vec<_> = std::iter::once(&header).chain(&self.rows).collect();
        let widths: [usize; 7] =
            std::array::from_fn(|at| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0));
        for (number, row) in rows.into_iter().enumerate() {
            write!(out, "| {:1$} |", row[0], widths[0])?;
            row.iter().zip(widths).skip(1).try_for_each(|(cell, width)| write!(out, " {cell:>width$} |"))?;
            writeln!(out)?;
            if number == 0 {
                widths.iter().try_for_each(|width| write!(out, "|{:-<1$}", "", width + 2))?;
                writeln!(out, "|")?;
            }
        }
        Ok(())
    }
}
