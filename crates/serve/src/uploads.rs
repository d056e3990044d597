//! Files that clients upload: streamed to the disk under a limit. Their names are shown and never become paths.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use remaster_disk::{Folder, Kind, MOST_NAMES, hex, if_there};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::id;
use crate::problem::Problem;
use crate::record::{self, Versioned};
use crate::space::{Share, Space};
use crate::time::{self, written};

/// The record of an upload in its folder.
const RECORD: &str = "file.json";

/// Bytes of a record at most.
const MOST_RECORD: u64 = 1 << 20;

/// Letters of a name that are kept.
const MOST_NAME: usize = 200;

/// Endings that say what a file is. Others say nothing and are left out.
const ENDINGS: [&str; 30] = [
    "mkv", "mp4", "m4v", "mov", "webm", "avi", "mpg", "mpeg", "ts", "m2ts", "mts", "vob", "wmv", "flv",
    "ogv", "mxf", "dv", "nut", "y4m", "3gp", "gif", "png", "jpg", "jpeg", "webp", "tif", "tiff", "bmp",
    "exr", "apng",
];

/// Endings of programs and lists, which are not films.
const REFUSED: [&str; 12] =
    ["vpy", "avs", "avsi", "py", "sh", "toml", "json", "m3u", "m3u8", "ffconcat", "xspf", "svg"];

/// What is known of an upload.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Upload {
    pub(crate) id: String,
    /// What the client calls it.
    pub(crate) name: String,
    content_type: String,
    pub(crate) size: u64,
    sha256: String,
    metadata: Map<String, Value>,
    created: u64,
    /// The file in its folder.
    stored: String,
    /// Why the record cannot be read.
    #[serde(skip)]
    error: Option<String>,
}

impl Upload {
    /// Refuses an upload whose record cannot be read.
    pub(crate) fn usable(&self) -> Result<(), Problem> {
        self.error.as_ref().map_or(Ok(()), |error| Err(Problem::conflict(error)))
    }

    /// The upload of a record, as far as it can be read.
    fn of(id: &str, record: &[u8]) -> Self {
        record::read(record, |upload: &Upload| upload.id == id && is_stored(&upload.stored))
            .unwrap_or_else(|reason| Upload::unreadable(id, record, &reason))
    }

    fn unreadable(id: &str, record: &[u8], reason: &str) -> Self {
        let fields: Map<String, Value> = serde_json::from_slice(record).unwrap_or_default();
        Upload {
            id: id.to_owned(),
            name: display_name(fields.get("name").and_then(Value::as_str).unwrap_or_default()),
            content_type: "application/octet-stream".into(),
            size: 0,
            sha256: String::new(),
            metadata: Map::new(),
            created: fields.get("created").and_then(Value::as_u64).unwrap_or_else(time::now),
            stored: String::new(),
            error: Some(format!(
                "the record of this upload {reason}; start the version of Remaster that wrote it, or remove the upload"
            )),
        }
    }

    /// As clients see it.
    pub(crate) fn shown(&self, base: &str, keep: Duration) -> Value {
        json!({
            "id": self.id,
            "name": self.name,
            "content_type": self.content_type,
            "size": self.size,
            "etag": self.sha256,
            "checksums": {"sha256": self.sha256},
            "metadata": self.metadata,
            "created_at": written(self.created),
            "expires_at": written(self.created.saturating_add(keep.as_millis() as u64)),
            "urls": {"get": format!("{base}/v1/files/{}", self.id)},
            "error": self.error,
        })
    }
}

/// All uploads.
pub(crate) struct Uploads {
    folder: Folder,
    known: Mutex<BTreeMap<String, Upload>>,
    space: Arc<Space>,
    most: u64,
}

/// An upload on its way. Dropped before its end, it leaves nothing.
pub(crate) struct Incoming<'a> {
    uploads: &'a Uploads,
    id: String,
    folder: Folder,
    file: File,
    name: String,
    stored: String,
    content_type: String,
    hash: Sha256,
    size: u64,
    share: Share,
    done: bool,
}

