//! `remaster vae` on images and tensors, and `plan`.

use super::*;

const TINY: &str = "--weights formula:tiny";

#[test]
fn a_still_of_any_size_goes_through_and_keeps_its_size_and_depth() {
    let desk = desk();
    desk.put("in.png", picture(23, 17, png::ColorType::Rgb));
    let json = desk.json(&format!("vae roundtrip in.png -o out.png {TINY} --json"));
    assert_eq!(json["frames"], 1);
    assert_eq!(json["geometry"]["shown"], serde_json::json!([23, 17]));
    assert_eq!(json["geometry"]["padded"], serde_json::json!([48, 48]));
    assert_eq!(json["summary"]["phases"][0]["phase"], "encode");
    let file = std::io::BufReader::new(fs::File::open(desk.join("out.png")).unwrap());
    let reader = png::Decoder::new(file).read_info().unwrap();
    let info = reader.info();
    assert_eq!((info.width, info.height, info.bit_depth), (23, 17, png::BitDepth::Eight));
    assert_eq!(desk.names(), ["in.png", "out.png"]);
}

#[test]
fn encode_then_decode_is_the_round_trip_to_the_bit() {
    let desk = desk();
    frames(&desk, "in.safetensors", 5, 16, 24);
    desk.works(&format!("vae encode in.safetensors -o z.safetensors {TINY}"));
    let z = &read_tensors(&desk.join("z.safetensors")).unwrap()[0];
    assert_eq!((z.name.as_str(), &z.shape[..]), ("latent", &[1, 16, 2, 2, 3][..]));
    desk.works(&format!("vae decode z.safetensors -o two.safetensors {TINY}"));
    desk.works(&format!("vae roundtrip in.safetensors -o one.safetensors {TINY}"));
    assert!(bytes(&desk, "one.safetensors") == bytes(&desk, "two.safetensors"));
}

#[test]
fn slices_and_threads_change_no_byte_of_the_result() {
    let desk = desk();
    frames(&desk, "in.safetensors", 13, 16, 24);
    for (out, flags) in [("whole", "--slice 0"), ("cut", "--slice 4"), ("one", "--slice 8 --threads 1")] {
        desk.works(&format!("vae roundtrip in.safetensors -o {out}.safetensors {TINY} {flags}"));
    }
    let whole = bytes(&desk, "whole.safetensors");
    for other in ["cut", "one"] {
        assert!(bytes(&desk, &format!("{other}.safetensors")) == whole, "{other}");
    }
}

#[test]
fn a_checkpoint_gives_what_its_formula_gives() {
    let desk = desk();
    desk.put("in.png", picture(16, 8, png::ColorType::Grayscale));
    desk.tensors("tiny.weights", &tiny_weights());
    desk.works("vae encode in.png -o file.safetensors --weights tiny.weights");
    desk.works(&format!("vae encode in.png -o formula.safetensors {TINY}"));
    // The headers name different networks.
    let latents = |name: &str| {
        let file = bytes(&desk, name);
        let header = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
        file[8 + header..].to_vec()
    };
    assert!(latents("file.safetensors") == latents("formula.safetensors"));
}

#[test]
fn an_existing_file_is_only_replaced_when_asked_to() {
    let desk = desk();
    desk.put("in.png", picture(16, 8, png::ColorType::Rgb));
    desk.put("out.png", "precious");
    let line = format!("vae roundtrip in.png -o out.png {TINY}");
    desk.run(&line).ends(2, &["out.png", "-y"]);
    assert_eq!(bytes(&desk, "out.png"), b"precious");
    desk.works(&format!("{line} -y"));
    assert!(bytes(&desk, "out.png").starts_with(b"\x89PNG"));
}

