//! Children with all that they start: a process group on Unix, a job object on Windows.

use std::io;
use std::process::{Child, Command, ExitStatus};

#[cfg(unix)]
pub(crate) use unix::{Group, has_ended};
#[cfg(windows)]
pub(crate) use windows::{Group, has_ended, resident, with_descendants};

/// Ties a child to this process: it ends when this process does, however that ends. On Unix a child that reads stdin notices
/// by its end; Windows ends it itself. No window opens for it.
pub fn spawn_tied(command: &mut Command) -> io::Result<Child> {
    #[cfg(unix)]
    return command.spawn();
    #[cfg(windows)]
    windows::spawn_tied(command)
}

/// The status of a child of [`spawn_tied`], once it has ended. On Unix, what it left in the process group that it led is ended
/// before its number is given back, so that the number cannot name another process.
pub fn reap_tied(child: &mut Child) -> io::Result<Option<ExitStatus>> {
    if !has_ended(child) {
        return Ok(None);
    }
    #[cfg(unix)]
    Group.end(child);
    child.try_wait()
}

/// Ends a child of [`spawn_tied`] that was not reaped; on Unix with the process group that it leads.
pub fn end_tied(child: &mut Child) {
    #[cfg(unix)]
    Group.end(child);
    // One that has just ended is what was wanted.
    let _ = child.kill();
}

#[cfg(unix)]
mod unix {
    use std::io;
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command};

    use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

    /// The process group that a child leads.
    pub(crate) struct Group;

    impl Group {
        pub(crate) fn spawn(command: &mut Command) -> io::Result<(Child, Self)> {
            // Ctrl-C in a terminal goes to the whole group: in ours the child would die before we can say why.
            Ok((command.process_group(0).spawn()?, Group))
        }

        /// Ends all that is in it.
        pub(crate) fn end(&self, child: &Child) {
            let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
        }
    }

    /// Asks without giving back the number of the child.
    pub(crate) fn has_ended(child: &mut Child) -> bool {
        let how = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        // An error says that there is no such child.
        !matches!(waitid(WaitId::Pid(Pid::from_child(child)), how), Ok(None))
    }
}

#[cfg(windows)]
mod windows {
    #![expect(unsafe_code, reason = "the standard library has no job objects and no memory of processes")]

    use std::io;
    use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
    use std::os::windows::process::CommandExt;
    use std::process::{Child, Command};
    use std::ptr::null;
    use std::sync::OnceLock;

    use windows_sys::Win32::Foundation::{FILETIME, INVALID_HANDLE_VALUE};
    use windows_sys::Win32::System::Diagnostics::ToolHelp::{
        CreateToolhelp32Snapshot, PROCESSENTRY32W, Process32FirstW, Process32NextW, TH32CS_SNAPPROCESS,
        TH32CS_SNAPTHREAD, THREADENTRY32, Thread32First, Thread32Next,
    };
    use windows_sys::Win32::System::JobObjects::{
        AssignProcessToJobObject, CreateJobObjectW, JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
        JOBOBJECT_EXTENDED_LIMIT_INFORMATION, JobObjectExtendedLimitInformation, SetInformationJobObject,
        TerminateJobObject,
    };
    use windows_sys::Win32::System::ProcessStatus::{K32GetProcessMemoryInfo, PROCESS_MEMORY_COUNTERS};
    use windows_sys::Win32::System::Threading::{
        CREATE_NEW_PROCESS_GROUP, CREATE_NO_WINDOW, CREATE_SUSPENDED, GetProcessTimes, OpenProcess,
        OpenThread, PROCESS_QUERY_LIMITED_INFORMATION, ResumeThread, THREAD_SUSPEND_RESUME,
    };

    /// A job object. Closing its last handle ends all that is in it, and the system closes ours when we end.
    pub(crate) struct Group(Option<OwnedHandle>);

    impl Group {
        /// Without a job, on systems that refuse one, the child alone is ended.
        fn new() -> Self {
            // SAFETY: null asks for a job without a name that no other process inherits.
            let handle = unsafe { CreateJobObjectW(null(), null()) };
            if handle.is_null() {
                return Group(None);
            }
            // SAFETY: the handle was just created, and nothing else owns it.
            let job = unsafe { OwnedHandle::from_raw_handle(handle) };
            let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
            limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
            let size = size_of::<JOBOBJECT_EXTENDED_LIMIT_INFORMATION>() as u32;
            // SAFETY: `limits` has the type and size that the class asks for and lives during the call.
            let set = unsafe {
                SetInformationJobObject(
                    job.as_raw_handle(),
                    JobObjectExtendedLimitInformation,
                    (&raw const limits).cast(),
                    size,
                )
            };
            Group((set != 0).then_some(job))
        }

