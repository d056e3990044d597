//! A full disk.

use super::*;

#[test]
fn a_full_disk_is_called_one_and_nothing_is_left_on_it() {
    let desk = desk();
    // Noise does not compress. y4m does not say how long it is.
    let source = "color=s=320x240:r=25:d=2,noise=alls=100:allf=t";
    ffmpeg(&desk, &format!("-f lavfi -i {source} -pix_fmt yuv420p in.y4m"));
    let Some(disk) = mount(&desk.join("disk"), "size=700k") else { return };
    for output in ["o.mp4", "o.mkv", "o.ts", "o.y4m", "frames"] {
        let run = desk.run(&format!("vae roundtrip in.y4m -o disk/{output} {IDENTITY}"));
        run.ends(3, &["no space left on the disk of disk"]);
        assert_eq!(names(&disk.0), [""; 0], "{output}");
    }
    let run = desk.run(&format!("vae encode in.y4m -o disk/z.safetensors {IDENTITY}"));
    run.ends(3, &["cannot write disk/z.safetensors", "it needs"]);
    assert_eq!(names(&disk.0), [""; 0]);
    // Where the length is known, it is refused before the work.
    video(&desk, "in.mkv", "320x240", 50, None);
    let run = desk.run(&format!("vae roundtrip in.mkv -o disk/o.y4m {IDENTITY}"));
    run.ends(3, &["cannot write disk/o.y4m", "it needs", "KiB are free"]);
    assert!(!run.stderr.contains("encoding"), "planned: {}", run.stderr);
    drop(disk);
}

#[test]
fn a_result_that_is_lost_to_a_full_stdout_is_a_failure() {
    let desk = filmed("64x48", 5);
    let lost = &["cannot write the result to stdout", "No space left"];
    shell(&desk, "remaster probe in.mkv > /dev/full").ends(3, lost);
    shell(&desk, "remaster probe in.mkv --json > /dev/full").ends(3, lost);
    shell(&desk, "remaster completions bash > /dev/full").ends(3, lost);
    assert_ne!(shell(&desk, "remaster --help > /dev/full").code, Some(0));
    let line = format!("remaster vae roundtrip in.mkv -o - {IDENTITY} > /dev/full");
    shell(&desk, &line).ends(3, &["write y4m to stdout", "No space left"]);
    // A reader that goes away is none.
    shell(&desk, "remaster probe in.mkv | true").ends(0, &[]);
}
