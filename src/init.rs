//! `mcpd-init`: the first process in the namespaces of a server.

use std::process::ExitCode;

fn main() -> ExitCode {
    mcpd::guard::init_main()
}
