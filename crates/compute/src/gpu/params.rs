//! Parameters of the kernels. Each op has a struct of its own, and the WGSL struct that its kernel reads is written
//! from the same list of fields, so the two have the same names in the same order.

use std::fmt::Write;

use super::bindings::Ranges;

/// Words of a block of parameters. Blocks start at multiples of 512 bytes, an offset that every device can bind.
pub(super) const WORDS: usize = 128;

pub(super) type Words = [u32; WORDS];

/// Something that takes words of a block.
pub(super) trait Fields {
    /// Adds the members of a WGSL struct for a field of this name.
    fn declare(name: &str, members: &mut String);

    /// Passes on the words, in the order of the members.
    fn write(&self, put: &mut dyn FnMut(u32));
}

impl Fields for usize {
    fn declare(name: &str, members: &mut String) {
        let _ = writeln!(members, "    {name}: u32,");
    }

    /// Operands with numbers above 32 bits were refused before.
    fn write(&self, put: &mut dyn FnMut(u32)) {
        put(*self as u32);
    }
}

/// 0 or 1: WGSL has no booleans in buffers.
impl Fields for bool {
    fn declare(name: &str, members: &mut String) {
        usize::declare(name, members);
    }

    fn write(&self, put: &mut dyn FnMut(u32)) {
        put((*self).into());
    }
}

impl Fields for f32 {
    fn declare(name: &str, members: &mut String) {
        let _ = writeln!(members, "    {name}: f32,");
    }

    fn write(&self, put: &mut dyn FnMut(u32)) {
        put(self.to_bits());
    }
}

/// Where the values of an operand lie: those before its first one, and those from frame to frame. A field
/// `input` becomes `input_skip` and `input_frame`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct At {
    pub(super) skip: usize,
    pub(super) frame: usize,
}

impl Fields for At {
    fn declare(name: &str, members: &mut String) {
        usize::declare(&format!("{name}_skip"), members);
        usize::declare(&format!("{name}_frame"), members);
    }

    fn write(&self, put: &mut dyn FnMut(u32)) {
        self.skip.write(put);
        self.frame.write(put);
    }
}

