//! A definition that a server sends, and a pin file that anybody may have written.
//!
//! The canonical form means the same, is its own canonical form and is never longer. Members in another order, white space and other
//! escapes do not change it. A text is a pin record only if it is written again with the same meaning.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pure_modules::pins::canonical::canonical;
use pure_modules::pins::{Approval, ApprovalRule, Definition, Digest, PinRecord, PinnedKind, SeenChanges};
use serde_json::Value;
use serde_json::value::RawValue;
use std::sync::Arc;

fuzz_target!(|data: &[u8]| {
    // Whatever is no JSON must not panic.
    let form = canonical(data);
    let text = str::from_utf8(data).unwrap_or_default();
    if let Ok(definition) = serde_json::from_str::<&RawValue>(text) {
        check_definition(definition.get(), &form);
    }
    if let Ok(record) = PinRecord::parse(text) {
        check_record(&record);
    }
    if let Some(seen) = SeenChanges::parse(text) {
        assert_eq!(SeenChanges::parse(&seen.to_text()), Some(seen));
    }
});

fn check_definition(json: &str, form: &[u8]) {
    assert!(form.len() <= json.len());
    assert_eq!(canonical(form), form, "the form is not canonical");
    let digest = Digest::of(json.as_bytes());
    assert_eq!((Digest::of(form), digest.to_string().parse()), (digest, Ok(digest)));
    // None for lone surrogates, and for values that nest too deep.
    if let Ok(value) = serde_json::from_str::<Value>(json) {
        assert_eq!(
            serde_json::from_slice::<Value>(form).expect("the form is JSON"),
            value,
            "the form means something else"
        );
    }
    let mut record = PinRecord::new("s");
    assert_eq!(record.insert(PinnedKind::Tool, &Arc::from("a"), json.as_bytes(), 1), Some(digest));
    check_record(&record);
    let (pins, taken) = (Arc::new(record.pins()), Arc::default());
    for rule in [ApprovalRule::Warn, ApprovalRule::Hold] {
        let approval = Approval::new(rule, Arc::clone(&pins), Arc::clone(&taken));
        assert_eq!(approval.verdict(PinnedKind::Tool, "a", Definition::plain(json.as_bytes())), Ok(()));
        let is_held = approval.verdict(PinnedKind::Tool, "b", Definition::plain(json.as_bytes())).is_err();
        assert!(is_held || rule == ApprovalRule::Warn);
    }
}

fn check_record(record: &PinRecord) {
    let text = record.to_text();
    let again = PinRecord::parse(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(again.to_text(), text);
}
