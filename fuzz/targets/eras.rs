//! Arbitrary params, results and errors: translated to the other era they are well-formed, and unrelated members
//! are unchanged, in the same order.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use pure_modules::era::input::{self, RequiredInputs};
use pure_modules::era::request_meta::{self, LegacyClientMeta};
use pure_modules::era::response::{self, Caching, ErrorToModern, ToLegacy};
use pure_modules::era::subscription::{self, ListenFilter};
use pure_modules::jsonrpc::json_eq::json_eq_except;
use pure_modules::jsonrpc::members::{entries, text};
use pure_modules::jsonrpc::parse;
use pure_modules::jsonrpc::splice::{Change, applied};
use serde_json::value::RawValue;

/// More members than a fuzzer input can have.
const ALL: usize = 10_000;

fuzz_target!(|data: &[u8]| {
    let raw = Bytes::copy_from_slice(data);
    let client_meta =
        LegacyClientMeta { capabilities: raw.clone(), client: Some(Bytes::from_static(b"{}")), level: None };
    let meta = format!("{{{}}}", client_meta.meta_members());
    assert!(entries(&meta.into(), ALL).is_some(), "what is said of a client is malformed");

    // All else is handed only parts of messages that were parsed.
    let message = [&b"{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"params\":"[..], data, b"}"].concat();
    if serde_json::from_slice::<&RawValue>(data).is_err() || parse(&message.into()).is_err() {
        return;
    }
    requests(&raw);
    results(&raw);
    notifications(&raw);
    for method in [&b"resources/read"[..], b"tools/call", b"tools/list"] {
        let legacy: Vec<Change> = response::error_to_legacy(method, &raw).into_iter().collect();
        check(&raw, &legacy, &["code"]);
        match response::error_to_modern(method, &raw) {
            ErrorToModern::Unchanged => {}
            ErrorToModern::Changed(change) => check(&raw, &[change], &["code"]),
            ErrorToModern::Required(result) => assert!(RequiredInputs::read(&result.into()).is_ok()),
        }
    }
});

fn requests(raw: &Bytes) {
    let again = ["_meta", "task", "inputResponses", "requestState"];
    let _ = input::retry_responses(raw);
    if let Ok(mut changes) = request_meta::params_to_modern(raw, &LegacyClientMeta::default()) {
        check(raw, &changes, &again);
        let modern = Bytes::from(applied(raw, &changes));
        let back = request_meta::params_to_legacy(&modern).expect("what was made here can be read");
        check(&modern, &back, &again);
        changes.push(request_meta::with_inputs(
            raw,
            &[(Bytes::from_static(b"\"k\""), Bytes::from_static(b"{}"))],
            None,
        ));
        check(raw, &changes, &again);
        assert!(
            request_meta::is_retry(raw, &modern) || raw.windows(6).any(|six| six == b"\"task\"") || !same_keys(raw)
        );
    }
    if let Ok(changes) = request_meta::params_to_legacy(raw) {
        check(raw, &changes, &again);
    }
}

/// Whether the comparison applies: text keys without duplicates.
fn same_keys(raw: &Bytes) -> bool {
    let Some(found) = entries(raw, ALL) else { return false };
    let mut keys: Vec<_> = found.iter().map(|(key, _)| text(key)).collect();
    let count = keys.len();
    keys.sort_unstable();
    keys.dedup();
    keys.len() == count && keys.iter().all(|key| key.as_ref().is_some_and(|key| key != "task"))
}

fn results(raw: &Bytes) {
    let apart = ["resultType", "ttlMs", "cacheScope"];
    match response::result_to_legacy(raw) {
        Ok(ToLegacy::Complete(changes)) => check(raw, &changes, &apart),
        Ok(ToLegacy::Required(required)) => assert!(required.inputs.len() <= input::MAX_INPUTS),
        Ok(ToLegacy::Unknown(_) | ToLegacy::Malformed(_)) | Err(_) => {}
    }
    for cached in [Caching::No, Caching::Yes] {
        if let Ok(changes) = response::result_to_modern(raw, cached) {
            check(raw, &changes, &apart);
        }
    }
}

fn notifications(raw: &Bytes) {
    if let Ok(filter) = ListenFilter::read(raw) {
        assert_eq!(
            ListenFilter::read(&filter.listen("").into()).as_ref(),
            Ok(&filter),
            "what was printed is read again"
        );
    }
    check(raw, &subscription::without_subscription(Some(raw)), &["_meta"]);
    if let Some(change) = subscription::for_subscription(raw, Some(raw), b"7") {
        check(raw, std::slice::from_ref(&change), &["_meta"]);
        let after = Bytes::from(applied(raw, &[change]));
        assert_eq!(subscription::subscription(Some(&after)).as_deref(), Some(&b"7"[..]));
    }
}

/// The output is well-formed, and its members except `apart` equal the input's.
fn check(raw: &Bytes, changes: &[Change], apart: &[&str]) {
    if changes.is_empty() {
        return;
    }
    let others = |raw: &Bytes| {
        let mut found = entries(raw, ALL).expect("an object");
        found.retain(|(key, _)| text(key).is_none_or(|key| !apart.iter().any(|name| name.as_bytes() == key)));
        found
    };
    let after = Bytes::from(applied(raw, changes));
    assert_eq!(others(raw), others(&after), "another member was altered");
    assert!(!same_keys(raw) || json_eq_except(raw, &after, apart), "a member was added or repeated");
}
