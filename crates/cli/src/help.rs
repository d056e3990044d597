//! What `remaster --help` says beside the list of commands.

/// Below the commands.
pub(crate) const AFTER: &str = "\
Examples:
  remaster doctor                              Does this machine compute the right numbers?
  remaster models list                         Which model files are there, and what are they?
  remaster models verify                       Are they whole?
  remaster plan decode --height 1088 --width 1920 --ram 4G
                                               What would it take?
  remaster vae roundtrip photo.png -o back.png --weights ema_vae_fp16.safetensors
                                               Through the network and back
  remaster completions bash > ~/.local/share/bash-completion/completions/remaster

Exit codes:
  0    done
  2    wrong usage: a flag, a value, the config file
  3    a file, a folder or ffmpeg cannot be used
  4    it would not fit in the memory or disk that is allowed
  5    the device failed
  6    a check failed: wrong numbers, a damaged or unknown model file
  101  internal error: a bug, please report it
  130  interrupted: nothing half done is left

Results go to stdout (with --json as one document), words for people to stderr.
Settings can be kept in a config file with presets; see docs/cli.md.";
