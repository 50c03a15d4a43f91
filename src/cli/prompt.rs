//! Questions on the terminal.

use std::io::{self, IsTerminal, Read, Write, stderr, stdin};
use std::path::Path;

use rustix::termios::{LocalModes, OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcsetattr};

use super::text::{count, one_line};
use crate::config::import::{Content, Prompt, SecretFile};

/// Ctrl-C and Ctrl-D, as a terminal without ISIG sends them.
const CANCEL_KEYS: [u8; 2] = [3, 4];
const BACKSPACE_KEYS: [u8; 2] = [8, 127];

/// Whether a person can be asked.
pub(super) fn is_possible() -> bool {
    stdin().is_terminal() && stderr().is_terminal()
}

/// Asks whether to add `servers` servers to the file at `path`; no answer means yes.
pub(super) fn confirm_import(servers: usize, path: &Path) -> io::Result<bool> {
    confirm_default(&format!("Add {} to {}?", count(servers, "server"), path.display()))
}

/// Asks a yes/no question; no answer means no.
pub(in crate::cli) fn confirm(question: &str) -> io::Result<bool> {
    let answer = line(&format!("{question} [y/N] "))?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// Asks a yes/no question; no answer means yes, and the end of the input means no. Discards what was typed before.
pub(in crate::cli) fn confirm_default(question: &str) -> io::Result<bool> {
    // Fails if stdin is no terminal.
    let _ = tcflush(stdin(), QueueSelector::IFlush);
    write(&format!("{question} [Y/n] "))?;
    let mut answer = String::new();
    stdin().read_line(&mut answer)?;
    Ok(answer.ends_with('\n') && matches!(answer.trim().to_ascii_lowercase().as_str(), "" | "y" | "yes"))
}

/// Asks for the content of every secret file that has none. After an empty answer the file has to be written by hand.
pub(super) fn fill_in(files: &mut [SecretFile]) -> io::Result<()> {
    for file in files {
        let Content::Prompt(prompt) = &file.content else { continue };
        let answer = answer(&file.of, prompt)?;
        if !answer.is_empty() {
            file.content = Content::Known(format!("{answer}\n"));
        }
    }
    Ok(())
}

fn answer(of: &str, prompt: &Prompt) -> io::Result<String> {
    let mut question = format!("{} ({})", one_line(&prompt.text), one_line(of));
    if !prompt.options.is_empty() {
        question += &format!(" [{}]", one_line(&prompt.options.join(", ")));
    }
    if let Some(default) = prompt.default.as_ref().filter(|_| !prompt.hidden) {
        question += &format!(" [default: {}]", one_line(default));
    }
    question += ": ";
    let answer = if prompt.hidden { hidden_line(&question)? } else { line(&question)? };
    Ok(if answer.is_empty() { prompt.default.clone().unwrap_or_default() } else { answer })
}

/// Asks for a line. `None` at the end of the input. Discards what was typed before.
pub(in crate::cli) fn answer_line(question: &str) -> io::Result<Option<String>> {
    // Fails if stdin is no terminal.
    let _ = tcflush(stdin(), QueueSelector::IFlush);
    write(question)?;
    let mut answer = String::new();
    stdin().read_line(&mut answer)?;
    Ok(answer.ends_with('\n').then(|| answer.trim().to_owned()))
}

fn line(question: &str) -> io::Result<String> {
    write(question)?;
    let mut answer = String::new();
    stdin().read_line(&mut answer)?;
    Ok(answer.trim_end_matches(['\n', '\r']).to_owned())
}

/// Reads a line without echo.
fn hidden_line(question: &str) -> io::Result<String> {
    let _no_echo = NoEcho::begin()?;
    write(question)?;
    let mut answer = Vec::new();
    for byte in stdin().lock().bytes() {
        match byte? {
            b'\n' | b'\r' => break,
            byte if CANCEL_KEYS.contains(&byte) => return Err(io::Error::new(io::ErrorKind::Interrupted, "cancelled")),
            byte if BACKSPACE_KEYS.contains(&byte) => drop(answer.pop()),
            byte => answer.push(byte),
        }
    }
    write("\n")?;
    String::from_utf8(answer).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "the answer is not UTF-8"))
}

fn write(text: &str) -> io::Result<()> {
    let mut stderr = stderr().lock();
    stderr.write_all(text.as_bytes())?;
    stderr.flush()
}

/// Turns echo, line editing and signals off until it is dropped. A signal would end mcpd and leave echo off.
struct NoEcho {
    former: Termios,
}

impl NoEcho {
    fn begin() -> io::Result<Self> {
        let former = tcgetattr(stdin())?;
        let mut silent = former.clone();
        silent.local_modes -= LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG;
        tcsetattr(stdin(), OptionalActions::Flush, &silent)?;
        Ok(Self { former })
    }
}

impl Drop for NoEcho {
    fn drop(&mut self) {
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.former);
    }
}
