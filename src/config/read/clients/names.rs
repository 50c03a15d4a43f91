//! Gives valid names to servers of other clients, which allow any name.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::super::server::fitted_name;
use crate::naming::is_server_name;

/// A valid name for each title. A valid title is used as it is, unless an earlier server has the name. Any other gets a similar name, with
/// a number if that name is taken.
pub(super) fn assigned(titles: &[&str]) -> Vec<Arc<str>> {
    let mut taken: HashSet<Arc<str>> = HashSet::new();
    let mut names: Vec<Option<Arc<str>>> = Vec::new();
    for title in titles {
        let unchanged = is_server_name(title).then(|| Arc::from(*title)).filter(|name| !taken.contains(name));
        taken.extend(unchanged.clone());
        names.push(unchanged);
    }
    let mut numbers = HashMap::new();
    let fill = |(unchanged, title): (Option<Arc<str>>, &&str)| {
        unchanged.unwrap_or_else(|| {
            let fitted = fitted_name(title, "server");
            let name = free(&fitted, numbers.entry(fitted.clone()).or_insert(1), &taken);
            taken.insert(Arc::clone(&name));
            name
        })
    };
    names.into_iter().zip(titles).map(fill).collect()
}

/// `name`, or `name-2` and so on. `number` is the last number tried.
fn free(name: &str, number: &mut usize, taken: &HashSet<Arc<str>>) -> Arc<str> {
    loop {
        let candidate = if *number == 1 { name.to_owned() } else { format!("{name}-{number}") };
        *number += 1;
        if !taken.contains(candidate.as_str()) {
            return candidate.into();
        }
    }
}
