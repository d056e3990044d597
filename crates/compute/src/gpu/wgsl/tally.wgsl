// Counts the marks of a batch, and sums bytes that travelled. Every workgroup leaves the stamp and its number in a slot
// before the marks.

var<workgroup> parts: array<u32, 64>;

fn leave(slot: u32, tid: u32, part: u32) {
    parts[tid] = part;
    for (var n = 32u; n > 0u; n = n >> 1u) {
        workgroupBarrier();
        if (tid < n) { parts[tid] += parts[tid + n]; }
    }
    if (tid == 0u) {
        let word = 2u * slot;
        put_word_marks(word >> 2u, word & 3u, run.stamp);
        put_word_marks(word >> 2u, (word & 3u) + 1u, parts[0]);
    }
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) tid: u32) {
    let start = wid.x * SHARE;
    var part = 0u;
    for (var i = start + tid; i < min(start + SHARE, run.words); i += 64u) {
@IF CHECKSUM@
        let word = op.input_skip + i;
        // A weight that is odd: one other word is another sum.
        part += word_input(word >> 2u, word & 3u) * (2u * (run.base + i) + 1u);
@ELSE@
        let mark = SLOTS * 2u + i;
        part += select(0u, 1u, word_marks(mark >> 2u, mark & 3u) == run.stamp);
@END@
    }
    leave(run.first + wid.x, tid, part);
}
