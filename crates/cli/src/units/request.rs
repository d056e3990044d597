//! What a restoration was asked for, as the values of a plan, and back.

use std::path::Path;

use clap::{Args, FromArgMatches};
use remaster_media::{Encoding, Filters};
use remaster_units::{Pooling, Request, Share, UnitsError};

use crate::error::CliError;
use crate::media::{TargetArgs, filters};
use crate::restore::{PoolWord, RecipeArgs, RestoreArgs};

/// Filters and encoder options, which a plan holds as they are only if they are in closed lists.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct TypedArgs {
    /// Filters of the plan, if the plan cannot hold them: as they were given to `remaster plan`
    #[arg(long, value_name = "FILTERS", value_parser = filters, hide_short_help = true)]
    pub(super) vf: Option<Filters>,
    /// Encoder options of the plan, if the plan cannot hold them: as they were given to `remaster plan`
    #[arg(long, value_name = "ENCODER", hide_short_help = true)]
    pub(super) video: Option<Encoding>,
}

/// What a plan holds.
pub(crate) fn of(how: &RecipeArgs, target: &TargetArgs) -> Result<Request, CliError> {
    let look = &how.look;
    let share = |value: f32| Share::try_from(value).map_err(|reason| UnitsError::Plan { reason });
    Ok(Request {
        seed: look.seed,
        softness: share(look.softness)?,
        // As it is used: whoever joins the units does not know the network.
        window: how.pools()?.0.frames(),
        input_noise: share(look.input_noise)?,
        latent_noise: share(look.latent_noise)?,
        strength: share(look.finish.strength)?,
        color: look.finish.color,
        color_pool: match look.finish.color_pool {
            PoolWord::Frame => Pooling::Frame,
            PoolWord::Window => Pooling::Window,
            PoolWord::Shot => Pooling::Shot,
        },
        dither: look.finish.dither,
        resolution: how.size.asked(),
        edges: how.size.edges(),
        keep_sar: how.keep_sar,
        tiles: how.memory.tiles(),
        reading: how.source.asked(),
        writing: target.asked(),
    })
}

/// A restoration with the request and the encoder's threads of a plan, and otherwise as if nothing had been typed.
pub(super) fn planned(
    (request, threads): (&Request, u32),
    typed: &TypedArgs,
    input: &Path,
    output: &Path,
) -> Result<RestoreArgs, CliError> {
    let mut args = plain(input, output)?;
    let how = &mut args.how;
    how.look.seed = request.seed;
    how.look.softness = request.softness.get();
    how.look.window = request.window;
    how.look.input_noise = request.input_noise.get();
    how.look.latent_noise = request.latent_noise.get();
    how.look.finish.strength = request.strength.get();
    how.look.finish.color = request.color;
    how.look.finish.color_pool = match request.color_pool {
        Pooling::Frame => PoolWord::Frame,
        Pooling::Window => PoolWord::Window,
        Pooling::Shot => PoolWord::Shot,
    };
    how.look.finish.dither = request.dither;
    how.keep_sar = request.keep_sar;
    how.size = how.size.planned(request.resolution, request.edges);
    how.memory = how.memory.clone().with_tiles(request.tiles);
    how.source = how.source.clone().planned(&request.reading, typed.vf.as_ref())?;
    args.target = args.target.planned(&request.writing, threads, typed.video.as_ref())?;
    Ok(args)
}

