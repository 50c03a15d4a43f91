//! Numbers and the words `true`, `false` and `null`.

/// The length of the number or word at the start of `text`. `None` if there is none.
#[inline(never)]
pub(super) fn length(text: &[u8]) -> Option<usize> {
    let after = if let [b't' | b'f' | b'n', ..] = text { word(text)? } else { number(text)? };
    Some(text.len() - after.len())
}

#[inline(never)]
fn word(text: &[u8]) -> Option<&[u8]> {
    ["true", "false", "null"].into_iter().find_map(|word| text.strip_prefix(word.as_bytes()))
}

fn number(text: &[u8]) -> Option<&[u8]> {
    let mut after = match text.strip_prefix(b"-").unwrap_or(text) {
        [b'0', after @ ..] => after,
        integer => digits(integer)?,
    };
    if let [b'.', fraction @ ..] = after {
        after = digits(fraction)?;
    }
    if let [b'e' | b'E', exponent @ ..] = after {
        let unsigned = if let [b'-' | b'+', unsigned @ ..] = exponent { unsigned } else { exponent };
        after = digits(unsigned)?;
    }
    Some(after)
}

/// The text after one or more digits.
fn digits(text: &[u8]) -> Option<&[u8]> {
    let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (count > 0).then(|| &text[count..])
}
