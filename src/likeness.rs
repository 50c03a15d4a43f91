//! Which of the known words somebody may have meant.
//!
//! Pure.

/// How alike two words must be (Jaro-Winkler, 0 to 1) for one to be suggested for the other.
const ALIKE: f64 = 0.8;

/// Of `known`, the word that is most like `word`; `None` if none is much like it.
pub(crate) fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let word = word.to_lowercase();
    let likeness = known.into_iter().map(|name| (strsim::jaro_winkler(&word, &name.to_lowercase()), name));
    let (likeness, name) = likeness.max_by(|(a, _), (b, _)| a.total_cmp(b))?;
    (likeness >= ALIKE).then_some(name)
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
        for word in ["", "xyz"] {
            assert_eq!(nearest(word, known), None, "{word}");
        }
        assert_eq!(nearest("files", []), None);
    }
}
