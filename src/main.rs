//! `mcpd`: parses its arguments and runs one command.

use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(code) = mcpd::guard::run_if_guard().or_else(mcpd::demo_server::run_if_server) {
        return code;
    }
    mcpd::main()
}
