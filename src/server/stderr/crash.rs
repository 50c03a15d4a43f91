//! Finds the lines in which a runtime reports a crash: the message of a stack trace, without its frames. Pure.

/// Lines of a report that are shown. The shortest listing of them has room for as many.
const MAX_SHOWN: usize = 5;
/// Lines before the message that are shown if it follows its stack.
const STACK_SHOWN: usize = 3;
/// Last lines in which a stack trace is searched.
const MAX_SEARCHED: usize = 300;
/// Lines that may follow a stack trace without indentation, such as a version.
const MAX_TRAILER: usize = 5;

/// Where the message of a stack trace is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Message {
    Above,
    Below,
}

/// The frame of a stack trace.
struct Frame {
    /// How the line begins, after its indentation.
    start: &'static str,
    /// What it contains after that.
    has: &'static str,
    is_indented: bool,
    message: Message,
}

const fn frame(start: &'static str, has: &'static str, is_indented: bool, message: Message) -> Frame {
    Frame { start, has, is_indented, message }
}

const FRAMES: [Frame; 6] = [
    // Node.js, Deno, Bun, Java and .NET.
    frame("at ", "", true, Message::Above),
    // Ruby.
    frame("from ", "", true, Message::Above),
    // Go.
    frame("/", ".go:", true, Message::Above),
    // PHP and Chromium.
    frame("#", " ", false, Message::Above),
    // Rust.
    frame("note: run with `RUST_BACKTRACE", "", false, Message::Above),
    // Python.
    frame("File \"", "line ", true, Message::Below),
];

/// What the first lines of npm's report begin with, by version.
const NPM: [&str; 2] = ["npm error ", "npm ERR! "];

/// The report of a crash at the end of these lines.
pub(super) struct Crash {
    /// The line with the message.
    pub(super) message: usize,
    /// The lines to show, at most [`MAX_SHOWN`], without frames if they follow the message.
    pub(super) shown: Vec<usize>,
}

/// The crash that these lines end with, if they do.
pub(super) fn crash(lines: &[&str]) -> Option<Crash> {
    let first = lines.len().saturating_sub(MAX_SEARCHED);
    let searched = &lines[first..];
    let (message, side) = npm_error(searched).or_else(|| of_trace(searched))?;
    let shown = match side {
        Message::Above => {
            (message..searched.len()).filter(|at| *at == message || frame_of(searched[*at]).is_none()).collect()
        }
        Message::Below => (message.saturating_sub(STACK_SHOWN)..searched.len()).collect::<Vec<_>>(),
    };
    let shown = shown.into_iter().take(MAX_SHOWN).map(|at| first + at).collect();
    Some(Crash { message: first + message, shown })
}

/// The first error of npm if npm has failed: the last one has the path of a log.
fn npm_error(lines: &[&str]) -> Option<(usize, Message)> {
    let is_npm = |line: &&str| NPM.iter().any(|start| line.starts_with(start));
    lines.last().filter(|line| is_npm(line))?;
    Some((lines.iter().position(is_npm)?, Message::Above))
}

fn of_trace(lines: &[&str]) -> Option<(usize, Message)> {
    let last_frame = lines.iter().rposition(|line| frame_of(line).is_some())?;
    let trailer = || (last_frame + 1..lines.len()).filter(|at| !is_indented(lines[*at]));
    let message = frame_of(lines[last_frame])?.message;
    let at = match message {
        Message::Below => trailer().next()?,
        Message::Above => {
            let above = || (0..last_frame).rev().filter(|at| !is_indented(lines[*at]));
            above().find(|at| is_error(lines[*at])).or_else(|| above().find(|at| frame_of(lines[*at]).is_none()))?
        }
    };
    (trailer().count() <= MAX_TRAILER).then_some((at, message))
}

fn frame_of(line: &str) -> Option<&'static Frame> {
    let line = without_gutter(line);
    let text = line.trim_start();
    FRAMES.iter().find(|frame| {
        let rest = text.strip_prefix(frame.start);
        rest.is_some_and(|rest| rest.contains(frame.has)) && (!frame.is_indented || is_indented(line))
    })
}

/// The line without the margin of an exception group of Python.
fn without_gutter(line: &str) -> &str {
    line.trim_start().strip_prefix("| ").unwrap_or(line)
}

fn is_indented(line: &str) -> bool {
    without_gutter(line).starts_with([' ', '\t'])
}

