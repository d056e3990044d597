//! Latent files: what they say, what they refuse, and that hostile ones do no harm.

use std::path::{Path, PathBuf};

use remaster_compute::{Backend, DType, Shape};
use remaster_engine::{Source, Task};
use remaster_media::FrameSource;
use remaster_model::vae::Direction;
use remaster_model::{Network, NullVae};
use remaster_picture::Edges;
use remaster_plan::{Budget, Clip, Plan, Wish};
use remaster_testkit::hostile::attack;
use remaster_testkit::says;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::{Kept, NOISE};
use crate::clip::{LatentTarget, decode, encode};
use crate::error::PipelineError;
use crate::geometry::Geometry;
use crate::latent_file::{About, LatentFile, LatentWriter, NetworkId, Restored, ShotLatents};
use crate::planned::Planned;

/// Where a latent file goes, in a folder of its own.
fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("z.safetensors");
    (folder, path)
}

fn network(name: &str, sha256: Option<&str>) -> NetworkId {
    NetworkId { kind: "vae".into(), name: name.into(), sha256: sha256.map(str::to_owned) }
}

/// So many frames of noise at uneven times.
fn noise(frames: usize) -> Box<dyn FrameSource> {
    super::noise(frames, |n| n * 3 - n % 2)
}

fn planned(direction: Direction, clip: Clip) -> (Task, Plan) {
    let network = Box::new(NullVae::from(direction));
    let mut task = Task::new(network, clip.cells(), Backend::cpu_with(1), DType::F32);
    task.settings.spill = Some(std::env::temp_dir());
    task.job.open_ended = direction == Direction::Encode;
    let plenty = Budget::Shared { ram: 1 << 40, disk: 1 << 40 };
    let plan = task.planner().plan(&plenty, &Wish { mode: None, slice: Some(4) }).unwrap();
    (task, plan)
}

fn write(path: &Path, frames: usize, edges: Edges) {
    let geometry = Geometry::new(NOISE, Default::default(), edges);
    let [width, height] = geometry.padded;
    let (task, plan) = planned(Direction::Encode, Clip::new(5, height, width).unwrap());
    let target = LatentTarget { path, overwrite: true, network: network("identity", None), origin: None };
    let channels = NullVae::Decoder.channels()[0];
    let network = Planned { task: &task, plan: &plan };
    encode(noise(frames).into(), target, geometry, network, channels, &mut |_| ()).unwrap();
}

fn read(path: &Path) -> Result<Vec<(i64, usize)>, PipelineError> {
    let file = LatentFile::open(path)?;
    let shape = file.shape();
    let (task, plan) = planned(Direction::Decode, Clip::of_latents(shape.t, shape.h, shape.w).unwrap());
    let kept = Kept::default();
    decode(&file, Box::new(kept.clone()), Planned { task: &task, plan: &plan }, false, &mut |_| ())?;
    Ok(kept.take().into_iter().map(|(frame, pts)| (pts, frame.channels)).collect())
}

/// Header and data of a latent file.
fn parts(path: &Path) -> (Value, Vec<u8>) {
    let bytes = std::fs::read(path).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    (serde_json::from_slice(&bytes[8..8 + length]).unwrap(), bytes[8 + length..].to_vec())
}

/// A document with another value at a place such as `latent/shape`.
fn changed(document: &Value, place: &str, value: &str) -> Value {
    let mut changed = document.clone();
    *place.split('/').fold(&mut changed, |at, part| &mut at[part]) = serde_json::from_str(value).unwrap();
    changed
}

/// What a header says about its clip.
fn about(header: &Value) -> Value {
    serde_json::from_str(header["__metadata__"]["remaster"].as_str().unwrap()).unwrap()
}

/// The header with something else changed in what it says about its clip.
fn changed_about(header: &Value, place: &str, value: &str) -> Value {
    let mut changed_header = header.clone();
    let about = changed(&about(header), place, value);
    changed_header["__metadata__"]["remaster"] = about.to_string().into();
    changed_header
}

/// The error of a file with this header and data, which names it.
fn refused(path: &Path, header: &Value, data: &[u8], what: &str) -> String {
    std::fs::write(path, join(header, data)).unwrap();
    let error = LatentFile::open(path).expect_err(what).to_string();
    assert!(error.contains("z.safetensors"), "{what}: {error}");
    error
}

