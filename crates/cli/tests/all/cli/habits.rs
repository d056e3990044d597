//! What people type by habit, in the environment and by mistake, and what they are told.

use super::*;

/// A folder with a small y4m clip, an image, a folder of videos and a subtitle file.
fn films() -> Desk {
    let desk = desk();
    let mut clip = b"YUV4MPEG2 W64 H48 F25:1 C444\n".to_vec();
    for frame in 0..5 {
        clip.extend_from_slice(b"FRAME\n");
        clip.extend(std::iter::repeat_n(40 + frame, 64 * 48 * 3));
    }
    desk.put("film.y4m", &clip);
    desk.put("photo.png", picture(32, 32, png::ColorType::Rgb));
    desk.put("many/one.mkv", "video");
    desk.put(
        "words.srt",
        "1\n00:00:01,000 --> 00:00:02,000\nHello\n\n2\n00:00:03,000 --> 00:00:04,000\nWorld\n",
    );
    desk
}

#[test]
fn habits_of_other_tools_are_answered_with_what_to_type() {
    let desk = films();
    for (line, words) in [
        ("-i film.y4m", "there is no option -i; name the input without an option"),
        ("film.y4m out.mp4", "name the output with -o out.mp4; for several films use `remaster batch`"),
        ("film.y4m --scale 2", "there is no option --scale; use --resolution 2x"),
        ("film.y4m --modle anime", "there is no option --modle; did you mean --model?"),
        ("film.y4m --modle=anime", "did you mean --model?"),
        ("film.y4m --nonsense", "there is no option --nonsense; `remaster restore --help` lists the options"),
        ("film.y4m -c:v libx265", "there is no option -c; encoders go into --video"),
        ("film.y4m -preset slow", "encoder options go into --video"),
        ("film.y4m --gpu 0", "use --device, with a name from `remaster devices`, such as vulkan:0"),
        ("film.y4m --device cuda:0", "there is no device `cuda:0`"),
        ("film.y4m --device 0", "a name that `remaster devices` lists, such as vulkan:0"),
        ("film.y4m --model nao", "unknown model \"nao\": use 3b, 7b, 7b-sharp, anime or a file"),
        ("film.y4m --overwrite", "use -y"),
        ("film.y4m --seed -1", "--seed takes no number below 0"),
        ("film.y4m --resolution 2", "for a factor, write 2x"),
        (
            "https://example.com/a.mp4",
            "URLs cannot be read; download the film first: https://example.com/a.mp4",
        ),
        ("plan https://example.com/a.mp4", "URLs cannot be read"),
        ("probe s3://films/a.mp4", "URLs cannot be read"),
        ("many", "many is a folder of videos; to restore them, use `remaster batch many`"),
        ("plan many", "`remaster batch many`"),
        ("doctr", "`doctr` is neither a command nor a file; did you mean `remaster doctor`?"),
        ("film", "`film` is neither a command nor a file; `remaster -h` lists the commands"),
        (
            "film.y4m -o out.mkv SMALL --resolution 1x --crf 52",
            "--crf 52 is out of range for libx264; use 0 to 51",
        ),
        ("film.y4m -o out.mkv --crf 64", "--crf"),
        ("film.y4m -o out.mkv --lossless --crf 3", "--crf"),
        ("photo.png SMALL --crf 18", "--crf has no effect on images"),
    ] {
        for json in [false, true] {
            let run = desk.run(&if json { format!("{line} --json") } else { line.to_owned() });
            run.ends(2, &[words]);
            if json {
                assert!(run.json()["kind"].is_string(), "{line}: {}", run.stdout);
            }
        }
    }
    desk.run("probe words.srt").ends(3, &["words.srt is a subtitle file, not a video"]);
}

