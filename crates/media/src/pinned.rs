//! Encoders that give the same bytes for the same frames, and what they have to be told for that.

use crate::target::{is_option, parameters};
use crate::words::Words;

/// Encoders that were seen to repeat themselves: the tests encode twice with each.
const REPEATING: Words = Words(
    "libx264 libx264rgb libx265 libvpx-vp9 libsvtav1 libaom-av1 ffv1 ffvhuff utvideo prores_ks prores_aw \
    dnxhd",
);

/// Words that ask for a limit of the bit rate.
const LIMITS: [&str; 5] = ["-maxrate", "-bufsize", "vbv", "hrd", "avcintra"];

/// Parameters that ask for a bit rate, beside the option `-b`.
const RATES: [&str; 4] = ["bitrate=", "tbr=", "mbr=", "rc="];

/// Options of a file and not of its video stream, among the words that a person has for an encoder.
const OF_THE_FILE: Words = Words(
    "-tag -vtag -bsf -metadata -disposition -movflags -brand -video_track_timescale -use_editlist \
    -write_tmcd -cues_to_front -reserve_index_space -cluster_size_limit -cluster_time_limit",
);

/// Whether an encoder gives the same bytes for the same frames with the same number of threads. Those of graphics cards do
/// not promise it.
pub fn repeats(encoder: &str) -> bool {
    REPEATING.has(encoder)
}

/// Words for the encoder, and words for the file that its video goes into.
pub(crate) fn of_the_file(words: &[String]) -> (Vec<String>, Vec<String>) {
    let (mut encoder, mut file) = (Vec::new(), Vec::new());
    let mut words = words.iter().cloned();
    while let Some(word) = words.next() {
        if OF_THE_FILE.all().any(|name| is_option(&word, name)) {
            file.push(word);
            file.extend(words.next());
        } else {
            encoder.push(word);
        }
    }
    (encoder, file)
}

/// The same encoder with nothing left to the machine, with closed groups of pictures, and with its headers beside the
/// frames if they are `global`.
pub(crate) fn pinned(words: Vec<String>, threads: usize, is_global: bool) -> Vec<String> {
    let (mut words, said) = without(words, "-threads");
    // 0 is as many as there are cores.
    let mut threads = said.last().and_then(|n| n.parse().ok()).filter(|n| *n > 0).unwrap_or(threads);
    let is_limited = words.iter().any(|word| LIMITS.iter().any(|limit| word.contains(limit)));
    let is_rated = |word: &String| is_option(word, "-b") || RATES.iter().any(|rate| word.contains(rate));
    let is_steered = is_limited || words.iter().any(is_rated);
    let name = words.first().map_or("", String::as_str);
    // Under a limit x264 looks at how far its other threads are: five runs with four threads gave five films.
    if is_limited && name.starts_with("libx264") {
        threads = 1;
    }
    let name = name.to_owned();
    words.extend(["-threads:v:0".to_owned(), threads.to_string()]);
    match name.as_str() {
        // Without the last one algorithms are chosen by the CPU.
        "libx264" | "libx264rgb" => append(&mut words, "-x264-params", "open-gop=0:cpu-independent=1"),
        // Its words about itself name the CPU. Under a limit it looks at how far other threads are unless it is told not to.
        // With a rate to meet it looks at other frames all the same: of 40 runs with two frames at once 3 gave another film,
        // of 320 with one none.
        "libx265" => {
            let frames = if is_steered { 1 } else { frame_threads(threads) };
            let params = format!("open-gop=0:pools={threads}:frame-threads={frames}:info=0:const-vbv=1");
            append(&mut words, "-x265-params", &params);
        }
        // With a rate to meet, 15 runs of its threads gave two films, and 75 of one thread one.
        "libsvtav1" if is_steered => append(&mut words, "-svtav1-params", "lp=1"),
        _ => {}
    }
    let (mut words, said) = without(words, "-flags");
    let headers = if is_global { "" } else { "-global_header" };
    // Others may not know closed groups; a segment starts with a key frame anyway.
    let closed = if words.first().is_some_and(|name| repeats(name)) { "+cgop" } else { "" };
    words.extend(["-flags:v:0".to_owned(), format!("{}{closed}+bitexact{headers}", said.concat())]);
    words
}

/// Frames that x265 encodes at once: what it would choose for as many cores.
fn frame_threads(threads: usize) -> usize {
    match threads {
        0..=3 => 1,
        4..=7 => 2,
        8..=15 => 3,
        16..=31 => 5,
        _ => 6,
    }
}

/// Parameters behind those that a person chose, where they win.
fn append(words: &mut Vec<String>, name: &str, params: &str) {
    let said = parameters(words, name);
    let between = if said.is_empty() { "" } else { ":" };
    *said = format!("{said}{between}{params}");
}

/// All words but an option, and its values.
fn without(words: Vec<String>, name: &str) -> (Vec<String>, Vec<String>) {
    let (mut kept, mut values) = (Vec::new(), Vec::new());
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        if is_option(&word, name) {
            values.extend(words.next());
        } else {
            kept.push(word);
        }
    }
    (kept, values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::words;

    #[test]
    fn what_decides_bytes_is_said_and_wins() {
        assert_eq!(
            pinned(words("libx264 -crf 12 -threads 0"), 3, true).join(" "),
            "libx264 -crf 12 -threads:v:0 3 -x264-params open-gop=0:cpu-independent=1 -flags:v:0 +cgop+bitexact"
        );
        let said = "libx265 -x265-params:v open-gop=1:pools=+ -flags +ilme -flags:v -cgop -threads:v:0 8";
        assert_eq!(
            pinned(words(said), 3, false).join(" "),
            "libx265 -x265-params:v open-gop=1:pools=+:open-gop=0:pools=8:frame-threads=3:info=0:const-vbv=1 -threads:v:0 8 \
             -flags:v:0 +ilme-cgop+cgop+bitexact-global_header"
        );
        let limited = pinned(words("libx264 -maxrate 3M -bufsize 3M -threads 8"), 3, true).join(" ");
        assert!(limited.contains("-threads:v:0 1 "), "{limited}");
        let limited =
            pinned(words("libx265 -x265-params vbv-maxrate=300:vbv-bufsize=300"), 8, true).join(" ");
        assert!(limited.contains(":pools=8:frame-threads=1:"), "{limited}");
        let rated = pinned(words("libx265 -b:v 3M"), 8, true).join(" ");
        assert!(rated.contains("pools=8:frame-threads=1:"), "{rated}");
        for said in ["-b:v 3M", "-maxrate 3M", "-svtav1-params rc=1:tbr=3000"] {
            let rated = pinned(words(&format!("libsvtav1 {said}")), 8, true).join(" ");
            assert!(rated.contains("lp=1 "), "{rated}");
        }
        assert!(!pinned(words("libsvtav1 -crf 20"), 8, true).join(" ").contains("lp="));
        // An option without its value is ffmpeg's to refuse.
        let expected = words("-threads:v:0 2 -flags:v:0 +cgop+bitexact");
        assert!(pinned(words("ffv1 -threads"), 2, true).ends_with(&expected));
    }

    #[test]
    fn options_of_the_file_stay_with_the_file() {
        let (encoder, file) =
            of_the_file(&words("libx265 -tag:v hev1 -crf 12 -movflags +faststart -tagged x -bsf:v"));
        assert_eq!(encoder, words("libx265 -crf 12 -tagged x"));
        assert_eq!(file, words("-tag:v hev1 -movflags +faststart -bsf:v"));
    }
}
