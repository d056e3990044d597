//! The site: mdBook over the documents of the repository, with pages that the program makes.

mod book;
mod commands;
mod documents;
mod html;
pub(crate) mod links;
mod program;
mod sliders;
mod terminal;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Outcome;
use program::Program;

/// Beside the pages: what the book looks like.
const LOOK: [&str; 3] = ["book.toml", "site.css", "slider.js"];

/// What holds without the program: links of documents, and a place in the book for each.
pub(crate) fn check(root: &Path) -> Outcome {
    links::check(root)?;
    book::check(root)
}

/// Builds the site into `target/site` with a program that is there, and checks its links.
pub(crate) fn build(root: &Path, program: &str) -> Outcome {
    let program = std::fs::canonicalize(program).map_err(|e| format!("{program}: {e}"))?;
    let work = root.join("target/site-work");
    if work.exists() {
        std::fs::remove_dir_all(&work).map_err(|e| format!("{}: {e}", work.display()))?;
    }
    let program = Program::new(root, program, work.join("run"))?;
    crate::step("documents", || check(root))?;
    crate::step("pages", || pages(root, &program, &work.join("book")))?;
    crate::step("book", || mdbook(&work.join("book"), &root.join("target/site")))?;
    crate::step("links of the site", || html::check(&root.join("target/site")))
}

fn pages(root: &Path, program: &Program, book: &Path) -> Outcome {
    let listed = book::documents(root)?;
    let src = book.join("src");
    for name in LOOK {
        write(&book.join(name), &read(root, &format!("site/{name}"))?)?;
    }
    for path in &listed {
        let text = made(program, &links::read(root, path)?, path, &src)?;
        let (page, pictures) = book::page(root, path, &text, &listed);
        write(&src.join(book::place(path)), page.as_bytes())?;
        for picture in pictures {
            write(&src.join(&picture), &read(root, &picture)?)?;
        }
    }
    let commands = commands::pages(program)?;
    let mut list = String::new();
    for page in &commands {
        write(&src.join(&page.path), page.text.as_bytes())?;
        list += &format!("{}- [{}]({})\n", "  ".repeat(page.depth), page.title, page.path);
    }
    write(&src.join("commands/documents.md"), documents::page(program)?.as_bytes())?;
    let text = links::read(root, book::LIST)?;
    let (text, _) = book::page(root, book::LIST, &text, &listed);
    let json = "- [JSON, as it is printed](commands/documents.md)\n";
    let text = [list.as_str(), json]
        .iter()
        .zip(book::MADE)
        .fold(text, |text, (list, mark)| text.replace(&format!("{mark}\n"), list));
    write(&src.join("SUMMARY.md"), text.as_bytes())
}

/// The site's own pages with their pictures: blocks of commands become pictures of a terminal, and `slider` blocks sliders.
fn made(program: &Program, text: &str, path: &str, src: &Path) -> Result<String, String> {
    let Some(name) = path.strip_prefix("site/").and_then(|path| path.strip_suffix(".md")) else {
        return Ok(text.to_owned());
    };
    let (mut page, mut count) = (String::new(), 0);
    let mut parts = text.split("\n```");
    page += parts.next().unwrap_or_default();
    while let Some(block) = parts.next() {
        let (kind, block) = block.split_once('\n').unwrap_or((block, ""));
        count += 1;
        let name = format!("{name}-{count}");
        page += "\n";
        match kind {
            "console" => page += &terminal_picture(program, block, &name, src)?,
            "slider" => page += &sliders::make(program, block, &name, &src.join("pictures"))?,
            kind => page += &format!("```{kind}\n{block}\n```"),
        }
        // Behind the end of the block.
        page += parts.next().unwrap_or_default();
    }
    Ok(page)
}

fn terminal_picture(program: &Program, block: &str, name: &str, src: &Path) -> Result<String, String> {
    let lines: Vec<&str> = block.lines().filter_map(|line| line.strip_prefix("$ ")).collect();
    println!("   {}", lines.join("; "));
    let (picture, shown) = terminal::picture(program, &lines)?;
    write(&src.join(format!("pictures/{name}.svg")), picture.as_bytes())?;
    let alt = terminal::escaped(&format!("A terminal after {}", lines.join(", then ")));
    Ok(format!(
        "<div class=\"terminal\"><img src=\"pictures/{name}.svg\" alt=\"{alt}\"></div>\n\
         <details><summary>What it shows, as text</summary>\n<pre>{}</pre></details>\n\n```sh\n{}\n```\n",
        // An empty line would end the block.
        terminal::escaped(&shown).replace("\n\n", "\n&#8203;\n"),
        lines.join("\n")
    ))
}

fn mdbook(book: &Path, to: &Path) -> Outcome {
    let tool = std::env::var("MDBOOK").unwrap_or_else(|_| "mdbook".into());
    let mut command = Command::new(&tool);
    command.arg("build").arg("--dest-dir").arg(to).arg(book);
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{tool} build` ended with {status}")),
        Err(error) => Err(format!("`{tool}` cannot be run: {error}; scripts/site installs it")),
    }
}

fn read(root: &Path, path: &str) -> Result<Vec<u8>, String> {
    std::fs::read(root.join(path)).map_err(|e| format!("{path}: {e}"))
}

fn write(path: &Path, bytes: &[u8]) -> Outcome {
    let failed = |e: std::io::Error| format!("{}: {e}", path.display());
    let folder: PathBuf = path.parent().map(Path::to_owned).unwrap_or_default();
    std::fs::create_dir_all(folder).map_err(failed)?;
    std::fs::write(path, bytes).map_err(failed)
}
