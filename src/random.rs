//! Unguessable tokens.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

/// Random bytes of a token. 32 give the shortest verifier that OAuth allows (RFC 7636, 4.1).
const BYTES: usize = 32;

/// `getrandom` has failed.
#[derive(Debug, thiserror::Error)]
#[error("the system gives no random numbers: {0}")]
pub(crate) struct NoRandomNumbers(#[source] Errno);

/// A random token: 43 characters of base64url.
///
/// # Errors
/// If `getrandom` fails.
pub(crate) fn token() -> Result<String, NoRandomNumbers> {
    let (mut bytes, mut filled) = ([0; BYTES], 0);
    while filled < BYTES {
        let more = getrandom(&mut bytes[filled..], GetRandomFlags::empty());
        filled += more.map_err(NoRandomNumbers)?;
    }
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}
