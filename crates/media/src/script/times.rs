//! When frames are shown that are not shown evenly.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::{Failed, Vspipe, ended};
use crate::error::MediaError;
use crate::nut::TimeBase;

/// vspipe writes milliseconds with fractions.
pub(super) const CLOCK: TimeBase = TimeBase { num: 1, den: 1_000_000 };

/// The most frames whose times are kept: 128 MiB, a week at 25 frames per second.
const MOST: usize = 1 << 24;

/// Bytes of a line at most: a number of milliseconds with nine digits behind the point.
const LINE: usize = 32;

/// Times of all frames. vspipe knows them when it has computed all of them.
pub(super) fn read(
    vspipe: &Vspipe,
    path: &Path,
    file: &Path,
    frames: usize,
) -> Result<Arc<[i64]>, MediaError> {
    if frames > MOST {
        return Err(MediaError::ScriptFormat {
            path: path.to_owned(),
            what: format!("{frames} frames of a variable rate, of which {MOST} can be kept"),
            line: "clip = core.std.AssumeFPS(clip, fpsnum=25, fpsden=1)".into(),
        });
    }
    let text = vspipe.written(path, file, "-t", &[], (frames + 2) * LINE, |args| {
        let mut args = args.to_vec();
        args.push("-".into());
        let mut child = match vspipe.spawn(args) {
            Err(MediaError::NoTool { reason, .. }) => return Err(Failed::Start(reason)),
            child => child?,
        };
        // Frames that come show that it is at work.
        if let Some(mut stdout) = child.stdout.take() {
            let mut block = vec![0; 1 << 16];
            while child.waiting(|| stdout.read(&mut block)).is_ok_and(|n| n > 0) {}
        }
        ended(child)
    })?;
    parse(&String::from_utf8_lossy(&text), frames)
        .ok_or_else(|| MediaError::Script {
            path: path.to_owned(),
            reason: format!("vspipe --timecodes does not give rising times for its {frames} frames"),
        })
        .map(Into::into)
}

/// Milliseconds, a line for each frame, behind a line that says so.
fn parse(text: &str, frames: usize) -> Option<Vec<i64>> {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    let mut times: Vec<i64> = Vec::new();
    for line in lines {
        let ticks = line.trim().parse::<f64>().ok().map(|ms| (ms * 1e3).round())?;
        let ticks = (0.0..=1e15).contains(&ticks).then_some(ticks as i64)?;
        if times.last().is_some_and(|last| ticks <= *last) || times.len() == frames {
            return None;
        }
        times.push(ticks);
    }
    (times.len() == frames).then_some(times)
}

/// Frames per second on average; `None` for a single one.
pub(super) fn rate(times: &[i64]) -> Option<TimeBase> {
    let lasts = u64::try_from(times.last()? - times.first()?).ok()?;
    TimeBase::new((times.len() as u64 - 1) * CLOCK.den, lasts)
}

pub(super) fn hash(times: &[i64]) -> String {
    let mut hash = Sha256::new();
    times.iter().for_each(|time| hash.update(time.to_le_bytes()));
    let hash: [u8; 32] = hash.finalize().into();
    hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_taken_only_if_they_rise_and_are_all_there() {
        let head = "# timecode format v2\n";
        assert_eq!(parse(&format!("{head}0.000000000\n40.5\n60\n"), 3), Some(vec![0, 40_500, 60_000]));
        for bad in [
            "0\n40\n",
            "0\n40\n40\n",
            "0\n40\n30\n",
            "0\n-1\n3\n",
            "0\nx\n3\n",
            "0\nnan\n3\n",
            "0\n1\n2\n3\n",
            "0\n1\n1e300\n",
        ] {
            assert_eq!(parse(&format!("{head}{bad}"), 3), None, "{bad}");
        }
        assert_eq!(rate(&[0, 40_000, 60_000, 80_000]), Some(TimeBase { num: 75, den: 2 }));
        assert_eq!((rate(&[5]), rate(&[])), (None, None));
        assert_ne!(hash(&[0, 1]), hash(&[0, 2]));
    }
}
