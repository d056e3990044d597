//! Letters for pictures, one size: DejaVu Sans with capitals of 13 pixels, as coverage. `tools/letters` made the file and
//! describes it; the licence is beside it. Latin, Greek and Cyrillic are in it; what is not is drawn as a box with its code.

use super::image::{Image, Rgb};

/// 791 letters, 58 KB.
static LETTERS: &[u8] = include_bytes!("letters.bin");

/// The licence of the letters, which goes with every copy.
pub static LETTERS_NOTICE: &str = include_str!("letters.LICENSE");

/// Bytes of a record before its pixels.
const HEAD: usize = 7;

/// Rows of capitals.
pub(crate) const CAPITALS: usize = 13;

/// A letter of the file.
struct Letter {
    /// Columns to the next letter.
    advance: usize,
    columns: usize,
    /// Edges of its pixels, from the pen and from the top of capitals.
    left: isize,
    top: isize,
    /// Two to a byte, row by row.
    pixels: &'static [u8],
}

/// The letter for a character. Records follow one another, so that the file is read up to it: a sheet has some hundred
/// characters, and this takes a microsecond each.
fn letter(character: char) -> Option<Letter> {
    let wanted = u16::try_from(u32::from(character)).ok()?;
    let mut rest = LETTERS;
    while let Some((&[low, high, advance, columns, rows, left, top], behind)) =
        rest.split_first_chunk::<HEAD>()
    {
        let count = (usize::from(columns) * usize::from(rows)).div_ceil(2);
        let (pixels, next) = behind.split_at_checked(count)?;
        if u16::from_le_bytes([low, high]) == wanted {
            let edge = |byte: u8| isize::from(byte.cast_signed());
            return Some(Letter {
                advance: advance.into(),
                columns: columns.into(),
                left: edge(left),
                top: edge(top),
                pixels,
            });
        }
        rest = next;
    }
    None
}

/// Digits of codes: 3 x 5 dots, a row in three bits.
const DIGITS: [[u8; 5]; 16] = [
    [7, 5, 5, 5, 7],
    [2, 6, 2, 2, 7],
    [7, 1, 7, 4, 7],
    [7, 1, 3, 1, 7],
    [5, 5, 7, 1, 1],
    [7, 4, 7, 1, 7],
    [7, 4, 7, 5, 7],
    [7, 1, 1, 2, 2],
    [7, 5, 7, 5, 7],
    [7, 5, 7, 1, 7],
    [2, 5, 7, 5, 5],
    [6, 5, 6, 5, 6],
    [3, 4, 4, 4, 3],
    [6, 5, 5, 5, 6],
    [7, 4, 6, 4, 7],
    [7, 4, 6, 4, 4],
];

/// Rows of a box: two rows of digits, space around them, and the frame.
const BOX: usize = 2 * 5 + 3 + 2;

/// Digits across in the box of a character.
fn digits(character: char) -> usize {
    if u32::from(character) > 0xffff { 3 } else { 2 }
}

/// Columns of the box of a character.
fn box_width(character: char) -> usize {
    digits(character) * 4 + 3
}

/// Columns from a character to the next one.
pub(crate) fn advance(character: char) -> usize {
    letter(character).map_or_else(|| box_width(character) + 2, |letter| letter.advance)
}

/// Draws a character whose capitals would begin at `y`.
pub(crate) fn draw(image: &mut Image, x: usize, y: usize, colour: Rgb, character: char) {
    let Some(letter) = letter(character) else { return draw_box(image, x, y, colour, character) };
    for (i, pair) in letter.pixels.iter().enumerate() {
        for (at, cover) in [(2 * i, pair >> 4), (2 * i + 1, pair & 15)] {
            let (column, row) = (at % letter.columns, at / letter.columns);
            let place = (
                x.checked_add_signed(letter.left + column as isize),
                y.checked_add_signed(letter.top + row as isize),
            );
            if let ((Some(x), Some(y)), 1..) = (place, cover) {
                image.blend(x, y, colour, f32::from(cover) / 15.0);
            }
        }
    }
}

