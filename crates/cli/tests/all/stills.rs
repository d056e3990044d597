//! Stills through the whole program: every format to every other, descriptions, folders, rates and budgets.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use remaster_picture::{Frame, StillFormat, StillInfo, still};
use remaster_testkit::stills::{psnr, put, read, waves};

use crate::desk::{Desk, bytes, ffmpeg, ffprobe};

fn roundtrip(from: &str, to: &str) -> String {
    format!("vae roundtrip {from} -o {to} --weights identity --progress none")
}

#[test]
fn every_format_becomes_every_other() {
    let folder = Desk::bare();
    let frame = waves(37, 22, 8);
    for name in ["in.png", "in.jpg", "in.webp", "in.tif"] {
        put(&folder.join(name), &frame, StillInfo::srgb(8));
    }
    ffmpeg(&folder, "-i in.png -pix_fmt bgr24 in.bmp");
    for from in ["in.png", "in.jpg", "in.webp", "in.tif", "in.bmp"] {
        let (source, _) = read(&folder.join(from));
        for to in ["png", "jpg", "jpeg", "webp", "tif", "tiff"] {
            let out = folder.join(format!("{}.{to}", &from[3..]));
            folder.works(&roundtrip(from, out.to_str().unwrap()));
            // The ending says what is inside.
            assert_eq!(still::sniff(&out).unwrap(), StillFormat::of_ending(&out));
            let (back, info) = read(&out);
            assert_eq!(info.depth, 8);
            if to.starts_with('j') {
                assert!(psnr(&source, &back) > 38.0, "{from} to {to}: {}", psnr(&source, &back));
            } else {
                assert!(source == back, "{from} to {to}");
            }
        }
    }
}

#[test]
fn sixteen_bits_stay_sixteen_where_the_format_has_them() {
    let folder = Desk::bare();
    let frame = waves(20, 18, 16);
    put(&folder.join("in.png"), &frame, StillInfo::srgb(16));
    put(&folder.join("in.tif"), &frame, StillInfo::srgb(16));
    for from in ["in.png", "in.tif"] {
        for to in ["png", "tif"] {
            let out = format!("{}.{to}", &from[3..]);
            folder.works(&roundtrip(from, &out));
            let (back, info) = read(&folder.join(&out));
            assert!(back == frame && info.depth == 16, "{from} to {to}");
        }
    }
    let words = folder.works(&roundtrip("in.png", "out.webp")).stderr;
    assert!(words.contains("WebP has 8 bits"), "{words}");
    let (back, _) = read(&folder.join("out.webp"));
    assert!(back.data.iter().zip(&frame.data).all(|(a, b)| (a - b).abs() <= 0.5001 / 255.0));
}

#[test]
fn pictures_come_upright_with_what_they_say() {
    let folder = Desk::bare();
    let frame = waves(24, 10, 8);
    let mut exif = b"II*\0\x08\0\0\0\x02\0\x0f\x01\x02\0\x03\0\0\0Me\0\0".to_vec();
    exif.extend(b"\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0");
    let mut profile = vec![5; 300];
    profile[16..20].copy_from_slice(b"RGB ");
    let (icc, xmp) = (Some(profile.clone()), Some(b"<x:xmpmeta tiff:Orientation=\"6\"/>".to_vec()));
    let info = StillInfo { exif: Some(exif), icc, xmp, ..StillInfo::srgb(8) };
    put(&folder.join("in.png"), &frame, info);
    let shown = remaster_picture::upright(frame, 6);
    for to in ["a.png", "a.jpg", "a.webp", "a.tif"] {
        folder.works(&roundtrip("in.png", to));
        let (back, info) = read(&folder.join(to));
        // Read twice: the tag was reset, so it is not turned again.
        assert!(psnr(&back, &shown) > 40.0, "{to}");
        assert_eq!(info.icc.as_ref(), Some(&profile), "{to}");
        assert_eq!(info.xmp.unwrap(), b"<x:xmpmeta tiff:Orientation=\"1\"/>", "{to}");
        assert!(info.exif.unwrap().windows(3).any(|w| w == b"Me\0"), "{to}");
    }
    let words = folder.works(&roundtrip("in.png", "a.exr")).stderr;
    assert!(words.contains("EXR cannot store the colour profile and EXIF and XMP"), "{words}");
}

