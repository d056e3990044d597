//! Keeps the machine awake while work is done. Windows goes to sleep without input from a person, however busy the processor
//! is; other systems are left as they are.

/// Keeps the machine awake until it is dropped. The screen may turn off.
#[cfg(not(windows))]
pub(crate) struct Awake;

#[cfg(not(windows))]
impl Awake {
    pub(crate) fn new() -> Self {
        Awake
    }
}

#[cfg(windows)]
pub(crate) use windows::Awake;

#[cfg(windows)]
mod windows {
    #![expect(unsafe_code, reason = "the standard library knows nothing of power")]

    use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};

    use windows_sys::Win32::Foundation::INVALID_HANDLE_VALUE;
    use windows_sys::Win32::System::Power::{
        PowerClearRequest, PowerCreateRequest, PowerRequestSystemRequired, PowerSetRequest,
    };
    use windows_sys::Win32::System::SystemServices::POWER_REQUEST_CONTEXT_VERSION;
    use windows_sys::Win32::System::Threading::{
        POWER_REQUEST_CONTEXT_SIMPLE_STRING, REASON_CONTEXT, REASON_CONTEXT_0,
    };

    /// A request that `powercfg /requests` lists.
    pub(crate) struct Awake(Option<OwnedHandle>);

    impl Awake {
        pub(crate) fn new() -> Self {
            let mut reason: Vec<u16> = "remaster is working\0".encode_utf16().collect();
            let context = REASON_CONTEXT {
                Version: POWER_REQUEST_CONTEXT_VERSION,
                Flags: POWER_REQUEST_CONTEXT_SIMPLE_STRING,
                Reason: REASON_CONTEXT_0 { SimpleReasonString: reason.as_mut_ptr() },
            };
            // SAFETY: the flag says which part of the union holds, a text that ends in a zero and lives during the call.
            let handle = unsafe { PowerCreateRequest(&context) };
            if handle.is_null() || handle == INVALID_HANDLE_VALUE {
                return Awake(None);
            }
            // SAFETY: the handle was just created, and nothing else owns it.
            let request = unsafe { OwnedHandle::from_raw_handle(handle) };
            // SAFETY: the handle is open.
            let set = unsafe { PowerSetRequest(request.as_raw_handle(), PowerRequestSystemRequired) };
            Awake((set != 0).then_some(request))
        }
    }

    impl Drop for Awake {
        fn drop(&mut self) {
            if let Some(request) = &self.0 {
                // SAFETY: the handle is open.
                unsafe { PowerClearRequest(request.as_raw_handle(), PowerRequestSystemRequired) };
            }
        }
    }
}
