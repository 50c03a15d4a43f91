//! SHA-256 as text.

use sha2::{Digest, Sha256};

/// The digest in 64 hexadecimal digits.
pub(crate) fn hexadecimal(text: impl AsRef<[u8]>) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}
