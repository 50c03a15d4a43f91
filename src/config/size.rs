//! Parses and prints sizes such as `512MiB`.

const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

/// Parses a size in bytes.
pub(super) fn parse(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit.trim_start() {
        "" | "B" => 1,
        unit => UNITS.iter().find(|(name, _)| *name == unit)?.1,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// The size that a text such as `1GB`, `64 mb` or `2g` means most probably.
pub(super) fn in_binary_units(text: &str) -> Option<String> {
    let (number, unit) = text.trim().split_at(text.trim().find(|c: char| !c.is_ascii_digit())?);
    let initial = unit.trim().get(..1)?.to_uppercase();
    let is_unit = ["", "B", "IB"].contains(&&*unit.trim()[1..].to_uppercase());
    let (name, _) = UNITS.iter().find(|(name, _)| is_unit && name.starts_with(&initial))?;
    (!number.is_empty()).then(|| format!("{number}{name}"))
}

/// Prints a size in the largest unit that divides it.
#[must_use]
pub(crate) fn text(bytes: u64) -> String {
    let unit = UNITS.iter().find(|(_, factor)| bytes >= *factor && bytes.is_multiple_of(*factor));
    unit.map_or_else(|| format!("{bytes}B"), |(name, factor)| format!("{}{name}", bytes / factor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_is_printed_in_its_input_syntax() {
        for (bytes, shown) in [(512 << 20, "512MiB"), (1 << 40, "1024GiB"), (1536 << 10, "1536KiB"), (1000, "1000B")] {
            assert_eq!(text(bytes), shown);
            assert_eq!(parse(shown), Some(bytes));
        }
    }
}
