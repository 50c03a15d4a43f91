//! Response bodies, read whole and within a memory limit.

use bytes::{Bytes, BytesMut};

use super::client::{ReadError, Response};
use crate::message_limit::has_memory;

/// Larger bodies need a slot of [`LargeBodySlots`] to be read on, in bytes. A server may owe as many responses as it
/// has calls, and all of them at the maximum size would exhaust memory.
pub(crate) const LARGE: usize = 256 << 10;
/// Large bodies of one server that are read at a time.
pub(crate) const MAX_LARGE_BODIES: usize = 4;
/// Smaller chunks are copied, so that they do not keep their read buffer alive, in bytes.
const SMALL: usize = 8 << 10;

/// Limits how many large bodies are read at a time.
pub(crate) type LargeBodySlots = tokio::sync::Semaphore;

/// Why a body could not be read.
#[derive(Debug)]
pub(crate) enum BodyError {
    TooLarge,
    /// The connection failed, or the body cannot be decoded.
    Interrupted(ReadError),
}

/// Reads a body of at most `max` bytes. A large one waits for a slot once it exceeds [`LARGE`].
///
/// # Errors
/// If the body is larger or incomplete.
pub(crate) async fn read_whole(
    response: &mut Response,
    max: usize,
    slots: &LargeBodySlots,
) -> Result<Bytes, BodyError> {
    let fits = |length: usize| if length <= max { Ok(()) } else { Err(BodyError::TooLarge) };
    fits(response.content_length().map_or(0, |length| usize::try_from(length).unwrap_or(usize::MAX)))?;
    let Some(first) = response.chunk().await.map_err(BodyError::Interrupted)? else { return Ok(Bytes::new()) };
    fits(first.len())?;
    let Some(second) = response.chunk().await.map_err(BodyError::Interrupted)? else { return Ok(detached(first)) };
    let (mut body, mut permit) = (BytesMut::from(&first[..]), None);
    let mut next = Some(second);
    while let Some(chunk) = next {
        fits(body.len() + chunk.len())?;
        if !has_memory(&body, chunk.len()) {
            return Err(BodyError::TooLarge);
        }
        body.extend_from_slice(&chunk);
        if body.len() > LARGE && permit.is_none() {
            permit = Some(slots.acquire().await);
        }
        next = response.chunk().await.map_err(BodyError::Interrupted)?;
    }
    Ok(body.freeze())
}

/// Copies a small slice, so that it does not keep its whole read buffer in memory.
pub(crate) fn detached(part: Bytes) -> Bytes {
    if part.len() <= SMALL { Bytes::copy_from_slice(&part) } else { part }
}
