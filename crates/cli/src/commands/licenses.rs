//! `remaster licenses`.

use remaster::notices;
use serde_json::json;

use crate::output::Output;

/// Of this program.
const OWN: &str = env!("CARGO_PKG_LICENSE");

pub(crate) fn run(out: &Output) {
    let inside: Vec<_> = notices().map(|(what, notice)| json!({ "what": what, "notice": notice })).into();
    out.result(&json!({ "program": OWN, "inside": inside }), || {
        let own = format!("remaster: {OWN}\n");
        notices().iter().fold(own, |text, (what, notice)| format!("{text}\n{what}:\n\n{}\n", notice.trim()))
    });
}