#[test]
fn wrong_sizes_are_named_with_sizes_that_would_do() {
    let desk = desk();
    frames(&desk, "six.safetensors", 6, 16, 16);
    frames(&desk, "clip.safetensors", 5, 16, 16);
    let json = desk
        .run(&format!("vae encode six.safetensors -o out.safetensors {TINY} --json"))
        .ends(3, &["six.safetensors", "6 frames", "use 5 or 9"])
        .json();
    assert_eq!(json["exit_code"], 3);
    assert!(json["error"].as_str().unwrap().contains("6 frames"));
    for (flags, words) in [
        ("--slice 6", ["6 frames", "use 8"]),
        ("--mode blend --tile 64 --overlap 64", ["tiles of 64", "overlap"]),
        ("--mode whole --stripes 3", ["--stripes", "exact"]),
        ("--vram 4G", ["cpu", "--ram"]),
        ("--ram 8X", ["8X", "80%"]),
    ] {
        desk.run(&format!("vae encode clip.safetensors -o out.safetensors {TINY} {flags}")).ends(2, &words);
    }
    assert_eq!(desk.names(), ["clip.safetensors", "six.safetensors"]);
}

#[test]
fn a_small_budget_takes_another_plan_and_gives_the_same_bytes_or_says_what_would_do() {
    let desk = desk();
    frames(&desk, "in.safetensors", 9, 64, 64);
    let line = |out: &str, flags: &str| format!("vae encode in.safetensors -o {out} {TINY} --json {flags}");
    assert!(desk.json(&line("whole.safetensors", ""))["phases"][0]["plan"]["how"]["mode"] == "whole");
    for (out, flags) in [
        ("one.safetensors", "--ram 100M"),
        ("two.safetensors", "--stripes 5"),
        ("three.safetensors", "--mode exact --slice 4"),
    ] {
        let phase = &desk.json(&line(out, flags))["phases"][0];
        assert!(phase["peak_bytes"].as_u64() <= phase["planned_bytes"].as_u64());
        assert_eq!(bytes(&desk, out), bytes(&desk, "whole.safetensors"));
    }
    let refused = desk.run(&line("none.safetensors", "--ram 70M"));
    refused.ends(4, &["not enough memory", "it needs at least --ram"]);
    assert!(!desk.join("none.safetensors").exists());
}

#[test]
fn devices_are_a_document_and_gpus_have_a_memory() {
    let json = desk().json("devices --json");
    let devices = json["devices"].as_array().unwrap();
    assert!(devices.iter().any(|d| d["device"] == "cpu" && d["usable"] == true));
    for gpu in devices.iter().filter(|d| d["device"].as_str().unwrap().starts_with("vulkan")) {
        let memory = &gpu["memory"];
        let free = memory["free_bytes"].as_u64();
        assert!(memory["bytes"].as_u64().unwrap() > 0 && free.is_none_or(|f| f > 0), "{gpu}");
        assert_eq!(memory["shared"], gpu["kind"] == "software" || gpu["kind"] == "integrated");
    }
}

/// On the first GPU of this machine, a software one included.
#[cfg(feature = "gpu")]
#[test]
fn a_gpu_is_examined_stage_by_stage() {
    let desk = desk();
    let found = desk.run("devices --json").json();
    if !found["devices"].as_array().unwrap().iter().any(|d| d["device"] == "vulkan:0") {
        no_gpu("a_gpu_is_examined_stage_by_stage");
        return;
    }
    goldens(&desk, &["tiny_mod_conv", "tiny_image_64x64"]);
    let json = desk.json("doctor --device vulkan:0 --goldens goldens --json");
    let checks = json["checks"].as_array().unwrap();
    let kernels = checks.iter().find(|check| check["name"] == "kernels").unwrap();
    assert_eq!(kernels["ok"], true, "{kernels}");
    assert!(kernels["text"].as_str().unwrap().contains("the same bits twice"), "{kernels}");
    assert_eq!((json["passed"].as_bool(), json["backend"].as_str()), (Some(true), Some("gpu")));
    let stages = json["stages"].as_array().unwrap();
    assert_eq!(stages.len(), 18 + 4);
    assert!(stages.iter().all(|s| s["max_abs"].as_f64().unwrap() <= 5e-5), "{json}");
}

