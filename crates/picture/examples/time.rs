//! Times of one 1080p frame, on one thread: `cargo run --release -p remaster-picture --example time`.
#![expect(clippy::print_stdout, reason = "a tool that talks")]

use std::time::Instant;

use remaster_picture::{
    Coding, Edges, Frame, Layout, Matrix, PictureError, Range, Siting, StillInfo, pad, png, resize, still,
    turn,
};

/// Best and median of a few runs, in milliseconds: what the code can do, and what it does beside other work.
fn time(mut run: impl FnMut() -> Result<(), PictureError>) -> Result<String, PictureError> {
    let mut times = Vec::new();
    for _ in 0..11 {
        let start = Instant::now();
        run()?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    Ok(format!("{:6.1} ms best, {:6.1} ms median", times[0], times[5]))
}

fn time_of(make: impl Fn() -> Frame) -> Result<String, PictureError> {
    time(|| {
        std::hint::black_box(make());
        Ok(())
    })
}

fn main() -> Result<(), PictureError> {
    let (width, height) = (1920, 1080);
    let coding = Coding { matrix: Matrix::Bt709, range: Range::Limited, siting: Siting::Left };
    let value = |i: usize| (i * 7919 % 1009) as f32 / 1009.0;
    let rgb = Frame { width, height, channels: 3, data: (0..width * height * 3).map(value).collect() };
    let names = "yuv420p yuv420p10le yuv422p10le yuv444p10le yuv410p yuva420p10le gbrp16le gbrpf32le rgb24 rgb48le \
        rgba64le gray";
    for name in names.split(' ') {
        let Some(layout) = Layout::from_name(name) else { continue };
        let (mut bytes, mut frame) =
            (Vec::new(), Frame::new(width, height, if layout.alpha { 4 } else { 3 }));
        let packed = time(|| layout.pack(&rgb, &coding, &mut bytes))?;
        let unpacked = time(|| layout.unpack(&bytes, &coding, &mut frame))?;
        println!("{name:13} unpack {unpacked}    pack {packed}");
    }
    for (from, to) in [([960, 540], [1920, 1080]), ([1920, 1080], [1280, 720]), ([1920, 1080], [3840, 2160])]
    {
        let small = resize(&rgb, from[0], from[1]);
        println!("resize {from:?} to {to:?} {}", time_of(|| resize(&small, to[0], to[1]))?);
    }
    println!("pad    {}", time_of(|| pad(&rgb, 16, Edges::Black))?);
    println!("turn   {}", time_of(|| turn(&rgb, 1))?);
    let smooth = resize(&resize(&rgb, 60, 34), width, height);
    for depth in [8, 16] {
        let mut file = Vec::new();
        let encoded = time(|| png::encode(&smooth, &StillInfo::srgb(depth)).map(|bytes| file = bytes))?;
        let decoded = time(|| still::decode(&file, u64::MAX).map(drop))?;
        println!("PNG {depth:2} bits: decode {decoded}    encode {encoded}, {} bytes", file.len());
    }
    Ok(())
}
