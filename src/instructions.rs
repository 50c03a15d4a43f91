//! Combines the `instructions` of servers into one text (MCP 2025-11-25, `basic/lifecycle`). Pure.

/// Maximum bytes of one server's instructions.
const EACH: usize = 8 << 10;
/// Maximum bytes of all instructions, without mcpd's own notes.
const ALL: usize = 32 << 10;
/// With less space left, a text is omitted instead of cut.
const WORTHWHILE: usize = 256;

/// The instructions of `each` server (name, text) under a heading with its name, in order. `None` if there are none.
pub(crate) fn combine<'a>(each: impl Iterator<Item = (&'a str, &'a str)>) -> Option<String> {
    let (mut all, mut left_out) = (String::new(), 0);
    let texts = each.map(|(server, text)| (server, text.trim())).filter(|(_, text)| !text.is_empty());
    for (server, text) in texts {
        let text = &cut(text, EACH);
        let heading = format!("{}# {server}\n\n", if all.is_empty() { "" } else { "\n\n" });
        let room = ALL.saturating_sub(all.len() + heading.len());
        if text.len() > room && room < WORTHWHILE {
            left_out += 1;
        } else {
            all += &(heading + &cut(text, room));
        }
    }
    if left_out > 0 {
        all += &format!("\n\n[mcpd leaves out what servers say beyond {ALL} bytes: {left_out} more have instructions]");
    }
    (!all.is_empty()).then_some(all)
}

/// At most `most` bytes of `text`, cut between characters, with a note if it was cut.
pub(crate) fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = (0..=most).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    format!("{}\n[cut by mcpd after {end} of {} bytes]", &text[..end], text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stands_under_its_servers_name_in_order() {
        assert_eq!(combine([("b", "one"), ("a", "two")].into_iter()).as_deref(), Some("# b\n\none\n\n# a\n\ntwo"));
        assert_eq!(combine(std::iter::empty()), None);
        assert_eq!(combine([("a", " \n"), ("b", " x\n")].into_iter()).as_deref(), Some("# b\n\nx"));
    }

    #[test]
    fn long_instructions_are_cut_between_characters_with_a_notice() {
        let text = cut(&format!("x{}", "é".repeat(EACH)), EACH);
        let (cut, notice) = text.split_once('\n').expect("two lines");
        assert_eq!((cut.len(), cut.chars().skip(1).all(|c| c == 'é')), (EACH - 1, true));
        assert_eq!(notice, format!("[cut by mcpd after {} of {} bytes]", EACH - 1, 2 * EACH + 1));
    }

    #[test]
    fn all_together_are_bounded_whatever_their_number() {
        let long = "x".repeat(EACH);
        let each: Vec<_> = (0..1000).map(|n| format!("s{n}")).collect();
        let all = combine(each.iter().map(|name| (&**name, &*long))).expect("a text");
        assert!(all.len() < ALL + 300, "{}", all.len());
        assert!(all.contains("# s3\n") && all.ends_with("996 more have instructions]"), "{}", &all[ALL - 100..]);
    }
}
