//! `mcpd dashboard`: starts the process that serves the page, and opens the page in a browser.
//!
//! Other users can read the address in the arguments of the opening program, so it is the bare one, which leads only this user's browser to
//! the page.

use std::ffi::OsString;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use clap::Args;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::AsyncReadExt;
use tokio::time::{Instant, sleep, timeout};

use super::browser::open_browser;
use super::changes::page::{self, Extent};
use super::status::advice::advice;
use super::style::OutputStyle;
use super::text::defects_text;
use super::tool_names::hidden_reason;
use super::{CommandResult, FAILED, admin_failure, fail, print, try_print};
use crate::admin::report::{ChangeReport, ToolReport};
use crate::dashboard::{self, DashboardError, PageFile, Sentences, ServedPage};
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};
use crate::{admin, detach};

/// For the process to listen, and to end.
const TIMEOUT: Duration = Duration::from_secs(10);
/// For a page that another command starts.
const OTHER_TIMEOUT: Duration = Duration::from_secs(1);
const RETRY_INTERVAL: Duration = Duration::from_millis(10);

#[derive(Debug, Args)]
pub(super) struct Dashboard {
    /// End the process that serves the page
    #[arg(long, conflicts_with = "no_open")]
    stop: bool,
    /// Print the address instead of opening it. The address contains a secret, so a browser behind a forwarded port can open the page
    #[arg(long)]
    no_open: bool,
    /// Serve the page in this process
    #[arg(long, hide = true, conflicts_with_all = ["stop", "no_open"])]
    serve: bool,
}

pub(super) async fn run(directory: &RuntimeDir, arguments: Dashboard) -> CommandResult {
    let Dashboard { stop: stops, no_open, serve: serves } = arguments;
    if serves {
        return serve(directory).await;
    }
    if stops {
        return stop(directory).await;
    }
    let page = match PageFile::served(directory) {
        Some(page) => page,
        None => start(directory).await?,
    };
    if !no_open && open_browser(&page.bare_address()) {
        try_print(page.bare_address() + "\n")?;
        print_note!("Your browser opens this page. `mcpd dashboard --stop` ends it.");
    } else {
        try_print(page.address_with_key() + "\n")?;
        print_note!("Open this address in a browser. It is secret. `mcpd dashboard --stop` ends the page.");
    }
    Ok(ExitCode::SUCCESS)
}

async fn start(directory: &RuntimeDir) -> Result<ServedPage, ExitCode> {
    admin::status(&directory.socket(ADMIN_SOCKET)).await.map_err(|error| admin_failure(&error))?;
    let failed = |error| fail(FAILED, format!("the page cannot be served: {error}"));
    let mut arguments: Vec<OsString> = vec!["dashboard".into(), "--serve".into()];
    if directory.is_given() {
        let path = std::path::absolute(directory.path()).map_err(failed)?;
        arguments.extend(["--runtime-dir".into(), path.into_os_string()]);
    }
    let mut command = detach::become_program(detach::CURRENT_EXE.into(), "mcpd".into(), &arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).current_dir("/");
    let mut process = command.spawn().map_err(failed)?;
    // It writes a line once it listens.
    let mut started = [0];
    let read = match &mut process.stdout {
        Some(stdout) => timeout(TIMEOUT, stdout.read(&mut started)).await,
        None => Ok(Ok(0)),
    };
    // Another command may have started one at the same time, which is about to listen.
    let has_failed = matches!(read, Ok(Ok(0)));
    let deadline = Instant::now() + if has_failed { OTHER_TIMEOUT } else { Duration::ZERO };
    loop {
        match PageFile::served(directory) {
            Some(page) => return Ok(page),
            None if Instant::now() >= deadline => break,
            None => sleep(RETRY_INTERVAL).await,
        }
    }
    let mut reason = String::new();
    if let (true, Some(stderr)) = (has_failed, &mut process.stderr) {
        let _ = timeout(TIMEOUT, stderr.read_to_string(&mut reason)).await;
    }
    let reason = reason.trim().trim_start_matches("mcpd: ");
    Err(fail(FAILED, if reason.is_empty() { "the page was not served in time" } else { reason }))
}

async fn stop(directory: &RuntimeDir) -> CommandResult {
    let Some(page) = PageFile::served(directory) else {
        return Err(fail(FAILED, "no page is served; `mcpd dashboard` serves one"));
    };
    // It holds the lock of its file, so the id is not another process's.
    if let Some(pid) = i32::try_from(page.pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, Signal::TERM);
    }
    let deadline = Instant::now() + TIMEOUT;
    while PageFile::served(directory).is_some_and(|found| found.pid == page.pid) {
        if Instant::now() > deadline {
            return Err(fail(FAILED, format!("the page is still served, by process {}", page.pid)));
        }
        sleep(RETRY_INTERVAL).await;
    }
    Ok(print("the page is closed\n"))
}

async fn serve(directory: &RuntimeDir) -> CommandResult {
    let _ = rustix::thread::set_name(c"mcpd-dashboard");
    let sentences = Sentences { advice, hidden, defects, difference };
    let served = dashboard::serve(directory, sentences, || {
        let _ = try_print("\n");
    })
    .await;
    served.map(|()| ExitCode::SUCCESS).map_err(|error| match error {
        DashboardError::Daemon(error) => admin_failure(&error),
        error => fail(FAILED, error),
    })
}

fn hidden(tool: &ToolReport) -> Option<String> {
    tool.hidden.as_ref().map(|hidden| hidden_reason(tool, Some(hidden)))
}

fn defects(tool: &ToolReport) -> Option<String> {
    (tool.hidden.is_none() && !tool.defects.is_empty()).then(|| defects_text(&tool.defects))
}

fn difference(change: &ChangeReport) -> String {
    page::render(&[change], Extent::Whole, OutputStyle::PLAIN).text
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use regex_lite::Regex;

    /// Text of the page names commands in code, as the argument of `command`, or at the beginning of a sentence.
    #[test]
    fn page_names_only_existing_commands_and_options() {
        let program = crate::cli::command_line();
        let named = Regex::new(r"mcpd ([a-z]+)(?: (-[-a-z]+))?").expect("a pattern");
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/dashboard/web");
        let mut found = 0;
        for file in fs::read_dir(directory).expect("a directory").map(|file| file.expect("a file").path()) {
            let text = fs::read_to_string(&file).expect("text");
            for captures in named.captures_iter(&text) {
                let command = program.find_subcommand(&captures[1]);
                let mut command = command.unwrap_or_else(|| panic!("{}: {}", file.display(), &captures[0])).clone();
                let help = command.render_long_help().to_string();
                let option = captures.get(2).map_or("", |option| option.as_str());
                assert!(help.contains(option), "{}: {}", file.display(), &captures[0]);
                found += 1;
            }
        }
        assert!(found > 8, "{found}");
    }
}
