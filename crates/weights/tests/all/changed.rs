//! A checkpoint whose file changes during a run: a typed error that names it, never a signal and never other values.

use std::collections::BTreeMap;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use crate::support::place;
use remaster_weights::{Checkpoint, NamedTensor, ReadError, write_tensors};

/// More than one piece of what is read at a time.
const VALUES: usize = 200_000;

fn write(path: &Path, value: f32) {
    let data = vec![value; VALUES];
    let tensor = NamedTensor { name: "a".into(), shape: vec![VALUES], data };
    write_tensors(path, &[tensor], &BTreeMap::new()).unwrap();
}

fn read(checkpoint: &Checkpoint) -> Result<Vec<f32>, ReadError> {
    let mut values = vec![0.0; VALUES];
    checkpoint.read_f32(checkpoint.get("a").unwrap(), 0, &mut values)?;
    Ok(values)
}

#[test]
fn a_file_cut_or_overwritten_in_place_is_an_error_that_names_it() {
    let (_folder, path) = place("model.safetensors");
    let cut = |file: &mut std::fs::File| file.set_len(1000).unwrap();
    let emptied = |file: &mut std::fs::File| file.set_len(0).unwrap();
    let longer = |file: &mut std::fs::File| file.set_len(1 << 20).unwrap();
    let other_values = |file: &mut std::fs::File| {
        // Beyond the steps in which any file system counts time.
        std::thread::sleep(std::time::Duration::from_millis(50));
        file.seek(SeekFrom::End(-4)).unwrap();
        file.write_all(&2.0f32.to_le_bytes()).unwrap();
        file.sync_all().unwrap();
    };
    let changes: [&dyn Fn(&mut std::fs::File); 4] = [&cut, &emptied, &longer, &other_values];
    for change in changes {
        write(&path, 1.0);
        let checkpoint = Checkpoint::open(&path).unwrap();
        assert!(read(&checkpoint).unwrap().iter().all(|v| *v == 1.0));
        change(&mut std::fs::OpenOptions::new().write(true).open(&path).unwrap());
        let error = read(&checkpoint).unwrap_err();
        assert!(matches!(error, ReadError::Changed { .. }), "{error}");
        assert!(error.to_string().contains("model.safetensors"), "{error}");
    }
}

/// Whoever writes a new file beside the old one and renames it disturbs nobody.
#[cfg(unix)]
#[test]
fn a_file_that_was_replaced_is_read_to_its_end() {
    let (_folder, path) = place("model.safetensors");
    write(&path, 1.0);
    let checkpoint = Checkpoint::open(&path).unwrap();
    write(&path, 2.0);
    assert!(read(&checkpoint).unwrap().iter().all(|v| *v == 1.0));
    std::fs::remove_file(&path).unwrap();
    assert!(read(&checkpoint).unwrap().iter().all(|v| *v == 1.0));
}
