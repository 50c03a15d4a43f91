//! Which HTTP statuses state that the request had no effect. Pure.
//!
//! A request counts as not processed only if the specification of the status says so. Any other status but success leaves that
//! open. 429 and 503, for example, may come from a proxy behind which the server has already acted.

use http::StatusCode;

/// The statuses whose specification says that the request was not processed, each with that statement.
const UNPROCESSED: [(StatusCode, &str); 19] = [
    (StatusCode::MOVED_PERMANENTLY, "RFC 9110, 15.4.2: the resource is at another URI"),
    (StatusCode::FOUND, "RFC 9110, 15.4.3: the resource is at another URI for now"),
    (StatusCode::TEMPORARY_REDIRECT, "RFC 9110, 15.4.8: the resource is at another URI for now"),
    (StatusCode::PERMANENT_REDIRECT, "RFC 9110, 15.4.9: the resource is at another URI"),
    (StatusCode::BAD_REQUEST, "RFC 9110, 15.5.1: the server cannot or will not process the request"),
    (StatusCode::UNAUTHORIZED, "RFC 9110, 15.5.2: the request has not been applied"),
    (StatusCode::FORBIDDEN, "RFC 9110, 15.5.4: the server refuses to fulfill the request"),
    (StatusCode::METHOD_NOT_ALLOWED, "RFC 9110, 15.5.6: the resource does not support the method"),
    (StatusCode::PROXY_AUTHENTICATION_REQUIRED, "RFC 9110, 15.5.8: the proxy does not forward the request"),
    (StatusCode::REQUEST_TIMEOUT, "RFC 9110, 15.5.9: the server did not receive a complete request"),
    (StatusCode::LENGTH_REQUIRED, "RFC 9110, 15.5.12: the server refuses to accept the request"),
    (StatusCode::PRECONDITION_FAILED, "RFC 9110, 15.5.13: the method was prevented from being applied"),
    (StatusCode::PAYLOAD_TOO_LARGE, "RFC 9110, 15.5.14: the server refuses to process the request"),
    (StatusCode::URI_TOO_LONG, "RFC 9110, 15.5.15: the server refuses to service the request"),
    (StatusCode::UNSUPPORTED_MEDIA_TYPE, "RFC 9110, 15.5.16: the server refuses to service the request"),
    (
        StatusCode::MISDIRECTED_REQUEST,
        "RFC 9110, 15.5.20: the server does not answer for this URI; any method may be retried",
    ),
    (StatusCode::TOO_EARLY, "RFC 8470, 5.2: the server is unwilling to process the request"),
    (StatusCode::UPGRADE_REQUIRED, "RFC 9110, 15.5.22: the server refuses to perform the request"),
    (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "RFC 6585, 5: the server is unwilling to process the request"),
];

/// The statement by which this status says that the request was not processed; `None` if it may have been.
///
/// HTTP 404 says so only of a session (MCP 2025-11-25, `basic/transports`, "Session Management"), which the caller knows.
pub(crate) fn unprocessed(status: StatusCode) -> Option<&'static str> {
    UNPROCESSED.iter().find(|(one, _)| *one == status).map(|(_, statement)| *statement)
}

/// Whether the server refuses all requests for now.
pub(crate) fn is_busy(status: StatusCode) -> bool {
    matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every error status of the IANA registry, and what its specification says. Those that are left open have the reason why.
    #[test]
    fn a_status_means_not_processed_only_if_its_specification_says_so() {
        for (status, expected) in [
            (300, Err("offers representations, also of what was done")),
            (301, Ok("15.4.2")),
            (302, Ok("15.4.3")),
            (303, Err("is how a processed POST is answered")),
            (304, Err("is about a conditional GET")),
            (305, Err("is deprecated")),
            (307, Ok("15.4.8")),
            (308, Ok("15.4.9")),
            (400, Ok("15.5.1")),
            (401, Ok("15.5.2")),
            (402, Err("is reserved")),
            (403, Ok("15.5.4")),
            (404, Err("says that a representation was not found")),
            (405, Ok("15.5.6")),
            (406, Err("is about the response")),
            (407, Ok("15.5.8")),
            (408, Ok("15.5.9")),
            (409, Err("says that the request could not be completed")),
            (410, Err("says that access is no longer available")),
            (411, Ok("15.5.12")),
            (412, Ok("15.5.13")),
            (413, Ok("15.5.14")),
            (414, Ok("15.5.15")),
            (415, Ok("15.5.16")),
            (416, Err("is about ranges")),
            (417, Err("says that an expectation was not met")),
            (418, Err("is unused")),
            (421, Ok("15.5.20")),
            (422, Err("says that the instructions could not be processed, not at which of them")),
            (423, Err("says that a resource is locked")),
            (424, Err("says that another action failed")),
            (425, Ok("RFC 8470, 5.2")),
            (426, Ok("15.5.22")),
            (428, Err("requires conditions")),
            (429, Err("says how many requests there were")),
            (431, Ok("RFC 6585, 5")),
            (451, Err("says that access is denied")),
            (500, Err("says that something unexpected happened")),
            (501, Err("says that functionality is missing")),
            (502, Err("is about the next server")),
            (503, Err("says that the server cannot handle the request now")),
            (504, Err("is about the next server")),
            (505, Err("is about the version of the response")),
            (506, Err("is about negotiation")),
            (507, Err("says that the method could not be performed to its end")),
            (508, Err("ends an operation that was begun")),
            (511, Err("is sent by whoever intercepts, for whatever it intercepted")),
            (599, Err("has no specification")),
        ] {
            let statement = unprocessed(StatusCode::from_u16(status).expect("a status"));
            match expected {
                Ok(section) => assert!(statement.is_some_and(|text| text.contains(section)), "{status}: {statement:?}"),
                Err(why) => assert_eq!(statement, None, "{status} {why}"),
            }
        }
    }
}
