//! Compares raw JSON with the rules, and collects the edits that mend it. Reads each value once for each object or array around it, and
//! keeps none of its parts.

use std::fmt::Write;

use bytes::Bytes;
use jiff::civil::{Date, Time};
use url::Url;

use super::rules::{CONTENT, Elements, Member, Need, Shape, Type};
use super::{Action, MAX_REASONS, Problem, Reason};
use crate::era::Era;
use crate::jsonrpc::members::{Parts, members, string, text};
use crate::jsonrpc::splice::Change;
use crate::printable::excerpt;

/// Maximum characters of a member's name in a path.
const MAX_STEP: usize = 200;

/// A value that does not fit its rule.
#[derive(Debug)]
pub(super) struct Unfit {
    pub(super) path: String,
    pub(super) problem: Problem,
    /// No object around it can do without it: the whole item is left out.
    pub(super) is_final: bool,
}

pub(super) type Fit = Result<(), Unfit>;

/// A step of a path.
#[derive(Clone, Copy)]
pub(super) enum Step<'a> {
    Member(&'a str),
    Element(usize),
}

/// A known member of an object.
enum Found {
    Missing,
    Fit(Bytes),
    /// Its value, and what is wrong with it.
    Unfit(Bytes, Problem),
}

/// The edits so far, and their reasons.
pub(super) struct Judge {
    pub(super) era: Era,
    path: String,
    changes: Vec<Change>,
    max_changes: usize,
    /// It needs more edits than `max_changes`.
    is_over: bool,
    /// At most [`MAX_REASONS`].
    reasons: Vec<Reason>,
}

impl Judge {
    pub(super) fn new(era: Era, max_changes: usize) -> Self {
        Self { era, path: String::new(), changes: Vec::new(), max_changes, is_over: false, reasons: Vec::new() }
    }

    /// The edits and their reasons. `None` if it needs too many.
    pub(super) fn end(self) -> Option<(Vec<Change>, Vec<Reason>)> {
        (!self.is_over).then_some((self.changes, self.reasons))
    }

    pub(super) fn unfit(&self, problem: Problem) -> Fit {
        Err(Unfit { path: self.path.clone(), problem, is_final: false })
    }

    /// The whole item is left out because of what is at `step`.
    pub(super) fn fatal(&self, step: Step<'_>, problem: Problem) -> Unfit {
        Unfit { path: self.path_of(step), problem, is_final: true }
    }

    fn path_of(&self, step: Step<'_>) -> String {
        let mut path = self.path.clone();
        push(&mut path, step);
        path
    }

    /// Judges the value at `step` below the current path. If it is unfit, its own edits are undone.
    pub(super) fn at(&mut self, step: Step<'_>, judge: impl FnOnce(&mut Self) -> Fit) -> Fit {
        let (length, changes, reasons, is_over) =
            (self.path.len(), self.changes.len(), self.reasons.len(), self.is_over);
        push(&mut self.path, step);
        let fit = judge(self);
        if fit.is_err() {
            self.changes.truncate(changes);
            self.reasons.truncate(reasons);
            self.is_over = is_over;
        }
        self.path.truncate(length);
        fit
    }

    fn note(&mut self, path: String, problem: Problem, action: Action) {
        if self.reasons.len() < MAX_REASONS {
            self.reasons.push(Reason { path: path.into(), problem, action, is_legacy_only: false });
        }
    }

    fn change(&mut self, change: Change) {
        if self.changes.len() < self.max_changes {
            self.changes.push(change);
        } else {
            self.is_over = true;
        }
    }

    pub(super) fn replace(&mut self, part: &Bytes, with: impl Into<Bytes>, problem: Problem) {
        self.change(Change { part: part.clone(), replacement: with.into() });
        self.note(self.path.clone(), problem, Action::Replaced);
    }

