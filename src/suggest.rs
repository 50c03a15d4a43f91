//! Which of the known words somebody may have meant.
//!
//! Pure.

/// How alike two words must be (Jaro-Winkler, 0 to 1) for one to be suggested for the other.
const ALIKE: f64 = 0.8;

/// Letters of a word that may be another with one letter wrong.
const SHORTEST: usize = 3;

/// Of `known`, the word that is most like `word`; `None` if none is much like it.
pub(crate) fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let word = word.to_lowercase();
    let likeness = known.into_iter().map(|name| (likeness(&word, &name.to_lowercase()), name));
    let (likeness, name) = likeness.max_by(|(a, _), (b, _)| a.total_cmp(b))?;
    (likeness >= ALIKE).then_some(name)
}

/// What to add to a sentence about `word`, which is none of `known`: nothing if none is much like it.
pub(crate) fn hint<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    nearest(word, known).map(|name| format!(": did you mean `{name}`?")).unwrap_or_default()
}

/// How alike they are. A short word with two letters exchanged is alike as well, and so is a tool's name to the one that agents know.
fn likeness(word: &str, name: &str) -> f64 {
    let is_its_end = !word.is_empty() && name.strip_suffix(word).is_some_and(|before| before.ends_with("__"));
    let is_a_slip = word.len() >= SHORTEST && strsim::osa_distance(word, name) == 1;
    let least = if is_its_end || is_a_slip { ALIKE } else { 0.0 };
    strsim::jaro_winkler(word, name).max(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_word_is_found_and_another_is_not() {
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