        /// Starts a child, suspended until it is in the job: the shims that package managers install for ffmpeg would
        /// otherwise start the real one outside of it.
        fn start(&self, command: &mut Command, flags: u32) -> io::Result<Child> {
            let mut child = command.creation_flags(flags | CREATE_NO_WINDOW | CREATE_SUSPENDED).spawn()?;
            if let Some(job) = &self.0 {
                // Where the system refuses it, the child alone is ended.
                // SAFETY: both handles are open: one is ours, and `child` holds the other.
                unsafe { AssignProcessToJobObject(job.as_raw_handle(), child.as_raw_handle()) };
            }
            resume(child.id()).inspect_err(|_| {
                let _ = child.kill();
                let _ = child.wait();
            })?;
            Ok(child)
        }

        pub(crate) fn spawn(command: &mut Command) -> io::Result<(Child, Self)> {
            let group = Group::new();
            // Ctrl-C in a console goes to all its processes: the child would die before we can say why.
            let child = group.start(command, CREATE_NEW_PROCESS_GROUP)?;
            Ok((child, group))
        }

        /// Ends all that is in it.
        pub(crate) fn end(&self, _: &Child) {
            if let Some(job) = &self.0 {
                // SAFETY: the handle is open. Processes that end now give 1, as those that are killed one by one do.
                unsafe { TerminateJobObject(job.as_raw_handle(), 1) };
            }
        }
    }

    pub(super) fn spawn_tied(command: &mut Command) -> io::Result<Child> {
        // Closed by the system alone, when this process ends.
        static ALL: OnceLock<Group> = OnceLock::new();
        ALL.get_or_init(Group::new).start(command, 0)
    }

    /// Resumes a process that was started suspended. The standard library keeps no handle of its only thread, so that is
    /// looked up in the list of all threads.
    fn resume(process: u32) -> io::Result<()> {
        let list = snapshot(TH32CS_SNAPTHREAD)?;
        let size = size_of::<THREADENTRY32>() as u32;
        let mut entry = THREADENTRY32 { dwSize: size, ..THREADENTRY32::default() };
        // SAFETY: the handle is open, and `entry` says its own size and is written during the call.
        let mut more = unsafe { Thread32First(list.as_raw_handle(), &mut entry) };
        while more != 0 {
            if entry.th32OwnerProcessID == process {
                // SAFETY: asks for a handle of a thread; null says that there is none.
                let thread = unsafe { OpenThread(THREAD_SUSPEND_RESUME, 0, entry.th32ThreadID) };
                if thread.is_null() {
                    return Err(io::Error::last_os_error());
                }
                // SAFETY: the handle was just created, and nothing else owns it.
                let thread = unsafe { OwnedHandle::from_raw_handle(thread) };
                // SAFETY: the handle is open and has the right to this.
                return match unsafe { ResumeThread(thread.as_raw_handle()) } {
                    u32::MAX => Err(io::Error::last_os_error()),
                    _ => Ok(()),
                };
            }
            entry.dwSize = size;
            // SAFETY: as for the first.
            more = unsafe { Thread32Next(list.as_raw_handle(), &mut entry) };
        }
        Err(io::Error::other("the system does not list the thread of a new process"))
    }

