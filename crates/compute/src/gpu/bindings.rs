//! How kernels reach the arena. Each operand has bindings of its own: one if it fits, which is indexed directly,
//! or several, which the upper bits of an address choose from.

use std::fmt::Write;
use std::ops::Range;

macro_rules! operands {
    ($($(#[$doc:meta])* $operand:ident $name:literal,)*) => {
        /// What a kernel reads and writes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(super) enum Operand { $($(#[$doc])* $operand,)* }

        impl Operand {
            const NAMES: &[&str] = &[$($name),*];
            pub(super) const COUNT: usize = Self::NAMES.len();

            /// Its name in the kernels.
            pub(super) fn name(self) -> &'static str {
                Self::NAMES[self as usize]
            }
        }
    };
}

operands! {
    Input "input",
    /// The tail that the slice before left.
    Carried "carried",
    Output "output",
    /// The tail for the next slice.
    Carry "carry",
    /// Input of the shortcut.
    Shortcut "shortcut",
    /// Matrices, bias, lists of taps.
    Weight "weight",
    ShortcutWeight "shortcut_weight",
    /// Mean and 1/deviation of each group.
    Stats "stats",
    /// Scale and shift.
    Affine "affine",
    /// Row sums.
    Sums "sums",
    /// Number of the first normalisation that met NaN or infinity.
    Note "note",
    Queries "queries",
    Keys "keys",
    Values "values",
    /// Cosines and sines.
    Table "table",
    /// Rows of the table, for each token.
    Places "places",
    /// Of the tokens that all windows see.
    CommonQueries "common_queries",
    CommonKeys "common_keys",
    CommonValues "common_values",
    /// Stamps of finished workgroups, and behind them what is counted of a batch.
    Marks "marks",
}

/// Bytes of the arena that each operand takes.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranges {
    pub(super) of: [Option<Range<u64>>; Operand::COUNT],
    /// What is written is read first, to add to it.
    pub(super) accumulates: bool,
    /// Not every byte between the first and the last that are written is.
    pub(super) partial: bool,
}

impl Ranges {
    pub(super) fn set(&mut self, operand: Operand, range: Range<u64>) {
        self.of[operand as usize] = Some(range);
    }

    /// The first byte of the arena for an operand that is not used.
    pub(super) fn get(&self, operand: Operand) -> Range<u64> {
        self.find(operand).unwrap_or(0..1)
    }

    /// `None` for an operand that is not used.
    pub(super) fn find(&self, operand: Operand) -> Option<Range<u64>> {
        self.of[operand as usize].clone()
    }
}

/// How many bindings each operand of a kernel has: all that the kernel's text depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Reach {
    pub(super) bindings: [u8; Operand::COUNT],
    /// log2 of the 16-byte units in a binding, where an operand has several.
    pub(super) shift: u32,
}

/// The bound part of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Binding {
    pub(super) buffer: usize,
    pub(super) start: u64,
    pub(super) bytes: u64,
}

/// The arena as buffers, and what can be bound of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    /// Bytes of the arena.
    pub(super) bytes: u64,
    /// Bytes of a buffer; the last one may have fewer. A multiple of `chunk`, but for a single one.
    pub(super) buffer: u64,
    /// Largest binding, and the largest power of two in it.
    pub(super) limit: u64,
    pub(super) chunk: u64,
    /// A binding starts at multiples of this.
    pub(super) align: u64,
}

impl Grid {
    pub(super) fn new(bytes: u64, max_buffer: u64, limit: u64, align: u64) -> Self {
        let limit = limit.min(max_buffer).max(256) / 16 * 16;
        let chunk = 1 << limit.ilog2();
        let buffer = if bytes <= max_buffer { bytes } else { max_buffer / chunk * chunk };
        Grid { bytes, buffer, limit, chunk, align: align.max(16) }
    }

    pub(super) fn buffers(&self) -> u64 {
        self.bytes.div_ceil(self.buffer)
    }

    /// Buffer and place in it.
    pub(super) fn find(&self, at: u64) -> (usize, u64) {
        ((at / self.buffer) as usize, at % self.buffer)
    }

    /// Bytes from here to the end of the buffer.
    pub(super) fn left(&self, at: u64) -> u64 {
        (self.buffer - at % self.buffer).min(self.bytes - at)
    }

    fn binding(&self, at: u64, most: u64) -> Binding {
        let (buffer, start) = self.find(at);
        Binding { buffer, start, bytes: most.min(self.left(at)) }
    }

    /// Adds the bindings that cover a range. Returns how many they are, and the unit of the first one at which
    /// the range starts.
    pub(super) fn cover(&self, range: &Range<u64>, bindings: &mut Vec<Binding>) -> (usize, u32) {
        let start = range.start / self.align * self.align;
        let last = range.end.max(range.start + 1) - 1;
        if last - start < self.limit && last - start < self.left(start) {
            bindings.push(self.binding(start, self.limit));
            return (1, ((range.start - start) / 16) as u32);
        }
        let first = range.start / self.chunk * self.chunk;
        let count = last / self.chunk - first / self.chunk + 1;
        bindings.extend((0..count).map(|i| self.binding(first + i * self.chunk, self.chunk)));
        (count as usize, ((range.start - first) / 16) as u32)
    }
}

