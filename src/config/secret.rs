//! Whether a value that somebody wrote down looks like a secret: by what it is called, and by how it looks.
//!
//! Pure, and modest: what is taken for a secret is moved, masked or warned of, and a false alarm teaches people to look away.

use std::collections::BTreeSet;

use percent_encoding::percent_decode_str;

/// Words that make a secret of what they end the name of.
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
/// The same where it is written in one with what is before it, such as `PGPASSWORD`.
const GLUED: [&str; 2] = ["apikey", "password"];
/// What makes a secret of a `key` that follows it. Others are keys to sort by, or keys of a keyboard.
const SECRET_KEYS: [&str; 11] =
    ["access", "account", "api", "app", "auth", "encryption", "license", "master", "private", "secret", "service"];
/// How tokens of well-known services begin, with the fewest characters that follow.
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
/// What people write where a secret is to go.
const PLACEHOLDERS: [&str; 9] =
    ["your", "changeme", "change-me", "change_me", "example", "placeholder", "redacted", "dummy", "todo"];
/// A text without words or marks in it is random from this length on, in characters.
const MAX_WORD_LEN: usize = 24;
/// Shortest `Bearer` or `Basic` credential, in characters.
const SHORTEST_CREDENTIAL: usize = 8;

/// Whether a variable, a header or an option of this name holds a secret, such as `GITHUB_TOKEN`, `X-Api-Key` or
/// `--password`. `TOKEN_FILE`, `MAX_TOKENS` and `SORT_KEY` do not.
pub(crate) fn is_secret_name(name: &str) -> bool {
    let words = words(name);
    match words.as_slice() {
        [.., before, last] if last == "key" => SECRET_KEYS.contains(&before.as_str()),
        [.., last] => SECRET_WORDS.contains(&last.as_str()) || GLUED.iter().any(|end| last.ends_with(end)),
        [] => false,
    }
}

/// Whether a literal value of this name is a secret that somebody has written down.
pub(crate) fn is_secret(name: &str, value: &str) -> bool {
    is_secret_value(value) || is_secret_name(name) && is_plausible(value)
}

/// Whether a text is a secret whatever it is called: a token of a well-known service, a credential of HTTP, a password or
/// another secret within a URL, a private key, or a long text of random characters.
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

/// Which of these arguments are secrets: the value of an option with a secret's name, also one that is filled in later, or a
/// text that looks like a secret.
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

/// `GITHUB_TOKEN`, `github-token` and `githubToken` are two words each; digits end none: `TOKEN2` is one.
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

/// Whether a text could be a secret at all: neither a switch, a number, a place, nor what stands for one.
fn is_plausible(value: &str) -> bool {
    let value = value.trim();
    let is_place = value.starts_with(['/', '~', '.']) || value.contains("://");
    let is_word =
        matches!(value.to_ascii_lowercase().as_str(), "true" | "false" | "yes" | "no" | "on" | "off" | "none");
    value.chars().count() >= 4 && !is_place && !is_word && !is_placeholder(value)
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

/// In what follows the scheme of a URL.
fn user_and_password(rest: &str) -> Option<(&str, &str)> {
    rest.split(['/', '?', '#']).next()?.rsplit_once('@')?.0.split_once(':')
}

/// The secret parts of a URL that may lack its scheme: user and password, and the password alone as it is written and as
/// it is meant. Empty if it has no password.
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
    // A part has no `?`, so that it is no URL with a query of its own, however deep texts are nested.
    query.split(['?', '&', '#']).any(|part| {
        let (name, value) = part.split_once('=').unwrap_or(("", part));
        is_secret(name, value)
    })
}

/// Long, of one piece, and of capitals, small letters and digits that follow each other without order.
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
