//! Servers that come, go, and are changed while the program runs; who looks at the list is told.

#![allow(clippy::print_stdout, reason = "an example shows what it finds")]

mod support;

use std::error::Error;
use std::process::ExitCode;

use mcpd::manager::Toggle;
use mcpd::{Manager, demo_server};

fn main() -> ExitCode {
    support::run(example())
}

async fn example() -> Result<(), Box<dyn Error>> {
    let manager = Manager::start([])?;
    let mut list = manager.watch();
    manager.connect(demo_server::config("first")?).await?;
    list.changed().await?;
    show("one connected", &manager).await;

    let second = demo_server::config("second")?.env("GREETING", "hello");
    let changes = manager.set_servers([demo_server::config("first")?, second]).await?;
    // The second was started beside the first, which goes on undisturbed.
    println!(
        "unchanged {:?}, added {:?}, changed {:?}, removed {:?}",
        changes.unchanged, changes.added, changes.changed, changes.removed
    );
    show("two set", &manager).await;

    manager.toggle("first", Toggle::Disable).await?;
    show("the first disabled", &manager).await;
    manager.toggle("first", Toggle::Enable).await?;
    manager.disconnect("second").await?;
    show("the second disconnected", &manager).await;
    manager.close().await;
    Ok(())
}

async fn show(what: &str, manager: &Manager) {
    let servers: std::collections::BTreeSet<_> =
        manager.all_tools().await.into_iter().map(|tool| tool.server.to_string()).collect();
    println!("{what}: tools of {servers:?}");
}
