//! What real GPU compilers make of the kernels, for cards that are not there: Mesa's drivers compile for the card that a
//! stand-in of its kernel driver names. Nothing runs, so these are counts and never speeds.

mod assembly;
mod cards;
mod child;
mod compiler;
mod counts;
mod driver;
mod kernels;
mod network;
mod spirv;
mod table;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use cards::Card;
use compiler::compile_all;
use counts::Counts;
use table::Row;

const USAGE: &str = "usage: remaster-isa MESA [CARD...]        the document
       remaster-isa MESA show CARD WORDS   the assembly of the kernels whose name contains WORDS
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
    let cards = cards::named(&[card])?;
    let mut text = String::new();
    for card in cards {
        let mut kernels = kernels::all(card.units())?;
        kernels.retain(|kernel| kernel.label().contains(words) || kernel.key().contains(words));
        for (kernel, result) in kernels.iter().zip(compile_all(mesa, card, &kernels)) {
            let found = result?;
            let (_, assembly) = found.texts.last().ok_or("the driver shows no assembly")?;
            text += &format!("# {}\n# {:?}\n{assembly}\n", kernel.label(), found.statistics);
        }
    }
    if text.is_empty() { Err(format!("no kernel is named {words}")) } else { Ok(text) }
}

/// Compiles every kernel for every card that is wanted and returns the document.
fn report(mesa: &Path, wanted: &[&str]) -> Result<String, String> {
    let cards: Vec<&Card> = cards::named(wanted)?;
    let mut document = String::from(table::HEAD);
    for card in cards {
        let kernels = kernels::all(card.units())?;
        let (mut device, mut rows) = (String::new(), Vec::new());
        for (kernel, result) in kernels.iter().zip(compile_all(mesa, card, &kernels)) {
            if let Ok(found) = &result {
                device.clone_from(&found.device);
            }
            rows.push(Row { name: kernel.label(), counts: result.map(|found| Counts::of(&found)) });
        }
        document += &table::section(card.name, &device, &rows);
    }
    Ok(document)
}
