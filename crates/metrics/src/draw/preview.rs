//! The preview: frames before and after, whole and a part of each at full size.

use super::image::{Anchor, Image, text_width};
use super::{FAINT, GROUND, INK, LINE, MARK, shortened};
use crate::error::MetricsError;
use crate::picture::{Picture, check_pair};
use crate::sample::Sample;

const MARGIN: usize = 24;
const GAP: usize = 12;
/// Pixels of a picture either way: two whole ones and two parts are as wide as most screens.
const CELL: usize = 480;
/// Frames up to this are shown as they are: a part of one would be nearly all of it.
const FULL: usize = 720;
/// Columns for the words above a picture at least.
const LEAST: usize = 260;
/// Rows of a caption.
const CAPTION: usize = LINE + 4;

/// A frame before and after, as small as it is shown.
#[derive(Clone, Debug)]
pub struct BeforeAfter {
    /// What is written above it.
    caption: String,
    whole: Sample,
    /// The part that changed most, if the whole is reduced.
    detail: Option<Sample>,
    /// Size of the frame.
    full: [usize; 2],
}

impl BeforeAfter {
    /// Both pictures have the size of the result.
    pub fn new(before: Picture<'_>, after: Picture<'_>, caption: String) -> Result<Self, MetricsError> {
        check_pair(before, after)?;
        let cell = if after.width.max(after.height) <= FULL { FULL } else { CELL };
        let (whole, detail) = (Sample::whole(before, after, cell), Sample::detail(before, after, cell));
        Ok(BeforeAfter { caption, whole, detail, full: [after.width, after.height] })
    }
}

/// A row for each frame: before and after, and beside them the part that changed most, pixel by pixel. `about` is said at
/// the top, `labels` above the columns.
pub fn preview(about: [&str; 2], labels: [&str; 2], frames: &[BeforeAfter]) -> Image {
    let widest = frames.iter().map(|f| f.whole.width.max(f.whole.height)).max().unwrap_or(1);
    // Small frames are drawn with larger pixels, all alike.
    let zoom = (CELL / widest.max(1)).max(1);
    let cell = frames.iter().map(|f| f.whole.width * zoom).max().unwrap_or(0).max(LEAST);
    let columns = if frames.iter().any(|f| f.detail.is_some()) { 4 } else { 2 };
    let column = |i: usize| MARGIN + i * (cell + GAP);
    let width = column(columns) - GAP - MARGIN;
    let head = MARGIN + 3 * LINE + 8;
    let tall = |f: &BeforeAfter| CAPTION + f.whole.height * zoom + GAP;
    let height = head + frames.iter().map(tall).sum::<usize>() + MARGIN - GAP;
    let mut image = Image::new(width + 2 * MARGIN, height, GROUND);

    image.text(MARGIN, MARGIN, Anchor::Left, INK, &shortened(about[0], width));
    image.text(MARGIN, MARGIN + LINE, Anchor::Left, FAINT, &shortened(about[1], width));
    for i in 0..columns {
        let full = ", 1:1";
        let label = shortened(labels[i % 2], cell - text_width(full));
        let words = if i < 2 { label } else { label + full };
        image.text(column(i), MARGIN + 2 * LINE + 8, Anchor::Left, INK, &words);
    }
    let mut y = head;
    for frame in frames {
        image.text(MARGIN, y + 6, Anchor::Left, FAINT, &shortened(&frame.caption, width));
        y += CAPTION;
        let whole = &frame.whole;
        for (i, pixels) in [&whole.a, &whole.b].into_iter().enumerate() {
            image.paste(column(i), y, whole.width, zoom, pixels);
        }
        if let Some(detail) = &frame.detail {
            for (i, pixels) in [&detail.a, &detail.b].into_iter().enumerate() {
                image.paste(column(2 + i), y, detail.width, 1, pixels);
            }
            mark(&mut image, frame, detail, [column(0), column(1)], y);
        }
        y += whole.height * zoom + GAP;
    }
    image
}

