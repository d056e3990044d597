//! Keeps compiled kernels on disk for the next run. A driver may crash on data that it did not write, so a file is
//! ignored if it is damaged, too large, or from another device, driver or version.
#![expect(unsafe_code, reason = "only this file knows that its data is what a driver gave")]

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use super::KERNELS;
use super::device::hash;
use super::driver;

/// First bytes of every file. The number changes with the layout.
const MAGIC: &[u8; 8] = b"RMpipe01";
/// Magic, stamp, length and hash.
const HEADER: usize = 32;
/// Most bytes kept. All kernels of a device take a few MiB, but drivers never drop one, so a file could grow
/// without end.
const LIMIT: usize = 64 << 20;

/// Compiled kernels of one device.
pub(super) struct PipelineFile {
    cache: wgpu::PipelineCache,
    path: PathBuf,
    stamp: u64,
    /// Hash of the data read from the file.
    known: Option<u64>,
}

impl PipelineFile {
    /// Opens the file of a device that has `PIPELINE_CACHE`; `None` if wgpu has no key for the device.
    pub(super) fn open(
        folder: &Path,
        device: &wgpu::Device,
        adapter: &wgpu::AdapterInfo,
        fingerprint: u64,
    ) -> Option<Self> {
        let key = wgpu::util::pipeline_cache_key(adapter)?;
        let path = folder.join(format!("{key}-{fingerprint:016x}.bin"));
        let stamp = hash(format!("{}|{KERNELS}|{key}|{fingerprint}", env!("CARGO_PKG_VERSION")).as_bytes());
        let data = read(&path, stamp);
        // SAFETY: the stamp shows that this version wrote the data for this device and driver, and the hash that
        // it is unchanged.
        let cache = unsafe { driver::pipelines(device, data.as_deref()) };
        Some(PipelineFile { cache, path, stamp, known: data.as_deref().map(hash) })
    }

    /// The cache to compile pipelines with.
    pub(super) fn cache(&self) -> &wgpu::PipelineCache {
        &self.cache
    }

    /// Writes the compiled kernels if they changed. A failed write costs the next run some time, nothing else.
    pub(super) fn save(&self) {
        let Some(data) = self.cache.get_data().filter(|d| d.len() <= LIMIT) else { return };
        if self.known != Some(hash(&data)) {
            let _ = write(&self.path, self.stamp, &data);
        }
    }
}

fn write(path: &Path, stamp: u64, data: &[u8]) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        remaster_disk::make_folders(folder)?;
    }
    let mut bytes = Vec::with_capacity(HEADER + data.len());
    bytes.extend_from_slice(MAGIC);
    for number in [stamp, data.len() as u64, hash(data)] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes.extend_from_slice(data);
    remaster_disk::write_whole(path, |file| file.write_all(&bytes))
}

/// The data passed to `write`, if the file is intact and has this stamp.
fn read(path: &Path, stamp: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let most = (HEADER + LIMIT) as u64;
    remaster_disk::read(path).ok()?.take(most + 1).read_to_end(&mut bytes).ok()?;
    let (header, data) = bytes.split_at_checked(HEADER)?;
    let number = |i: usize| Some(u64::from_le_bytes(header.get(8 * i..8 * i + 8)?.try_into().ok()?));
    let ours = header.starts_with(MAGIC)
        && data.len() <= LIMIT
        && number(1)? == stamp
        && number(2)? == data.len() as u64
        && number(3)? == hash(data);
    ours.then(|| data.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::{Gpu, GpuDevice};
    use crate::{CancelToken, DType, Ops, Shape};

    fn folder(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("remaster-{name}-{}", std::process::id()))
    }

    #[test]
    fn a_good_file_is_read_back_and_no_other() {
        let folder = folder("pipeline-file");
        let path = folder.join("deeper").join("file.bin");
        assert_eq!(read(&path, 7), None, "there is none");
        let data: Vec<u8> = (0..1000u32).map(|i| ((i * i) >> 3) as u8).collect();
        write(&path, 7, &data).unwrap();
        assert_eq!(read(&path, 7).as_deref(), Some(data.as_slice()));
        assert_eq!(read(&path, 8), None, "another device or version");
        let whole = std::fs::read(&path).unwrap();
        for at in (0..whole.len()).step_by(7).chain([0, 8, 16, 24, 31, 32, whole.len() - 1]) {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x10;
            std::fs::write(&path, damaged).unwrap();
            assert_eq!(read(&path, 7), None, "a bit of byte {at} was turned");
        }
        for length in [0, 1, HEADER - 1, HEADER, whole.len() - 1] {
            std::fs::write(&path, &whole[..length]).unwrap();
            assert_eq!(read(&path, 7), None, "cut to {length} bytes");
        }
        std::fs::write(&path, [whole.as_slice(), &[0]].concat()).unwrap();
        assert_eq!(read(&path, 7), None, "one byte more");
        write(&path, 7, &data).unwrap();
        assert_eq!(read(&path, 7).as_deref(), Some(data.as_slice()), "written over");
        let left = std::fs::read_dir(path.parent().unwrap()).unwrap().count();
        assert_eq!(left, 1, "nothing half written is left");
        // A pipe is no file, and is not waited for.
        #[cfg(unix)]
        {
            std::fs::remove_file(&path).unwrap();
            assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
            assert_eq!(read(&path, 7), None, "a pipe");
        }
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn kernels_of_one_run_are_found_by_the_next_and_damaged_ones_by_none() {
        let Ok(device) = "vulkan:0".parse::<GpuDevice>() else {
            return remaster_testkit::no_gpu(
                "kernels_of_one_run_are_found_by_the_next_and_damaged_ones_by_none",
            );
        };
        let folder: &'static Path = Box::leak(folder("pipelines").into_boxed_path());
        let device = GpuDevice { cache: Some(folder), ..device };
        let found = || {
            let mut gpu = Gpu::new(device, 1 << 20, CancelToken::default()).unwrap();
            let shape = Shape::new(1, 3, 5, 7);
            let (x, y) = (gpu.alloc(shape, DType::F32).unwrap(), gpu.alloc(shape, DType::F32).unwrap());
            gpu.upload(&[1.5; 105], x.view()).unwrap();
            gpu.copy(x.view(), y.view()).unwrap();
            assert_eq!(gpu.values(y.view()).unwrap(), [1.5; 105]);
            gpu.stream.opened.kept.as_ref().is_some_and(|kept| kept.known.is_some())
        };
        assert!(!found(), "the folder is not there yet");
        let files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect();
        let [file] = files.as_slice() else { panic!("{files:?}") };
        let written = || std::fs::metadata(file).unwrap().modified().unwrap();
        let first = written();
        assert!(found());
        assert_eq!(written(), first, "nothing new was compiled, nothing is written");
        let mut bytes = std::fs::read(file).unwrap();
        println!("{} bytes from the driver", bytes.len() - HEADER);
        if let Some(last) = bytes.last_mut() {
            *last ^= 1;
        }
        std::fs::write(file, bytes).unwrap();
        assert!(!found(), "a damaged file was used");
        assert!(found(), "a damaged file was not replaced");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
