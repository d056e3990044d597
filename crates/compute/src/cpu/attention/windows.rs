//! Attention in windows of tokens that all see some common tokens.
#![expect(unsafe_code, reason = "threads write disjoint rows of one tensor")]

use super::{Block, Looks, Sequence, Tokens};
use crate::cpu::Cpu;
use crate::error::Result;
use crate::ops::{WindowAttentionDesc, WindowAttentionWork};

/// Channels that are added to the sum of the common tokens at a time.
const PIECE: usize = 128;

/// A window: its first token, how many it has, and the first of its blocks of queries.
struct TokenSpan {
    first: usize,
    len: usize,
    block: usize,
}

fn spans(windows: &[usize], queries: usize) -> Vec<TokenSpan> {
    let mut next = TokenSpan { first: 0, len: 0, block: 0 };
    let span = |len: &usize| {
        let (first, block) = (next.first + next.len, next.block + next.len.div_ceil(queries));
        next = TokenSpan { first, len: *len, block };
        TokenSpan { ..next }
    };
    windows.iter().map(span).collect()
}

impl Cpu {
    /// What the common tokens see is added up by one item per head and block of them, window by window.
    pub(in crate::cpu) fn window_attention_now(
        &self,
        d: &WindowAttentionDesc<'_>,
        work: &WindowAttentionWork,
    ) -> Result<()> {
        const OP: &str = "window_attention";
        let looks = Looks::new(work.width, work.dtype, self.path);
        let scratch = self.scratch(OP, looks.private())?;
        let (q, k, v) = (self.tokens(OP, &d.q)?, self.tokens(OP, &d.k)?, self.tokens(OP, &d.v)?);
        let (common_k, common_v) = (self.tokens(OP, &d.common_k)?, self.tokens(OP, &d.common_v)?);
        let out = self.tokens(OP, &d.output)?;
        let asked = match &d.common {
            Some(asked) => Some((asked, self.tokens(OP, &asked.q)?, self.tokens(OP, &asked.output)?)),
            None => None,
        };
        let (heads, width, queries) = (work.heads, work.width, looks.queries());
        let common_blocks = if asked.is_some() { work.common.div_ceil(queries) } else { 0 };
        let windows = spans(&work.windows, queries);
        let blocks = windows.last().map_or(0, |w| w.block + w.len.div_ceil(queries));
        self.pool.run(heads * (common_blocks + blocks), |thread, item| {
            let from = item % heads * width;
            let look = |window: &TokenSpan,
                        n: usize,
                        query: &dyn Fn(usize) -> *const u8,
                        seen: &mut dyn FnMut(usize, &[f32])| {
                let sequence = |tokens: Tokens, common: Tokens| Sequence {
                    first: tokens.first + window.first,
                    tokens,
                    frame: 0,
                    len: window.len,
                    common: Some(common),
                };
                let (keys, values) = (&sequence(k, common_k), &sequence(v, common_v));
                let count = window.len + work.common;
                let block = Block { keys, values, count, from, width, scale: d.scale, dtype: work.dtype };
                // SAFETY: scratch of these looks and this thread; the descriptor checked that windows and common tokens
                // are inside their tensors; what is read is not written.
                unsafe { self.look((scratch.own(thread), &looks), &block, n, query, seen) };
            };
            let Some(item) = (item / heads).checked_sub(common_blocks) else {
                let Some((asked, q, sum)) = &asked else { return };
                let start = item / heads * queries;
                let n = queries.min(work.common - start);
                let query = |i: usize| q.address(0, q.first + start + i, from).cast_const();
                for (i, window) in windows.iter().enumerate() {
                    let add = asked.accumulate || i > 0;
                    look(window, n, &query, &mut |i, line: &[f32]| {
                        for (at, line) in (from..).step_by(PIECE).zip(line.chunks(PIECE)) {
                            let mut piece = [0.0f32; PIECE];
                            let piece = &mut piece[..line.len()];
                            // SAFETY: this head of this token is this item's own.
                            unsafe {
                                if add {
                                    sum.load(0, sum.first + start + i, at, piece);
                                }
                                piece.iter_mut().zip(line).for_each(|(sum, v)| *sum += asked.share * v);
                                sum.store(0, sum.first + start + i, at, piece);
                            }
                        }
                    });
                }
                return;
            };
            // Windows are in order, and the first one starts at block 0.
            let window = &windows[windows.partition_point(|w| w.block <= item).saturating_sub(1)];
            let start = window.first + (item - window.block) * queries;
            let n = queries.min(window.first + window.len - start);
            let query = |i: usize| q.address(0, q.first + start + i, from).cast_const();
            look(window, n, &query, &mut |i, line: &[f32]| {
                // SAFETY: this head of this token is this item's own.
                unsafe { out.store(0, out.first + start + i, from, line) };
            });
        });
        Ok(())
    }
}
