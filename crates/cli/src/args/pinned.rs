//! Every option of a restoration is pinned by a plan, or known not to matter.

use clap::{CommandFactory, Parser};

use std::path::Path;

use remaster::units::Repeated;
use remaster::units::pinned::{of, planned};
use remaster_media::Filters;
use remaster_units::Request;

use crate::args::{Cli, Command as Typed};

/// Options that a plan holds, by their names in the parser.
const PINNED: &str = "
    seed softness window input_noise latent_noise strength color color_pool dither ss to vf fps
    deinterlace hdr damaged exr resolution edges keep_sar video crf pixel_format lossless audio mode
    tile overlap ten_bit encoder_threads
";

/// Options that decide nothing, that a plan holds in another form, or that plans refuse.
const OTHERS: &str = "
    input output yes keep_latents model vae text model_dir scenes ram disk spill stripes slice vram name
    dtype threads cpu_path no_tune no_collapse ffmpeg ffprobe vspipe no_scripts stall_seconds progress streams help
    unit_frames piece_frames mix_devices lossless_units devices temp keep restart keep_going until
    wait_disk checkpoint no_manifest embed_manifest quiet verbose json cancel_on_stdin_close config
    preset frames
";

fn asked(line: &str) -> Request {
    let words = ["remaster", "restore", "a.mkv"].into_iter().chain(line.split_whitespace());
    match Cli::try_parse_from(words).unwrap_or_else(|error| panic!("{line}: {error}")).command {
        Typed::Restore(args) => {
            let request = args.request();
            of(&request.how, &request.target).unwrap()
        }
        _ => panic!("{line}"),
    }
}

#[test]
fn every_option_of_a_restoration_is_in_a_plan_or_known_not_to_matter() {
    let mut command = Cli::command();
    command.build();
    let restore = command.find_subcommand("restore").unwrap();
    let known: Vec<&str> = PINNED.split_whitespace().chain(OTHERS.split_whitespace()).collect();
    for arg in restore.get_arguments() {
        let id = arg.get_id().as_str();
        // Those of the popular tool that have no equivalent change nothing, or are refused.
        let popular = arg.is_hide_set();
        assert!(known.contains(&id) || popular, "{id}");
    }
}

#[test]
fn every_setting_changes_the_request_and_comes_back() {
    let plain = asked("");
    let lines = [
        "--seed 7",
        "--softness 0.3",
        "--window 17",
        "--input-noise 0.1",
        "--latent-noise 0.1",
        "--strength 0.7",
        "--color wavelet",
        "--color-pool window",
        "--dither",
        "--ss 1:30.5",
        "--to 90",
        "--vf hqdn3d",
        "--vf movie=x",
        "--fps 24000/1001",
        "--deinterlace double",
        "--hdr keep",
        "--damaged keep",
        "--exr",
        "--resolution 2x",
        "--resolution 720p",
        "--resolution 640x360",
        "--edges black",
        "--keep-sar",
        "--video ffv1",
        "--pixel-format yuv444p",
        "--crf 20",
        "--lossless",
        "--audio none",
        "--mode blend",
        "--mode blend --tile 512",
        "--mode blend --overlap 64",
        "--mode shared-stats",
    ];
    for line in lines {
        let request = asked(line);
        assert_ne!(request, plain, "{line}");
        let text = serde_json::to_string(&request).unwrap();
        assert_eq!(serde_json::from_str::<Request>(&text).unwrap(), request, "{line}");
        let vf = line.strip_prefix("--vf ").map(Filters::typed);
        let typed = Repeated { filters: vf, encoder: None };
        let args = planned((&request, 4), &typed, Path::new("-in put.mkv"), Path::new("out.mkv")).unwrap();
        assert_eq!(of(&args.how, &args.target).unwrap(), request, "{line}");
        assert_eq!(args.input, Path::new("-in put.mkv"));
    }
    for line in
        ["--ram 4G", "--mode exact", "--mode whole", "--threads 1", "-o b.mkv", "--resolution 2x --seed 42"]
    {
        let request = asked(line);
        let same = Request { resolution: None, ..request };
        assert_eq!(same, plain, "{line}");
    }
}

#[test]
fn a_worker_types_what_a_plan_cannot_hold_and_nothing_else() {
    let planned = |request: &Request, typed: &Repeated| {
        planned((request, 4), typed, Path::new("a"), Path::new("b")).map_err(|error| error.to_string())
    };
    let (none, vf) =
        (Repeated::default(), |text: &str| Repeated { filters: Some(text.into()), encoder: None });
    assert!(planned(&asked("--vf hqdn3d"), &none).is_ok());
    assert!(planned(&asked("--vf movie=x"), &none).unwrap_err().contains("repeat --vf"));
    assert!(planned(&asked("--vf movie=x"), &vf("movie=x")).is_ok());
    assert!(planned(&asked("--vf movie=x"), &vf("movie=y")).unwrap_err().contains("--vf is other"));
    assert!(planned(&asked(""), &vf("hqdn3d")).unwrap_err().contains("--vf is other"));
}
