//! Lists of shots as JSON: our own format, and the one of av1an.
//!
//! ```json
//! {"version": 1, "frames": 110, "starts": [0, 93]}
//! {"frames": 110, "scenes": [{"start_frame": 0, "end_frame": 93}, {"start_frame": 93, "end_frame": 110}]}
//! ```

use serde::{Deserialize, Serialize};

use crate::error::ScenesError;
use crate::shots::Shots;

/// The largest list that is read: room for 50,000 scenes of 300 bytes.
pub const MAX_BYTES: usize = 16 << 20;
/// The most shots of a list.
pub const MAX_SHOTS: usize = 1_000_000;
/// The most frames of a clip: 1,000 years at 30 frames per second.
pub const MAX_FRAMES: u64 = 1 << 40;

const VERSION: u64 = 1;

/// What both formats have, each of it checked later. Other fields are left alone: av1an has some.
#[derive(Deserialize)]
#[serde(expecting = "an object with `starts` or `scenes`")]
struct Read {
    version: Option<u64>,
    frames: Option<u64>,
    starts: Option<Vec<u64>>,
    scenes: Option<Vec<Scene>>,
}

/// A scene of av1an; its end is not part of it.
#[derive(Deserialize)]
struct Scene {
    start_frame: u64,
    end_frame: u64,
}

#[derive(Serialize)]
struct Written<'a> {
    version: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    frames: Option<u64>,
    starts: &'a [u64],
}

pub(crate) fn read(bytes: &[u8]) -> Result<Shots, ScenesError> {
    if bytes.len() > MAX_BYTES {
        return Err(ScenesError::Large { bytes: bytes.len() });
    }
    let read: Read = serde_json::from_slice(bytes).map_err(ScenesError::Json)?;
    match read {
        Read { version: Some(version), .. } if version != VERSION => {
            Err(ScenesError::Version { version, known: VERSION })
        }
        Read { starts: Some(starts), scenes: None, frames, .. } => Shots::new(starts, frames),
        Read { starts: None, scenes: Some(scenes), frames, .. } => foreign(&scenes, frames),
        _ => Err(ScenesError::Format),
    }
}

/// The scenes of av1an, which have to follow one another without gaps.
fn foreign(scenes: &[Scene], frames: Option<u64>) -> Result<Shots, ScenesError> {
    let starts: Vec<u64> = scenes.iter().map(|s| s.start_frame).collect();
    let frames = frames.or(scenes.last().map(|s| s.end_frame));
    let shots = Shots::new(starts, frames)?;
    let ends = shots.starts().iter().skip(1).copied().chain(frames);
    for (i, (scene, expected)) in scenes.iter().zip(ends).enumerate() {
        if scene.end_frame != expected {
            return Err(ScenesError::End { shot: i + 1, end: scene.end_frame, expected });
        }
    }
    Ok(shots)
}

/// Refuses shots that no clip has.
pub(crate) fn check(starts: &[u64], frames: Option<u64>) -> Result<(), ScenesError> {
    if let Some(frames) = frames.filter(|n| !(1..=MAX_FRAMES).contains(n)) {
        return Err(ScenesError::Frames { frames });
    }
    match starts.first() {
        None => return Err(ScenesError::Count { shots: 0 }),
        Some(_) if starts.len() > MAX_SHOTS => return Err(ScenesError::Count { shots: starts.len() }),
        Some(0) => {}
        Some(start) => return Err(ScenesError::First { start: *start }),
    }
    let to = frames.unwrap_or(MAX_FRAMES) - 1;
    for (i, pair) in starts.windows(2).enumerate() {
        // The one before passed, so this cannot overflow.
        let from = pair[0] + 1;
        if pair[1] < from || pair[1] > to {
            return Err(ScenesError::Start { shot: i + 2, start: pair[1], from, to });
        }
    }
    Ok(())
}

