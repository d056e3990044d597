//! Where outputs can go.

use super::*;

#[test]
fn a_place_that_cannot_be_written_is_named_before_the_work() {
    let desk = filmed("64x48", 5);
    fs::create_dir(desk.join("dir.mp4")).unwrap();
    fs::create_dir(desk.join("dir")).unwrap();
    // Weights that do not exist: nothing was opened when the output is refused.
    for (output, code, words) in [
        ("dir.mp4", 3, &["cannot write dir.mp4", "it is a folder"][..]),
        ("dir.mp4 -y", 3, &["it is a folder"]),
        ("dir", 3, &["cannot write dir", "it is a folder"]),
        ("dir/ -y", 3, &["it is a folder"]),
        ("nowhere/at/all.mp4", 3, &["cannot write nowhere/at/all.mp4", "there is no folder nowhere/at"]),
        ("in.mkv/o.mp4", 3, &["there is no folder in.mkv"]),
        ("in.mkv", 2, &["the same file: in.mkv"]),
    ] {
        let line = format!("vae roundtrip in.mkv -o {output} --weights nowhere.safetensors");
        desk.run(&line).ends(code, words);
    }
    assert_eq!(desk.names(), ["dir", "dir.mp4", "in.mkv"]);
    desk.put("o.mkv", "old");
    let line = "vae roundtrip in.mkv -o o.mkv --weights nowhere.safetensors";
    desk.run(line).ends(2, &["o.mkv exists; use -y to overwrite it"]);
    // Special files are not replaced by ordinary ones.
    #[cfg(unix)]
    assert!(Command::new("mkfifo").arg(desk.join("pipe.y4m")).status().unwrap().success());
    #[cfg(unix)]
    desk.run("vae roundtrip in.mkv -o pipe.y4m -y --weights identity").ends(3, &["not a regular file"]);
}

#[test]
#[cfg(unix)]
fn a_folder_that_is_read_only_is_named_before_the_work() {
    let desk = filmed("64x48", 5);
    let Some(disk) = mount(&desk.join("disk"), "ro") else { return };
    let line = "vae roundtrip in.mkv -o disk/o.mp4 --weights nowhere.safetensors";
    desk.run(line).ends(3, &["cannot write disk/o.mp4", "cannot create files in disk"]);
    drop(disk);
}

#[test]
fn the_input_is_never_the_output() {
    let desk = desk();
    video(&desk, "same.mkv", "64x48", 5, None);
    let before = bytes(&desk, "same.mkv");
    fs::hard_link(desk.join("same.mkv"), desk.join("hard.mkv")).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink("same.mkv", desk.join("soft.mkv")).unwrap();
    // Links of Windows need a right that few have.
    #[cfg(windows)]
    fs::hard_link(desk.join("same.mkv"), desk.join("soft.mkv")).unwrap();
    fs::create_dir(desk.join("sub")).unwrap();
    for output in ["same.mkv", "./same.mkv", "sub/../same.mkv", "hard.mkv", "soft.mkv"] {
        desk.run(&format!("vae roundtrip same.mkv -o {output} -y {IDENTITY}"))
            .ends(2, &["are the same file"]);
    }
    desk.run(&format!("vae roundtrip soft.mkv -o same.mkv -y {IDENTITY}")).ends(2, &["are the same file"]);
    assert_eq!(bytes(&desk, "same.mkv"), before);
    // Nor one of the pictures of a folder.
    desk.works(&format!("vae roundtrip same.mkv -o pictures {IDENTITY}"));
    let line = format!("vae roundtrip pictures -o pictures/000001.png -y {IDENTITY}");
    desk.run(&line).ends(2, &["are the same file"]);
    // Tensors, and pictures of a comparison.
    desk.works(&format!("vae encode same.mkv -o z.safetensors {IDENTITY}"));
    let line = format!("vae decode z.safetensors -o ./z.safetensors -y {IDENTITY}");
    desk.run(&line).ends(2, &["are the same file"]);
    let line = "compare pictures/000000.png pictures/000001.png --sheet pictures/000000.png -y";
    desk.run(line).ends(2, &["are the same file"]);
}

#[test]
#[cfg(unix)]
fn files_have_the_mode_that_is_asked_for_and_keep_it_when_replaced() {
    use std::os::unix::fs::PermissionsExt;
    let desk = filmed("64x48", 5);
    let mode = |name: &str| fs::metadata(desk.join(name)).unwrap().permissions().mode() & 0o777;
    for (umask, expected) in [("022", 0o644), ("077", 0o600), ("002", 0o664)] {
        for output in ["o.mkv", "o.y4m", "z.safetensors"] {
            let what = if output.ends_with("tensors") { "encode" } else { "roundtrip" };
            let line = format!("umask {umask}; remaster vae {what} in.mkv -o {output} {IDENTITY}");
            shell(&desk, &line).ends(0, &[]);
            assert_eq!(mode(output), expected, "{output} with umask {umask}");
            fs::remove_file(desk.join(output)).unwrap();
        }
    }
    desk.put("o.mkv", "old");
    fs::set_permissions(desk.join("o.mkv"), fs::Permissions::from_mode(0o600)).unwrap();
    desk.works(&format!("vae roundtrip in.mkv -o o.mkv -y {IDENTITY}"));
    assert_eq!(mode("o.mkv"), 0o600);
    // A link is written through.
    std::os::unix::fs::symlink("o.mkv", desk.join("link.mkv")).unwrap();
    let before = bytes(&desk, "o.mkv");
    desk.put("o.mkv", "old");
    desk.works(&format!("vae roundtrip in.mkv -o link.mkv -y {IDENTITY}"));
    assert!(desk.join("link.mkv").is_symlink());
    assert_eq!(bytes(&desk, "o.mkv").len(), before.len());
}
