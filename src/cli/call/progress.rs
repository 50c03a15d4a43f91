//! How far a call is, for the line that a person sees meanwhile.
//!
//! Source: MCP 2025-11-25, `basic/utilities/progress`.

use std::cell::RefCell;

use serde_json::Value;

/// What was heard last.
pub(super) struct Progress {
    words: RefCell<String>,
    tool: String,
}

impl Progress {
    /// Of a call of `tool`, of which nothing is heard yet.
    pub(super) fn of(tool: &str) -> Self {
        Self { words: RefCell::new(format!("waiting for {tool}")), tool: tool.to_owned() }
    }

    /// In words.
    pub(super) fn words(&self) -> String {
        self.words.borrow().clone()
    }

    /// Takes a notification for what it is.
    pub(super) fn hear(&self, method: &[u8], params: &[u8]) {
        if method == b"notifications/progress"
            && let Ok(said) = serde_json::from_slice::<Value>(params)
        {
            self.words.replace(format!("{}: {}", self.tool, spoken(&said)));
        }
    }
}

fn spoken(said: &Value) -> String {
    let far = match (said["progress"].as_f64(), said["total"].as_f64()) {
        (Some(progress), Some(total)) if total > 0.0 => {
            Some(format!("{:.0} %", (progress / total * 100.0).clamp(0.0, 100.0)))
        }
        (Some(_), _) => Some(said["progress"].to_string()),
        _ => None,
    };
    let message = said["message"].as_str().filter(|message| !message.is_empty()).map(str::to_owned);
    [far, message].into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn progress_is_told_as_far_as_the_server_says_it() {
        for (said, expected) in [
            (json!({ "progress": 1, "total": 3, "message": "reading" }), "t: 33 % · reading"),
            (json!({ "progress": 7, "total": 3 }), "t: 100 %"),
            (json!({ "progress": 12 }), "t: 12"),
            (json!({ "progress": 12, "total": 0, "message": "" }), "t: 12"),
            (json!({ "message": "x" }), "t: x"),
        ] {
            let progress = Progress::of("t");
            progress.hear(b"notifications/other", b"{}");
            assert_eq!(progress.words(), "waiting for t");
            progress.hear(b"notifications/progress", said.to_string().as_bytes());
            assert_eq!(progress.words(), expected, "{said}");
        }
    }
}
