//! The MCP server that the tests run: it does what its flags and its callers tell it, the bad things above all.
//!
//! Never installed. It speaks the legacy stdio protocol by hand, so that nothing it says depends on code under test.

mod scripted;

fn main() -> std::process::ExitCode {
    scripted::run()
}
