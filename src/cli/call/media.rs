//! What of a result is no text: images, sounds and blobs, and the files that they are saved in.
//!
//! Source: MCP 2025-11-25, `server/tools`, "Image Content", "Audio Content", "Embedded Resources".

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::Value;

use crate::cli::text::one_line;

/// Padding is optional: some servers leave it out.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Names tried for one file that has a number.
const MOST_NAMES: usize = 10_000;

/// What files of a type are called.
const EXTENSIONS: [(&str, &str); 20] = [
    ("application/gzip", "gz"),
    ("application/json", "json"),
    ("application/pdf", "pdf"),
    ("application/zip", "zip"),
    ("audio/flac", "flac"),
    ("audio/mp4", "m4a"),
    ("audio/mpeg", "mp3"),
    ("audio/ogg", "ogg"),
    ("audio/wav", "wav"),
    ("audio/webm", "weba"),
    ("audio/x-wav", "wav"),
    ("image/gif", "gif"),
    ("image/jpeg", "jpg"),
    ("image/png", "png"),
    ("image/svg+xml", "svg"),
    ("image/webp", "webp"),
    ("text/csv", "csv"),
    ("text/html", "html"),
    ("text/plain", "txt"),
    ("video/mp4", "mp4"),
];

/// One of them.
#[derive(Debug)]
pub(super) struct Media {
    /// As the server says it.
    mime: String,
    data: Vec<u8>,
}

impl Media {
    /// That of one part of a result, if it has any.
    ///
    /// # Errors
    /// If it is no Base64.
    pub(super) fn of(content: &Value) -> Option<Result<Self, String>> {
        let (whole, data) = match content["type"].as_str()? {
            "image" | "audio" => (content, content["data"].as_str()?),
            "resource" => (&content["resource"], content["resource"]["blob"].as_str()?),
            _ => return None,
        };
        let mime = one_line(whole["mimeType"].as_str().unwrap_or("application/octet-stream"));
        let decoded = BASE64.decode(data.trim_ascii());
        Some(
            decoded
                .map(|data| Self { mime: mime.clone(), data })
                .map_err(|error| format!("a {mime} that is no Base64: {error}")),
        )
    }

    /// Type and size.
    pub(super) fn words(&self) -> String {
        format!("{}, {} bytes", self.mime, self.data.len())
    }

    fn extension(&self) -> &'static str {
        let mime = self.mime.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        EXTENSIONS.into_iter().find(|(known, _)| *known == mime).map_or("bin", |(_, extension)| extension)
    }
}

/// Saves all of them, and tells where. One goes into the file `place`; several go into files beside it that are numbered, and so
/// do those for a directory, which are called as the `tool`. Only the file that was named is written over.
pub(super) fn save(all: &[Media], place: &Path, tool: &str) -> io::Result<Vec<PathBuf>> {
    let is_directory = place.is_dir() || place.as_os_str().as_encoded_bytes().ends_with(b"/");
    if is_directory {
        std::fs::create_dir_all(place)?;
        let named = |one: &Media, number| place.join(format!("{tool}-{number}.{}", one.extension()));
        return all.iter().map(|one| save_new(one, 1, |number| named(one, number))).collect();
    }
    let stem = place.file_stem().unwrap_or_default().to_string_lossy();
    let extension = place.extension().map(|extension| format!(".{}", extension.to_string_lossy())).unwrap_or_default();
    let numbered = |number| place.with_file_name(format!("{stem}-{number}{extension}"));
    let save = |(index, one): (usize, &Media)| match index {
        0 => std::fs::write(place, &one.data).map(|()| place.to_owned()),
        _ => save_new(one, index + 1, numbered),
    };
    all.iter().enumerate().map(save).collect()
}

/// Saves one in a file that was not there, with the first number from `least` on that is free.
fn save_new(one: &Media, least: usize, named: impl Fn(usize) -> PathBuf) -> io::Result<PathBuf> {
    for path in (least..least + MOST_NAMES).map(named) {
        match File::create_new(&path) {
            Ok(mut file) => return file.write_all(&one.data).map(|()| path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("it is full of files of that name"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_no_text_is_found_in_each_kind_of_content() {
        for (content, mime, extension) in [
            (json!({ "type": "image", "data": "aGk=", "mimeType": "image/PNG" }), "image/PNG", "png"),
            (
                json!({ "type": "audio", "data": "aGk", "mimeType": "audio/ogg; codecs=opus" }),
                "audio/ogg; codecs=opus",
                "ogg",
            ),
            (
                json!({ "type": "resource", "resource": { "uri": "x://1", "blob": "aGk=\n" } }),
                "application/octet-stream",
                "bin",
            ),
            (json!({ "type": "image", "data": "aGk=", "mimeType": "../../x" }), "../../x", "bin"),
        ] {
            let media = Media::of(&content).expect("it has some").expect("it can be read");
            assert_eq!((&*media.mime, media.extension(), &*media.data), (mime, extension, &b"hi"[..]), "{content}");
        }
        for none in [
            json!({ "type": "text", "text": "aGk=" }),
            json!({ "type": "resource", "resource": { "text": "x" } }),
            json!({}),
        ] {
            assert!(Media::of(&none).is_none(), "{none}");
        }
        assert!(Media::of(&json!({ "type": "image", "data": "%" })).is_some_and(|read| read.is_err()));
    }
}