    fn value(&mut self, kind: &Type, value: &Bytes) -> Fit {
        let fits_if = |fits: bool, expected| if fits { Ok(()) } else { self.unfit(Problem::Not(expected)) };
        let is_text = value.starts_with(b"\"");
        match kind {
            _ if value[..] == *b"null" => self.unfit(Problem::Null),
            Type::Text => fits_if(is_text, "a text"),
            Type::Uri => fits_if(string(value).is_some_and(|uri| Url::parse(&uri).is_ok()), "an absolute URI"),
            Type::Flag => fits_if(matches!(&value[..], b"true" | b"false"), "a boolean"),
            Type::Count => fits_if(is_count(value), "a whole number"),
            Type::Fraction => {
                let number = serde_json::from_slice::<f64>(value);
                fits_if(number.is_ok_and(|number| (0.0..=1.0).contains(&number)), "a number from 0 to 1")
            }
            Type::Time => fits_if(string(value).is_some_and(|time| is_time(&time)), "a date and time with its offset"),
            Type::Token => fits_if(is_text || is_count(value), "a text or an integer"),
            Type::OneOf(words) => {
                let is_known = |word: String| words.contains(&&*word);
                fits_if(string(value).is_some_and(is_known), "one of the permitted values")
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
            Type::InputKind => self.input_type(value),
            Type::Properties => self.properties(value),
            Type::OutputSchema => self.output_schema(value),
            Type::OutputKind => match text(value).as_deref() {
                Some(b"object") => Ok(()),
                _ => self.unfit(Problem::TooNew),
            },
            Type::Content => self.content(value),
            Type::Structured => match self.era {
                Era::Legacy => fits_if(value.starts_with(b"{"), "an object"),
                Era::Modern => Ok(()),
            },
        }
    }

    /// Judges an object with known members.
    pub(super) fn record(&mut self, shape: &Shape, object: &Bytes) -> Fit {
        let mut found: Vec<Found> = shape.iter().map(|_| Found::Missing).collect();
        let mut removal = Removal::of(object);
        for (key, value) in self.members(object)? {
            let row = text(&key).and_then(|key| shape.iter().position(|row| row.name.as_bytes() == &key[..]));
            let is_dropped = match row {
                Some(row) => self.member(&shape[row], &mut found[row], &value)?,
                None => false,
            };
            removal.part(self, (&key, &value), is_dropped);
        }
        let has_others = removal.end(self);
        let mut added = Vec::new();
        for (row, Member { name, need, .. }) in shape.iter().enumerate() {
            let default = match need {
                _ if matches!(found[row], Found::Fit(_)) => continue,
                Need::Optional => continue,
                Need::Required => return self.at(Step::Member(name), |judge| judge.unfit(Problem::Missing)),
                Need::Default(raw) | Need::DefaultIfNull(raw) => Bytes::from_static(raw.as_bytes()),
                Need::SameAs(other) => match shape.iter().position(|row| row.name == *other).map(|row| &found[row]) {
                    Some(Found::Fit(value)) => value.clone(),
                    _ => continue,
                },
            };
            if let Found::Unfit(value, problem) = &found[row] {
                self.at(Step::Member(name), |judge| {
                    judge.replace(value, default, *problem);
                    Ok(())
                })?;
            } else {
                added.push([b"\"", name.as_bytes(), b"\":", &default[..]].concat());
                self.note(self.path_of(Step::Member(name)), Problem::Missing, Action::Replaced);
            }
        }
        if !added.is_empty() {
            let comma: &[u8] = if has_others { b"," } else { b"" };
            let replacement = [&b"{"[..], &added.join(&b','), comma].concat().into();
            self.change(Change { part: object.slice(..1), replacement });
        }
        Ok(())
    }

    /// Judges a known member. Returns whether it is dropped.
    fn member(
        &mut self,
        Member { name, kind, need }: &Member,
        found: &mut Found,
        value: &Bytes,
    ) -> Result<bool, Unfit> {
        let step = Step::Member(name);
        if !matches!(found, Found::Missing) {
            return Err(self.fatal(step, Problem::Duplicate));
        }
        let Err(unfit) = self.at(step, |judge| judge.value(kind, value)) else {
            *found = Found::Fit(value.clone());
            return Ok(false);
        };
        *found = Found::Unfit(value.clone(), unfit.problem);
        match need {
            Need::Optional if !unfit.is_final => {
                self.note(unfit.path, unfit.problem, Action::Dropped);
                Ok(true)
            }
            Need::Default(_) | Need::SameAs(_) if !unfit.is_final => Ok(false),
            Need::DefaultIfNull(_) if value[..] == *b"null" => Ok(false),
            _ => Err(unfit),
        }
    }

    fn map(&mut self, kind: &Type, object: &Bytes) -> Fit {
        let mut removal = Removal::of(object);
        for (key, value) in self.members(object)? {
            let name = string(&key).unwrap_or_default();
            let fit = self.at(Step::Member(&name), |judge| judge.value(kind, &value));
            let is_dropped = fit.is_err();
            if let Err(unfit) = fit {
                self.note(unfit.path, unfit.problem, Action::Dropped);
            }
            removal.part(self, (&key, &value), is_dropped);
        }
        removal.end(self);
        Ok(())
    }

    fn list(&mut self, kind: &Type, unfit_elements: Elements, array: &Bytes) -> Fit {
        let Some(found) = Parts::of_array(array) else { return self.unfit(Problem::Not("an array")) };
        let mut removal = Removal::of(array);
        for (index, (_, value)) in found.enumerate() {
            let fit = self.at(Step::Element(index), |judge| judge.value(kind, &value));
            let is_dropped = fit.is_err();
            if let Err(unfit) = fit {
                let is_null = value[..] == *b"null";
                if !is_null && (unfit.is_final || unfit_elements == Elements::Required) {
                    return Err(Unfit { is_final: true, ..unfit });
                }
                self.note(unfit.path, unfit.problem, Action::Dropped);
            }
            removal.part(self, (&value, &value), is_dropped);
        }
        removal.end(self);
        Ok(())
    }

    fn content(&mut self, block: &Bytes) -> Fit {
        let Ok([kind]) = members(block, ["type"]) else { return self.unfit(Problem::Not("an object")) };
        let kind = kind.as_ref().and_then(text);
        let Some((_, shape)) = CONTENT.iter().find(|(known, _)| Some(known.as_bytes()) == kind.as_deref()) else {
            return self.unfit(Problem::Not("a known type of content"));
        };
        self.record(shape, block)
    }

    pub(super) fn members<'a>(&self, object: &'a Bytes) -> Result<Parts<'a>, Unfit> {
        let unfit = || Unfit { path: self.path.clone(), problem: Problem::Not("an object"), is_final: false };
        Parts::of_object(object).ok_or_else(unfit)
    }
}

