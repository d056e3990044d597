//! The whole product on trained weights: films, stills and pipes in, restored ones out, nothing lost.

use std::path::Path;

use serde_json::Value;

use crate::desk::{Desk, bytes, ffmpeg, ffprobe, names, plain, refused, remove, testdata, times};

/// `film.mkv`: three shots of 20, 12 and 18 frames at 24 fps, with sound, a subtitle's worth of tags, and a chapter's
/// worth of time.
fn film() -> Desk {
    let graph = "testsrc2=s=96x64:r=24:d=1,format=yuv420p,trim=end_frame=20[a];\
        mandelbrot=s=96x64:r=24:start_scale=0.3,format=yuv420p,trim=end_frame=12[b];\
        smptebars=s=96x64:r=24:d=1,format=yuv420p,trim=end_frame=18[c];\
        [a][b][c]concat=n=3";
    let sound = "-f lavfi -i sine=frequency=440:duration=2.2 -c:a aac -metadata title=Holiday -shortest";
    Desk::filmed(&format!("-f lavfi -i {graph} {sound} -c:v libx264 -crf 8 film.mkv"))
}

/// Streams of a file.
fn probe(path: &Path) -> Value {
    let text = ffprobe("-count_packets -show_streams -show_format -of json", path);
    serde_json::from_str(&text).unwrap()
}

/// All of it, on trained weights, with the defaults of a person who types one word more than the name.
#[test]
fn a_film_comes_out_larger_with_its_sound_its_times_and_its_tags() {
    let here = &film();
    let out = here.works("film.mkv SMALL --resolution 80 --json");
    let report = out.json();
    assert_eq!(report["output"], "film_upscaled.mkv");
    assert_eq!(report["shots"], serde_json::json!([0, 20, 32]));
    assert_eq!([&report["frames"], &report["width"], &report["height"]], [50, 120, 80]);
    let made = here.join("film_upscaled.mkv");
    let about = probe(&made);
    let streams = about["streams"].as_array().unwrap();
    assert_eq!(streams.len(), 2, "{about}");
    assert_eq!([&streams[0]["width"], &streams[0]["height"]], [120, 80]);
    assert_eq!(streams[0]["nb_read_packets"], "50");
    assert_eq!(streams[1]["codec_name"], "aac");
    assert_eq!(about["format"]["tags"]["title"], "Holiday");
    let (before, after) = (times(here.join("film.mkv")), times(&made));
    assert_eq!(before.len(), 50);
    let worst = before.iter().zip(&after).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(before.len() == after.len() && worst < 0.0006, "{worst}");
    // Memory stayed within what was planned.
    let summary = &report["summary"];
    assert!(summary["peak_bytes"].as_u64() <= summary["planned_bytes"].as_u64(), "{summary}");
    let phases = summary["phases"].as_array().unwrap().iter().map(|p| &p["phase"]);
    assert!(phases.eq(["scan", "encode", "restore", "decode", "finish"]), "{summary}");
    // Once more: it is done. With other options the film that is there stays.
    here.works("film.mkv SMALL --resolution 80");
    refused(here, "film.mkv SMALL --resolution 64", 2, &["film_upscaled.mkv", "-y"]);
}

