//! Windows of the transformer against those of the original.

use remaster_model::dit::windows;

#[test]
fn windows_are_those_of_the_original() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/dit/dit_windows.json");
    let cases: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let cases = cases.as_array().unwrap();
    assert_eq!(cases.len(), 32);
    for case in cases {
        let numbers = |v: &serde_json::Value| -> Vec<usize> {
            v.as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as usize).collect()
        };
        let size = <[usize; 3]>::try_from(numbers(&case["thw"])).unwrap();
        let method = case["method"].as_str().unwrap();
        let theirs: Vec<Vec<usize>> = case["windows"].as_array().unwrap().iter().map(numbers).collect();
        let ours: Vec<Vec<usize>> = windows(size, method.contains("swin"))
            .into_iter()
            .map(|w| {
                vec![w.frames.start, w.frames.end, w.rows.start, w.rows.end, w.columns.start, w.columns.end]
            })
            .collect();
        assert_eq!(ours, theirs, "{size:?} {method}");
    }
}

/// Every token of any grid is in one window.
#[test]
fn windows_cover_the_grid() {
    for (t, h, w) in
        (1..9).flat_map(|t| (1..70).step_by(7).flat_map(move |h| (1..90).step_by(11).map(move |w| (t, h, w))))
    {
        for shifted in [false, true] {
            let mut seen = vec![0; t * h * w];
            for window in windows([t, h, w], shifted) {
                for (frame, run) in window.runs(w) {
                    seen[frame * h * w..][run].iter_mut().for_each(|n| *n += 1);
                }
            }
            assert!(seen.iter().all(|n| *n == 1), "{t} {h} {w} {shifted}");
        }
    }
}
