//! What a link makes of the text of a client's file, and how it is undone. Pure.

use std::path::Path;

use super::record::{Inserted, LinkRecord};
use crate::client_files::{ClientText, EditError, Removed, SyntaxError, Value};
use crate::config::clients::Client;
use crate::config::import::{ForeignServer, foreign};
use crate::config::interpolate::Sources;

/// Why a client's file cannot be linked or unlinked. Nothing is written then.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LinkError {
    /// The client itself can hardly read it.
    #[error(transparent)]
    Syntax(#[from] SyntaxError),
    #[error(transparent)]
    Edit(#[from] EditError),
    /// Another server, which mcpd does not run, has the name.
    #[error("it already has another server called `{0}`")]
    NameTaken(String),
}

/// What a link puts into one file of a client.
#[derive(Clone, Copy)]
pub(crate) struct NewLink<'a> {
    pub(crate) client: &'static Client,
    /// The entries by name; none for a file from which servers are only taken over.
    pub(crate) entries: &'a [(String, Value)],
    /// Whether a server of the client is taken over.
    pub(crate) takes_over: &'a dyn Fn(&ForeignServer) -> bool,
}

/// An edited text, and what it takes to undo the edit.
pub(super) struct Edited {
    pub(super) text: String,
    pub(super) inserted: Vec<Inserted>,
    pub(super) removed: Vec<Removed>,
    /// The names of the servers that this edit has taken over.
    pub(super) taken_over: Vec<String>,
}

/// The entries of `client` in `text` that run `mcpd connect`: each with its table.
fn pointers(path: &Path, text: &str, sources: &dyn Sources) -> Vec<(Vec<String>, String)> {
    let found = foreign(path, text, sources).pointers.into_iter();
    found.map(|pointer| (pointer.table, pointer.name)).collect()
}

fn keys(table: &[String]) -> Vec<&str> {
    table.iter().map(String::as_str).collect()
}

/// The text with the entries of `link`, in place of those of the link that `former` records.
pub(super) fn linked(
    path: &Path,
    text: &str,
    link: NewLink<'_>,
    former: Option<&LinkRecord>,
    sources: &dyn Sources,
) -> Result<Edited, LinkError> {
    let NewLink { client, entries, takes_over } = link;
    let table = client.servers_table();
    let mut edited = ClientText::parse(client.syntax(), text)?;
    let mut inserted = former.map(|former| former.inserted.clone()).unwrap_or_default();
    let mut removed = former.map(|former| former.removed.clone()).unwrap_or_default();
    let is_named = |name: &str| entries.iter().any(|(listed, _)| listed == name);
    let (kept, stale): (Vec<_>, Vec<_>) = inserted.drain(..).partition(|inserted| is_named(&inserted.name));
    inserted = kept;
    for stale in &stale {
        take_back(&mut edited, table, stale, path, sources)?;
    }
    let mut take_over = |edited: &mut ClientText| -> Result<Vec<String>, EditError> {
        let (found, entries) = taken_over(edited, path, sources, |server| {
            !(server.table == table && is_named(&server.title)) && takes_over(server)
        })?;
        removed.extend(entries);
        Ok(found)
    };
    let mut taken_over = take_over(&mut edited)?;
    for (name, value) in entries {
        let is_ours = inserted.iter().any(|inserted| inserted.name == *name);
        let mut replaced = None;
        if edited.entry(table, name).is_some() && !is_ours {
            let read = foreign(path, edited.text(), sources);
            let is_pointer = read.pointers.iter().any(|pointer| pointer.table == table && pointer.name == *name);
            let is_there = |server: &&ForeignServer| server.table == table && server.title == *name;
            let is_equal = read.servers.iter().find(is_there).is_some_and(takes_over);
            if !is_pointer && !is_equal {
                return Err(LinkError::NameTaken(name.clone()));
            }
            if is_equal {
                taken_over.push(name.clone());
            }
            replaced = edited.clone().remove(table, name)?;
        }
        edited.insert(table, name, value)?;
        let text = edited.entry(table, name).unwrap_or_default().into_owned();
        match inserted.iter_mut().find(|inserted| inserted.name == *name) {
            Some(inserted) => inserted.text = text,
            None => inserted.push(Inserted { name: name.clone(), text, replaced }),
        }
    }
    // One that equals a replaced server is read only now.
    taken_over.extend(take_over(&mut edited)?);
    Ok(Edited { text: edited.text().to_owned(), inserted, removed, taken_over })
}