/// Structs of fields. One inside another keeps the names of its fields.
macro_rules! fields {
    ($($(#[$doc:meta])* $name:ident { $($(#[$about:meta])* $field:ident: $kind:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default)]
        pub(super) struct $name { $($(#[$about])* pub(super) $field: $kind,)* }

        impl Fields for $name {
            fn declare(_name: &str, members: &mut String) {
                $(<$kind>::declare(stringify!($field), members);)*
            }

            fn write(&self, put: &mut dyn FnMut(u32)) {
                $(self.$field.write(put);)*
            }
        }
    )*};
}

fields! {
    /// Where frames are read: a prefix in front of the slice, then the slice.
    Source {
        input: At,
        /// Number of the first row held.
        input_row0: usize,
        carried: At,
        carried_row0: usize,
        /// Frames in front of the slice: of the carried tail if `continued`, else the first frame again.
        prefix: usize,
        continued: bool,
        w_in: usize,
        cin: usize,
        /// `cin`, rounded up to a multiple of four.
        cin4: usize,
    }

    /// A normalisation on the way.
    Norm {
        stats: At,
        /// Channels of a group.
        group_width: usize,
        silu: bool,
    }

    /// What travelled: words from the first one of the operand. The rest is told with each dispatch.
    TallyParams {
        input_skip: usize,
    }

    /// Workgroups of one dispatch out of those of the whole op.
    Jobs {
        first_job: usize,
        end_job: usize,
    }

    /// Convolution, upsampler or linear layer. Rows and columns of the grid are those of cells: `factor` by
    /// `factor` output pixels.
    ProductParams {
        source: Source,
        norm: Norm,
        h_in: usize,
        output: At,
        output_row0: usize,
        output_end: usize,
        output_w: usize,
        cout: usize,
        cout4: usize,
        /// Word of the weight at which the bias starts.
        bias: usize,
        /// Word of the weight at which the lists of taps start, and words of a list.
        taps: usize,
        taps_row: usize,
        shortcut: At,
        shortcut_cin: usize,
        shortcut_bias: usize,
        grid_h: usize,
        grid_w: usize,
        cell_row0: usize,
        /// Cells of a frame, and workgroups for them.
        cells: usize,
        tiles: usize,
        factor: usize,
        /// Kinds of pixel in a cell: 1, or 4 for an upsampler.
        phases: usize,
        /// Input rows that exist.
        need_row0: usize,
        need_end: usize,
        stride_t: usize,
        stride_y: usize,
        stride_x: usize,
        pad_top: usize,
        pad_left: usize,
        kernel_t: usize,
        /// How output frames follow from input frames; `frame_of` in `product.wgsl` lists the cases.
        frame_mode: usize,
        second: bool,
        accumulate: bool,
        jobs: Jobs,
    }

    /// The tail for the next slice and sums of the output's rows.
    AfterParams {
        source: Source,
        norm: Norm,
        carry: At,
        carry_row0: usize,
        carry_rows: usize,
        /// Frames of the tail, and the first of them among prefix and slice.
        tail_len: usize,
        tail_first: usize,
        output: At,
        output_rows: usize,
        output_w: usize,
        cout: usize,
        sums: At,
        groups: usize,
        /// Workgroups of the tail, which come first, and of both.
        tail_jobs: usize,
        jobs: usize,
    }

    /// Statistics from row sums.
    CombineParams {
        sums: At,
        output: At,
        rows: usize,
        groups: usize,
        /// Values in a row of a group.
        count: usize,
        eps: f32,
        /// Number of this normalisation, from 1 on.
        number: usize,
        jobs: usize,
    }

    /// Normalisation on its own.
    NormalizeParams {
        input: At,
        output: At,
        norm: Norm,
        cin: usize,
        cin4: usize,
        frame_pixels: usize,
        /// Runs of four pixels in a frame, and in all frames.
        frame_runs: usize,
        runs: usize,
    }

    /// Copy or conversion. A unit is four values, or one.
    CopyParams {
        input: At,
        output: At,
        frame_units: usize,
        units: usize,
    }

    /// Channels to time, rows and columns. A unit is four values, or one.
    ShuffleParams {
        input: At,
        output: At,
        w_in: usize,
        cin: usize,
        output_rows: usize,
        output_w: usize,
        cout: usize,
        factor_t: usize,
        factor_y: usize,
        factor_x: usize,
        drop_second: bool,
        units: usize,
    }

    /// Softmax attention.
    AttentionParams {
        queries: At,
        keys: At,
        values: At,
        output: At,
        /// Tokens of a frame.
        query_count: usize,
        key_count: usize,
        channels: usize,
        heads: usize,
        head_width: usize,
        scale: f32,
        /// Workgroups for the queries of a frame.
        tiles: usize,
        jobs: Jobs,
    }

    /// RMS norm of tokens.
    TokenNormParams {
        input: At,
        output: At,
        channels: usize,
        heads: usize,
        head_width: usize,
        /// Tokens of a frame, and heads of all tokens.
        frame_tokens: usize,
        units: usize,
        eps: f32,
        /// Whether there is a scale, and the numbers from one head's to the next one's: none if they share it.
        scaled: bool,
        scale_step: usize,
        /// Whether there is a shift, and where it starts behind the scale.
        shifted: bool,
        shift: usize,
        rotated: bool,
        table: At,
        /// Rows of the table, and turns of an axis in a row.
        positions: usize,
        frequencies: usize,
        places: At,
    }

    /// A function of every value. A unit is four values, or one.
    ActivateParams {
        /// Factors.
        input: At,
        output: At,
        frame_units: usize,
        units: usize,
        gelu: bool,
        factors: bool,
    }

    /// Gated sum. A unit is four values, or one.
    AddGatedParams {
        input: At,
        output: At,
        frame_units: usize,
        units: usize,
        /// Units of the channels.
        gate_units: usize,
        gated: bool,
    }

    /// Tokens between the grid and one window. A unit is four values, or one.
    WindowParams {
        grid: At,
        tokens: At,
        /// Columns of the grid.
        width: usize,
        first_frame: usize,
        first_row: usize,
        first_column: usize,
        rows: usize,
        columns: usize,
        /// Units of a token, and of the window.
        token_units: usize,
        units: usize,
        /// Tokens of the windows before.
        first: usize,
    }

    /// Attention of one window.
    WindowAttentionParams {
        queries: At,
        keys: At,
        values: At,
        output: At,
        /// First token of the window, and its tokens.
        first: usize,
        count: usize,
        common_queries: At,
        common_keys: At,
        common_values: At,
        sums: At,
        common_count: usize,
        share: f32,
        accumulate: bool,
        channels: usize,
        heads: usize,
        head_width: usize,
        scale: f32,
        /// Workgroups for the window's own queries; those of the common tokens follow.
        tiles: usize,
        jobs: Jobs,
    }
}

impl ProductParams {
    /// Whether a tap can be beyond a border, or a cell have pixels that are not of the output.
    pub(super) fn is_padded(&self) -> bool {
        let alike = self.h_in == self.grid_h && self.source.w_in == self.grid_w;
        let steps = self.stride_y * self.stride_x * self.factor * self.phases;
        !(alike && steps == 1 && self.pad_top == 0 && self.pad_left == 0)
    }
}

/// The words of one dispatch, and where its operands lie.
#[derive(Clone)]
pub(super) struct Params {
    /// Those of the op. Behind them the stream writes where each operand starts in its first binding.
    pub(super) words: Words,
    pub(super) len: usize,
    pub(super) ranges: Ranges,
}

impl Params {
    pub(super) fn new(fields: &impl Fields, ranges: Ranges) -> Self {
        let (mut words, mut len) = ([0; WORDS], 0);
        fields.write(&mut |word| {
            words[len] = word;
            len += 1;
        });
        Params { words, len, ranges }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::bindings::Operand;

    /// One name for each word, none twice, and room for the operands behind them.
    fn check<F: Fields + Default>() {
        let mut members = String::new();
        F::declare("", &mut members);
        let mut names: Vec<&str> = members.lines().filter_map(|l| l.trim().split(':').next()).collect();
        assert_eq!(names.len(), Params::new(&F::default(), Ranges::default()).len, "{members}");
        assert!(names.len() + Operand::COUNT <= WORDS, "{members}");
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all, "{members}");
    }

    #[test]
    fn every_word_has_a_name_of_its_own() {
        check::<ProductParams>();
        check::<AfterParams>();
        check::<CombineParams>();
        check::<NormalizeParams>();
        check::<CopyParams>();
        check::<ShuffleParams>();
        check::<AttentionParams>();
        check::<TokenNormParams>();
        check::<ActivateParams>();
        check::<AddGatedParams>();
        check::<WindowParams>();
        check::<WindowAttentionParams>();
    }

    #[test]
    fn words_follow_the_order_of_the_members() {
        let norm = Norm { stats: At { skip: 3, frame: 4 }, group_width: 5, silu: true };
        let (input, output) = (At { skip: 1, frame: 2 }, At::default());
        let params = NormalizeParams { input, norm, runs: 6, output, ..Default::default() };
        let params = Params::new(&params, Ranges::default());
        assert_eq!(params.words[..params.len], [1, 2, 0, 0, 3, 4, 5, 1, 0, 0, 0, 0, 6]);
        let mut members = String::new();
        NormalizeParams::declare("", &mut members);
        let names: Vec<&str> = members.lines().filter_map(|l| l.trim().split(':').next()).collect();
        assert_eq!(names[..3], ["input_skip", "input_frame", "output_skip"]);
        assert_eq!(names[4..8], ["stats_skip", "stats_frame", "group_width", "silu"]);
        assert_eq!(names[12], "runs");
    }
}
