//! The echo server: one blocking thread with the minimum that the protocol requires, so that it hides no cost.

use std::io::{self, BufRead, BufReader, BufWriter, Write};

use rustix::event::{PollFd, PollFlags, poll};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::connection::Era;
use crate::cores;

/// The hidden argument that makes this program the echo server, of the legacy era; the number of tools to list follows it.
pub(crate) const MODE: &str = "echo-server";
/// The same for one of the modern era.
pub(crate) const MODERN_MODE: &str = "modern-echo-server";

/// The size of a large message, in either direction.
pub(crate) const LARGE: usize = 1 << 20;
/// The size of a streamed message: the message cap minus its envelope.
pub(crate) const STREAMED: usize = (16 << 20) - 1024;

#[derive(Deserialize)]
pub(crate) struct Request<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(default)]
    method: &'a str,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Call<'a> {
    name: &'a str,
    #[serde(borrow)]
    arguments: Option<Arguments<'a>>,
}

#[derive(Deserialize)]
struct Arguments<'a> {
    #[serde(borrow)]
    message: Option<&'a RawValue>,
}

impl Era {
    /// The hidden argument that makes this program the echo server of this era.
    pub(crate) fn mode(self) -> &'static str {
        match self {
            Self::Legacy => MODE,
            Self::Modern => MODERN_MODE,
        }
    }
}

/// Answers requests on stdin until it ends.
pub(crate) fn serve(era: Era, tools: usize) -> io::Result<()> {
    cores::pin(None, cores::ENDS);
    let echo = Echo::new(era, tools);
    let mut input = BufReader::with_capacity(1 << 16, io::stdin().lock());
    let mut output = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let mut line = Vec::new();
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let request = Request::parse(&line)?;
        if request.is_call() {
            echo.answer(&request, &mut output)?;
            output.write_all(b"\n")?;
            output.flush()?;
        }
    }
}

impl<'a> Request<'a> {
    pub(crate) fn parse(message: &'a [u8]) -> io::Result<Self> {
        Ok(serde_json::from_slice(message)?)
    }

    /// Whether this message gets a response.
    pub(crate) fn is_call(&self) -> bool {
        self.id.is_some()
    }

    /// Whether this is a client's first message.
    pub(crate) fn is_introduction(&self) -> bool {
        self.method == "initialize"
    }
}

/// The contents of its responses.
pub(crate) struct Echo {
    era: Era,
    tools: String,
    large: String,
}

impl Echo {
    /// A server with `tools` tools.
    pub(crate) fn new(era: Era, tools: usize) -> Self {
        Self { era, tools: tool_list(tools), large: format!("\"{}\"", "y".repeat(LARGE)) }
    }

    /// Writes the answer to a request that has an id.
    pub(crate) fn answer(&self, request: &Request<'_>, output: &mut impl Write) -> io::Result<()> {
        let Some(id) = request.id else { return Ok(()) };
        write!(output, r#"{{"jsonrpc":"2.0","id":{id},"#)?;
        let (is, caching) = match self.era {
            Era::Legacy => ("", ""),
            Era::Modern => (r#""resultType":"complete","#, r#""ttlMs":60000,"cacheScope":"public","#),
        };
        match request.method {
            // `initialize` is answered for direct clients. mcpd does not send it.
            "server/discover" if self.era == Era::Modern => {
                write!(
                    output,
                    r#""result":{{{is}{caching}"supportedVersions":["2026-07-28"],"capabilities":{{"tools":{{}}}}}}}}"#
                )
            }
            "initialize" => write!(
                output,
                r#""result":{{"protocolVersion":"2025-11-25","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"echo","version":"1"}}}}}}"#
            ),
            "ping" => write!(output, r#""result":{{}}}}"#),
            "tools/list" => write!(output, r#""result":{{{is}{caching}"tools":{}}}}}"#, self.tools),
            "tools/call" => {
                misbehave(request.params, output)?;
                let text = reply_text(request.params, &self.large)?;
                write!(output, r#""result":{{{is}"content":[{{"type":"text","text":{text}}}]}}}}"#)
            }
            _ => write!(output, r#""error":{{"code":-32601,"message":"method not found"}}}}"#),
        }
    }
}

/// Runs two of the misbehaving tools, without end.
fn misbehave(params: Option<&RawValue>, output: &mut impl Write) -> io::Result<()> {
    let Some(params) = params else { return Ok(()) };
    match serde_json::from_str::<Call<'_>>(params.get())?.name {
        "hang" => {
            // It still notices the end of its client.
            let input = io::stdin();
            poll(&mut [PollFd::new(&input, PollFlags::empty())], None)?;
            Err(io::ErrorKind::BrokenPipe.into())
        }
        "flood" => loop {
            output.write_all(
                b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":\"again\"}}\n",
            )?;
        },
        _ => Ok(()),
    }
}

/// The response text of a call, as a JSON string.
fn reply_text<'a>(params: Option<&'a RawValue>, large: &'a str) -> io::Result<&'a str> {
    let Some(params) = params else {
        return Ok("\"\"");
    };
    let call: Call<'_> = serde_json::from_str(params.get())?;
    let message = call.arguments.and_then(|arguments| arguments.message);
    Ok(match (call.name, message) {
        ("echo", Some(message)) => message.get(),
        ("large", _) => large,
        _ => "\"\"",
    })
}

/// The active tools, then idle ones up to `count`.
fn tool_list(count: usize) -> String {
    let useful = ["echo", "swallow", "large", "flood", "hang"].map(String::from);
    let idle = (0..).map(|number| format!("idle_{number}"));
    let tools: Vec<String> = useful.into_iter().chain(idle).take(count).map(|name| tool(&name)).collect();
    format!("[{}]", tools.join(","))
}

fn tool(name: &str) -> String {
    format!(
        r#"{{"name":"{name}","description":"A tool of the echo server, described at the length that is usual for a tool of a small server.","inputSchema":{{"type":"object","properties":{{"message":{{"type":"string","description":"What to say"}}}}}}}}"#
    )
}
