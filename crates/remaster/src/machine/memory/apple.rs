//! What macOS says of memory and of the processor.
#![expect(unsafe_code, reason = "the standard library knows nothing of memory and processors")]

use std::ffi::CStr;
use std::mem::MaybeUninit;

use super::SystemMemory;

/// What is there, and about what can be had without swapping: free pages, and those of files that were not used lately.
pub(super) fn memory() -> SystemMemory {
    let total = number(c"hw.memsize");
    SystemMemory { total, free: free().map(|free| total.map_or(free, |total| free.min(total))) }
}

fn free() -> Option<u64> {
    let mut about = MaybeUninit::<libc::vm_statistics64>::zeroed();
    let mut count = libc::HOST_VM_INFO64_COUNT;
    #[expect(deprecated, reason = "a crate more for one number that does not change")]
    // SAFETY: gives the port of this machine, which every process has.
    let host = unsafe { libc::mach_host_self() };
    // SAFETY: `about` has the size that `count` says, and is written during the call.
    let done =
        unsafe { libc::host_statistics64(host, libc::HOST_VM_INFO64, about.as_mut_ptr().cast(), &mut count) };
    if done != libc::KERN_SUCCESS {
        return None;
    }
    // SAFETY: it was made of zeros, which are valid, and the system wrote the rest.
    let about = unsafe { about.assume_init() };
    // SAFETY: asks for a number.
    let page = u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()?;
    // Those of programs, which are among the inactive ones, would have to be swapped.
    // Speculative ones count as free and as those of files.
    let files = about.external_page_count.saturating_sub(about.speculative_count).min(about.inactive_count);
    let pages = u64::from(about.free_count) + u64::from(files);
    Some(pages * page)
}

pub(super) fn resident() -> Option<u64> {
    usage().map(|usage| usage.ri_lifetime_max_phys_footprint)
}

pub(super) fn resident_now() -> Option<u64> {
    usage().map(|usage| usage.ri_phys_footprint)
}

/// Memory of this process.
fn usage() -> Option<libc::rusage_info_v4> {
    let mut usage = MaybeUninit::<libc::rusage_info_v4>::zeroed();
    let id = i32::try_from(std::process::id()).ok()?;
    // SAFETY: `usage` has the type of the version that is asked for, and is written during the call.
    let done = unsafe { libc::proc_pid_rusage(id, libc::RUSAGE_INFO_V4, usage.as_mut_ptr().cast()) };
    // SAFETY: it was made of zeros, which are valid, and the system wrote the rest.
    (done == 0).then(|| unsafe { usage.assume_init() })
}

pub(super) fn cpu_name() -> Option<String> {
    let mut text = [0u8; 256];
    let length = asked(c"machdep.cpu.brand_string", &mut text)?;
    let name = CStr::from_bytes_until_nul(text.get(..length)?).ok()?;
    Some(name.to_string_lossy().trim().to_owned())
}

fn number(name: &CStr) -> Option<u64> {
    let mut bytes = [0; 8];
    (asked(name, &mut bytes)? == bytes.len()).then(|| u64::from_ne_bytes(bytes))
}

/// What the system says of a name, and how many bytes that has.
fn asked(name: &CStr, answer: &mut [u8]) -> Option<usize> {
    let mut length = answer.len();
    // SAFETY: the name ends in a zero, `length` is that of `answer`, which is written during the call, and nothing is set.
    let done = unsafe {
        libc::sysctlbyname(name.as_ptr(), answer.as_mut_ptr().cast(), &mut length, std::ptr::null_mut(), 0)
    };
    (done == 0 && length <= answer.len()).then_some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_says_what_it_has() {
        let SystemMemory { total, free } = memory();
        assert!(total > Some(1 << 30) && free > Some(0) && free < total, "{total:?} {free:?}");
        assert!(resident() >= resident_now() && resident_now() > Some(1 << 20));
        assert!(cpu_name().is_some_and(|name| !name.is_empty()));
    }
}
