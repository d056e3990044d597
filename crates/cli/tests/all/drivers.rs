//! Vulkan drivers that do not survive being asked for their devices.
#![cfg(all(feature = "gpu", target_os = "linux"))]

use std::process::Command;

use serde_json::json;

use crate::desk::{Desk, Run};

/// A driver that does this when the loader first calls it.
fn driver(does: &str) -> Desk {
    let desk = Desk::new();
    desk.put(
        "driver.c",
        format!(
            "#include <stdlib.h>\n#include <unistd.h>\nint vk_icdNegotiateLoaderICDInterfaceVersion(unsigned *v) {{ {does}; }}\n"
        ),
    );
    let mut compile = Command::new("cc");
    compile.args(["-shared", "-fPIC", "-o"]).arg(desk.join("driver.so")).arg(desk.join("driver.c"));
    assert!(compile.status().unwrap().success());
    let driver = json!({ "library_path": desk.join("driver.so"), "api_version": "1.3.0" });
    desk.put("driver.json", json!({ "file_format_version": "1.0.0", "ICD": driver }).to_string());
    desk
}

fn run(desk: &Desk, line: &str) -> Run {
    let mut command = desk.command(line);
    // The second name is that of older loaders.
    for name in ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"] {
        command.env(name, desk.join("driver.json"));
    }
    Run::of(&mut command)
}

#[test]
fn a_driver_that_crashes_costs_its_devices_and_nothing_else() {
    let desk = driver("abort()");
    let listed = run(&desk, "devices --json");
    listed.ends(0, &[]);
    let listed = listed.json();
    assert_eq!(listed["left_out"], json!([{ "api": "vulkan", "reason": "crashed (signal 6)" }]));
    assert_eq!((listed["auto"].as_str(), listed["devices"].as_array().unwrap().len()), (Some("cpu"), 1));
    run(&desk, "devices").ends(0, &[]);

    desk.put(
        "in.y4m",
        b"YUV4MPEG2 W8 H8 F25:1 C420jpeg\nFRAME\n".iter().copied().chain([128; 96]).collect::<Vec<_>>(),
    );
    let restored = run(&desk, "in.y4m -o out.y4m --model anime --resolution 2x");
    restored.ends(0, &["the vulkan driver crashed (signal 6)", "update it"]);
    let asked = run(&desk, "in.y4m -o again.y4m --model anime --resolution 2x --device vulkan:0");
    asked.ends(2, &["vulkan:0 cannot be used", "crashed (signal 6)", "--device cpu"]);
    // A run that was told to use the CPU asks no driver.
    let cpu = run(&desk, "in.y4m -o cpu.y4m --model anime --resolution 2x --device cpu");
    cpu.ends(0, &[]);
    assert!(!cpu.stderr.contains("vulkan"), "{}", cpu.stderr);
}

#[test]
fn a_driver_that_ends_the_process_is_left_out_too() {
    let listed = run(&driver("_exit(0)"), "devices --json");
    listed.ends(0, &[]);
    assert_eq!(listed.json()["left_out"][0]["reason"], "ended the process");
}
