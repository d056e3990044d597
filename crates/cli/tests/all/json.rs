//! docs/json.md against what the commands print: every field that is printed is documented with its type, every
//! documented field that is not optional is printed, and every documented field is seen somewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, OnceLock};

use remaster_model::dit::{self, DitConfig, Family};
#[cfg(feature = "gpu")]
use remaster_testkit::no_gpu;
use serde_json::Value;

use crate::desk::{Desk, Run, private, testdata};

/// What one row of a table says about a field.
#[derive(Clone, Debug, Default)]
struct Field {
    /// text, number, bool, list, map, null.
    kinds: BTreeSet<String>,
    optional: bool,
    /// What is in a list or in a map with any keys: a kind.
    of: Option<String>,
    /// The section that describes it, or the entries of a list.
    link: Option<String>,
    /// Fields of a map, or of the maps in a list.
    fields: BTreeMap<String, Field>,
}

/// Sections by the words of their headings, as an anchor has them.
type Sections = BTreeMap<String, Field>;

fn document() -> &'static Sections {
    static SECTIONS: OnceLock<Sections> = OnceLock::new();
    SECTIONS.get_or_init(|| {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/json.md");
        parse(&fs::read_to_string(page).unwrap())
    })
}

fn parse(page: &str) -> Sections {
    let (mut sections, mut name) = (Sections::new(), String::new());
    for line in page.lines() {
        if let Some(heading) = line.strip_prefix('#') {
            let words = heading.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
            name = words.chars().filter(|c| c.is_alphanumeric() || *c == '-').collect();
        }
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        if let ["", names, types, _, ""] = cells[..]
            && names.starts_with('`')
        {
            let section = sections.entry(name.clone()).or_default();
            let mut parent = String::new();
            for path in names.split(", ").map(|n| n.trim_matches('`')) {
                // A name without a dot after the first is a sibling.
                let full = if path.contains('.') || parent.is_empty() {
                    path.to_owned()
                } else {
                    format!("{parent}.{path}")
                };
                parent = full.rsplit_once('.').map_or(String::new(), |(parent, _)| parent.to_owned());
                let mut at = &mut *section;
                for part in full.split('.') {
                    at = at.fields.entry(part.trim_end_matches("[]").to_owned()).or_default();
                }
                at.describe(types);
            }
        }
    }
    sections
}

impl Field {
    /// `text`, `number or null`, `list of text, optional`, `list of [plan](#remaster-plan)`.
    fn describe(&mut self, types: &str) {
        let types = match types.strip_suffix(", optional") {
            Some(types) => {
                self.optional = true;
                types
            }
            None => types,
        };
        for kind in types.split(" or ") {
            let (outer, inner) = kind.split_once(" of ").map_or((kind, None), |(o, i)| (o, Some(i)));
            let anchor = |word: &str| word.split_once("](#").map(|(_, a)| a.trim_end_matches(')').to_owned());
            match (anchor(outer), inner) {
                (Some(section), _) => {
                    self.kinds.insert("map".into());
                    self.link = Some(section);
                }
                (None, inner) => {
                    let known = ["text", "number", "bool", "list", "map", "null"];
                    assert!(known.contains(&outer), "`{types}` is no type");
                    self.kinds.insert(outer.to_owned());
                    self.link = self.link.take().or(inner.and_then(anchor));
                    self.of = self.of.take().or(inner.filter(|i| !i.contains('[')).map(str::to_owned));
                }
            }
        }
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "text",
        Value::Array(_) => "list",
        Value::Object(_) => "map",
    }
}

/// Fields that were seen, as `section: path`.
static SEEN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Compares a value with what is documented and adds what is wrong.
fn compare(value: &Value, field: &Field, section: &str, path: &str, wrong: &mut Vec<String>) {
    SEEN.lock().unwrap().insert(format!("{section}: {path}"));
    if !field.kinds.contains(kind(value)) {
        wrong.push(format!("{section}: `{path}` is {}, documented as {:?}", kind(value), field.kinds));
        return;
    }
    match value {
        Value::Object(map) => fields(map, field, section, path, wrong),
        Value::Array(list) => {
            for entry in list {
                match (entry, &field.of) {
                    (_, Some(of)) if kind(entry) == of => {}
                    (Value::Object(map), None) => fields(map, field, section, path, wrong),
                    _ => wrong.push(format!("{section}: `{path}` has a {}", kind(entry))),
                }
            }
        }
        _ => {}
    }
}

