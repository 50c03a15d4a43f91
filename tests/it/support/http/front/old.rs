//! HTTP+SSE: one stream for all server messages, and a path for POST requests. Source: MCP 2024-11-05, `basic/transports`,
//! "HTTP with SSE".

use super::Sessions;
use crate::support::http::{Request, Response};

pub(super) fn answer(sessions: &Sessions, request: &Request) -> Response {
    match (request.method.as_str(), request.path.as_str()) {
        ("GET", "/sse") => {
            let Some((id, session)) = sessions.open() else { return Response::disconnect() };
            let (writer, response) = Response::events();
            writer.write(format!("event: endpoint\ndata: /messages?session={id}\n\n"));
            session.routes().listen(writer);
            response
        }
        (_, "/sse") => Response::status(405),
        ("POST", "/messages") => {
            let id = request.query().remove("session").unwrap_or_default();
            let Some(session) = sessions.get(&id) else { return Response::status(404) };
            session.write(&request.body);
            Response::status(202)
        }
        _ => Response::status(404),
    }
}