/// The same with new sums, as whoever changes a file on purpose would make them.
fn sealed(header: &Value, data: &[u8]) -> (Value, Vec<u8>) {
    let (mut header, mut data) = (header.clone(), data.to_vec());
    let start = |entry: &Value| entry["data_offsets"][0].as_u64().unwrap() as usize;
    let (latents, sums) = (start(&header["pts"]), start(&header["sums"]));
    let count = header["latent"]["shape"][0].as_u64().unwrap() as usize;
    let rows: Vec<u8> =
        data[..latents].chunks(latents / count).flat_map(|latent| Sha256::digest(latent).to_vec()).collect();
    data[sums..].copy_from_slice(&rows);
    let about = header["__metadata__"]["remaster"].as_str().unwrap();
    let sum = Sha256::new_with_prefix(about).chain_update(&data[latents..]).finalize();
    header["__metadata__"]["sha256"] = remaster_disk::hex(&sum).into();
    (header, data)
}

/// The same as an older version wrote it.
fn without_sums(header: &Value, data: &[u8]) -> (Value, Vec<u8>) {
    let mut header = header.clone();
    let sums = header["sums"]["data_offsets"][0].as_u64().unwrap() as usize;
    header.as_object_mut().unwrap().remove("sums");
    header["__metadata__"].as_object_mut().unwrap().remove("sha256");
    header["__metadata__"]["format"] = "remaster-latents-3".into();
    (header, data[..sums].to_vec())
}

fn join(header: &Value, data: &[u8]) -> Vec<u8> {
    let text = serde_json::to_vec(header).unwrap();
    [&(text.len() as u64).to_le_bytes()[..], &text, data].concat()
}

#[test]
fn times_of_every_length_come_back_and_alpha_stays_out() {
    let (folder, path) = place();
    for (frames, edges) in (1..=9).chain([62]).zip(Edges::ALL.into_iter().cycle()) {
        write(&path, frames, edges);
        let file = LatentFile::open(&path).unwrap();
        assert_eq!(file.frames(), frames);
        assert_eq!((file.about().geometry.edges, file.about().geometry.alpha), (edges, false));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "a file was left behind");
        let times: Vec<_> = (1..=frames).map(|n| ((n * 3 - n % 2) as i64, 3)).collect();
        assert_eq!(read(&path).unwrap(), times);
    }
}

#[test]
fn latents_of_one_network_are_refused_by_another() {
    let (_folder, path) = place();
    write(&path, 2, Edges::Black);
    let file = LatentFile::open(&path).unwrap();
    file.made_by(&network("identity", None)).unwrap();
    for other in
        [network("formula:tiny", None), network("identity", Some("ab")), network("vae.safetensors", None)]
    {
        let error = file.made_by(&other).unwrap_err().to_string();
        says(&error, &["z.safetensors", "identity", &other.name]);
    }
    // What counts is the content, not the name of its file.
    assert!(network("a", Some("ff")).is(&network("b", Some("ff"))));
    assert!(!network("a", Some("ff")).is(&network("a", Some("fe"))));
    let other = NetworkId { kind: "dit".into(), ..network("a", Some("ff")) };
    assert!(!network("a", Some("ff")).is(&other));
}