impl Uploads {
    /// Reads what is there. What was on its way when the server ended is removed.
    pub(crate) fn open(folder: Folder, most: u64) -> std::io::Result<Self> {
        let mut known = BTreeMap::new();
        for (name, about) in folder.list(MOST_NAMES)? {
            let name = name.to_string_lossy().into_owned();
            if about.kind != Kind::Folder || !id::is_id(&name) {
                continue;
            }
            // What cannot be read, on a bad disk, costs its film and no other.
            let read = folder.folder(&name).and_then(|inside| if_there(inside.bytes(RECORD, MOST_RECORD)));
            let upload = match read {
                Ok(Some(record)) => Upload::of(&name, &record),
                Ok(None) => {
                    let _ = folder.remove_tree(&name);
                    continue;
                }
                Err(error) => Upload::unreadable(&name, &[], &format!("cannot be read ({error})")),
            };
            known.insert(name, upload);
        }
        let space = Space::of(folder.path());
        Ok(Uploads { folder, known: Mutex::new(known), space, most })
    }

    /// Begins an upload.
    pub(crate) fn begin(&self, name: &str, content_type: &str) -> Result<Incoming<'_>, Problem> {
        let name = display_name(name);
        let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase()).unwrap_or_default();
        if REFUSED.contains(&ending.as_str()) {
            let detail =
                format!("{name} is no film: .{ending} files are not accepted; upload a video or a picture");
            return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not-a-video", detail));
        }
        let known = ENDINGS.into_iter().find(|known| *known == ending);
        let stored = known.map_or_else(|| "content".to_owned(), |ending| format!("content.{ending}"));
        let failed = |error| Problem::system("the upload cannot be kept", &error);
        let id = id::new().map_err(|error| Problem::busy("input-output", error.to_string()))?;
        let folder = self.folder.new_folder(&id, true).map_err(failed)?;
        let created = folder.create(&stored);
        let file = created.inspect_err(|_| drop(self.folder.remove_tree(&id))).map_err(failed)?;
        let content_type: String = content_type.chars().filter(char::is_ascii_graphic).take(100).collect();
        let content_type =
            if content_type.is_empty() { "application/octet-stream".into() } else { content_type };
        let (uploads, hash) = (self, Sha256::new());
        Ok(Incoming {
            uploads,
            id,
            folder,
            file,
            name,
            stored,
            content_type,
            hash,
            size: 0,
            share: self.space.share(),
            done: false,
        })
    }

    /// An upload.
    pub(crate) fn get(&self, id: &str) -> Option<Upload> {
        self.lock().get(id).cloned()
    }

    /// All of them, the newest first.
    pub(crate) fn list(&self) -> Vec<Upload> {
        let mut all: Vec<Upload> = self.lock().values().cloned().collect();
        all.sort_by_key(|upload| std::cmp::Reverse(upload.created));
        all
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.lock().len()
    }

    /// Its file.
    pub(crate) fn content(&self, upload: &Upload) -> std::io::Result<File> {
        self.folder.folder(&upload.id)?.read(&upload.stored)
    }

    /// Where its file is, for the process that reads it.
    pub(crate) fn path(&self, upload: &Upload) -> PathBuf {
        self.folder.path().join(&upload.id).join(&upload.stored)
    }

    /// Removes an upload.
    pub(crate) fn remove(&self, id: &str) -> Result<(), Problem> {
        let Some(upload) = self.lock().remove(id) else { return Err(Problem::missing("file")) };
        if_there(self.folder.remove_tree(id)).map(drop).map_err(|error| {
            // Windows keeps what another program has open.
            self.lock().insert(id.to_owned(), upload);
            Problem::system("the file cannot be removed", &error)
        })
    }

    /// Removes uploads that are older than `keep` and that no job needs.
    pub(crate) fn expire(&self, keep: Duration, is_needed: impl Fn(&str) -> bool) {
        let before = time::now().saturating_sub(keep.as_millis() as u64);
        let old: Vec<String> =
            self.lock().values().filter(|u| u.created < before).map(|u| u.id.clone()).collect();
        for id in old.into_iter().filter(|id| !is_needed(id)) {
            let _ = self.remove(&id);
        }
    }

    /// Bytes that an upload may have now.
    pub(crate) fn limit(&self) -> u64 {
        self.space.room().map_or(self.most, |room| room.min(self.most))
    }

    /// Bytes that any upload may have.
    pub(crate) fn most(&self) -> u64 {
        self.most
    }

    /// The space that a file takes which arrives in another way.
    pub(crate) fn share(&self) -> Share {
        self.space.share()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Upload>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Incoming<'_> {
    /// The next bytes.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Problem> {
        self.size = self.size.saturating_add(bytes.len() as u64);
        if self.size > self.uploads.most {
            let most = self.uploads.most;
            let detail =
                format!("a file may have {most} bytes; start the server with a higher --upload-limit");
            return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", detail));
        }
        self.hash.update(bytes);
        self.share.write(&mut self.file, bytes).map_err(|error| match error.kind() {
            ErrorKind::StorageFull => {
                let detail = "the disk of the server is full; remove old results and try again";
                Problem::new(StatusCode::INSUFFICIENT_STORAGE, "disk-full", detail)
            }
            _ => Problem::system("the upload cannot be written", &error),
        })
    }

    /// The hash of what came so far.
    pub(crate) fn digest(&self) -> String {
        hex(&self.hash.clone().finalize())
    }

    /// All bytes are there.
    pub(crate) fn finish(mut self, metadata: Map<String, Value>) -> Result<Upload, Problem> {
        let failed = |error| Problem::system("the upload cannot be kept", &error);
        self.file.sync_all().map_err(failed)?;
        let upload = Upload {
            id: self.id.clone(),
            name: self.name.clone(),
            content_type: self.content_type.clone(),
            size: self.size,
            sha256: self.digest(),
            metadata,
            created: time::now(),
            stored: self.stored.clone(),
            error: None,
        };
        let bytes = serde_json::to_vec(&Versioned::new(&upload)).map_err(|error| failed(error.into()))?;
        self.folder.write_whole(RECORD, |file| file.write_all(&bytes)).map_err(failed)?;
        self.uploads.lock().insert(self.id.clone(), upload.clone());
        self.done = true;
        Ok(upload)
    }
}

