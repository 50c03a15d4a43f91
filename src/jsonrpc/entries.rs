//! Reads all raw members of a small object, and all raw elements of a small array.

use bytes::Bytes;

use super::members::NotAnObject;
use super::scan::Walk;

/// The members of `object` in order: each raw key with its quotes, and its raw value. Both are slices of `object`. Stops after
/// `most` + 1 members.
///
/// # Errors
/// If it is not one well-formed object.
pub fn entries(object: &Bytes, most: usize) -> Result<Vec<(Bytes, Bytes)>, NotAnObject> {
    let (mut walk, mut found) = (Walk::object(object), Vec::new());
    while let Some(member) = walk.next()? {
        found.push((object.slice_ref(member.key), object.slice_ref(member.value)));
        if found.len() > most {
            return Ok(found);
        }
    }
    walk.end()?;
    Ok(found)
}

/// The elements of `array` as its slices. `None` if it is not one well-formed array, or has more than `most`.
#[must_use]
pub fn elements(array: &Bytes, most: usize) -> Option<Vec<Bytes>> {
    let (mut walk, mut found) = (Walk::array(array), Vec::new());
    while let Some(element) = walk.next().ok()? {
        if found.len() == most {
            return None;
        }
        found.push(array.slice_ref(element.value));
    }
    walk.end().ok()?;
    Some(found)
}

/// Passes each element of `array`, as its slice, to `show`. A malformed array ends where it is malformed.
pub fn each_element(array: &Bytes, mut show: impl FnMut(Bytes)) {
    let mut walk = Walk::array(array);
    while let Ok(Some(element)) = walk.next() {
        show(array.slice_ref(element.value));
    }
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
        assert_eq!(entries(&object, 1).map(|found| found.len()), Ok(2));
        for not_one in ["", "[]", "{}{}", "{\"a\"}"] {
            assert_eq!(entries(&Bytes::from_static(not_one.as_bytes()), 9), Err(NotAnObject), "{not_one}");
        }
    }

    #[test]
    fn a_long_array_is_none() {
        let of =
            |text: &'static str, most| elements(&Bytes::from_static(text.as_bytes()), most).map(|found| found.len());
        assert_eq!((of("[1, \"]\" ]", 2), of("[1,2]", 1), of("[]", 0), of("{}", 9)), (Some(2), None, Some(0), None));
    }
}