pub(crate) fn write(shots: &Shots) -> String {
    let written = Written { version: VERSION, frames: shots.frames(), starts: shots.starts() };
    // Numbers and lists of them cannot fail to become text.
    serde_json::to_string(&written).unwrap_or_default() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        let error = read(text.as_bytes()).unwrap_err();
        assert!(error.to_string().len() < 300);
        format!("{error:?}").split([' ', '(']).next().unwrap().to_owned()
    }

    #[test]
    fn what_was_written_is_read() {
        for (starts, frames) in [(vec![0], None), (vec![0, 93], Some(110)), (vec![0, 5, 6], Some(7))] {
            let shots = Shots::new(starts, frames).unwrap();
            assert_eq!(read(write(&shots).as_bytes()).unwrap(), shots);
        }
        let shots = Shots::new(vec![0, 93], Some(110)).unwrap();
        assert_eq!(write(&shots), "{\"version\":1,\"frames\":110,\"starts\":[0,93]}\n");
    }

    #[test]
    fn scenes_of_av1an_are_read() {
        let text = r#"{"scenes":[{"start_frame":0,"end_frame":53,"zone_overrides":null},
            {"start_frame":53,"end_frame":90,"zone_overrides":{"passes":1}}],
            "split_scenes":[{"start_frame":0,"end_frame":90}],"frames":90}"#;
        let shots = read(text.as_bytes()).unwrap();
        assert_eq!((shots.starts(), shots.frames()), (&[0, 53][..], Some(90)));
        assert!(shots.starts_at(53) && !shots.starts_at(54));
    }

    #[test]
    fn hostile_lists_are_refused() {
        for (text, what) in [
            ("", "Json"),
            ("[]", "Json"),
            ("{}", "Format"),
            (r#"{"starts":[0],"scenes":[]}"#, "Format"),
            (r#"{"starts":[0],"starts":[0]}"#, "Json"),
            (r#"{"starts":[0],"version":2}"#, "Version"),
            (r#"{"starts":[]}"#, "Count"),
            (r#"{"scenes":[]}"#, "Count"),
            (r#"{"starts":[1]}"#, "First"),
            (r#"{"starts":[0,0]}"#, "Start"),
            (r#"{"starts":[0,9,8]}"#, "Start"),
            (r#"{"starts":[0,9],"frames":9}"#, "Start"),
            (r#"{"starts":[0,18446744073709551615]}"#, "Start"),
            (r#"{"starts":[0,18446744073709551616]}"#, "Json"),
            (r#"{"starts":[0,-1]}"#, "Json"),
            (r#"{"starts":[0,1.5]}"#, "Json"),
            (r#"{"starts":[0,1e3]}"#, "Json"),
            (r#"{"starts":[0],"frames":0}"#, "Frames"),
            (r#"{"starts":[0],"frames":18446744073709551615}"#, "Frames"),
            (r#"{"scenes":[{"start_frame":0}]}"#, "Json"),
            (r#"{"scenes":[{"start_frame":0,"end_frame":0}]}"#, "Frames"),
            (r#"{"scenes":[{"start_frame":0,"end_frame":5},{"start_frame":6,"end_frame":9}]}"#, "End"),
            (r#"{"scenes":[{"start_frame":0,"end_frame":5}],"frames":9}"#, "End"),
        ] {
            assert_eq!(error(text), what, "{text}");
        }
        let deep = "[".repeat(1_000_000);
        assert_eq!(error(&deep), "Json");
        assert_eq!(error(&format!(r#"{{"x":{deep}"#)), "Json");
        let many = format!(r#"{{"starts":[0{}]}}"#, ",1".repeat(MAX_SHOTS));
        assert_eq!(error(&many), "Count");
        assert_eq!(error(&" ".repeat(MAX_BYTES + 1)), "Large");
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_reach_a_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            let _ = read(&bytes);
        }

        #[test]
        fn no_numbers_reach_a_panic(starts in proptest::collection::vec(proptest::num::u64::ANY, 0..20), frames in proptest::option::of(proptest::num::u64::ANY)) {
            let _ = Shots::new(starts, frames);
        }
    }
}
