//! Reads all raw members of a small object, and all raw elements of a small array.

use bytes::Bytes;

use super::scan::{Part, Walk};

/// The parts of an object or array that is part of a parsed line, read one by one. Each part has a raw key with its quotes, which is
/// empty in an array, and a raw value. Both are slices of the whole.
pub struct Parts<'a> {
    whole: &'a Bytes,
    walk: Walk<'a>,
}

impl<'a> Parts<'a> {
    /// The members of an object. `None` if it is another value.
    #[must_use]
    pub fn of_object(whole: &'a Bytes) -> Option<Self> {
        whole.starts_with(b"{").then(|| Self { whole, walk: Walk::object(whole) })
    }

    /// The elements of an array. `None` if it is another value.
    #[must_use]
    pub fn of_array(whole: &'a Bytes) -> Option<Self> {
        whole.starts_with(b"[").then(|| Self { whole, walk: Walk::array(whole) })
    }
}

impl Iterator for Parts<'_> {
    type Item = (Bytes, Bytes);

    fn next(&mut self) -> Option<Self::Item> {
        let part = self.walk.next().ok()??;
        Some((self.whole.slice_ref(part.key), self.whole.slice_ref(part.value)))
    }
}

/// The members of `object` in order: each raw key with its quotes, and its raw value. Both are slices of `object`. `None` if it is not
/// one well-formed object, or has more than `most` members.
#[must_use]
pub fn entries(object: &Bytes, most: usize) -> Option<Vec<(Bytes, Bytes)>> {
    all(Walk::object(object), most, |part| (object.slice_ref(part.key), object.slice_ref(part.value)))
}

/// The elements of `array` as its slices. `None` if it is not one well-formed array, or has more than `most` elements.
#[must_use]
pub fn elements(array: &Bytes, most: usize) -> Option<Vec<Bytes>> {
    all(Walk::array(array), most, |part| array.slice_ref(part.value))
}

fn all<'a, T>(mut walk: Walk<'a>, most: usize, of: impl Fn(Part<'a>) -> T) -> Option<Vec<T>> {
    let mut found = Vec::new();
    while let Some(part) = walk.next().ok()? {
        if found.len() == most {
            return None;
        }
        found.push(of(part));
    }
    walk.end().ok()?;
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_found_as_they_are_spelled() {
        let object = Bytes::from_static(br#" {"a" : 1.0,"\u0062":{"c":[]} , "a":null} "#);
        let found = entries(&object, 3).expect("an object");
        let shown: Vec<_> = found.iter().map(|(key, value)| [&key[..], b"=", value].concat()).collect();
        assert_eq!(shown, [&b"\"a\"=1.0"[..], br#""\u0062"={"c":[]}"#, b"\"a\"=null"]);
        assert_eq!(entries(&object, 2), None);
        assert_eq!(Parts::of_object(&object).map(Iterator::count), None, "it begins with a blank");
        assert_eq!(Parts::of_object(&object.slice(1..)).map(|parts| parts.collect()), Some(found));
        for not_one in ["", "[]", "{}{}", "{\"a\"}"] {
            assert_eq!(entries(&Bytes::from_static(not_one.as_bytes()), 9), None, "{not_one}");
        }
    }

    #[test]
    fn a_long_array_is_none() {
        let of =
            |text: &'static str, most| elements(&Bytes::from_static(text.as_bytes()), most).map(|found| found.len());
        assert_eq!((of("[1, \"]\" ]", 2), of("[1,2]", 1), of("[]", 0), of("{}", 9)), (Some(2), None, Some(0), None));
    }
}
