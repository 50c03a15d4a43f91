//! A line on standard error while a command waits: the activity and its duration.
//!
//! It is drawn only on a terminal that can erase a line, and erased at the end.

use std::io::{self, IsTerminal, Write};
use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval_at};
use unicode_width::UnicodeWidthStr;

use super::style::{OutputStyle, Tone};
use super::text::{one_line, shorten};
use crate::duration;

/// A shorter wait shows no line.
const INITIAL_DELAY: Duration = Duration::from_millis(300);
const FRAME_INTERVAL: Duration = Duration::from_millis(100);
const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// Return to the first column and clear the line.
const ERASE: &str = "\r\u{1b}[K";

/// Awaits `future`. Meanwhile it shows the activity, which is read again for each frame.
pub(super) async fn with_spinner<T>(activity: impl Fn() -> String, future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    if !io::stderr().is_terminal() || std::env::var_os("TERM").is_none_or(|name| name == "dumb") {
        return future.await;
    }
    let started = Instant::now();
    let mut ticks = interval_at(started + INITIAL_DELAY, FRAME_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut line = SpinnerLine { frames_drawn: 0 };
    loop {
        tokio::select! {
            biased;
            output = &mut future => return output,
            _ = ticks.tick() => line.draw(&activity(), started.elapsed()),
        }
    }
}

/// Dropping it erases the line.
struct SpinnerLine {
    frames_drawn: usize,
}

impl SpinnerLine {
    fn draw(&mut self, activity: &str, elapsed: Duration) {
        let frame = FRAMES[self.frames_drawn % FRAMES.len()];
        let style = OutputStyle::of_stderr();
        let line = style.paint(Tone::Faint, &format_line(frame, activity, elapsed, style.width().unwrap_or_default()));
        write(&format!("{ERASE}{line}"));
        self.frames_drawn += 1;
    }
}

impl Drop for SpinnerLine {
    fn drop(&mut self) {
        if self.frames_drawn > 0 {
            write(ERASE);
        }
    }
}

fn write(text: &str) {
    let mut stderr = io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

/// The last column stays free. Otherwise the cursor moves to the next line, and the text cannot be erased.
fn format_line(frame: &str, activity: &str, elapsed: Duration, width: usize) -> String {
    let seconds = format!(" · {}", duration::format(Duration::from_secs(elapsed.as_secs())));
    let room = width.saturating_sub(1 + frame.width() + 1 + seconds.width());
    if room == 0 { String::new() } else { format!("{frame} {}{seconds}", shorten(&one_line(activity), room)) }
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
            let drawn = format_line("⠋", "waiting for files\nto be ready", Duration::from_millis(12_900), width);
            assert_eq!(drawn, expected, "{width}");
        }
        assert_eq!(format_line("⠋", "日本語のサーバー", Duration::ZERO, 15), "⠋ 日…バー · 0s");
    }
}
