//! Memory of ffmpeg as a child, by codec, frame size and threads: reserved before a run, as nothing limits it in one.

use remaster_picture::Layout;

use crate::probe::Video;

/// Highest resident memory of a child that decodes or encodes: a base, and bytes per pixel of the frame, alone and for
/// each thread, for frames of `half_samples` half bytes per pixel.
struct Row {
    name: &'static str,
    half_samples: u64,
    base: u64,
    pixel: u64,
    thread: u64,
}

const fn row(name: &'static str, half_samples: u64, base_mib: u64, pixel: u64, thread: u64) -> Row {
    Row { name, half_samples, base: base_mib << 20, pixel, thread }
}

/// 8 and 10 bits in 4:2:0, and 10 bits in 4:2:2, in half bytes per pixel.
const EIGHT: u64 = 3;
const TEN: u64 = 6;
const TEN_422: u64 = 8;

/// Over what `tools/ffmpeg_memory/measure.py` measured with ffmpeg 5.1, by 2 to 30 percent.
const DECODERS: [Row; 7] = [
    row("h264", EIGHT, 66, 12, 5),
    row("hevc", TEN, 66, 26, 6),
    row("mpeg2video", EIGHT, 62, 10, 2),
    row("ffv1", TEN, 64, 16, 1),
    row("prores", TEN_422, 62, 16, 9),
    row("vp9", EIGHT, 62, 16, 3),
    row("av1", EIGHT, 62, 28, 3),
];

const ENCODERS: [Row; 5] = [
    row("libx264", EIGHT, 68, 185, 14),
    row("libx265", TEN, 80, 400, 30),
    row("ffv1", TEN, 66, 168, 1),
    row("prores_ks", TEN_422, 60, 12, 8),
    row("libvpx-vp9", EIGHT, 66, 175, 18),
];

/// A frame as it goes through a pipe.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Of a plane of the full size.
    pub pixels: usize,
    /// Of all planes.
    pub bytes: usize,
}

impl Size {
    /// Of a frame with these samples.
    pub fn new(layout: &Layout, width: usize, height: usize) -> Self {
        let pixels = width.saturating_mul(height);
        Size { pixels, bytes: layout.bytes(width, height).unwrap_or(usize::MAX) }
    }

    /// Of a frame of a file.
    pub fn of(video: &Video) -> Self {
        Size::new(&video.read_as, video.width, video.height)
    }

    /// Of a frame in 8 bits and 4:2:0.
    pub fn plain(pixels: usize) -> Self {
        Size { pixels, bytes: pixels.saturating_mul(3) / 2 }
    }
}

/// Bytes that a child takes which decodes frames of this size.
pub fn decoder(codec: &str, size: Size, threads: usize) -> u64 {
    most(&DECODERS, codec, size, threads)
}

/// Bytes that a child takes which encodes frames of this size.
pub fn encoder(name: &str, size: Size, threads: usize) -> u64 {
    most(&ENCODERS, name, size, threads)
}

/// Bytes per pixel that a person's filters may take beside the decoder. Which filters, and what each of them keeps, is
/// not known: this covers what was measured at 1080p, see below, and windows of forty frames in 8 bits.
const FILTERS: u64 = 64;

/// Bytes that filters take which make frames of one size out of frames of another.
pub fn filters(before: Size, after: Size) -> u64 {
    let pixels = |size: Size| (size.pixels as u64).max((size.bytes as u64).saturating_mul(2) / EIGHT);
    pixels(before).max(pixels(after)).saturating_mul(FILTERS)
}

/// By the row of that name; what has none gets the largest. More planes or deeper samples count like more pixels.
fn most(rows: &[Row], name: &str, size: Size, threads: usize) -> u64 {
    let bytes = |row: &Row| {
        let each = row.pixel.saturating_add(row.thread.saturating_mul(threads as u64));
        let pixels = (size.pixels as u64).max((size.bytes as u64).saturating_mul(2) / row.half_samples);
        row.base.saturating_add(each.saturating_mul(pixels))
    };
    let known = rows.iter().find(|row| row.name == name).map(bytes);
    known.or_else(|| rows.iter().map(bytes).max()).unwrap_or(0)
}

