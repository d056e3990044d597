//! The grammar: hostile values for plans, and hostile entries for folders.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use remaster_testkit::Rng;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

/// What a hostile part may point at.
pub(crate) struct Aims<'a> {
    /// A tree that no run may touch.
    pub(crate) canary: &'a Path,
    /// An address that no run may call.
    pub(crate) address: &'a str,
}

impl Aims<'_> {
    /// A text that is an option, a path, an address, a filter or a program wherever it is not data.
    fn text(&self, rng: &mut Rng) -> String {
        let (canary, address) = (self.canary.display(), self.address);
        let texts = [
            String::new(),
            "-y".into(),
            "--ffmpeg=/bin/false".into(),
            format!("--vf=movie={canary}/file"),
            format!("-i {canary}/file"),
            format!("{canary}/file"),
            format!("{canary}"),
            "../../../canary/file".into(),
            format!("file:{canary}/file"),
            format!("concat:{canary}/file|{canary}/other"),
            format!("tcp://{address}"),
            format!("http://{address}/film.mkv"),
            format!("s3://{address}/store"),
            format!("metadata=mode=print:file={canary}/file"),
            format!("movie={canary}/file,hflip"),
            format!("subtitles={canary}/file"),
            format!("ffv1 -y {canary}/file -c:v ffv1"),
            format!("libx264 -x264-params stats={canary}/file:pass=1"),
            format!("libx264 -passlogfile {canary}/file"),
            format!("ffv1 -f matroska tcp://{address}"),
            format!("$(touch {canary}/file)"),
            format!("`touch {canary}/file`;touch {canary}/file\n"),
            format!("@{canary}/file"),
            format!("|touch {canary}/file"),
            "/dev/zero".into(),
            "/dev/stdin".into(),
            "con".into(),
            "C:\\Windows\\win.ini".into(),
            "..".into(),
            ".".into(),
            "/".into(),
            "a\0b".into(),
            "\u{202e}kvm.mlif".into(),
            "%s%n%d".into(),
            "x".repeat(1 + rng.below(70_000)),
            "é".repeat(300),
        ];
        texts[rng.below(texts.len())].clone()
    }

    /// A value of any type.
    fn value(&self, rng: &mut Rng) -> Value {
        match rng.below(14) {
            0 => Value::Null,
            1 => json!(rng.one_in(2)),
            2 => json!(0),
            3 => json!(-1),
            4 => json!(u64::MAX),
            5 => json!(1u64 << rng.below(63)),
            6 => json!(1.5e308),
            7 => json!(-0.5),
            8 => json!([]),
            9 => json!({}),
            10 => json!({ "listed": self.text(rng) }),
            11 => json!({ "typed": self.text(rng) }),
            12 => (0..rng.below(100)).fold(json!([self.text(rng)]), |inner, _| json!([inner])),
            _ => json!(self.text(rng)),
        }
    }

    /// Changes one place of a plan.
    pub(crate) fn spoil(&self, rng: &mut Rng, plan: &mut Value) {
        let mut places = Vec::new();
        places_of(plan, "", &mut places);
        let place = &places[rng.below(places.len())];
        let Some(at) = plan.pointer_mut(place) else { return };
        match (rng.below(8), &mut *at) {
            (0, Value::Object(map)) => {
                map.insert(self.text(rng), self.value(rng));
            }
            (1, Value::Object(map)) if !map.is_empty() => {
                let key = map.keys().nth(rng.below(map.len())).cloned().unwrap_or_default();
                map.remove(&key);
            }
            (2, Value::Array(list)) if !list.is_empty() => {
                let (one, times) = (list[rng.below(list.len())].clone(), 1 + rng.below(20_000));
                list.extend(std::iter::repeat_n(one, times));
            }
            _ => *at = self.value(rng),
        }
    }

    /// Puts one hostile entry into a folder of stored work; says what it did.
    /// The folder itself is a target unless the command names it: a named link is followed. Never plants behind a link that was
    /// planted before, which may lead to `/`.
    pub(crate) fn plant(&self, rng: &mut Rng, folder: &Path, named: bool) -> String {
        if !is_folder(folder) {
            return "the folder itself is hostile".to_owned();
        }
        let mut entries = Vec::new();
        entries_of(folder, &mut entries);
        if !named || entries.is_empty() {
            entries.push(folder.to_owned());
        }
        let mut at = entries[rng.below(entries.len())].clone();
        // A new entry beside those that belong there.
        if rng.one_in(4) && is_folder(&at) {
            at.push(self.name(rng));
        }
        let how = match named && at == folder {
            true => 13 + rng.below(3),
            false => rng.below(17),
        };
        let (around, desk) = (at.parent().unwrap().canonicalize().unwrap(), folder.parent().unwrap());
        assert!(around.starts_with(desk.canonicalize().unwrap()), "{} is behind a link", at.display());
        let _ = self.plant_at(rng, &at, how);
        format!("{how} at {}", at.display())
    }

    /// A name that work has, or one that it has not.
    fn name(&self, rng: &mut Rng) -> PathBuf {
        let names = "lock plan.json done.json work kept units store attempts 000000 remaster-state \
            piece-000000.nut .tmpAbCdEf -y a\nb ffffffffffffffffffffffffffffffff";
        let names: Vec<&str> = names.split(' ').collect();
        match rng.one_in(8) {
            true => OsStr::from_bytes(b"\xff\xfe").into(),
            false => rng.pick(&names).into(),
        }
    }

    fn plant_at(&self, rng: &mut Rng, at: &Path, how: usize) -> std::io::Result<()> {
        let _ = match how {
            // What was planted before is not written through, and not read to its end.
            7 | 8 | 12 if !is_small(at) => return Ok(()),
            13..16 if !is_folder(at) => return Ok(()),
            0..7 | 9..12 | 16 if is_folder(at) => std::fs::remove_dir_all(at),
            0..7 | 9..12 | 16 => std::fs::remove_file(at),
            _ => Ok(()),
        };
        match how {
            0 => symlink(self.canary.join("file"), at),
            1 => symlink(self.canary, at),
            2 => symlink("../".repeat(1 + rng.below(6)), at),
            3 => symlink(at, at),
            4 => {
                let aims = ["/dev/zero", "/dev/stdin", "/dev/full", "/etc/passwd", "/proc/self/mem"];
                symlink(rng.pick(&aims), at)
            }
            5 => Ok(mknodat(CWD, at, FileType::Fifo, Mode::from_raw_mode(0o644), 0)?),
            // Endless zeros, where this user may make a device.
            6 => Ok(mknodat(CWD, at, FileType::CharacterDevice, Mode::from_raw_mode(0o644), (1 << 8) | 5)?),
            7 => std::fs::write(at, b""),
            8 => std::fs::write(at, std::fs::read(at).map(|bytes| bytes[..bytes.len() / 2].to_vec())?),
            9 => std::fs::create_dir_all(at.join("a/b/c")),
            10 => std::fs::File::create(at)?.set_len(1 << (20 + rng.below(22))),
            11 => std::fs::write(at, (0..rng.below(5000)).map(|_| rng.bits() as u8).collect::<Vec<u8>>()),
            12 => {
                let mut bytes = std::fs::read(at)?;
                let place = rng.below(bytes.len().max(1));
                bytes.get_mut(place).into_iter().for_each(|byte| *byte ^= 1 << rng.below(8));
                std::fs::write(at, bytes)
            }
            13 => (0..2000).try_for_each(|i| std::fs::write(at.join(format!("{i:032x}")), b"x")),
            14 => (0..500).try_for_each(|i| symlink(self.canary, at.join(format!("{i:06}")))),
            15 => std::fs::create_dir_all((0..200).fold(at.to_owned(), |at, _| at.join("deeper"))),
            _ => {
                let bound = std::os::unix::net::UnixListener::bind(at);
                bound.map(drop)
            }
        }
    }
}

/// A folder itself, and no link to one.
fn is_folder(at: &Path) -> bool {
    at.symlink_metadata().is_ok_and(|about| about.is_dir())
}

/// A file that a test can hold.
fn is_small(at: &Path) -> bool {
    at.symlink_metadata().is_ok_and(|about| about.is_file() && about.len() < 1 << 20)
}

/// Every place of a value, as a JSON pointer.
fn places_of(value: &Value, at: &str, places: &mut Vec<String>) {
    places.push(at.to_owned());
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| {
            let key = key.replace('~', "~0").replace('/', "~1");
            places_of(value, &format!("{at}/{key}"), places);
        }),
        Value::Array(list) => {
            list.iter().enumerate().for_each(|(i, value)| places_of(value, &format!("{at}/{i}"), places));
        }
        _ => {}
    }
}

fn entries_of(folder: &Path, entries: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        entries.push(entry.path());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) && entries.len() < 3000 {
            entries_of(&entry.path(), entries);
        }
    }
}
