//! The picture inside a JPEG: baseline, 4:4:4, quality 95, with the tables of the standard (ITU-T T.81, annex K).
//!
//! Values go from floats to coefficients without a stop at 8 bits: rounding happens once, when they are quantised.

use crate::frame::Frame;

const QUALITY: u32 = 95;

/// Natural position of the coefficient at each place of the zigzag.
const ZIGZAG: [usize; 64] = [
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7,
    14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39,
    46, 53, 60, 61, 54, 47, 55, 62, 63,
];

/// Steps of luma and chroma at quality 50 (tables K.1 and K.2).
const STEPS: [[u32; 64]; 2] = [
    [
        16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55, 14, 13, 16, 24, 40, 57, 69, 56, 14,
        17, 22, 29, 51, 87, 80, 62, 18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113, 92, 49,
        64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99,
    ],
    [
        17, 18, 24, 47, 99, 99, 99, 99, 18, 21, 26, 66, 99, 99, 99, 99, 24, 26, 56, 99, 99, 99, 99, 99, 47,
        66, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
        99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
    ],
];

/// Codes by length, and the symbols in order of their codes (tables K.3 to K.6).
struct Table {
    counts: [u8; 16],
    symbols: &'static [u8],
}

const CLASSES: &[u8] = &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];

const DC: [Table; 2] = [
    Table { counts: [0, 1, 5, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0], symbols: CLASSES },
    Table { counts: [0, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0], symbols: CLASSES },
];

const AC: [Table; 2] = [
    Table {
        counts: [0, 2, 1, 3, 3, 2, 4, 3, 5, 5, 4, 4, 0, 0, 1, 0x7d],
        symbols: &[
            0x01, 0x02, 0x03, 0x00, 0x04, 0x11, 0x05, 0x12, 0x21, 0x31, 0x41, 0x06, 0x13, 0x51, 0x61, 0x07,
            0x22, 0x71, 0x14, 0x32, 0x81, 0x91, 0xa1, 0x08, 0x23, 0x42, 0xb1, 0xc1, 0x15, 0x52, 0xd1, 0xf0,
            0x24, 0x33, 0x62, 0x72, 0x82, 0x09, 0x0a, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x25, 0x26, 0x27, 0x28,
            0x29, 0x2a, 0x34, 0x35, 0x36, 0x37, 0x38, 0x39, 0x3a, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, 0x49,
            0x4a, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x59, 0x5a, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68, 0x69,
            0x6a, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78, 0x79, 0x7a, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89,
            0x8a, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9a, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7,
            0xa8, 0xa9, 0xaa, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7, 0xb8, 0xb9, 0xba, 0xc2, 0xc3, 0xc4, 0xc5,
            0xc6, 0xc7, 0xc8, 0xc9, 0xca, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8, 0xd9, 0xda, 0xe1, 0xe2,
            0xe3, 0xe4, 0xe5, 0xe6, 0xe7, 0xe8, 0xe9, 0xea, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8,
            0xf9, 0xfa,
        ],
    },
    Table {
        counts: [0, 2, 1, 2, 4, 4, 3, 4, 7, 5, 4, 4, 0, 1, 2, 0x77],
        symbols: &[
            0x00, 0x01, 0x02, 0x03, 0x11, 0x04, 0x05, 0x21, 0x31, 0x06, 0x12, 0x41, 0x51, 0x07, 0x61, 0x71,
            0x13, 0x22, 0x32, 0x81, 0x08, 0x14, 0x42, 0x91, 0xa1, 0xb1, 0xc1, 0x09, 0x23, 0x33, 0x52, 0xf0,
            0x15, 0x62, 0x72, 0xd1, 0x0a, 0x16, 0x24, 0x34, 0xe1, 0x25, 0xf1, 0x17, 0x18, 0x19, 0x1a, 0x26,
            0x27, 0x28, 0x29, 0x2a, 0x35, 0x36, 0x37, 0x38, 0x39, 0x3a, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48,
            0x49, 0x4a, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x59, 0x5a, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68,
            0x69, 0x6a, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78, 0x79, 0x7a, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87,
            0x88, 0x89, 0x8a, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9a, 0xa2, 0xa3, 0xa4, 0xa5,
            0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7, 0xb8, 0xb9, 0xba, 0xc2, 0xc3,
            0xc4, 0xc5, 0xc6, 0xc7, 0xc8, 0xc9, 0xca, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8, 0xd9, 0xda,
            0xe2, 0xe3, 0xe4, 0xe5, 0xe6, 0xe7, 0xe8, 0xe9, 0xea, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8,
            0xf9, 0xfa,
        ],
    },
];

