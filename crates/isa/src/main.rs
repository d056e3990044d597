//! What real GPU compilers make of the kernels, for cards that are not there: Mesa's drivers compile for the card that a
//! stand-in of its kernel driver names. Nothing runs, so these are counts and never speeds.

mod assembly;
mod budget;
mod cards;
mod ceiling;
mod ceilings;
mod child;
mod compiler;
mod counts;
mod document;
mod driver;
mod kernels;
mod llama;
mod measured;
mod network;
mod record;
mod spirv;
mod table;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use budget::budget;
use ceilings::Budgeted;
use compiler::compile_all;
use measured::Measured;
use record::Record;
use remaster_compute::DType;
use remaster_model::dit::DitConfig;
use remaster_model::vae::Direction;

const USAGE: &str = "usage: remaster-isa MESA [CARD...]        prints the document
       remaster-isa MESA show CARD WORDS   prints the assembly of the kernels whose name contains WORDS
       remaster-isa MESA write ROOT        writes document, record and ceilings into the repository
       remaster-isa MESA gate ROOT         compares with the record
MESA is the folder that .ci/mesa prints";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["compile", file, buffers] => match buffers.parse() {
            Ok(buffers) => compiler::compile_here(Path::new(file), buffers),
            Err(_) => Err(USAGE.into()),
        },
        ["--help" | "-h"] | [] => Err(USAGE.into()),
        [mesa, "show", card, words @ ..] => show(Path::new(mesa), card, &words.join(" ")),
        [mesa, "write", root] => write(Path::new(mesa), Path::new(root)),
        [mesa, "gate", root] => gate(Path::new(mesa), Path::new(root)),
        [mesa, wanted @ ..] => report(Path::new(mesa), wanted),
    };
    let (text, code) = match done {
        Ok(text) => (text, ExitCode::SUCCESS),
        Err(text) => (format!("error: {text}\n"), ExitCode::FAILURE),
    };
    let _ = std::io::stdout().write_all(text.as_bytes());
    code
}

/// The assembly of some kernels.
fn show(mesa: &Path, card: &str, words: &str) -> Result<String, String> {
    let mut text = String::new();
    for card in cards::named(&[card])? {
        let mut kernels = kernels::all(card.matrix_units())?;
        kernels.retain(|kernel| kernel.label().contains(words) || kernel.key().contains(words));
        for (kernel, result) in kernels.iter().zip(compile_all(mesa, card, &kernels)) {
            let found = result?;
            let (_, assembly) = found.texts.last().ok_or("the driver shows no assembly")?;
            text += &format!("# {}\n# {:?}\n{assembly}\n", kernel.label(), found.statistics);
        }
    }
    if text.is_empty() { Err(format!("no kernel is named {words}")) } else { Ok(text) }
}

/// Compiles every kernel for these cards.
fn measure(mesa: &Path, wanted: &[&str]) -> Result<Vec<Measured>, String> {
    cards::named(wanted)?.into_iter().map(|card| Ok(Measured::of(mesa, card)?.with_llama(mesa))).collect()
}

/// The ceilings of the networks on each card.
fn budgeted(all: &[Measured]) -> Result<Vec<Budgeted<'_>>, String> {
    let decode = network::vae(Direction::Decode, DType::F16).map_err(|e| e.to_string())?;
    let transformer = network::transformer(&DitConfig::dit_3b(), DType::F16).map_err(|e| e.to_string())?;
    let upscaler = network::upscaler(DType::F16).map_err(|e| e.to_string())?;
    all.iter()
        .map(|measured| {
            let found = measured.found();
            let of = |work| budget(measured.card, &found, work);
            Ok((measured, [of(&decode)?, of(&transformer)?, of(&upscaler)?]))
        })
        .collect()
}

/// The document for some cards.
fn report(mesa: &Path, wanted: &[&str]) -> Result<String, String> {
    let all = measure(mesa, wanted)?;
    Ok(document::text(&budgeted(&all)?))
}

/// Writes everything that is kept in the repository.
fn write(mesa: &Path, root: &Path) -> Result<String, String> {
    if !llama::is_there(mesa) {
        return Err("llama.cpp's kernels are not there; `.ci/mesa llama` fetches them".into());
    }
    let all = measure(mesa, &[])?;
    let record = serde_json::to_string_pretty(&Record::of(&all)?).map_err(|e| e.to_string())? + "\n";
    let budgeted = budgeted(&all)?;
    let files = [
        (document::FILE, document::text(&budgeted)),
        (record::FILE, record),
        (ceilings::FILE, ceilings::text(&budgeted)?),
    ];
    for (file, text) in files {
        let file = root.join(file);
        std::fs::write(&file, text).map_err(|e| format!("{}: {e}", file.display()))?;
    }
    Ok(String::new())
}

/// Compares what the compilers make now with the record.
fn gate(mesa: &Path, root: &Path) -> Result<String, String> {
    let file = root.join(record::FILE);
    let text = std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    let record: Record = serde_json::from_str(&text).map_err(|e| format!("{}: {e}", file.display()))?;
    let cards = cards::named(&record::CARDS)?;
    let now: Vec<Measured> =
        cards.into_iter().map(|card| Measured::of(mesa, card)).collect::<Result<_, _>>()?;
    record.judge(&Record::of(&now)?)
}
