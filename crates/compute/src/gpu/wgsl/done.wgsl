// A workgroup that finished leaves the stamp of its batch.

struct Run {
    first: u32,   // mark of the first workgroup
    base: u32,    // number of the first workgroup among those of the op
    stamp: u32,
    words: u32,   // that a checksum covers, or marks that a tally counts
}

var<immediate> run: Run;

fn done(wid: vec3<u32>, grid: vec3<u32>, tid: u32) {
    workgroupBarrier();
    if (tid == 0u) {
        let mark = SLOTS * 2u + run.first + wid.x + (wid.y + wid.z * grid.y) * grid.x;
        put_word_marks(mark >> 2u, mark & 3u, run.stamp);
    }
}
