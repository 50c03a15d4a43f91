//! The methods `changes` and `approve`: definitions that are not approved, and their approval.
//!
//! A definition may be larger than a message, so its text is sent in parts. An approval names digests, which the operator has from `changes`:
//! what a server lists by then under the same name is not approved.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use super::control::wait;
use super::operator::{
    Access, Operator, event, refuse, refuse_overload, respond, send, send_text, stopping, unknown_server,
};
use super::report::{ApprovalReport, ChangeReport, ChangesServer, ChangesSummary, DefinitionPart};
use super::{AdminEvent, Answer, ApprovedDefinition, Params};
use crate::jsonrpc::reply::{ErrorObject, INVALID_PARAMS};
use crate::manager::{DefinitionChange, ManagerError, ServerChanges};
use crate::pins::{Digest, PinnedKind};
use crate::printable::beginning;

/// For reading and writing pin files. What is requested continues if the operator leaves.
const FILE_LIMIT: Duration = Duration::from_secs(60);
/// Maximum length of a name, in characters. The digest identifies the definition.
const MAX_NAME_LEN: usize = 500;

/// Answers request `id`.
pub(super) async fn answer(operator: &mut Operator, id: u64, server: Option<&str>, access: &Access) -> io::Result<()> {
    let Ok(_permit) = access.long_requests.try_acquire() else { return refuse_overload(operator, id).await };
    let unknown = server.and_then(|server| unknown_server(&access.view.borrow(), server));
    if let Some(error) = unknown {
        return refuse(operator, Some(id), error).await;
    }
    let all = match wait(operator, FILE_LIMIT, access.manager.definition_changes(server)).await? {
        Ok(all) => all,
        Err(error) => return refuse(operator, Some(id), refusal(&error)).await,
    };
    let mut servers = Vec::new();
    for ServerChanges { server, rule, problem, changes, left_out } in all {
        for change in &changes {
            send_change(operator, &server, change).await?;
        }
        servers.push(ChangesServer {
            name: server.to_string(),
            rule: rule.word().to_owned(),
            file_problem_code: problem.as_ref().map(|problem| problem.error.word().to_owned()),
            file_problem: problem.map(|problem| problem.to_string()),
            left_out,
        });
    }
    respond(operator, Some(id), Answer::Changes(ChangesSummary { servers })).await
}

fn refusal(error: &ManagerError) -> ErrorObject {
    match error {
        ManagerError::Closed => stopping(),
        error => ErrorObject::new(INVALID_PARAMS, error.to_string()),
    }
}

async fn send_change(operator: &mut Operator, server: &str, change: &DefinitionChange) -> io::Result<()> {
    let report = ChangeReport {
        server: server.to_owned(),
        kind: change.kind.word().to_owned(),
        name: beginning(&change.key, MAX_NAME_LEN).to_owned(),
        digest: change.digest.to_string(),
        new: change.is_new,
        withheld: change.withheld.map(|why| why.word().to_owned()),
        since: humantime::format_rfc3339_millis(change.since).to_string(),
        approved: Vec::new(),
        current: String::new(),
    };
    send(operator, event(AdminEvent::Change(Box::new(report)))).await?;
    for (index, text) in change.approved.iter().enumerate() {
        send_text(operator, text.get().to_owned(), part_of(Some(index))).await?;
    }
    send_text(operator, String::from_utf8_lossy(&change.current).into_owned(), part_of(None)).await
}

fn part_of(approved: Option<usize>) -> impl Fn(String) -> AdminEvent {
    move |text| AdminEvent::Definition(DefinitionPart { approved, text })
}

/// Answers request `id` for an approval.
pub(super) async fn approve(operator: &mut Operator, id: u64, params: &Params, access: &Access) -> io::Result<()> {
    let Ok(_permit) = access.long_requests.try_acquire() else { return refuse_overload(operator, id).await };
    let server = params.server.as_deref().unwrap_or_default();
    let unknown = unknown_server(&access.view.borrow(), server);
    if let Some(error) = unknown {
        return refuse(operator, Some(id), error).await;
    }
    match wait(operator, FILE_LIMIT, record(server, &params.definitions, access)).await? {
        Ok(report) => respond(operator, Some(id), Answer::Approval(report)).await,
        Err(error) => refuse(operator, Some(id), error).await,
    }
}

/// Approves those definitions that the server still lists.
async fn record(
    server: &str,
    definitions: &[ApprovedDefinition],
    access: &Access,
) -> Result<ApprovalReport, ErrorObject> {
    let offered = access.manager.definition_changes(Some(server)).await.map_err(|error| refusal(&error))?;
    let offered = offered.iter().flat_map(|one| &one.changes);
    let keys: HashMap<(PinnedKind, Digest), &str> =
        offered.map(|change| ((change.kind, change.digest), &*change.key)).collect();
    let (mut listed, mut changed_again) = (Vec::new(), Vec::new());
    for ApprovedDefinition { kind, digest } in definitions {
        match keys.get(&(*kind, *digest)) {
            Some(key) => listed.push((*kind, (*key).to_owned(), *digest)),
            None => changed_again.push(*digest),
        }
    }
    let approved = access.manager.approve(server, listed).await;
    let approved = approved.map_err(|error| ErrorObject::new(INVALID_PARAMS, error.to_string()))?;
    changed_again.extend(approved.changed_again.iter().map(|(_, _, digest)| *digest));
    Ok(ApprovalReport { done: approved.done, changed_again })
}
