//! `mcpd`: parses its arguments and runs one command.

use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(code) = mcpd::guard::run_if_guard() {
        return code;
    }
    mcpd::main()
}