#[test]
fn claims_that_cannot_be_true_are_refused_by_the_name_of_the_file() {
    let (_folder, path) = place();
    write(&path, 6, Edges::Black);
    let (good, data) = parts(&path);
    let refused = |header: &Value, data: &[u8], what: &str| refused(&path, header, data, what);
    for (key, value) in [
        ("latent/shape", "[18446744073709551615, 2, 4, 16]"),
        ("latent/shape", "[4611686018427387905, 2, 4, 16]"),
        ("latent/shape", "[3, 2, 4]"),
        ("latent/shape", "[3, 2305843009213693954, 4, 16]"),
        ("latent/shape", "[3, 2, 4, 0]"),
        ("latent/shape", "[0, 2, 4, 16]"),
        ("latent/dtype", "\"F16\""),
        ("latent/data_offsets", "[8, 1544]"),
        ("pts/shape", "[18446744073709551615]"),
        ("pts/shape", "[0]"),
        ("pts/shape", "[5]"),
        ("pts/data_offsets", "[0, 48]"),
        ("sums/shape", "[4, 32]"),
        ("sums/shape", "[3, 16]"),
        ("sums/shape", "[18446744073709551615, 32]"),
        ("sums/dtype", "\"I64\""),
        ("sums/data_offsets", "[0, 96]"),
        ("__metadata__/sha256", "\"\""),
        ("__metadata__/format", "\"remaster-latents-3\""),
    ] {
        refused(&changed(&good, key, value), &data, value);
    }
    for (key, value) in [
        ("geometry/padded", "[32, 32]"),
        ("geometry/padded", "[18446744073709551608, 16]"),
        ("geometry/shown", "[0, 13]"),
        ("geometry/shown", "[33, 13]"),
        ("geometry/shown", "[4000000000, 13]"),
        ("geometry/source", "[1073741824, 64]"),
        ("geometry/edges", "\"fog\""),
        ("geometry/edges", "\"mirror-black\""),
        ("geometry/alpha", "true"),
        ("samples", "\"yuv999p\""),
        ("samples", "\"rgba\""),
        ("sample_aspect", "[0, 1]"),
        ("sample_aspect", "[1, 4294967295]"),
        ("time_base", "{\"num\": 0, \"den\": 25}"),
        ("time_base", "{\"num\": 1, \"den\": 0}"),
        ("time_base", "{\"num\": 1, \"den\": 18446744073709551615}"),
        ("rate", "{\"num\": 25, \"den\": 0}"),
        ("colour/primaries/value", "\"bt709 -y /tmp/x\""),
        ("colour/transfer/value", "\"\""),
        ("colour/matrix/value", "\"none of them\""),
    ] {
        let (header, data) = sealed(&changed_about(&good, key, value), &data);
        let said = refused(&header, &data, value);
        assert!(!said.contains("SHA-256"), "{said}");
    }
    let mut old = good.clone();
    old["__metadata__"]["format"] = "remaster-latents-1".into();
    assert!(refused(&old, &data, "version 1").contains("encode the clip again"));
    old["__metadata__"]["format"] = "pt".into();
    assert!(refused(&old, &data, "plain tensors").contains("vae encode"));
    // Too short, too long, and times that stand still, run back or lie before the start.
    refused(&good, &data[..data.len() - 1], "short");
    refused(&good, &[&data[..], &[0]].concat(), "long");
    let start = good["pts"]["data_offsets"][0].as_u64().unwrap() as usize;
    for (frame, pts) in [(1, 2), (3, 1), (0, -1), (5, i64::MAX), (5, 1 << 53)] {
        let mut data = data.clone();
        data[start + 8 * frame..][..8].copy_from_slice(&i64::to_le_bytes(pts));
        let (header, data) = sealed(&good, &data);
        assert!(refused(&header, &data, "times").contains(&format!("frame {frame} ")));
    }
    // Values are looked at when they are read; the file is named, not what is made of it.
    for value in [f32::NAN, f32::INFINITY] {
        let mut data = data.clone();
        data[start - 4..start].copy_from_slice(&value.to_le_bytes());
        let (header, data) = sealed(&good, &data);
        std::fs::write(&path, join(&header, &data)).unwrap();
        let error = read(&path).unwrap_err().to_string();
        says(&error, &["z.safetensors", "latent 2", "not a number"]);
    }
    std::fs::write(&path, join(&good, &data)).unwrap();
    assert_eq!(read(&path).unwrap().len(), 6);
}

#[test]
fn every_damaged_byte_of_latents_times_shots_and_sums_is_noticed() {
    let (_folder, path) = place();
    write(&path, 6, Edges::Black);
    let (clip, clip_data) = parts(&path);
    write_shots(&path, &[1, 6, 5]);
    let (film, film_data) = parts(&path);
    let mut noticed = 0;
    for (header, data) in [(&clip, &clip_data), (&film, &film_data)] {
        let latents = header["pts"]["data_offsets"][0].as_u64().unwrap() as usize;
        let is_film = header.get("shots").is_some();
        // Some of the latents, and all of the rest.
        for at in (0..latents).step_by(997).chain(latents..data.len()) {
            let mut data = data.clone();
            // A bit that leaves a number a number.
            data[at] ^= 1;
            std::fs::write(&path, join(header, &data)).unwrap();
            let error = match is_film {
                true => read_shots(&path).map(drop),
                false => read(&path).map(drop),
            };
            let error = error.expect_err(&format!("byte {at} of {}", data.len())).to_string();
            says(&error, &["z.safetensors", "is damaged"]);
            noticed += 1;
        }
        // Who made it, and whose colours it has.
        let about = header["__metadata__"]["remaster"].as_str().unwrap();
        let mut other = header.clone();
        other["__metadata__"]["remaster"] = about.replacen("\"identity\"", "\"identitz\"", 1).into();
        std::fs::write(&path, join(&other, data)).unwrap();
        says(&LatentFile::open(&path).unwrap_err().to_string(), &["what it says of its clip is damaged"]);
    }
    assert!(noticed > 300, "{noticed}");
}

