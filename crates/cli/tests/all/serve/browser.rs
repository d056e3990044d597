//! `--open` on machines with and without a browser.

use super::*;

/// What a server says that is to open a browser, with this program for it, or with none.
fn said(opener: Option<&str>) -> String {
    let desk = Desk::new();
    std::fs::create_dir(desk.join("bin")).unwrap();
    if let Some(text) = opener {
        desk.program("bin/xdg-open", text);
    }
    // The shell of the script, and nothing that could be a browser.
    std::os::unix::fs::symlink("/bin/sh", desk.join("bin/sh")).unwrap();
    let mut command = desk.command("serve --port 0 --state state --devices cpu --open");
    let folder = desk.join("bin");
    let mut child =
        command.env("PATH", &folder).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut address = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut address).unwrap();
    // Until the program has ended.
    std::thread::sleep(Duration::from_secs(2));
    crate::desk::signal(&child, "INT");
    let out = child.wait_with_output().unwrap();
    let text = String::from_utf8(out.stderr).unwrap();
    assert_eq!(
        text.contains("no browser"),
        text.contains(&format!("open {} yourself", address.trim())),
        "{text}"
    );
    text
}

#[test]
fn a_browser_that_cannot_be_opened_is_told_with_the_address() {
    for opener in [None, Some("#!/bin/sh\nexit 3\n")] {
        assert!(said(opener).contains("no browser"), "{opener:?}");
    }
    assert!(!said(Some("#!/bin/sh\nexit 0\n")).contains("no browser"));
}