#[test]
fn a_plan_is_a_document_and_a_refusal_names_a_budget() {
    let desk = desk();
    let json =
        desk.json("plan --network decode --height 1088 --width 1920 --dtype bf16 --vram 6G --ram 32G --json");
    assert!(json["peaks"]["device"].as_u64().unwrap() <= 6 << 30);
    assert!(json["how"]["mode"]["exact"]["stripes"].as_u64().unwrap() > 1);
    assert_eq!(json["version"], 2);
    desk.run("plan --network decode --height 1088 --width 1920 --vram 100M")
        .ends(4, &["it needs at least --vram"]);
    desk.run("plan --network encode --height 64 --width 64 --vram 10%").ends(2, &["--vram", "8G"]);
}

#[test]
fn files_that_are_no_frames_are_named_and_leave_nothing_behind() {
    let desk = desk();
    let whole = picture(64, 48, png::ColorType::Rgb);
    desk.put("cut.png", &whole[..whole.len() / 2]);
    desk.put("head.png", &whole[..8]);
    desk.put("empty.png", "");
    desk.put("page.png", "<!DOCTYPE html><html><body>404</body></html>");
    desk.put("photo.jpg", [0xff, 0xd8, 0xff, 0xe0, 0, 16, b'J', b'F', b'I', b'F', 0, 1]);
    desk.tensor("other.safetensors", "y", &[2], vec![0.0; 2]);
    fs::create_dir(desk.join("nothing")).unwrap();
    let before = desk.names();
    for (input, words) in [
        ("nowhere.png", ["nowhere.png", "cannot"]),
        ("empty.png", ["empty.png", "get it again"]),
        ("page.png", ["page.png", "get it again"]),
        ("cut.png", ["cut.png", "get it again"]),
        ("head.png", ["head.png", "get it again"]),
        ("photo.jpg", ["photo.jpg", "get it again"]),
        ("other.safetensors", ["no tensor `x`", "found `y` [2]"]),
        ("nothing", ["nothing", "without a PNG"]),
    ] {
        let run = desk.run(&format!("vae encode {input} -o out.safetensors {TINY} --json"));
        run.ends(3, &words);
        assert_eq!(run.json()["exit_code"], 3);
    }
    assert_eq!(desk.names(), before);
}

#[test]
fn a_picture_that_claims_more_than_it_holds_asks_for_no_memory() {
    let desk = desk();
    let mut bytes = picture(16, 16, png::ColorType::Rgb);
    // Width and height of the header, then its checksum.
    bytes[16..24].copy_from_slice(&[0x00, 0x00, 0x08, 0x00, 0x7f, 0xff, 0xff, 0xf8]);
    let crc = remaster_testkit::hostile::crc32(&bytes[12..29]);
    bytes[29..33].copy_from_slice(&crc.to_be_bytes());
    desk.put("bomb.png", bytes);
    desk.run(&format!("vae encode bomb.png -o out.safetensors {TINY}")).ends(3, &["2048 x 2147483640"]);
}

#[test]
fn latents_of_no_size_are_refused() {
    let desk = desk();
    for shape in [[1, 16, 0, 2, 2], [1, 16, 1, 0, 2], [1, 16, 0, 1u64 << 60, 1 << 60]] {
        // By hand: the writer would refuse the last shape.
        let json = format!("{{\"latent\":{{\"dtype\":\"F32\",\"shape\":{shape:?},\"data_offsets\":[0,0]}}}}");
        let mut bytes = (json.len() as u64).to_le_bytes().to_vec();
        bytes.extend(json.as_bytes());
        desk.put("z.safetensors", bytes);
        desk.run(&format!("vae decode z.safetensors -o out.safetensors {TINY}")).ends(3, &["z.safetensors"]);
    }
}

