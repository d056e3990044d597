//! Files on their way into an archive, and the two kinds of archive. The same files give the same bytes on every machine: entries
//! are sorted, and times, owners and modes are fixed.

use std::collections::BTreeMap;

/// 1980-01-01, the first day that a zip can name.
const TIME: u64 = 315_532_800;

/// The same day in a zip.
const DOS_DATE: u16 = (1 << 5) | 1;

/// Seven of ten: above it miniz_oxide takes three times as long for 0.3 % of a binary.
const LEVEL: u8 = 7;

/// A file and whether it is a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) bytes: Vec<u8>,
    pub(crate) program: bool,
}

impl Entry {
    fn mode(&self) -> u32 {
        if self.program { 0o755 } else { 0o644 }
    }
}

/// Files by their paths, with `/` between names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Files(BTreeMap<String, Entry>);

impl Files {
    pub(crate) fn add(&mut self, path: impl Into<String>, bytes: impl Into<Vec<u8>>) {
        self.0.insert(path.into(), Entry { bytes: bytes.into(), program: false });
    }

    pub(crate) fn add_program(&mut self, path: impl Into<String>, bytes: impl Into<Vec<u8>>) {
        self.0.insert(path.into(), Entry { bytes: bytes.into(), program: true });
    }

    /// All of `other` below a folder.
    pub(crate) fn add_below(&mut self, folder: &str, other: &Files) {
        self.0.extend(other.0.iter().map(|(path, entry)| (format!("{folder}/{path}"), entry.clone())));
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.0.iter().map(|(path, entry)| (path.as_str(), entry))
    }

    /// Folders that the paths name, each before what is in it.
    fn folders(&self) -> Vec<String> {
        let mut folders: Vec<String> = Vec::new();
        for path in self.0.keys() {
            for (at, _) in path.match_indices('/') {
                let folder = path[..at].to_owned();
                if !folders.contains(&folder) {
                    folders.push(folder);
                }
            }
        }
        folders.sort();
        folders
    }

    /// As a tar of the plain kind (ustar), with entries for folders. `before` stands in front of every path.
    pub(crate) fn tar(&self, before: &str) -> Result<Vec<u8>, String> {
        let mut out = Vec::new();
        for folder in self.folders() {
            header(&mut out, &format!("{before}{folder}/"), 0, 0o755, b'5')?;
        }
        for (path, entry) in &self.0 {
            header(&mut out, &format!("{before}{path}"), entry.bytes.len(), entry.mode(), b'0')?;
            out.extend(&entry.bytes);
            out.resize(out.len().next_multiple_of(512), 0);
        }
        // Two empty blocks end it, and records have twenty.
        out.resize((out.len() + 1024).next_multiple_of(10_240), 0);
        Ok(out)
    }

    /// As a tar that is compressed.
    pub(crate) fn tar_gz(&self, before: &str) -> Result<Vec<u8>, String> {
        Ok(gzip(&self.tar(before)?))
    }

    /// As a zip.
    pub(crate) fn zip(&self) -> Result<Vec<u8>, String> {
        zip(self.iter())
    }
}

/// A block that describes an entry.
fn header(out: &mut Vec<u8>, path: &str, size: usize, mode: u32, kind: u8) -> Result<(), String> {
    let cut = match path.len() {
        ..=100 => None,
        // A longer one is split between two names.
        _ => Some(
            path.match_indices('/')
                .map(|(at, _)| at)
                .find(|at| path.len() - at - 1 <= 100)
                .unwrap_or(usize::MAX),
        ),
    };
    let (prefix, name) = match cut {
        None => ("", path),
        Some(at) if at <= 155 => (&path[..at], &path[at + 1..]),
        Some(_) => return Err(format!("{path} is too long for a tar")),
    };
    let mut block = [0u8; 512];
    let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, name.as_bytes());
    put(100, format!("{mode:07o}").as_bytes());
    put(108, b"0000000");
    put(116, b"0000000");
    put(124, format!("{size:011o}").as_bytes());
    put(136, format!("{TIME:011o}").as_bytes());
    put(148, b"        ");
    put(156, &[kind]);
    put(257, b"ustar\x0000");
    put(265, b"root");
    put(297, b"root");
    put(345, prefix.as_bytes());
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    out.extend(block);
    Ok(())
}

/// Compressed as `gzip -n` does it: without a name and a time.
pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    out.extend(miniz_oxide::deflate::compress_to_vec(bytes, LEVEL));
    out.extend(crc32fast::hash(bytes).to_le_bytes());
    // Of the length the lower 32 bits count.
    out.extend((bytes.len() as u32).to_le_bytes());
    out
}

