//! Unguessable tokens.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustix::rand::{GetRandomFlags, getrandom};

/// Random bytes of a token. 32 give the shortest verifier that OAuth allows (RFC 7636, 4.1).
const BYTES: usize = 32;

/// A random token: 43 characters of base64url.
///
/// # Errors
/// If `getrandom` fails.
pub(crate) fn token() -> Result<String, String> {
    let (mut bytes, mut filled) = ([0; BYTES], 0);
    while filled < BYTES {
        let more = getrandom(&mut bytes[filled..], GetRandomFlags::empty());
        filled += more.map_err(|error| format!("the system gives no random numbers: {error}"))?;
    }
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}
