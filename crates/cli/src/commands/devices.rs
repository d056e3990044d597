//! `remaster devices`.

use remaster::machine::{CardMemory, Devices, devices};
use remaster_plan::bytes;

use crate::output::Output;

pub(crate) fn run(out: &Output) {
    let report = devices();
    out.result(&report, || describe(&report, out.is_verbose()));
}

fn describe(report: &Devices, verbose: bool) -> String {
    let mut text = String::new();
    for d in &report.devices {
        text += &format!("{:10} {} ({})\n", d.device, d.name, d.kind);
        let mut line = |what: &str, value: &str| text += &format!("           {what}: {value}\n");
        if !d.driver.is_empty() {
            line("driver", &d.driver);
        }
        if d.limits.is_some() {
            let unknown = || "not reported by the driver; set --vram".into();
            line("memory", &d.memory.as_ref().map_or_else(unknown, memory));
        }
        if let Some(l) = d.limits.as_ref().filter(|_| verbose) {
            let (tensor, binding) = (bytes(l.max_tensor_bytes), bytes(l.max_binding_bytes));
            let tensors = format!("tensors up to {tensor}, {} bindings of {binding}", l.max_bindings);
            let (groups, kib) = (l.max_workgroups, l.workgroup_memory_bytes / 1024);
            line("kernels", &format!("{tensors}; {groups} workgroups per dispatch, {kib} KiB each"));
            if !l.matrix_units.is_empty() {
                line("matrix units", &l.matrix_units.join(", "));
            }
        }
        d.notes.iter().for_each(|note| line("note", note));
    }
    for left in &report.left_out {
        text += &format!("note: {left}\n");
    }
    text + &format!("`--device auto` chooses {}\n", report.auto)
}

/// The memory of a GPU in words.
fn memory(m: &CardMemory) -> String {
    let told = match (m.free_bytes, m.shared) {
        (Some(free), _) => format!("{} of {} free", bytes(free), bytes(m.bytes)),
        (None, false) => format!("{} (total; free memory not reported)", bytes(m.bytes)),
        (None, true) => format!("{} (as reported; free memory not reported)", bytes(m.bytes)),
    };
    match m.shared {
        true => format!("{told}; shared with the host, limited by --ram"),
        false => format!("{told}; runs use up to {} (change with --vram)", bytes(m.allowed())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_said_with_what_runs_use() {
        let of = |free_bytes| CardMemory { bytes: 8 << 30, free_bytes, shared: false };
        assert!(memory(&of(None)).contains("total; free memory not reported"));
        assert!(memory(&of(Some(4 << 30))).contains("use up to 3.50 GiB"));
    }
}