/// A restoration for which nothing was typed.
pub(super) fn plain(input: &Path, output: &Path) -> Result<RestoreArgs, CliError> {
    let wrong = |error: clap::Error| UnitsError::Plan { reason: error.to_string() };
    let command = RestoreArgs::augment_args(clap::Command::new("restore"));
    let matches = command.try_get_matches_from(["restore", "-"]).map_err(wrong)?;
    let mut args = RestoreArgs::from_arg_matches(&matches).map_err(wrong)?;
    args.input = input.to_owned();
    args.output = Some(output.to_owned());
    Ok(args)
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::args::{Cli, Command as Typed};

    /// Options that a plan holds, by their names in the parser.
    const PINNED: [&str; 30] = [
        "seed",
        "softness",
        "window",
        "input_noise",
        "latent_noise",
        "strength",
        "color",
        "color_pool",
        "dither",
        "ss",
        "to",
        "vf",
        "fps",
        "deinterlace",
        "hdr",
        "damaged",
        "exr",
        "resolution",
        "edges",
        "keep_sar",
        "video",
        "crf",
        "pixel_format",
        "lossless",
        "audio",
        "mode",
        "tile",
        "overlap",
        "ten_bit",
        "encoder_threads",
    ];

    /// Options that decide nothing, that a plan holds in another form, or that plans refuse.
    const OTHERS: &[&str] = &[
        "input",
        "output",
        "yes",
        "keep_latents",
        "model",
        "vae",
        "text",
        "model_dir",
        "scenes",
        "ram",
        "disk",
        "spill",
        "stripes",
        "slice",
        "vram",
        "name",
        "dtype",
        "threads",
        "cpu_path",
        "no_tune",
        "no_collapse",
        "ffmpeg",
        "ffprobe",
        "stall_seconds",
        "progress",
        "streams",
        "help",
        "unit_frames",
        "piece_frames",
        "mix_devices",
        "lossless_units",
        "devices",
        "temp",
        "keep",
        "restart",
        "keep_going",
        "until",
        "wait_disk",
        "checkpoint",
        "no_manifest",
        "embed_manifest",
        "quiet",
        "verbose",
        "json",
        "cancel_on_stdin_close",
        "config",
        "preset",
    ];

    fn asked(line: &str) -> Request {
        let words = ["remaster", "restore", "a.mkv"].into_iter().chain(line.split_whitespace());
        match Cli::try_parse_from(words).unwrap_or_else(|error| panic!("{line}: {error}")).command {
            Typed::Restore(args) => of(&args.how, &args.target).unwrap(),
            _ => panic!("{line}"),
        }
    }

    #[test]
    fn every_option_of_a_restoration_is_in_a_plan_or_known_not_to_matter() {
        let mut command = Cli::command();
        command.build();
        let restore = command.find_subcommand("restore").unwrap();
        for arg in restore.get_arguments() {
            let id = arg.get_id().as_str();
            // Those of the popular tool that have no equivalent change nothing, or are refused.
            let popular = arg.is_hide_set();
            assert!(PINNED.contains(&id) || OTHERS.contains(&id) || popular, "{id}");
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
            let typed = TypedArgs { vf, video: None };
            let args =
                planned((&request, 4), &typed, Path::new("-in put.mkv"), Path::new("out.mkv")).unwrap();
            assert_eq!(of(&args.how, &args.target).unwrap(), request, "{line}");
            assert_eq!(args.input, Path::new("-in put.mkv"));
        }
        for line in [
            "--ram 4G",
            "--mode exact",
            "--mode whole",
            "--threads 1",
            "-o b.mkv",
            "--resolution 2x --seed 42",
        ] {
            let request = asked(line);
            let same = Request { resolution: None, ..request };
            assert_eq!(same, plain, "{line}");
        }
    }

    #[test]
    fn a_worker_types_what_a_plan_cannot_hold_and_nothing_else() {
        let planned = |request: &Request, typed: &TypedArgs| {
            planned((request, 4), typed, Path::new("a"), Path::new("b")).map_err(|error| error.to_string())
        };
        let (none, vf) =
            (TypedArgs::default(), |text: &str| TypedArgs { vf: Some(text.into()), video: None });
        assert!(planned(&asked("--vf hqdn3d"), &none).is_ok());
        assert!(planned(&asked("--vf movie=x"), &none).unwrap_err().contains("repeat --vf"));
        assert!(planned(&asked("--vf movie=x"), &vf("movie=x")).is_ok());
        assert!(planned(&asked("--vf movie=x"), &vf("movie=y")).unwrap_err().contains("--vf is other"));
        assert!(planned(&asked(""), &vf("hqdn3d")).unwrap_err().contains("--vf is other"));
    }
}
