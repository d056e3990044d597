//! Pictures of a terminal: commands that are run in one, and what it showed, as SVG.

use std::process::Command;

use super::program::{COLUMNS, Program};

/// Pixels of a letter.
const WIDTH: f64 = 8.4;
const HEIGHT: f64 = 20.0;
/// Around the text, and above it for the bar of the window.
const MARGIN: f64 = 16.0;
const BAR: f64 = 34.0;
/// Seconds of a round, the share of it that shows the end, and moments before that.
const ROUND: f64 = 14.0;
const END: f64 = 0.65;
const MOMENTS: usize = 12;

/// Ends a command that is meant to fail.
const REFUSED: &str = "# refused";

/// A letter and its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    letter: char,
    class: &'static str,
}

type Rows = Vec<Vec<Cell>>;

/// What a terminal makes of bytes: lines, returns and colours; the program writes nothing else.
#[derive(Default)]
struct Screen {
    rows: Rows,
    column: usize,
    class: &'static str,
    /// The screen before a bar was drawn again.
    moments: Vec<Rows>,
}

impl Screen {
    fn write(&mut self, text: &str) {
        let mut letters = text.chars();
        while let Some(letter) = letters.next() {
            match letter {
                '\u{1b}' => self.escape(&mut letters),
                '\n' => self.rows.push(Vec::new()),
                '\r' => {
                    let bar = |row: &Vec<Cell>| row.iter().any(|cell| cell.letter == '%');
                    if self.column > 0 && self.rows.last().is_some_and(bar) {
                        self.moments.push(self.rows.clone());
                    }
                    self.column = 0;
                }
                letter if letter.is_control() => {}
                letter => self.put(letter),
            }
        }
    }

    fn escape(&mut self, letters: &mut std::str::Chars<'_>) {
        let mut words = String::new();
        for letter in letters.skip(1) {
            if letter.is_ascii_alphabetic() {
                words.push(letter);
                break;
            }
            words.push(letter);
        }
        match words.strip_suffix('m') {
            Some("" | "0") => self.class = "",
            Some(codes) => {
                self.class = match codes.rsplit(';').next() {
                    Some("1" | "4") => "bold",
                    Some("31" | "91") => "red",
                    Some("32" | "92") => "green",
                    Some("33" | "93") => "yellow",
                    Some("36" | "96" | "34") => "cyan",
                    Some("2" | "90") => "dim",
                    _ => self.class,
                };
            }
            None if words == "K" => {
                let column = self.column;
                self.row().truncate(column);
            }
            None => {}
        }
    }

    fn row(&mut self) -> &mut Vec<Cell> {
        if self.rows.is_empty() {
            self.rows.push(Vec::new());
        }
        let last = self.rows.len() - 1;
        &mut self.rows[last]
    }

    fn put(&mut self, letter: char) {
        if self.column == COLUMNS {
            self.rows.push(Vec::new());
            self.column = 0;
        }
        let (column, cell) = (self.column, Cell { letter, class: self.class });
        let row = self.row();
        while row.len() <= column {
            row.push(Cell { letter: ' ', class: "" });
        }
        row[column] = cell;
        self.column += 1;
    }
}

/// Runs commands one after the other in a terminal, and draws what it showed; also as text. All must end as they should.
pub(crate) fn picture(program: &Program, lines: &[&str]) -> Result<(String, String), String> {
    let mut screen = Screen::default();
    for line in lines {
        screen.write(&format!("\u{1b}[32m$\u{1b}[0m {line}\r\n"));
        screen.write(&recorded(program, line)?);
        if screen.column > 0 {
            screen.write("\r\n");
        }
    }
    while screen.rows.last().is_some_and(|row| row.iter().all(|cell| cell.letter == ' ')) {
        screen.rows.pop();
    }
    let step = screen.moments.len().div_ceil(MOMENTS).max(1);
    let mut frames: Vec<Rows> = screen.moments.into_iter().step_by(step).collect();
    let letters = |row: &Vec<Cell>| row.iter().map(|cell| cell.letter).collect::<String>();
    let text: Vec<String> = screen.rows.iter().map(|row| letters(row).trim_end().to_owned()).collect();
    frames.push(screen.rows);
    Ok((svg(&frames, &lines.join("\n")), text.join("\n")))
}

/// What a command writes to a terminal, by `script` of util-linux.
fn recorded(program: &Program, line: &str) -> Result<String, String> {
    let file = program.folder().join("home/terminal");
    let mut shell: Command = program.shell(
        "exec script --quiet --return --command \"stty cols $COLUMNS rows 50; $LINE\" \"$FILE\" >\"$FILE.out\"",
    );
    shell.env("LINE", line).env("FILE", &file).env("TERM", "xterm-256color").env_remove("NO_COLOR");
    let status = shell.status().map_err(|e| format!("`{line}` cannot be run: {e}"))?;
    let text = std::fs::read(file.with_extension("out")).map_err(|e| format!("`{line}`: {e}"))?;
    let text = String::from_utf8_lossy(&text).into_owned();
    match status.code() {
        // Stopped, as a page about stopping does.
        Some(124) if line.starts_with("timeout ") => Ok(text),
        Some(0) if !line.ends_with(REFUSED) && !line.starts_with("timeout ") => Ok(text),
        Some(2..=4) if line.ends_with(REFUSED) => Ok(text),
        _ => Err(format!("`{line}` ended with {status}\n{text}")),
    }
}

