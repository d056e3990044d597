//! Names of the popular Python tool. Those with an equal are aliases of ours; the others are accepted with a word on why
//! they are not needed, so that a script keeps running.

use clap::{Args, ValueEnum};
use remaster::{Compat, Error};

/// Options of that tool that have no equal here, and its way of doing things for people who compare.
#[derive(Clone, Debug, Args)]
pub(crate) struct CompatArgs {
    /// Do as another tool does: numz
    ///
    /// Batches of `--window` frames mixed in pixels, black padding, colour per batch. For comparisons only.
    #[arg(long, value_enum, value_name = "TOOL", hide = true)]
    compat: Option<Tool>,
    #[arg(long = "temporal_overlap", value_name = "FRAMES", hide = true, value_parser = clap::value_parser!(u16).range(0..=16))]
    temporal_overlap: Option<u16>,
    #[arg(long = "output_format", value_name = "KIND", hide = true)]
    output_format: Option<String>,
    #[arg(long = "video_backend", value_name = "NAME", hide = true)]
    video_backend: Option<String>,
    #[arg(long = "10bit", hide = true)]
    ten_bit: bool,
    #[arg(long = "max_resolution", value_name = "PIXELS", hide = true)]
    max_resolution: Option<String>,
    #[arg(long = "uniform_batch_size", hide = true)]
    uniform_batch_size: bool,
    #[arg(long = "skip_first_frames", value_name = "N", hide = true)]
    skip_first_frames: Option<String>,
    #[arg(long = "load_cap", value_name = "N", hide = true)]
    load_cap: Option<String>,
    #[arg(long = "chunk_size", value_name = "N", hide = true)]
    chunk_size: Option<String>,
    #[arg(long = "prepend_frames", value_name = "N", hide = true)]
    prepend_frames: Option<String>,
    #[arg(long = "cuda_device", value_name = "N", hide = true)]
    cuda_device: Option<String>,
    #[arg(long = "dit_offload_device", value_name = "NAME", hide = true)]
    dit_offload_device: Option<String>,
    #[arg(long = "vae_offload_device", value_name = "NAME", hide = true)]
    vae_offload_device: Option<String>,
    #[arg(long = "tensor_offload_device", value_name = "NAME", hide = true)]
    tensor_offload_device: Option<String>,
    #[arg(long = "blocks_to_swap", value_name = "N", hide = true)]
    blocks_to_swap: Option<String>,
    #[arg(long = "swap_io_components", hide = true)]
    swap_io_components: bool,
    #[arg(long = "vae_encode_tiled", hide = true)]
    vae_encode_tiled: bool,
    #[arg(long = "vae_encode_tile_size", value_name = "PIXELS", hide = true)]
    vae_encode_tile_size: Option<String>,
    #[arg(long = "vae_encode_tile_overlap", value_name = "PIXELS", hide = true)]
    vae_encode_tile_overlap: Option<String>,
    #[arg(long = "vae_decode_tiled", hide = true)]
    vae_decode_tiled: bool,
    #[arg(long = "vae_decode_tile_size", value_name = "PIXELS", hide = true)]
    vae_decode_tile_size: Option<String>,
    #[arg(long = "vae_decode_tile_overlap", value_name = "PIXELS", hide = true)]
    vae_decode_tile_overlap: Option<String>,
    #[arg(long = "tile_debug", value_name = "KIND", hide = true)]
    tile_debug: Option<String>,
    #[arg(long = "attention_mode", value_name = "NAME", hide = true)]
    attention_mode: Option<String>,
    #[arg(long = "compile_dit", hide = true)]
    compile_dit: bool,
    #[arg(long = "compile_vae", hide = true)]
    compile_vae: bool,
    #[arg(long = "compile_backend", value_name = "NAME", hide = true)]
    compile_backend: Option<String>,
    #[arg(long = "compile_mode", value_name = "NAME", hide = true)]
    compile_mode: Option<String>,
    #[arg(long = "compile_fullgraph", hide = true)]
    compile_fullgraph: bool,
    #[arg(long = "compile_dynamic", hide = true)]
    compile_dynamic: bool,
    #[arg(long = "compile_dynamo_cache_size_limit", value_name = "N", hide = true)]
    compile_dynamo_cache_size_limit: Option<String>,
    #[arg(long = "compile_dynamo_recompile_limit", value_name = "N", hide = true)]
    compile_dynamo_recompile_limit: Option<String>,
    #[arg(long = "cache_dit", hide = true)]
    cache_dit: bool,
    #[arg(long = "cache_vae", hide = true)]
    cache_vae: bool,
    #[arg(long = "debug", hide = true)]
    debug: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Tool {
    Numz,
}

impl CompatArgs {
    /// The other tool's way, if it was asked for.
    pub(crate) fn compat(&self) -> Option<Compat> {
        self.compat.map(|Tool::Numz| Compat { overlap: usize::from(self.temporal_overlap.unwrap_or(0)) })
    }

