//! What a server writes to stderr: always drained, kept in a bounded ring.

use std::collections::VecDeque;

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::watch;

/// Longest line kept, in bytes; the rest of it is dropped.
const MAX_LINE: usize = 4 << 10;
/// Most bytes kept of all lines together; the oldest go first.
const MAX_BYTES: usize = 64 << 10;

/// What a line costs beside its text, so that many short ones are bounded too.
const LINE_COST: usize = 32;

/// The last lines of a server's stderr, over all its instances.
#[derive(Debug, Default)]
pub struct StderrRing {
    lines: VecDeque<String>,
    bytes: usize,
}

impl StderrRing {
    /// The last `count` lines, oldest first, without control characters.
    #[must_use]
    pub fn last(&self, count: usize) -> Vec<String> {
        self.lines.iter().skip(self.lines.len().saturating_sub(count)).cloned().collect()
    }

    fn push(&mut self, line: &[u8]) {
        let printable = |c: char| if c.is_control() && c != '\t' { '\u{fffd}' } else { c };
        let text = String::from_utf8_lossy(line).trim_end().chars().map(printable).collect::<String>();
        if text.is_empty() {
            return;
        }
        self.bytes += text.len() + LINE_COST;
        self.lines.push_back(text);
        while self.bytes > MAX_BYTES {
            let Some(oldest) = self.lines.pop_front() else { break };
            self.bytes -= oldest.len() + LINE_COST;
        }
    }
}

/// Reads `pipe` until every process that holds it is gone.
pub(super) async fn drain(mut pipe: pipe::Receiver, ring: watch::Sender<StderrRing>) {
    let mut buffer = vec![0; MAX_LINE];
    let mut line = Vec::new();
    while let Ok(read @ 1..) = pipe.read(&mut buffer).await {
        ring.send_modify(|ring| {
            for part in buffer[..read].split_inclusive(|byte| *byte == b'\n') {
                let room = MAX_LINE - line.len().min(MAX_LINE);
                line.extend_from_slice(&part[..part.len().min(room)]);
                if part.ends_with(b"\n") {
                    ring.push(&line);
                    line.clear();
                }
            }
        });
        // With a server that never pauses, the runtime would otherwise look at nobody else for a hundred reads.
        tokio::task::yield_now().await;
    }
    if !line.is_empty() {
        ring.send_modify(|ring| ring.push(&line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_keeps_the_last_lines_within_its_bounds() {
        let mut ring = StderrRing::default();
        for n in 0..100_000 {
            ring.push(format!("line {n}\r\n").as_bytes());
        }
        assert_eq!(ring.last(2), ["line 99998", "line 99999"]);
        assert!(ring.bytes <= MAX_BYTES);
        ring.push(b"\x1b[31mred\xff");
        assert_eq!(ring.last(1), ["\u{fffd}[31mred\u{fffd}"]);
    }
}
