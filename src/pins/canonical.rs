//! The canonical form of JSON: equal for texts that differ only in the order of members, in white space and in escapes.
//!
//! - Members are sorted by the bytes of their keys in canonical form. Members with equal keys keep their order.
//! - No white space stands between tokens.
//! - Numbers are as spelled, because parsers differ in precision.
//! - A string has escapes only for quotes, backslashes, control characters and lone surrogates, each spelled in one way.
//!
//! The form is never longer than the text. Nesting needs a few bytes of the heap for each level, and no stack.

use std::io::Write;

use memchr::memchr2;

/// The canonical form of a valid JSON text. Another text may be returned as it is.
pub fn canonical(json: &[u8]) -> Vec<u8> {
    // Offsets have 32 bits. No message is as long as that.
    let is_short = u32::try_from(json.len()).is_ok();
    is_short.then(|| Form::new(json).read(json)).flatten().unwrap_or_else(|| json.to_owned())
}

/// A text that is written in the order in which it is read. Where members have to change places, they do so at the end and at once: that
/// takes linear time at any nesting.
struct Form {
    text: Vec<u8>,
    /// The open arrays and objects.
    levels: Vec<Level>,
    /// The members of all open objects, those of the innermost one last.
    members: Vec<Member>,
    /// All members of objects that were not sorted.
    moves: Vec<Move>,
}

#[derive(Clone, Copy)]
enum Level {
    Array,
    Object { first_member: u32 },
}

/// A member in the text: its key without quotes, and where its value ends.
#[derive(Clone, Copy)]
struct Member {
    key_start: u32,
    key_end: u32,
    end: u32,
}

/// A range of the text that belongs elsewhere.
struct Move {
    start: usize,
    end: usize,
    /// Modulo 2⁶⁴, relative to the range that contains this one.
    shift: usize,
}

impl Form {
    fn new(json: &[u8]) -> Self {
        // Few definitions need more, and a vector that grows costs more than one that is too large.
        let (levels, members, moves) = (Vec::with_capacity(16), Vec::with_capacity(64), Vec::with_capacity(64));
        Self { text: Vec::with_capacity(json.len()), levels, members, moves }
    }

    /// `None` only for a text that is not JSON.
    fn read(mut self, json: &[u8]) -> Option<Vec<u8>> {
        let (mut at, mut is_key) = (0, false);
        while let Some(&byte) = json.get(at) {
            match byte {
                b' ' | b'\t' | b'\n' | b'\r' => at += 1,
                b'"' => {
                    let start = self.text.len();
                    at += string(&json[at..], &mut self.text)?;
                    if is_key {
                        let (key_start, key_end) = (start as u32 + 1, self.text.len() as u32 - 1);
                        self.members.push(Member { key_start, key_end, end: 0 });
                        is_key = false;
                    }
                }
                b'{' | b'[' => {
                    is_key = byte == b'{';
                    let first_member = self.members.len() as u32;
                    self.levels.push(if is_key { Level::Object { first_member } } else { Level::Array });
                    self.text.push(byte);
                    at += 1;
                }
                b',' => {
                    is_key = self.end_member()?;
                    self.text.push(byte);
                    at += 1;
                }
                b'}' | b']' => {
                    self.end_member()?;
                    self.close();
                    is_key = false;
                    self.text.push(byte);
                    at += 1;
                }
                _ => {
                    self.text.push(byte);
                    at += 1;
                }
            }
        }
        if self.moves.is_empty() { Some(self.text) } else { moved(&self.text, self.moves) }
    }

    /// Notes the end of a member's value, and returns whether the innermost level is an object.
    fn end_member(&mut self) -> Option<bool> {
        let Level::Object { first_member } = *self.levels.last()? else { return Some(false) };
        if let Some(member) = self.members[first_member as usize..].last_mut() {
            member.end = self.text.len() as u32;
        }
        Some(true)
    }

