//! Detects literal values that look like secrets, by name and by form.
//!
//! Detected values are moved, masked or warned about. It avoids false positives, because users ignore frequent false warnings.
//!
//! Pure.

use std::collections::BTreeSet;

use percent_encoding::percent_decode_str;

/// Words that mark a secret at the end of a name.
const SECRET_WORDS: [&str; 13] = [
    "apikey",
    "authorization",
    "credential",
    "credentials",
    "passphrase",
    "passwd",
    "password",
    "pat",
    "pwd",
    "secret",
    "secrets",
    "token",
    "cookie",
];
/// Endings that mark a secret without a word boundary, such as `PGPASSWORD`.
const GLUED: [&str; 2] = ["apikey", "password"];
/// Words that mark a secret before `key`. Other keys are sort keys or keyboard keys.
const SECRET_KEYS: [&str; 11] =
    ["access", "account", "api", "app", "auth", "encryption", "license", "master", "private", "secret", "service"];
/// The prefixes of tokens of well-known services, with the minimum number of characters after them.
const TOKENS: [(&str, usize); 19] = [
    ("ghp_", 20),
    ("gho_", 20),
    ("ghu_", 20),
    ("ghs_", 20),
    ("ghr_", 20),
    ("github_pat_", 20),
    ("glpat-", 16),
    ("sk-", 20),
    ("sk_live_", 16),
    ("rk_live_", 16),
    ("xoxa-", 10),
    ("xoxb-", 10),
    ("xoxp-", 10),
    ("xoxr-", 10),
    ("xoxs-", 10),
    ("AIza", 30),
    ("hf_", 30),
    ("npm_", 30),
    ("ntn_", 30),
];
/// Placeholders that people write for a secret.
const PLACEHOLDERS: [&str; 9] =
    ["your", "changeme", "change-me", "change_me", "example", "placeholder", "redacted", "dummy", "todo"];
/// Minimum length of a random text, in characters.
const MAX_WORD_LEN: usize = 24;
/// Minimum length of a text that can be a secret, in characters.
pub(super) const SHORTEST_SECRET: usize = 4;
/// Minimum length of a `Bearer` or `Basic` credential, in characters.
const SHORTEST_CREDENTIAL: usize = 8;

/// Whether a variable, header or option of this name contains a secret, such as `GITHUB_TOKEN`, `X-Api-Key` or
/// `--password`. `TOKEN_FILE`, `MAX_TOKENS` and `SORT_KEY` do not.
pub(crate) fn is_secret_name(name: &str) -> bool {
    let words = words(name);
    match words.as_slice() {
        [.., before, last] if last == "key" => SECRET_KEYS.contains(&before.as_str()),
        [.., last] => SECRET_WORDS.contains(&last.as_str()) || GLUED.iter().any(|end| last.ends_with(end)),
        [] => false,
    }
}

/// Whether the literal value of this name is a secret.
pub(crate) fn is_secret(name: &str, value: &str) -> bool {
    is_secret_value(value) || is_secret_name(name) && is_plausible(value)
}

/// Whether a text is a secret by its form: a token of a well-known service, an HTTP credential, a URL with a password or another
/// secret, a private key, or a long random text.
pub(crate) fn is_secret_value(value: &str) -> bool {
    let value = value.trim();
    if value.contains("${") {
        return false;
    }
    let credential = ["Bearer ", "Basic ", "token "].iter().find_map(|scheme| strip_prefix_any_case(value, scheme));
    if let Some(credential) = credential {
        return credential.len() >= SHORTEST_CREDENTIAL && !credential.contains(' ') && is_plausible(credential);
    }
    let is_token = TOKENS.iter().any(|(start, least)| {
        value.strip_prefix(start).is_some_and(|rest| rest.len() >= *least && rest.bytes().all(is_token_byte))
    });
    is_token && !is_placeholder(value)
        || value.starts_with("-----BEGIN ")
        || has_password(value)
        || has_secret_in_query(value)
        || is_random(value)
}

/// Which of these arguments are secrets: the value of an option with a secret's name (including references), or a text that looks like a
/// secret.
pub(crate) fn in_arguments(args: &[&str]) -> BTreeSet<usize> {
    let is_value = |name: &str, value: &str| value.contains("${") && is_secret_name(name) || is_secret(name, value);
    let is_it = |index: usize| {
        let arg = args[index];
        // `--token=X`, `TOKEN=X` and `Authorization: X`
        let named = arg.split_once(['=', ':']).filter(|(name, _)| !name.contains(['/', ' ']));
        let option = index.checked_sub(1).map(|before| args[before]);
        let option = option.filter(|option| option.starts_with('-') && !option.contains('=') && !arg.starts_with('-'));
        is_secret_value(arg)
            || named.is_some_and(|(name, value)| is_value(name, value.trim_start()))
            || option.is_some_and(|option| is_value(option, arg))
    };
    (0..args.len()).filter(|index| is_it(*index)).collect()
}

