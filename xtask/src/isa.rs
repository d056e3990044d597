//! What GPU compilers make of the kernels. Mesa comes from a script, and the compiling is done by a crate of its own, so that the
//! other tasks need not build it.

use std::path::Path;
use std::process::Command;

use crate::{Outcome, suite, tool};

/// Writes the document, the record and the ceilings.
pub(crate) fn write(root: &Path) -> Outcome {
    let mesa = said(root, Command::new(root.join(".ci/mesa")).arg("llama"), ".ci/mesa llama")?;
    compilers(root, &mesa, "write").map(|_| ())
}

/// Compares with the record.
pub(crate) fn gate(root: &Path) -> Outcome {
    let mesa = said(root, &mut Command::new(root.join(".ci/mesa")), ".ci/mesa")?;
    println!("{}", compilers(root, &mesa, "gate")?);
    Ok(())
}

fn compilers(root: &Path, mesa: &str, what: &str) -> Result<String, String> {
    let mut command = Command::new(tool());
    // As for the tests: with this package alone cargo would build the dependencies anew for its features.
    command.args(["build", "--quiet", "--bin", "remaster-isa"]).args(suite::WHAT);
    said(root, &mut command, "the build of remaster-isa")?;
    let folder = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into);
    let program = root.join(folder).join("debug/remaster-isa");
    said(root, Command::new(program).args([mesa, what]).arg(root), "remaster-isa")
}

/// Runs a program in the repository and returns what it prints.
fn said(root: &Path, command: &mut Command, what: &str) -> Result<String, String> {
    let out = command.current_dir(root).output().map_err(|e| format!("{what} cannot be run: {e}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    match out.status.success() {
        true => Ok(text(&out.stdout)),
        false => {
            Err(format!("{what} ended with {}: {}\n{}", out.status, text(&out.stderr), text(&out.stdout)))
        }
    }
}
