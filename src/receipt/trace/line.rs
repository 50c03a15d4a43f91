//! The syntax of one line of strace. Pure.
//!
//! A text of the traced process stands in quotes or in angle brackets. Within both, strace escapes quotes, line feeds and what is not
//! ASCII; in angle brackets also these themselves.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use crate::receipt::observed::Endpoint;

const UNFINISHED: &[u8] = b" <unfinished ...>";
/// Before the number of the process that goes on with a call: a thread that executes a program becomes the first thread.
const CONTINUED: &[u8] = b" <pid changed to ";

/// What a line says of a process.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event<'a> {
    /// A whole call.
    Call(&'a [u8]),
    /// The beginning of a call.
    Unfinished(&'a [u8]),
    /// The name of a call, and its rest.
    Resumed(&'a [u8], &'a [u8]),
    Exited,
}

/// A system call.
#[derive(Debug)]
pub(super) struct Call<'a> {
    pub(super) name: &'a str,
    pub(super) arguments: Vec<&'a [u8]>,
    pub(super) outcome: Outcome,
    /// What the descriptor that it returns leads to.
    pub(super) opened: Option<Vec<u8>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    /// The name of the error.
    Failed(String),
    Unknown,
}

impl Outcome {
    pub(super) fn is(&self, names: &[&str]) -> bool {
        matches!(self, Self::Failed(name) if names.contains(&name.as_str()))
    }
}

/// The process and the event of a line.
pub(super) fn event(line: &[u8]) -> Option<(u32, Event<'_>)> {
    let digits = line.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let pid = std::str::from_utf8(&line[..digits]).ok()?.parse().ok()?;
    let text = line[digits..].strip_prefix(b" ")?.trim_ascii_start();
    if text.starts_with(b"+++ ") {
        return (!text.starts_with(b"+++ superseded")).then_some((pid, Event::Exited));
    }
    if let Some(resumed) = text.strip_prefix(b"<... ") {
        let (name, end) = split(resumed, b" resumed>")?;
        return Some((pid, Event::Resumed(name, end)));
    }
    if !text.first()?.is_ascii_lowercase() {
        return None;
    }
    if let Some(beginning) = text.strip_suffix(UNFINISHED) {
        return Some((pid, Event::Unfinished(beginning)));
    }
    let continued = text.strip_suffix(b" ...>").and_then(|text| {
        let digits = text.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        let (beginning, digits) = text.split_at(text.len() - digits);
        let pid = std::str::from_utf8(digits).ok()?.parse().ok()?;
        Some((pid, Event::Unfinished(beginning.strip_suffix(CONTINUED)?)))
    });
    Some(continued.unwrap_or((pid, Event::Call(text))))
}

/// The parts of a whole call.
pub(super) fn call(text: &[u8]) -> Option<Call<'_>> {
    let open = text.iter().position(|byte| *byte == b'(')?;
    let name = std::str::from_utf8(&text[..open]).ok()?;
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return None;
    }
    let (mut arguments, mut start) = (Vec::new(), open + 1);
    let mut close = None;
    walk(&text[start..], |at, byte, depth| {
        match byte {
            b')' if depth == 0 => close = Some(open + 1 + at),
            b',' if depth == 0 => {
                arguments.push(text[start..open + 1 + at].trim_ascii());
                start = open + 2 + at;
            }
            _ => {}
        }
        close.is_none()
    });
    let close = close?;
    arguments.push(text[start..close].trim_ascii());
    let result = text[close + 1..].trim_ascii_start().strip_prefix(b"=")?.trim_ascii_start();
    let word = |text: &[u8]| {
        let end = text.iter().position(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_').unwrap_or(text.len());
        String::from_utf8_lossy(&text[..end]).into_owned()
    };
    let outcome = match result {
        [b'-', digits, rest @ ..] if digits.is_ascii_digit() => Outcome::Failed(word(rest.trim_ascii_start())),
        [b'0'..=b'9', ..] => Outcome::Done,
        _ => Outcome::Unknown,
    };
    let opened = if outcome == Outcome::Done { descriptor(result) } else { None };
    Some(Call { name, arguments, outcome, opened })
}

/// The end of the first argument of a call whose end may be missing.
pub(super) fn end_of_first(text: &[u8]) -> Option<usize> {
    let open = text.iter().position(|byte| *byte == b'(')? + 1;
    let mut end = None;
    walk(&text[open..], |at, byte, depth| {
        if byte == b',' && depth == 0 {
            end = Some(open + at);
        }
        end.is_none()
    });
    end
}

/// Calls `visit` for each byte outside quotes and angle brackets with its depth in other brackets, until it returns `false`.
fn walk(text: &[u8], mut visit: impl FnMut(usize, u8, usize) -> bool) {
    let (mut at, mut depth) = (0_usize, 0_usize);
    while let Some(&byte) = text.get(at) {
        match byte {
            b'"' => {
                at += quoted(&text[at..]);
                continue;
            }
            b'<' if text.get(at + 1) == Some(&b'<') => at += 1,
            b'<' if at > 0 && text[at - 1].is_ascii_alphanumeric() => {
                at += text[at..].iter().position(|byte| *byte == b'>').map_or(text.len() - at, |end| end + 1);
                continue;
            }
            b')' | b']' | b'}' if depth > 0 => depth -= 1,
            byte if !visit(at, byte, depth) => return,
            b'(' | b'[' | b'{' => depth += 1,
            _ => {}
        }
        at += 1;
    }
}