    /// A list of the threads or processes that there are.
    fn snapshot(of: u32) -> io::Result<OwnedHandle> {
        // SAFETY: asks for a list, as a handle that is to be closed.
        let list = unsafe { CreateToolhelp32Snapshot(of, 0) };
        if list == INVALID_HANDLE_VALUE {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the handle was just created, and nothing else owns it.
        Ok(unsafe { OwnedHandle::from_raw_handle(list) })
    }

    /// A process, and what it and those started. Alone if the system does not list them.
    pub(crate) fn with_descendants(process: u32) -> Vec<u32> {
        let mut parents = Vec::new();
        if let Ok(list) = snapshot(TH32CS_SNAPPROCESS) {
            let size = size_of::<PROCESSENTRY32W>() as u32;
            let mut entry = PROCESSENTRY32W { dwSize: size, ..PROCESSENTRY32W::default() };
            // SAFETY: the handle is open, and `entry` says its own size and is written during the call.
            let mut more = unsafe { Process32FirstW(list.as_raw_handle(), &mut entry) };
            while more != 0 {
                parents.push((entry.th32ProcessID, entry.th32ParentProcessID));
                entry.dwSize = size;
                // SAFETY: as for the first.
                more = unsafe { Process32NextW(list.as_raw_handle(), &mut entry) };
            }
        }
        let mut found = vec![process];
        let mut next = 0;
        while let Some(parent) = found.get(next).copied() {
            next += 1;
            let since = started(parent);
            let children = parents.iter().filter(|(id, of)| *of == parent && !found.contains(id));
            // Numbers are used again: those of an earlier process with this one are older.
            let children = children.filter(|(id, _)| started(*id).is_some_and(|time| Some(time) >= since));
            let children: Vec<u32> = children.map(|(id, _)| *id).collect();
            found.extend(children);
        }
        found
    }

    /// When a process was started, in 100 ns since 1601.
    fn started(id: u32) -> Option<u64> {
        let process = asked(id)?;
        let [mut started, mut ended, mut kernel, mut user] = [FILETIME::default(); 4];
        // SAFETY: the handle is open, and all four are written during the call.
        let done = unsafe {
            GetProcessTimes(process.as_raw_handle(), &mut started, &mut ended, &mut kernel, &mut user)
        };
        (done != 0).then_some(u64::from(started.dwHighDateTime) << 32 | u64::from(started.dwLowDateTime))
    }

    /// A process that may be asked about itself.
    fn asked(id: u32) -> Option<OwnedHandle> {
        // SAFETY: asks for a handle that may only be asked; null says that there is none.
        let handle = unsafe { OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION, 0, id) };
        // SAFETY: the handle was just created, and nothing else owns it.
        (!handle.is_null()).then(|| unsafe { OwnedHandle::from_raw_handle(handle) })
    }

    /// The number stays the child's until its handle is dropped.
    pub(crate) fn has_ended(child: &mut Child) -> bool {
        !matches!(child.try_wait(), Ok(None))
    }

    /// Bytes of memory that a process holds.
    pub(crate) fn resident(id: u32) -> Option<u64> {
        let process = asked(id)?;
        let mut memory = PROCESS_MEMORY_COUNTERS::default();
        let size = size_of::<PROCESS_MEMORY_COUNTERS>() as u32;
        // SAFETY: the handle is open, and `memory` has the size that is named.
        let done = unsafe { K32GetProcessMemoryInfo(process.as_raw_handle(), &mut memory, size) };
        (done != 0).then_some(memory.WorkingSetSize as u64)
    }
}

#[cfg(all(test, windows))]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_child_ends_with_its_group_and_its_memory_is_known() {
        let mut command = Command::new("cmd");
        command.args(["/c", "ping -n 60 127.0.0.1"]).stdout(Stdio::null());
        let (mut child, group) = Group::spawn(&mut command).unwrap();
        assert!(resident(child.id()).is_some_and(|bytes| bytes > 0));
        assert!(!has_ended(&mut child));
        // What it starts counts as soon as it is there.
        let started = std::time::Instant::now();
        while with_descendants(child.id()).len() < 2 {
            assert!(started.elapsed() < std::time::Duration::from_secs(30));
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        assert!(crate::resident::resident(child.id()) > resident(child.id()).unwrap_or(0));
        group.end(&child);
        assert!(!child.wait().unwrap().success());
        assert!(has_ended(&mut child));
    }

    #[test]
    fn what_a_child_starts_at_once_ends_with_the_group() {
        use std::io::Read;
        for wait in [0, 1, 5, 50, 500] {
            let mut command = Command::new("cmd");
            command.args(["/c", "ping -n 60 127.0.0.1"]).stdout(Stdio::piped());
            let (mut child, group) = Group::spawn(&mut command).unwrap();
            let mut stdout = child.stdout.take().unwrap();
            let started = std::time::Instant::now();
            std::thread::sleep(std::time::Duration::from_millis(wait));
            group.end(&child);
            // The pipe ends when every process that holds it has ended.
            stdout.read_to_end(&mut Vec::new()).unwrap();
            child.wait().unwrap();
            assert!(started.elapsed() < std::time::Duration::from_secs(30), "after {wait} ms");
        }
    }

    #[test]
    fn a_child_ends_when_its_group_is_dropped() {
        let mut command = Command::new("cmd");
        command.args(["/c", "ping -n 60 127.0.0.1"]).stdout(Stdio::null());
        let (mut child, group) = Group::spawn(&mut command).unwrap();
        let started = std::time::Instant::now();
        drop(group);
        // Its status says nothing: what ends with a job has ended with 0.
        child.wait().unwrap();
        assert!(started.elapsed() < std::time::Duration::from_secs(30));
    }
}