#[test]
fn kept_latents_become_other_films_of_the_same_frames() {
    let here = &film();
    let how = "--dtype f32 --progress none -q";
    let redecode = format!("redecode film.mkv kept.safetensors {how}");
    let vae = "--vae TESTDATA/nano.safetensors";
    let restore = format!("film.mkv SMALL --resolution 1x {how} --to 2");
    here.works(&format!("{restore} --keep-latents kept.safetensors -o first.y4m"));
    here.works(&format!("{redecode} {vae} --to 2.0 -o again.y4m"));
    assert!(bytes(here, "first.y4m") == bytes(here, "again.y4m"));
    // What a whole run with other settings gives.
    let other = "--color wavelet_adaptive --color-pool shot --strength 0.5";
    here.works(&format!("{restore} {other} -o other.y4m"));
    here.works(&format!("{redecode} {vae} --to 2 {other} -o fast.y4m"));
    assert!(bytes(here, "other.y4m") == bytes(here, "fast.y4m"));
    here.works(&format!("{redecode} {vae} --to 2 -o made.mkv"));
    let about = probe(&here.join("made.mkv"));
    assert_eq!(about["streams"][0]["nb_read_packets"], "48");
    assert_eq!(about["streams"][1]["codec_name"], "aac");
    // Other inputs, read otherwise, and other networks.
    let redecode = format!("{redecode} -o no.y4m");
    refused(here, &redecode, 3, &["--to 2", "no options", "use the same options"]);
    refused(here, &format!("{redecode} --to 2 --ss 0.5"), 3, &["--ss 0.5", "use the same options"]);
    refused(here, &format!("{redecode} --to 2 --vae formula:tiny"), 3, &["nano.safetensors", "formula:tiny"]);
    std::fs::copy(here.join("made.mkv"), here.join("film2.mkv")).unwrap();
    let elsewhere = redecode.replace("film.mkv", "film2.mkv");
    refused(here, &format!("{elsewhere} --to 2"), 3, &["film2.mkv", "input of the restoration"]);
    refused(here, &redecode.replace("kept.safetensors", "film.mkv"), 3, &["film.mkv"]);
    let decode = "vae decode kept.safetensors --weights TESTDATA/nano.safetensors -o no.mkv";
    refused(here, decode, 3, &["remaster redecode"]);
    refused(here, &format!("{restore} --keep-latents film.mkv -o no.y4m"), 2, &[".safetensors"]);
    let again = format!("{restore} --keep-latents kept.safetensors -o no.y4m");
    refused(here, &again, 2, &["kept.safetensors", "-y"]);
    assert!(!here.join("no.y4m").exists() && !here.join("no.mkv").exists());
}

/// A single frame: its end is known without reading further.
#[test]
fn alpha_of_a_still_is_kept_and_what_is_opaque_stays_so() {
    let here = &Desk::new();
    let cut = "testsrc2=s=64x48,format=rgba,geq=r='r(X,Y)':g='g(X,Y)':b='b(X,Y)':a='255*between(X,20,49)*between(Y,12,35)'";
    ffmpeg(here, &format!("-f lavfi -i {cut} -frames:v 1 -update 1 cut.png"));
    let full = "testsrc2=s=64x48:r=25,format=rgba";
    ffmpeg(here, &format!("-f lavfi -i {full} -frames:v 5 -c:v ffv1 -pix_fmt bgra full.mkv"));
    here.works("cut.png -o out.png --model identity --resolution 1x -q");
    here.works("full.mkv -o out.mkv --model identity --resolution 1x -q");
    // The least and the most of alpha in all frames.
    let range = |name: &str| {
        let filters = "format=rgba,alphaextract,format=gray";
        let bytes = ffmpeg(here, &format!("-i {name} -vf {filters} -f rawvideo -"));
        (*bytes.iter().min().unwrap(), *bytes.iter().max().unwrap())
    };
    assert_eq!(range("out.png"), (0, 255));
    assert_eq!(range("out.mkv"), (255, 255));
}

#[test]
fn sound_that_is_longer_than_the_picture_is_no_damage() {
    let here = &Desk::filmed(
        "-f lavfi -i testsrc2=s=64x48:r=25:d=0.8 -f lavfi -i sine=d=6 -c:v libx264 -c:a aac long.mkv",
    );
    here.works("long.mkv -o out.mkv --model identity --resolution 1x -q");
    let about = probe(&here.join("out.mkv"));
    assert_eq!(about["streams"][0]["nb_read_packets"], "20");
}

#[test]
fn budgets_lists_of_shots_and_pipes_give_the_same_frames() {
    let here = &film();
    let how =
        "--model formula:tiny-3b --resolution 48 --edges black --dtype f32 --window 9 --progress none -q";
    here.works(&format!("film.mkv {how} -o whole.y4m"));
    here.works("scenes film.mkv -o shots.json");
    here.works(&format!("restore film.mkv {how} --scenes shots.json --slice 4 --threads 1 -o shots.y4m"));
    ffmpeg(here, "-i film.mkv -strict -1 film.y4m");
    let mut pipe = plain(here, &format!("- {how} -o -"));
    let piped = pipe.stdin(std::fs::File::open(here.join("film.y4m")).unwrap()).output().unwrap();
    assert!(piped.status.success(), "{}", String::from_utf8_lossy(&piped.stderr));
    let whole = bytes(here, "whole.y4m");
    assert!(whole == bytes(here, "shots.y4m"), "another plan");
    here.works(&format!("film.y4m {how} -o raw.y4m"));
    assert!(piped.stdout == bytes(here, "raw.y4m"), "through a pipe");
    let other = here.works(&format!("film.mkv {how} --seed 7 -o other.y4m"));
    assert!(whole != bytes(here, "other.y4m"), "{}", other.stderr);
}

