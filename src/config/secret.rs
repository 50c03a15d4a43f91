//! Detects literal values that look like secrets, by name and by form. [`FORMS`] has all forms.
//!
//! Detected values are moved, masked or warned about. It avoids false positives, because users ignore frequent false warnings.
//!
//! Pure.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

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
const SECRET_KEYS: [&str; 12] = [
    "access",
    "account",
    "api",
    "app",
    "auth",
    "encryption",
    "license",
    "master",
    "private",
    "secret",
    "service",
    "subscription",
];
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
/// The schemes before a credential.
const SCHEMES: [&str; 3] = ["basic", "bearer", "token"];
/// Where words end, besides blanks. A text is read twice, since a password may contain these.
const SEPARATORS: [&[char]; 2] = [&[], &[',', ';', '&', '|', '{', '}', '[', ']', '(', ')']];
/// The forms of a secret: whether the word at an index is one.
const FORMS: [fn(&[&str], usize) -> bool; 7] = [
    // A private key
    |words, at| words[at].starts_with("-----BEGIN"),
    // A token of a well-known service, and a random text, alone or in a URL
    |words, at| parts(words[at]).any(|part| is_token(part) || is_random(part)),
    // A connection string
    |words, at| has_password(words[at]),
    |words, at| has_secret_in_query(words[at]),
    // The words of a header, a command line, JSON or YAML
    is_credential,
    is_named_in_word,
    is_named_by_word_before,
];
/// Minimum length of a random text, in characters.
const MAX_WORD_LEN: usize = 24;
/// Minimum length of a text that can be a secret, in characters.
pub(super) const SHORTEST_SECRET: usize = 4;
/// Stands for any reference.
const REFERENCE: &str = "${}";
/// Minimum length of a `Bearer` or `Basic` credential, in characters.
const SHORTEST_CREDENTIAL: usize = 8;

/// Whether a variable, header or option of this name contains a secret, such as `GITHUB_TOKEN`, `X-Api-Key` or
/// `--password`. `TOKEN_FILE`, `MAX_TOKENS` and `SORT_KEY` do not.
pub(crate) fn is_secret_name(name: &str) -> bool {
    let words = words(name);
    match words.as_slice() {
        [.., before, last] if last == "key" => SECRET_KEYS.contains(&before.as_str()),
        [last] if last == "key" => name == "KEY" || name.starts_with('-'),
        [.., last] => SECRET_WORDS.contains(&last.as_str()) || GLUED.iter().any(|end| last.ends_with(end)),
        [] => false,
    }
}

/// Whether the literal value of this name is a secret.
pub(crate) fn is_secret(name: &str, value: &str) -> bool {
    is_secret_value(value) || is_secret_name(name) && is_plausible(value)
}

/// Whether a text is or holds a secret by its form ([`FORMS`]), such as `{"Authorization": "Bearer X"}` or `host=db password=X`.
pub(crate) fn is_secret_value(text: &str) -> bool {
    let text = without_references(text).replace(['"', '\'', '`', '\\'], "");
    SEPARATORS.iter().any(|separators| {
        let words: Vec<_> = text.split(|c: char| c.is_whitespace() || separators.contains(&c)).collect();
        let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
        (0..words.len()).any(|at| FORMS.iter().any(|is_it| is_it(&words, at)))
    })
}

/// Whether a text is more than references, and a scheme before them.
pub(super) fn has_literal(text: &str) -> bool {
    let rest = without_references(text).replace(REFERENCE, "");
    let words = rest.split_whitespace().filter(|word| !is_scheme(word));
    !text.contains("${") || words.map(str::len).sum::<usize>() >= SHORTEST_SECRET
}

/// `text` with [`REFERENCE`] and the default in the place of each reference, also of an escaped one.
fn without_references(text: &str) -> Cow<'_, str> {
    if !text.contains("${") {
        return Cow::Borrowed(text);
    }
    let mut parts = text.split("${");
    let mut rest = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (body, after) = part.split_once('}').unwrap_or((part, ""));
        let default = body.split_once(":-").map_or("", |(_, default)| default);
        rest.extend([REFERENCE, default, after]);
    }
    Cow::Owned(rest)
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

/// Whether a text can be a secret: not a switch, a number, a path, a URL, a variable of a shell, or a placeholder.
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
    let is_variable = value.strip_prefix('$').is_some_and(|name| {
        name.starts_with('(')
            || name.bytes().all(|byte| byte == b'_' || byte.is_ascii_uppercase() || byte.is_ascii_digit())
    });
    is_one_mark
        || ends_in_marks
        || is_variable
        || lower.starts_with(['<', '[', '{'])
        || PLACEHOLDERS.iter().any(|word| lower.contains(word))
}

/// A token of a well-known service.
fn is_token(text: &str) -> bool {
    let is_it = TOKENS.iter().any(|(start, least)| {
        text.strip_prefix(start).is_some_and(|rest| rest.len() >= *least && rest.bytes().all(is_token_byte))
    });
    is_it && !is_placeholder(text)
}

