//! One attempt at a unit.

use std::path::Path;

use super::record::{AttemptId, Commit, File, Notes};
use super::{Journal, JournalError, Verdict, layout};
use crate::{Content, Key};

/// An attempt: files go into the store under a unique name, and count when [`Attempt::commit`] wins.
#[derive(Debug)]
pub struct Attempt {
    journal: Journal,
    unit: u32,
    id: AttemptId,
    files: Vec<File>,
}

impl Attempt {
    pub(super) fn new(journal: Journal, unit: u32) -> Self {
        Attempt { journal, unit, id: AttemptId::random(), files: Vec::new() }
    }

    /// Its name.
    pub fn id(&self) -> &AttemptId {
        &self.id
    }

    /// Copies a local file into the attempt.
    pub fn put_file(&mut self, name: &str, path: &Path) -> Result<Content, JournalError> {
        let key = self.key(name)?;
        let content = self.journal.store.put_file(&key, path)?;
        Ok(self.add(name, content))
    }

    /// Writes a small file into the attempt.
    pub fn put_bytes(&mut self, name: &str, bytes: Vec<u8>) -> Result<Content, JournalError> {
        let key = self.key(name)?;
        let content = self.journal.store.put(&key, bytes)?;
        Ok(self.add(name, content))
    }

    /// Takes over a file that an earlier attempt at this unit finished.
    pub fn adopt(&mut self, file: File) -> Result<(), JournalError> {
        match self.files.iter().any(|other| other.name == file.name) {
            true => Err(JournalError::Twice { name: file.name }),
            false => {
                self.files.push(file);
                Ok(())
            }
        }
    }

    /// Its files so far, in order.
    pub fn files(&self) -> &[File] {
        &self.files
    }

    /// Ends the attempt: its files count from now on, unless another attempt at this unit came first. After an error it
    /// is not known which; calling it again is safe and finds out.
    pub fn commit(&mut self, notes: Notes) -> Result<Verdict<Commit>, JournalError> {
        let Notes { frames, worker, milliseconds, left } = notes;
        self.journal.commit(&Commit {
            plan: self.journal.plan.hash(),
            unit: self.unit,
            attempt: self.id.clone(),
            files: self.files.clone(),
            frames,
            worker,
            milliseconds,
            left,
            producers: self.journal.producers(),
        })
    }

    fn key(&self, name: &str) -> Result<Key, JournalError> {
        match self.files.iter().any(|file| file.name == name) {
            true => Err(JournalError::Twice { name: name.to_owned() }),
            false => Ok(layout::file(self.unit, &self.id, name)?),
        }
    }

    fn add(&mut self, name: &str, content: Content) -> Content {
        let Content { bytes, sha256 } = content;
        self.files.push(File { attempt: self.id.clone(), name: name.to_owned(), bytes, sha256 });
        content
    }
}