#[test]
fn a_part_of_a_film_and_filters_in_front() {
    let here = &film();
    here.works("film.mkv SMALL --resolution 1x -ss 0.5 -to 1 -vf crop=64:48:8:8 -o part.mkv -q");
    let about = probe(&here.join("part.mkv"));
    let video = &about["streams"][0];
    assert_eq!([&video["width"], &video["height"]], [64, 48]);
    assert_eq!(video["nb_read_packets"], "12");
}

#[test]
fn stills_folders_and_alpha() {
    let here = &Desk::filmed("-f lavfi -i testsrc2=s=50x38 -frames:v 1 -pix_fmt rgba still.png");
    here.works("still.png SMALL --resolution 2x -q");
    assert_eq!(probe(&here.join("still_upscaled.png"))["streams"][0]["width"], 100);
    let pictures = testdata("media/png16a");
    here.works(&format!("{} SMALL --resolution 64 --fps 25 -q -o pictures", pictures.display()));
    let made = probe(&here.join("pictures/f0001.png"));
    assert_eq!(made["streams"][0]["pix_fmt"], "rgba64be", "{made}");
    assert_eq!(names(&here.join("pictures")).len(), 3);
}

#[test]
fn pixels_become_square_unless_they_are_kept() {
    let here = &Desk::filmed("-f lavfi -i testsrc2=s=64x48:r=10:d=0.3,setsar=16/11 -c:v ffv1 wide.mkv");
    let size = |flags: &str| {
        here.works(&format!("wide.mkv SMALL --resolution 1x -y -q {flags}"));
        let video = probe(&here.join("wide_upscaled.mkv"))["streams"][0].clone();
        (video["width"].as_u64().unwrap(), video["sample_aspect_ratio"].as_str().unwrap_or("1:1").to_owned())
    };
    assert_eq!(size(""), (94, "1:1".into()));
    assert_eq!(size("--keep-sar"), (64, "16:11".into()));
}

#[test]
fn words_of_another_tool_are_understood() {
    let here = &Desk::filmed("-f lavfi -i testsrc2=s=48x32:r=10:d=0.6 in.mkv");
    let out = here.works(
        "in.mkv --output out.mkv --dit_model TESTDATA/nano_dit.safetensors --vae TESTDATA/nano.safetensors \
         --resolution 32 --batch_size 5 --color_correction wavelet --blocks_to_swap 16 --vae_decode_tiled --10bit",
    );
    let said = out.stderr;
    assert_eq!(said.matches("warning:").count(), 1, "{said}");
    assert!(said.contains("--blocks_to_swap, --vae_decode_tiled"), "{said}");
    assert_eq!(probe(&here.join("out.mkv"))["streams"][0]["pix_fmt"], "yuv420p10le");
    here.works(
        "in.mkv -o batches.mkv SMALL --resolution 32 --compat numz --batch_size 5 --temporal_overlap 3 -q",
    );
    assert_eq!(probe(&here.join("batches.mkv"))["streams"][0]["nb_read_packets"], "6");
}