#[test]
fn what_is_not_written_is_refused_before_any_work() {
    let folder = Desk::bare();
    put(&folder.join("in.png"), &waves(16, 16, 8), StillInfo::srgb(8));
    for ending in ["bmp", "gif", "heic", "jxl", "avif", "jp2", "GIF"] {
        folder.run(&roundtrip("in.png", &format!("o.{ending}"))).ends(2, &[".jpg, .png, .webp, .tif, .exr"]);
    }
    let alpha = Frame { channels: 4, data: vec![0.5; 4 * 256], ..waves(16, 16, 8) };
    put(&folder.join("alpha.png"), &alpha, StillInfo::srgb(8));
    folder.run(&roundtrip("alpha.png", "o.jpg")).ends(2, &["alpha", ".png, .webp or .tif"]);
    assert_eq!(folder.names(), ["alpha.png", "in.png"]);
}

#[test]
fn folders_are_read_in_natural_order_whatever_their_files_are() {
    let folder = Desk::bare();
    std::fs::create_dir(folder.join("in")).unwrap();
    // The brightness of a picture is its number.
    let flat = |n: u8| Frame { width: 16, height: 16, channels: 3, data: vec![f32::from(n) / 255.0; 768] };
    for (name, n) in [("1.png", 10), ("2.webp", 20), ("10.tif", 100), ("9.png", 90), ("11.PNG", 110)] {
        put(&folder.join("in").join(name), &flat(n), StillInfo::srgb(8));
    }
    folder.put("in/.hidden.png", "no picture");
    folder.put("in/notes.txt", "words");
    folder.works(&roundtrip("in", "out"));
    let brightness = |path: &str| (read(&folder.join(path)).0.data[0] * 255.0).round() as u8;
    let named = ["1", "2", "9", "10", "11"].map(|name| brightness(&format!("out/{name}.png")));
    assert_eq!(named, [10, 20, 90, 100, 110]);
    // Frames of a video have no names but numbers; through y4m brightness is rounded.
    folder.works(&roundtrip("in", "out.y4m"));
    folder.works(&roundtrip("out.y4m", "numbered"));
    let numbered = [0, 1, 2, 3, 4].map(|i| brightness(&format!("numbered/{i:06}.png")));
    assert!(numbered.iter().zip(named).all(|(a, b)| a.abs_diff(b) <= 2), "{numbered:?}");
    // A picture that is none is found before any work.
    folder.put("in/3.jpg", "<html>404</html>");
    folder.run(&roundtrip("in", "again")).ends(3, &["3.jpg", "named like an image but is not one"]);
}

/// Names of a folder's files, sorted by bytes.
fn names(folder: &Path) -> Vec<OsString> {
    let mut names: Vec<_> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    names
}

/// A name that is no text, or one that few write.
fn odd(before: &str, behind: &str) -> OsString {
    #[cfg(unix)]
    let odd: OsString = std::os::unix::ffi::OsStringExt::from_vec(vec![0xff]);
    #[cfg(windows)]
    let odd = OsString::from("\u{65e5}");
    [OsStr::new(before), &odd, OsStr::new(behind)].iter().map(OsStr::new).collect()
}

/// A name of two lines, where there are such.
const LINES: &str = if cfg!(windows) { "a b.png" } else { "a\nb.png" };

