//! What a file says reaches ffmpeg as numbers and known words only.

use super::*;

/// The latent file `from` with other words about its clip.
fn rewrite(desk: &Desk, from: &str, to: &str, change: impl FnOnce(&mut Value)) {
    let bytes = bytes(desk, from);
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let mut header: Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    let text = header["__metadata__"]["remaster"].as_str().unwrap();
    let mut about: Value = serde_json::from_str(text).unwrap();
    change(&mut about);
    header["__metadata__"]["remaster"] = about.to_string().into();
    // With the hash that a writer would give it.
    let data = |name: &str| {
        let offset = |n: usize| header[name]["data_offsets"][n].as_u64().unwrap() as usize;
        bytes[8 + length + offset(0)..8 + length + offset(1)].to_vec()
    };
    let parts = ["pts", "shots", "sums"].into_iter().filter(|name| header.get(name).is_some()).flat_map(data);
    let sealed: Vec<u8> = about.to_string().into_bytes().into_iter().chain(parts).collect();
    header["__metadata__"]["sha256"] = remaster_weights::sha256_of_bytes(&sealed).to_string().into();
    let mut text = serde_json::to_vec(&header).unwrap();
    text.resize(length, b' ');
    let whole = [&(length as u64).to_le_bytes()[..], &text, &bytes[8 + length..]].concat();
    fs::write(desk.join(to), whole).unwrap();
}

#[test]
fn words_of_a_latent_file_do_not_become_options_of_an_encoder() {
    let desk = desk();
    let clip = testdata("media/hdr10_hevc10.mp4").display().to_string();
    desk.works(&format!("vae encode {clip} -o z.safetensors --hdr keep {IDENTITY}"));
    desk.put("victim", "precious");
    let victim = desk.join("victim").display().to_string();
    let display = "G(13250,34500)B(7500,3000)R(34000,16000)WP(15635,16450)L(10000000,1)";
    let attack = format!("{display}:pass=1:stats={victim}");
    let option = format!("bt709 -y {victim}");
    let attacks: [(&str, Value); 8] = [
        ("/hdr/master_display", attack.into()),
        ("/hdr/master_display", format!("{display}\n").into()),
        ("/hdr/light_level", serde_json::json!([70000, 1])),
        ("/colour/transfer/value", option.clone().into()),
        ("/colour/primaries/value", option.into()),
        ("/colour/range/value", "pc:stats=x".into()),
        ("/colour/siting/value", "".into()),
        ("/samples", format!("yuv420p10le:{victim}").into()),
    ];
    for (place, value) in attacks {
        rewrite(&desk, "z.safetensors", "bad.safetensors", |about| {
            *about.pointer_mut(place).unwrap() = value.clone();
        });
        let run = desk.run(&format!("vae decode bad.safetensors -o out.mkv {IDENTITY}"));
        run.ends(3, &["bad.safetensors"]);
        assert_eq!(fs::read_to_string(desk.join("victim")).unwrap(), "precious", "{place}");
        assert_eq!(desk.names(), ["bad.safetensors", "victim", "z.safetensors"], "{place}");
    }
    // Honest numbers arrive.
    rewrite(&desk, "z.safetensors", "good.safetensors", |about| {
        *about.pointer_mut("/hdr/master_display").unwrap() = display.into();
        *about.pointer_mut("/hdr/light_level").unwrap() = serde_json::json!([1000, 400]);
    });
    desk.works(&format!("vae decode good.safetensors -o out.mkv {IDENTITY}"));
    let json = desk.run("probe out.mkv --json").json();
    assert_eq!(json["video"]["hdr"]["master_display"], display);
    assert_eq!(json["video"]["hdr"]["light_level"], serde_json::json!([1000, 400]));
}

#[test]
fn transfer_curves_that_ffmpeg_calls_by_two_names_are_kept() {
    let desk = desk();
    ffmpeg(
        &desk,
        "-f lavfi -i testsrc2=s=64x48:d=0.2 -c:v mpeg2video -bsf:v mpeg2_metadata=transfer_characteristics=5 in.mkv",
    );
    desk.works(&format!("vae roundtrip in.mkv -o out.mkv {IDENTITY}"));
    let transfer = |name: &str| {
        desk.run(&format!("probe {name} --json")).json()["video"]["colour"]["transfer"]["value"].clone()
    };
    assert_eq!([transfer("in.mkv"), transfer("out.mkv")], ["bt470bg", "bt470bg"]);
}
