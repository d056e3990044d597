//! What child processes must not know.

use std::ffi::{OsStr, OsString};
use std::process::Command;
use std::sync::Arc;

/// Beginnings of the names of variables that this program or a store of films reads, in capitals. Children need none of them.
const OURS: [&str; 5] = ["REMASTER_", "HF_", "AWS_", "AZURE_", "GOOGLE_"];

/// Ends of such names: an address of a proxy can hold a password.
const PROXIES: &str = "_PROXY";

/// What names of variables with secrets of other programs hold.
const WORDS: [&str; 7] = ["KEY", "SECRET", "TOKEN", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL"];

/// Environment variables that programs which read strangers' files start without: a file that takes such a program over gets
/// nothing to send away. All others are theirs, as programs of Windows do not start without `SystemRoot`.
#[derive(Clone, Debug, Default)]
pub struct Secrets(Arc<[OsString]>);

impl Secrets {
    /// Those among the names of an environment.
    pub fn among(names: impl IntoIterator<Item = OsString>) -> Self {
        Secrets(names.into_iter().filter(|name| is_secret(name)).collect())
    }

    /// Takes them out of what a child would inherit.
    pub(crate) fn hide_from(&self, child: &mut Command) {
        for name in &*self.0 {
            child.env_remove(name);
        }
    }
}

/// Capitals count nowhere: on Windows they name the same variable, elsewhere both spellings are in use.
fn is_secret(name: &OsStr) -> bool {
    let name = name.to_string_lossy().to_ascii_uppercase();
    OURS.iter().any(|start| name.starts_with(start))
        || name.ends_with(PROXIES)
        || WORDS.iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_hold_a_secret_is_known_by_its_name() {
        for name in [
            "AWS_SECRET_ACCESS_KEY",
            "AWS_REGION",
            "REMASTER_TOKEN",
            "remaster_model",
            "HF_HOME",
            "GOOGLE_APPLICATION_CREDENTIALS",
            "azure_storage_account",
            "https_proxy",
            "ALL_PROXY",
            "GITHUB_TOKEN",
            "MyApiKey",
            "DB_PASSWORD",
            "PGPASSWORD",
            "secret",
        ] {
            assert!(is_secret(name.as_ref()), "{name}");
        }
        for name in [
            "PATH",
            "HOME",
            "SystemRoot",
            "TEMP",
            "TMPDIR",
            "LANG",
            "XDG_CACHE_HOME",
            "LD_LIBRARY_PATH",
            "LIBVA_DRIVER_NAME",
            "REMASTERED",
            "HFA",
            "PROXY",
        ] {
            assert!(!is_secret(name.as_ref()), "{name}");
        }
    }
}
