//! Bodies of answers, read whole and in bounded memory.

use bytes::{Bytes, BytesMut};

use super::client::Answer;

/// What is larger is read one after another, in bytes: as many answers as a server may owe, all of the largest size, would be all
/// the memory there is.
pub(crate) const LARGE: usize = 256 << 10;
/// So many of them at once.
pub(crate) const TURNS: usize = 4;
/// Copied rather than kept within what it was read with, in bytes.
const SMALL: usize = 8 << 10;

/// Whose turn it is to be read on.
pub(crate) type Turn = tokio::sync::Semaphore;

/// Why a body is of no use.
#[derive(Debug)]
pub(crate) enum Unusable {
    TooLarge,
    /// For a person, on one line.
    Cut(String),
}

/// The whole of a body, if it has at most `max` bytes. Once it is large it is read on in its `turn`.
///
/// # Errors
/// If it has more, or breaks off.
pub(crate) async fn whole(answer: &mut Answer, max: usize, turn: &Turn) -> Result<Bytes, Unusable> {
    let fits = |length: usize| if length <= max { Ok(()) } else { Err(Unusable::TooLarge) };
    fits(answer.content_length().map_or(0, |length| usize::try_from(length).unwrap_or(usize::MAX)))?;
    let Some(first) = answer.chunk().await.map_err(Unusable::Cut)? else { return Ok(Bytes::new()) };
    fits(first.len())?;
    let Some(second) = answer.chunk().await.map_err(Unusable::Cut)? else { return Ok(by_itself(first)) };
    let (mut body, mut held) = (BytesMut::from(&first[..]), None);
    let mut next = Some(second);
    while let Some(chunk) = next {
        fits(body.len() + chunk.len())?;
        body.extend_from_slice(&chunk);
        if body.len() > LARGE && held.is_none() {
            held = Some(turn.acquire().await);
        }
        next = answer.chunk().await.map_err(Unusable::Cut)?;
    }
    Ok(body.freeze())
}

/// A small part of what was read at once does not keep all of that in memory.
pub(crate) fn by_itself(part: Bytes) -> Bytes {
    if part.len() <= SMALL { Bytes::copy_from_slice(&part) } else { part }
}
