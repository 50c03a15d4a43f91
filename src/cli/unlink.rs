//! `mcpd unlink`: gives the clients' files back as they were before `mcpd link`.

use std::path::PathBuf;

use clap::Args;
use clap_complete::ArgValueCandidates;

use super::client_changes::{Action, ClientChange, WriteOptions, carry_out, finish};
use super::link::{links, note_restart};
use super::{CommandResult, FAILED, completions, fail};
use crate::config::clients::project_of;
use crate::config::interpolate::Process;
use crate::known_clients::{CLIENTS, Client};
use crate::links::{ChangeError, FileChange, LinkRecord, Links, RecordError, UnreadableRecord};

#[derive(Debug, Args)]
pub(super) struct Unlink {
    /// Clients to unlink [default: every client that `mcpd link` has linked, with one question each]
    #[arg(value_name = "CLIENT", value_parser = super::arguments::client(), add = ArgValueCandidates::new(completions::clients))]
    clients: Vec<&'static Client>,
    #[command(flatten)]
    write: WriteOptions,
}

pub(super) fn run(Unlink { clients, write }: &Unlink) -> CommandResult {
    let links = links()?;
    let changes = plan(clients, &links).map_err(|error| fail(FAILED, error))?;
    if changes.is_empty() {
        print_note!("mcpd: no client is linked");
    }
    let reports = carry_out(changes, Action::Unlink, *write, &links, None)?;
    note_restart(&reports);
    finish(&reports, *write)
}

/// The changes that undo the links of `clients`, or of all clients that have records.
///
/// # Errors
/// If the directory of the records cannot be read.
pub(super) fn plan(clients: &[&'static Client], links: &Links) -> Result<Vec<ClientChange>, RecordError> {
    let (records, unreadable) = links.all()?;
    let is_unreadable =
        |client: &Client| unreadable.iter().find(|record| record.client.is_some_and(|of| of.word == client.word));
    let is_recorded =
        |client: &&Client| is_unreadable(client).is_some() || records.iter().any(|record| record.client == client.word);
    let clients = match clients {
        [] => CLIENTS.iter().filter(is_recorded).collect(),
        clients => clients.to_vec(),
    };
    let of_client = |client| match is_unreadable(client) {
        Some(UnreadableRecord { path, error, .. }) => {
            let reason =
                format!("{error}; without this file, `mcpd unlink {}` removes mcpd's entry alone", client.word);
            ClientChange { client, planned: Err((path.clone(), reason)), by_hand: None }
        }
        None => of_client(client, &records),
    };
    Ok(clients.into_iter().map(of_client).collect())
}

fn of_client(client: &'static Client, records: &[LinkRecord]) -> ClientChange {
    let mine: Vec<_> = records.iter().filter(|record| record.client == client.word).collect();
    let mut planned = Vec::new();
    let mut failed = None;
    let mut add = |path: PathBuf, change: Result<FileChange, ChangeError>| match change {
        Ok(change) => planned.push(change),
        Err(error) => failed = failed.take().or(Some((path, error.to_string()))),
    };
    for record in &mine {
        add(record.file.clone(), FileChange::unlink(client, (*record).clone(), &Process));
    }
    if mine.is_empty() {
        let of_user = client.files(&Process).into_iter();
        for path in of_user.filter(|file| file.exists() && project_of(file, &Process).is_none()) {
            add(path.clone(), FileChange::remove_pointers(client, &path, &Process));
        }
    }
    ClientChange { client, planned: failed.map_or(Ok(planned), Err), by_hand: None }
}
