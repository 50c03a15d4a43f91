//! Compares raw JSON with the rules, and collects the edits that mend it.

use bytes::Bytes;
use jiff::civil::{Date, Time};
use url::Url;

use super::rules::{CONTENT, Elements, Member, Need, Shape, Type};
use super::{Action, Problem, Reason};
use crate::era::Era;
use crate::jsonrpc::entries::{elements, entries};
use crate::jsonrpc::members::{members, text};
use crate::jsonrpc::splice::Change;

/// A value that does not fit its rule.
#[derive(Debug)]
pub(super) struct Unfit {
    pub(super) path: String,
    pub(super) problem: Problem,
    /// No object around it can do without it: the whole item is left out.
    pub(super) is_final: bool,
}

pub(super) type Fit = Result<(), Unfit>;

/// The edits so far, and their reasons.
pub(super) struct Judge {
    pub(super) era: Era,
    path: String,
    changes: Vec<Change>,
    reasons: Vec<Reason>,
}

impl Judge {
    pub(super) fn new(era: Era) -> Self {
        Self { era, path: String::new(), changes: Vec::new(), reasons: Vec::new() }
    }

    pub(super) fn end(self) -> (Vec<Change>, Vec<Reason>) {
        (self.changes, self.reasons)
    }

    pub(super) fn unfit(&self, problem: Problem) -> Fit {
        Err(Unfit { path: self.path.clone(), problem, is_final: false })
    }

    /// Judges `value` at `step` below the current path, such as `.name` or `[1]`. If it is unfit, its own edits are undone.
    pub(super) fn at(&mut self, step: &str, judge: impl FnOnce(&mut Self) -> Fit) -> Fit {
        let (length, changes, reasons) = (self.path.len(), self.changes.len(), self.reasons.len());
        self.path.push_str(if length == 0 { step.trim_start_matches('.') } else { step });
        let fit = judge(self);
        if fit.is_err() {
            self.changes.truncate(changes);
            self.reasons.truncate(reasons);
        }
        self.path.truncate(length);
        fit
    }

    pub(super) fn note(&mut self, path: String, problem: Problem, action: Action) {
        self.reasons.push(Reason { path: path.into(), problem, action, is_legacy_only: false });
    }

    pub(super) fn replace(&mut self, part: &Bytes, with: impl Into<Bytes>, problem: Problem) {
        self.changes.push(Change { part: part.clone(), replacement: with.into() });
        self.note(self.path.clone(), problem, Action::Replaced);
    }

    fn value(&mut self, kind: &Type, value: &Bytes) -> Fit {
        let fits_if = |fits: bool, expected| if fits { Ok(()) } else { self.unfit(Problem::Not(expected)) };
        let is_text = value.starts_with(b"\"");
        match kind {
            _ if value[..] == *b"null" => self.unfit(Problem::Null),
            Type::Text => fits_if(is_text, "a text"),
            Type::Uri => fits_if(decoded(value).is_some_and(|uri| Url::parse(&uri).is_ok()), "an absolute URI"),
            Type::Flag => fits_if(matches!(&value[..], b"true" | b"false"), "a boolean"),
            Type::Count => fits_if(is_count(value), "a whole number"),
            Type::Fraction => {
                let number = serde_json::from_slice::<f64>(value);
                fits_if(number.is_ok_and(|number| (0.0..=1.0).contains(&number)), "a number from 0 to 1")
            }
            Type::Time => fits_if(decoded(value).is_some_and(|time| is_time(&time)), "a date and time with its offset"),
            Type::Token => fits_if(is_text || is_count(value), "a text or an integer"),
            Type::OneOf(words) => {
                let is_known = |word: String| words.contains(&&*word);
                fits_if(decoded(value).is_some_and(is_known), "one of the permitted values")
            }
            Type::Object => fits_if(value.starts_with(b"{"), "an object"),
            Type::Record(shape) => self.record(shape, value),
            Type::Capability(shape) if value.starts_with(b"{") => self.record(shape, value),
            Type::Capability(_) if value[..] == *b"false" => self.unfit(Problem::Not("an object")),
            Type::Capability(_) => {
                self.replace(value, &b"{}"[..], Problem::Not("an object"));
                Ok(())
            }
            Type::Map(kind) => self.map(kind, value),
            Type::List(kind, unfit) => self.list(kind, *unfit, value),
            Type::InputSchema => self.input_schema(value),
            Type::OutputSchema => self.output_schema(value),
            Type::Content => self.content(value),
            Type::Structured => match self.era {
                Era::Legacy => fits_if(value.starts_with(b"{"), "an object"),
                Era::Modern => Ok(()),
            },
        }
    }