#[test]
fn a_restored_folder_has_the_names_of_its_input() {
    let folder = Desk::bare();
    std::fs::create_dir(folder.join("in")).unwrap();
    let frame = waves(32, 24, 8);
    let given = ["frame 003.png", "frame 004.PNG", "frame 009.tif", "-y.png", "--help.webp"];
    for name in given.iter().map(OsStr::new).chain([odd("frame 007 ", ".jpg").as_os_str(), OsStr::new(LINES)])
    {
        put(&folder.join("in").join(name), &frame, StillInfo::srgb(8));
    }
    // A picture whose name does not say so.
    std::fs::copy(folder.join("in/-y.png"), folder.join("in/shot.0001")).unwrap();
    std::fs::copy(folder.join("in/-y.png"), folder.join("in/shot.0002")).unwrap();
    let model = "SMALL --resolution 1x -q";
    folder.works(&format!("in -o out {model}"));
    let odd = odd("frame 007 ", ".png");
    let expected = [
        OsStr::new("--help.png"),
        OsStr::new("-y.png"),
        OsStr::new(LINES),
        OsStr::new("frame 003.png"),
        OsStr::new("frame 004.png"),
        &odd,
        OsStr::new("frame 009.png"),
        OsStr::new("shot.0001.png"),
        OsStr::new("shot.0002.png"),
    ];
    assert_eq!(names(&folder.join("out")), expected);
    // A part keeps the names of what it is.
    folder.works(&format!("in -o part --fps 1 --ss 4 --to 6 {model}"));
    assert_eq!(names(&folder.join("part")), expected[4..6]);
    // One picture in a folder.
    folder.works(&format!("in/-y.png -o one/ {model}"));
    assert_eq!(names(&folder.join("one")), ["-y.png"]);
    // Restored latents made into another folder.
    folder.works(&format!("in -o again --keep-latents z.safetensors {model}"));
    folder.works("redecode in z.safetensors -o third -q --vae TESTDATA/nano.safetensors");
    assert_eq!(names(&folder.join("third")), names(&folder.join("out")));
}

#[test]
fn two_pictures_that_would_get_one_name_are_refused_before_the_work() {
    let folder = Desk::bare();
    std::fs::create_dir(folder.join("in")).unwrap();
    for name in ["a.png", "a.jpg", "b.png"] {
        put(&folder.join("in").join(name), &waves(32, 24, 8), StillInfo::srgb(8));
    }
    let words = ["a.jpg and a.png would both become a.png", "rename one of them"];
    folder.run("in -o out SMALL --resolution 1x -q").ends(3, &words);
    assert_eq!(folder.names(), ["in"]);
    // A video has no names.
    folder.works(&roundtrip("in", "out.y4m"));
    // A name that has no room for an ending.
    std::fs::rename(folder.join("in/a.jpg"), folder.join("in").join("l".repeat(254))).unwrap();
    folder.run(&roundtrip("in", "out")).ends(3, &["is too long for .png"]);
}

#[test]
fn whole_frame_rates_reach_video_in_lowest_terms() {
    let folder = Desk::bare();
    std::fs::create_dir(folder.join("in")).unwrap();
    for i in 0..5 {
        put(&folder.join(format!("in/{i}.png")), &waves(32, 32, 8), StillInfo::srgb(8));
    }
    let cases = [("25", "25/1"), ("29.97", "30000/1001"), ("0.5", "1/2"), ("24000/1001", "24000/1001")];
    for (rate, expected) in cases {
        folder.works(&format!("{} --fps {rate} -y", roundtrip("in", "out.mkv")));
        let found = ffprobe("-show_entries stream=r_frame_rate -of csv=p=0", folder.join("out.mkv"));
        assert_eq!(found.trim(), expected, "--fps {rate}");
    }
    folder.works(&format!("{} --fps 24", roundtrip("in", "out.y4m")));
    let head = bytes(&folder, "out.y4m");
    assert!(String::from_utf8_lossy(&head[..60]).contains(" F24:1 "));
    folder.run(&format!("{} --fps 1e9", roundtrip("in", "o.mkv"))).ends(2, &["1e9", "24000/1001"]);
}

#[test]
fn a_budget_is_asked_before_a_picture_is_read() {
    let folder = Desk::bare();
    // 200 MB decoded, some kilobytes in the file.
    put(&folder.join("bomb.png"), &Frame::new(4096, 2048, 3), StillInfo::srgb(8));
    let line = format!("{} --ram 300M", roundtrip("bomb.png", "o.png"));
    folder.run(&line).ends(4, &["4096 x 2048", "75.0 MiB", "--ram"]);
    folder.put("bomb.y4m", "YUV4MPEG2 W16384 H16384 F25:1 C420\nFRAME\n");
    folder
        .run(&format!("{} --ram 300M", roundtrip("bomb.y4m", "o.y4m")))
        .ends(4, &["16384 x 16384", "--ram"]);
    assert_eq!(folder.names().len(), 2);
}
