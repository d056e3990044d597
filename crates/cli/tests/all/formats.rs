//! What files keep on their way through: every clip of a folder through `vae roundtrip --weights identity`, and
//! then everything about it compared with what came in.
//!
//! The folder is `testdata/media`, or the one that `REMASTER_CORPUS` names; with `REMASTER_WRITE=1` the table is
//! written to `docs/formats.md`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::desk::{Desk, testdata};
use crate::tree::command_lines;

/// What cannot be read without being asked to, and the words it is refused with otherwise.
const ASKED: [(&str, &str, &str); 3] = [
    ("hdr10", "--hdr keep", "HDR (smpte2084)"),
    ("hlg", "--hdr keep", "HDR (arib-std-b67)"),
    ("size_change", "", "changes its picture size"),
];

/// What is written as it was read; other files become Matroska.
const CONTAINERS: [&str; 4] = ["mkv", "mp4", "mov", "webm"];

/// What a tool says of a file, whether it works or not.
fn tool(program: &str, line: &str, file: &Path) -> String {
    let words = line.split(' ').map(|word| if word == "FILE" { file } else { Path::new(word) });
    let out = Command::new(program).args(["-v", "error"]).args(words).output().unwrap();
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// Everything that is compared.
struct Facts {
    times: Vec<f64>,
    duration: f64,
    audio: Vec<String>,
    streams: BTreeMap<String, Vec<String>>,
    chapters: Vec<String>,
    title: Option<String>,
    video: Value,
    alpha: bool,
    shape: Vec<String>,
}

fn facts(file: &Path) -> Facts {
    let json = tool("ffprobe", "-print_format json -show_format -show_streams -show_chapters FILE", file);
    let json: Value = serde_json::from_str(&json).unwrap();
    let list = |v: &Value| v.as_array().cloned().unwrap_or_default();
    let word = |v: &Value, key: &str| v[key].as_str().unwrap_or_default().to_owned();
    let of_frames = |entries: &str| {
        tool("ffprobe", &format!("-select_streams v:0 -show_entries frame={entries} -of csv=p=0 FILE"), file)
    };
    let times = of_frames("best_effort_timestamp_time");
    // Of a frame: the header of Theora says something else.
    let shape = of_frames("width,height -read_intervals %+#60");
    let shape: Vec<String> = shape.lines().next().unwrap_or("").split(',').map(str::to_owned).collect();
    let times = times.lines().filter_map(|l| l.trim_matches(',').parse().ok()).collect();
    let mut streams: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut video = Value::Null;
    for s in list(&json["streams"]) {
        let kind = word(&s, "codec_type");
        let language = s["tags"]["language"].as_str().unwrap_or("und").to_owned();
        if kind == "video" && video.is_null() {
            video = s.clone();
        } else {
            streams.entry(kind).or_default().push(format!("{} {language}", word(&s, "codec_name")));
        }
    }
    let packets = "-nostdin -i FILE -map 0:a? -vn -sn -dn -c copy -f streamhash -hash md5 -";
    let audio = tool("ffmpeg", packets, file).lines().map(str::to_owned).collect();
    let alpha_tag = video["tags"]
        .as_object()
        .is_some_and(|t| t.iter().any(|(k, v)| k.eq_ignore_ascii_case("alpha_mode") && v == "1"));
    let format = word(&video, "pix_fmt");
    Facts {
        times,
        duration: json["format"]["duration"].as_str().and_then(|d| d.parse().ok()).unwrap_or(0.0),
        audio,
        chapters: list(&json["chapters"])
            .iter()
            .map(|c| format!("{} {}", c["start_time"], c["tags"]["title"]))
            .collect(),
        title: json["format"]["tags"]["title"].as_str().map(str::to_owned),
        alpha: alpha_tag
            || format.starts_with("yuva")
            || format.starts_with("gbra")
            || format.contains("rgba"),
        streams,
        video,
        shape,
    }
}

/// Bits of a sample, from the name of the format.
fn depth(facts: &Facts) -> u32 {
    let name = facts.video["pix_fmt"].as_str().unwrap_or_default();
    let digits: String = name.trim_end_matches("le").chars().rev().take_while(char::is_ascii_digit).collect();
    let bits: String = digits.chars().rev().collect();
    match bits.parse() {
        Ok(n @ (9..=16)) => n,
        _ if name.contains("64") || name.contains("48") => 16,
        _ => 8,
    }
}

/// One row of the table; an error is a difference.
fn row(name: &str, a: &Facts, b: &Facts, output: &str) -> Result<Vec<String>, String> {
    let differ = |what: &str, x: String, y: String| {
        if x == y { Ok(x) } else { Err(format!("{name}: {what} {x} became {y}")) }
    };
    let mut cells = vec![format!("`{name}`"), format!("`{output}`")];
    cells.push(differ("frames", a.times.len().to_string(), b.times.len().to_string())?);
    // Matroska counts in milliseconds.
    let start = |f: &Facts| f.times.first().copied().unwrap_or(0.0);
    let worst = a.times.iter().zip(&b.times).map(|(x, y)| (x - y).abs()).fold(0.0, f64::max);
    if worst > 0.0011 {
        let (a, b) = (start(a), start(b));
        return Err(format!("{name}: timestamps are up to {worst} s off; they start at {a} and {b}"));
    }
    cells.push(format!("{:.1} ms", worst * 1e3));
    let gap = |f: &Facts| match f.times.len() {
        n if n > 1 => (f.times[n - 1] - f.times[0]) / (n - 1) as f64,
        _ => 0.1,
    };
    // Matroska counts from zero, other containers from the first frame.
    let close = |d: f64| (a.duration - d).abs() <= gap(a).max(0.03) * 1.5;
    if !close(b.duration) && !close(b.duration - start(b)) {
        return Err(format!("{name}: duration {} became {}", a.duration, b.duration));
    }
    cells.push(format!("{:.2} s", b.duration));
    let count = |list: &[String]| if list.is_empty() { "-".to_owned() } else { list.len().to_string() };
    if a.audio != b.audio {
        return Err(format!("{name}: audio packets {:?} became {:?}", a.audio, b.audio));
    }
    cells.push(match a.audio.len() {
        0 => "-".into(),
        n => format!("{n}, same packets"),
    });
    for kind in ["subtitle", "attachment"] {
        let of = |f: &Facts| f.streams.get(kind).cloned().unwrap_or_default();
        differ(kind, format!("{:?}", of(a)), format!("{:?}", of(b)))?;
        cells.push(count(&of(a)));
    }
    differ("chapters", format!("{:?}", a.chapters), format!("{:?}", b.chapters))?;
    cells.push(count(&a.chapters));
    differ("title", format!("{:?}", a.title), format!("{:?}", b.title))?;
    let turned = a.video["side_data_list"].to_string().contains("rotation");
    let aspect = |f: &Facts| {
        let sar = f.video["sample_aspect_ratio"].as_str().unwrap_or("1:1");
        if sar == "0:1" || sar == "N/A" { "1:1".to_owned() } else { sar.to_owned() }
    };
    let size = |f: &Facts, turn: bool| {
        let side = |i: usize| f.shape.get(i).cloned().unwrap_or_default();
        let (w, h) = (side(0), side(1));
        if turn { format!("{h} x {w}") } else { format!("{w} x {h}") }
    };
    // ffmpeg 9 crops Theora to the size that its header names, older ones do not.
    let (before, after) = (size(a, turned), size(b, false));
    let after = if [&before[..], &after] == ["218 x 160", "214 x 160"] { before.clone() } else { after };
    cells.push(differ("size", before, after)? + if turned { ", upright" } else { "" });
    cells.push(differ("aspect", aspect(a), aspect(b))?);
    cells.push(differ("depth", depth(a).to_string(), depth(b).to_string())?);
    let alpha = differ("alpha", a.alpha.to_string(), b.alpha.to_string())?;
    cells.push(alpha.replace("false", "-").replace("true", "yes"));
    for tag in ["color_space", "color_transfer", "color_primaries", "color_range"] {
        let of = |f: &Facts| f.video[tag].as_str().map(str::to_owned);
        if let (Some(x), y) = (of(a), of(b)) {
            differ(tag, x, y.unwrap_or_default())?;
        }
    }
    let tags = ["color_space", "color_transfer", "color_range"]
        .map(|t| b.video[t].as_str().unwrap_or("?").to_owned());
    let guessed = ["color_space", "color_range"].iter().any(|t| a.video[t].as_str().is_none());
    cells.push(tags.join(" ") + if guessed { " (guessed)" } else { "" });
    Ok(cells)
}

const HEAD: &str = "file | written as | frames | timestamps off by | duration | audio | subtitles | attachments | \
    chapters | size | pixel shape | bits | alpha | colour";

fn corpus() -> PathBuf {
    std::env::var_os("REMASTER_CORPUS").map_or_else(|| testdata("media"), PathBuf::from)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut list = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let known = ["mkv", "mp4", "mov", "webm", "mpg", "ogv", "ts", "y4m"];
        if path.is_dir() {
            list.extend(files(&path));
        } else if path.extension().and_then(|e| e.to_str()).is_some_and(|e| known.contains(&e)) {
            list.push(path);
        }
    }
    list.sort();
    list
}

