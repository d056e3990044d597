//! Words that survive a shell, YAML or a scheduler's own names.

use std::fmt::Write;

/// Whether every shell takes the word as it is.
fn is_plain(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "_./:=@%+,-".contains(c))
}

/// One word of bash, on one line.
pub(super) fn bash(word: &str) -> String {
    if !word.contains(char::is_control) {
        return posix(word);
    }
    let mut quoted = String::from("$'");
    for c in word.chars() {
        match c {
            '\'' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted += "\\n",
            '\r' => quoted += "\\r",
            '\t' => quoted += "\\t",
            _ if c.is_control() => {
                for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                    // Writing to a string cannot fail.
                    let _ = write!(quoted, "\\x{byte:02x}");
                }
            }
            _ => quoted.push(c),
        }
    }
    quoted + "'"
}

/// One word of any shell like sh, possibly of several lines.
pub(super) fn posix(word: &str) -> String {
    if is_plain(word) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

/// Words of bash with spaces between them.
pub(super) fn bash_line(words: &[String]) -> String {
    words.iter().map(|word| bash(word)).collect::<Vec<_>>().join(" ")
}

/// Words of sh with spaces between them.
pub(super) fn posix_line(words: &[String]) -> String {
    words.iter().map(|word| posix(word)).collect::<Vec<_>>().join(" ")
}

/// A string of YAML, on one line. Readers of YAML 1.1 and 1.2 agree on it.
pub(super) fn yaml(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted += "\\n",
            '\r' => quoted += "\\r",
            '\t' => quoted += "\\t",
            // Not printable in YAML, or an end of line for some readers.
            _ if c.is_control()
                || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}') =>
            {
                let _ = write!(quoted, "\\u{:04x}", u32::from(c));
            }
            _ => quoted.push(c),
        }
    }
    quoted + "\""
}

/// A name of letters, digits, `.`, `_` and single dashes, for schedulers that take little else.
pub(super) fn label(name: &str) -> String {
    let mut label = String::new();
    for c in name.chars() {
        if c.is_ascii_alphanumeric() || "._".contains(c) {
            label.push(c);
        } else if !label.ends_with('-') {
            label.push('-');
        }
    }
    label.truncate(60);
    let label = label.trim_matches(['-', '.']);
    if label.is_empty() { "film".to_owned() } else { label.to_owned() }
}
