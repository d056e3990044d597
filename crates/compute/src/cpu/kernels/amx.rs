//! The tile unit of recent x86 servers: 16x16 sums of bf16 products, 32 channels per instruction.
//! The intrinsics are not stable, so the instructions are written out.
#![expect(unsafe_code, reason = "tile instructions are written in assembly")]

use super::product::Tap;

/// Pixels of a tile.
pub(crate) const ROWS: usize = 16;
/// Channels of one step.
pub(crate) const STEP: usize = 32;
/// Output channels of a panel: two tiles.
pub(crate) const PANEL: usize = 32;
/// Bytes of the weights of one step: two tiles of 16 channel pairs by 16 outputs.
pub(crate) const STEP_BYTES: usize = 2048;

/// Whether this machine has the unit and the system lets us use it. Asks for permission the first time.
pub(crate) fn available() -> bool {
    imp::available()
}

/// 32 pixels by one panel: `out[m, n] = sum over taps and channels of a[m + tap, k] * b[tap, k, n]`.
#[cfg_attr(
    not(all(target_arch = "x86_64", target_os = "linux")),
    allow(dead_code, reason = "without the unit nothing reads it, and no path chooses the unit")
)]
pub(crate) struct Block<'a> {
    /// First pixels of two tiles of 16; pixels are `a_step` bytes apart.
    pub(crate) a: [*const u8; 2],
    pub(crate) a_step: usize,
    /// Offsets in bytes.
    pub(crate) taps: &'a [Tap],
    /// Steps of 32 channels.
    pub(crate) steps: usize,
    pub(crate) b: *const u8,
    /// Where the two tiles of pixels go; pixels are `out_step` bytes apart.
    pub(crate) out: [*mut f32; 2],
    pub(crate) out_step: usize,
    pub(crate) keep: bool,
}

/// Two tiles of pixels by one panel, as `Block` does with one tap, for pixels that already lie as tiles: the two
/// of a step side by side, step after step.
///
/// Pixels are read around the first-level cache, which belongs to the weights; weights that are needed soon are
/// asked for on the way, since the caches behind are too slow to be waited for.
#[cfg_attr(
    not(all(target_arch = "x86_64", target_os = "linux")),
    allow(dead_code, reason = "without the unit nothing reads it, and no path chooses the unit")
)]
pub(crate) struct Streamed {
    pub(crate) a: *const u8,
    pub(crate) steps: usize,
    pub(crate) b: *const u8,
    /// Where a part of the weights starts that is needed soon; `AHEAD_BYTES` a step. Need not be readable.
    pub(crate) ahead: *const u8,
    pub(crate) out: [*mut f32; 2],
    pub(crate) out_step: usize,
    pub(crate) keep: bool,
}

/// Bytes of weights asked for in a step: six blocks of pixels ask for as much as they use.
pub(crate) const AHEAD_BYTES: usize = 384;

/// Tile registers set up on this thread until dropped.
pub(crate) struct Tiles(());

impl Tiles {
    /// Must be made on the thread that uses it.
    pub(crate) fn new() -> Self {
        imp::configure();
        Tiles(())
    }

    /// # Safety
    /// `available()` said yes, and all addresses reach only the caller's buffers.
    pub(crate) unsafe fn run(&self, block: &Block<'_>) {
        // SAFETY: the caller's promise.
        unsafe { imp::run(block) }
    }

    /// # Safety
    /// As for `run`; `ahead` may be any address.
    pub(crate) unsafe fn run_streamed(&self, block: &Streamed) {
        // SAFETY: the caller's promise.
        unsafe { imp::run_streamed(block) }
    }

    /// Asks for a line that is written soon; any address will do.
    pub(crate) fn expect_write(&self, line: *const u8) {
        imp::expect_write(line);
    }

    /// Tile multiplications alone, `n` times four, with operands in registers: the machine's limit.
    ///
    /// # Safety
    /// `available()` said yes.
    pub(crate) unsafe fn spin(&self, n: usize) {
        // SAFETY: the caller's promise.
        unsafe { imp::spin(n) }
    }
}