/// Children of ours that still live: they would hold the folder in their command line.
fn children(folder: &Path) -> usize {
    let is_ours = |line: &str| line.contains(&*folder.to_string_lossy()) && line.contains("ffmpeg");
    command_lines().filter(|(_, line)| is_ours(line)).count()
}

#[test]
fn every_clip_keeps_what_it_has_or_says_why_not() {
    let folder = Desk::bare();
    let (mut table, mut refused, mut wrong) = (Vec::new(), Vec::new(), Vec::new());
    for file in files(&corpus()) {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let asked = ASKED.iter().find(|(start, ..)| name.starts_with(start));
        let ending =
            file.extension().and_then(|e| e.to_str()).filter(|e| CONTAINERS.contains(e)).unwrap_or("mkv");
        let output = folder.join(format!("out.{ending}"));
        let run = |flags: &str| {
            let started = Instant::now();
            let line = format!("vae roundtrip IN -o OUT --weights identity --progress none {flags}");
            let place = |word| match word {
                "IN" => file.as_path(),
                "OUT" => &output,
                word => Path::new(word),
            };
            let mut command = Command::new(env!("CARGO_BIN_EXE_remaster"));
            let out = command.args(line.split_whitespace().map(place)).output().unwrap();
            (out, started.elapsed())
        };
        let left = || folder.names();
        if name.starts_with("bad_") || asked.is_some() {
            let (out, took) = run("");
            let words = String::from_utf8_lossy(&out.stderr).into_owned();
            let error = words.lines().find_map(|l| l.strip_prefix("error: ")).unwrap_or_default().to_owned();
            let expected = asked.map_or("", |a| a.2);
            // Static builds of ffmpeg die of any MPEG-TS.
            let died = name.ends_with(".ts") && error.contains("killed or crashed (signal: 11");
            let expected = if died { "--ffmpeg" } else { expected };
            let good = out.status.code() == Some(3) && error.contains(expected) && !error.is_empty();
            if !good || took > Duration::from_secs(5) || !left().is_empty() || words.contains("panicked") {
                wrong.push(format!("{name}: {:?} after {took:?}, left {:?}: {words}", out.status, left()));
            }
            let error = error.replace(&*file.to_string_lossy(), &name);
            refused.push(format!("| `{name}` | {} |", error.replace('|', "/")));
        }
        let flags = asked.map_or("", |a| a.1);
        if name.starts_with("bad_") || asked.is_some() && flags.is_empty() {
            continue;
        }
        let (out, _) = run(flags);
        if !out.status.success() {
            wrong.push(format!("{name}: {}", String::from_utf8_lossy(&out.stderr)));
            continue;
        }
        let shown =
            format!("{ending} {}", if flags.is_empty() { String::new() } else { format!("({flags})") });
        match row(&name, &facts(&file), &facts(&output), shown.trim()) {
            Ok(cells) => table.push(format!("| {} |", cells.join(" | "))),
            Err(difference) => wrong.push(difference),
        }
        let _ = std::fs::remove_file(&output);
    }
    assert_eq!(children(&folder), 0, "children live on");
    if std::env::var_os("REMASTER_WRITE").is_some() {
        let text = include_str!("formats.head.md").replace("{head}", HEAD);
        let text = text.replace("{rule}", &vec!["---"; HEAD.split('|').count()].join("|"));
        let text = text.replace("{table}", &table.join("\n")).replace("{refused}", &refused.join("\n"));
        std::fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/formats.md"), text).unwrap();
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(table.len() >= 8, "only {} clips in {}", table.len(), corpus().display());
}