/// The length of the quoted text at the beginning, with its quotes.
fn quoted(text: &[u8]) -> usize {
    let mut at = 1;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    text.len()
}

/// The quoted text at the beginning of an argument, and whether it is whole.
pub(super) fn string(argument: &[u8]) -> Option<(Vec<u8>, bool)> {
    let length = argument.starts_with(b"\"").then(|| quoted(argument)).filter(|length| *length >= 2)?;
    let inner = argument[1..length].strip_suffix(b"\"")?;
    Some((unescaped(inner), !argument[length..].starts_with(b"...")))
}

fn unescaped(text: &[u8]) -> Vec<u8> {
    let (mut bytes, mut at) = (Vec::with_capacity(text.len()), 0);
    while let Some(&byte) = text.get(at) {
        at += 1;
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let Some(&escape) = text.get(at) else { break };
        let (radix, start, most) = match escape {
            b'0'..=b'7' => (8, at, 3),
            b'x' => (16, at + 1, 2),
            _ => {
                at += 1;
                bytes.push(match escape {
                    b'n' => b'\n',
                    b't' => b'\t',
                    b'r' => b'\r',
                    b'v' => 0x0b,
                    b'f' => 0x0c,
                    other => other,
                });
                continue;
            }
        };
        let digits = text[start..].iter().take(most).take_while(|digit| char::from(**digit).is_digit(radix)).count();
        let value = text[start..start + digits].iter().filter_map(|digit| char::from(*digit).to_digit(radix));
        let value = value.fold(0, |value, digit| value * radix + digit);
        bytes.push(u8::try_from(value & 0xff).unwrap_or_default());
        at = start + digits;
    }
    bytes
}

/// What a descriptor leads to: the text in the angle brackets behind its number or `AT_FDCWD`.
pub(super) fn descriptor(argument: &[u8]) -> Option<Vec<u8>> {
    let number = argument.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
    let rest = argument[number..].strip_prefix(b"<").filter(|_| number > 0)?;
    let end = rest.iter().position(|byte| *byte == b'>')?;
    Some(unescaped(&rest[..end]))
}

/// The path that a descriptor leads to.
pub(super) fn descriptor_path(argument: &[u8]) -> Option<Vec<u8>> {
    descriptor(argument).filter(|path| path.starts_with(b"/"))
}

/// The working directory, if the argument stands for it.
pub(super) fn current_directory(argument: &[u8]) -> Option<Vec<u8>> {
    argument.starts_with(b"AT_FDCWD<").then(|| descriptor_path(argument))?
}

/// The inode of a socket.
pub(super) fn inode(descriptor: &[u8]) -> Option<u64> {
    let number = descriptor.strip_prefix(b"socket:[")?.strip_suffix(b"]")?;
    std::str::from_utf8(number).ok()?.parse().ok()
}

/// Where `needle` begins, outside of what the process has written.
/// The path of these bytes.
pub(super) fn path_of(bytes: Vec<u8>) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes))
}

pub(super) fn find(text: &[u8], needle: &[u8]) -> Option<usize> {
    let mut found = None;
    walk(text, |at, _, _| {
        if text[at..].starts_with(needle) {
            found = Some(at);
        }
        found.is_none()
    });
    found
}

fn after<'a>(text: &'a [u8], needle: &[u8]) -> Option<&'a [u8]> {
    Some(&text[find(text, needle)? + needle.len()..])
}

fn split<'a>(text: &'a [u8], at: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let start = text.windows(at.len()).position(|window| window == at)?;
    Some((&text[..start], &text[start + at.len()..]))
}

/// The address of a socket in an argument.
pub(super) fn address(argument: &[u8], is_datagram: bool) -> Option<Endpoint> {
    if let Some(path) = after(argument, b"sun_path=") {
        return match path.strip_prefix(b"@") {
            Some(name) => Some(Endpoint::Abstract(String::from_utf8_lossy(&string(name)?.0).into_owned())),
            None => Some(Endpoint::Unix(path_of(string(path)?.0))),
        };
    }
    let port = after(argument, b"sin_port=htons(").or_else(|| after(argument, b"sin6_port=htons("))?;
    let digits = port.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let port: u16 = std::str::from_utf8(&port[..digits]).ok()?.parse().ok()?;
    let text = |quoted: &[u8]| String::from_utf8(string(quoted)?.0).ok();
    let ip: IpAddr = match after(argument, b"inet_addr(") {
        Some(address) => text(address)?.parse::<Ipv4Addr>().ok()?.into(),
        None => text(after(argument, b"inet_pton(AF_INET6, ")?)?.parse::<Ipv6Addr>().ok()?.to_canonical(),
    };
    let address = SocketAddr::new(ip, port);
    Some(if is_datagram { Endpoint::Udp(address) } else { Endpoint::Tcp(address) })
}

/// What an argument of a call that sends contains: a text, or the texts of a list of messages.
pub(super) fn payloads(argument: &[u8]) -> Vec<Vec<u8>> {
    if let Some((text, true)) = string(argument) {
        return vec![text];
    }
    let is_list = argument.starts_with(b"[");
    let (mut payloads, mut rest): (Vec<Vec<u8>>, _) = (Vec::new(), argument);
    while let Some(next) = after(rest, b"iov_base=") {
        if let Some((text, _)) = string(next) {
            match payloads.last_mut().filter(|_| !is_list) {
                Some(message) => message.extend(text),
                None => payloads.push(text),
            }
        }
        rest = next;
    }
    payloads
}
