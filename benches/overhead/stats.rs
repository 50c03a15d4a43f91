//! Medians, since a single slow round reflects the machine.

pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    quantile(values, 0.5)
}

/// The quantile at `rank`.
pub(crate) fn quantile(values: impl IntoIterator<Item = f64>, rank: f64) -> f64 {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    let index = (last as f64 * rank).round() as usize;
    sorted.get(index).copied().unwrap_or(f64::NAN)
}