    /// Ends the innermost level.
    fn close(&mut self) {
        let Some(Level::Object { first_member }) = self.levels.pop() else { return };
        let (text, members) = (&self.text, &mut self.members[first_member as usize..]);
        let key = |member: &Member| &text[member.key_start as usize..member.key_end as usize];
        if !members.is_sorted_by_key(key) {
            let mut to = members[0].start();
            members.sort_by(|one, other| key(one).cmp(key(other)));
            for member in &*members {
                let (start, end) = (member.start(), member.end as usize);
                self.moves.push(Move { start, end, shift: to.wrapping_sub(start) });
                // A comma follows.
                to += end - start + 1;
            }
        }
        self.members.truncate(first_member as usize);
    }
}

impl Member {
    fn start(&self) -> usize {
        self.key_start as usize - 1
    }
}

/// The text with each range moved, together with the ranges in it. The ranges are all members of some objects.
fn moved(text: &[u8], mut moves: Vec<Move>) -> Option<Vec<u8>> {
    moves.sort_unstable_by_key(|range| range.start);
    // The commas between members stay where no member goes.
    let mut result = vec![b','; text.len()];
    let (mut at, mut shift) = (0_usize, 0_usize);
    let mut copy = |at: &mut usize, to: usize, shift: usize| {
        let target = at.wrapping_add(shift)..to.wrapping_add(shift);
        result.get_mut(target)?.copy_from_slice(text.get(*at..to)?);
        *at = to;
        Some(())
    };
    let mut open: Vec<(usize, usize)> = Vec::new();
    for range in moves {
        while let Some((end, outer)) = open.pop_if(|(end, _)| *end <= range.start) {
            copy(&mut at, end, shift)?;
            shift = outer;
        }
        let is_after_comma = at < range.start && text[range.start - 1] == b',';
        copy(&mut at, range.start - usize::from(is_after_comma), shift)?;
        at = range.start;
        open.push((range.end, shift));
        shift = shift.wrapping_add(range.shift);
    }
    while let Some((end, outer)) = open.pop() {
        copy(&mut at, end, shift)?;
        shift = outer;
    }
    copy(&mut at, text.len(), shift)?;
    Some(result)
}

/// Appends the string at the start of `json`, and returns its length there.
fn string(json: &[u8], text: &mut Vec<u8>) -> Option<usize> {
    text.push(b'"');
    let mut at = 1;
    loop {
        let special = at + memchr2(b'"', b'\\', json.get(at..)?)?;
        text.extend_from_slice(&json[at..special]);
        if json[special] == b'"' {
            text.push(b'"');
            return Some(special + 1);
        }
        at = special + escape(&json[special..], text)?;
    }
}

/// Appends what the escape at the start of `json` stands for, and returns its length.
fn escape(json: &[u8], text: &mut Vec<u8>) -> Option<usize> {
    let letter = *json.get(1)?;
    if letter != b'u' {
        match letter {
            b'/' => text.push(b'/'),
            b'"' | b'\\' | b'b' | b'f' | b'n' | b'r' | b't' => text.extend([b'\\', letter]),
            _ => return None,
        }
        return Some(2);
    }
    let first = unit(json)?;
    let pair = json.get(6..).and_then(unit).and_then(|second| {
        let mut decoded = char::decode_utf16([first, second]);
        decoded.next().and_then(Result::ok).filter(|char| char.len_utf16() == 2)
    });
    match pair.or(char::from_u32(u32::from(first))) {
        Some(char) => write_char(char, text),
        // A lone surrogate.
        None => write!(text, "\\u{first:04x}").ok()?,
    }
    Some(if pair.is_some() { 12 } else { 6 })
}

/// The code unit of an escape such as `\u00e4`.
fn unit(json: &[u8]) -> Option<u16> {
    let digits = json.strip_prefix(b"\\u")?.get(..4)?;
    digits.iter().try_fold(0, |unit, digit| Some(unit << 4 | char::from(*digit).to_digit(16)? as u16))
}

fn write_char(char: char, text: &mut Vec<u8>) {
    let short = match char {
        '"' | '\\' => char,
        '\u{8}' => 'b',
        '\t' => 't',
        '\n' => 'n',
        '\u{c}' => 'f',
        '\r' => 'r',
        '\0'..' ' => return text.extend(format!("\\u{:04x}", u32::from(char)).bytes()),
        _ => return text.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
    };
    text.extend(['\\', short].map(|char| char as u8));
}

#[cfg(test)]
mod tests;