impl Table {
    /// Code and length of every symbol.
    fn codes(&self) -> [(u16, u8); 256] {
        let mut codes = [(0, 0); 256];
        let (mut code, mut symbols) = (0u16, self.symbols.iter());
        for (length, count) in (1u8..).zip(self.counts) {
            for symbol in symbols.by_ref().take(count.into()) {
                codes[usize::from(*symbol)] = (code, length);
                code += 1;
            }
            code = code.wrapping_mul(2);
        }
        codes
    }
}

/// Bits on their way into the file.
struct Bits<'a> {
    out: &'a mut Vec<u8>,
    waiting: u64,
    count: u32,
}

impl Bits<'_> {
    /// The low `count` bits of `bits`, at most 32.
    fn put(&mut self, bits: u32, count: u32) {
        self.waiting = self.waiting << count | u64::from(bits);
        self.count += count;
        while self.count >= 8 {
            self.count -= 8;
            let byte = (self.waiting >> self.count) as u8;
            self.out.push(byte);
            if byte == 0xff {
                // Otherwise it would be a marker.
                self.out.push(0);
            }
        }
    }

    fn symbol(&mut self, (code, length): (u16, u8)) {
        self.put(code.into(), length.into());
    }

    /// A number as its class, coded, and its bits within the class.
    fn number(&mut self, codes: &[(u16, u8); 256], run: usize, value: i32) {
        let class = 32 - value.unsigned_abs().leading_zeros();
        self.symbol(codes[run << 4 | class as usize]);
        let bits = if value < 0 { value - 1 } else { value } as u32;
        self.put(bits & ((1 << class) - 1), class);
    }
}

/// Tables, frame header and the one scan of `frame`, up to the end of the file.
pub(crate) fn scan(frame: &Frame, [width, height]: [u16; 2], out: &mut Vec<u8>) {
    let scale = 200 - 2 * QUALITY;
    let steps = STEPS.map(|steps| steps.map(|step| ((step * scale + 50) / 100).clamp(1, 255)));
    let mut segment = |marker: u8, bytes: &[u8]| {
        out.extend([0xff, marker]);
        out.extend((bytes.len() as u16 + 2).to_be_bytes());
        out.extend_from_slice(bytes);
    };
    for (id, steps) in (0u8..).zip(&steps) {
        let zigzag: Vec<u8> = std::iter::once(id).chain(ZIGZAG.iter().map(|i| steps[*i] as u8)).collect();
        segment(0xdb, &zigzag);
    }
    let [w, h] = [width, height].map(u16::to_be_bytes);
    segment(0xc0, &[8, h[0], h[1], w[0], w[1], 3, 1, 0x11, 0, 2, 0x11, 1, 3, 0x11, 1]);
    for (class, tables) in [(0u8, &DC), (0x10, &AC)] {
        for (id, table) in (class..).zip(tables) {
            segment(0xc4, &[&[id], &table.counts[..], table.symbols].concat());
        }
    }
    segment(0xda, &[3, 1, 0, 2, 0x11, 3, 0x11, 0, 63, 0]);

    let (dc, ac) = (DC.map(|t| t.codes()), AC.map(|t| t.codes()));
    let waves = waves();
    let mut bits = Bits { out, waiting: 0, count: 0 };
    let mut before = [0; 3];
    for top in (0..frame.height).step_by(8) {
        for left in (0..frame.width).step_by(8) {
            for (c, block) in blocks(frame, left, top).iter().enumerate() {
                let table = usize::from(c > 0);
                let coefficients = transform(block, &waves);
                let level = |place: usize| {
                    let at = ZIGZAG[place];
                    (coefficients[at] / steps[table][at] as f32).round() as i32
                };
                // Baseline has classes up to 11 for differences and up to 10 for the others.
                let first = level(0).clamp(-1024, 1023);
                bits.number(&dc[table], 0, first - before[c]);
                before[c] = first;
                let mut run = 0;
                for place in 1..64 {
                    match level(place).clamp(-1023, 1023) {
                        0 => run += 1,
                        value => {
                            while run > 15 {
                                bits.symbol(ac[table][0xf0]);
                                run -= 16;
                            }
                            bits.number(&ac[table], run, value);
                            run = 0;
                        }
                    }
                }
                if run > 0 {
                    bits.symbol(ac[table][0]);
                }
            }
        }
    }
    // The last byte is filled up with ones.
    bits.put(0x7f, 7);
    out.extend([0xff, 0xd9]);
}

