//! The question of a DNS message. Pure.
//!
//! Source: RFC 1035, 4.1.

/// The length of the header.
const HEADER: usize = 12;
const MAX_LABEL: u8 = 63;
const MAX_NAME: usize = 255;

/// The host name that a query asks for. `None` if the message is no query.
pub(super) fn question(message: &[u8]) -> Option<String> {
    let (&[_, _, flags, _, _, questions, ..], mut rest) = message.split_at_checked(HEADER)? else { return None };
    if flags & 0x80 != 0 || questions == 0 {
        return None;
    }
    let mut name = Vec::new();
    loop {
        let (&length, tail) = rest.split_first()?;
        if length == 0 {
            break;
        }
        if length > MAX_LABEL || name.len() > MAX_NAME {
            return None;
        }
        let (label, tail) = tail.split_at_checked(usize::from(length))?;
        if !name.is_empty() {
            name.push(b'.');
        }
        name.extend_from_slice(label);
        rest = tail;
    }
    (!name.is_empty()).then(|| String::from_utf8_lossy(&name).to_lowercase())
}
