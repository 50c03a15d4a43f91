//! What a person pastes while something else is waited for, too.

use std::future::{pending, poll_fn};

use crate::shim::Input;

/// Longest line that is taken, in bytes: no address is longer.
const LONGEST: usize = 16 << 10;

/// Standard input, line by line.
pub(super) struct Pasted {
    /// `None` once it has ended.
    input: Option<Input>,
    read: Vec<u8>,
}

impl Pasted {
    pub(super) fn open() -> Self {
        Self { input: Input::open().ok(), read: Vec::new() }
    }

    /// The next line that is not empty; never if there is none any more.
    pub(super) async fn line(&mut self) -> String {
        loop {
            while let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line).trim().to_owned();
                if !line.is_empty() {
                    return line;
                }
            }
            let Some(input) = &self.input else { return pending().await };
            let mut room = [0; 4096];
            match poll_fn(|cx| input.poll_read(cx, &mut room)).await {
                Ok(read @ 1..) => self.read.extend_from_slice(&room[..read]),
                _ => self.input = None,
            }
            if self.read.len() > LONGEST {
                self.read.clear();
            }
        }
    }
}
