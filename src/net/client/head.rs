//! Where the head of an answer ends, in bytes that come in any parts. Pure; what is in it is hyper's to read.
//!
//! Source: RFC 9112, 2.1 "Message Format", 2.2 "Message Parsing"; RFC 9110, 15.2 "Informational 1xx".

/// Where the status stands in the first line: behind `HTTP/1.1` and a space.
const STATUS: std::ops::Range<usize> = 9..12;

/// How much has come of the head.
#[derive(Debug, Default)]
pub(super) struct Head {
    /// Lines that have ended.
    lines: usize,
    /// Bytes of the line that has not.
    line: usize,
    status: [u8; 3],
}

impl Head {
    /// How many of these bytes, which come next, are still of the head, if it ends with them. What is said before the answer is
    /// not its head.
    pub(super) fn end_in(&mut self, bytes: &[u8]) -> Option<usize> {
        for (at, &byte) in bytes.iter().enumerate() {
            match byte {
                b'\n' if self.line > 0 => (self.lines, self.line) = (self.lines + 1, 0),
                // Some begin with an empty line.
                b'\n' if self.lines == 0 => {}
                b'\n' if self.is_interim() => *self = Self::default(),
                b'\n' => return Some(at + 1),
                b'\r' => {}
                _ => {
                    if self.lines == 0 && STATUS.contains(&self.line) {
                        self.status[self.line - STATUS.start] = byte;
                    }
                    self.line += 1;
                }
            }
        }
        None
    }

    /// Whether another one follows it.
    fn is_interim(&self) -> bool {
        self.status[0] == b'1' && self.status != *b"101"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_ends_with_its_first_empty_line_in_whatever_parts_it_comes() {
        for (head, rest) in [
            ("HTTP/1.1 200 OK\r\nA: b\r\n\r\n", "body\r\n\r\n"),
            ("HTTP/1.1 200\r\n\r\n", ""),
            ("\r\nHTTP/1.1 404 Not Found\nA: b\n\n", "\n"),
            ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nA: b\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", "body"),
            ("HTTP/1.1 101 Switching Protocols\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n"),
        ] {
            let whole = format!("{head}{rest}");
            assert_eq!(Head::default().end_in(whole.as_bytes()), Some(head.len()), "{whole:?}");
            let (mut by_byte, mut seen) = (Head::default(), 0);
            let ends = whole.bytes().any(|byte| {
                seen += 1;
                by_byte.end_in(&[byte]) == Some(1)
            });
            assert!(ends && seen == head.len(), "{whole:?} ends at {seen}");
        }
        assert_eq!(Head::default().end_in(b"HTTP/1.1 200 OK\r\nA: b\r\n"), None);
        assert_eq!(Head::default().end_in(b"HTTP/1.1 100 Continue\r\n\r\n"), None);
    }
}