    /// Judges an object with known members.
    pub(super) fn record(&mut self, shape: &Shape, object: &Bytes) -> Fit {
        let found = self.members(object)?;
        let mut dropped = vec![false; found.len()];
        let mut values: Vec<Option<&Bytes>> = vec![None; shape.len()];
        for (index, (key, value)) in found.iter().enumerate() {
            let Some(key) = text(key) else { continue };
            let Some(row) = shape.iter().position(|member| member.name.as_bytes() == &key[..]) else { continue };
            let Member { name, kind, need } = &shape[row];
            if values[row].replace(value).is_some() {
                let fit = self.at(&format!(".{name}"), |judge| judge.unfit(Problem::Duplicate));
                return fit.map_err(|unfit| Unfit { is_final: true, ..unfit });
            }
            let fit = self.at(&format!(".{name}"), |judge| judge.value(kind, value));
            dropped[index] = match fit {
                Err(unfit) if *need == Need::Optional && !unfit.is_final => {
                    self.note(unfit.path, unfit.problem, Action::Dropped);
                    true
                }
                Err(Unfit { problem: Problem::Null, .. }) if *need != Need::Required => {
                    // Has its default, as if it were missing.
                    values[row] = None;
                    true
                }
                fit => {
                    fit?;
                    false
                }
            };
        }
        let mut added = Vec::new();
        for (row, member) in shape.iter().enumerate().filter(|(row, _)| values[*row].is_none()) {
            let value = match member.need {
                Need::Optional => continue,
                Need::Required => {
                    return self.at(&format!(".{}", member.name), |judge| judge.unfit(Problem::Missing));
                }
                Need::Default(raw) => Bytes::from_static(raw.as_bytes()),
                Need::SameAs(other) => {
                    let other = shape.iter().position(|member| member.name == other);
                    let Some(value) = other.and_then(|row| values[row]) else { continue };
                    value.clone()
                }
            };
            added.push([b"\"", member.name.as_bytes(), b"\":", &value[..]].concat());
            let path = self.at(&format!(".{}", shape[row].name), |judge| judge.unfit(Problem::Missing));
            let path = path.err().map(|unfit| unfit.path).unwrap_or_default();
            self.note(path, Problem::Missing, Action::Replaced);
        }
        let parts: Vec<_> = found.iter().map(|(key, value)| Part::new(object, key, value)).collect();
        self.changes.extend(without(object, &parts, &dropped));
        if !added.is_empty() {
            self.insert(object, &added.join(&b','), dropped.iter().any(|dropped| !dropped));
        }
        Ok(())
    }

    /// Inserts raw members at the beginning of an object.
    pub(super) fn insert(&mut self, object: &Bytes, members: &[u8], has_others: bool) {
        let comma: &[u8] = if has_others { b"," } else { b"" };
        self.changes.push(Change { part: object.slice(..1), replacement: [b"{", members, comma].concat().into() });
    }

    fn map(&mut self, kind: &Type, object: &Bytes) -> Fit {
        let found = self.members(object)?;
        let parts: Vec<_> = found.iter().map(|(key, value)| Part::new(object, key, value)).collect();
        let mut dropped = vec![false; found.len()];
        for (index, (key, value)) in found.iter().enumerate() {
            if let Err(unfit) = self.at(&step(key), |judge| judge.value(kind, value)) {
                self.note(unfit.path, unfit.problem, Action::Dropped);
                dropped[index] = true;
            }
        }
        self.changes.extend(without(object, &parts, &dropped));
        Ok(())
    }

