//! The digest of a definition.

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use super::canonical::canonical;

/// SHA-256 of the canonical form of a definition. Its text is 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

/// The text is not a digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a digest has 64 hexadecimal digits in lower case")]
pub struct NotADigest;

impl Digest {
    /// The digest of valid JSON.
    pub fn of(json: &[u8]) -> Self {
        Self::of_canonical(&canonical(json))
    }

    pub fn of_canonical(json: &[u8]) -> Self {
        Self(Sha256::digest(json).into())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = NotADigest;

    fn from_str(text: &str) -> Result<Self, NotADigest> {
        let mut digest = [0; 32];
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        if pairs.len() != digest.len() || !rest.is_empty() {
            return Err(NotADigest);
        }
        for (byte, [high, low]) in digest.iter_mut().zip(pairs) {
            *byte = nibble(*high)? << 4 | nibble(*low)?;
        }
        Ok(Self(digest))
    }
}

fn nibble(digit: u8) -> Result<u8, NotADigest> {
    match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        _ => Err(NotADigest),
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        std::borrow::Cow::<str>::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_digest_is_read_back_and_other_texts_are_refused() {
        let digest = Digest::of(b"{}");
        let text = digest.to_string();
        assert_eq!(text, "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a", "as sha256sum prints it");
        assert_eq!(text.parse(), Ok(digest));
        let json = serde_json::to_string(&digest).expect("JSON");
        assert_eq!((json.clone(), serde_json::from_str::<Digest>(&json).ok()), (format!("\"{text}\""), Some(digest)));
        for other in [
            "",
            "4",
            &text[1..],
            &format!("{text}0"),
            &text.to_uppercase(),
            &text.replace('4', "é"),
            &text.replace("44", "+4"),
        ] {
            assert_eq!(other.parse::<Digest>(), Err(NotADigest), "{other}");
        }
    }
}
