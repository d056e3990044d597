//! Times of the network.

use super::*;

#[test]
fn every_sample_of_a_timed_run_is_kept() {
    let desk = desk();
    let json = desk.json("bench vae encode --frames 1 --height 8 --width 16 --repeat 2 --warmup 0 --json");
    assert_eq!([&json["frames"], &json["height"], &json["width"]], [1, 8, 16]);
    let seconds = json["samples"]["seconds"].as_array().unwrap();
    assert_eq!(seconds.len(), 2);
    assert!(seconds.iter().all(|s| s.as_f64().unwrap() >= json["samples"]["min"].as_f64().unwrap()));
    assert!(json["arena_bytes"].as_u64().unwrap() > 0);
    assert!(desk.names().is_empty());
}

#[test]
fn what_cannot_be_timed_is_wrong_usage() {
    let desk = desk();
    for (line, word) in [
        ("bench vae encode --frames 2", "use 1 or 5"),
        ("bench vae decode --width 20", "pad it to 24"),
        ("bench vae decode --slice 3", "use 4"),
        ("bench vae encode --backend reference", "cannot be used here"),
        ("bench kernels --cpu-path abacus", "abacus"),
    ] {
        let run = desk.run(&format!("{line} --json"));
        run.ends(2, &[word]);
        assert_eq!(run.json()["exit_code"], 2);
    }
}

#[test]
#[cfg(feature = "gpu")]
fn only_a_card_is_measured_as_one_and_only_for_an_hour() {
    let desk = desk();
    for (line, word) in [
        ("bench card --device cpu", "bench kernels"),
        ("bench card --device reference", "bench kernels"),
        ("bench card --minutes 0", "from 1 to 60"),
        ("bench card --minutes 61", "from 1 to 60"),
        ("bench card --device vulkan:77", "remaster devices"),
    ] {
        desk.run(line).ends(2, &[word]);
    }
}
