//! Words that survive a shell, YAML or a scheduler's own names.

/// Whether every shell takes the word as it is.
fn is_plain(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "_./:=@%+,-".contains(c))
}

/// A text on one line, for between quotes of this kind. `code` is how other characters are written that cannot stand for
/// themselves.
fn escaped(text: &str, quote: char, code: impl Fn(char) -> Option<String>) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        match c {
            '\n' => escaped += "\\n",
            '\r' => escaped += "\\r",
            '\t' => escaped += "\\t",
            _ if c == quote || c == '\\' => escaped.extend(['\\', c]),
            _ => escaped += &code(c).unwrap_or_else(|| c.into()),
        }
    }
    escaped
}

/// One word of bash, on one line.
pub(super) fn bash(word: &str) -> String {
    if !word.contains(char::is_control) {
        return posix(word);
    }
    let bytes = |c: char| c.encode_utf8(&mut [0; 4]).bytes().map(|byte| format!("\\x{byte:02x}")).collect();
    format!("$'{}'", escaped(word, '\'', |c| c.is_control().then(|| bytes(c))))
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
    // Not printable in YAML, or an end of line for some readers.
    let odd = |c: char| {
        c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
    };
    let code = |c: char| odd(c).then(|| format!("\\u{:04x}", u32::from(c)));
    format!("\"{}\"", escaped(text, '"', code))
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