/// `Bearer X`
fn is_credential(words: &[&str], at: usize) -> bool {
    let (credential, before) = (words[at], at.checked_sub(1).map_or("", |before| words[before]));
    // A plain word of a sentence is none.
    let is_mixed = credential.bytes().any(|byte| byte.is_ascii_alphabetic())
        && !credential.bytes().all(|byte| byte.is_ascii_lowercase());
    is_scheme(before.rsplit(['=', ':']).next().unwrap_or_default())
        && credential.len() >= SHORTEST_CREDENTIAL
        && is_mixed
        && is_plausible(&credential.replace(REFERENCE, ""))
}

/// `NAME=X` or `NAME:X`
fn is_named_in_word(words: &[&str], at: usize) -> bool {
    let mut rest = words[at];
    while let Some((name, value)) = rest.split_once(['=', ':']) {
        if is_secret_name(name) && is_name(name) {
            return is_value(value, words, at);
        }
        rest = value;
    }
    false
}

/// `NAME: X`, `NAME = X` or `--NAME X`
fn is_named_by_word_before(words: &[&str], at: usize) -> bool {
    let (Some(before), value) = (at.checked_sub(1), words[at]) else { return false };
    let name = match words[before] {
        "=" | ":" => before.checked_sub(1).map(|before| words[before]),
        option if option.starts_with('-') && !option.contains(['=', ':']) => Some(option),
        word => word.strip_suffix([':', '=']).and_then(|word| word.rsplit(['=', ':']).next()),
    };
    name.is_some_and(|name| is_secret_name(name) && is_name(name))
        && !value.starts_with('-')
        && is_value(value, words, at)
}

/// Whether `value` in the word at `at`, or the word after this scheme, can be a secret.
fn is_value(value: &str, words: &[&str], at: usize) -> bool {
    let value = if is_scheme(value) { words.get(at + 1).copied().unwrap_or_default() } else { value };
    is_plausible(&value.replace(REFERENCE, ""))
}

fn is_scheme(word: &str) -> bool {
    SCHEMES.iter().any(|scheme| word.eq_ignore_ascii_case(scheme))
}

/// Whether a word can be the name of a variable, header or option.
fn is_name(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

/// The parts of a word that can be a token each: of a URL, those between its delimiters.
fn parts(word: &str) -> impl Iterator<Item = &str> {
    let delimiters: &[char] = if word.contains("://") { &['/', '?', '&', '#', '=', '@', ':'] } else { &['=', ':'] };
    word.split(delimiters)
}

/// `scheme://user:password@host`
fn has_password(value: &str) -> bool {
    let password = value.split_once("://").and_then(|(_, rest)| user_and_password(rest)).map(|(_, password)| password);
    password.is_some_and(|password| !password.replace(REFERENCE, "").is_empty() && !is_placeholder(password))
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

/// What of a variable is secret: all of it if its name says so, the secret parts of a URL, or a value that looks like a secret.
pub(super) fn secrets_of_variable(name: &str, value: &str) -> Vec<String> {
    let parts = if is_secret_name(name) { Vec::new() } else { url_secrets(value) };
    if parts.is_empty() && is_secret(name, value) { vec![value.to_owned()] } else { parts }
}

/// The secret parts of a URL: [`url_passwords`], the values in its query with secrets' names, encoded and decoded, and tokens.
pub(super) fn url_secrets(url: &str) -> Vec<String> {
    let query = url.split(['?', '&', '#']).skip(1).filter_map(|part| part.split_once('='));
    let named = query.filter(|(name, value)| is_secret(name, value)).map(|(_, value)| value);
    let tokens = parts(url).filter(|part| is_token(part) || is_random(part));
    let found =
        named.chain(tokens).flat_map(|part| [part.to_owned(), percent_decode_str(part).decode_utf8_lossy().into()]);
    url_passwords(url).into_iter().chain(found).collect()
}

/// `scheme://host/path?name=secret#name=secret`
fn has_secret_in_query(value: &str) -> bool {
    let Some((_, query)) = value.split_once("://").and_then(|(_, rest)| rest.split_once('?')) else { return false };
    query.split(['?', '&', '#']).any(|part| is_named_in_word(&[part], 0))
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

/// The secrets among variables or headers, what follows the scheme of a credential, and the secret parts of URLs.
pub(super) fn secret_entries(entries: &BTreeMap<String, String>) -> Vec<String> {
    let secrets = entries.iter().filter(|(name, value)| is_secret(name, value));
    let whole = secrets.flat_map(|(_, value)| {
        value.split_once(' ').map(|(_, rest)| rest.to_owned()).into_iter().chain([value.clone()])
    });
    whole.chain(entries.values().flat_map(|value| url_secrets(value))).collect()
}

#[cfg(test)]
mod tests;
