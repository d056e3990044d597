//! Memory of ffmpeg as a child, by codec, frame size and threads: reserved before a run, as nothing limits it in one.

/// Highest resident memory of a child that decodes or encodes: a base, and bytes per pixel of the frame, alone and for
/// each thread.
struct Row {
    name: &'static str,
    base: u64,
    pixel: u64,
    thread: u64,
}

const fn row(name: &'static str, base_mib: u64, pixel: u64, thread: u64) -> Row {
    Row { name, base: base_mib << 20, pixel, thread }
}

/// Over what `tools/appetite/measure.py` measured with ffmpeg 5.1 at 480p, 1080p and 2160p with 1 to 16 threads, by
/// some percent each.
const DECODERS: [Row; 7] = [
    row("h264", 70, 24, 5),
    row("hevc", 76, 30, 6),
    row("mpeg2video", 66, 16, 2),
    row("ffv1", 70, 24, 2),
    row("prores", 66, 24, 8),
    row("vp9", 70, 24, 5),
    row("av1", 80, 40, 8),
];

const ENCODERS: [Row; 5] = [
    row("libx264", 68, 185, 14),
    row("libx265", 80, 400, 30),
    row("ffv1", 80, 40, 4),
    row("prores_ks", 80, 30, 4),
    row("libvpx-vp9", 80, 100, 4),
];

/// Bytes that a child takes which decodes frames of so many pixels.
pub fn decoder(codec: &str, pixels: usize, threads: usize) -> u64 {
    most(&DECODERS, codec, pixels, threads)
}

/// Bytes that a child takes which encodes frames of so many pixels.
pub fn encoder(name: &str, pixels: usize, threads: usize) -> u64 {
    most(&ENCODERS, name, pixels, threads)
}

/// By the row of that name; what has none gets the largest.
fn most(rows: &[Row], name: &str, pixels: usize, threads: usize) -> u64 {
    let bytes = |row: &Row| {
        let each = row.pixel.saturating_add(row.thread.saturating_mul(threads as u64));
        row.base.saturating_add(each.saturating_mul(pixels as u64))
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
        let largest = ENCODERS.iter().map(|r| encoder(r.name, 1 << 20, 4)).max();
        assert_eq!(Some(encoder("libnew", 1 << 20, 4)), largest);
        assert_eq!(decoder("h264", usize::MAX, usize::MAX), u64::MAX);
    }
}
