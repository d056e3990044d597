//! Names that Windows does not take for files. A name such as `aux` opens a device in every folder: `aux.mkv` is no film
//! there, and a serial port is waited for without an end.

use std::io;
use std::path::{Component, Path};

/// Refuses a path that can name a device, a pipe or a part of a file instead of a file. Only Windows has such names.
pub fn check_path(path: &Path) -> io::Result<()> {
    #[cfg(windows)]
    {
        use std::path::Prefix;
        let first = path.components().next();
        if let Some(Component::Prefix(prefix)) = first {
            let share = |name: &std::ffi::OsStr| {
                ["pipe", "mailslot", "ipc$"].iter().any(|s| name.eq_ignore_ascii_case(s))
                    || refused(&name.to_string_lossy()).is_some()
            };
            let closed = match prefix.kind() {
                Prefix::Disk(_) | Prefix::VerbatimDisk(_) => false,
                // `//?/COM1` is read as a share of the server `?`, and opens the port.
                Prefix::UNC(server, _) if server == "?" || server == "." => true,
                Prefix::UNC(_, name) | Prefix::VerbatimUNC(_, name) => share(name),
                Prefix::Verbatim(name) => !name.to_string_lossy().to_ascii_lowercase().starts_with("volume{"),
                Prefix::DeviceNS(_) => true,
            };
            if closed {
                let text = format!("{} is a device or a pipe; name a file on a drive", path.display());
                return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
            }
        }
    }
    let strict = cfg!(windows);
    for part in path.components().filter(|_| strict) {
        if let Component::Normal(name) = part
            && let Some(reason) = refused(&name.to_string_lossy())
        {
            let text = format!("{} {reason}; choose another name", name.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
    }
    Ok(())
}

/// Why Windows has no file of this name.
fn refused(name: &str) -> Option<&'static str> {
    const DEVICES: [&str; 6] = ["CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"];
    // What is behind the first dot does not matter, nor do spaces before it.
    let stem = name.split(['.', ':']).next().unwrap_or_default().trim_end_matches(' ').to_uppercase();
    let port = ["COM", "LPT"].iter().find_map(|kind| stem.strip_prefix(kind));
    let is_port =
        port.is_some_and(|n| n.chars().count() == 1 && n.chars().all(|c| "0123456789¹²³".contains(c)));
    if DEVICES.contains(&stem.as_str()) || is_port {
        return Some("is a name that Windows keeps for a device");
    }
    if name.chars().any(|c| c < ' ' || "<>:\"/\\|?*".contains(c)) {
        // Behind a colon stands a stream of a file, which no listing shows.
        return Some("has a character that names of files may not have on Windows (< > : \" / \\ | ? *)");
    }
    name.ends_with(['.', ' ']).then_some("ends in a dot or a space, which Windows takes away")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_devices_streams_and_pipes_are_refused() {
        for name in ["CON", "nul", "aux.mkv", "Com1.tar.gz", "lpt9", "com²", "prn .txt", "CONIN$", "nul:x"] {
            assert!(refused(name).is_some_and(|reason| reason.contains("device")), "{name}");
        }
        for name in ["a:b", "film.mkv::$DATA", "a\\b", "a/b", "what?", "*", "a\u{7}", "a.", "a "] {
            assert!(refused(name).is_some(), "{name}");
        }
        for name in
            ["film.mkv", ".film.mkv.0.part", "console", "com", "com10", "auxiliary.mkv", "ü ö", "a.con"]
        {
            assert_eq!(refused(name), None, "{name}");
        }
    }

    #[test]
    fn other_systems_have_no_such_names() {
        assert_eq!(check_path(Path::new("clips/aux.mkv")).is_err(), cfg!(windows));
        assert_eq!(check_path(Path::new(r"\\.\pipe\film")).is_err(), cfg!(windows));
        assert_eq!(check_path(Path::new(r"\\host\pipe\film")).is_err(), cfg!(windows));
        for device in ["//?/COM1", "//./COM1", r"\\?/COM1", "//?/GLOBALROOT/Device/NamedPipe/x"] {
            assert_eq!(check_path(Path::new(device)).is_err(), cfg!(windows), "{device}");
        }
        assert!(check_path(Path::new("clips/film.mkv")).is_ok() && check_path(Path::new("../a/./b")).is_ok());
        if cfg!(windows) {
            assert!(check_path(Path::new(r"\\?\C:\clips\film.mkv")).is_ok());
            assert!(check_path(Path::new(r"\\host\share\film.mkv")).is_ok());
        }
    }
}