/// Whether the line begins with the name of an error, as `TypeError: …`, or ends with one.
fn is_error(line: &str) -> bool {
    let line = line.strip_prefix("Caused by: ").unwrap_or(line);
    let name = line.split_once(": ").map_or(line, |(name, _)| name);
    let name = name.rsplit_once(" [").filter(|(_, code)| code.ends_with(']')).map_or(name, |(name, _)| name);
    let is_name = ["Error", "error", "Exception", "panic"].iter().any(|end| name.ends_with(end));
    is_name || line.ends_with("Error)") || line.contains(" panicked at ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a runtime writes, and the message in it.
    const CRASHES: [(&str, &str); 16] = [
        (
            "starting\nnode:internal/modules/cjs/loader:1228\n  throw err;\n  ^\n\
                 Error: Cannot find module 'ajv'\nRequire stack:\n- /s/i.js\n    at Module._resolve (node:internal:1)\n    \
                 at Module._load (node:internal:2) {\n  code: 'MODULE_NOT_FOUND',\n  requireStack: [ '/s/i.js' ]\n}\nNode.js v22.1.0",
            "Error: Cannot find module 'ajv'",
        ),
        (
            "  throw new ERR_MODULE_NOT_FOUND(\n        ^\nError [ERR_MODULE_NOT_FOUND]: Cannot find package 'zod' imported from /s/i.js\n    \
                 at packageResolve (node:internal:1)\n  code: 'ERR_MODULE_NOT_FOUND'\n}\nNode.js v22.1.0",
            "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'zod' imported from /s/i.js",
        ),
        ("[server] no token given\n    at main (/s/i.js:3:9)", "[server] no token given"),
        (
            "error: Uncaught (in promise) Error: no token\n    at file:///s/i.ts:1:7",
            "error: Uncaught (in promise) Error: no token",
        ),
        (
            "error: Cannot find module \"zod\" from \"/s/i.ts\"\n      at /s/i.ts:1:1\nBun v1.2.0 (Linux x64)",
            "error: Cannot find module \"zod\" from \"/s/i.ts\"",
        ),
        (
            "Traceback (most recent call last):\n  File \"/s/m.py\", line 1, in <module>\n    import mcp\nModuleNotFoundError: No module named 'mcp'",
            "ModuleNotFoundError: No module named 'mcp'",
        ),
        (
            "Traceback (most recent call last):\n  File \"/s/m.py\", line 1, in <module>\n    assert x\nAssertionError\nclosing\nbye",
            "AssertionError",
        ),
        (
            "  + Exception Group Traceback (most recent call last):\n  |   File \"/s/m.py\", line 1\n  | ExceptionGroup: unhandled (1 sub-exception)\n  \
                 +-+---------------- 1 ----------------\n    | Traceback (most recent call last):\n    |   File \"/s/m.py\", line 9\n    \
                 |     raise ValueError\n    | ValueError: no token\n    +------------------------------------",
            "    | ValueError: no token",
        ),
        (
            "panic: no token\n\ngoroutine 1 [running]:\nmain.main()\n\t/s/main.go:4 +0x25\nexit status 2",
            "panic: no token",
        ),
        (
            "\nthread 'main' (41) panicked at src/main.rs:2:5:\nno token\nnote: run with `RUST_BACKTRACE=1` environment variable to display a backtrace",
            "thread 'main' (41) panicked at src/main.rs:2:5:",
        ),
        (
            "Exception in thread \"main\" java.lang.RuntimeException: x\n\tat M.main(M.java:3)\nCaused by: java.io.IOException: no token\n\tat M.a(M.java:9)\n\t... 1 more",
            "Caused by: java.io.IOException: no token",
        ),
        (
            "Unhandled exception. System.IO.FileNotFoundException: no file\n   at P.Main()",
            "Unhandled exception. System.IO.FileNotFoundException: no file",
        ),
        (
            "<internal:/r.rb>:136:in 'require': cannot load such file -- mcp (LoadError)\n\tfrom /s.rb:1:in '<main>'",
            "<internal:/r.rb>:136:in 'require': cannot load such file -- mcp (LoadError)",
        ),
        (
            "PHP Fatal error:  Uncaught Error: Class \"M\" not found in /s.php:3\nStack trace:\n#0 {main}\n  thrown in /s.php on line 3",
            "PHP Fatal error:  Uncaught Error: Class \"M\" not found in /s.php:3",
        ),
        (
            "npm warn x\nnpm error code E404\nnpm error 404 Not Found\nnpm error A complete log: x",
            "npm error code E404",
        ),
        ("npm ERR! code E404\nnpm ERR! A complete log: x", "npm ERR! code E404"),
    ];

    #[test]
    fn message_of_a_crash_is_found_for_common_runtimes() {
        for (text, message) in CRASHES {
            let lines: Vec<_> = text.lines().filter(|line| !line.trim().is_empty()).collect();
            let crash = crash(&lines).expect(text);
            assert_eq!(lines[crash.message], message, "{text}");
            assert!(
                crash.shown.contains(&crash.message) && crash.shown.len() <= MAX_SHOWN,
                "{text}: {:?}",
                crash.shown
            );
        }
    }

    #[test]
    fn lines_after_an_old_trace_are_no_crash() {
        for text in [
            "no token\nbye",
            "",
            "npm error code E404\nthe server's own line",
            "TypeError: x\n    at main (/s/i.js:3:9)\n1\n2\n3\n4\n5\n6",
        ] {
            assert!(crash(&text.lines().collect::<Vec<_>>()).is_none(), "{text}");
        }
    }

    #[test]
    fn frames_are_not_shown_below_a_message() {
        let lines = ["Error: x", "Require stack:", "- /s/i.js", "    at a (b)", "    at c (d)", "Node.js v22.1.0"];
        assert_eq!(crash(&lines).expect("a crash").shown, [0, 1, 2, 5]);
    }
}
