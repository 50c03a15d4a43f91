//! Reads pasted lines from standard input while the login waits for the browser.

use std::future::{pending, poll_fn};

use crate::shim::Input;

/// Maximum length of a line, in bytes. Addresses are shorter.
const MAX_LINE: usize = 16 << 10;

/// Reads standard input line by line.
pub(super) struct PasteReader {
    /// `None` at the end of the input.
    input: Option<Input>,
    read: Vec<u8>,
}

impl PasteReader {
    pub(super) fn open() -> Self {
        Self { input: Input::open().ok(), read: Vec::new() }
    }

    /// The next line that is not empty. Pends forever at the end of the input.
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
            let mut buffer = [0; 4096];
            match poll_fn(|cx| input.poll_read(cx, &mut buffer)).await {
                Ok(read @ 1..) => self.read.extend_from_slice(&buffer[..read]),
                _ => self.input = None,
            }
            if self.read.len() > MAX_LINE {
                self.read.clear();
            }
        }
    }
}