#[test]
fn a_network_that_is_no_longer_inside_is_answered_with_the_one_that_is() {
    let desk = films();
    let said = "error: nano is no longer part of the program; anime took its place: use --model anime\n";
    for line in [
        "film.y4m -o out.y4m --model nano",
        "film.y4m -o out.y4m --model formula:tiny-3b --vae nano",
        "plan film.y4m --model nano",
        "plan film.y4m --weights nano",
        "preview film.y4m --model nano",
        "vae roundtrip film.y4m -o out.y4m --weights nano",
        "bench dit --weights nano",
    ] {
        let run = desk.run(line);
        assert_eq!((run.code, run.stderr.as_str()), (Some(2), said), "{line}");
        let told = desk.run(&format!("{line} --json")).json();
        assert_eq!(told["kind"], "removed-model", "{line}: {told}");
    }
    desk.run("batch film.y4m --model nano").ends(3, &["anime took its place"]);
    desk.run("film.y4m -o out.y4m --model NANO").ends(2, &["NANO is no longer part", "--model anime"]);
    assert!(!desk.join("out.y4m").exists());
    // A file of that name is a file.
    std::fs::copy(testdata("nano_dit.safetensors"), desk.join("nano")).unwrap();
    desk.works("film.y4m -o out.y4m --model ./nano --vae TESTDATA/nano.safetensors --resolution 1x");
}

#[test]
fn names_of_models_may_be_typed_in_capitals() {
    let desk = films();
    fs::create_dir(desk.join("models")).unwrap();
    for model in ["3B", "7b-Sharp"] {
        let run = desk.run(&format!("film.y4m -o out.y4m --model {model} --model-dir models"));
        run.ends(3, &["model is installed", "remaster models pull", "--model anime", "a file with --model"]);
    }
    desk.works("plan photo.png --model ANIME --device cpu");
}

#[test]
fn the_environment_sets_options_and_what_is_typed_wins() {
    let desk = films();
    let planned = |variables: &[(&str, &str)], line: &str| {
        let mut command = desk.command(line);
        let run = Run::of(command.envs(variables.iter().copied()).args(["--device", "cpu", "--json"]));
        let document = run.ends(0, &[]).json();
        let size = document["geometry"]["shown"].clone();
        (document["model"].as_str().unwrap().to_owned(), size, run.stderr)
    };
    let anime = [("REMASTER_MODEL", "anime"), ("REMASTER_RESOLUTION", "2x")];
    let (model, size, said) = planned(&anime, "plan photo.png");
    assert_eq!((model.as_str(), size, said.as_str()), ("anime", serde_json::json!([64, 64]), ""));
    let (_, size, _) = planned(&anime, "plan photo.png --resolution 3x");
    assert_eq!(size, serde_json::json!([96, 96]));
    // The environment wins over the config file.
    desk.put("remaster/config.toml", "model = \"formula:tiny-3b\"\nresolution = \"1x\"\n");
    let (model, size, _) = planned(&anime[1..], "plan photo.png");
    assert_eq!((model.as_str(), size), ("formula:tiny-3b", serde_json::json!([64, 64])));
    let (model, ..) = planned(&[("REMASTER_MODEL", "")], "plan photo.png");
    assert_eq!(model, "formula:tiny-3b");
    // One that is mistyped is said once, and one that is wrong is named.
    let (.., said) = planned(&[("REMASTER_MODLE", "anime")], "plan photo.png");
    assert_eq!(said, "warning: the variable REMASTER_MODLE is not used; did you mean REMASTER_MODEL?\n");
    let wrong = Run::of(desk.command("plan photo.png").env("REMASTER_RESOLUTION", "big"));
    let said = &wrong.ends(2, &["`big` is not"]).stderr;
    assert!(said.starts_with("error: REMASTER_RESOLUTION: "), "{said}");
    // Commands without the option do not mind.
    Run::of(desk.command("devices").env("REMASTER_RESOLUTION", "big")).ends(0, &[]);
}

#[test]
fn with_json_lines_a_warning_before_the_work_is_one_too() {
    let desk = films();
    let mut command = desk.command("film.y4m -o out.y4m SMALL --resolution 1x --progress json");
    let run = Run::of(command.env("REMASTER_MODLE", "anime"));
    let lines = run.ends(0, &[]).stderr.lines().map(|line| serde_json::from_str(line).unwrap());
    let lines: Vec<Value> = lines.collect();
    assert_eq!(lines[0]["event"], "warning", "{}", run.stderr);
}