fn fields(
    map: &serde_json::Map<String, Value>,
    field: &Field,
    section: &str,
    path: &str,
    wrong: &mut Vec<String>,
) {
    if let Some(of) = &field.of {
        if map.values().any(|v| kind(v) != of) {
            wrong.push(format!("{section}: `{path}` is documented as a map of {of}"));
        }
        return;
    }
    let (section, start, known) = match &field.link {
        Some(link) => (link.as_str(), String::new(), &document()[link.as_str()].fields),
        None if path.is_empty() => (section, String::new(), &field.fields),
        None => (section, format!("{path}."), &field.fields),
    };
    for (name, value) in map {
        match known.get(name) {
            Some(field) => compare(value, field, section, &format!("{start}{name}"), wrong),
            None => wrong.push(format!("{section}: `{start}{name}` is not documented")),
        }
    }
    for (name, _) in known.iter().filter(|(name, field)| !field.optional && !map.contains_key(*name)) {
        wrong.push(format!("{section}: `{start}{name}` is documented and not printed"));
    }
}

/// What is wrong with a document, by the section that describes it.
fn against(section: &str, value: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    let field = document().get(section).unwrap_or_else(|| panic!("docs/json.md has no {section}"));
    let Value::Object(map) = value else { panic!("{section}: not a map: {value}") };
    fields(map, field, section, "", &mut wrong);
    wrong.sort();
    wrong.dedup();
    wrong
}

/// A folder with two clips.
fn desk() -> Desk {
    let desk = Desk::with(private);
    clip(&desk, "in.mkv", &["-f", "lavfi", "-i", "sine=440:duration=0.2", "-metadata", "title=a title"]);
    clip(&desk, "other.mkv", &["-vf", "gblur,drawbox=color=red"]);
    desk
}

fn clip(desk: &Desk, name: &str, more: &[&str]) {
    let made = Command::new("ffmpeg")
        .args(["-v", "error", "-f", "lavfi", "-i", "testsrc2=size=64x48:rate=25,trim=end_frame=5"])
        .args(more)
        .args(["-c:v", "ffv1"])
        .arg(desk.join(name))
        .status();
    assert!(made.unwrap().success());
}

fn run(desk: &Desk, line: &str) -> Run {
    desk.run(&line.replace("VIDEO", VIDEO))
}