/// Y, Cb and Cr of 8 x 8 pixels, around zero. Beyond the edge the last pixel goes on.
fn blocks(frame: &Frame, left: usize, top: usize) -> [[f32; 64]; 3] {
    let mut blocks = [[0.0; 64]; 3];
    for y in 0..8 {
        let row = frame.row((top + y).min(frame.height - 1));
        for x in 0..8 {
            let at = (left + x).min(frame.width - 1) * frame.channels;
            let [r, g, b] = [0, 1, 2].map(|c| row[at + c].clamp(0.0, 1.0) * 255.0);
            let luma = 0.299 * r + 0.587 * g + 0.114 * b;
            blocks[0][8 * y + x] = luma - 128.0;
            blocks[1][8 * y + x] = (b - luma) / 1.772;
            blocks[2][8 * y + x] = (r - luma) / 1.402;
        }
    }
    blocks
}

/// The cosines of the transform, by frequency and place.
fn waves() -> [[f32; 8]; 8] {
    std::array::from_fn(|u| {
        let scale = if u == 0 { 0.125f64.sqrt() } else { 0.5 };
        std::array::from_fn(|x| {
            (scale * (std::f64::consts::PI * (2 * x + 1) as f64 * u as f64 / 16.0).cos()) as f32
        })
    })
}

/// The cosine transform: rows, then columns.
fn transform(block: &[f32; 64], waves: &[[f32; 8]; 8]) -> [f32; 64] {
    let mut rows = [0.0f32; 64];
    for y in 0..8 {
        for u in 0..8 {
            rows[8 * y + u] = (0..8).map(|x| block[8 * y + x] * waves[u][x]).sum();
        }
    }
    let mut out = [0.0f32; 64];
    for v in 0..8 {
        for y in 0..8 {
            let wave = waves[v][y];
            for u in 0..8 {
                out[8 * v + u] += rows[8 * y + u] * wave;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_symbol_that_can_occur_has_a_code() {
        for (dc, ac) in DC.iter().zip(&AC) {
            for table in [dc, ac] {
                let count: usize = table.counts.iter().map(|n| usize::from(*n)).sum();
                assert_eq!(count, table.symbols.len());
            }
            let (dc, ac) = (dc.codes(), ac.codes());
            assert!((0..=11).all(|class| dc[class].1 > 0));
            assert!((0..16).all(|run| (1..=10).all(|class| ac[run << 4 | class].1 > 0)));
            assert!(ac[0].1 > 0 && ac[0xf0].1 > 0);
        }
    }

    #[test]
    fn the_zigzag_visits_every_place_once() {
        let mut places = ZIGZAG;
        places.sort_unstable();
        assert_eq!(places, std::array::from_fn(|i| i));
    }
}
