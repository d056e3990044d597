//! What kind of folder a spill file would go to.

use std::path::Path;

/// Whether files in a folder live in memory (tmpfs, ramfs). Where the system does not say, they do not.
#[cfg(target_os = "linux")]
pub fn in_memory(folder: &Path) -> bool {
    const TMPFS: u32 = 0x0102_1994;
    const RAMFS: u32 = 0x8584_58f6;
    // The type is signed or not, and of other widths, by platform; the numbers have 32 bits.
    rustix::fs::statfs(folder).is_ok_and(|s| [TMPFS, RAMFS].contains(&(s.f_type as u32)))
}

/// Whether files in a folder live in memory. Where the system does not say, they do not.
#[cfg(not(target_os = "linux"))]
pub fn in_memory(_: &Path) -> bool {
    false
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn shared_memory_is_memory_and_the_kernel_s_own_files_are_not() {
        // Where /dev/shm is there, it is a tmpfs.
        assert_eq!(in_memory(Path::new("/dev/shm")), Path::new("/dev/shm").exists());
        assert!(!in_memory(Path::new("/proc")));
        assert!(!in_memory(Path::new("/nowhere/at/all")));
    }
}
