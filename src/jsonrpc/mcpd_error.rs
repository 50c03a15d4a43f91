//! mcpd's own errors: the codes −31001 to −31006, and their machine-readable `data`.

use std::time::Duration;

use bytes::Bytes;

use super::members::members;
use super::reply::{ErrorObject, INVALID_REQUEST};

/// In `data`: the time that a restarting daemon gives to calls.
const RESTART_WAIT: &str = "restartWaitMs";

/// The codes of mcpd's own errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorCode {
    /// The receiver of the request has ended.
    Died,
    /// The receiver did not answer in time.
    TimedOut,
    /// A limit is reached.
    Overloaded,
    /// The receiver cannot be reached.
    Unavailable,
    /// The receiver, or the daemon, is being stopped.
    ShuttingDown,
    /// A message exceeds the size limit.
    TooLarge,
}

/// Whether a request that failed may have been received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// The request was not sent, so it can be sent again.
    NotSent,
    /// The request may have been received.
    Unknown,
}

impl ErrorCode {
    const ALL: [Self; 6] =
        [Self::Died, Self::TimedOut, Self::Overloaded, Self::Unavailable, Self::ShuttingDown, Self::TooLarge];

    /// The code in an error object.
    #[must_use]
    pub const fn number(self) -> i32 {
        match self {
            Self::Died => -31001,
            Self::TimedOut => -31002,
            Self::Overloaded => -31003,
            Self::Unavailable => -31004,
            Self::ShuttingDown => -31005,
            Self::TooLarge => -31006,
        }
    }

    /// The code of a raw error object, if it is one of mcpd's own.
    #[must_use]
    pub fn of(error: &Bytes) -> Option<Self> {
        let [code] = members(error, ["code"]).ok()?;
        let number: i32 = serde_json::from_slice(&code?).ok()?;
        Self::ALL.into_iter().find(|code| code.number() == number)
    }
}

impl ErrorObject {
    /// Builds one of mcpd's own errors.
    pub(crate) fn of_mcpd(code: ErrorCode, message: impl Into<String>, delivery: Delivery) -> Self {
        Self::new(code.number(), message).with_delivery(delivery)
    }

    /// Adds whether the request may have been received.
    #[must_use]
    pub(crate) fn with_delivery(self, delivery: Delivery) -> Self {
        self.with("outcome", if delivery == Delivery::NotSent { "not_sent" } else { "unknown" })
    }

    /// Adds the configured server that the request is about.
    #[must_use]
    pub(crate) fn about_server(self, server: &str) -> Self {
        self.with("server", server)
    }

    /// Adds the time after which the request can be repeated.
    #[must_use]
    pub(crate) fn retry_after(self, after: Duration) -> Self {
        self.with("retryAfterMs", u64::try_from(after.as_millis()).unwrap_or(u64::MAX))
    }

    /// Marks the error as caused by the stop of the whole daemon. An unsent request can be sent to the next daemon.
    #[must_use]
    pub(crate) fn by_stopping_daemon(self) -> Self {
        self.with("daemon", "stopping")
    }

    /// Adds the time that the restarting daemon gives to calls.
    #[must_use]
    pub(crate) fn with_restart_wait(self, wait: Duration) -> Self {
        self.with(RESTART_WAIT, u64::try_from(wait.as_millis()).unwrap_or(u64::MAX))
    }

    /// The reason why mcpd closes a new connection, whoever connects again.
    #[must_use]
    pub(crate) fn connection_refused(message: String) -> Self {
        Self::new(INVALID_REQUEST, message).with("connection", "refused")
    }

    /// Whether it is such a reason.
    #[must_use]
    pub(crate) fn refuses_connection(&self) -> bool {
        self.data.as_ref().is_some_and(|data| data["connection"] == "refused")
    }

    fn with(mut self, key: &str, value: impl Into<serde_json::Value>) -> Self {
        self.data.get_or_insert_default()[key] = value.into();
        self
    }
}

/// Whether a raw error object states that the request was not sent because the whole daemon stops.
#[must_use]
pub fn is_refusal_of_stopping_daemon(error: &Bytes) -> bool {
    let Ok([Some(data)]) = members(error, ["data"]) else { return false };
    let data = members(&data, ["outcome", "daemon"]);
    ErrorCode::of(error) == Some(ErrorCode::ShuttingDown)
        && matches!(data, Ok([Some(outcome), Some(daemon)]) if outcome[..] == *b"\"not_sent\"" && daemon[..] == *b"\"stopping\"")
}

/// The time that a restarting daemon gives to calls, in a raw error object of it.
#[must_use]
pub fn restart_wait(error: &Bytes) -> Option<Duration> {
    let [Some(data)] = members(error, ["data"]).ok()? else { return None };
    let [Some(wait)] = members(&data, [RESTART_WAIT]).ok()? else { return None };
    serde_json::from_slice(&wait).ok().map(Duration::from_millis)
}

/// The message of a raw error object that refuses the connection.
#[must_use]
pub fn refused_connection(error: &Bytes) -> Option<String> {
    let error: ErrorObject = serde_json::from_slice(error).ok()?;
    error.refuses_connection().then_some(error.message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_says_what_a_program_may_branch_on() {
        let error = ErrorObject::of_mcpd(ErrorCode::Unavailable, "m", Delivery::NotSent);
        let error = error.about_server("s").retry_after(Duration::from_millis(1500));
        let expected =
            r#"{"code":-31004,"message":"m","data":{"outcome":"not_sent","retryAfterMs":1500,"server":"s"}}"#;
        assert_eq!(serde_json::to_string(&error).expect("JSON"), expected);
    }

    #[test]
    fn refusals_of_a_stopping_daemon_are_marked() {
        let is_refusal =
            |error: &ErrorObject| is_refusal_of_stopping_daemon(&serde_json::to_vec(error).expect("JSON").into());
        let refusal = ErrorObject::of_mcpd(ErrorCode::ShuttingDown, "x", Delivery::NotSent);
        assert!(!is_refusal(&refusal) && is_refusal(&refusal.clone().by_stopping_daemon()));
        assert!(!is_refusal(&refusal.clone().with_delivery(Delivery::Unknown).by_stopping_daemon()));
        let wait = |error: &ErrorObject| restart_wait(&serde_json::to_vec(error).expect("JSON").into());
        let wait_of_restart = Duration::from_millis(1500);
        assert_eq!(
            [wait(&refusal), wait(&refusal.clone().with_restart_wait(wait_of_restart))],
            [None, Some(wait_of_restart)]
        );
    }

    #[test]
    fn refusals_of_a_connection_are_marked() {
        let message = |error: &ErrorObject| refused_connection(&serde_json::to_vec(error).expect("JSON").into());
        assert_eq!(message(&ErrorObject::connection_refused("\"no\"".to_owned())), Some("\"no\"".to_owned()));
        assert_eq!(message(&ErrorObject::new(INVALID_REQUEST, "no")), None);
    }

    #[test]
    fn codes_of_mcpd_are_recognized() {
        for code in ErrorCode::ALL {
            let raw = Bytes::from(format!(r#"{{"code":{},"message":""}}"#, code.number()));
            assert_eq!(ErrorCode::of(&raw), Some(code));
        }
        for other in [r#"{"code":-31000}"#, r#"{"code":-31007}"#, r#"{"code":"-31001"}"#, "{}", "7"] {
            assert_eq!(ErrorCode::of(&Bytes::from_static(other.as_bytes())), None, "{other}");
        }
    }
}