fn svg(frames: &[Rows], title: &str) -> String {
    let rows = frames.iter().map(Vec::len).max().unwrap_or(0);
    let width = COLUMNS as f64 * WIDTH + 2.0 * MARGIN;
    let height = rows as f64 * HEIGHT + BAR + MARGIN;
    let mut body = String::new();
    let mut rules = String::new();
    for (i, frame) in frames.iter().enumerate() {
        let last = i + 1 == frames.len();
        if frames.len() > 1 {
            rules += &moment(i, frames.len());
        }
        // Without animations the end is shown, and nothing else.
        let hidden = if last { "" } else { " opacity=\"0\"" };
        body += &format!("<g class=\"m{i}\"{hidden}>\n");
        for (y, row) in frame.iter().enumerate() {
            body += &line(row, BAR + (y as f64 + 0.75) * HEIGHT);
        }
        body += "</g>\n";
    }
    let lights = [("#ff5f57", 18), ("#febc2e", 38), ("#28c840", 58)]
        .map(|(colour, x)| format!("<circle cx=\"{x}\" cy=\"17\" r=\"6\" fill=\"{colour}\"/>"))
        .concat();
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" height=\"{height:.0}\" \
         role=\"img\"><title>{}</title>\n<style>text{{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;\
         fill:#d8dee9;white-space:pre}}.bold{{font-weight:700}}.green{{fill:#a3d977}}.cyan{{fill:#7fd1d8}}.red{{fill:#f28b82}}\
         .yellow{{fill:#f2cc60}}.dim{{fill:#8b949e}}\n{}</style>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#1b1f27\"/>{lights}\n{body}</svg>\n",
        escaped(title),
        if rules.is_empty() {
            String::new()
        } else {
            format!("@media (prefers-reduced-motion:no-preference){{\n{rules}}}")
        },
    )
}

/// When the `i`th of `count` screens is seen.
fn moment(i: usize, count: usize) -> String {
    let (before, last) = ((1.0 - END) / (count - 1).max(1) as f64, i + 1 == count);
    let from = 100.0 * before * i as f64;
    let to = if last { 100.0 } else { from + 100.0 * before };
    let start = if i == 0 { String::new() } else { format!("0%,{:.2}%{{opacity:0}}", from - 0.01) };
    let end = if last { String::new() } else { format!("{:.2}%,100%{{opacity:0}}", to) };
    format!(
        "@keyframes k{i}{{{start}{from:.2}%,{:.2}%{{opacity:1}}{end}}}.m{i}{{animation:k{i} {ROUND}s}}\n",
        to - 0.01
    )
}

/// Runs of letters of one colour. Their lengths are given, so that bars line up in any font.
fn line(row: &[Cell], y: f64) -> String {
    let mut text = String::new();
    for run in row.chunk_by(|a, b| a.class == b.class && is_block(a) == is_block(b)).scan(0, |at, run| {
        let start = *at;
        *at += run.len();
        Some((start, run))
    }) {
        let (start, run) = run;
        let letters: String = run.iter().map(|cell| cell.letter).collect();
        if letters.trim().is_empty() {
            continue;
        }
        text += &format!(
            "<text x=\"{:.1}\" y=\"{y:.1}\" textLength=\"{:.1}\" lengthAdjust=\"spacingAndGlyphs\"{}>{}</text>\n",
            MARGIN + start as f64 * WIDTH,
            run.len() as f64 * WIDTH,
            if run[0].class.is_empty() { String::new() } else { format!(" class=\"{}\"", run[0].class) },
            escaped(&letters),
        );
    }
    text
}

fn is_block(cell: &Cell) -> bool {
    matches!(cell.letter, '\u{2580}'..='\u{259f}')
}

pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(rows: &Rows) -> Vec<String> {
        rows.iter().map(|row| row.iter().map(|cell| cell.letter).collect()).collect()
    }

    #[test]
    fn a_bar_is_drawn_over_and_its_moments_are_kept() {
        let mut screen = Screen::default();
        screen.write("one\r\n\u{1b}[36m##\u{1b}[0m. 10%\r###  20%\r        \rdone\r\n");
        assert_eq!(shown(&screen.rows), ["one", "done    ", ""]);
        let moments: Vec<_> = screen.moments.iter().map(|rows| shown(rows)[1].clone()).collect();
        assert_eq!(moments, ["##. 10%", "###  20%"]);
        assert_eq!(screen.moments[0][1][0].class, "cyan");
        assert_eq!(screen.moments[0][1][2].class, "");
    }

    #[test]
    fn long_lines_go_on_in_the_next_row() {
        let mut screen = Screen::default();
        screen.write(&"x".repeat(COLUMNS + 3));
        assert_eq!(screen.rows.iter().map(Vec::len).collect::<Vec<_>>(), [COLUMNS, 3]);
    }

    #[test]
    fn pictures_are_well_formed_and_the_last_screen_stays() {
        let mut screen = Screen::default();
        screen.write("<a> & b");
        let still = svg(&[screen.rows.clone()], "remaster <x>");
        assert!(
            still.contains("&lt;a&gt; &amp; b") && still.contains("<title>remaster &lt;x&gt;"),
            "{still}"
        );
        assert!(!still.contains("keyframes"));
        let moving = svg(&[screen.rows.clone(), screen.rows.clone(), screen.rows], "");
        assert_eq!(moving.matches("opacity=\"0\"").count(), 2, "{moving}");
        assert_eq!(moving.matches("@keyframes").count(), 3);
    }
}
