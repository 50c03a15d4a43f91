//! Prints the result of a call: text to stdout, notes to stderr, images, audio and blobs to files.
//!
//! Source: MCP 2025-11-25, `server/tools`, "Image Content", "Audio Content", "Embedded Resources".

use std::fs::File;
use std::io::{self, IsTerminal, Write, stderr, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::super::outcome::{print_json, print_styled_note, server_text};
use super::super::text::one_line;
use super::super::{FAILED, fail, print};
use crate::cli::CommandResult;

/// Padding is optional: some servers leave it out.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Maximum number of numbered file names that are tried for one file.
const MAX_NAMES: usize = 10_000;

/// File extensions by MIME type.
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

#[derive(Debug)]
pub(super) struct Media {
    /// As declared by the server.
    mime: String,
    data: Vec<u8>,
}

impl Media {
    /// Decodes a content item; `None` for text.
    ///
    /// # Errors
    /// If it is not Base64.
    pub(super) fn decode(content: &Value) -> Option<Result<Self, String>> {
        let (item, data) = match content["type"].as_str()? {
            "image" | "audio" => (content, content["data"].as_str()?),
            "resource" => (&content["resource"], content["resource"]["blob"].as_str()?),
            _ => return None,
        };
        let mime = one_line(item["mimeType"].as_str().unwrap_or("application/octet-stream"));
        let decoded = BASE64.decode(data.trim_ascii());
        Some(
            decoded
                .map(|data| Self { mime: mime.clone(), data })
                .map_err(|error| format!("invalid Base64 in content of type {mime}: {error}")),
        )
    }

    /// Type and size.
    pub(super) fn summary(&self) -> String {
        format!("{}, {} bytes", self.mime, self.data.len())
    }

    fn extension(&self) -> &'static str {
        let mime = self.mime.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        EXTENSIONS.into_iter().find(|(known, _)| *known == mime).map_or("bin", |(_, extension)| extension)
    }
}

/// Saves all items and returns the paths. The first is written to `output`, others to numbered files beside it. If `output` is a
/// directory, the files are named after the `tool` and numbered. Only the file `output` itself is overwritten.
pub(super) fn save(all: &[Media], output: &Path, tool: &str) -> io::Result<Vec<PathBuf>> {
    let is_directory = output.is_dir() || output.as_os_str().as_encoded_bytes().ends_with(b"/");
    if is_directory {
        std::fs::create_dir_all(output)?;
        let path = |one: &Media, number| output.join(format!("{tool}-{number}.{}", one.extension()));
        return all.iter().map(|one| save_new(one, 1, |number| path(one, number))).collect();
    }
    let stem = output.file_stem().unwrap_or_default().to_string_lossy();
    let extension = output.extension().map(|extension| format!(".{}", extension.to_string_lossy())).unwrap_or_default();
    let numbered = |number| output.with_file_name(format!("{stem}-{number}{extension}"));
    let save = |(index, one): (usize, &Media)| match index {
        0 => std::fs::write(output, &one.data).map(|()| output.to_owned()),
        _ => save_new(one, index + 1, numbered),
    };
    all.iter().enumerate().map(save).collect()
}