/// Splits a name into words: two for `GITHUB_TOKEN`, `github-token` and `githubToken`. Digits do not end a word: `TOKEN2` is one.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for c in name.chars() {
        let begins = !c.is_ascii_alphabetic() || c.is_ascii_uppercase() && was_lower;
        if begins {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| c.is_ascii_alphabetic()) {
            word.push(c.to_ascii_lowercase());
        }
        was_lower = c.is_ascii_lowercase();
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Whether a text can be a secret: not a switch, a number, a path, a URL, or a placeholder.
fn is_plausible(value: &str) -> bool {
    let value = value.trim();
    let is_place = value.starts_with(['/', '~', '.']) || value.contains("://");
    let is_word =
        matches!(value.to_ascii_lowercase().as_str(), "true" | "false" | "yes" | "no" | "on" | "off" | "none");
    value.chars().count() >= SHORTEST_SECRET && !is_place && !is_word && !is_placeholder(value)
}

fn is_placeholder(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    let is_one_mark = lower.chars().all(|c| matches!(c, 'x' | '*' | '.' | '…' | '-' | '0'));
    let ends_in_marks = lower.ends_with("xxx") || lower.ends_with("...") || lower.ends_with('…');
    is_one_mark
        || ends_in_marks
        || lower.starts_with(['<', '[', '{'])
        || PLACEHOLDERS.iter().any(|word| lower.contains(word))
}

/// `scheme://user:password@host`
fn has_password(value: &str) -> bool {
    let password = value.split_once("://").and_then(|(_, rest)| user_and_password(rest)).map(|(_, password)| password);
    password.is_some_and(|password| !password.is_empty() && !is_placeholder(password))
}

/// Finds the password in the text after the scheme of a URL.
fn user_and_password(rest: &str) -> Option<(&str, &str)> {
    rest.split(['/', '?', '#']).next()?.rsplit_once('@')?.0.split_once(':')
}

/// The secret parts of a URL, with or without scheme: user and password, and the password alone, encoded and decoded. Empty without
/// a password.
pub(super) fn url_passwords(url: &str) -> Vec<String> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let Some((user, password)) = user_and_password(rest).filter(|(_, password)| !password.is_empty()) else {
        return Vec::new();
    };
    let decoded = percent_decode_str(password).decode_utf8_lossy();
    vec![format!("{user}:{password}"), password.to_owned(), decoded.into_owned()]
}

/// `scheme://host/path?name=secret#name=secret`
fn has_secret_in_query(value: &str) -> bool {
    let Some((_, query)) = value.split_once("://").and_then(|(_, rest)| rest.split_once('?')) else { return false };
    // A part has no `?`, so it is not a URL with a query. This bounds the recursion.
    query.split(['?', '&', '#']).any(|part| {
        let (name, value) = part.split_once('=').unwrap_or(("", part));
        is_secret(name, value)
    })
}

/// Whether a text is long, has no blanks, and mixes capitals, small letters and digits.
fn is_random(value: &str) -> bool {
    let is_piece = value.len() >= MAX_WORD_LEN && value.bytes().all(is_token_byte);
    let class = |byte: u8| (byte.is_ascii_uppercase(), byte.is_ascii_lowercase(), byte.is_ascii_digit());
    let bytes = value.as_bytes();
    let has_all = [u8::is_ascii_uppercase, u8::is_ascii_lowercase, u8::is_ascii_digit]
        .iter()
        .all(|is_it| bytes.iter().filter(|byte| is_it(byte)).count() >= 3);
    let changes = bytes.windows(2).filter(|pair| class(pair[0]) != class(pair[1])).count();
    let mut distinct = bytes.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    is_piece && has_all && changes * 3 >= bytes.len() && distinct.len() >= 16 && !is_placeholder(value)
}

fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'+' | b'=' | b'.')
}

fn strip_prefix_any_case<'t>(text: &'t str, prefix: &str) -> Option<&'t str> {
    let start = text.get(..prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then(|| text[prefix.len()..].trim_start())
}

#[cfg(test)]
mod tests;
