//! Where outputs can go.

use super::*;

#[test]
fn a_place_that_cannot_be_written_is_named_before_the_work() {
    let desk = Desk::new();
    desk.video("in.mkv", "64x48", 5, None);
    fs::create_dir(desk.path("dir.mp4")).unwrap();
    fs::create_dir(desk.path("dir")).unwrap();
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
    fs::write(desk.path("o.mkv"), "old").unwrap();
    let line = "vae roundtrip in.mkv -o o.mkv --weights nowhere.safetensors";
    desk.run(line).ends(2, &["o.mkv exists; use -y to overwrite it"]);
    // Special files are not replaced by ordinary ones.
    assert!(Command::new("mkfifo").arg(desk.path("pipe.y4m")).status().unwrap().success());
    desk.run("vae roundtrip in.mkv -o pipe.y4m -y --weights identity").ends(3, &["not a regular file"]);
}

#[test]
fn a_folder_that_is_read_only_is_named_before_the_work() {
    let desk = Desk::new();
    desk.video("in.mkv", "64x48", 5, None);
    let Some(disk) = Disk::mount(&desk.path("disk"), "ro") else { return };
    let line = "vae roundtrip in.mkv -o disk/o.mp4 --weights nowhere.safetensors";
    desk.run(line).ends(3, &["cannot write disk/o.mp4", "cannot create files in disk"]);
    drop(disk);
}

#[test]
fn the_input_is_never_the_output() {
    let desk = Desk::new();
    desk.video("same.mkv", "64x48", 5, None);
    let before = fs::read(desk.path("same.mkv")).unwrap();
    fs::hard_link(desk.path("same.mkv"), desk.path("hard.mkv")).unwrap();
    std::os::unix::fs::symlink("same.mkv", desk.path("soft.mkv")).unwrap();
    fs::create_dir(desk.path("sub")).unwrap();
    for output in ["same.mkv", "./same.mkv", "sub/../same.mkv", "hard.mkv", "soft.mkv"] {
        desk.run(&format!("vae roundtrip same.mkv -o {output} -y {IDENTITY}"))
            .ends(2, &["are the same file"]);
    }
    desk.run(&format!("vae roundtrip soft.mkv -o same.mkv -y {IDENTITY}")).ends(2, &["are the same file"]);
    assert_eq!(fs::read(desk.path("same.mkv")).unwrap(), before);
    // Nor one of the pictures of a folder.
    desk.run(&format!("vae roundtrip same.mkv -o pictures {IDENTITY}")).ends(0, &[]);
    let line = format!("vae roundtrip pictures -o pictures/000001.png -y {IDENTITY}");
    desk.run(&line).ends(2, &["are the same file"]);
    // Tensors, and pictures of a comparison.
    desk.run(&format!("vae encode same.mkv -o z.safetensors {IDENTITY}")).ends(0, &[]);
    let line = format!("vae decode z.safetensors -o ./z.safetensors -y {IDENTITY}");
    desk.run(&line).ends(2, &["are the same file"]);
    let line = "compare pictures/000000.png pictures/000001.png --sheet pictures/000000.png -y";
    desk.run(line).ends(2, &["are the same file"]);
}

#[test]
fn files_have_the_mode_that_is_asked_for_and_keep_it_when_replaced() {
    let desk = Desk::new();
    desk.video("in.mkv", "64x48", 5, None);
    let mode = |name: &str| fs::metadata(desk.path(name)).unwrap().permissions().mode() & 0o777;
    for (umask, expected) in [("022", 0o644), ("077", 0o600), ("002", 0o664)] {
        for output in ["o.mkv", "o.y4m", "z.safetensors"] {
            let what = if output.ends_with("tensors") { "encode" } else { "roundtrip" };
            let line = format!("umask {umask}; remaster vae {what} in.mkv -o {output} {IDENTITY}");
            desk.shell(&line).ends(0, &[]);
            assert_eq!(mode(output), expected, "{output} with umask {umask}");
            fs::remove_file(desk.path(output)).unwrap();
        }
    }
    fs::write(desk.path("o.mkv"), "old").unwrap();
    fs::set_permissions(desk.path("o.mkv"), fs::Permissions::from_mode(0o600)).unwrap();
    desk.run(&format!("vae roundtrip in.mkv -o o.mkv -y {IDENTITY}")).ends(0, &[]);
    assert_eq!(mode("o.mkv"), 0o600);
    // A link is written through.
    std::os::unix::fs::symlink("o.mkv", desk.path("link.mkv")).unwrap();
    let before = fs::read(desk.path("o.mkv")).unwrap();
    fs::write(desk.path("o.mkv"), "old").unwrap();
    desk.run(&format!("vae roundtrip in.mkv -o link.mkv -y {IDENTITY}")).ends(0, &[]);
    assert!(desk.path("link.mkv").is_symlink());
    assert_eq!(fs::read(desk.path("o.mkv")).unwrap().len(), before.len());
}