/// Saves to a new file, with the first free number from `first` on.
fn save_new(one: &Media, first: usize, path: impl Fn(usize) -> PathBuf) -> io::Result<PathBuf> {
    for path in (first..first + MAX_NAMES).map(path) {
        match File::create_new(&path) {
            Ok(mut file) => return file.write_all(&one.data).map(|()| path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("every numbered file name is taken"))
}

/// The printed part of a result (MCP 2025-11-25, `server/tools`, "Tool Result").
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolResult {
    #[serde(default)]
    content: Vec<Value>,
    structured_content: Option<Box<RawValue>>,
    #[serde(default)]
    is_error: bool,
}

/// Prints the result of `tool`, and saves its media to `output`.
pub(super) fn show(result: &Bytes, tool: &str, json: bool, output: Option<&Path>) -> CommandResult {
    let parsed: ToolResult =
        serde_json::from_slice(result).map_err(|error| fail(FAILED, format!("invalid tool result: {error}")))?;
    let (media, errors): (Vec<_>, Vec<_>) = parsed.content.iter().filter_map(Media::decode).partition(Result::is_ok);
    let media: Vec<_> = media.into_iter().flatten().collect();
    let is_saved = save_media(&media, tool, output, json);
    errors.into_iter().filter_map(Result::err).for_each(|error| print_note!("mcpd: {error}"));
    let printed = match json {
        true => print_json(result),
        false if parsed.is_error => {
            let text = text(&parsed, &stderr()).unwrap_or_else(|| "the tool failed".to_owned());
            print_styled_note(&format!("mcpd: {text}\n"));
            ExitCode::from(FAILED)
        }
        false => text(&parsed, &stdout()).map_or(ExitCode::SUCCESS, |text| print(text + "\n")),
    };
    Ok(if parsed.is_error || !is_saved { ExitCode::from(FAILED) } else { printed })
}

/// Saves media, or notes that it is not shown. `false` if saving failed.
fn save_media(media: &[Media], tool: &str, output: Option<&Path>, json: bool) -> bool {
    let Some(output) = output else {
        let unsaved = media.iter().filter(|_| !json);
        unsaved.for_each(|one| print_note!("mcpd: not shown: {}; `-o FILE` saves it", one.summary()));
        return true;
    };
    if media.is_empty() {
        print_note!("mcpd: nothing is saved: the result has only text");
    }
    match save(media, output, tool) {
        Ok(paths) => {
            paths
                .iter()
                .zip(media)
                .for_each(|(path, one)| print_note!("mcpd: saved {} ({})", path.display(), one.summary()));
            true
        }
        Err(error) => {
            print_note!("mcpd: {}: {error}", output.display());
            false
        }
    }
}

/// The text of a result for `stream`; `None` if it has only media.
fn text(parsed: &ToolResult, stream: &impl IsTerminal) -> Option<String> {
    let lines = |text: &str| server_text(text, stream).into_owned();
    let parts: Vec<_> = parsed.content.iter().filter_map(|content| content_text(content, lines)).collect();
    match &parsed.structured_content {
        Some(structured) if parts.is_empty() => Some(lines(structured.get())),
        _ if parts.is_empty() && !parsed.content.is_empty() => None,
        _ => Some(parts.join("\n")),
    }
}

fn content_text(content: &Value, lines: impl Fn(&str) -> String) -> Option<String> {
    let resource = &content["resource"];
    match content["type"].as_str().unwrap_or_default() {
        "resource_link" => {
            let member = |key: &str| content[key].as_str().map(one_line);
            let title = member("title").or_else(|| member("name")).map(|name| format!(" ({name})")).unwrap_or_default();
            Some(format!("{}{title}", member("uri").unwrap_or_default()))
        }
        "resource" if resource["text"].is_string() => resource["text"].as_str().map(lines),
        "image" | "audio" | "resource" => None,
        other => {
            let unknown = || format!("[{}; `--json` prints it]", one_line(other));
            Some(content["text"].as_str().map_or_else(unknown, lines))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn media_is_decoded_from_each_kind_of_content() {
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
            let media = Media::decode(&content).expect("it has some").expect("it can be read");
            assert_eq!((&*media.mime, media.extension(), &*media.data), (mime, extension, &b"hi"[..]), "{content}");
        }
        for none in [
            json!({ "type": "text", "text": "aGk=" }),
            json!({ "type": "resource", "resource": { "text": "x" } }),
            json!({}),
        ] {
            assert!(Media::decode(&none).is_none(), "{none}");
        }
        assert!(Media::decode(&json!({ "type": "image", "data": "%" })).is_some_and(|read| read.is_err()));
    }
}
