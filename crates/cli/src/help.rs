//! Text around the generated help.

/// Below `remaster -h`.
pub(crate) const SHORT: &str =
    "Use `remaster --help` for examples and exit codes, `remaster COMMAND -h` for options.";

/// Below `remaster --help`.
pub(crate) const LONG: &str = "\
Examples:
  remaster film.mkv                   Restore a film to film_upscaled.mkv
  remaster film.mkv -o out.mp4 --resolution 4k
                                      Choose the name and the size
  remaster clip.mp4 --model nano --resolution 1x
                                      Try it without downloading a model
  remaster models pull 3b             Download a model
  remaster plan film.mkv              See how much memory, disk and time it takes
  remaster preview film.mkv           See a frame of each shot before and after
  remaster scenes film.mkv -o shots.json
                                      List where shots begin
  remaster compare a.mkv b.mkv        Measure the difference between two videos
  remaster doctor                     Check that this machine is ready

Exit codes:
  0    success
  2    invalid usage: an option, a value or the config file
  3    a file, a folder, ffmpeg or the network cannot be used
  4    not enough memory or disk space allowed
  5    the device failed
  6    a check failed: wrong numbers, a damaged or unknown model file
  101  internal error: a bug, please report it
  130  interrupted; no partial files are left

Results go to stdout (one document with --json), messages to stderr.
Settings can be stored in a config file with presets; see docs/cli.md.";
