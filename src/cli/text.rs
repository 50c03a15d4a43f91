//! A peer's words made fit for a terminal.

/// `text` without control characters but for line ends and tabs: what a server says must not steer the terminal.
pub(super) fn printable(text: &str) -> String {
    let keep = |c: char| !c.is_control() || c == '\n' || c == '\t';
    text.chars().map(|c| if keep(c) { c } else { '\u{fffd}' }).collect()
}

/// The same on one line, and drawn in the order it has: bidirectional controls would draw it in another.
pub(super) fn one_line(text: &str) -> String {
    let is_plain = |c: char| !matches!(c, '\n' | '\t' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    printable(text).chars().map(|c| if is_plain(c) { c } else { '\u{fffd}' }).collect()
}

/// The state of a server, with what a person says of it.
pub(super) fn marked(state: &str, vouched: Option<&str>) -> String {
    vouched.map_or_else(|| state.to_owned(), |word| format!("{state}, marked {}", one_line(word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_cell_can_draw_elsewhere() {
        assert_eq!(one_line("a\u{1b}[2J\n\u{202e}b"), "a\u{fffd}[2J\u{fffd}\u{fffd}b");
    }
}
