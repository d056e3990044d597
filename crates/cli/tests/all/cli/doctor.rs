//! `remaster doctor`.

use super::*;

const SMALL: [&str; 3] = ["tiny_mod_gaussian", "tiny_mod_norm", "tiny_sliced_21x16x24"];

#[test]
fn goldens_of_a_folder_pass_and_every_comparison_is_listed() {
    let desk = desk();
    goldens(&desk, &SMALL);
    desk.put("goldens/README.txt", "not a golden");
    let run = desk.works("doctor --goldens goldens --json -v");
    let json = run.json();
    assert_eq!(json["passed"], true);
    assert_eq!(json["backend"], "cpu");
    assert_eq!(json["dtype"], "f32");
    assert_eq!(json["tolerance"], 5e-5);
    let stages = json["stages"].as_array().unwrap();
    assert_eq!(stages.len(), 4 + 6 + 4);
    for stage in stages {
        assert!(SMALL.contains(&stage["golden"].as_str().unwrap()));
        assert!(stage["stage"].is_string() && stage["passed"] == true);
        assert!(stage["max_abs"].as_f64().unwrap() <= 5e-5);
    }
    assert!(run.stderr.contains("running tiny_mod_norm"), "words for people go to stderr");
}

#[test]
fn one_file_text_and_markdown_say_the_same() {
    let desk = desk();
    goldens(&desk, &SMALL[..1]);
    let text = desk.works("doctor --goldens goldens/tiny_mod_gaussian.safetensors");
    assert!(text.stdout.contains("4 comparisons with the original in f32"), "{}", text.stdout);
    assert!(text.stdout.lines().count() <= 10, "{}", text.stdout);
    for check in ["device", "driver", "ffmpeg", "encoders", "models", "disk", "memory", "numbers"] {
        let of = |l: &&str| l.split_whitespace().nth(1) == Some(check);
        assert_eq!(text.stdout.lines().filter(of).count(), 1, "{check}: {}", text.stdout);
    }
    let all = desk.works("doctor --goldens goldens -v");
    assert_eq!(all.stdout.lines().filter(|l| l.starts_with("pass ")).count(), 4, "{}", all.stdout);
    let table = desk.works("doctor --goldens goldens --markdown");
    assert_eq!(table.stdout.lines().filter(|l| l.starts_with("| tiny_mod_gaussian |")).count(), 4);
}

#[test]
fn sixteen_bit_storage_is_judged_by_its_noise() {
    let desk = desk();
    goldens(&desk, &SMALL[2..]);
    for dtype in ["bf16", "f16"] {
        let json = desk.json(&format!("doctor --goldens goldens --json --dtype {dtype}"));
        assert_eq!(json["dtype"], dtype);
        assert!(json["stages"][0]["max_abs"].as_f64().unwrap() > 5e-5, "it is not f32");
    }
}

#[test]
fn a_wrong_number_ends_with_6_and_one_document_that_says_where() {
    let desk = desk();
    goldens(&desk, &SMALL[..2]);
    let path = desk.join("goldens/tiny_mod_norm.safetensors");
    let mut tensors = read_tensors(&path).unwrap();
    let wrong = tensors.iter_mut().find(|t| t.name == "encoder.conv_norm_out/out").unwrap();
    wrong.data[7] += 1e-3;
    write_tensors(&path, &tensors, &BTreeMap::new()).unwrap();

    let json = desk.run("doctor --goldens goldens --json").ends(6, &["1 of 10 comparisons"]).json();
    assert_eq!(json["passed"], false);
    let failed: Vec<&Value> =
        json["stages"].as_array().unwrap().iter().filter(|s| s["passed"] == false).collect();
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0]["stage"], "encoder.conv_norm_out/out");
    desk.run("doctor --goldens goldens").ends(6, &["1 of 10"]);
}

#[test]
fn a_folder_without_goldens_and_goldens_without_sense_are_bad_input() {
    let desk = desk();
    desk.run("doctor --goldens nowhere").ends(3, &["nowhere"]);
    fs::create_dir(desk.join("empty")).unwrap();
    desk.run("doctor --goldens empty").ends(3, &["no golden files in empty"]);

    let tensor = |name: &str, shape: &[usize]| NamedTensor {
        name: name.into(),
        shape: shape.to_vec(),
        data: vec![0.5; shape.iter().product()],
    };
    let norm = "encoder.conv_norm_out";
    for (name, tensors) in [
        ("tiny_mod_nothing", vec![tensor("unknown", &[1])]),
        ("tiny_mod_rank", vec![tensor(&format!("{norm}/in"), &[1]), tensor(&format!("{norm}/out"), &[1])]),
        ("tiny_mod_odd", ["params", "noise"].map(|n| tensor(n, &[1, 3, 1, 2, 2])).to_vec()),
        // More frames in the slices than there are in the input.
        (
            "tiny_mod_long",
            [("in", 2), ("out", 2), ("out_slice0", 2), ("out_slice1", 1)]
                .map(|(n, t)| tensor(&format!("{norm}/{n}"), &[1, 64, t, 2, 2]))
                .to_vec(),
        ),
        ("tiny_image_none", vec![tensor("x", &[1, 3, 0, 8, 8]), tensor("z", &[1, 16, 0, 1, 1])]),
    ] {
        desk.tensors(&format!("{name}.safetensors"), &tensors);
        desk.run(&format!("doctor --goldens {name}.safetensors")).ends(3, &[name]);
    }
}