#[test]
fn files_without_sums_still_open() {
    let (_folder, path) = place();
    write(&path, 6, Edges::Black);
    let expected = read(&path).unwrap();
    let (header, data) = parts(&path);
    let (header, data) = without_sums(&header, &data);
    std::fs::write(&path, join(&header, &data)).unwrap();
    assert_eq!(read(&path).unwrap(), expected);
    write_shots(&path, &[1, 6, 5, 2]);
    let expected = read_shots(&path).unwrap();
    let (header, data) = parts(&path);
    let (header, data) = without_sums(&header, &data);
    std::fs::write(&path, join(&header, &data)).unwrap();
    assert_eq!(read_shots(&path).unwrap(), expected);
}

/// Shots of these lengths, with alpha of kind 0, 1, 2, 0, ...
fn write_shots(path: &Path, shots: &[usize]) {
    let geometry = Geometry::new(NOISE, Default::default(), Edges::Black);
    let mut about = About::new(noise(1).format(), geometry, network("identity", None), None);
    let (model, shown, read) = ("identity".into(), geometry.shown, "--ss 1".into());
    about.restored = Some(Restored { model, seed: 1, window: 45, shown, read });
    let mut writer = LatentWriter::create(path, true, &about, 4).unwrap();
    let [columns, rows] = geometry.padded.map(|n| n / 8);
    for (i, frames) in shots.iter().enumerate() {
        for latent in 0..frames.saturating_sub(1).div_ceil(4) + 1 {
            writer.latent((0..columns * rows * 4).map(|k| (k + latent) as f32)).unwrap();
        }
        writer.shot(*frames, (i % 3) as u8);
    }
    (0..shots.iter().sum()).for_each(|frame: usize| writer.time(3 * frame as i64).unwrap());
    writer.complete().unwrap();
}

/// The shots, and the first value of every latent.
fn read_shots(path: &Path) -> Result<(Vec<ShotLatents>, Vec<f32>), PipelineError> {
    let file = LatentFile::open(path)?;
    let shots = file.shots()?.collect::<Result<Vec<_>, _>>()?;
    let Shape { h, w, c, .. } = file.shape();
    let mut firsts = Vec::new();
    for shot in &shots {
        let shape = Shape::new(shot.latents.len(), h, w, c);
        let mut values = vec![0.0; shape.len()];
        let mut reader = file.latents(shot.latents.clone());
        let failed = |e: remaster_engine::SourceError| *e.0.downcast::<PipelineError>().unwrap();
        // From the middle, and again from the start.
        reader.back_to(shape.t / 2).unwrap();
        assert_eq!(reader.read(shape, &mut values).map_err(failed)?, shape.t - shape.t / 2);
        reader.back_to(0).unwrap();
        assert_eq!(reader.read(shape, &mut values).map_err(failed)?, shape.t);
        assert_eq!(reader.read(shape, &mut vec![0.0; shape.len()]).map_err(failed)?, 0);
        firsts.extend(values.chunks(h * w * c).map(|latent| latent[0]));
    }
    Ok((shots, firsts))
}

#[test]
fn shots_of_a_restored_film_come_back() {
    let (_folder, path) = place();
    write_shots(&path, &[1, 6, 5, 2]);
    let (shots, firsts) = read_shots(&path).unwrap();
    let expected = [(1, 0, 0..1), (6, 1, 1..4), (5, 2, 4..6), (2, 0, 6..8)];
    let expected = expected.map(|(frames, alpha, latents)| ShotLatents { frames, alpha, latents });
    assert_eq!(shots, expected);
    assert_eq!(firsts, [0.0, 0.0, 1.0, 2.0, 0.0, 1.0, 0.0, 1.0]);
    let file = LatentFile::open(&path).unwrap();
    assert_eq!((file.frames(), file.restored().unwrap().seed), (14, 1));
    assert!(file.one_clip().unwrap_err().to_string().contains("remaster redecode"));
    // Each way round.
    write(&path, 6, Edges::Black);
    let error = LatentFile::open(&path).unwrap().restored().unwrap_err().to_string();
    assert!(error.contains("--keep-latents") && error.contains("vae decode"), "{error}");
}

