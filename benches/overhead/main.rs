//! The cost of mcpd as ratios. One run measures an echo server directly, through a relay that copies bytes without parsing,
//! and through mcpd; agents and servers of both eras ([`eras`]); a server at a URL ([`http`]);
//! and agents over HTTP ([`listener`]).
//!
//! `cargo bench` takes about five minutes, `cargo bench -- --quick` about two. `--stdio`, `--eras`, `--http`, `--listener`, `--faults` and
//! `--floods` select parts. Rounds of compared paths are interleaved, so that noise affects all of them. Only ratios are comparable between runs.
//! Nothing is asserted, so a slow machine fails no build.
//!
//! The bench builds mcpd as it is installed. `MCPD=/usr/bin/mcpd cargo bench` measures that binary instead.

#![expect(clippy::print_stdout, reason = "the table is what this program is for")]

mod connection;
mod cores;
mod cost;
mod echo;
mod eras;
mod executable;
mod faults;
mod floods;
mod http;
mod life;
mod listener;
mod middle;
mod procfs;
mod relay;
mod sides;
mod size;
mod stats;
mod table;

use std::io;

use connection::Era;
use table::Table;

/// The parts: servers over pipes, both eras, servers at a URL, agents over HTTP, faults of peers, floods of connections.
const PARTS: [&str; 6] = ["--stdio", "--eras", "--http", "--listener", "--faults", "--floods"];

/// How much to measure.
struct Effort {
    /// Interleaved rounds; a reported number is the median over them.
    rounds: usize,
    /// Small calls per round and path.
    calls: usize,
    /// Calls with a large message per round and path.
    large_calls: usize,
    /// Starts and stops of a daemon.
    lives: usize,
}

impl Effort {
    const FULL: Self = Self { rounds: 41, calls: 1500, large_calls: 16, lives: 21 };
    const QUICK: Self = Self { rounds: 9, calls: 1000, large_calls: 8, lives: 5 };
}

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [echo::MODE, tools] => echo::serve(Era::Legacy, tools.parse().map_err(io::Error::other)?),
        [echo::MODERN_MODE, tools] => echo::serve(Era::Modern, tools.parse().map_err(io::Error::other)?),
        [relay::MODE, socket, tools] => relay::serve(socket, tools),
        [relay::LAUNCHED_MODE, socket] => relay::launched(socket),
        [floods::SINK_MODE, socket] => floods::sink(socket),
        [http::server::MODE, core, addresses] => {
            http::serve::serve(core.parse().map_err(io::Error::other)?, addresses.parse().map_err(io::Error::other)?)
        }
        _ => {
            let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
            let is_selected = |part: &str| has(part) || !PARTS.into_iter().any(has);
            measure(if has("--quick") { &Effort::QUICK } else { &Effort::FULL }, is_selected)
        }
    }
}

fn measure(effort: &Effort, is_selected: impl Fn(&str) -> bool) -> io::Result<()> {
    executable::build()?;
    cores::pin(None, cores::ENDS);
    // Other load takes a core away. Then only the rows of one core are meaningful.
    println!("load of the machine before the run: {}", procfs::load()?);
    if is_selected("--stdio") {
        println!("Servers over pipes\n{}", stdio(effort)?);
    }
    if is_selected("--eras") {
        for (title, table) in eras::measure(effort)? {
            println!("\n{title}\n{table}");
        }
    }
    if is_selected("--http") {
        println!("\nServers over HTTP\n{}", http::measure(effort)?);
    }
    if is_selected("--listener") {
        for (title, table) in listener::measure(effort)? {
            println!("\n{title}\n{table}");
        }
    }
    if is_selected("--faults") {
        let mut table = Table::new(["direct", "relay", "mcpd"], 1);
        faults::measure(effort, &mut table)?;
        println!("\nFaults of others\n{table}");
    }
    if is_selected("--floods") {
        println!("\nFloods at another profile\n{}", floods::measure()?);
    }
    Ok(())
}

fn stdio(effort: &Effort) -> io::Result<Table> {
    let mut table = Table::new(["direct", "relay", "mcpd"], 1);
    cost::measure(effort, &mut table)?;
    size::measure(&mut table)?;
    life::measure(effort, &mut table)?;
    Ok(table)
}