impl Drop for Tiles {
    fn drop(&mut self) {
        imp::release();
    }
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod imp {
    use std::arch::asm;
    use std::arch::x86_64::__cpuid_count;
    use std::sync::OnceLock;

    use super::{Block, Streamed};

    pub(super) fn available() -> bool {
        static ANSWER: OnceLock<bool> = OnceLock::new();
        *ANSWER.get_or_init(|| {
            let edx = __cpuid_count(7, 0).edx;
            let has = edx & (1 << 22) != 0 && edx & (1 << 24) != 0;
            has && std::arch::is_x86_feature_detected!("avx512bw") && permitted()
        })
    }

    /// Linux gives the tile registers only to processes that ask: arch_prctl(ARCH_REQ_XCOMP_PERM, 18).
    fn permitted() -> bool {
        let mut result: i64 = 158;
        // SAFETY: a system call that changes a permission of this process and no memory.
        unsafe {
            asm!("syscall", inout("rax") result, in("rdi") 0x1023, in("rsi") 18, out("rcx") _, out("r11") _,
                options(nostack));
        }
        result == 0
    }

    #[repr(C, align(64))]
    struct Config {
        palette: u8,
        start: u8,
        reserved: [u8; 14],
        bytes: [u16; 16],
        rows: [u8; 16],
    }

    pub(super) fn configure() {
        let mut config = Config { palette: 1, start: 0, reserved: [0; 14], bytes: [0; 16], rows: [0; 16] };
        config.bytes[..8].fill(64);
        config.rows[..8].fill(16);
        if available() {
            // SAFETY: the unit is there; the configuration is 64 bytes and valid.
            unsafe { asm!("ldtilecfg [{}]", in(reg) &config, options(nostack, readonly)) };
        }
    }

    pub(super) fn release() {
        if available() {
            // SAFETY: the unit is there.
            unsafe { asm!("tilerelease", options(nostack, nomem)) };
        }
    }

    /// The four sums: what was there, or zero.
    ///
    /// # Safety
    /// See `Tiles::run`.
    unsafe fn begin(out: [*mut f32; 2], out_step: usize, keep: bool) {
        // SAFETY: the caller's promise; tile registers are not used by compiled code, so they keep their
        // values between the statements.
        unsafe {
            if keep {
                asm!(
                    "tileloadd tmm0, [{o0} + {s}]",
                    "tileloadd tmm1, [{o0} + {s} + 64]",
                    "tileloadd tmm2, [{o1} + {s}]",
                    "tileloadd tmm3, [{o1} + {s} + 64]",
                    o0 = in(reg) out[0], o1 = in(reg) out[1], s = in(reg) out_step,
                    options(nostack, readonly)
                );
            } else {
                asm!(
                    "tilezero tmm0",
                    "tilezero tmm1",
                    "tilezero tmm2",
                    "tilezero tmm3",
                    options(nostack, nomem)
                );
            }
        }
    }

    /// # Safety
    /// See `Tiles::run`.
    unsafe fn end(out: [*mut f32; 2], out_step: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            asm!(
                "tilestored [{o0} + {s}], tmm0",
                "tilestored [{o0} + {s} + 64], tmm1",
                "tilestored [{o1} + {s}], tmm2",
                "tilestored [{o1} + {s} + 64], tmm3",
                o0 = in(reg) out[0], o1 = in(reg) out[1], s = in(reg) out_step,
                options(nostack)
            );
        }
    }

    /// # Safety
    /// See `Tiles::run`.
    pub(super) unsafe fn run(block: &Block<'_>) {
        // SAFETY: the caller's promise.
        unsafe {
            begin(block.out, block.out_step, block.keep);
            for tap in block.taps {
                asm!(
                    "2:",
                    "tileloadd tmm4, [{a0} + {s}]",
                    "tileloadd tmm6, [{b} + {w}]",
                    "tileloadd tmm7, [{b} + {w} + 1024]",
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tileloadd tmm5, [{a1} + {s}]",
                    "tdpbf16ps tmm1, tmm4, tmm7",
                    "tdpbf16ps tmm2, tmm5, tmm6",
                    "tdpbf16ps tmm3, tmm5, tmm7",
                    "add {a0}, 64",
                    "add {a1}, 64",
                    "add {b}, 2048",
                    "dec {n}",
                    "jnz 2b",
                    a0 = inout(reg) block.a[0].offset(tap.a) => _,
                    a1 = inout(reg) block.a[1].offset(tap.a) => _,
                    b = inout(reg) block.b.add(tap.b) => _,
                    n = inout(reg) block.steps => _,
                    s = in(reg) block.a_step,
                    w = in(reg) 64usize,
                    options(nostack, readonly)
                );
            }
            end(block.out, block.out_step);
        }
    }

    /// # Safety
    /// See `Tiles::run_streamed`.
    pub(super) unsafe fn run_streamed(block: &Streamed) {
        // SAFETY: the caller's promise; asking for a line that is not there does nothing.
        unsafe {
            begin(block.out, block.out_step, block.keep);
            asm!(
                "2:",
                "tileloaddt1 tmm4, [{a} + {w}]",
                "tileloadd tmm6, [{b} + {w}]",
                "tileloadd tmm7, [{b} + {w} + 1024]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tileloaddt1 tmm5, [{a} + {w} + 1024]",
                "tdpbf16ps tmm1, tmm4, tmm7",
                ".irp line, 0, 1, 2, 3, 4, 5",
                "prefetcht1 [{x} + 64 * \\line]",
                ".endr",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "add {a}, 2048",
                "add {b}, 2048",
                "add {x}, {ahead}",
                "dec {n}",
                "jnz 2b",
                a = inout(reg) block.a => _,
                b = inout(reg) block.b => _,
                x = inout(reg) block.ahead => _,
                n = inout(reg) block.steps => _,
                w = in(reg) 64usize,
                ahead = const super::AHEAD_BYTES,
                options(nostack, readonly)
            );
            end(block.out, block.out_step);
        }
    }

    pub(super) fn expect_write(line: *const u8) {
        // SAFETY: a hint; a line that is not there is left alone. Every CPU with the unit knows it.
        unsafe { asm!("prefetchw [{}]", in(reg) line, options(nostack, readonly, preserves_flags)) };
    }

    /// # Safety
    /// See `Tiles::spin`.
    pub(super) unsafe fn spin(n: usize) {
        // SAFETY: registers only.
        unsafe {
            asm!(
                "tilezero tmm4", "tilezero tmm5", "tilezero tmm6", "tilezero tmm7",
                "2:",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "dec {n}",
                "jnz 2b",
                n = inout(reg) n.max(1) => _,
                options(nostack, nomem)
            );
        }
    }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
mod imp {
    use super::{Block, Streamed};

    pub(super) fn available() -> bool {
        false
    }
    pub(super) fn configure() {}
    pub(super) fn release() {}
    pub(super) unsafe fn run(_: &Block<'_>) {}
    pub(super) unsafe fn run_streamed(_: &Streamed) {}
    pub(super) fn expect_write(_: *const u8) {}
    pub(super) unsafe fn spin(_: usize) {}
}
