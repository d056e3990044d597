//! Pages of the command line, made of what `--help` prints.

use super::program::Program;
use super::terminal::escaped;

/// A page of the site.
pub(crate) struct Page {
    /// From the root of the book.
    pub(crate) path: String,
    pub(crate) title: String,
    /// Pages above it in the list of pages.
    pub(crate) depth: usize,
    pub(crate) text: String,
}

/// A page for the program and for every command.
pub(crate) fn pages(program: &Program) -> Result<Vec<Page>, String> {
    let mut pages = Vec::new();
    collect(program, &[], &mut pages)?;
    Ok(pages)
}

fn collect(program: &Program, words: &[&str], pages: &mut Vec<Page>) -> Result<(), String> {
    let name = [&["remaster"], words].concat().join(" ");
    let help = Help::parse(&program.text(&format!("{name} --help"))?);
    let below = help.commands();
    let text = help.page(&name, &below);
    let title = if words.is_empty() { "Every command".to_owned() } else { name };
    pages.push(Page { path: path(words), title, depth: words.len(), text });
    for command in &below {
        collect(program, &[words, &[command.as_str()]].concat(), pages)?;
    }
    Ok(())
}

fn path(words: &[&str]) -> String {
    format!("commands/{}.md", if words.is_empty() { "remaster".to_owned() } else { words.join("-") })
}

/// The text of `--help`: an introduction, then sections.
struct Help {
    about: Vec<String>,
    sections: Vec<(String, Vec<String>)>,
}

impl Help {
    /// A section begins at the margin with words that end in a colon; `Usage:` has its words behind it.
    fn parse(text: &str) -> Self {
        let mut help = Help { about: Vec::new(), sections: Vec::new() };
        for line in text.lines() {
            let heading = line.split_once(':').filter(|(name, rest)| {
                !name.starts_with(' ') && (rest.is_empty() || *name == "Usage") && name.len() < 40
            });
            if let Some((name, rest)) = heading {
                let first = (!rest.is_empty()).then(|| rest.trim().to_owned());
                help.sections.push((name.to_owned(), first.into_iter().collect()));
            } else if let Some((_, lines)) = help.sections.last_mut() {
                lines.push(line.to_owned());
            } else {
                help.about.push(line.to_owned());
            }
        }
        help
    }

    fn commands(&self) -> Vec<String> {
        let section = self.sections.iter().find(|(name, _)| name == "Commands");
        let names = section.into_iter().flat_map(|(_, lines)| lines).filter_map(|line| {
            line.strip_prefix("  ").filter(|rest| !rest.starts_with(' '))?.split(' ').next()
        });
        names.filter(|name| *name != "help").map(str::to_owned).collect()
    }

    fn page(&self, name: &str, below: &[String]) -> String {
        let mut text = format!("# {name}\n\n{}\n", escaped(self.about.join("\n").trim()));
        for (heading, lines) in &self.sections {
            let block = || lines.join("\n").trim_end().to_owned();
            match heading.as_str() {
                "Usage" => text += &format!("\n```text\n{}\n```\n", block()),
                "Commands" => {
                    text += "\n## Commands\n\n| | |\n|---|---|\n";
                    for command in below {
                        let words: Vec<&str> = name.split(' ').skip(1).chain([command.as_str()]).collect();
                        let about = lines.iter().filter_map(|l| l.trim().strip_prefix(command.as_str()));
                        let about = about.map(str::trim).next().unwrap_or_default();
                        let page = path(&words).replace("commands/", "");
                        text += &format!("| [`{command}`]({page}) | {} |\n", escaped(about));
                    }
                }
                _ if lines.iter().any(|line| term(line).is_some()) => {
                    text += &format!("\n## {heading}\n\n{}", options(lines));
                }
                _ => text += &format!("\n## {heading}\n\n```text\n{}\n```\n", unindented(lines)),
            }
        }
        text
    }
}

/// An option or an argument: less than a description is indented.
fn term(line: &str) -> Option<&str> {
    let words = line.trim_start();
    (line.len() - words.len() < 8 && words.starts_with(['-', '<', '['])).then_some(words)
}

/// Options as a list of definitions, each with a name that can be linked to.
fn options(lines: &[String]) -> String {
    let mut text = String::from("<dl class=\"options\">\n");
    let mut open = false;
    let mut paragraph: Vec<&str> = Vec::new();
    let end = |text: &mut String, paragraph: &mut Vec<&str>| {
        if !paragraph.is_empty() {
            *text += &format!("<p>{}</p>\n", described(paragraph));
            paragraph.clear();
        }
    };
    for line in lines {
        if let Some(words) = term(line) {
            end(&mut text, &mut paragraph);
            if open {
                text += "</dd>\n";
            }
            let long = words.split([' ', ',', '=']).find(|word| word.starts_with("--"));
            let id =
                long.map_or(String::new(), |long| format!(" id=\"option-{}\"", long.trim_start_matches('-')));
            text += &format!("<dt{id}><code>{}</code></dt>\n<dd>\n", escaped(words));
            open = true;
        } else if line.trim().is_empty() {
            end(&mut text, &mut paragraph);
        } else {
            paragraph.push(line.trim());
        }
    }
    end(&mut text, &mut paragraph);
    text + if open { "</dd>\n</dl>\n" } else { "</dl>\n" }
}

/// Lines of a description: words in backticks are code, and entries of a list begin a line.
fn described(lines: &[&str]) -> String {
    let mut text = String::new();
    for (i, line) in lines.iter().enumerate() {
        text += if i == 0 {
            ""
        } else if line.starts_with("- ") {
            "<br>\n"
        } else {
            "\n"
        };
        text += line;
    }
    let part =
        |(i, part): (usize, &str)| if i % 2 == 0 { part.to_owned() } else { format!("<code>{part}</code>") };
    escaped(&text).replace("&lt;br&gt;", "<br>").split('`').enumerate().map(part).collect()
}

fn unindented(lines: &[String]) -> String {
    let lines: Vec<&str> = lines.iter().map(|line| line.strip_prefix("  ").unwrap_or(line)).collect();
    lines.join("\n").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELP: &str = "Do a thing\n\nUsage: remaster thing [OPTIONS] <IN>\n\nCommands:\n  one   First & last\n  help  Print\n\n\
                        Arguments:\n  <IN>\n          A film\n\nMemory options:\n      --ram <SIZE>\n          Limit `x`\n          of a run\n          - one\n\n\
                        \n          [default: 1]\n\nExamples:\n  remaster thing a.mkv    Do it\n";

    #[test]
    fn a_page_has_the_sections_of_the_help() {
        let help = Help::parse(HELP);
        assert_eq!(help.commands(), ["one"]);
        let page = help.page("remaster thing", &help.commands());
        for part in [
            "# remaster thing\n\nDo a thing\n",
            "```text\nremaster thing [OPTIONS] <IN>\n```",
            "| [`one`](thing-one.md) | First &amp; last |",
            "<dt><code>&lt;IN&gt;</code></dt>",
            "## Memory options",
            "<dt id=\"option-ram\"><code>--ram &lt;SIZE&gt;</code></dt>\n<dd>\n<p>Limit <code>x</code>\nof a run<br>\n- one</p>\n<p>[default: 1]</p>\n</dd>",
            "## Examples\n\n```text\nremaster thing a.mkv    Do it\n```",
        ] {
            assert!(page.contains(part), "{part}\n---\n{page}");
        }
    }
}
