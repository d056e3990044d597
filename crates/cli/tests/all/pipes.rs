//! Named pipes in place of files: every command refuses them at once. Opening one waits until somebody writes, which may be
//! never.

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::desk::{Desk, ended, ffmpeg};

/// No command that opens nothing takes this long, however busy the machine is.
const SOON: Duration = Duration::from_secs(60);

#[test]
fn a_named_pipe_is_refused_at_once_wherever_a_file_is_named() {
    let desk = Desk::new();
    ffmpeg(&desk, "-f lavfi -i testsrc2=s=64x48:r=25:d=0.4 -c:v ffv1 film.mkv");
    desk.works("film.mkv -o done.mkv --model identity --resolution 1x");
    desk.put("list.txt", "film.mkv\n");
    for name in ["pipe", "pipe.mkv", "pipe.y4m", "pipe.png", "pipe.safetensors", "pipe.manifest.json"] {
        assert!(Command::new("mkfifo").arg(desk.join(name)).status().unwrap().success());
    }
    std::fs::copy(desk.join("done.mkv"), desk.join("other.mkv")).unwrap();
    assert!(Command::new("mkfifo").arg(desk.join("other.mkv.manifest.json")).status().unwrap().success());
    let identity = "--model identity --resolution 1x";
    for line in [
        "compare pipe.mkv film.mkv".to_owned(),
        "compare film.mkv pipe.mkv".into(),
        "compare film.mkv pipe.y4m".into(),
        "compare pipe.png film.mkv".into(),
        "--config pipe probe film.mkv".into(),
        "probe film.mkv --config pipe".into(),
        "probe pipe.mkv".into(),
        "plan pipe.mkv --model anime".into(),
        "scenes pipe.mkv".into(),
        "scenes pipe.y4m".into(),
        format!("pipe.mkv -o o.mkv {identity}"),
        format!("pipe.y4m -o o.mkv {identity}"),
        format!("pipe.png -o o.png {identity}"),
        "preview pipe.mkv --model anime".into(),
        "film.mkv -o o.mkv --model pipe.safetensors".into(),
        "film.mkv -o o.mkv --model 3b --vae pipe.safetensors".into(),
        "film.mkv -o o.mkv SMALL --text pipe.safetensors --model-dir TESTDATA".into(),
        "film.mkv -o o.mkv SMALL --scenes pipe --model-dir TESTDATA".into(),
        "film.mkv -o pipe.mkv -y --model identity --resolution 1x".into(),
        "batch --list pipe --model anime".into(),
        "verify other.mkv".into(),
        "verify pipe.mkv".into(),
        "redecode pipe -o o.mkv".into(),
        "vae roundtrip pipe.mkv -o o.mkv --weights identity".into(),
        "vae encode pipe.safetensors -o o.safetensors --weights formula:tiny".into(),
        "vae decode pipe -o o.mkv --weights formula:tiny".into(),
        "vae roundtrip film.mkv -o o.mkv --weights pipe.safetensors".into(),
        "models inspect pipe.safetensors".into(),
        "models verify pipe.safetensors".into(),
        "unit run --plan pipe --input film.mkv --index 0".into(),
        "assemble --plan pipe --input film.mkv -o o.mkv".into(),
        "doctor --goldens pipe.safetensors".into(),
        #[cfg(feature = "serve")]
        "serve --port 0 --state state --token-file pipe".into(),
    ] {
        let mut child = desk.command(&line).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let code = ended(&mut child, SOON);
        if code.is_none() {
            let _ = child.kill();
        }
        assert!(matches!(code, Some(2 | 3 | 6)), "{line}: {code:?}");
    }
}
