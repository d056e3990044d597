//! What Linux says in texts of its kernel; where there are none, nothing is known.

use super::SystemMemory;

impl SystemMemory {
    /// Of both, whatever is less.
    fn and(self, other: SystemMemory) -> SystemMemory {
        let less = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        SystemMemory { total: less(self.total, other.total), free: less(self.free, other.free) }
    }
}

pub(super) fn memory() -> SystemMemory {
    memory_by(&|path| std::fs::read_to_string(path).ok())
}

/// A file by its path.
type Files<'a> = dyn Fn(&str) -> Option<String> + 'a;

fn memory_by(read: &Files<'_>) -> SystemMemory {
    let meminfo = read("/proc/meminfo").unwrap_or_default();
    let machine =
        SystemMemory { total: field(&meminfo, "MemTotal:"), free: field(&meminfo, "MemAvailable:") };
    machine.and(groups(read)).and(rlimits(read))
}

/// Bytes that a line `name:  123 kB` says.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|l| l.strip_prefix(name))?;
    line.trim().trim_end_matches("kB").trim().parse::<u64>().ok().map(|kib| kib << 10)
}

/// Limits of the control groups of this process and of all groups above them.
fn groups(read: &Files<'_>) -> SystemMemory {
    let list = read("/proc/self/cgroup").unwrap_or_default();
    let mut least = SystemMemory::default();
    for line in list.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(number), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        let of: fn(&Files<'_>, &str) -> SystemMemory = match controllers {
            "" if number == "0" => version2,
            names if names.split(',').any(|n| n == "memory") => version1,
            _ => continue,
        };
        // Inside a container the path may be the one outside: the root is then the container's own group.
        let mut path = path.trim_end_matches('/');
        loop {
            least = least.and(of(read, path));
            match path.rfind('/') {
                Some(end) => path = &path[..end],
                None => break,
            }
        }
    }
    least
}

fn version2(read: &Files<'_>, path: &str) -> SystemMemory {
    let number = |name: &str| read(&format!("/sys/fs/cgroup{path}/{name}"))?.trim().parse::<u64>().ok();
    let limit = [number("memory.max"), number("memory.high")].into_iter().flatten().min();
    let stat = read(&format!("/sys/fs/cgroup{path}/memory.stat")).unwrap_or_default();
    limited(limit, number("memory.current"), cached(&stat, "inactive_file "))
}

fn version1(read: &Files<'_>, path: &str) -> SystemMemory {
    let number =
        |name: &str| read(&format!("/sys/fs/cgroup/memory{path}/{name}"))?.trim().parse::<u64>().ok();
    // Without a limit it says about 2^63.
    let limit = number("memory.limit_in_bytes").filter(|n| *n < 1 << 60);
    let stat = read(&format!("/sys/fs/cgroup/memory{path}/memory.stat")).unwrap_or_default();
    limited(limit, number("memory.usage_in_bytes"), cached(&stat, "total_inactive_file "))
}

/// Pages of files that the kernel gives back when memory is asked for.
fn cached(stat: &str, name: &str) -> u64 {
    stat.lines().find_map(|l| l.strip_prefix(name)?.trim().parse().ok()).unwrap_or(0)
}

fn limited(limit: Option<u64>, used: Option<u64>, cached: u64) -> SystemMemory {
    let free = limit.map(|limit| limit.saturating_sub(used.unwrap_or(0).saturating_sub(cached)));
    SystemMemory { total: limit, free }
}

/// What `ulimit -v` and `ulimit -d` leave.
fn rlimits(read: &Files<'_>) -> SystemMemory {
    let limits = read("/proc/self/limits").unwrap_or_default();
    let status = read("/proc/self/status").unwrap_or_default();
    let of = |name: &str, used: &str| {
        let soft = limits.lines().find_map(|l| l.strip_prefix(name)?.split_whitespace().next()?.parse().ok());
        limited(soft, field(&status, used), 0)
    };
    of("Max address space", "VmSize:").and(of("Max data size", "VmData:"))
}

/// Bytes that a line of a file of the system says; `None` where there is none.
fn kernel_field(file: &str, name: &str) -> Option<u64> {
    field(&std::fs::read_to_string(file).ok()?, name)
}

pub(super) fn resident() -> Option<u64> {
    kernel_field("/proc/self/status", "VmHWM:")
}

