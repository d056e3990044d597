    let job = op.first_job + run.base + wid.x + wid.y * grid.x;
    if (job >= op.end_job) {
        done(wid, grid, tid);
        return;
    }
    let tiles = op.tiles;
    let t = job / tiles;
    let first = (job % tiles) * BM;
    let phase = wid.z % op.phases;
    let n0 = (wid.z / op.phases) * BN;
    let factor = op.factor;
    let py = phase >> 1u;
    let px = phase & 1u;
    let cin = op.cin;
