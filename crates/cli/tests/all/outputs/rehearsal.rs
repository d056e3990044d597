//! Mistakes that show before the work.

use super::*;

#[test]
fn mistakes_of_encoder_and_container_cost_a_second_and_not_the_work() {
    let desk = filmed("64x48", 25);
    video(&desk, "wavpack.mkv", "64x48", 25, Some("wavpack"));
    for (args, words) in [
        (&["in.mkv", "-o", "o.mp4", "--video", "libx264 -crf banana"][..], &["o.mp4", "banana"][..]),
        (&["in.mkv", "-o", "o.mp4", "--video", "libnothing"], &["no video encoder `libnothing`"]),
        (&["in.mkv", "-o", "o.webm", "--video", "libx264"], &["o.webm"]),
        (&["in.mkv", "-o", "o.mp4", "--video", "libx264 -nosuch 1"], &["nosuch"]),
        (
            &["in.mkv", "-o", "o.mp4", "--resolution", "63x47", "--pixel-format", "yuv420p"],
            &["o.mp4", "not divisible by 2"],
        ),
        (&["wavpack.mkv", "-o", "o.mp4"], &["o.mp4", "wavpack"]),
        (&["wavpack.mkv", "-o", "o.ts"], &["o.ts", "wavpack", "write .mkv"]),
        (&["in.mkv", "-o", "o.mp4", "--pixel-format", "yuv999"], &["yuv999", "--pixel-format accepts"]),
        (&["in.mkv", "-o", "o.mp4", "--pixel-format", "yuv411p"], &["yuv411p", "libx264 does: yuv420p"]),
    ] {
        let mut command = desk.command("vae roundtrip --weights identity --progress none");
        let started = Instant::now();
        let run = Run::of(command.args(args));
        let took = started.elapsed();
        run.ends(2, words);
        assert!(!run.stderr.contains("encoding"), "planned: {}", run.stderr);
        assert!(!run.stderr.contains("o.mp4 has the pixel format"), "{}", run.stderr);
        // A second on a machine that has nothing else to do.
        assert!(took < Duration::from_secs(60), "{args:?} took {took:?}");
        assert_eq!(desk.names(), ["in.mkv", "wavpack.mkv"], "{args:?}");
    }
    // Latents too.
    desk.works(&format!("vae encode in.mkv -o z.safetensors {IDENTITY}"));
    let mut command = desk.command(&format!("vae decode z.safetensors -o o.mp4 {IDENTITY}"));
    Run::of(command.args(["--video", "libx264 -crf banana"])).ends(2, &["o.mp4", "banana"]);
}

#[test]
fn flags_that_an_output_has_no_use_for_are_refused_before_the_plan() {
    let desk = desk();
    y4m(&desk, "in.y4m", "64x48", 5);
    for output in ["o.y4m", "-", "frames"] {
        let run = desk.run(&format!("vae roundtrip in.y4m -o {output} --lossless {IDENTITY}"));
        run.ends(2, &["--lossless has no effect"]);
        assert!(!run.stderr.contains("encoding"), "planned: {}", run.stderr);
    }
    assert_eq!(desk.names(), ["in.y4m"]);
}