fn push(path: &mut String, step: Step<'_>) {
    match step {
        Step::Element(index) => {
            let _ = write!(path, "[{index}]");
        }
        Step::Member(name) => {
            if !path.is_empty() {
                path.push('.');
            }
            if name.len() <= MAX_STEP {
                path.push_str(name);
            } else {
                path.push_str(&excerpt(name, MAX_STEP));
            }
        }
    }
}

fn is_count(value: &[u8]) -> bool {
    value.iter().all(u8::is_ascii_digit)
        && std::str::from_utf8(value).is_ok_and(|digits| digits.parse::<u64>().is_ok_and(|n| i64::try_from(n).is_ok()))
}

/// Whether it is a date and time with an offset, such as `2025-01-12T15:00:58Z`.
fn is_time(text: &str) -> bool {
    let Some((date, time)) = text.split_once('T') else { return false };
    let time = time.strip_suffix('Z').or_else(|| {
        let (time, offset) = time.split_at_checked(time.len().checked_sub("+00:00".len())?)?;
        let (hours, minutes) = offset.strip_prefix(['+', '-'])?.split_once(':')?;
        [hours, minutes].iter().all(|two| two.parse::<u8>().is_ok()).then_some(time)
    });
    date.len() == 10 && date.parse::<Date>().is_ok() && time.is_some_and(|time| time.parse::<Time>().is_ok())
}

/// Removes parts of an object or array, each run with one of its commas.
struct Removal<'a> {
    container: &'a Bytes,
    /// The end of the last part that is kept.
    kept: Option<usize>,
    /// The parts since then, all dropped: where they begin and end.
    dropped: Option<(usize, usize)>,
}

impl<'a> Removal<'a> {
    fn of(container: &'a Bytes) -> Self {
        Self { container, kept: None, dropped: None }
    }

    /// The next part: its first and its last slice.
    fn part(&mut self, judge: &mut Judge, (first, last): (&Bytes, &Bytes), is_dropped: bool) {
        let offset = |part: &Bytes| part.as_ptr().addr() - self.container.as_ptr().addr();
        let (start, end) = (offset(first), offset(last) + last.len());
        if is_dropped {
            let from = self.dropped.map_or(start, |(from, _)| from);
            self.dropped = Some((from, end));
            return;
        }
        if self.kept.is_none() && self.dropped.is_some() {
            // The first kept part has no comma before it.
            self.dropped = self.dropped.map(|(from, _)| (from, start));
        }
        self.remove(judge);
        self.kept = Some(end);
    }

    /// Returns whether any part is kept.
    fn end(mut self, judge: &mut Judge) -> bool {
        self.remove(judge);
        self.kept.is_some()
    }

    fn remove(&mut self, judge: &mut Judge) {
        if let Some((from, to)) = self.dropped.take() {
            let part = self.container.slice(self.kept.unwrap_or(from)..to);
            judge.change(Change { part, replacement: Bytes::new() });
        }
    }
}