    pub(super) fn list(&mut self, kind: &Type, unfit_elements: Elements, array: &Bytes) -> Fit {
        let Some(found) = elements(array, usize::MAX) else { return self.unfit(Problem::Not("an array")) };
        let parts: Vec<_> = found.iter().map(|value| Part::new(array, value, value)).collect();
        let mut dropped = vec![false; found.len()];
        for (index, value) in found.iter().enumerate() {
            let Err(unfit) = self.at(&format!("[{index}]"), |judge| judge.value(kind, value)) else { continue };
            let is_null = value[..] == *b"null";
            if !is_null && (unfit.is_final || unfit_elements == Elements::Required) {
                return Err(Unfit { is_final: true, ..unfit });
            }
            self.note(unfit.path, unfit.problem, Action::Dropped);
            dropped[index] = true;
        }
        self.changes.extend(without(array, &parts, &dropped));
        Ok(())
    }

    fn content(&mut self, block: &Bytes) -> Fit {
        let Ok([kind]) = members(block, ["type"]) else { return self.unfit(Problem::Not("an object")) };
        let kind = kind.as_ref().and_then(decoded);
        let Some((_, shape)) = CONTENT.iter().find(|(known, _)| Some(*known) == kind.as_deref()) else {
            return self.unfit(Problem::Not("a known type of content"));
        };
        self.record(shape, block)
    }

    /// The members of an object: raw keys and raw values.
    pub(super) fn members(&self, object: &Bytes) -> Result<Vec<(Bytes, Bytes)>, Unfit> {
        entries(object, usize::MAX - 1).or_else(|_| self.unfit(Problem::Not("an object")).map(|()| Vec::new()))
    }

    /// Removes the members of `object` that are `dropped`.
    pub(super) fn remove(&mut self, object: &Bytes, found: &[(Bytes, Bytes)], dropped: &[bool]) {
        let parts: Vec<_> = found.iter().map(|(key, value)| Part::new(object, key, value)).collect();
        self.changes.extend(without(object, &parts, dropped));
    }
}

/// The step of a path to the member with this raw key.
pub(super) fn step(key: &Bytes) -> String {
    format!(".{}", decoded(key).unwrap_or_default())
}

pub(super) fn decoded(raw: &Bytes) -> Option<String> {
    String::from_utf8(text(raw)?.into()).ok()
}

fn is_count(value: &[u8]) -> bool {
    value.iter().all(u8::is_ascii_digit)
        && std::str::from_utf8(value).is_ok_and(|digits| digits.parse::<u64>().is_ok_and(|n| i64::try_from(n).is_ok()))
}

/// Whether it is a date and time with an offset, such as `2025-01-12T15:00:58Z`.
fn is_time(text: &str) -> bool {
    let Some((date, time)) = text.split_once('T') else { return false };
    let offset = |time: &str| {
        time.len().checked_sub(6).and_then(|at| time.split_at_checked(at)).map(|(time, offset)| {
            let digits = offset.strip_prefix(['+', '-']).and_then(|offset| offset.split_once(':'));
            (
                time.to_owned(),
                digits.is_some_and(|(hours, minutes)| [hours, minutes].iter().all(|two| two.parse::<u8>().is_ok())),
            )
        })
    };
    let time = time
        .strip_suffix('Z')
        .map(str::to_owned)
        .or_else(|| offset(time).filter(|(_, fits)| *fits).map(|(time, _)| time));
    date.len() == 10 && date.parse::<Date>().is_ok() && time.is_some_and(|time| time.parse::<Time>().is_ok())
}

/// The range of a member or element in its container.
struct Part {
    start: usize,
    end: usize,
}

impl Part {
    fn new(container: &Bytes, first: &Bytes, last: &Bytes) -> Self {
        let offset = |part: &Bytes| part.as_ptr().addr() - container.as_ptr().addr();
        Self { start: offset(first), end: offset(last) + last.len() }
    }
}

/// The edits that remove the `dropped` parts of an object or array, each run with one of its commas.
fn without(container: &Bytes, parts: &[Part], dropped: &[bool]) -> Vec<Change> {
    let (mut changes, mut index) = (Vec::new(), 0);
    while index < parts.len() {
        let run = dropped[index..].iter().take_while(|dropped| **dropped).count();
        if run == 0 {
            index += 1;
            continue;
        }
        let next = index + run;
        let range = match parts.get(next) {
            // The first kept part has no comma before it.
            Some(kept) if index == 0 => parts[0].start..kept.start,
            _ if index == 0 => parts[0].start..parts[next - 1].end,
            _ => parts[index - 1].end..parts[next - 1].end,
        };
        changes.push(Change { part: container.slice(range), replacement: Bytes::new() });
        index = next;
    }
    changes
}
