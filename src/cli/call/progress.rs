//! The progress of a call, for the spinner.
//!
//! Source: MCP 2025-11-25, `basic/utilities/progress`.

use std::cell::RefCell;

use serde_json::Value;

pub(super) struct Progress {
    text: RefCell<String>,
    tool: String,
}

impl Progress {
    pub(super) fn new(tool: &str) -> Self {
        Self { text: RefCell::new(format!("waiting for {tool}")), tool: tool.to_owned() }
    }

    pub(super) fn text(&self) -> String {
        self.text.borrow().clone()
    }

    /// Ignores notifications that do not report progress.
    pub(super) fn update(&self, method: &[u8], params: &[u8]) {
        if method == b"notifications/progress"
            && let Ok(params) = serde_json::from_slice::<Value>(params)
        {
            self.text.replace(format!("{}: {}", self.tool, describe(&params)));
        }
    }
}

fn describe(params: &Value) -> String {
    let progress = match (params["progress"].as_f64(), params["total"].as_f64()) {
        (Some(progress), Some(total)) if total > 0.0 => {
            Some(format!("{:.0} %", (progress / total * 100.0).clamp(0.0, 100.0)))
        }
        (Some(_), _) => Some(params["progress"].to_string()),
        _ => None,
    };
    let message = params["message"].as_str().filter(|message| !message.is_empty()).map(str::to_owned);
    [progress, message].into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn progress_notifications_are_described() {
        for (params, expected) in [
            (json!({ "progress": 1, "total": 3, "message": "reading" }), "t: 33 % · reading"),
            (json!({ "progress": 7, "total": 3 }), "t: 100 %"),
            (json!({ "progress": 12 }), "t: 12"),
            (json!({ "progress": 12, "total": 0, "message": "" }), "t: 12"),
            (json!({ "message": "x" }), "t: x"),
        ] {
            let progress = Progress::new("t");
            progress.update(b"notifications/other", b"{}");
            assert_eq!(progress.text(), "waiting for t");
            progress.update(b"notifications/progress", params.to_string().as_bytes());
            assert_eq!(progress.text(), expected, "{params}");
        }
    }
}
