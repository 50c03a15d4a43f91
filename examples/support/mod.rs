//! What all examples need: a runtime, and this program in its two other roles.

use std::error::Error;
use std::io::Write;
use std::process::ExitCode;

/// Runs an example on one thread.
///
/// Each example is three programs: itself, the guard that its servers run under (see `mcpd::guard`), and a small MCP
/// server, so that nothing has to be installed. Yours is the first two.
pub(crate) fn run(example: impl Future<Output = Result<(), Box<dyn Error>>>) -> ExitCode {
    if let Some(code) = mcpd::guard::run_if_guard().or_else(mcpd::demo_server::run_if_server) {
        return code;
    }
    let ended = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Into::into)
        .and_then(|runtime| runtime.block_on(example));
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}
