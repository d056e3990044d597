//! The block formats of GGUF, widened to f32.
//!
//! Every product and sum is rounded to f32 in the order of ggml's own Python package (`gguf.quants`), so the values are
//! the same to the bit; `tools/check_gguf.py` compares them.

use half::f16;

use crate::stored::StoredDtype;

/// Widens whole blocks of `dtype`. `bytes` holds as many blocks as `out`; for any other format nothing happens.
pub(crate) fn decode(dtype: StoredDtype, bytes: &[u8], out: &mut [f32]) {
    let mut each = |one: fn(&[u8], &mut [f32])| {
        let block = dtype.block();
        debug_assert_eq!(bytes.len() / block.bytes, out.len() / block.values);
        for (from, to) in bytes.chunks_exact(block.bytes).zip(out.chunks_exact_mut(block.values)) {
            one(from, to);
        }
    };
    match dtype {
        StoredDtype::Q4_0 => each(q4_0),
        StoredDtype::Q4_1 => each(q4_1),
        StoredDtype::Q5_0 => each(q5_0),
        StoredDtype::Q5_1 => each(q5_1),
        StoredDtype::Q8_0 => each(q8_0),
        StoredDtype::Q2K => each(q2_k),
        StoredDtype::Q3K => each(q3_k),
        StoredDtype::Q4K => each(q4_k),
        StoredDtype::Q5K => each(q5_k),
        StoredDtype::Q6K => each(q6_k),
        _ => {}
    }
}

fn half(bytes: &[u8]) -> f32 {
    f16::from_le_bytes([bytes[0], bytes[1]]).to_f32()
}

/// 16 bytes of two nibbles: the low ones are the first 16 values, the high ones the others.
fn nibbles(qs: &[u8], i: usize) -> u8 {
    if i < 16 { qs[i] & 15 } else { qs[i - 16] >> 4 }
}

fn bit(bits: &[u8], i: usize) -> u8 {
    (bits[i / 8] >> (i % 8)) & 1
}

fn q4_0(block: &[u8], out: &mut [f32]) {
    let d = half(block);
    for (i, v) in out.iter_mut().enumerate() {
        *v = d * (f32::from(nibbles(&block[2..], i)) - 8.0);
    }
}

fn q4_1(block: &[u8], out: &mut [f32]) {
    let (d, m) = (half(block), half(&block[2..]));
    for (i, v) in out.iter_mut().enumerate() {
        *v = d * f32::from(nibbles(&block[4..], i)) + m;
    }
}

fn q5_0(block: &[u8], out: &mut [f32]) {
    let d = half(block);
    let (high, low) = block[2..].split_at(4);
    for (i, v) in out.iter_mut().enumerate() {
        *v = d * (f32::from(nibbles(low, i) | bit(high, i) << 4) - 16.0);
    }
}

fn q5_1(block: &[u8], out: &mut [f32]) {
    let (d, m) = (half(block), half(&block[2..]));
    let (high, low) = block[4..].split_at(4);
    for (i, v) in out.iter_mut().enumerate() {
        *v = d * f32::from(nibbles(low, i) | bit(high, i) << 4) + m;
    }
}

fn q8_0(block: &[u8], out: &mut [f32]) {
    let d = half(block);
    for (v, q) in out.iter_mut().zip(&block[2..]) {
        *v = f32::from(*q as i8) * d;
    }
}

/// Two bits of value `i`: 32 bytes hold 128 values, a quarter of them in the lowest bits of each byte.
fn pair(qs: &[u8], i: usize) -> u8 {
    (qs[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3
}

fn q2_k(block: &[u8], out: &mut [f32]) {
    let (scales, rest) = block.split_at(16);
    let (qs, rest) = rest.split_at(64);
    let (d, dmin) = (half(rest), half(&rest[2..]));
    for (group, values) in out.chunks_exact_mut(16).enumerate() {
        let (dl, ml) = (d * f32::from(scales[group] & 15), dmin * f32::from(scales[group] >> 4));
        for (i, v) in values.iter_mut().enumerate() {
            *v = dl * f32::from(pair(qs, group * 16 + i)) - ml;
        }
    }
}

fn q3_k(block: &[u8], out: &mut [f32]) {
    let (high, rest) = block.split_at(32);
    let (qs, rest) = rest.split_at(64);
    let (scales, d) = rest.split_at(12);
    let d = half(d);
    for (group, values) in out.chunks_exact_mut(16).enumerate() {
        let low = (scales[group % 8] >> (group / 8 * 4)) & 15;
        let top = (scales[8 + group % 4] >> (group / 4 * 2)) & 3;
        let dl = d * (f32::from(low | top << 4) - 32.0);
        for (i, v) in values.iter_mut().enumerate() {
            let at = group * 16 + i;
            // A bit that is set takes nothing away.
            let away = if (high[at % 32] >> (at / 32)) & 1 == 1 { 0.0 } else { 4.0 };
            *v = dl * (f32::from(pair(qs, at)) - away);
        }
    }
}

/// Scale and minimum of the eight parts of a Q4_K or Q5_K block: six bits each in twelve bytes.
fn scale_min(scales: &[u8], part: usize) -> (f32, f32) {
    let (scale, min) = if part < 4 {
        (scales[part] & 63, scales[part + 4] & 63)
    } else {
        (
            (scales[part + 4] & 15) | (scales[part - 4] >> 6) << 4,
            (scales[part + 4] >> 4) | (scales[part] >> 6) << 4,
        )
    };
    (f32::from(scale), f32::from(min))
}

/// A nibble of 32 bytes: the low ones are an even part, the high ones the odd part after it.
fn part_nibble(qs: &[u8], part: usize, i: usize) -> u8 {
    (qs[part / 2 * 32 + i] >> (part % 2 * 4)) & 15
}

fn q4_k(block: &[u8], out: &mut [f32]) {
    let (d, dmin) = (half(block), half(&block[2..]));
    let (scales, qs) = block[4..].split_at(12);
    for (part, values) in out.chunks_exact_mut(32).enumerate() {
        let (scale, min) = scale_min(scales, part);
        let (d, dm) = (d * scale, dmin * min);
        for (i, v) in values.iter_mut().enumerate() {
            *v = d * f32::from(part_nibble(qs, part, i)) - dm;
        }
    }
}

fn q5_k(block: &[u8], out: &mut [f32]) {
    let (d, dmin) = (half(block), half(&block[2..]));
    let (scales, rest) = block[4..].split_at(12);
    let (high, qs) = rest.split_at(32);
    for (part, values) in out.chunks_exact_mut(32).enumerate() {
        let (scale, min) = scale_min(scales, part);
        let (d, dm) = (d * scale, dmin * min);
        for (i, v) in values.iter_mut().enumerate() {
            let q = part_nibble(qs, part, i) | ((high[i] >> part) & 1) << 4;
            *v = d * f32::from(q) - dm;
        }
    }
}

fn q6_k(block: &[u8], out: &mut [f32]) {
    let (low, rest) = block.split_at(128);
    let (high, rest) = rest.split_at(64);
    let (scales, d) = rest.split_at(16);
    let d = half(d);
    for (group, values) in out.chunks_exact_mut(16).enumerate() {
        let d = d * f32::from(scales[group] as i8);
        for (i, v) in values.iter_mut().enumerate() {
            let at = group * 16 + i;
            // 64 bytes hold 128 values: the low nibbles the first 64 of them.
            let nibble = (low[at / 128 * 64 + at % 64] >> (at % 128 / 64 * 4)) & 15;
            *v = d * (f32::from(nibble | pair(high, at) << 4) - 32.0);
        }
    }
}
