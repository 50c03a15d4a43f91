//! Opening a page in the browser of whoever runs this.
//!
//! The address stands in the arguments of the programs that open it, where other users can read it. So it is one of mcpd's own port,
//! which sends only a browser of this user on. Unlike a private file it is read by browsers in a sandbox (snap, Flatpak), by those of
//! Windows in front of WSL, and by helpers that open addresses on another machine.

use std::env::{var, var_os};
use std::ffi::OsString;
use std::process::Stdio;

use crate::config::interpolate::{Process, Sources};
use crate::detach;

/// What opens pages with whatever the desktop has for them.
const OPENER: &str = "xdg-open";
/// Where a desktop says that it is there.
const DISPLAYS: [&str; 2] = ["WAYLAND_DISPLAY", "DISPLAY"];

/// Has the browser open `page`, and waits for nothing. Tells whether there is one.
pub(super) fn open(page: &str) -> bool {
    let Some(words) = command(page) else { return false };
    let Some((program, arguments)) = words.split_first() else { return false };
    let is_there = |path: String| Process.on_path(program, &path).is_some() || Process.is_program(program.as_ref());
    if !var("PATH").is_ok_and(is_there) {
        return false;
    }
    let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
    // What it is or starts stays when the terminal goes, and writes nothing there.
    let mut command = detach::become_program(program.into(), program.into(), &arguments);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().is_ok()
}

/// `$BROWSER`, else what the desktop has, if there is one.
fn command(page: &str) -> Option<Vec<String>> {
    let named = var("BROWSER").ok().and_then(|text| words(&text, page));
    let has_display = DISPLAYS.iter().any(|name| var_os(name).is_some_and(|value| !value.is_empty()));
    named.or_else(|| has_display.then(|| vec![OPENER.to_owned(), page.to_owned()]))
}

/// The first of the commands in `$BROWSER`, with the page in the place of `%s` or behind all.
fn words(browser: &str, page: &str) -> Option<Vec<String>> {
    let first = browser.split(':').find(|command| !command.trim().is_empty())?;
    let mut words: Vec<_> = first.split_whitespace().map(|word| word.replace("%s", page)).collect();
    if !first.contains("%s") {
        words.push(page.to_owned());
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_is_named_as_other_programs_take_it() {
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
