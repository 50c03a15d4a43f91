//! What mcpd costs, as ratios: one run measures an echo server reached directly, through a relay that copies bytes and parses
//! nothing, and through mcpd; and one that is reached by URL ([`http`]).
//!
//! `cargo bench` takes about two minutes, `cargo bench -- --quick` about twenty seconds; `--http` leaves out servers over pipes.
//! Rounds of the three ways are interleaved, so that a noisy machine is noisy for all of them, and only the ratios are worth remembering. Nothing is asserted:
//! a slow machine is no reason to fail a build.
//!
//! What is measured is mcpd as it is installed, which is built first; `MCPD=/usr/bin/mcpd cargo bench` measures that one instead.

#![expect(clippy::print_stdout, reason = "the table is what this program is for")]

mod connection;
mod cores;
mod cost;
mod echo;
mod executable;
mod faults;
mod http;
mod life;
mod middle;
mod procfs;
mod relay;
mod sides;
mod size;
mod stats;
mod table;

use std::io;

use table::Table;

/// How much to measure.
struct Effort {
    /// Interleaved rounds; a reported number is the median over them.
    rounds: usize,
    /// Small calls a round and a way.
    calls: usize,
    /// Calls with a large message a round and a way.
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
        [echo::MODE, tools] => echo::serve(tools.parse().map_err(io::Error::other)?),
        [relay::MODE, socket, tools] => relay::serve(socket, tools),
        [relay::LAUNCHED_MODE, socket] => relay::launched(socket),
        [http::server::MODE, core, addresses] => {
            http::serve::serve(core.parse().map_err(io::Error::other)?, addresses.parse().map_err(io::Error::other)?)
        }
        _ => {
            let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
            measure(if has("--quick") { &Effort::QUICK } else { &Effort::FULL }, has("--http"))
        }
    }
}

fn measure(effort: &Effort, only_http: bool) -> io::Result<()> {
    executable::build()?;
    cores::pin(None, cores::ENDS);
    // Whoever else is at work takes a core away, and then only the rows of one core mean anything.
    println!("load of the machine before the run: {}", procfs::load()?);
    if !only_http {
        println!("{}", stdio(effort)?);
    }
    println!("\nServers over HTTP\n{}", http::measure(effort)?);
    Ok(())
}

fn stdio(effort: &Effort) -> io::Result<Table> {
    let mut table = Table::new(["direct", "relay", "mcpd"], 1);
    cost::measure(effort, &mut table)?;
    size::measure(&mut table)?;
    life::measure(effort, &mut table)?;
    faults::measure(effort, &mut table)?;
    Ok(table)
}