/// Runs lines with `--json` and compares each document with a section.
fn check_all(desk: &Desk, cases: &[(&str, &str)]) {
    let mut wrong = Vec::new();
    for (section, line) in cases {
        let run = run(desk, &format!("{line} --json"));
        let value =
            serde_json::from_str(&run.stdout).unwrap_or_else(|e| panic!("{line}: {e}: {}", run.stderr));
        let found = against(section, &value);
        wrong.extend(found.into_iter().map(|w| format!("{line}: {w}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Documented fields of a section, with those inside.
fn paths(field: &Field, start: &str, all: &mut Vec<String>) {
    for (name, inner) in &field.fields {
        all.push(format!("{start}{name}"));
        paths(inner, &format!("{start}{name}."), all);
    }
}

const VIDEO: &str = "--weights formula:tiny -y";

/// Fields that the commands below cannot bring about, with the reason.
const UNSEEN: &[(&str, &str)] = &[
    ("remaster-devices: devices.memory", "needs a GPU"),
    ("remaster-devices: devices.limits", "needs a GPU"),
    ("remaster-devices: left_out", "needs a driver that crashes; `drivers` has one"),
    ("remaster-tune: kernels.fault", "needs a kernel that is wrong"),
    (
        "remaster-models-list: files.revision",
        "needs a file of ComfyUI or a published one; `transformers` has one",
    ),
    ("remaster-models-inspect: fit.applied.stored_as", "needs a file with other names"),
    ("remaster-models-inspect: fit.wrong_shape", "needs a file with another shape"),
    ("remaster-models-inspect: fit.wrong_dtype", "needs a file in another format"),
    ("remaster-models-verify: files.published", "needs a published file"),
    ("manifest: settings.numerics.tiling", "needs tiles"),
    ("remaster-batch: films.error", "needs a film that fails"),
    ("remaster-batch: films.hook_error", "needs a hook that fails"),
    ("remaster-plan-for-a-file: seconds", "needs a run of more than a second before it"),
];

/// A file of a transformer, all zeros in fp8: the largest one is a hole of 8 GB.
fn transformer(path: &Path, config: &DitConfig) {
    let mut at = 0;
    let tensor = |param: remaster_model::Param| {
        let start = at;
        at += param.shape.iter().product::<usize>();
        let value =
            serde_json::json!({"dtype": "F8_E4M3", "shape": param.shape, "data_offsets": [start, at]});
        (param.name, value)
    };
    let header: serde_json::Map<String, Value> = dit::params(config).into_iter().map(tensor).collect();
    let header = serde_json::to_vec(&header).unwrap();
    let file = [(header.len() as u64).to_le_bytes().as_slice(), &header].concat();
    fs::write(path, &file).unwrap();
    let bytes = (file.len() + at) as u64;
    fs::File::options().write(true).open(path).unwrap().set_len(bytes).unwrap();
}

#[test]
fn every_field_of_every_command_is_documented_with_its_type() {
    let desk = desk();
    let nano = fs::read(testdata("nano.safetensors")).unwrap();
    desk.put("models/half.safetensors", &nano[..nano.len() / 2]);
    desk.put("models/nano.safetensors", &nano);
    // A name that is missing, and one that is left over.
    let at = nano.windows(20).position(|w| w == b"encoder.conv_in.bias").unwrap();
    let mut renamed = nano;
    renamed[at + 17] = b'o';
    desk.put("models/renamed.safetensors", &renamed);
    transformer(&desk.join("models/dit.safetensors"), &DitConfig::tiny(Family::Shared));
    transformer(&desk.join("models/fp8.safetensors"), &DitConfig::dit_7b());
    // The published embedding is not ours to hand on: whoever has it names it.
    let embedding = std::env::var_os("REMASTER_POS_EMB");
    if let Some(file) = &embedding {
        fs::copy(file, desk.join("models/pos_emb.pt")).unwrap();
    }
    desk.frames("x.safetensors", 5, 16, 16);

    let (restore, vae) = ("remaster-restore", "remaster-vae");
    let (file, trip) = ("remaster-plan-for-a-file", "remaster-plan-for-a-round-trip");
    let mut cases: Vec<(&str, &str)> = vec![
        ("errors", "probe nowhere.mkv"),
        ("errors", "plan --network decode --height 7 --width 7"),
        ("errors", "plan --network decode --nonsense"),
        ("remaster-doctor", "doctor --goldens TESTDATA/tiny_mod_conv.safetensors"),
        ("remaster-devices", "devices"),
        ("remaster-probe", "probe in.mkv"),
        ("remaster-probe", "probe TESTDATA/media/hdr10_hevc10.mp4"),
        ("remaster-probe", "probe TESTDATA/media/interlaced_sar_mpeg2.mpg"),
        (restore, "restore in.mkv -o out.mkv -y --model formula:tiny-3b --resolution 1x"),
        (restore, "restore in.mkv -o out.mkv -y --model anime --resolution 1x"),
        ("remaster-preview", "preview in.mkv -y --model formula:tiny-3b --resolution 1x"),
        (restore, "restore in.mkv -o out.mkv -y SMALL --resolution 1x --keep-latents kept.safetensors"),
        (
            "remaster-plan-for-a-store",
            "plan in.mkv -o farm.mkv --store store --model identity --resolution 1x",
        ),
        ("remaster-unit-status", "unit status --plan store"),
        ("remaster-unit-run", "unit run --plan store --input in.mkv --index 0"),
        ("remaster-assemble", "assemble --plan store --input in.mkv -o farm.mkv"),
        ("remaster-verify", "verify farm.mkv"),
        ("remaster-batch", "batch in.mkv -d . --model identity --resolution 1x"),
        (
            "remaster-redecode",
            "redecode in.mkv kept.safetensors -o out.mkv -y --color wavelet --vae TESTDATA/nano.safetensors",
        ),
        (vae, "vae roundtrip in.mkv -o out.mkv VIDEO"),
        (vae, "vae roundtrip in.mkv -o out.mkv VIDEO --mode exact --stripes 2 --slice 4"),
        (vae, "vae roundtrip TESTDATA/media/hdr10_hevc10.mp4 -o out.mkv -y --weights identity --hdr keep"),
        (vae, "vae encode in.mkv -o z.safetensors VIDEO"),
        (vae, "vae decode z.safetensors -o out.mkv VIDEO"),
        (vae, "vae encode x.safetensors -o y.safetensors VIDEO"),
        (vae, "vae roundtrip x.safetensors -o y.safetensors VIDEO"),
        ("remaster-scenes", "scenes in.mkv"),
        ("remaster-scenes", "scenes in.mkv -o shots.json"),
        ("remaster-compare", "compare in.mkv in.mkv"),
        ("remaster-compare", "compare in.mkv other.mkv --tile 16"),
        ("remaster-compare", "compare in.mkv other.mkv --quick --frames 2"),
        ("remaster-compare", "compare in.mkv TESTDATA/media/launch.mp4 --quick --frames 1"),
        (file, "plan in.mkv SMALL --resolution 1x"),
        (file, "plan in.mkv --model anime --resolution 2x"),
        (file, "plan in.mkv --card RTX-4090 --vram 4G --ram 16G --resolution 1080"),
        ("errors", "plan in.mkv --card RTX-4000"),
        (trip, "plan in.mkv --weights models/nano.safetensors"),
        (trip, "plan TESTDATA/media/hdr10_hevc10.mp4 --hdr keep --weights models/nano.safetensors"),
        ("remaster-plan", "plan --network decode --height 64 --width 64"),
        ("remaster-plan", "plan --network dit --weights formula:tiny-7b --height 64 --width 64"),
        ("remaster-plan", "plan --network decode --height 64 --width 64 --mode exact --stripes 2"),
        ("remaster-plan", "plan --network decode --height 64 --width 64 --mode shared-stats"),
        ("remaster-plan", "plan --network decode --height 64 --width 64 --mode blend --tile 32 --overlap 16"),
        ("remaster-plan", "plan --network encode --height 512 --width 512 --ram 900M"),
        ("remaster-models-inspect", "models inspect models/nano.safetensors --tensors"),
        ("remaster-models-inspect", "models inspect models/renamed.safetensors"),
        ("remaster-models-inspect", "models inspect TESTDATA/tiny_mod_conv.safetensors"),
        ("remaster-models-inspect", "models inspect models/dit.safetensors"),
        ("remaster-models-list", "models list --model-dir models"),
        ("remaster-models-verify", "models verify models/nano.safetensors models/half.safetensors"),
        ("remaster-man", "man"),
        ("remaster-licenses", "licenses"),
        ("remaster-man", "man --dir pages"),
        ("remaster-generate-options", "generate options"),
    ];
    if embedding.is_some() {
        cases.push(("remaster-models-pull", "models pull text --model-dir models"));
    }
    check_all(&desk, &cases);

    let seen = SEEN.lock().unwrap();
    let linked =
        ["colour", "hdr-metadata", "fraction", "source", "time", "the-summary-of-a-run", "statistic", "cut"];
    let sections: BTreeSet<&str> = cases.iter().map(|(section, _)| *section).chain(linked).collect();
    let mut unseen = Vec::new();
    for section in sections {
        let mut all = Vec::new();
        paths(&document()[section], "", &mut all);
        unseen.extend(all.into_iter().map(|path| format!("{section}: {path}")).filter(|f| !seen.contains(f)));
    }
    unseen.retain(|field| !UNSEEN.iter().any(|(known, _)| field.starts_with(known)));
    assert!(unseen.is_empty(), "documented, and printed by none of these commands:\n{}", unseen.join("\n"));
}

#[test]
fn every_line_of_progress_is_documented() {
    let desk = desk();
    let lines = [
        "restore in.mkv -o out.mkv -y --model formula:tiny-3b --resolution 1x --progress json",
        "vae roundtrip in.mkv -o out.mkv VIDEO --progress json",
        "vae encode nowhere.mkv -o out.safetensors VIDEO --progress json",
        "models verify TESTDATA/nano.safetensors --progress json",
    ];
    let mut events = BTreeSet::new();
    for line in lines {
        for line in run(&desk, line).stderr.lines() {
            let mut value: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
            let event = value["event"].as_str().unwrap().to_owned();
            let section = match event.as_str() {
                "message" | "warning" | "error" => "event-message-warning-or-error".to_owned(),
                "summary" => {
                    value.as_object_mut().unwrap().remove("event");
                    "the-summary-of-a-run".to_owned()
                }
                event => format!("event-{event}"),
            };
            let wrong = against(&section, &value);
            assert!(wrong.is_empty(), "{line}\n{}", wrong.join("\n"));
            events.insert(event);
        }
    }
    let expected = ["error", "message", "phase", "plan", "progress", "saved", "summary"];
    assert_eq!(events.iter().map(String::as_str).collect::<Vec<_>>(), expected);
}

/// The full network's weights are made up in each of these, which takes seconds.
#[test]
fn every_field_of_the_benchmarks_is_documented() {
    check_all(
        &desk(),
        &[
            (
                "remaster-bench-vae",
                "bench vae encode --frames 1 --height 16 --width 16 --repeat 1 --warmup 0 --stream-weights",
            ),
            ("remaster-bench-dit", "bench dit --weights formula:tiny-3b --height 64 --width 64 --group 8"),
            ("remaster-bench-upscaler", "bench upscaler --height 9 --width 12 --repeat 1"),
            ("remaster-bench-scaling", "bench scaling --sides 16 --repeat 1"),
            ("remaster-bench-kernels", "bench kernels --repeat 1 --warmup 0"),
        ],
    );
}

/// Checks a command on the first GPU that can be used, if there is one.
#[cfg(feature = "gpu")]
fn on_a_gpu(test: &str, section: &str, line: &str) {
    let desk = desk();
    let found = desk.run("devices --json").json();
    let usable = |d: &&Value| d["kind"] != "cpu" && d["usable"] == true;
    match found["devices"].as_array().unwrap().iter().find(usable) {
        Some(gpu) => check_all(&desk, &[(section, &line.replace("GPU", gpu["device"].as_str().unwrap()))]),
        None => no_gpu(test),
    }
}

#[test]
#[cfg(feature = "gpu")]
fn every_field_of_a_run_on_a_gpu_is_documented() {
    let line = "vae roundtrip in.mkv -o out.mkv VIDEO --device GPU --no-tune";
    on_a_gpu("every_field_of_a_run_on_a_gpu_is_documented", "remaster-vae", line);
}

/// Far less than a minute, so that most of it is skipped on a software GPU.
#[test]
#[cfg(feature = "gpu")]
fn every_field_of_a_measured_card_is_documented() {
    let line = "bench card --device GPU --seconds 12";
    on_a_gpu("every_field_of_a_measured_card_is_documented", "remaster-bench-card", line);
}

#[test]
#[cfg(feature = "gpu")]
#[ignore = "nightly: a minute on a software GPU"]
fn every_field_of_tune_is_documented() {
    let line = "tune --device GPU --side 8 --repeat 1 --dtype f32";
    on_a_gpu("every_field_of_tune_is_documented", "remaster-tune", line);
}

#[test]
fn a_wrong_type_a_missing_field_and_an_unknown_one_are_found() {
    let wrong = against("errors", &serde_json::json!({ "error": 3, "more": null }));
    assert_eq!(wrong.len(), 4, "{wrong:?}");
    let nested = serde_json::json!({ "num": 1, "den": "2" });
    assert_eq!(against("fraction", &nested).len(), 1);
}
