//! Names of the popular Python tool. Those with an equal are aliases of ours; the others are accepted with a word on why
//! they are not needed, so that a script keeps running.

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use remaster::{Compat, Error};

use super::whole::whole;

/// An option of that tool: its name, what its value is called if it takes one, and what to say about it.
type Foreign = (&'static str, &'static str, &'static str);

const PART: &str = "use --ss and --to to restore a part";
const MEMORY: &str = "memory is planned; set --ram or --vram to limit it";
const KERNELS: &str = "kernels are built in and chosen for the device";
const WINDOWS: &str = "shots are found and windows overlap by themselves";
const LOADED_ONCE: &str = "each network is loaded once for a group of shots";

/// Options that would change the result and have no equal.
const REFUSED: &[Foreign] = &[
    ("--max_resolution", "PIXELS", "use --resolution WxH"),
    ("--skip_first_frames", "N", PART),
    ("--load_cap", "N", PART),
];

/// Options that are not needed.
const IGNORED: &[Foreign] = &[
    ("--output_format", "KIND", "the ending of the output decides"),
    ("--video_backend", "NAME", "ffmpeg is always used"),
    ("--uniform_batch_size", "", WINDOWS),
    ("--chunk_size", "N", "memory does not grow with the length of the video"),
    ("--prepend_frames", "N", "the first frames of a shot need no others"),
    ("--cuda_device", "N", "choose the device with --device"),
    ("--dit_offload_device", "NAME", MEMORY),
    ("--vae_offload_device", "NAME", MEMORY),
    ("--tensor_offload_device", "NAME", MEMORY),
    ("--blocks_to_swap", "N", MEMORY),
    ("--swap_io_components", "", MEMORY),
    ("--vae_encode_tiled", "", MEMORY),
    ("--vae_encode_tile_size", "PIXELS", MEMORY),
    ("--vae_encode_tile_overlap", "PIXELS", MEMORY),
    ("--vae_decode_tiled", "", MEMORY),
    ("--vae_decode_tile_size", "PIXELS", MEMORY),
    ("--vae_decode_tile_overlap", "PIXELS", MEMORY),
    ("--tile_debug", "KIND", MEMORY),
    ("--attention_mode", "NAME", KERNELS),
    ("--compile_dit", "", KERNELS),
    ("--compile_vae", "", KERNELS),
    ("--compile_backend", "NAME", KERNELS),
    ("--compile_mode", "NAME", KERNELS),
    ("--compile_fullgraph", "", KERNELS),
    ("--compile_dynamic", "", KERNELS),
    ("--compile_dynamo_cache_size_limit", "N", KERNELS),
    ("--compile_dynamo_recompile_limit", "N", KERNELS),
    ("--cache_dit", "", LOADED_ONCE),
    ("--cache_vae", "", LOADED_ONCE),
    ("--debug", "", "use --verbose"),
];

/// Options of that tool that have no equal here, and its way of doing things, for comparisons.
#[derive(Clone, Debug, Args)]
pub(crate) struct CompatArgs {
    /// Do as another tool does: numz
    ///
    /// Batches of `--window` frames mixed in pixels, black padding, colour per batch. For comparisons only.
    #[arg(long, value_parser = ["numz"], value_name = "TOOL", hide = true)]
    compat: Option<String>,
    #[arg(long = "temporal_overlap", value_name = "FRAMES", hide = true, value_parser = whole(0u16..=16))]
    temporal_overlap: Option<u16>,
    #[arg(long = "10bit", hide = true)]
    ten_bit: bool,
    #[command(flatten)]
    foreign: ForeignArgs,
}

/// Options of the two tables that were given.
#[derive(Clone, Debug)]
struct ForeignArgs(Vec<&'static Foreign>);

fn name(flag: &'static str) -> &'static str {
    flag.trim_start_matches('-')
}

impl Args for ForeignArgs {
    fn augment_args(command: Command) -> Command {
        command.args(REFUSED.iter().chain(IGNORED).map(|(flag, value, _)| {
            let arg = Arg::new(name(flag)).long(name(flag)).hide(true);
            if value.is_empty() { arg.action(ArgAction::SetTrue) } else { arg.value_name(*value) }
        }))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ForeignArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let typed = Some(ValueSource::CommandLine);
        let given = |option: &&Foreign| matches.value_source(name(option.0)) == typed;
        Ok(ForeignArgs(REFUSED.iter().chain(IGNORED).filter(given).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl CompatArgs {
    /// The other tool's way, if it was asked for.
    pub(crate) fn compat(&self) -> Option<Compat> {
        let overlap = usize::from(self.temporal_overlap.unwrap_or(0));
        self.compat.is_some().then_some(Compat { overlap })
    }

    /// An error if an option was given that would change the result and has no equal.
    pub(crate) fn refuse(&self) -> Result<(), Error> {
        match self.foreign.0.iter().find(|option| REFUSED.contains(option)) {
            Some(&&(flag, _, instead)) => Err(Error::Unsupported { flag, instead }),
            None => Ok(()),
        }
    }

    /// One line about the options that were given and do nothing.
    pub(crate) fn warning(&self) -> Option<String> {
        let overlap = self.temporal_overlap.is_some_and(|n| n > 0) && self.compat.is_none();
        let overlap = overlap.then_some(("--temporal_overlap", WINDOWS));
        let ignored = self.foreign.0.iter().filter(|option| IGNORED.contains(option));
        let ignored = ignored.map(|(flag, _, why)| (*flag, *why));
        let mut told: Vec<(&str, &str)> = overlap.into_iter().chain(ignored).collect();
        told.sort_by_key(|(_, why)| *why);
        let reasons = told.chunk_by(|a, b| a.1 == b.1).map(|same| {
            let flags: Vec<&str> = same.iter().map(|(flag, _)| *flag).collect();
            format!("{} ({})", flags.join(", "), same[0].1)
        });
        let text = reasons.collect::<Vec<_>>().join("; ");
        (!text.is_empty()).then(|| format!("ignoring options that are not needed here: {text}"))
    }

    /// The pixel format that was asked for in other words.
    pub(crate) fn pixel_format(&self) -> Option<&'static str> {
        self.ten_bit.then_some("yuv420p10le")
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        compat: CompatArgs,
    }

    #[test]
    fn what_is_not_needed_is_said_once() {
        let of = |words: &str| Line::parse_from(std::iter::once("x").chain(words.split_whitespace())).compat;
        assert_eq!(of("").warning(), None);
        assert_eq!(of("--10bit").warning(), None);
        assert_eq!(of("--10bit").pixel_format(), Some("yuv420p10le"));
        let told = of("--blocks_to_swap 16 --compile_dit --vae_decode_tiled --temporal_overlap 4")
            .warning()
            .unwrap();
        assert_eq!(
            told,
            "ignoring options that are not needed here: --compile_dit (kernels are built in and chosen for the device); \
             --blocks_to_swap, --vae_decode_tiled (memory is planned; set --ram or --vram to limit it); \
             --temporal_overlap (shots are found and windows overlap by themselves)"
        );
        assert_eq!(of("--compat numz --temporal_overlap 4").warning(), None);
    }
}
