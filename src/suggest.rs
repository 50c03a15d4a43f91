//! Suggestions for misspelt words ("did you mean"). Pure.

/// Minimum Jaro-Winkler similarity of a suggestion.
const MIN_SIMILARITY: f64 = 0.8;

/// Minimum length of a word for which one wrong letter is accepted.
const MIN_TYPO_LEN: usize = 3;

/// Maximum number of typos in a misspelt word.
const MAX_TYPOS: usize = 2;

/// Minimum length of a word whose only correction may differ by more than one typo.
const LONG_WORD: usize = 6;

/// The most similar word in `known`; `None` if no word is similar enough.
pub(crate) fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let word = word.to_lowercase();
    let scored = known.into_iter().map(|name| (similarity(&word, &name.to_lowercase()), name));
    let (score, name) = scored.max_by(|(a, _), (b, _)| a.total_cmp(b))?;
    (score >= MIN_SIMILARITY).then_some(name)
}

/// The word in `known` that `word` is most likely a misspelling of: at most two typos, or the beginning of one of them.
pub(crate) fn misspelt<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let word = word.to_lowercase();
    let typos = |name: &str| strsim::osa_distance(&word, name);
    let is_similar = |name: &&str| {
        let is_beginning = word.len() >= MIN_TYPO_LEN && name.starts_with(&word);
        is_beginning
            || word.len() >= MIN_TYPO_LEN && typos(name) <= MAX_TYPOS && typos(name) < word.len().min(name.len()) - 1
    };
    known.into_iter().filter(is_similar).min_by_key(|name| typos(name))
}

/// The only word in `known` that `word` may be a misspelling of: with one typo, or two in a longer word.
pub(crate) fn only_misspelt<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let most = match word.chars().count() {
        0..MIN_TYPO_LEN => return None,
        MIN_TYPO_LEN..LONG_WORD => 1,
        _ => MAX_TYPOS,
    };
    let mut similar = known.into_iter().filter(|name| *name != word && strsim::osa_distance(word, name) <= most);
    let first = similar.next()?;
    similar.all(|name| name == first).then_some(first)
}

/// The end of an error about an unknown word: `: did you mean …?`, or nothing if no word is similar.
pub(crate) fn hint<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    nearest(word, known).map(|name| format!(": did you mean `{name}`?")).unwrap_or_default()
}

/// Similar are also words with one typo, and the name of a tool without the server prefix of its exposed name.
fn similarity(word: &str, name: &str) -> f64 {
    let is_tool_part = !word.is_empty() && name.strip_suffix(word).is_some_and(|before| before.ends_with("__"));
    let is_typo = word.len() >= MIN_TYPO_LEN && strsim::osa_distance(word, name) == 1;
    let minimum = if is_tool_part || is_typo { MIN_SIMILARITY } else { 0.0 };
    strsim::jaro_winkler(word, name).max(minimum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_two_typos_make_a_misspelling() {
        let known = ["status", "start", "stop", "schema", "service", "serve"];
        for (word, found) in [
            ("stattus", Some("status")),
            ("stpo", Some("stop")),
            ("sta", Some("start")),
            ("serv", Some("serve")),
            ("running", None),
            ("xyz", None),
            ("s", None),
        ] {
            assert_eq!(misspelt(word, known), found, "{word}");
        }
    }

    #[test]
    fn only_candidate_is_corrected() {
        let known = ["npx", "npm", "node", "uvx", "command", "call_timeout", "call_timeout_max"];
        for (word, found) in [
            ("npxx", Some("npx")),
            ("ndoe", Some("node")),
            ("npc", None),
            ("comand", Some("command")),
            ("cmmandd", Some("command")),
            ("call_timeot", Some("call_timeout")),
            ("node", None),
            ("no", None),
            ("unrelated", None),
        ] {
            assert_eq!(only_misspelt(word, known), found, "{word}");
        }
    }

    #[test]
    fn misspelt_word_gets_a_suggestion_and_an_unrelated_one_none() {
        let known = ["files", "search", "Memory"];
        for (word, found) in
            [("file", Some("files")), ("FILES", Some("files")), ("serach", Some("search")), ("memory", Some("Memory"))]
        {
            assert_eq!(nearest(word, known), found, "{word}");
        }
        assert_eq!(nearest("wbe", ["git", "web"]), Some("web"));
        assert_eq!(nearest("read_text_file", ["git__git_add", "files__read_text_file"]), Some("files__read_text_file"));
        for word in ["", "xyz"] {
            assert_eq!(nearest(word, known), None, "{word}");
        }
        assert_eq!(nearest("files", []), None);
    }
}