/// Declares every operand's bindings, and the functions that read and write a 16-byte unit or a word of it.
/// `merged` is bound a second time as atomics, for single 16-bit values that share words.
pub(super) fn declare(operands: &[Operand], reach: Reach, merged: Option<Operand>) -> String {
    let mut text = String::new();
    let mut binding = 0;
    let mut declare = |name: String, element: &str| {
        binding += 1;
        let _ = writeln!(
            text,
            "@group(0) @binding({binding}) var<storage, read_write> {name}: array<{element}>;"
        );
    };
    for o in operands {
        (0..reach.bindings[*o as usize]).for_each(|i| declare(format!("m_{}{i}", o.name()), "vec4<u32>"));
    }
    if let Some(o) = merged {
        (0..reach.bindings[o as usize]).for_each(|i| declare(format!("b_{}{i}", o.name()), "atomic<u32>"));
    }
    for o in operands {
        let l = o.name();
        let several = reach.bindings[*o as usize];
        let base = format!("op.{l}_base");
        let mut function = |head: String, body: &dyn Fn(u8, &str) -> String| {
            let _ = writeln!(text, "{head} {{");
            if several == 1 {
                let _ = writeln!(text, "    let r = {base} + q;\n    {}\n}}", body(0, "r"));
                return;
            }
            let (shift, mask) = (reach.shift, (1u64 << reach.shift) - 1);
            let _ = writeln!(
                text,
                "    let n = {base} + q;\n    let r = n & {mask}u;\n    switch (n >> {shift}u) {{"
            );
            for i in 1..several {
                let _ = writeln!(text, "        case {i}u: {{ {} }}", body(i, "r"));
            }
            let _ = writeln!(text, "        default: {{ {} }}\n    }}\n}}", body(0, "r"));
        };
        function(format!("fn unit_{l}(q: u32) -> vec4<u32>"), &|i, r| format!("return m_{l}{i}[{r}];"));
        function(format!("fn word_{l}(q: u32, s: u32) -> u32"), &|i, r| format!("return m_{l}{i}[{r}][s];"));
        function(format!("fn put_unit_{l}(q: u32, v: vec4<u32>)"), &|i, r| format!("m_{l}{i}[{r}] = v;"));
        function(format!("fn put_word_{l}(q: u32, s: u32, v: u32)"), &|i, r| {
            format!("m_{l}{i}[{r}][s] = v;")
        });
        let merge = |i: u8, r: &str| match merged == Some(*o) {
            true => {
                format!("atomicAnd(&b_{l}{i}[{r} * 4u + s], ~mask); atomicOr(&b_{l}{i}[{r} * 4u + s], bits);")
            }
            false => format!("m_{l}{i}[{r}][s] = (m_{l}{i}[{r}][s] & ~mask) | bits;"),
        };
        function(format!("fn merge_{l}(q: u32, s: u32, mask: u32, bits: u32)"), &merge);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every byte of every range is reached through the binding that its address chooses, and no binding exceeds
    /// the limit or leaves its buffer.
    #[test]
    fn bindings_cover_ranges_under_any_limits() {
        let mut seed = 1u64;
        let mut below = |n: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % n
        };
        for _ in 0..20_000 {
            let bytes = (1 + below(1 << 16)) * 256;
            let max_buffer = 1024 + below(1 << 24);
            let limit = 512 + below(1 << 22);
            let grid = Grid::new(bytes, max_buffer, limit, 16 << below(5));
            let start = below(bytes / 256) * 256;
            let end = start + 1 + below(bytes - start);
            let mut bindings = Vec::new();
            let (count, base) = grid.cover(&(start..end), &mut bindings);
            assert_eq!(count, bindings.len());
            for b in &bindings {
                assert!(b.bytes <= limit && b.start % grid.align.min(grid.chunk) == 0 && b.bytes > 0);
                let room = grid.buffer.min(bytes - b.buffer as u64 * grid.buffer);
                assert!(b.start + b.bytes <= room, "{grid:?} {b:?}");
            }
            for at in [start, start + (end - start) / 2, end - 1] {
                let unit = u64::from(base) + (at - start) / 16;
                let units = grid.chunk / 16;
                let (n, r) = if count == 1 { (0, unit) } else { (unit / units, unit % units) };
                let binding = bindings[n as usize];
                assert!(r * 16 < binding.bytes, "{grid:?} {start}..{end} at {at}");
                assert_eq!(binding.buffer as u64 * grid.buffer + binding.start + r * 16, at / 16 * 16);
            }
        }
    }
}
