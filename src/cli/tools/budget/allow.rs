//! Which tools to keep below a limit, and the shortest `allow` that keeps exactly these. Pure.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::policy::exact_pattern;

/// Tools with a common beginning, from which on one pattern replaces their names.
const MIN_ALIKE: usize = 3;
/// Characters after which a beginning may end.
const SEPARATORS: [char; 3] = ['_', '-', '.'];

/// A tool that agents of the profile see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Candidate<'t> {
    pub(super) server: &'t str,
    /// The server's own name for it.
    pub(super) tool: &'t str,
    pub(super) tokens: usize,
    /// Recorded calls by agents of the profile.
    pub(super) calls: usize,
}

/// At most `max` of `tools`, in their order: first those that were called most, then the cheapest.
pub(super) fn choose<'t>(tools: &[Candidate<'t>], max: usize) -> Vec<Candidate<'t>> {
    let mut by_rank: Vec<_> = tools.iter().enumerate().collect();
    by_rank.sort_by_key(|(_, tool)| (Reverse(tool.calls), tool.tokens));
    let kept: BTreeSet<_> = by_rank.iter().take(max).map(|(index, _)| *index).collect();
    kept.into_iter().map(|index| tools[index]).collect()
}

/// Patterns `SERVER/TOOL` that match `kept` and none of the `others` (server and own name), which an `allow` alone would expose.
pub(super) fn patterns(kept: &[Candidate<'_>], others: &[(&str, &str)]) -> Vec<String> {
    let mut patterns = Vec::new();
    for of_server in kept.chunk_by(|one, next| one.server == next.server) {
        let server = of_server[0].server;
        let others: Vec<_> = others.iter().filter(|(of, _)| *of == server).map(|(_, tool)| *tool).collect();
        let mut left: Vec<_> = of_server.iter().map(|one| one.tool).collect();
        while let Some(tool) = left.first().copied() {
            let beginning = beginnings(tool).find(|beginning| {
                let is_alike = |tool: &&str| tool.starts_with(beginning);
                let least = if beginning.is_empty() { 2 } else { MIN_ALIKE };
                left.iter().filter(|tool| is_alike(tool)).count() >= least && !others.iter().any(is_alike)
            });
            match beginning {
                Some(beginning) => {
                    patterns.push(format!("{server}/{}*", exact_pattern(beginning)));
                    left.retain(|tool| !tool.starts_with(beginning));
                }
                None => {
                    patterns.push(format!("{server}/{}", exact_pattern(tool)));
                    left.retain(|one| *one != tool);
                }
            }
        }
    }
    patterns
}

/// The beginnings of a name that end at a separator, the shortest first; it is empty.
fn beginnings(tool: &str) -> impl Iterator<Item = &str> {
    let ends = tool.match_indices(SEPARATORS).map(|(at, separator)| at + separator.len());
    std::iter::once(0).chain(ends).map(|end| &tool[..end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::pattern;

    fn candidates<'t>(tools: &[(&'t str, usize, usize)]) -> Vec<Candidate<'t>> {
        let candidate = |(name, tokens, calls): &(&'t str, usize, usize)| {
            let (server, tool) = name.split_once('/').expect("SERVER/TOOL");
            Candidate { server, tool, tokens: *tokens, calls: *calls }
        };
        tools.iter().map(candidate).collect()
    }

    #[test]
    fn called_tools_are_kept_before_cheap_ones_and_cheap_ones_before_others() {
        let tools = candidates(&[("a/x", 90, 0), ("a/y", 50, 1), ("a/z", 50, 0), ("b/x", 10, 0), ("b/y", 500, 7)]);
        for (max, expected) in [
            (0, &[][..]),
            (1, &["b/y"]),
            (2, &["a/y", "b/y"]),
            (3, &["a/y", "b/x", "b/y"]),
            (4, &["a/y", "a/z", "b/x", "b/y"]),
            (9, &["a/x", "a/y", "a/z", "b/x", "b/y"]),
        ] {
            let kept: Vec<_> = choose(&tools, max).iter().map(|one| format!("{}/{}", one.server, one.tool)).collect();
            assert_eq!(kept, expected, "{max}");
        }
        let equal = candidates(&[("a/1", 5, 0), ("a/2", 5, 0), ("a/3", 5, 0)]);
        assert_eq!(choose(&equal, 2), equal[..2], "the order of the list decides");
    }

    #[test]
    fn patterns_match_exactly_the_tools_to_keep() {
        for (kept, others, expected) in [
            (&["a/x"][..], &[][..], &["a/x"][..]),
            (&["a/x", "a/y"], &["b/x"], &["a/*"]),
            (&["a/x", "a/y"], &["a/z"], &["a/x", "a/y"]),
            (&["a/get_x", "a/get_y", "a/get_z"], &["a/put_x"], &["a/get_*"]),
            (&["a/get_x", "a/get_y"], &["a/put_x"], &["a/get_x", "a/get_y"]),
            (&["a/get_x", "a/get_y", "a/get_z"], &["a/get_w"], &["a/get_x", "a/get_y", "a/get_z"]),
            (
                &["a/do_get_x", "a/log", "a/do_get_y", "a/do_get_z", "b/x", "b/y"],
                &["a/do_put"],
                &["a/do_get_*", "a/log", "b/*"],
            ),
            (&["a/x*", "a/[y]", "a/{z}"], &["a/xx"], &["a/x[*]", "a/[[]y[]]", "a/[{]z[}]"]),
            (&["a/get-x", "a/get-y", "a/get.z"], &["a/z"], &["a/get-x", "a/get-y", "a/get.z"]),
            (&["a/é_x", "a/é_y", "a/é_z"], &["a/z"], &["a/é_*"]),
        ] {
            let all: Vec<_> = kept.iter().map(|name| (*name, 1, 0)).collect();
            let split: Vec<_> = others.iter().filter_map(|name| name.split_once('/')).collect();
            let patterns = patterns(&candidates(&all), &split);
            assert_eq!(patterns, expected);
            let matchers: Vec<_> =
                patterns.iter().map(|text| pattern(text).expect("a glob").compile_matcher()).collect();
            let is_match = |name: &&&str| matchers.iter().any(|matcher| matcher.is_match(**name));
            assert!(kept.iter().filter(is_match).count() == kept.len() && !others.iter().any(|name| is_match(&name)));
        }
    }
}