    /// An error if an option was given that would change the result and has no equal.
    pub(crate) fn refuse(&self) -> Result<(), Error> {
        let part = "use --ss and --to to restore a part";
        let given = [
            ("--max_resolution", self.max_resolution.is_some(), "use --resolution WxH"),
            ("--skip_first_frames", self.skip_first_frames.is_some(), part),
            ("--load_cap", self.load_cap.is_some(), part),
        ];
        match given.into_iter().find(|(_, given, _)| *given) {
            Some((flag, _, instead)) => Err(Error::Unsupported { flag, instead }),
            None => Ok(()),
        }
    }

    /// One line about the options that were given and do nothing.
    pub(crate) fn warning(&self) -> Option<String> {
        let memory = "memory is planned; set --ram or --vram to limit it";
        let device = "choose the device with --device";
        let kernels = "kernels are built in and chosen for the device";
        let windows = "shots are found and windows overlap by themselves";
        let given: [(&str, bool, &str); 31] = [
            (
                "--temporal_overlap",
                self.temporal_overlap.is_some_and(|n| n > 0) && self.compat.is_none(),
                windows,
            ),
            ("--output_format", self.output_format.is_some(), "the ending of the output decides"),
            ("--video_backend", self.video_backend.is_some(), "ffmpeg is always used"),
            ("--uniform_batch_size", self.uniform_batch_size, windows),
            ("--chunk_size", self.chunk_size.is_some(), "memory does not grow with the length of the video"),
            ("--prepend_frames", self.prepend_frames.is_some(), "the first frames of a shot need no others"),
            ("--cuda_device", self.cuda_device.is_some(), device),
            ("--dit_offload_device", self.dit_offload_device.is_some(), memory),
            ("--vae_offload_device", self.vae_offload_device.is_some(), memory),
            ("--tensor_offload_device", self.tensor_offload_device.is_some(), memory),
            ("--blocks_to_swap", self.blocks_to_swap.is_some(), memory),
            ("--swap_io_components", self.swap_io_components, memory),
            ("--vae_encode_tiled", self.vae_encode_tiled, memory),
            ("--vae_encode_tile_size", self.vae_encode_tile_size.is_some(), memory),
            ("--vae_encode_tile_overlap", self.vae_encode_tile_overlap.is_some(), memory),
            ("--vae_decode_tiled", self.vae_decode_tiled, memory),
            ("--vae_decode_tile_size", self.vae_decode_tile_size.is_some(), memory),
            ("--vae_decode_tile_overlap", self.vae_decode_tile_overlap.is_some(), memory),
            ("--tile_debug", self.tile_debug.is_some(), memory),
            ("--attention_mode", self.attention_mode.is_some(), kernels),
            ("--compile_dit", self.compile_dit, kernels),
            ("--compile_vae", self.compile_vae, kernels),
            ("--compile_backend", self.compile_backend.is_some(), kernels),
            ("--compile_mode", self.compile_mode.is_some(), kernels),
            ("--compile_fullgraph", self.compile_fullgraph, kernels),
            ("--compile_dynamic", self.compile_dynamic, kernels),
            ("--compile_dynamo_cache_size_limit", self.compile_dynamo_cache_size_limit.is_some(), kernels),
            ("--compile_dynamo_recompile_limit", self.compile_dynamo_recompile_limit.is_some(), kernels),
            ("--cache_dit", self.cache_dit, "each network is loaded once for a group of shots"),
            ("--cache_vae", self.cache_vae, "each network is loaded once for a group of shots"),
            ("--debug", self.debug, "use --verbose"),
        ];
        let told = given.iter().filter(|(_, given, _)| *given);
        let mut told: Vec<(&str, &str)> = told.map(|(flag, _, why)| (*flag, *why)).collect();
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
