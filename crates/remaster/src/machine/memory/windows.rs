//! What Windows says of memory and of the processor.
#![expect(unsafe_code, reason = "the standard library knows nothing of memory and processors")]

use windows_sys::Win32::System::ProcessStatus::{K32GetProcessMemoryInfo, PROCESS_MEMORY_COUNTERS};
use windows_sys::Win32::System::Registry::{HKEY_LOCAL_MACHINE, RRF_RT_REG_SZ, RegGetValueW};
use windows_sys::Win32::System::SystemInformation::{GlobalMemoryStatusEx, MEMORYSTATUSEX};
use windows_sys::Win32::System::Threading::GetCurrentProcess;
use windows_sys::core::w;

use super::SystemMemory;

/// What is there, and what can be had without paging.
pub(super) fn memory() -> SystemMemory {
    let mut status =
        MEMORYSTATUSEX { dwLength: size_of::<MEMORYSTATUSEX>() as u32, ..MEMORYSTATUSEX::default() };
    // SAFETY: `status` names its own size and is written during the call.
    match unsafe { GlobalMemoryStatusEx(&mut status) } {
        0 => SystemMemory::default(),
        // An allocation that the page file cannot back is refused, however much memory is free.
        _ => SystemMemory {
            total: Some(status.ullTotalPhys),
            free: Some(status.ullAvailPhys.min(status.ullAvailPageFile)),
        },
    }
}

pub(super) fn resident() -> Option<u64> {
    process().map(|memory| memory.PeakWorkingSetSize as u64)
}

pub(super) fn resident_now() -> Option<u64> {
    process().map(|memory| memory.WorkingSetSize as u64)
}

/// Memory of this process.
fn process() -> Option<PROCESS_MEMORY_COUNTERS> {
    let mut memory = PROCESS_MEMORY_COUNTERS::default();
    let size = size_of::<PROCESS_MEMORY_COUNTERS>() as u32;
    // SAFETY: the handle stands for this process and needs no closing; `memory` has the size that is named.
    let done = unsafe { K32GetProcessMemoryInfo(GetCurrentProcess(), &mut memory, size) };
    (done != 0).then_some(memory)
}

pub(super) fn cpu_name() -> Option<String> {
    let mut text = [0u16; 128];
    let mut bytes = size_of_val(&text) as u32;
    let key = w!("HARDWARE\\DESCRIPTION\\System\\CentralProcessor\\0");
    // SAFETY: both names end in a zero, and the system writes at most `bytes` bytes to `text`.
    let failed = unsafe {
        RegGetValueW(
            HKEY_LOCAL_MACHINE,
            key,
            w!("ProcessorNameString"),
            RRF_RT_REG_SZ,
            std::ptr::null_mut(),
            text.as_mut_ptr().cast(),
            &mut bytes,
        )
    };
    let name: Vec<u16> = text.iter().copied().take_while(|c| *c != 0).collect();
    (failed == 0).then(|| String::from_utf16_lossy(&name).trim().to_owned())
}