/// Removes the servers for which `is_meant` is true. Returns their names and their entries, in the order of removal.
fn taken_over(
    edited: &mut ClientText,
    path: &Path,
    sources: &dyn Sources,
    is_meant: impl Fn(&ForeignServer) -> bool,
) -> Result<(Vec<String>, Vec<Removed>), EditError> {
    let (mut names, mut entries) = (Vec::new(), Vec::new());
    // Equal definitions of a server are read as one, so the next one appears once this one is removed.
    loop {
        let before = entries.len();
        for server in foreign(path, edited.text(), sources).servers.iter().filter(|server| is_meant(server)) {
            if let Some(entry) = edited.remove(&keys(&server.table), &server.title)? {
                entries.push(entry);
                names.push(server.title.clone());
            }
        }
        if entries.len() == before {
            return Ok((names, entries));
        }
    }
}

/// Removes an entry of mcpd, and puts back the one that had its name. An entry that somebody has replaced stays.
fn take_back(
    edited: &mut ClientText,
    table: &[&str],
    entry: &Inserted,
    path: &Path,
    sources: &dyn Sources,
) -> Result<(), EditError> {
    let Inserted { name, text, replaced } = entry;
    let is_ours = edited.entry(table, name).is_some_and(|now| {
        let is_pointer = || pointers(path, edited.text(), sources).iter().any(|(at, one)| at == table && one == name);
        now == *text || url(text).is_some_and(|url| now.contains(url)) || is_pointer()
    });
    if is_ours {
        edited.remove(table, name)?;
    }
    match replaced {
        Some(replaced) => put_back(edited, replaced),
        None => Ok(()),
    }
}

/// Restores an entry, unless the user has added one of its name since.
fn put_back(edited: &mut ClientText, entry: &Removed) -> Result<(), EditError> {
    match edited.restore(entry) {
        Err(EditError::Taken(_)) => Ok(()),
        restored => restored,
    }
}

/// The URL of an entry for a server at one.
fn url(text: &str) -> Option<&str> {
    let start = ["http://", "unix://"].iter().find_map(|scheme| text.find(scheme))?;
    text[start..].split(['"', '\'']).next()
}

/// The text without mcpd's entries, and with the servers that were taken over. Without a change by others it is the text from before the
/// link, byte for byte.
pub(super) fn unlinked(
    client: &Client,
    text: Option<&str>,
    record: &LinkRecord,
    sources: &dyn Sources,
) -> Result<Option<String>, LinkError> {
    if record.is_untouched(text) {
        return Ok(record.before.clone());
    }
    let mut edited = ClientText::parse(client.syntax(), text.unwrap_or_default())?;
    for entry in &record.inserted {
        take_back(&mut edited, client.servers_table(), entry, &record.file, sources)?;
    }
    for entry in record.removed.iter().rev() {
        put_back(&mut edited, entry)?;
    }
    let is_still_missing = text.is_none() && edited.text().is_empty();
    Ok((!is_still_missing).then(|| edited.text().to_owned()))
}

