//! Jobs on the disk: a folder each, with a record that appears whole.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use remaster_disk::{Folder, Kind, MOST_NAMES, if_there};
use serde_json::{Map, Value};

use crate::id;
use crate::job::{Job, Unreadable};
use crate::record::{self, Versioned};
use crate::time;
use crate::uploads::display_name;

/// The file of a job in its folder.
pub(super) const RECORD: &str = "job.json";

/// Bytes of a record at most.
const MAX_RECORD: u64 = 4 << 20;

/// A job that was found on the disk.
pub(super) enum Loaded {
    Job(Box<Job>),
    Unreadable(Unreadable),
}

/// The folder of jobs.
pub(super) struct Records {
    folder: Folder,
}

impl Records {
    pub(super) fn new(folder: Folder) -> Self {
        Records { folder }
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The path of a job's folder, for the process that works on it.
    pub(super) fn path_of(&self, id: &str) -> PathBuf {
        self.folder.path().join(id)
    }

    /// The folder of a job.
    pub(super) fn open(&self, id: &str) -> io::Result<Folder> {
        self.folder.folder(id)
    }

    /// Reads all jobs. A record that cannot be read costs its job and no other.
    pub(super) fn load(&self) -> io::Result<Vec<Loaded>> {
        let mut all = Vec::new();
        for (name, about) in self.folder.list(MOST_NAMES)? {
            let name = name.to_string_lossy().into_owned();
            if about.kind != Kind::Folder || !id::is_id(&name) {
                continue;
            }
            match self.open(&name).and_then(|inside| if_there(inside.bytes(RECORD, MAX_RECORD))) {
                Ok(Some(bytes)) => all.push(match record::read(&bytes, |job: &Job| job.id == name) {
                    Ok(job) => Loaded::Job(Box::new(job)),
                    Err(reason) => Loaded::Unreadable(salvaged(&name, &bytes, &reason)),
                }),
                // No client was told of it, or it was being removed.
                Ok(None) => drop(self.folder.remove_tree(&name)),
                Err(error) => {
                    let reason = format!("cannot be read ({error})");
                    all.push(Loaded::Unreadable(salvaged(&name, &[], &reason)));
                }
            }
        }
        Ok(all)
    }

    /// Makes the folder of a job, with its record. After an error there is none.
    pub(super) fn create(&self, job: &Job) -> io::Result<()> {
        let created = self.folder.new_folder(&job.id, true).and_then(|folder| write(&folder, job));
        created.inspect_err(|_| drop(self.folder.remove_tree(&job.id)))
    }

    /// Replaces the record of a job.
    pub(super) fn save(&self, job: &Job) -> io::Result<()> {
        write(&self.open(&job.id)?, job)
    }

    /// Removes a job with its files. The record goes first: what is left of the folder after a crash is no job, and goes at
    /// the next start.
    pub(super) fn remove(&self, id: &str) -> io::Result<()> {
        let _ = self.open(id).and_then(|folder| folder.remove(RECORD));
        if_there(self.folder.remove_tree(id)).map(drop)
    }
}

fn write(folder: &Folder, job: &Job) -> io::Result<()> {
    let bytes = serde_json::to_vec(&Versioned::new(job))?;
    folder.write_whole(RECORD, |file| file.write_all(&bytes))
}

/// A job whose record cannot be read, with what its JSON says all the same.
fn salvaged(id: &str, record: &[u8], reason: &str) -> Unreadable {
    let fields: Map<String, Value> = serde_json::from_slice(record).unwrap_or_default();
    let text = |name: &str| fields.get(name).and_then(Value::as_str);
    let input = fields.get("input").and_then(Value::as_object).cloned();
    let words =
        record.split(|byte| !byte.is_ascii_alphanumeric()).filter_map(|word| str::from_utf8(word).ok());
    Unreadable {
        id: id.to_owned(),
        name: display_name(text("name").unwrap_or("film")),
        model: text("model").map_or_else(|| "unknown".to_owned(), display_name),
        input: input.unwrap_or_default(),
        // Without a time it is shown as the newest, where it is seen.
        created: fields.get("created").and_then(Value::as_u64).unwrap_or_else(time::now),
        reason: format!(
            "the record of this job {reason}; start the version of Remaster that wrote it, or remove the job"
        ),
        ids: words.filter(|word| id::is_id(word)).map(str::to_owned).collect(),
    }
}
