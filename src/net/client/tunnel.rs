//! A connection through an HTTP proxy by `CONNECT` (RFC 9110, 9.3.6).

use bytes::Bytes;
use http::header::{HOST, HeaderValue, PROXY_AUTHORIZATION, USER_AGENT};
use http::{Method, Request, Uri};
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;

use super::response::cause;
use super::sender::USER_AGENT_VALUE;
use super::stream::Stream;

/// Opens a tunnel to `uri` through the proxy at the other end of `stream`.
///
/// # Errors
/// What the proxy did instead, for a person: the rest of a sentence that begins with the proxy's name.
pub(super) async fn open(stream: Stream, uri: &Uri, authorization: Option<&HeaderValue>) -> Result<Stream, String> {
    let request = request(uri, authorization).map_err(|error| format!("cannot be sent a request: {error}"))?;
    let broken = |error: hyper::Error| format!("breaks off: {}", cause(&error));
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    // The task ends with the upgrade, or when the sender is dropped.
    tokio::spawn(connection.with_upgrades());
    let response = sender.send_request(request).await.map_err(broken)?;
    if !response.status().is_success() {
        return Err(format!("answers CONNECT with HTTP {}", response.status()));
    }
    let upgraded = hyper::upgrade::on(response).await.map_err(broken)?;
    let parts = upgraded.downcast::<TokioIo<Stream>>().map_err(|_| "cannot be used for a tunnel".to_owned())?;
    // In TLS the client sends first.
    if parts.read_buf.is_empty() { Ok(parts.io.into_inner()) } else { Err("sends data before the client".to_owned()) }
}

fn request(uri: &Uri, authorization: Option<&HeaderValue>) -> Result<Request<Empty<Bytes>>, http::Error> {
    let target = format!("{}:{}", uri.host().unwrap_or_default(), uri.port_u16().unwrap_or(443));
    let mut request = Request::builder().method(Method::CONNECT).uri(&*target).header(HOST, &*target);
    request = request.header(USER_AGENT, USER_AGENT_VALUE);
    if let Some(authorization) = authorization {
        request = request.header(PROXY_AUTHORIZATION, authorization);
    }
    request.body(Empty::new())
}
