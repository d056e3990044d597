//! Text around the generated help.

/// Below `remaster -h`.
pub(crate) const SHORT: &str =
    "Use `remaster --help` for examples and exit codes, `remaster COMMAND -h` for options.";

/// Below `remaster --help`.
pub(crate) const LONG: &str = "\
Examples:
  remaster doctor                     Check that this machine is ready
  remaster models list                List installed models
  remaster models verify              Check them for corruption
  remaster plan in.mp4                Estimate memory, disk and time
  remaster vae roundtrip photo.png -o back.png --weights ema_vae_fp16.safetensors
                                      Encode an image and decode it again
  remaster compare photo.png back.png
                                      Measure the difference

Exit codes:
  0    success
  2    invalid usage: an option, a value or the config file
  3    a file, a folder or ffmpeg cannot be used
  4    not enough memory or disk space allowed
  5    the device failed
  6    a check failed: wrong numbers, a damaged or unknown model file
  101  internal error: a bug, please report it
  130  interrupted; no partial files are left

Results go to stdout (one document with --json), messages to stderr.
Settings can be stored in a config file with presets; see docs/cli.md.";