/// Threads of a child on a machine of `cores`: more than 8 gain little where the network is waited for, and each holds
/// frames. Fewer if memory is small.
pub fn threads(cores: usize, ram: u64) -> usize {
    let by_memory = usize::try_from(ram / (512 << 20)).unwrap_or(usize::MAX);
    by_memory.clamp(1, cores.clamp(1, 8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_threads_where_memory_is_small_and_never_more_than_eight() {
        assert_eq!([threads(16, 300 << 20), threads(16, 2 << 30), threads(64, u64::MAX)], [1, 4, 8]);
        assert_eq!([threads(2, 64 << 30), threads(0, 64 << 30)], [2, 1]);
    }

    #[test]
    fn what_is_not_known_gets_the_largest_row_and_numbers_saturate() {
        let size = Size::plain(1 << 20);
        let largest = ENCODERS.iter().map(|r| encoder(r.name, size, 4)).max();
        assert_eq!(Some(encoder("libnew", size, 4)), largest);
        assert_eq!(decoder("h264", Size::plain(usize::MAX), usize::MAX), u64::MAX);
        let deep = Size { bytes: 8 << 20, ..size };
        assert!(encoder("ffv1", deep, 4) > 2 * encoder("ffv1", size, 4));
    }

    /// A codec or encoder, pixels, threads, and the bytes that were measured.
    type Point = (&'static str, usize, usize, u64);

    const P480: usize = 864 * 480;
    const P1080: usize = 1920 * 1088;

    const DECODED: [Point; 27] = [
        ("h264", P480, 1, 68_231_168),
        ("h264", P480, 16, 104_017_920),
        ("h264", P1080, 1, 89_661_440),
        ("h264", P1080, 8, 162_951_168),
        ("hevc", P480, 1, 74_821_632),
        ("hevc", P480, 8, 86_687_744),
        ("hevc", P480, 16, 112_762_880),
        ("hevc", P1080, 1, 127_926_272),
        ("hevc", P1080, 8, 213_721_088),
        ("mpeg2video", P480, 1, 64_380_928),
        ("mpeg2video", P480, 16, 67_051_520),
        ("mpeg2video", P1080, 8, 81_358_848),
        ("ffv1", P480, 1, 65_187_840),
        ("ffv1", P1080, 1, 88_051_712),
        ("ffv1", P1080, 8, 88_272_896),
        ("prores", P480, 2, 76_541_952),
        ("prores", P480, 16, 103_870_464),
        ("prores", P1080, 1, 93_089_792),
        ("prores", P1080, 8, 213_950_464),
        ("vp9", P480, 1, 62_775_296),
        ("vp9", P480, 16, 78_409_728),
        ("vp9", P1080, 1, 78_245_888),
        ("vp9", P1080, 8, 123_142_144),
        ("av1", P480, 2, 72_560_640),
        ("av1", P480, 16, 81_735_680),
        ("av1", P1080, 1, 108_769_280),
        ("av1", P1080, 8, 147_673_088),
    ];

    const ENCODED: [Point; 15] = [
        ("libx264", P480, 1, 144_990_208),
        ("libx264", P480, 16, 220_127_232),
        ("libx264", P1080, 1, 442_540_032),
        ("libx264", P1080, 8, 629_714_944),
        ("libx265", P480, 1, 242_757_632),
        ("libx265", P480, 2, 253_579_264),
        ("libx265", P1080, 1, 721_293_312),
        ("ffv1", P480, 1, 124_305_408),
        ("ffv1", P480, 8, 124_469_248),
        ("ffv1", P1080, 1, 411_025_408),
        ("ffv1", P1080, 8, 411_185_152),
        ("prores_ks", P480, 1, 59_678_720),
        ("prores_ks", P480, 8, 78_503_936),
        ("libvpx-vp9", P480, 1, 142_893_056),
        ("libvpx-vp9", P480, 8, 188_489_728),
    ];

    /// What filters took beside a decoder at 1080p with 4 threads, and the pixels of the larger frames. Without filters it
    /// took 102,236,160 bytes.
    const FILTERED: [(&str, u64, usize); 7] = [
        ("hqdn3d", 6_832_128, HD),
        ("nlmeans", 23_150_592, HD),
        ("bwdif", 3_096_576, HD),
        ("atadenoise=s=33", 34_631_680, HD),
        ("tmix=frames=10", 25_112_576, HD),
        ("minterpolate=fps=48:mi_mode=blend", 26_370_048, HD),
        ("scale=3840:2160", 101_523_456, 4 * HD),
    ];
    const HD: usize = 1920 * 1080;

    #[test]
    fn filters_take_less_than_is_reserved_for_them() {
        for (name, measured, pixels) in FILTERED {
            let told = filters(Size::plain(HD), Size::plain(pixels));
            assert!(told > 2 * measured, "{name}: {told} for {measured}");
        }
        assert_eq!(filters(Size::plain(HD), Size::plain(1)), filters(Size::plain(1), Size::plain(HD)));
        assert_eq!(filters(Size::plain(usize::MAX), Size::plain(1)), u64::MAX);
    }

    #[test]
    fn the_table_covers_what_was_measured_and_not_much_more() {
        let check = |of: fn(&str, Size, usize) -> u64, list: &[Point]| {
            for (name, pixels, threads, measured) in list {
                let told = of(name, Size::plain(*pixels), *threads);
                let about = format!("{name}, {pixels} pixels, {threads} threads: {told} for {measured}");
                assert!(told >= *measured, "{about}");
                assert!(told < measured / 2 * 3 + (32 << 20), "{about}");
            }
        };
        check(decoder, &DECODED);
        check(encoder, &ENCODED);
    }
}
