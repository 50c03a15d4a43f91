//! How the person at the login reaches mcpd: a page in the user's browser, and lines pasted into standard input meanwhile.
//!
//! Other users can read the address in the arguments of the opening program. So it is a loopback address of mcpd, which redirects
//! only this user's browser. A private file would not work for sandboxed browsers (snap, Flatpak), for Windows browsers in front of
//! WSL, and for helpers that open addresses on another machine.

use std::env::{var, var_os};
use std::ffi::OsString;
use std::future::{pending, poll_fn};
use std::process::Stdio;

use crate::config::interpolate::{Process, Sources};
use crate::detach;
use crate::shim::Input;

const OPENER: &str = "xdg-open";
/// Set in a desktop session.
const DISPLAY_VARIABLES: [&str; 2] = ["WAYLAND_DISPLAY", "DISPLAY"];

/// Starts the browser with `page`, without waiting for it. Returns whether there is a browser.
pub(super) fn open(page: &str) -> bool {
    let Some(words) = command(page) else { return false };
    let Some((program, arguments)) = words.split_first() else { return false };
    let is_there = |path: String| Process.on_path(program, &path).is_some() || Process.is_program(program.as_ref());
    if !var("PATH").is_ok_and(is_there) {
        return false;
    }
    let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
    // The browser outlives the terminal, and does not write to it.
    let mut command = detach::become_program(program.into(), program.into(), &arguments);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().is_ok()
}

/// `$BROWSER`, else the desktop's opener.
fn command(page: &str) -> Option<Vec<String>> {
    let named = var("BROWSER").ok().and_then(|text| words(&text, page));
    let has_display = DISPLAY_VARIABLES.iter().any(|name| var_os(name).is_some_and(|value| !value.is_empty()));
    named.or_else(|| has_display.then(|| vec![OPENER.to_owned(), page.to_owned()]))
}

/// The first command in `$BROWSER`, with the page in place of `%s` or at the end.
fn words(browser: &str, page: &str) -> Option<Vec<String>> {
    let first = browser.split(':').find(|command| !command.trim().is_empty())?;
    let mut words: Vec<_> = first.split_whitespace().map(|word| word.replace("%s", page)).collect();
    if !first.contains("%s") {
        words.push(page.to_owned());
    }
    Some(words)
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browser_variable_is_parsed() {
        for (browser, expected) in [
            ("firefox", &["firefox", "U"][..]),
            ("firefox -new-tab:lynx", &["firefox", "-new-tab", "U"]),
            ("chrome --app=%s %%", &["chrome", "--app=U", "%%"]),
            (": w3m", &["w3m", "U"]),
        ] {
            assert_eq!(words(browser, "U").expect("one"), expected, "{browser}");
        }
        assert_eq!(words("", "U").or(words(" : ", "U")), None);
    }
}
