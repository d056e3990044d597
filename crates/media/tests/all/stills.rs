//! Stills as clips: every format to every other, and folders in natural order.

use std::path::Path;

use remaster_media::{
    FrameSink, FrameSource, MediaError, OutputKind, PictureWriter, Pictures, ReadOptions, Stop, TimeBase,
};
use remaster_picture::{Frame, StillFormat, StillInfo, still};
use remaster_testkit::stills::{psnr, put, read, waves};

const MOST: u64 = 1 << 30;

fn open(path: &Path) -> Result<Pictures, MediaError> {
    let stop = Stop::when(|| false);
    Pictures::open(path, TimeBase { num: 25, den: 1 }, ReadOptions::default(), MOST, stop)
}

/// Passes pictures on as they are, and says what was noted.
fn pass(from: &Path, to: &Path) -> Result<Vec<String>, MediaError> {
    let mut source = open(from)?;
    let mut sink = PictureWriter::create(to, source.format(), Some(&source.originals()), false)?;
    let notes = [source.notes(), sink.notes()].concat();
    let mut frame = Frame::default();
    while let Some(pts) = source.next(&mut frame)? {
        sink.write(&frame, pts)?;
    }
    Box::new(sink).finish()?;
    Ok(notes)
}

#[test]
fn every_format_becomes_every_other() {
    let folder = tempfile::tempdir().unwrap();
    for depth in [8, 16] {
        for from in ["in.png", "in.jpg", "in.webp", "in.tif"] {
            let from = folder.path().join(from);
            if depth == 16 && !StillFormat::of_ending(&from).unwrap().is_deep() {
                continue;
            }
            put(&from, &waves(37, 22, depth), StillInfo::srgb(depth));
            let (source, _) = read(&from);
            for to in ["png", "jpg", "jpeg", "webp", "tif", "tiff"] {
                let out = folder.path().join(format!("{depth}.{}.{to}", from.extension().unwrap().display()));
                let notes = pass(&from, &out).unwrap();
                let format = StillFormat::of_ending(&out).unwrap();
                assert_eq!(still::sniff(&out).unwrap(), Some(format));
                assert_eq!(notes.is_empty(), depth == 8 || format.is_deep(), "{notes:?}");
                let (back, info) = read(&out);
                assert_eq!(info.depth, if format.is_deep() { depth } else { 8 });
                match format {
                    StillFormat::Jpeg => {
                        assert!(psnr(&source, &back) > 38.0, "{to}: {}", psnr(&source, &back));
                    }
                    _ if info.depth == depth => assert!(source == back, "{} to {to}", from.display()),
                    // 16 bits rounded to 8.
                    _ => {
                        let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 0.5001 / 255.0;
                        assert!(back.data.iter().zip(&source.data).all(near));
                    }
                }
            }
        }
    }
}

#[test]
fn folders_are_read_in_natural_order_whatever_their_files_are() {
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("in");
    std::fs::create_dir(&inside).unwrap();
    // The brightness of a picture is its number.
    let flat = |n: u8| Frame { width: 16, height: 16, channels: 3, data: vec![f32::from(n) / 255.0; 768] };
    for (name, n) in [("1.png", 10), ("2.webp", 20), ("10.tif", 100), ("9.png", 90), ("11.PNG", 110)] {
        put(&inside.join(name), &flat(n), StillInfo::srgb(8));
    }
    std::fs::write(inside.join(".hidden.png"), "no picture").unwrap();
    std::fs::write(inside.join("notes.txt"), "words").unwrap();
    let out = folder.path().join("out");
    assert!(pass(&inside, &out).unwrap().is_empty());
    let seen = |name: &str| (read(&out.join(format!("{name}.png"))).0.data[0] * 255.0).round() as u8;
    assert_eq!(["1", "2", "9", "10", "11"].map(seen), [10, 20, 90, 100, 110]);
    let mut source = open(&inside).unwrap();
    let mut frame = Frame::default();
    for value in [10, 20, 90, 100, 110] {
        source.next(&mut frame).unwrap();
        assert_eq!((frame.data[0] * 255.0).round() as u8, value);
    }
    // A picture that is none is found before any work.
    std::fs::write(inside.join("3.jpg"), "<html>404</html>").unwrap();
    let error = open(&inside).err().unwrap();
    assert!(error.to_string().contains("3.jpg"), "{error}");
}

#[test]
fn stills_that_are_not_written_are_refused() {
    for ending in ["bmp", "gif", "heic", "jxl", "avif", "jp2", "GIF"] {
        assert_eq!(OutputKind::of(Path::new(&format!("o.{ending}"))), None, "{ending}");
    }
    assert!(OutputKind::endings().ends_with(".jpg, .png, .webp, .tif, .exr"));
    let folder = tempfile::tempdir().unwrap();
    let from = folder.path().join("in.png");
    let alpha = Frame { width: 4, height: 4, channels: 4, data: vec![0.5; 64] };
    put(&from, &alpha, StillInfo::srgb(8));
    let error = pass(&from, &folder.path().join("o.jpg")).unwrap_err();
    assert!(error.to_string().contains("alpha"), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// A photo, and those of a folder that `REMASTER_PHOTOS` names, read and written once: the figures of docs/formats.md.
#[test]
fn photos_keep_40_db_as_jpeg() {
    let mut photos = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/media/cat.png")];
    if let Some(more) = std::env::var_os("REMASTER_PHOTOS") {
        photos.extend(std::fs::read_dir(more).unwrap().map(|entry| entry.unwrap().path()));
    }
    let folder = tempfile::tempdir().unwrap();
    for path in photos {
        let (source, _) = read(&path);
        let out = folder.path().join("o.jpg");
        put(&out, &source, StillInfo::srgb(8));
        let (back, _) = read(&out);
        let bytes = std::fs::metadata(&out).unwrap().len();
        let name = path.file_name().unwrap().display();
        let kept = psnr(&source, &back);
        println!("{name}: {kept:.2} dB, {bytes} bytes");
        assert!(kept >= 40.0, "{name}: {kept:.2} dB");
        if let Some(folder) = std::env::var_os("REMASTER_PHOTOS_OUT") {
            let to = Path::new(&folder).join(path.file_stem().unwrap());
            std::fs::copy(&out, to.with_extension("ours.jpg")).unwrap();
            put(&to.with_extension("read.png"), &source, StillInfo::srgb(8));
        }
    }
}
