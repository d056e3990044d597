//! A page of JSON documents as the program prints them.

use serde_json::Value;

use super::program::Program;

/// Entries of a list that are shown.
const ENTRIES: usize = 2;

/// Commands, each with the heading of docs/json.md that explains its fields. They run one after the other in one folder.
const EXAMPLES: [(&str, &str); 12] = [
    ("remaster-probe", "remaster probe testdata/media/launch.mp4 --json"),
    ("remaster-plan", "remaster plan testdata/media/launch.mp4 --model anime --json"),
    (
        "remaster-restore",
        "remaster testdata/media/launch.mp4 -o launch.mkv --model anime --resolution 2x --json",
    ),
    ("remaster-verify", "remaster verify launch.mkv --json"),
    ("remaster-compare", "remaster compare testdata/media/launch.mp4 launch.mkv --json"),
    ("remaster-scenes", "remaster scenes testdata/front/bunny.mp4 --json"),
    (
        "remaster-preview",
        "remaster preview testdata/front/bunny.mp4 -o preview.png --model anime --resolution 1x --json",
    ),
    (
        "remaster-batch",
        "remaster batch testdata/media/launch.mp4 -d restored --model anime --resolution 1x --json",
    ),
    ("remaster-models-inspect", "remaster models inspect testdata/nano.safetensors --json"),
    ("remaster-devices", "remaster devices --json"),
    ("remaster-doctor", "remaster doctor --goldens testdata/tiny_mod_norm.safetensors --json"),
    ("errors", "remaster no-such-film.mkv --json"),
];

pub(crate) fn page(program: &Program) -> Result<String, String> {
    let mut text = "# JSON, as it is printed\n\n\
        The program printed these documents when this page was made. [The JSON documents](../docs/json.md) explains every field, and\n\
        which of them may be absent. Fields are sorted by their names here, and lists cut after two entries.\n"
        .to_owned();
    for (heading, command) in EXAMPLES {
        let failing = heading == "errors";
        let line = if failing { format!("{command} || true") } else { command.to_owned() };
        let json: Value =
            serde_json::from_slice(&program.output(&line)?).map_err(|e| format!("`{command}`: {e}"))?;
        let json = serde_json::to_string_pretty(&cut(json)).map_err(|e| e.to_string())?;
        let title = if failing { "An error".into() } else { format!("`{}`", heading.replacen('-', " ", 2)) };
        text += &format!(
            "\n## {title}\n\n```sh\n{command}\n```\n\n[Fields](../docs/json.md#{heading})\n\n```json\n{json}\n```\n"
        );
    }
    Ok(text)
}

fn cut(json: Value) -> Value {
    match json {
        Value::Array(entries) => entries.into_iter().take(ENTRIES).map(cut).collect(),
        Value::Object(fields) => fields.into_iter().map(|(name, value)| (name, cut(value))).collect(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_cut_at_every_depth() {
        let json = serde_json::json!({ "a": [[1, 2, 3], 2, 3], "b": "c" });
        assert_eq!(cut(json), serde_json::json!({ "a": [[1, 2], 2], "b": "c" }));
    }

    #[test]
    fn every_example_has_its_heading() {
        let page = std::fs::read_to_string(crate::root().join("docs/json.md")).unwrap();
        let anchors = super::super::links::anchors(&page);
        for (heading, _) in EXAMPLES {
            assert!(anchors.contains(heading), "{heading}");
        }
    }
}
