//! One line on the terminal while something lasts: what is waited for, and for how long already.
//!
//! It is on standard error, only if that is a terminal that can erase a line, and nothing of it is left afterwards. While it is
//! there nobody else writes to the terminal.

use std::io::{self, IsTerminal, Write};
use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval_at};
use unicode_width::UnicodeWidthStr;

use super::style::{OutputStyle, Tone};
use super::text::{one_line, shorten};
use crate::duration;

/// What takes less is over before a person could read the line.
const GRACE: Duration = Duration::from_millis(300);
/// Between two pictures.
const STEP: Duration = Duration::from_millis(100);
const PICTURES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// Back to the first column, and nothing to the right of it.
const ERASE: &str = "\r\u{1b}[K";

/// Waits for `end`. A person sees meanwhile `what` is waited for, which is asked again for each picture.
pub(super) async fn with_spinner<T>(what: impl Fn() -> String, end: impl Future<Output = T>) -> T {
    let mut end = pin!(end);
    if !io::stderr().is_terminal() || std::env::var_os("TERM").is_none_or(|name| name == "dumb") {
        return end.await;
    }
    let began = Instant::now();
    let mut steps = interval_at(began + GRACE, STEP);
    steps.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut shown = Shown { pictures: 0 };
    loop {
        tokio::select! {
            biased;
            ended = &mut end => return ended,
            _ = steps.tick() => shown.draw(&what(), began.elapsed()),
        }
    }
}

/// What is drawn; it goes when this does.
struct Shown {
    pictures: usize,
}

impl Shown {
    fn draw(&mut self, what: &str, elapsed: Duration) {
        let picture = PICTURES[self.pictures % PICTURES.len()];
        let style = OutputStyle::of_stderr();
        let line = style.paint(Tone::Faint, &line(picture, what, elapsed, style.width().unwrap_or_default()));
        write(&format!("{ERASE}{line}"));
        self.pictures += 1;
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        if self.pictures > 0 {
            write(ERASE);
        }
    }
}

fn write(text: &str) {
    let mut stderr = io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

/// It never fills the last column: the cursor would be on the next line, where nothing can be erased.
fn line(picture: &str, what: &str, elapsed: Duration, width: usize) -> String {
    let seconds = format!(" · {}", duration::format(Duration::from_secs(elapsed.as_secs())));
    let room = width.saturating_sub(1 + picture.width() + 1 + seconds.width());
    if room == 0 { String::new() } else { format!("{picture} {}{seconds}", shorten(&one_line(what), room)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_never_reaches_the_last_column() {
        for (width, expected) in [
            (80, "⠋ waiting for files\\nto be ready · 12s"),
            (23, "⠋ waitin…e ready · 12s"),
            (11, "⠋ …y · 12s"),
            (10, "⠋ … · 12s"),
            (9, ""),
            (0, ""),
        ] {
            let drawn = line("⠋", "waiting for files\nto be ready", Duration::from_millis(12_900), width);
            assert_eq!(drawn, expected, "{width}");
        }
        assert_eq!(line("⠋", "日本語のサーバー", Duration::ZERO, 15), "⠋ 日…バー · 0s");
    }
}
