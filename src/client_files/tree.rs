//! What a text means, to compare before and after an edit.

use serde::{Deserialize, Serialize};

use super::{EditError, Value};

/// A value without its spelling. The order of a table's members counts for nothing but [`super::ClientText::names`].
#[derive(Clone, Eq, Serialize, Deserialize)]
pub(super) enum Tree {
    Text(String),
    /// Whatever else has no members, in its source text.
    Word(String),
    List(Vec<Tree>),
    /// As written, so possibly with one name twice.
    Table(Vec<(String, Tree)>),
}

impl PartialEq for Tree {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Text(one), Self::Text(other)) | (Self::Word(one), Self::Word(other)) => one == other,
            (Self::List(one), Self::List(other)) => one == other,
            (Self::Table(one), Self::Table(other)) => {
                fn sorted(members: &[(String, Tree)]) -> Vec<&(String, Tree)> {
                    let mut members: Vec<_> = members.iter().collect();
                    members.sort_by(|one, other| one.0.cmp(&other.0));
                    members
                }
                one.len() == other.len() && sorted(one) == sorted(other)
            }
            _ => false,
        }
    }
}

impl From<&Value> for Tree {
    fn from(value: &Value) -> Self {
        match value {
            Value::Text(text) => Self::Text(text.clone()),
            Value::Flag(flag) => Self::Word(flag.to_string()),
            Value::List(items) => Self::List(items.iter().cloned().map(Self::Text).collect()),
            Value::Table(members) => {
                Self::Table(members.iter().map(|(name, value)| (name.clone(), Self::from(value))).collect())
            }
        }
    }
}

/// The only member of this name.
fn single<'a>(members: &'a [(String, Tree)], name: &str) -> Result<Option<(usize, &'a Tree)>, EditError> {
    let mut found = members.iter().enumerate().filter(|(_, (other, _))| other == name);
    match (found.next(), found.next()) {
        (Some(_), Some(_)) => Err(EditError::Twice(name.to_owned())),
        (first, _) => Ok(first.map(|(at, (_, tree))| (at, tree))),
    }
}

fn not_a_table(path: &[&str]) -> EditError {
    EditError::NotATable(path.iter().map(|&key| key.to_owned()).collect())
}

impl Tree {
    pub(super) fn empty() -> Self {
        Self::Table(Vec::new())
    }

    /// The members of a table, if there is one.
    pub(super) fn table(&self, path: &[&str]) -> Result<Option<&[(String, Self)]>, EditError> {
        let mut tree = self;
        for depth in 0..=path.len() {
            let Self::Table(members) = tree else { return Err(not_a_table(&path[..depth])) };
            let Some(key) = path.get(depth) else { return Ok(Some(members)) };
            match single(members, key)? {
                Some((_, next)) => tree = next,
                None => return Ok(None),
            }
        }
        Ok(None)
    }

    /// The members of a table, which is made if it is missing.
    fn table_mut(&mut self, path: &[&str]) -> Result<&mut Vec<(String, Self)>, EditError> {
        let mut tree = self;
        for (depth, key) in path.iter().enumerate() {
            let Self::Table(members) = tree else { return Err(not_a_table(&path[..depth])) };
            let at = match single(members, key)? {
                Some((at, _)) => at,
                None => {
                    members.push(((*key).to_owned(), Self::empty()));
                    members.len() - 1
                }
            };
            tree = &mut members[at].1;
        }
        match tree {
            Self::Table(members) => Ok(members),
            _ => Err(not_a_table(path)),
        }
    }

    /// Adds or replaces an entry. Returns whether there was one.
    pub(super) fn set(&mut self, table: &[&str], name: &str, entry: Self) -> Result<bool, EditError> {
        let members = self.table_mut(table)?;
        let at = single(members, name)?.map(|(at, _)| at);
        match at {
            Some(at) => members[at].1 = entry,
            None => members.push((name.to_owned(), entry)),
        }
        Ok(at.is_some())
    }

    /// Without the tables on a path that are empty but for each other.
    pub(super) fn pruned(&self, path: &[&str]) -> Self {
        let (Self::Table(members), Some((key, rest))) = (self, path.split_first()) else { return self.clone() };
        let pruned = members.iter().map(|(name, member)| match name == key {
            true => (name.clone(), member.pruned(rest)),
            false => (name.clone(), member.clone()),
        });
        Self::Table(pruned.filter(|(name, member)| name != key || *member != Self::empty()).collect())
    }

    /// Takes an entry out.
    pub(super) fn take(&mut self, table: &[&str], name: &str) -> Result<Option<Self>, EditError> {
        if self.table(table)?.is_none() {
            return Ok(None);
        }
        let members = self.table_mut(table)?;
        let at = single(members, name)?.map(|(at, _)| at);
        Ok(at.map(|at| members.remove(at).1))
    }
}