/// The code of a character in hexadecimal, in a frame.
fn draw_box(image: &mut Image, x: usize, y: usize, colour: Rgb, character: char) {
    let (wide, across) = (box_width(character), digits(character));
    let y = y.saturating_sub((BOX - CAPITALS) / 2);
    image.outline(x + 1, y + 1, wide - 2, BOX - 2, 1, colour);
    for place in 0..2 * across {
        let digit = u32::from(character) >> (4 * (2 * across - 1 - place)) & 15;
        let (left, top) = (x + 2 + place % across * 4, y + 2 + place / across * 6);
        for (row, bits) in DIGITS[digit as usize].iter().enumerate() {
            for column in (0..3).filter(|column| bits >> (2 - column) & 1 == 1) {
                image.put(left + column, top + row, colour);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// A character alone on a canvas.
    fn drawn(character: char) -> Vec<u8> {
        let mut image = Image::new(48, 32, [0; 3]);
        draw(&mut image, 12, 8, [255; 3], character);
        image.data
    }

    #[test]
    fn every_letter_of_the_file_is_found_and_lies_around_its_line() {
        let (mut rest, mut count) = (LETTERS, 0);
        while let Some((head, behind)) = rest.split_first_chunk::<HEAD>() {
            let code = u16::from_le_bytes([head[0], head[1]]);
            let character = char::from_u32(code.into()).unwrap();
            let found = letter(character).unwrap();
            let rows = isize::from(head[4]);
            assert!((-6..=17).contains(&found.top) && found.top + rows <= 18, "{character}");
            assert!(found.advance <= 24 && found.columns <= 26, "{character}");
            rest = &behind[found.pixels.len()..];
            count += 1;
        }
        assert_eq!((count, rest.len()), (791, 0));
    }

    #[test]
    fn letters_of_european_languages_are_drawn_and_differ() {
        let words = "ÄÖÜäöüß ÀÉÎÕÑç ŁŚŹżąę ČŠŽřů ŐŰőű ĞŞıİ Țș ÆØÅ ΑΒΓΔλμπΩ ЖЩЮЯжщюяЁЇєґ Việtếộ €–—…→×";
        let unique: HashSet<char> = words.chars().filter(|c| *c != ' ').collect();
        assert!(unique.iter().all(|c| letter(*c).is_some()));
        // Alpha, Beta and a few more look like Latin ones.
        let seen: HashSet<Vec<u8>> = unique.iter().chain(&['a', 'A', 'g', '0']).map(|c| drawn(*c)).collect();
        assert!(seen.len() >= unique.len(), "{} of {}", seen.len(), unique.len());
        assert!(drawn(' ').iter().all(|v| *v == 0) && advance(' ') > 0);
    }

    #[test]
    fn a_mark_is_put_on_the_letter_before_it() {
        assert_eq!(advance('\u{308}'), 0);
        let text = |words: &str| {
            let mut image = Image::new(48, 32, [0; 3]);
            image.text(12, 8, super::super::image::Anchor::Left, [255; 3], words);
            image.data
        };
        let (bare, marked) = (text("u"), text("u\u{308}"));
        let changed: Vec<usize> = (0..bare.len()).filter(|i| bare[*i] != marked[*i]).collect();
        assert!(changed.len() >= 3 * 8);
        // Above the letter, and not beside it.
        let place = |i: &usize| (i / 3 % 48, i / 3 / 48);
        assert!(changed.iter().map(place).all(|(x, y)| (12..12 + advance('u')).contains(&x) && y < 8 + 4));
    }

    #[test]
    fn what_is_not_in_the_file_shows_its_code() {
        for (character, wide) in [('中', 11), ('\u{7}', 11), ('😀', 15)] {
            assert!(letter(character).is_none());
            assert_eq!(advance(character), wide + 2);
        }
        let codes = ['中', '丮', '😀', '\u{10ffff}', 'ا'].map(drawn);
        assert_eq!(codes.iter().collect::<HashSet<_>>().len(), 5);
        // Nothing is drawn outside of the canvas.
        let mut image = Image::new(4, 4, [0; 3]);
        for character in ['中', 'Ä', 'j', '\u{308}'] {
            draw(&mut image, 0, 0, [255; 3], character);
            draw(&mut image, 3, 3, [255; 3], character);
        }
    }
}
