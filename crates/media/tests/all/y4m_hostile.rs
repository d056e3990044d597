//! No y4m stream can do harm: mutations of good ones, and headers that claim more than is allowed.

use std::io::Cursor;

use remaster_media::{FrameSource, MediaError, Stop, TimeBase, Y4mReader};
use remaster_picture::Frame;
use remaster_testkit::hostile::{attack, measured};

/// What a frame may take.
const MOST: u64 = 16 << 20;

fn stop() -> Stop {
    Stop::when(|| false)
}

fn read(bytes: &[u8]) -> Result<usize, MediaError> {
    let mut reader = Y4mReader::new(Cursor::new(bytes), "a.y4m".into(), MOST, stop())?;
    let (mut frame, mut frames) = (Frame::default(), 0);
    while reader.next(&mut frame)?.is_some() {
        frames += 1;
    }
    Ok(frames)
}

fn good(header: &str, frame: usize) -> Vec<u8> {
    let mut file = format!("YUV4MPEG2 {header}\n").into_bytes();
    for i in 0..3u8 {
        file.extend(b"FRAME\n");
        file.extend(std::iter::repeat_n(i * 50, frame));
    }
    file
}

#[test]
fn y4m() {
    let files = [
        good("W8 H6 F25:1 Ip A1:1 C420jpeg XCOLORRANGE=FULL", 72),
        good("W5 H3 F30000:1001 Ip A0:0 C444p10", 90),
        good("W4 H4 F24:1 C444alpha", 64),
    ];
    for file in &files {
        assert_eq!(read(file).unwrap(), 3);
    }
    attack("y4m", &files, MOST as usize + (64 << 20), |bytes| drop(read(bytes)));
}

#[test]
fn a_header_that_claims_more_than_is_allowed_takes_nothing() {
    for header in ["W16384 H16384 F25:1 C420", "W2048 H2048 F25:1 C444p16", "W4096 H1024 F25:1 Cmono"] {
        let file = format!("YUV4MPEG2 {header}\nFRAME\n");
        let (ended, held) = measured(|| read(file.as_bytes()));
        let error = ended.unwrap_err();
        assert!(error.is_over_budget() && error.to_string().contains("--ram"), "{error}");
        assert!(held < 1 << 16, "{held}");
    }
    // Lines without an end, of the header and of a frame.
    for start in ["YUV4MPEG2 W8 H8 X", "YUV4MPEG2 W8 H8 F25:1 C420\nFRAME X"] {
        let file = format!("{start}{}", "x".repeat(1 << 20));
        let (ended, held) = measured(|| read(file.as_bytes()));
        assert!(ended.is_err() && held < 1 << 16, "{held}");
    }
}

#[test]
fn rates_are_in_lowest_terms() {
    for (word, rate) in [("50:2", [25, 1]), ("24000:1000", [24, 1]), ("30000:1001", [30000, 1001])] {
        let file = good(&format!("W4 H4 F{word} C420"), 24);
        let reader = Y4mReader::new(Cursor::new(&file), "a.y4m".into(), MOST, stop()).unwrap();
        let [num, den] = rate;
        assert_eq!(reader.format().rate, Some(TimeBase { num, den }));
        assert_eq!(reader.format().time_base, TimeBase { num: den, den: num });
    }
}
