//! Opens a page in the person's browser.

use std::env::{var, var_os};
use std::ffi::OsString;
use std::process::Stdio;

use crate::config::interpolate::{Process, Sources};
use crate::detach;

const OPENER: &str = "xdg-open";
/// Set in a desktop session.
const DISPLAY_VARIABLES: [&str; 2] = ["WAYLAND_DISPLAY", "DISPLAY"];

/// Starts the browser with `page`, without waiting for it. Returns whether there is a browser.
pub(super) fn open_browser(page: &str) -> bool {
    let Some(words) = browser_command(page) else { return false };
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
fn browser_command(page: &str) -> Option<Vec<String>> {
    let named = var("BROWSER").ok().and_then(|text| browser_words(&text, page));
    let has_display = DISPLAY_VARIABLES.iter().any(|name| var_os(name).is_some_and(|value| !value.is_empty()));
    named.or_else(|| has_display.then(|| vec![OPENER.to_owned(), page.to_owned()]))
}

/// The first command in `$BROWSER`, with the page in place of `%s` or at the end.
fn browser_words(browser: &str, page: &str) -> Option<Vec<String>> {
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
    fn browser_variable_is_parsed() {
        for (browser, expected) in [
            ("firefox", &["firefox", "U"][..]),
            ("firefox -new-tab:lynx", &["firefox", "-new-tab", "U"]),
            ("chrome --app=%s %%", &["chrome", "--app=U", "%%"]),
            (": w3m", &["w3m", "U"]),
        ] {
            assert_eq!(browser_words(browser, "U").expect("one"), expected, "{browser}");
        }
        assert_eq!(browser_words("", "U").or(browser_words(" : ", "U")), None);
    }
}