/// A zip with the entries in this order: in a wheel the record comes last.
pub(crate) fn zip<'a>(entries: impl Iterator<Item = (&'a str, &'a Entry)>) -> Result<Vec<u8>, String> {
    let (mut out, mut directory, mut count) = (Vec::new(), Vec::new(), 0u16);
    for (path, entry) in entries {
        let place = number(out.len())?;
        let packed = miniz_oxide::deflate::compress_to_vec(&entry.bytes, LEVEL);
        // Version 2.0, names in UTF-8, deflate.
        let mut about = Vec::new();
        for word in [20u16, 1 << 11, 8, 0, DOS_DATE] {
            about.extend(word.to_le_bytes());
        }
        about.extend(crc32fast::hash(&entry.bytes).to_le_bytes());
        about.extend(number(packed.len())?.to_le_bytes());
        about.extend(number(entry.bytes.len())?.to_le_bytes());
        about.extend(
            u16::try_from(path.len()).map_err(|_| format!("{path} is too long for a zip"))?.to_le_bytes(),
        );
        about.extend(0u16.to_le_bytes());
        out.extend(b"PK\x03\x04");
        out.extend(&about);
        out.extend(path.as_bytes());
        out.extend(packed);
        // Made on Unix, so that the mode counts.
        directory.extend(b"PK\x01\x02\x14\x03");
        directory.extend(&about);
        directory.extend([0; 6]);
        directory.extend(((0o100_000 | entry.mode()) << 16).to_le_bytes());
        directory.extend(place.to_le_bytes());
        directory.extend(path.as_bytes());
        count = count.checked_add(1).ok_or("a zip has 65,535 entries at most")?;
    }
    let (place, length) = (number(out.len())?, number(directory.len())?);
    out.extend(directory);
    out.extend(b"PK\x05\x06\0\0\0\0");
    for word in [count, count] {
        out.extend(word.to_le_bytes());
    }
    out.extend(length.to_le_bytes());
    out.extend(place.to_le_bytes());
    out.extend([0; 2]);
    Ok(out)
}

/// A length in a zip.
fn number(length: usize) -> Result<u32, String> {
    u32::try_from(length).map_err(|_| "a zip has 4 GiB at most".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::process::Command;

    fn files() -> Files {
        let mut files = Files::default();
        files.add("b/readme", "read me\n");
        files.add_program("b/a/program", vec![7; 70_000]);
        files.add("a", "");
        files
    }

    /// What a program of the system says about a file of these bytes.
    fn said(bytes: &[u8], program: &[&str]) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("archive");
        std::fs::write(&path, bytes).unwrap();
        let out = Command::new(program[0])
            .args(&program[1..])
            .arg(Path::new("archive"))
            .current_dir(&folder)
            .output();
        let out = out.unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    }

    #[test]
    fn the_same_files_give_the_same_bytes_in_whatever_order_they_came() {
        let mut other = Files::default();
        other.add("a", "");
        other.add_below("b", &{
            let mut below = Files::default();
            below.add_program("a/program", vec![7; 70_000]);
            below.add("readme", "read me\n");
            below
        });
        assert_eq!(files().tar_gz("x/").unwrap(), other.tar_gz("x/").unwrap());
        assert_eq!(files().zip().unwrap(), other.zip().unwrap());
    }

    #[test]
    fn tar_reads_names_modes_and_owners() {
        let list = said(&files().tar_gz("x/").unwrap(), &["tar", "--utc", "-tvzf"]);
        let lines: Vec<Vec<&str>> = list.lines().map(|line| line.split_whitespace().collect()).collect();
        let names: Vec<&str> = lines.iter().map(|line| line[5]).collect();
        assert_eq!(names, ["x/b/", "x/b/a/", "x/a", "x/b/a/program", "x/b/readme"]);
        assert_eq!(lines[3][..5], ["-rwxr-xr-x", "root/root", "70000", "1980-01-01", "00:00"]);
        assert_eq!(lines[4][..3], ["-rw-r--r--", "root/root", "8"]);
    }

    #[test]
    fn python_reads_the_zip_and_its_modes() {
        let script = "import sys, zipfile\nz = zipfile.ZipFile(sys.argv[1])\nassert z.testzip() is None\n\
            print([(i.filename, oct(i.external_attr >> 16), i.date_time[:3], len(z.read(i))) for i in z.infolist()])";
        let list = said(&files().zip().unwrap(), &["python3", "-c", script]);
        let expected = "[('a', '0o100644', (1980, 1, 1), 0), ('b/a/program', '0o100755', (1980, 1, 1), 70000), \
            ('b/readme', '0o100644', (1980, 1, 1), 8)]\n";
        assert_eq!(list, expected);
    }

    #[test]
    fn a_long_path_is_split_and_one_that_cannot_be_is_named() {
        let mut files = Files::default();
        let long = format!("{}/{}", "a".repeat(90), "b".repeat(90));
        files.add(&long, "1");
        let list = said(&files.tar("").unwrap(), &["tar", "-tf"]);
        assert_eq!(list, format!("{}/\n{long}\n", "a".repeat(90)));
        files.add("c".repeat(300), "1");
        assert!(files.tar("").unwrap_err().contains("too long"));
    }
}