pub(super) fn resident_now() -> Option<u64> {
    kernel_field("/proc/self/status", "VmRSS:")
}

pub(super) fn cpu_name() -> Option<String> {
    named(&std::fs::read_to_string("/proc/cpuinfo").ok()?)
}

/// The model name. ARM has none, so the implementer and part numbers of the first core are used.
fn named(text: &str) -> Option<String> {
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.trim_start_matches([' ', '\t', ':']).trim())
    };
    let of_arm = || Some(format!("ARM {} part {}", value("CPU implementer")?, value("CPU part")?));
    value("model name").map(str::to_owned).or_else(of_arm)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    const GIB: u64 = 1 << 30;

    fn on(files: &[(&str, &str)]) -> SystemMemory {
        let files: HashMap<&str, &str> = files.iter().copied().collect();
        memory_by(&|path| files.get(path).map(|text| (*text).to_owned()))
    }

    const MEMINFO: (&str, &str) =
        ("/proc/meminfo", "MemTotal:       16777216 kB\nMemFree: 1 kB\nMemAvailable:    8388608 kB\n");

    #[test]
    fn a_machine_without_limits_has_what_it_has() {
        assert_eq!(on(&[MEMINFO]), SystemMemory { total: Some(16 * GIB), free: Some(8 * GIB) });
        assert_eq!(on(&[]), SystemMemory::default());
    }

    #[test]
    fn the_smallest_group_on_the_way_counts() {
        let files = [
            MEMINFO,
            ("/proc/self/cgroup", "0::/user.slice/job\n"),
            ("/sys/fs/cgroup/user.slice/memory.max", "4294967296\n"),
            ("/sys/fs/cgroup/user.slice/memory.high", "max\n"),
            ("/sys/fs/cgroup/user.slice/memory.current", "3221225472\n"),
            ("/sys/fs/cgroup/user.slice/memory.stat", "anon 5\ninactive_file 1073741824\n"),
            ("/sys/fs/cgroup/user.slice/job/memory.max", "max\n"),
            ("/sys/fs/cgroup/user.slice/job/memory.current", "1024\n"),
        ];
        assert_eq!(on(&files), SystemMemory { total: Some(4 * GIB), free: Some(2 * GIB) });
        let high = [files[0], files[1], ("/sys/fs/cgroup/user.slice/job/memory.high", "1073741824\n")];
        assert_eq!(on(&high), SystemMemory { total: Some(GIB), free: Some(GIB) });
    }

    #[test]
    fn old_groups_and_containers_count_too() {
        let old = [
            MEMINFO,
            ("/proc/self/cgroup", "12:cpu:/x\n5:memory:/docker/abc\n"),
            // The container sees its own group as the root.
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "2147483648\n"),
            ("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1073741824\n"),
        ];
        assert_eq!(on(&old), SystemMemory { total: Some(2 * GIB), free: Some(GIB) });
        let endless =
            [old[0], old[1], ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")];
        assert_eq!(on(&endless).total, Some(16 * GIB));
    }

    #[test]
    fn limits_of_the_process_count_too() {
        let files = [
            MEMINFO,
            (
                "/proc/self/limits",
                "Limit                     Soft Limit           Hard Limit           Units\n\
                 Max data size             unlimited            unlimited            bytes\n\
                 Max address space         3221225472           unlimited            bytes\n",
            ),
            ("/proc/self/status", "VmSize:\t 1048576 kB\nVmData:\t 10 kB\n"),
        ];
        assert_eq!(on(&files), SystemMemory { total: Some(3 * GIB), free: Some(2 * GIB) });
    }

    #[test]
    fn a_processor_has_a_name_or_the_numbers_of_one() {
        let x86 = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nmodel name\t: another\n";
        assert_eq!(named(x86).as_deref(), Some("Some CPU @ 2 GHz"));
        let arm = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0b\nCPU part\t: 0xd05\n";
        assert_eq!(named(arm).as_deref(), Some("ARM 0x41 part 0xd0b"));
        assert_eq!(named("nothing"), None);
    }

    #[test]
    fn nonsense_is_no_limit() {
        for text in ["", ":::", "0::", "0::\n1:memory", "a:b:c:d\n0::/../..", "\u{0}"] {
            assert_eq!(on(&[MEMINFO, ("/proc/self/cgroup", text)]).total, Some(16 * GIB), "{text:?}");
        }
    }
}
