//! Whether a regular expression is one of ECMAScript with the flag `u`, as Ajv requires. Python and Go have forms that are not.

use std::collections::HashSet;
use std::iter::Peekable;
use std::str::Chars;

use icu_properties::PropertyParser;
use icu_properties::props::{GeneralCategoryGroup, Script};

/// Escapes of one character: control characters and syntax characters.
const ESCAPES: &str = "fnrtv^$\\.*+?()[]{}|/";
/// Binary properties and their aliases.
///
/// Source: ECMA-262, table "Binary Unicode property aliases and their canonical property names".
const PROPERTIES: &[&str] = &[
    "ASCII",
    "AHex",
    "ASCII_Hex_Digit",
    "Alpha",
    "Alphabetic",
    "Any",
    "Assigned",
    "Bidi_C",
    "Bidi_Control",
    "Bidi_M",
    "Bidi_Mirrored",
    "CI",
    "Case_Ignorable",
    "Cased",
    "CWCF",
    "Changes_When_Casefolded",
    "CWCM",
    "Changes_When_Casemapped",
    "CWL",
    "Changes_When_Lowercased",
    "CWKCF",
    "Changes_When_NFKC_Casefolded",
    "CWT",
    "Changes_When_Titlecased",
    "CWU",
    "Changes_When_Uppercased",
    "Dash",
    "DI",
    "Default_Ignorable_Code_Point",
    "Dep",
    "Deprecated",
    "Dia",
    "Diacritic",
    "Emoji",
    "EComp",
    "Emoji_Component",
    "EMod",
    "Emoji_Modifier",
    "EBase",
    "Emoji_Modifier_Base",
    "EPres",
    "Emoji_Presentation",
    "ExtPict",
    "Extended_Pictographic",
    "Ext",
    "Extender",
    "Gr_Base",
    "Grapheme_Base",
    "Gr_Ext",
    "Grapheme_Extend",
    "Hex",
    "Hex_Digit",
    "IDSB",
    "IDS_Binary_Operator",
    "IDST",
    "IDS_Trinary_Operator",
    "IDC",
    "ID_Continue",
    "IDS",
    "ID_Start",
    "Ideo",
    "Ideographic",
    "Join_C",
    "Join_Control",
    "LOE",
    "Logical_Order_Exception",
    "Lower",
    "Lowercase",
    "Math",
    "NChar",
    "Noncharacter_Code_Point",
    "Pat_Syn",
    "Pattern_Syntax",
    "Pat_WS",
    "Pattern_White_Space",
    "QMark",
    "Quotation_Mark",
    "Radical",
    "RI",
    "Regional_Indicator",
    "STerm",
    "Sentence_Terminal",
    "SD",
    "Soft_Dotted",
    "Term",
    "Terminal_Punctuation",
    "UIdeo",
    "Unified_Ideograph",
    "Upper",
    "Uppercase",
    "VS",
    "Variation_Selector",
    "space",
    "White_Space",
    "XIDC",
    "XID_Continue",
    "XIDS",
    "XID_Start",
];

struct Parser<'a> {
    rest: Peekable<Chars<'a>>,
    /// The open groups: whether a quantifier may follow each.
    groups: Vec<bool>,
    captures: usize,
    names: HashSet<String>,
    /// The largest number of a group that is referred to.
    referred: usize,
    referred_names: Vec<String>,
}

/// What an escape means.
enum Escape {
    /// Characters, such as `\d`.
    Set,
    Char(u32),
    /// A position, such as `\b`.
    Assertion,
    /// What a group matched.
    Reference,
}

/// Whether it compiles.
pub(super) fn is_ecmascript(pattern: &str) -> bool {
    let mut parser = Parser {
        rest: pattern.chars().peekable(),
        groups: Vec::new(),
        captures: 0,
        names: HashSet::new(),
        referred: 0,
        referred_names: Vec::new(),
    };
    parser.disjunction().is_some()
        && parser.groups.is_empty()
        && parser.referred <= parser.captures
        && parser.referred_names.iter().all(|name| parser.names.contains(name))
}