#[test]
fn shots_that_cannot_be_are_refused() {
    let (_folder, path) = place();
    write_shots(&path, &[1, 6, 5]);
    let (good, data) = parts(&path);
    let refused = |header: &Value, data: &[u8], what: &str| refused(&path, header, data, what);
    let rows = good["shots"]["data_offsets"][0].as_u64().unwrap() as usize;
    for (row, column, value) in [
        (0, 0, 0),
        (0, 0, -1),
        (0, 0, i64::MAX),
        (0, 0, 2),
        (1, 0, 7),
        (2, 0, 4),
        (2, 0, 1),
        (1, 1, 3),
        (1, 1, -1),
    ] {
        let mut data = data.clone();
        data[rows + 16 * row + 8 * column..][..8].copy_from_slice(&i64::to_le_bytes(value));
        let (header, data) = sealed(&good, &data);
        let said = refused(&header, &data, &format!("{value} in row {row}"));
        assert!(!said.contains("SHA-256"), "{said}");
    }
    for (key, value) in [
        ("shots/shape", "[3]"),
        ("shots/shape", "[4, 2]"),
        ("shots/shape", "[0, 2]"),
        ("shots/shape", "[1152921504606846976, 2]"),
        ("shots/dtype", "\"F32\""),
        ("shots/data_offsets", "[0, 48]"),
    ] {
        refused(&changed(&good, key, value), &data, value);
    }
    // Shots and what was restored belong together.
    let mut header = good.clone();
    header.as_object_mut().unwrap().remove("shots");
    let (header, data_of_none) = without_sums(&header, &data);
    refused(&header, &data_of_none[..rows], "no shots");
    for (key, value) in [("window", "0"), ("window", "100000"), ("shown", "[22, 13]"), ("shown", "[0, 1]")] {
        let (header, data) = sealed(&changed_about(&good, &format!("restored/{key}"), value), &data);
        refused(&header, &data, key);
    }
    std::fs::write(&path, join(&good, &data)).unwrap();
    assert_eq!(read_shots(&path).unwrap().0.len(), 3);
}

#[test]
fn mutated_files_of_shots_end_in_errors_or_in_latents() {
    let (_folder, path) = place();
    let mut good = Vec::new();
    for shots in [&[1][..], &[6, 1, 9], &[2, 2, 2, 2, 2]] {
        write_shots(&path, shots);
        let (header, data) = parts(&path);
        good.push(join(&header, &data));
        // Without sums more mutations are looked at.
        let (header, data) = without_sums(&header, &data);
        good.push(join(&header, &data));
    }
    let mut read = 0;
    attack("shots", &good, 16 << 20, |bytes| {
        std::fs::write(&path, bytes).unwrap();
        read += usize::from(read_shots(&path).is_ok());
    });
    assert!(read > 0, "no mutation was harmless");
}

#[test]
fn mutated_latent_files_end_in_errors_or_in_frames() {
    let (folder, path) = place();
    let mut good = Vec::new();
    for (frames, edges) in [(1, Edges::Black), (6, Edges::MirrorBlack), (9, Edges::Mirror)] {
        write(&path, frames, edges);
        // As written, with its long header, and with one that is all text, which most mutations then hit.
        good.push(std::fs::read(&path).unwrap());
        let (header, data) = parts(&path);
        good.push(join(&header, &data));
        // Without sums more mutations are looked at.
        let (header, data) = without_sums(&header, &data);
        good.push(join(&header, &data));
    }
    let path: PathBuf = folder.path().join("hostile.safetensors");
    let mut decoded = 0;
    attack("latents", &good, 16 << 20, |bytes| {
        std::fs::write(&path, bytes).unwrap();
        let Ok(file) = LatentFile::open(&path) else { return };
        assert!(file.about().format(file.frames()).is_some());
        // Small: a file that claims more than it has was refused.
        assert!(file.shape().len() * 4 <= bytes.len());
        decoded += usize::from(read(&path).is_ok());
    });
    assert!(decoded > 0, "no mutation was harmless");
}
