//! Questions for the person at the terminal.

use std::io::{self, Read, Write, stderr, stdin};
use std::path::Path;

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use crate::cli::text::{count, one_line};
use crate::config::import::{Content, Prompt, SecretFile};

/// What a terminal sends for Ctrl-C and Ctrl-D when it is not to act upon them.
const GIVEN_UP: [u8; 2] = [3, 4];
/// What it sends for the key that takes a character back.
const TAKEN_BACK: [u8; 2] = [8, 127];

/// Whether `servers` servers are to be added to the file at `path`.
pub(super) fn agrees(servers: usize, path: &Path) -> io::Result<bool> {
    is_yes(&format!("Add {} to {}?", count(servers, "server"), path.display()))
}

/// Whether the answer to `question` is yes.
pub(in crate::cli) fn is_yes(question: &str) -> io::Result<bool> {
    let answer = line(&format!("{question} [y/N] "))?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// Asks for what files are to hold that nobody has said yet. An empty answer leaves one to be written later.
pub(super) fn for_answers(files: &mut [SecretFile]) -> io::Result<()> {
    for file in files {
        let Content::Asked(prompt) = &file.content else { continue };
        let answer = answered(&file.of, prompt)?;
        if !answer.is_empty() {
            file.content = Content::Known(format!("{answer}\n"));
        }
    }
    Ok(())
}

fn answered(of: &str, prompt: &Prompt) -> io::Result<String> {
    let mut question = format!("{} ({})", one_line(&prompt.text), one_line(of));
    if !prompt.options.is_empty() {
        question += &format!(" [{}]", one_line(&prompt.options.join(", ")));
    }
    if let Some(default) = prompt.default.as_ref().filter(|_| !prompt.hidden) {
        question += &format!(" [default: {}]", one_line(default));
    }
    question += ": ";
    let answer = if prompt.hidden { hidden(&question)? } else { line(&question)? };
    Ok(if answer.is_empty() { prompt.default.clone().unwrap_or_default() } else { answer })
}

fn line(question: &str) -> io::Result<String> {
    print(question)?;
    let mut answer = String::new();
    stdin().read_line(&mut answer)?;
    Ok(answer.trim_end_matches(['\n', '\r']).to_owned())
}

/// The same, with nothing shown of the answer.
fn hidden(question: &str) -> io::Result<String> {
    let _silence = Silence::begin()?;
    print(question)?;
    let mut answer = Vec::new();
    for byte in stdin().lock().bytes() {
        match byte? {
            b'\n' | b'\r' => break,
            byte if GIVEN_UP.contains(&byte) => return Err(io::Error::new(io::ErrorKind::Interrupted, "given up")),
            byte if TAKEN_BACK.contains(&byte) => drop(answer.pop()),
            byte => answer.push(byte),
        }
    }
    print("\n")?;
    String::from_utf8(answer).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "the answer is not UTF-8"))
}

fn print(text: &str) -> io::Result<()> {
    let mut stderr = stderr().lock();
    stderr.write_all(text.as_bytes())?;
    stderr.flush()
}

/// While it lives, the terminal shows nothing and acts upon nothing that is typed: a signal would leave it so.
struct Silence {
    was: Termios,
}

impl Silence {
    fn begin() -> io::Result<Self> {
        let was = tcgetattr(stdin())?;
        let mut silent = was.clone();
        silent.local_modes -= LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG;
        tcsetattr(stdin(), OptionalActions::Flush, &silent)?;
        Ok(Self { was })
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.was);
    }
}
