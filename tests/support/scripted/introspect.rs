//! Tools that report on the server's own process.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::attempt;

/// The report of the tool `name`; `None` if there is no such tool.
pub(crate) fn report(name: &str, arguments: &Value) -> Option<Value> {
    Some(match name {
        "env" => std::env::vars().map(|(name, value)| (name, Value::from(value))).collect::<Map<_, _>>().into(),
        "fds" => fds().into(),
        "sigmask" => json!({"blocked": status_line("SigBlk"), "ignored": status_line("SigIgn")}),
        "umask" => status_line("Umask").into(),
        "cwd" => std::env::current_dir().ok()?.to_string_lossy().into(),
        "connect" => connect(arguments["path"].as_str()?).into(),
        // Listed with `--tool attempt` only.
        "attempt" => attempt::report(arguments).into(),
        "run" => run(&arguments["argv"])?,
        _ => return None,
    })
}

fn fds() -> Vec<u32> {
    let own = |entry: fs::DirEntry| {
        let listing_itself = fs::read_link(entry.path()).is_ok_and(|target| target.starts_with("/proc"));
        (!listing_itself).then(|| entry.file_name().to_str()?.parse().ok()).flatten()
    };
    let mut fds: Vec<u32> = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten().filter_map(own).collect();
    fds.sort_unstable();
    fds
}

/// A line of this process's status.
pub(crate) fn status_line(key: &str) -> String {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let value = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    value.unwrap_or_default().trim().to_owned()
}

/// Sends one message on a Unix socket and reports the outcome.
fn connect(path: &str) -> String {
    let Ok(mut stream) = UnixStream::connect(path) else {
        return "refused".into();
    };
    let _ = stream.set_read_timeout(Some(Duration::from_secs(2)));
    let _ = stream.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n");
    let mut bytes = [0; 4096];
    match stream.read(&mut bytes) {
        Ok(0) => "closed".into(),
        Ok(read) => String::from_utf8_lossy(&bytes[..read]).into_owned(),
        Err(error) => format!("{:?}", error.kind()),
    }
}

/// Runs a command as a child of this server.
fn run(argv: &Value) -> Option<Value> {
    let mut argv = argv.as_array()?.iter().filter_map(Value::as_str);
    let output = Command::new(argv.next()?).args(argv).stdin(Stdio::null()).output().ok()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Some(json!({"code": output.status.code(), "stdout": text(&output.stdout), "stderr": text(&output.stderr)}))
}
