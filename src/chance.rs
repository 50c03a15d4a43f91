//! What nobody else can know.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustix::rand::{GetRandomFlags, getrandom};

/// Bytes of chance: as many as fit into the shortest verifier that OAuth allows (RFC 7636, 4.1).
const BYTES: usize = 32;

/// Text of 43 characters that fit everywhere.
///
/// # Errors
/// If the system has no chance to give.
pub(crate) fn fresh() -> Result<String, String> {
    let (mut bytes, mut filled) = ([0; BYTES], 0);
    while filled < BYTES {
        let more = getrandom(&mut bytes[filled..], GetRandomFlags::empty());
        filled += more.map_err(|error| format!("the system gives no random numbers: {error}"))?;
    }
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}
