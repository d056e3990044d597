//! What a URL or a path names.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::{Key, StoreError};

/// A place for objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A folder of this machine, or of one it has mounted.
    Folder(PathBuf),
    /// A bucket, or a part of it.
    Bucket {
        cloud: Cloud,
        bucket: String,
        /// Empty, or a key.
        prefix: String,
    },
    /// Somewhere else, as tests do.
    #[cfg(feature = "testkit")]
    Other(String),
}

/// Whose bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cloud {
    S3,
    Google,
    Azure,
}

impl Cloud {
    const ALL: [(&str, Cloud); 3] = [("s3", Cloud::S3), ("gs", Cloud::Google), ("az", Cloud::Azure)];

    fn scheme(self) -> &'static str {
        Self::ALL.iter().find(|(_, cloud)| *cloud == self).map_or("", |(scheme, _)| scheme)
    }
}

impl Place {
    /// Reads a path or a URL.
    pub(crate) fn parse(text: &str) -> Result<Self, StoreError> {
        let wrong = |reason| Err(StoreError::Url { url: shown(text), reason });
        let Some((scheme, rest)) = text.split_once("://") else {
            return match text {
                "" => wrong("it is empty"),
                _ if text.contains('\0') => wrong("it contains a zero byte"),
                _ => Ok(Place::Folder(PathBuf::from(text))),
            };
        };
        if scheme == "file" {
            return match remaster_disk::percent_decoded(rest) {
                Some(path) if path.starts_with('/') => Ok(Place::Folder(drive(&path).to_owned())),
                Some(_) => wrong("a file URL has three slashes and a whole path"),
                None => wrong("its percent signs are not escapes of UTF-8"),
            };
        }
        let Some((_, cloud)) = Cloud::ALL.into_iter().find(|(name, _)| *name == scheme) else {
            return wrong("the scheme is not file, s3, gs or az");
        };
        if rest.contains(['@', '?', '#']) {
            return wrong("credentials and options belong into the environment");
        }
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
        if Key::new(bucket).is_err() {
            return wrong(
                "the name of the bucket is missing or has other characters than letters, digits, . _ -",
            );
        }
        if !prefix.is_empty() && Key::new(prefix).is_err() {
            return wrong("behind the bucket only letters, digits, . _ - and / are allowed");
        }
        Ok(Place::Bucket { cloud, bucket: bucket.to_owned(), prefix: prefix.to_owned() })
    }

    /// The name of the bucket, if it is one.
    pub(crate) fn bucket(&self) -> Option<&str> {
        match self {
            Place::Bucket { bucket, .. } => Some(bucket),
            _ => None,
        }
    }

    /// What stands in front of the keys inside the store.
    pub(crate) fn prefix(&self) -> &str {
        match self {
            Place::Bucket { prefix, .. } => prefix,
            _ => "",
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Folder(path) => write!(f, "{}", path.display()),
            Place::Bucket { cloud, bucket, prefix } if prefix.is_empty() => {
                write!(f, "{}://{bucket}", cloud.scheme())
            }
            Place::Bucket { cloud, bucket, prefix } => write!(f, "{}://{bucket}/{prefix}", cloud.scheme()),
            #[cfg(feature = "testkit")]
            Place::Other(name) => f.write_str(name),
        }
    }
}

/// A wrong URL for a message: everything that may be a password is left out.
fn shown(text: &str) -> String {
    let clean = |text: &str| text.chars().take(200).map(|c| if c.is_control() { '?' } else { c }).collect();
    match text.split_once("://") {
        Some((scheme, rest)) if rest.contains(['@', '?', '#']) => {
            format!("{}://...", clean(scheme) as String)
        }
        _ => clean(text),
    }
}

/// `/C:/films` of a URL is `C:/films` on Windows.
fn drive(path: &str) -> &Path {
    match path.as_bytes() {
        [b'/', letter, b':', ..] if cfg!(windows) && letter.is_ascii_alphabetic() => Path::new(&path[1..]),
        _ => Path::new(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_urls_name_places() {
        let folder = |path: &str| Place::Folder(path.into());
        let bucket = |cloud, bucket: &str, prefix: &str| Place::Bucket {
            cloud,
            bucket: bucket.into(),
            prefix: prefix.into(),
        };
        for (text, place) in [
            ("film.remaster", folder("film.remaster")),
            ("/mnt/a b", folder("/mnt/a b")),
            ("file:///mnt/a%20b", folder("/mnt/a b")),
            ("s3://films", bucket(Cloud::S3, "films", "")),
            ("s3://films/", bucket(Cloud::S3, "films", "")),
            ("gs://films/a/b/", bucket(Cloud::Google, "films", "a/b")),
            ("az://films/a", bucket(Cloud::Azure, "films", "a")),
        ] {
            assert_eq!(Place::parse(text).unwrap(), place);
        }
        let bad = "file://host/a file:///%zz file:///%00 ftp://a/b s3:// s3:///a s3://a/../b s3://a//b";
        for text in bad.split(' ').chain([""]) {
            assert!(Place::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_password_in_a_url_is_refused_and_not_repeated() {
        for text in ["s3://me:swordfish@bucket/a", "az://c/p?sig=swordfish", "https://me:swordfish@host"] {
            let error = Place::parse(text).unwrap_err().to_string();
            assert!(!error.contains("swordfish"), "{error}");
        }
    }
}