impl Drop for Incoming<'_> {
    fn drop(&mut self) {
        if !self.done {
            let _ = self.uploads.folder.remove_tree(&self.id);
        }
    }
}

/// A name to show: the last part of what a client sent, without what a terminal or a page could obey.
pub(crate) fn display_name(name: &str) -> String {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let hidden = |c: &char| {
        !c.is_control() && !('\u{202a}'..='\u{202e}').contains(c) && !('\u{2066}'..='\u{2069}').contains(c)
    };
    let kept: String = last.chars().filter(hidden).take(MOST_NAME).collect();
    let kept = kept.trim();
    if matches!(kept, "" | "." | "..") { "film".into() } else { kept.to_owned() }
}

/// True for the names that we give to files.
fn is_stored(name: &str) -> bool {
    name == "content" || name.strip_prefix("content.").is_some_and(|ending| ENDINGS.contains(&ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(desk: &tempfile::TempDir, most: u64) -> Uploads {
        Uploads::open(Folder::make(desk.path()).unwrap(), most).unwrap()
    }

    #[test]
    fn an_upload_is_there_whole_or_not_at_all() {
        let desk = tempfile::tempdir().unwrap();
        let uploads = open(&desk, 10);
        let mut incoming = uploads.begin("C:\\films\\tape.MKV", "video/x-matroska").unwrap();
        incoming.write(b"12345").unwrap();
        let upload = incoming.finish(Map::new()).unwrap();
        assert_eq!((upload.name.as_str(), upload.size), ("tape.MKV", 5));
        assert!(uploads.path(&upload).ends_with("content.mkv"));
        let mut long = uploads.begin("a", "").unwrap();
        long.write(b"12345").unwrap();
        assert!(long.write(b"123456").is_err());
        drop(long);
        drop(uploads.begin("b", "").unwrap());
        // Killed in the middle.
        std::mem::forget(uploads.begin("c", "").unwrap());
        assert_eq!(std::fs::read_dir(desk.path()).unwrap().count(), 2);
        let again = open(&desk, 10);
        assert_eq!(std::fs::read_dir(desk.path()).unwrap().count(), 1);
        assert_eq!(again.list().len(), 1);
        again.expire(Duration::ZERO, |_| true);
        assert_eq!(again.list().len(), 1);
        std::thread::sleep(Duration::from_millis(2));
        again.expire(Duration::ZERO, |_| false);
        assert_eq!((again.list().len(), std::fs::read_dir(desk.path()).unwrap().count()), (0, 0));
    }

    #[test]
    fn names_are_shown_and_scripts_are_no_films() {
        for (name, shown) in [
            ("../../etc/passwd", "passwd"),
            ("a\u{1b}[31m\n.mkv", "a[31m.mkv"),
            ("..", "film"),
            ("", "film"),
            ("\u{202e}gpj.mkv", "gpj.mkv"),
        ] {
            assert_eq!(display_name(name), shown);
        }
        assert_eq!(display_name(&"ü".repeat(999)).chars().count(), MOST_NAME);
        let desk = tempfile::tempdir().unwrap();
        for name in ["film.vpy", "FILM.AVS", "list.m3u8", "remaster.toml", "plan.json"] {
            assert!(open(&desk, 10).begin(name, "").is_err(), "{name}");
        }
    }
}
