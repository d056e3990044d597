//! Plans for common sizes on common machines, as the tables of `docs/memory.md`:
//! `cargo run --release -p remaster-engine --example memory_table`.
#![allow(clippy::print_stdout, reason = "the table is the result")]

use remaster_compute::{Backend, DType};
use remaster_engine::{EngineError, Task, device_sizing};
use remaster_model::vae::{Direction, VaeConfig};
use remaster_plan::{Budget, Clip, Mode, Plan, Wish};
use remaster_weights::FormulaParams;

const SIZES: [(&str, usize, usize); 6] = [
    ("480p", 480, 864),
    ("720p", 720, 1280),
    ("1080p", 1088, 1920),
    ("1440p", 1440, 2560),
    ("2160p", 2160, 3840),
    ("4320p", 4320, 7680),
];
const DEVICES: [u64; 6] = [4, 6, 8, 12, 16, 24];
const HOSTS: [u64; 4] = [8, 16, 32, 64];
/// Of the spill file: more than any plan takes.
const DISK: u64 = 4 << 40;

fn gib(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / (1u64 << 30) as f64)
}

fn cell(plan: &Plan) -> String {
    let mode = match plan.how.mode {
        Mode::Whole => format!("whole {}", plan.how.slice),
        Mode::Exact { stripes } => format!("exact {} in {stripes}", plan.how.slice),
        Mode::SharedStats(bands) => format!("shared {} in {}", plan.how.slice, bands.count),
        Mode::Blend(_) => "blend".into(),
    };
    let weights = if plan.how.stream_weights { " w" } else { "" };
    let disk = if plan.peaks.disk > 0 { format!(" + {}", gib(plan.peaks.disk)) } else { String::new() };
    format!("{mode}{weights}: {} / {}{disk}", gib(plan.peaks.device), gib(plan.peaks.host))
}

fn main() -> Result<(), EngineError> {
    for dtype in [DType::Bf16, DType::F32] {
        for direction in [Direction::Decode, Direction::Encode] {
            println!("\n### {} in {dtype}\n", direction.name());
            println!(
                "| frame | device | host 8 GiB | 16 GiB | 32 GiB | 64 GiB |\n|---|---:|---|---|---|---|"
            );
            for (name, height, width) in SIZES {
                let clip = Clip::new(1001, height, width)?;
                let network = direction.network(&VaeConfig::full(), &mut FormulaParams, dtype);
                let task = Task::new(network, clip.cells(), Backend::cpu_with(1), dtype);
                let mut planner = task.planner_for(device_sizing);
                for device in DEVICES {
                    let mut row = format!("| {name} | {device} GiB |");
                    for host in HOSTS {
                        let budget = Budget::Apart { vram: device << 30, ram: host << 30, disk: DISK };
                        row += &match planner.plan(&budget, &Wish::default()) {
                            Ok(plan) => {
                                // A plan is a promise: the meter must get through it within its peaks.
                                task.replay(&plan, &device_sizing)?;
                                format!(" {} |", cell(&plan))
                            }
                            Err(error) => format!(" refused: {error} |"),
                        };
                    }
                    println!("{row}");
                }
            }
        }
    }
    Ok(())
}
