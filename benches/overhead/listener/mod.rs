//! Cost of an agent over HTTP: on the agent socket and on a loopback address, compared with lines at the same daemon.

mod agent;
mod size;

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::rc::Rc;

use self::agent::{HttpAgent, Post};
use crate::connection::{Connection, Era, Request};
use crate::cost::{self, Row, measure_rows};
use crate::echo;
use crate::middle::Middle;
use crate::sides::await_tools;
use crate::stats::quantile;
use crate::table::{Marker, Table};
use crate::{Effort, cores, procfs};

/// The tool that is called.
const TOOL: &str = "echo__echo";

/// All on one core, without wake-ups of another one.
const CROWDED: [Row<Route>; 2] = [
    ("small call on one core, p50", "µs", Marker::RatioAtMost(1.5), p50),
    ("small call on one core, CPU of the middle", "µs", Marker::None, cpu),
];

/// mcpd has its own core.
const CALLS: [Row<Route>; 2] =
    [("small call, p50", "µs", Marker::None, p50), ("small call, CPU of the middle", "µs", Marker::None, cpu)];

/// One way to the same daemon.
struct Route {
    agent: Agent,
    middle: Rc<Middle>,
}

enum Agent {
    Lines(Connection, Request),
    Http(HttpAgent, Post),
}

/// A table for agents of each era.
pub(crate) fn measure(effort: &Effort) -> io::Result<[(&'static str, Table); 2]> {
    let legacy = measure_of(Era::Legacy, effort)?;
    let modern = measure_of(Era::Modern, effort)?;
    Ok([("Legacy agents over HTTP", legacy), ("Modern agents over HTTP", modern)])
}

fn measure_of(era: Era, effort: &Effort) -> io::Result<Table> {
    let mut table = Table::new(["lines", "loopback", "HTTP"], 0);
    measure_rows(&CROWDED, || routes(era, cores::ENDS), effort, &mut table)?;
    measure_rows(&CALLS, || routes(era, cores::MIDDLE), effort, &mut table)?;
    size::measure(era, &mut table)?;
    Ok(table)
}

/// Lines, HTTP on a loopback address, HTTP on the agent socket.
fn routes(era: Era, core: usize) -> io::Result<[Route; 3]> {
    let (mut middle, address) = daemon(core)?;
    let mut lines = middle.connect()?;
    await_tools(&mut lines, 1)?;
    if era == Era::Modern {
        lines = middle.connect_when_listening()?;
    }
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let authorization = format!("Authorization: Bearer {}\r\n", middle.token()?);
    let loopback = HttpAgent::open(stream, era, &authorization)?;
    let socket = HttpAgent::open(UnixStream::connect(middle.socket())?, era, "")?;
    let middle = Rc::new(middle);
    let request = || Request::call_of(era, TOOL, "hello");
    let over_http = |agent: HttpAgent| {
        let post = agent.post("tools/call", Some(TOOL), request());
        Route { agent: Agent::Http(agent, post), middle: Rc::clone(&middle) }
    };
    let (loopback, socket) = (over_http(loopback), over_http(socket));
    Ok([Route { agent: Agent::Lines(lines, request()), middle }, loopback, socket])
}

/// mcpd with an echo server, and the loopback address on which it listens.
fn daemon(core: usize) -> io::Result<(Middle, SocketAddr)> {
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let (program, mode) = (std::env::current_exe()?, echo::MODE);
    let server = format!("[servers.echo]\ncommand = '{}'\nargs = ['{mode}', '3']\n", program.display());
    let daemon = Middle::mcpd_with(&format!("[profiles.default]\nhttp = '{address}'\n{server}"), core)?;
    Ok((daemon, address))
}

impl Route {
    fn times(&mut self, calls: usize) -> io::Result<Vec<f64>> {
        match &mut self.agent {
            Agent::Lines(connection, request) => cost::times(connection, request, calls),
            Agent::Http(agent, post) => (0..calls).map(|_| Ok(agent.call(post)?.as_secs_f64() * 1e6)).collect(),
        }
    }
}

fn p50(route: &mut Route, effort: &Effort) -> io::Result<f64> {
    Ok(quantile(route.times(effort.calls)?, 0.5))
}

fn cpu(route: &mut Route, effort: &Effort) -> io::Result<f64> {
    let before = procfs::cpu_nanos(route.middle.pid())?;
    route.times(effort.calls)?;
    Ok((procfs::cpu_nanos(route.middle.pid())? - before) as f64 / 1e3 / effort.calls as f64)
}
