//! The pure rooms of mcpd that the fuzz targets enter, compiled from where they are.
//!
//! Not mcpd as a dependency: with the instruments of a fuzzer that takes minutes to build, most of them for crates that no
//! target reaches.

#![allow(dead_code, reason = "the rest of mcpd uses what the targets do not")]
#![allow(unfulfilled_lint_expectations, reason = "lints that mcpd turns on are not on here")]

#[path = "../../src"]
mod mcpd {
    pub mod catalog;
    pub mod era;
    pub mod jsonrpc;
    pub mod kind;
    pub mod level;
    pub mod moment;
    pub mod naming;
    pub mod peer;
    pub mod policy;
    pub mod progress;
    pub mod tokens;

    /// How a call ended, as an answer says it.
    pub mod calls {
        mod outcome;

        pub use outcome::Outcome;
    }

    /// How long a call may take.
    pub mod config {
        mod settings;
        mod timeouts;

        pub use settings::Settings;
        pub use timeouts::CallLimit;
    }

    /// What of a server's room does no I/O.
    pub mod server {
        pub mod call;
        pub mod listing;
        mod stats;
        mod subscriptions;
        pub mod tasks;
        mod unasked;

        pub use stats::Counter;
        pub use subscriptions::Subscription;

        /// The way to a server, of which no target has one.
        #[derive(Debug, Clone)]
        pub struct ServerHandle;

        /// What servers ask, of which no target has any.
        pub mod question {
            /// One such request.
            #[derive(Debug)]
            pub struct Question;
        }
    }

    /// What of a session's room does no I/O.
    pub mod session {
        pub mod asked;
    }
}

pub use mcpd::{
    calls, catalog, config, era, jsonrpc, kind, level, moment, naming, peer, policy, progress, server, session, tokens,
};