#[test]
fn an_output_that_cannot_hold_the_result_is_refused_before_the_work() {
    let desk = desk();
    desk.put("in.png", picture(16, 8, png::ColorType::Rgb));
    frames(&desk, "clip.safetensors", 5, 8, 8);
    desk.tensor("z.safetensors", "latent", &[1, 16, 2, 1, 1], vec![0.0; 32]);
    let before = desk.names();
    for (line, words) in [
        ("encode in.png -o z.png", ["z.png", "ends in .safetensors"]),
        ("roundtrip clip.safetensors -o out.png", ["out.png", "ends in .safetensors"]),
        ("decode z.safetensors -o out.png", ["out.png", "ends in .safetensors"]),
        ("roundtrip clip.safetensors -o out.safetensors --lossless", ["--lossless", "tensors"]),
    ] {
        desk.run(&format!("vae {line} {TINY}")).ends(2, &words);
    }
    for (from, out) in [("in.png", "nowhere/out.png"), ("clip.safetensors", "nowhere/out.safetensors")] {
        desk.run(&format!("vae roundtrip {from} -o {out} {TINY}")).ends(3, &["cannot write", out]);
    }
    assert_eq!(desk.names(), before);
}

#[test]
fn weights_that_are_none_are_refused() {
    let desk = desk();
    desk.put("in.png", picture(16, 8, png::ColorType::Rgb));
    desk.put("weights.pth", b"PK\x03\x04\0\0\0\0archive/data.pkl");
    let mut tensors = tiny_weights();
    tensors.retain(|t| t.name != "decoder.conv_in.bias");
    desk.tensors("part.safetensors", &tensors);
    for (word, code, said) in [
        ("formula:huge", 2, "formula:tiny or formula:full"),
        ("nowhere.safetensors", 3, "nowhere.safetensors"),
        ("weights.pth", 3, "PyTorch pickle"),
        ("in.png", 3, "not a checkpoint"),
        ("part.safetensors", 3, "decoder.conv_in.bias"),
    ] {
        let run = desk.run(&format!("vae encode in.png -o out.safetensors --weights {word} --json"));
        run.ends(code, &[said]);
        assert_eq!(run.json()["exit_code"], code);
    }
    assert_eq!(desk.names(), ["in.png", "part.safetensors", "weights.pth"]);
}

#[test]
fn a_plan_for_a_file_names_sizes_memory_disk_and_time() {
    let desk = Desk::new();
    desk.put("in.png", picture(40, 24, png::ColorType::Rgb));
    desk.tensors("tiny.weights", &tiny_weights());
    let text = desk.works("plan in.png --weights tiny.weights --resolution 2x");
    let words = ["in.png: 1 frame, 80 x 48", "encode ", "decode ", "disk ", "--ram ", "time ", "about "];
    says(&text.stdout, &words);
    assert!(!desk.join("cache").exists(), "a plan measures nothing that is kept");
    let json = desk.run("plan in.png --weights tiny.weights --json").json();
    assert_eq!(json["plans"].as_array().unwrap().len(), 2);
    assert_eq!(json["geometry"]["shown"], serde_json::json!([40, 24]));
    assert_eq!(json["source"]["frames"], 1);
    let time = &json["time"];
    assert!(time["seconds"].as_f64().unwrap() > 0.0);
    assert!(["recorded", "calibrated"].contains(&time["basis"].as_str().unwrap()), "{time}");
    desk.run("plan -").ends(2, &["--network"]);
    desk.run("plan in.png --network decode --height 8 --width 8").ends(2, &["--network"]);
    desk.run("plan in.png --weights identity").ends(2, &["identity"]);
    desk.run("plan nowhere.mp4").ends(3, &["nowhere.mp4"]);
    desk.run("plan --network decode --height 64 --width 64 --fps 25").ends(2, &["--fps has no effect"]);
}
