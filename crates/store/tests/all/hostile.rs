//! Records that were changed: an error or a record that passes every check, never a panic.

use std::collections::BTreeSet;

use crate::common::{limits, notes};
use remaster_store::testkit::Memory;
use remaster_store::{Commit, Hash, Journal, Key, Plan};

/// Numbers from a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n.max(1)
    }
}

/// The two records of a small plan.
fn records() -> [Vec<u8>; 2] {
    let store = Memory::new().unwrap().store(limits());
    let journal = Journal::make(store.clone(), 2, r#"{"film":"a.mkv","cuts":[1,2,3]}"#).unwrap();
    let mut attempt = journal.attempt(1).unwrap();
    attempt.put_bytes("segment.nut", vec![1; 10]).unwrap();
    attempt.put_bytes("colours.bin", vec![2; 20]).unwrap();
    attempt.commit(notes()).unwrap();
    ["units/000001/done.json", "plan.json"].map(|name| store.get(&Key::new(name).unwrap(), 1 << 20).unwrap())
}

/// One to four changes: bytes, cuts, repeats, and words that JSON has.
fn mutate(bytes: &[u8], dice: &mut Dice) -> Vec<u8> {
    const WORDS: &str =
        "null -1 1e999 18446744073709551616 \"\" [] {} true \"../../x\" \\u0000 , \"unit\":0 0.5 \u{202e}";
    let words: Vec<&str> = WORDS.split(' ').collect();
    let mut bytes = bytes.to_vec();
    for _ in 0..=dice.below(4) {
        let at = dice.below(bytes.len());
        match dice.below(6) {
            0 => bytes[at] ^= 1 << dice.below(8),
            1 => bytes.truncate(at),
            2 => {
                let end = (at + dice.below(40)).min(bytes.len());
                let copy = bytes[at..end].to_vec();
                bytes.splice(at..at, copy);
            }
            3 => drop(bytes.drain(at..(at + dice.below(20)).min(bytes.len()))),
            4 => drop(bytes.splice(at..at, words[dice.below(words.len())].bytes())),
            _ => {
                let end = (at + dice.below(8)).min(bytes.len());
                bytes.splice(at..end, words[dice.below(words.len())].bytes());
            }
        }
        if bytes.is_empty() {
            break;
        }
    }
    bytes
}

/// The body of a record, changed, behind a hash that is right: what a liar would write.
fn forged(bytes: &[u8], dice: &mut Dice) -> Vec<u8> {
    let text = std::str::from_utf8(bytes).unwrap();
    let at = text.find("\"body\":").unwrap() + 7;
    let body = mutate(text[at..].trim_end().strip_suffix('}').unwrap().as_bytes(), dice);
    let hash = text.find("\"sha256\":\"").unwrap() + 10;
    let format = if text.contains("remaster plan") { "remaster plan" } else { "remaster commit" };
    let covered = [format.as_bytes(), b"\n1\n", &body].concat();
    let head = [&text[..hash], &Hash::of(&covered).to_string(), "\",\"body\":"].concat();
    [head.as_bytes(), &body, b"}"].concat()
}

/// What a commit promises once it was read.
fn is_sound(commit: &Commit) {
    let names: BTreeSet<_> = commit.files.iter().map(|file| &file.name).collect();
    assert!(names.len() == commit.files.len() && !names.is_empty() && names.len() <= 256);
    assert!(names.iter().all(|name| Key::new(name.as_str()).is_ok() && !name.contains('/')));
    assert!(commit.files.iter().all(|file| file.bytes <= 1 << 48) && commit.unit < 1_000_000);
    assert!(commit.worker.len() <= 256 && !commit.worker.chars().any(char::is_control));
}

#[test]
fn a_hundred_thousand_changed_records_are_errors_or_sound() {
    let records = records();
    let mut dice = Dice(0x5eed);
    let mut read = 0;
    for round in 0..100_000 {
        let record = &records[[0, 0, 1][round % 3]];
        let changed = if dice.below(2) == 0 { mutate(record, &mut dice) } else { forged(record, &mut dice) };
        if let Ok(commit) = Commit::from_bytes(&changed) {
            is_sound(&commit);
            read += 1;
        }
        if let Ok(plan) = Plan::from_bytes(&changed) {
            assert!((1..=1_000_000).contains(&plan.units()));
            read += 1;
        }
    }
    println!("{read} of 100,000 changed records pass every check");
    assert!(read > 100, "the forged ones reach the checks behind the hash");
}

#[test]
fn depth_and_length_are_bounded() {
    let deep = "[".repeat(100_000);
    let wrapped = |body: &str| {
        format!(
            r#"{{"format":"remaster plan","version":1,"sha256":"{}","body":{body}}}"#,
            Hash::of(format!("remaster plan\n1\n{body}").as_bytes())
        )
    };
    assert!(Plan::from_bytes(deep.as_bytes()).is_err());
    assert!(Plan::from_bytes(wrapped(&deep).as_bytes()).is_err());
    let closed = format!(r#"{{"units":1,"plan":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    // The planner's own text is passed over without a stack, and is the planner's to judge.
    assert!(Plan::from_bytes(wrapped(&closed).as_bytes()).unwrap().text().starts_with("[["));
    assert!(Plan::from_bytes(wrapped(r#"{"units":1,"plan":[[]]}"#).as_bytes()).is_ok());
}