/// The text without any entry that runs `mcpd connect`, for a file without a record. Also returns their names.
pub(super) fn without_pointers(
    client: &Client,
    path: &Path,
    text: &str,
    sources: &dyn Sources,
) -> Result<(String, Vec<String>), LinkError> {
    let found = foreign(path, text, sources);
    let mut names = Vec::new();
    if found.pointers.is_empty() && found.errors.is_empty() {
        return Ok((text.to_owned(), names));
    }
    let mut edited = ClientText::parse(client.syntax(), text)?;
    for (table, name) in pointers(path, text, sources) {
        if edited.remove(&keys(&table), &name)?.is_some() {
            names.push(name);
        }
    }
    Ok((edited.text().to_owned(), names))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::interpolate::tests::table::Table;
    use crate::known_clients::Program;
    use crate::links::record::{Digest, Scope, Served};

    const TEXT: &str =
        "{\n  \"mcpServers\": {\n    \"a\": { \"command\": \"a\" },\n    \"b\": { \"command\": \"b\" }\n  }\n}\n";

    fn cursor() -> &'static Client {
        Client::named("cursor").expect("a client")
    }

    /// Links with entries of these names, and returns the new text with its record.
    fn link(text: &str, names: &[&str], former: Option<&LinkRecord>) -> Result<(String, LinkRecord), LinkError> {
        let program = |name: &str| Program {
            name: name.to_owned(),
            command: "/bin/mcpd".to_owned(),
            args: vec!["connect".to_owned()],
            ..Program::default()
        };
        let entries: Vec<_> = names.iter().map(|name| ((*name).to_owned(), cursor().entry(&program(name)))).collect();
        let takes_over = |server: &ForeignServer| server.title == "b";
        let new = NewLink { client: cursor(), entries: &entries, takes_over: &takes_over };
        let path = Path::new("/h/.cursor/mcp.json");
        let edited = linked(path, text, new, former, &Table::from([("~", "/h")]))?;
        let mut record = LinkRecord::new("cursor", Scope::User, path, path, Served::default());
        record.before = former.map_or_else(|| Some(text.to_owned()), |former| former.before.clone());
        record.states = [Digest::of(Some(text)), Digest::of(Some(&edited.text))];
        (record.inserted, record.removed) = (edited.inserted, edited.removed);
        Ok((edited.text, record))
    }

    fn unlink(text: &str, record: &LinkRecord) -> String {
        unlinked(cursor(), Some(text), record, &Table::from([("~", "/h")])).expect("an edit").expect("a file")
    }

    #[test]
    fn every_state_that_mcpd_has_written_leads_back_to_the_first_bytes() {
        let (first, record) = link(TEXT, &["x", "y"], None).expect("a link");
        assert!(!first.contains("\"b\"") && first.contains("\"x\"") && first.contains("\"y\""), "{first}");
        let (second, newer) = link(&first, &["mcpd"], Some(&record)).expect("a link");
        assert!(!second.contains("\"x\"") && second.contains("\"mcpd\""), "{second}");
        // The second link may have been interrupted before it wrote the file.
        for (text, record) in
            [(&*first, &record), (TEXT, &record), (&*second, &newer), (&*first, &newer), (TEXT, &newer)]
        {
            assert_eq!(unlink(text, record), TEXT);
        }
    }

    #[test]
    fn replaced_entry_comes_back_and_a_foreign_one_of_the_name_is_refused() {
        let (text, record) = link(TEXT, &["b"], None).expect("a link");
        assert!(text.contains("/bin/mcpd") && !text.contains("\"command\": \"b\""), "{text}");
        assert_eq!(unlink(&format!("{text}\n"), &record), format!("{TEXT}\n"));
        assert!(matches!(link(TEXT, &["a"], None), Err(LinkError::NameTaken(name)) if name == "a"));
    }

    #[test]
    fn entry_that_the_user_has_replaced_stays() {
        let (text, record) = link(TEXT, &["mcpd"], None).expect("a link");
        let edited = text.replace("/bin/mcpd", "/bin/other");
        let left = unlink(&edited, &record);
        assert!(left.contains("/bin/other") && left.contains("\"command\": \"b\""), "{left}");
    }
}