#[test]
fn what_cannot_work_is_refused_before_the_work() {
    let here = &Desk::filmed("-f lavfi -i testsrc2=s=48x32:r=10:d=0.4 in.mkv");
    refused(here, "in.mkv --model-dir .", 3, &["remaster models pull 3b", "GiB"]);
    refused(here, "in.mkv SMALL --strength 1.5", 2, &["0 to 1"]);
    refused(here, "in.mkv SMALL --window 0", 2, &["1 to 297"]);
    refused(here, "in.mkv SMALL --color sepia", 2, &["lab", "wavelet"]);
    refused(here, "- SMALL", 2, &["-o"]);
    refused(here, "in.mkv SMALL -o in.mkv -y", 2, &["same file"]);
    refused(here, "in.mkv SMALL --scenes missing.json", 3, &["missing.json"]);
    here.put("bad.json", "{\"starts\": [5, 3]}");
    refused(here, "in.mkv SMALL --scenes bad.json", 3, &["bad.json"]);
    refused(here, "in.mkv SMALL --ram 20M", 4, &["--ram"]);
    refused(here, "nothing.mkv SMALL", 3, &["nothing.mkv"]);
    // What is missing is named, not what is looked at next.
    refused(here, "nothing.mkv --model-dir .", 3, &["nothing.mkv"]);
    refused(here, "in.mkv --model nothing.safetensors --model-dir .", 3, &["nothing.safetensors"]);
    refused(
        here,
        "in.mkv --model TESTDATA/nano_dit.safetensors --vae identity",
        2,
        &["channels", "identity"],
    );
    refused(here, "in.mkv SMALL --load_cap 10", 2, &["--load_cap", "--ss"]);
    refused(here, "in.mkv SMALL --lossless -o out.mp4", 2, &[".mkv"]);
    here.put("empty.y4m", "YUV4MPEG2 W16 H16 F25:1 C420\n");
    refused(here, "empty.y4m SMALL -o out.mkv", 3, &["no frames"]);
    remove(here, "empty.y4m");
    // Hashes of the models are in the cache.
    assert_eq!(names(here), ["bad.json", "cache", "in.mkv"]);
}

#[test]
fn a_restoration_is_planned_without_models() {
    let here = &film();
    let plan = here.json("plan film.mkv --json --model-dir . --device cpu");
    let plans = plan["plans"].as_array().unwrap();
    assert!(plans.iter().map(|p| &p["job"]["network"]["name"]).eq(["encode", "dit", "decode"]), "{plan}");
    assert_eq!(plan["geometry"]["shown"], serde_json::json!([1620, 1080]));
    // A time, and what it rests on.
    assert!(plan["seconds_per_frame"].as_f64().unwrap() > 1.0, "{}", plan["seconds_per_frame"]);
    assert_eq!(plan["basis"], "calibrated");
    let said = here.works("plan film.mkv --model-dir . --device cpu").stdout;
    assert!(said.contains("about ") && said.contains("estimated from a"), "{said}");
    for word in ["TFLOP", "formula", "tokens"] {
        assert!(!said.contains(word), "{word} in {said}");
    }
}

/// A film that is passed through takes the memory of its frames, and no network's.
#[test]
fn a_film_without_a_network_is_planned_for_its_frames_alone() {
    let here =
        &Desk::filmed("-f lavfi -i testsrc2=s=1920x1080:r=25:d=0.2 -c:v libx264 -pix_fmt yuv420p hd.mkv");
    let plan = here.json("plan hd.mkv --model identity --resolution 1x --json");
    assert_eq!((&plan["plans"], plan.get("vae")), (&serde_json::json!([]), None), "{plan}");
    assert_eq!(plan["total"]["network_bytes"], 0);
    assert!(plan["total"]["ram_bytes"].as_u64().unwrap() < 2 << 30, "{plan}");
    let said = here.works("plan hd.mkv --model identity --resolution 1x -v").stdout;
    assert!(!said.contains("VAE") && !said.contains("encode"), "{said}");
    here.works("hd.mkv -o out.mkv --model identity --resolution 1x --ram 1200M");
    refused(
        here,
        "hd.mkv -o no.mkv --model identity --resolution 1x --ram 100M",
        4,
        &["--ram", "or smaller"],
    );
    refused(here, "hd.mkv -o no.mkv --model identity --seed 1", 2, &["--seed"]);
}

/// A VAE without a transformer is a network.
#[test]
fn identity_with_a_vae_goes_through_that_vae() {
    let here = &film();
    let plan =
        here.json("plan film.mkv --model identity --vae formula:tiny --resolution 1x --json --device cpu");
    let names =
        plan["plans"].as_array().unwrap().iter().map(|p| p["job"]["network"]["name"].as_str().unwrap());
    assert_eq!(names.count(), 3, "{plan}");
    assert_eq!(plan["vae"], "formula:tiny");
}
