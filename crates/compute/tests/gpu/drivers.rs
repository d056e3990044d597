//! A few cases of every op: on drivers that compile slowly, and with the limits of other cards.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem::discriminant;

use remaster_compute::DType;
#[cfg(target_os = "linux")]
use remaster_testkit::Liar;
use remaster_testkit::op_cases::{Case, bits, distance, whole};
use remaster_testkit::token_cases::{TokenCase, run_tokens, token_distance};

use crate::{device, open, reference};

/// The first two random cases of every op in f32, and the first in 16 bits.
fn few() -> impl Iterator<Item = Case> {
    let mut seen = HashMap::new();
    (0..400).map(Case::random).filter(move |case| {
        let n = seen.entry((discriminant(&case.op), case.dtype.to_string())).or_insert(0);
        *n += 1;
        *n <= if case.dtype == DType::F32 { 2 } else { 1 }
    })
}

/// Every op within its tolerance. Prints what the device is, and a digest of all results.
#[test]
fn a_few_cases_of_every_op_agree_with_the_naive_loops() {
    let Some(device) = device("a_few_cases_of_every_op_agree_with_the_naive_loops") else { return };
    let (mut gpu, mut reference) = (open(device), reference());
    let mut digest = DefaultHasher::new();
    let mut cases = 0;
    for case in few() {
        cases += 1;
        let (ours, theirs) = (whole(&mut gpu, &case), whole(reference.as_mut(), &case));
        for (a, b) in ours.iter().zip(&theirs) {
            let d = distance(a, b);
            assert!(d <= 1.0, "{case:?}\n{} is {d} tolerances away", a.name);
        }
        bits(&ours).hash(&mut digest);
    }
    for case in (0..24).map(TokenCase::random) {
        cases += 1;
        let theirs = run_tokens(reference.as_mut(), &case, false).unwrap();
        let ours = run_tokens(&mut gpu, &case, false).unwrap();
        let d = token_distance(&case, &ours, &theirs);
        assert!(d <= 1.0, "{case:?} is {d} tolerances away");
        ours.iter().for_each(|value| value.to_bits().hash(&mut digest));
    }
    println!("device: {:?}", device.info().unwrap());
    println!("digest of {cases} cases: {:016x}", digest.finish());
    assert!(cases >= 50, "only {cases} cases");
}

/// Limits as other cards have them, by a layer, and what the device is then said to be: the least that Vulkan allows of a
/// binding and a buffer, buffers of 2 GiB, the least workgroup memory and threads that kernels need, a heap on the device and
/// one of the host, and two heaps on the device. No f16 is not among them: without it wgpu
/// refuses on lavapipe, and nowhere else, what converts to f16. SwiftShader has none.
#[cfg(target_os = "linux")]
const CARDS: [(&str, &str); 7] = [
    ("", "digest"),
    ("binding=134217728,buffer=1073741824", "max_binding: 134217728, max_buffer: 1073741824"),
    ("buffer=2147483648", "max_buffer: 2147483"),
    ("shared=16384,threads=256", "shared_memory: 16384, max_threads: 256"),
    ("shared=32768,threads=512", "shared_memory: 32768, max_threads: 512"),
    ("heaps=2,heap=1610612736", "1610612736"),
    ("heaps=split,heap=1073741824", "1073741824"),
];

/// A run of the test above with this environment: what it printed.
#[cfg(target_os = "linux")]
fn again(environment: impl IntoIterator<Item = (&'static str, std::ffi::OsString)>) -> String {
    use std::process::Command;
    // The loader of another C library runs this program, if one does: it is not its own file.
    let program = std::env::args_os().next().unwrap();
    let mut command = match std::env::var_os("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER") {
        Some(runner) => Command::new(runner),
        None => Command::new(&program),
    };
    if command.get_program() != program {
        command.arg(&program);
    }
    let test = "drivers::a_few_cases_of_every_op_agree_with_the_naive_loops";
    let out = command.args(["--exact", test, "--nocapture"]).envs(environment).output().unwrap();
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    let complained = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success() && said.contains("1 passed"), "{said}{complained}");
    said
}

#[cfg(target_os = "linux")]
fn digest(said: &str) -> &str {
    said.lines().find(|line| line.starts_with("digest")).unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn limits_of_other_cards_change_no_bit() {
    let name = "limits_of_other_cards_change_no_bit";
    if device(name).is_none() {
        return;
    }
    let mut honest = String::new();
    for (limits, expected) in CARDS {
        let Some(liar) = Liar::new(name) else { return };
        let said = again(liar.limits(limits).env());
        assert!(said.contains(expected), "{limits}: no `{expected}` in {said}");
        if honest.is_empty() {
            digest(&said).clone_into(&mut honest);
        }
        assert_eq!(digest(&said), honest, "{limits}");
    }
}

/// Subgroups of 4, 8 and 16, which lavapipe has; other drivers have what they have.
#[cfg(target_os = "linux")]
#[test]
#[ignore = "nightly: minutes on a software device; the gate has the limits of other cards"]
fn the_size_of_subgroups_changes_no_bit() {
    let Some(device) = device("the_size_of_subgroups_changes_no_bit") else { return };
    if !device.info().unwrap().name.starts_with("llvmpipe") {
        return remaster_testkit::not_run(
            "the_size_of_subgroups_changes_no_bit",
            "lavapipe alone can choose",
        );
    }
    // With 128 bits it offers matrix units, and then no device that has them.
    let Some(liar) = Liar::new("the_size_of_subgroups_changes_no_bit") else { return };
    let liar = liar.limits("units=0");
    let said = ["128", "256", "512"]
        .map(|width| again(liar.env().into_iter().chain([("LP_NATIVE_VECTOR_WIDTH", width.into())])));
    for (said, width) in said.iter().zip(["128", "256", "512"]) {
        assert!(said.contains(&format!("{width} bits")), "{said}");
        println!("{width} bits: {}", digest(said));
    }
    assert_eq!([digest(&said[0]), digest(&said[2])], [digest(&said[1]); 2]);
}