impl Parser<'_> {
    fn disjunction(&mut self) -> Option<()> {
        // Whether a quantifier may follow.
        let mut has_atom = false;
        while let Some(next) = self.rest.next() {
            has_atom = match next {
                '(' => {
                    self.group()?;
                    false
                }
                ')' => self.groups.pop()?,
                '[' => {
                    self.class()?;
                    true
                }
                '\\' => !matches!(self.escape(false)?, Escape::Assertion),
                '*' | '+' | '?' if has_atom => {
                    self.rest.next_if_eq(&'?');
                    false
                }
                '{' if has_atom => {
                    self.count()?;
                    self.rest.next_if_eq(&'?');
                    false
                }
                '*' | '+' | '?' | '{' | '}' | ']' => return None,
                '|' | '^' | '$' => false,
                _ => true,
            };
        }
        Some(())
    }

    /// What may follow the parenthesis of a group.
    fn group(&mut self) -> Option<()> {
        let is_atom = if self.rest.next_if_eq(&'?').is_none() {
            self.captures += 1;
            true
        } else {
            match self.rest.next()? {
                ':' => true,
                '=' | '!' => false,
                '<' if self.rest.next_if(|next| matches!(next, '=' | '!')).is_some() => false,
                '<' => {
                    self.captures += 1;
                    let name = self.name()?;
                    if !self.names.insert(name) {
                        return None;
                    }
                    true
                }
                _ => return None,
            }
        };
        self.groups.push(is_atom);
        Some(())
    }

    /// The name of a group and its closing bracket.
    fn name(&mut self) -> Option<String> {
        let name = self.until('>')?;
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '$' | '_');
        let fits = name.chars().all(is_part) && name.starts_with(|c: char| !c.is_numeric());
        fits.then_some(name)
    }

    fn count(&mut self) -> Option<()> {
        let text = self.until('}')?;
        let number = |text: &str| {
            let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            // Too large numbers compare like infinity.
            is_number.then(|| text.parse().unwrap_or(u64::MAX))
        };
        let Some((least, most)) = text.split_once(',') else { return number(&text).map(drop) };
        let least = number(least)?;
        (most.is_empty() || number(most)? >= least).then_some(())
    }

    fn class(&mut self) -> Option<()> {
        self.rest.next_if_eq(&'^');
        while let Some(from) = self.class_atom()? {
            if self.rest.peek() != Some(&'-') {
                continue;
            }
            self.rest.next();
            // A hyphen at the end is a character.
            let Some(to) = self.class_atom()? else { return Some(()) };
            match (from, to) {
                (Escape::Char(from), Escape::Char(to)) if from <= to => {}
                _ => return None,
            }
        }
        Some(())
    }

    /// The next character or set of a class, or `Some(None)` at its end.
    fn class_atom(&mut self) -> Option<Option<Escape>> {
        Some(match self.rest.next()? {
            ']' => None,
            '\\' => Some(self.escape(true)?),
            next => Some(Escape::Char(next.into())),
        })
    }

    fn escape(&mut self, in_class: bool) -> Option<Escape> {
        Some(match self.rest.next()? {
            'd' | 'D' | 's' | 'S' | 'w' | 'W' => Escape::Set,
            'p' | 'P' => {
                self.rest.next_if_eq(&'{')?;
                is_property(&self.until('}')?).then_some(Escape::Set)?
            }
            'b' if in_class => Escape::Char(8),
            'b' | 'B' if !in_class => Escape::Assertion,
            '-' if in_class => Escape::Char('-'.into()),
            'k' if !in_class => {
                self.rest.next_if_eq(&'<')?;
                let name = self.name()?;
                self.referred_names.push(name);
                Escape::Reference
            }
            'c' => Escape::Char(u32::from(self.rest.next_if(char::is_ascii_alphabetic)?) % 32),
            'x' => Escape::Char(self.digits(2)?),
            'u' => Escape::Char(self.code_point()?),
            '0' if !self.rest.peek().is_some_and(char::is_ascii_digit) => Escape::Char(0),
            first @ '1'..='9' if !in_class => {
                let mut number = first.to_digit(10)? as usize;
                while let Some(digit) = self.rest.next_if(char::is_ascii_digit) {
                    number = number.saturating_mul(10).saturating_add(digit.to_digit(10)? as usize);
                }
                self.referred = self.referred.max(number);
                Escape::Reference
            }
            next if ESCAPES.contains(next) => Escape::Char(match next {
                'f' => 12,
                'n' => 10,
                'r' => 13,
                't' => 9,
                'v' => 11,
                other => other.into(),
            }),
            _ => return None,
        })
    }

    /// What follows `\u`.
    fn code_point(&mut self) -> Option<u32> {
        if self.rest.next_if_eq(&'{').is_some() {
            let digits = self.until('}')?;
            let is_hex = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            let value = is_hex.then(|| u32::from_str_radix(digits.trim_start_matches('0'), 16).unwrap_or(0))?;
            let is_small = digits.trim_start_matches('0').len() <= 6 && value <= 0x10_ffff;
            return is_small.then_some(value);
        }
        let first = self.digits(4)?;
        // Two surrogates are one character.
        let before = self.rest.clone();
        if (0xd800..0xdc00).contains(&first)
            && self.rest.next() == Some('\\')
            && self.rest.next() == Some('u')
            && let Some(second @ 0xdc00..0xe000) = self.digits(4)
        {
            return Some(0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00));
        }
        self.rest = before;
        Some(first)
    }

    fn digits(&mut self, count: usize) -> Option<u32> {
        (0..count).try_fold(0, |value, _| Some(value * 16 + self.rest.next_if(char::is_ascii_hexdigit)?.to_digit(16)?))
    }

    fn until(&mut self, end: char) -> Option<String> {
        let mut text = String::new();
        loop {
            match self.rest.next()? {
                next if next == end => return Some(text),
                next => text.push(next),
            }
        }
    }
}

