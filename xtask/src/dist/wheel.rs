//! A wheel that holds the program, and the Python package around it where there is one. `pip` puts the program into the folder of
//! scripts of an environment.

use sha2::{Digest, Sha256};

use super::entry::{Entry, Files, zip};

/// The name on PyPI, and as it is written in files.
const NAME: &str = "remaster-video";
const STEM: &str = "remaster_video";

const HOME: &str = "https://github.com/remaster-video/remaster";

/// Of the program and of what is inside it: the network for animation, and letters.
const LICENCE: &str = "(MIT OR Apache-2.0) AND BSD-3-Clause AND Bitstream-Vera";

/// One wheel.
pub(crate) struct Wheel<'a> {
    pub(crate) version: &'a str,
    /// Where it runs, for example `manylinux_2_17_x86_64.manylinux2014_x86_64`.
    pub(crate) platform: &'a str,
    pub(crate) readme: &'a str,
    /// The files of the archive of the same system.
    pub(crate) archive: &'a Files,
    /// Sources of the Python package, by their paths below its folder.
    pub(crate) package: &'a Files,
}

impl Wheel<'_> {
    pub(crate) fn name(&self) -> String {
        format!("{STEM}-{}-py3-none-{}.whl", self.version, self.platform)
    }

    pub(crate) fn bytes(&self) -> Result<Vec<u8>, String> {
        let folder = format!("{STEM}-{}", self.version);
        let info = format!("{folder}.dist-info");
        let mut files = Files::default();
        for (path, entry) in self.archive.iter() {
            match path.split_once('/') {
                None if entry.program => {
                    files.add_program(format!("{folder}.data/scripts/{path}"), entry.bytes.clone());
                }
                None if path.starts_with("LICENSE") => {
                    files.add(format!("{info}/licenses/{path}"), entry.bytes.clone());
                }
                None if path.ends_with(".cdx.json") => {
                    files.add(format!("{info}/sboms/{path}"), entry.bytes.clone());
                }
                Some(("licenses", _)) => files.add(format!("{info}/licenses/{path}"), entry.bytes.clone()),
                _ => {}
            }
        }
        for (path, entry) in self.package.iter() {
            files.add(format!("{STEM}/{path}"), entry.bytes.clone());
        }
        files.add(format!("{info}/WHEEL"), self.tags());
        files.add(format!("{info}/METADATA"), self.metadata(&files, &info));
        let list = format!("{info}/RECORD");
        let record = Entry { bytes: record(&files, &list).into_bytes(), program: false };
        zip(files.iter().chain([(list.as_str(), &record)]))
    }

    fn tags(&self) -> String {
        let tags = self.platform.split('.').map(|platform| format!("Tag: py3-none-{platform}\n"));
        // Not pure: what is in it runs on one system only.
        format!("Wheel-Version: 1.0\nGenerator: xtask\nRoot-Is-Purelib: false\n{}", tags.collect::<String>())
    }

    fn metadata(&self, files: &Files, info: &str) -> String {
        let Wheel { version, readme, .. } = self;
        let licences = files.iter().filter_map(|(path, _)| path.strip_prefix(&format!("{info}/licenses/")));
        let licences: String = licences.map(|path| format!("License-File: {path}\n")).collect();
        format!(
            "Metadata-Version: 2.4\nName: {NAME}\nVersion: {version}\n\
             Summary: Restore and upscale video with the SeedVR2 networks on your own machine\n\
             Project-URL: Source, {HOME}\n\
             Project-URL: Documentation, {HOME}/blob/main/docs/python.md\n\
             Project-URL: Changelog, {HOME}/blob/main/CHANGELOG.md\n\
             Project-URL: Issues, {HOME}/issues\n\
             Keywords: video,upscaling,restoration,super-resolution,seedvr2\n\
             Classifier: Environment :: Console\n\
             Classifier: Programming Language :: Rust\n\
             Classifier: Programming Language :: Python :: 3\n\
             Classifier: Topic :: Multimedia :: Video :: Conversion\n\
             License-Expression: {LICENCE}\n{licences}\
             Requires-Python: >=3.9\nDescription-Content-Type: text/markdown\n\n{readme}"
        )
    }
}

/// A line for each file: its path, its hash and its size. Of the list itself only the path is known.
fn record(files: &Files, own: &str) -> String {
    let line = |(path, entry): (&str, &Entry)| {
        format!("{path},sha256={},{}\n", base64(&Sha256::digest(&entry.bytes)), entry.bytes.len())
    };
    let mut text: String = files.iter().map(line).collect();
    text.push_str(own);
    text.push_str(",,\n");
    text
}

/// The alphabet for addresses, without padding.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let bits = (0..3).fold(0u32, |bits, i| bits << 8 | u32::from(group.get(i).copied().unwrap_or(0)));
        for letter in 0..=group.len() {
            text.push(char::from(LETTERS[(bits >> (18 - 6 * letter)) as usize & 63]));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_those_of_addresses() {
        assert_eq!(base64(b""), "");
        assert_eq!(base64(b"\xfb\xff"), "-_8");
        assert_eq!(base64(b"light wor"), "bGlnaHQgd29y");
        assert_eq!(base64(&Sha256::digest(b"")), "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU");
    }

    #[test]
    fn the_record_names_every_file_and_comes_last() {
        let (mut archive, mut package) = (Files::default(), Files::default());
        archive.add_program("remaster", "program");
        archive.add("LICENSE-MIT", "text");
        archive.add("licenses/crates.txt", "texts");
        archive.add("remaster.cdx.json", "{}");
        archive.add("README.md", "is the description");
        package.add("__init__.py", "");
        let wheel = Wheel {
            version: "1.2.3",
            platform: "manylinux_2_17_x86_64.manylinux2014_x86_64",
            readme: "# Remaster\n",
            archive: &archive,
            package: &package,
        };
        assert_eq!(
            wheel.name(),
            "remaster_video-1.2.3-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"
        );
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.whl");
        std::fs::write(&path, wheel.bytes().unwrap()).unwrap();
        let script = "import sys, zipfile, csv, hashlib, base64\nz = zipfile.ZipFile(sys.argv[1])\n\
            names = z.namelist()\nassert names[-1].endswith('.dist-info/RECORD'), names\n\
            rows = list(csv.reader(z.read(names[-1]).decode().splitlines()))\n\
            assert [r[0] for r in rows] == names, (rows, names)\n\
            for name, hash, size in rows[:-1]:\n    data = z.read(name)\n    \
            h = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()\n    \
            assert hash == 'sha256=' + h and int(size) == len(data), name\nprint(*names)\n\
            print(z.read('remaster_video-1.2.3.dist-info/METADATA').decode())\n\
            print(z.read('remaster_video-1.2.3.dist-info/WHEEL').decode())";
        let out = std::process::Command::new("python3").args(["-c", script]).arg(&path).output().unwrap();
        let text = String::from_utf8_lossy(&out.stdout);
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        for part in [
            "remaster_video-1.2.3.data/scripts/remaster",
            "remaster_video/__init__.py",
            "remaster_video-1.2.3.dist-info/sboms/remaster.cdx.json",
            "License-File: licenses/crates.txt\n",
            "Tag: py3-none-manylinux_2_17_x86_64\nTag: py3-none-manylinux2014_x86_64\n",
            "\n\n# Remaster\n",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }
}
