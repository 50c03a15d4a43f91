//! The scripted MCP server of the tests. Flags and calls select its behaviour, mostly misbehaviour.
//!
//! Never installed. It implements stdio by hand, so that it does not depend on the code under test.

mod scripted;

fn main() -> std::process::ExitCode {
    scripted::run()
}