/// Whether `\p{…}` may name it.
fn is_property(text: &str) -> bool {
    let is_category = |name: &str| PropertyParser::<GeneralCategoryGroup>::new().get_strict(name).is_some();
    match text.split_once('=') {
        None => PROPERTIES.contains(&text) || is_category(text),
        Some(("General_Category" | "gc", name)) => is_category(name),
        Some(("Script" | "sc" | "Script_Extensions" | "scx", name)) => {
            PropertyParser::<Script>::new().get_strict(name).is_some()
        }
        Some(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::is_ecmascript;

    const VALID: &[&str] = &[
        "",
        "^a+$",
        "(a|b)*?",
        "[^a-z\\d_]{2,3}",
        "(?:x)(?=y)(?!z)(?<=a)(?<!b)(?<n>c)\\k<n>",
        "\\p{L}\\u{1F600}\\u0041\\x41",
        "[\\w-]",
        "[\\-]",
        "\\/",
        "a{2,}?",
        "()",
        "a|",
        "^(\\d{4})-(\\d{2})$",
        "[.\\-\\w]",
        "[a-z][-a][a-][+--]",
        "a{1,3}",
        "a{3,}",
        "(a)\\1",
        "\\2(a)(b)",
        "\\0",
        "(?:a)*",
        "\\p{Lu}\\p{Letter}\\P{Script=Greek}\\p{scx=Grek}\\p{ASCII}\\p{gc=Nd}",
        "[\\u{1F600}-\\u{1F64F}]",
        "[\\uD83D\\uDE00-\\uD83D\\uDE4F]",
        "[\\b]",
    ];
    const INVALID: &[&str] = &[
        "(",
        ")",
        "[",
        "*",
        "a**",
        "a++",
        "{",
        "}",
        "]",
        "(?i)x",
        "(?P<n>x)",
        "\\Z",
        "\\A",
        "\\-",
        "[\\w-x]",
        "x{",
        "x{a}",
        "\\p",
        "\\x4",
        "(?#c)",
        "\\",
        "[.-\\w]",
        "[z-a]",
        "a{3,1}",
        "\\1",
        "(a)\\2",
        "\\01",
        "[\\1]",
        "(?=a)*",
        "(?!a)+",
        "(?<=a)?",
        "^*",
        "$?",
        "\\b+",
        "[\\B]",
        "\\p{Foo}",
        "\\p{Script=Foo}",
        "\\p{lu}",
        "\\p{Block=Basic_Latin}",
        "\\k<n>",
        "(?<n>a)(?<n>b)",
        "(?<1>a)",
        "\\u{110000}",
        "\\u{}",
        "\\u{g}",
        "\\a",
        "a{,3}",
    ];

    #[test]
    fn patterns_of_other_languages_are_found() {
        for pattern in VALID {
            assert!(is_ecmascript(pattern), "{pattern}");
        }
        for pattern in INVALID {
            assert!(!is_ecmascript(pattern), "{pattern}");
        }
    }
}
