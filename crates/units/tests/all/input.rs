//! Which film is meant: copies, edits, and files that are swapped while they are read.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use remaster_media::fingerprint::identity;
use remaster_store::Hash;
use remaster_units::{First, Input, UnitsError, Watch, read_all};

fn go_on() -> impl FnMut(u64) -> ControlFlow<()> {
    |_| ControlFlow::Continue(())
}

fn never() -> Arc<dyn Fn() -> bool + Send + Sync> {
    Arc::new(|| false)
}

/// 30 MiB that differ from place to place.
fn large() -> Vec<u8> {
    (0..30u32 << 20).map(|i| (i >> 9) as u8).collect()
}

fn planned(path: &Path) -> Input {
    let sha256 = Some(read_all(path, &mut go_on()).unwrap());
    Input { sha256, ..Input::of(path).unwrap() }
}

/// A place that no sample reads.
const BETWEEN: usize = (30 << 20) / 127 - (20 << 10);

#[test]
fn a_film_is_known_by_size_and_samples_wherever_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (folder.path().join("a"), folder.path().join("b"));
    for bytes in [0usize, 1, 100, 1 << 20] {
        let content: Vec<u8> = (0..bytes).map(|i| (i * 7) as u8).collect();
        std::fs::write(&a, &content).unwrap();
        std::fs::write(&b, &content).unwrap();
        let input = planned(&a);
        input.check(&b).unwrap();
        input.check_whole(&b, &mut go_on()).unwrap();
        if let Some(last) = bytes.checked_sub(1) {
            let mut other = content.clone();
            other[last] ^= 1;
            std::fs::write(&b, &other).unwrap();
            assert!(input.check(&b).unwrap_err().to_string().contains("content"));
            std::fs::write(&b, &content[..last]).unwrap();
            assert!(input.check(&b).unwrap_err().to_string().contains("bytes"));
        }
    }
    assert!(Input::of(&folder.path().join("none")).is_err());
}

#[test]
fn a_change_between_the_samples_is_seen_by_whoever_reads_everything() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("film");
    let mut content = large();
    std::fs::write(&path, &content).unwrap();
    let input = planned(&path);
    input.check_whole(&path, &mut |_| panic!("it was not touched")).unwrap();
    content[BETWEEN] ^= 1;
    std::fs::write(&path, &content).unwrap();
    input.check(&path).unwrap();
    let error = input.check_whole(&path, &mut go_on()).unwrap_err();
    assert!(matches!(error, UnitsError::Input { .. }), "{error}");
    content[BETWEEN] ^= 1;
    std::fs::write(&path, &content).unwrap();
    input.check_whole(&path, &mut go_on()).unwrap();
}

#[test]
fn a_film_that_is_changed_while_it_is_read_is_noticed_in_its_middle_and_in_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let film = folder.path().join("film");
    let pictures = folder.path().join("pictures");
    std::fs::create_dir(&pictures).unwrap();
    for (path, file) in [(&film, &film), (&pictures, &pictures.join("1.png"))] {
        let mut content = large();
        std::fs::write(file, &content).unwrap();
        let watches =
            [First::Samples, First::Whole].map(|first| Watch::new(path, &planned(path), first, never()));
        watches.iter().for_each(|watch| watch.check().unwrap());
        content[BETWEEN] ^= 1;
        std::fs::write(file, &content).unwrap();
        for watch in &watches {
            assert!(matches!(watch.check(), Err(UnitsError::Input { .. })), "{}", path.display());
        }
        content[BETWEEN] ^= 1;
        std::fs::write(file, &content).unwrap();
        watches.iter().for_each(|watch| watch.check().unwrap());
    }
}

#[test]
fn a_network_that_was_swapped_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let (film, model) = (folder.path().join("film"), folder.path().join("model"));
    std::fs::write(&film, b"film").unwrap();
    std::fs::write(&model, b"network").unwrap();
    let before = Hash::from(identity(&model).unwrap().unwrap());
    let watch = Watch::new(&film, &planned(&film), First::Whole, never()).and(vec![(model.clone(), before)]);
    watch.check().unwrap();
    std::fs::write(&model, b"another").unwrap();
    assert!(matches!(watch.check(), Err(UnitsError::Touched { .. })));
}