/// Frames the part of the whole pictures that is shown beside them.
fn mark(image: &mut Image, frame: &BeforeAfter, detail: &Sample, lefts: [usize; 2], top: usize) {
    let Some((x, y)) = detail.corner else { return };
    let (whole, [width, height]) = (&frame.whole, frame.full);
    let across = |pixels: usize| pixels * whole.width / width.max(1);
    let down = |pixels: usize| pixels * whole.height / height.max(1);
    let (wide, high) = (across(detail.width).saturating_sub(2), down(detail.height).saturating_sub(2));
    for left in lefts {
        image.outline(left + across(x) + 1, top + down(y) + 1, wide, high, 1, MARK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame whose part around `(x, y)` differs between before and after.
    fn frame(width: usize, height: usize, (x, y): (usize, usize)) -> BeforeAfter {
        let before = vec![0.25; width * height * 3];
        let mut after = before.clone();
        for row in y..(y + 40).min(height) {
            after[(row * width + x) * 3..][..3 * 40.min(width - x)].fill(1.0);
        }
        let picture = |data| Picture::new(width, height, data).unwrap();
        BeforeAfter::new(picture(&before), picture(&after), "frame 7, 0:00:01.000".into()).unwrap()
    }

    #[test]
    fn a_large_frame_has_a_part_at_full_size_beside_it() {
        let large = frame(1920, 1080, (1500, 900));
        let detail = large.detail.as_ref().unwrap();
        let (x, y) = detail.corner.unwrap();
        // What changed is inside.
        assert!(x <= 1500 && 1540 <= x + detail.width && y <= 900 && 940 <= y + detail.height);
        let image = preview(["film.mkv", "6 shots"], ["before", "after"], &[large]);
        assert_eq!((image.width, image.height), (2 * MARGIN + 4 * CELL + 3 * GAP, 426));
        let white = image.data.chunks_exact(3).filter(|p| **p == [255; 3]).count();
        // Once at full size, once reduced, and the frames around the parts.
        assert!((40 * 40..40 * 40 + 100 + 2 * 2 * 260).contains(&white), "{white}");
    }

    #[test]
    fn small_frames_are_shown_whole_and_enlarged() {
        let image = preview(["a", "b"], ["before", "after"], &[frame(64, 48, (8, 8)), frame(64, 48, (0, 0))]);
        assert_eq!(image.width, 2 * MARGIN + 2 * 448 + GAP);
        assert!(image.height > 2 * 336);
        let full = preview(["a", "b"], ["before", "after"], &[frame(720, 404, (0, 0))]);
        assert_eq!(full.width, 2 * MARGIN + 2 * FULL + GAP);
        // A single column of pixels leaves room for words.
        let narrow = preview(["a", "b"], ["before", "after"], &[frame(1, 48, (0, 0))]);
        assert_eq!(narrow.width, 2 * MARGIN + 2 * LEAST + GAP);
    }

    #[test]
    fn words_are_shortened_to_the_sheet() {
        let long = "ein sehr langer Name ".repeat(40);
        let image = preview([&long, &long], [&long, &long], &[frame(64, 48, (8, 8))]);
        let ground =
            |x: usize| (0..image.height).all(|y| image.data[(y * image.width + x) * 3..][..3] == GROUND);
        assert!((image.width - MARGIN + 1..image.width).all(ground));
        assert!(text_width(&shortened(&long, 200)) <= 200);
        assert_eq!(shortened("kurz.mp4", 200), "kurz.mp4");
        assert!(shortened(&long, 200).starts_with('…'));
    }

    #[test]
    fn no_frames_give_a_head() {
        let image = preview(["film", "0 shots"], ["before", "after"], &[]);
        assert!(image.width > 2 * LEAST && image.height > 3 * LINE);
    }
}
