//! The newest results of every measurement, kept as files in `results`, and RESULTS.md, which is composed of them.
//!
//! A measurement may have: a record (`resp.json`), a picture (`growth.svg`), and what bounds the figures that miss
//! their goal (`resp.md`), written by people, with a heading for each that begins as the row's name does.

use std::{fs, io, path::PathBuf};

use anyhow::{Context, Result};
use clap::ValueEnum as _;

use crate::{
    arguments::Measurement,
    record::Record,
    results::Finished,
    table::{self, Row},
};

const HEAD: &str = "# Measured\n\nComposed by `make bench` of the files in [results](results); do not edit. Each section is \
                    the newest run of its measurement. Figures are medians; a ratio of 1 and above meets the goal.\n";
/// What begins the heading of a text in `results/*.md`.
const HEADING: &str = "#### ";

/// The folder of RESULTS.md and `results`.
pub(crate) struct Book {
    folder: PathBuf,
}

pub(crate) struct Composed {
    pub(crate) text: String,
    /// Figures whose text is missing, and texts whose figures meet their goal.
    pub(crate) warnings: Vec<String>,
}

impl Book {
    pub(crate) const fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Replaces what is kept of this measurement, and of no other.
    pub(crate) fn keep(&self, finished: &Finished) -> Result<()> {
        fs::create_dir_all(self.folder.join("results"))?;
        let record = format!("{}\n", serde_json::to_string_pretty(&finished.record)?);
        self.write(&file(finished.measurement, "json"), &record)?;
        match &finished.picture {
            Some(picture) => self.write(&file(finished.measurement, "svg"), picture),
            None => Ok(()),
        }
    }

    /// Writes RESULTS.md; returns warnings.
    pub(crate) fn write_results(&self) -> Result<Vec<String>> {
        let composed = self.compose()?;
        self.write("RESULTS.md", &composed.text)?;
        Ok(composed.warnings)
    }

    pub(crate) fn compose(&self) -> Result<Composed> {
        let mut composed = Composed { text: HEAD.to_owned(), warnings: Vec::new() };
        for &measurement in Measurement::value_variants() {
            let Some(record) = self.read(&file(measurement, "json"))? else { continue };
            let record: Record = serde_json::from_str(&record).with_context(|| file(measurement, "json"))?;
            let picture = file(measurement, "svg");
            let picture = self.folder.join(&picture).exists().then_some(picture);
            let bounds = self.read(&file(measurement, "md"))?.unwrap_or_default();
            composed.text.push_str(&section(measurement, &record, picture.as_deref(), &bounds));
            composed.warnings.extend(warnings(&file(measurement, "md"), &record.rows, &bounds));
        }
        Ok(composed)
    }

    fn read(&self, name: &str) -> Result<Option<String>> {
        match fs::read_to_string(self.folder.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            read => read.map(Some).with_context(|| format!("reading {name}")),
        }
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.folder.join(name);
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
    }
}

fn file(measurement: Measurement, kind: &str) -> String {
    format!("results/{}.{kind}", measurement.name())
}

fn section(measurement: Measurement, record: &Record, picture: Option<&str>, bounds: &str) -> String {
    let mut text = format!("\n## {}\n\n", measurement.title());
    for line in record.lines() {
        text.push_str(&format!("- {line}\n"));
    }
    text.push_str(&format!("\n{}", table::markdown(&record.rows)));
    if let Some(picture) = picture {
        text.push_str(&format!("\n![{}]({picture})\n", measurement.title()));
    }
    if !bounds.is_empty() {
        text.push_str(&format!("\n### What bounds it\n\n{}\n", bounds.trim()));
    }
    text
}

fn warnings(file: &str, rows: &[Row], bounds: &str) -> Vec<String> {
    let headings: Vec<&str> = bounds.lines().filter_map(|line| line.strip_prefix(HEADING)).map(str::trim).collect();
    let missing = rows
        .iter()
        .filter(|row| row.misses_its_goal() && !headings.iter().any(|heading| row.is_called(heading)))
        .map(|row| format!("\"{}\" misses its goal, and {file} does not say what bounds it", row.name()));
    let idle = headings.iter().filter_map(|heading| {
        let mut meant = rows.iter().filter(|row| row.is_called(heading)).peekable();
        let idle = meant.peek().is_some() && !meant.any(Row::misses_its_goal);
        idle.then(|| format!("\"{heading}\" meets its goal, and {file} still says what bounds it"))
    });
    missing.chain(idle).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn here(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
    }

    /// Two records, of which one has a picture and a text; a row of the other misses its goal without one.
    #[test]
    fn two_records_make_a_report() {
        let composed = Book::new(here("golden")).compose().expect("both records are whole");
        assert_eq!(composed.text, fs::read_to_string(here("golden/RESULTS.md")).expect("it is in the tree"));
        let expected = [
            "\"10M edges, 200K users: import of edges\" misses its goal, and results/import.md does not say what bounds it",
            "\"growth: checks over RESP\" meets its goal, and results/growth.md still says what bounds it",
        ];
        assert_eq!(composed.warnings, expected);
    }

    #[test]
    fn the_report_in_the_tree_is_composed_of_what_is_kept() {
        let composed = Book::new(here("")).compose().expect("every record is whole");
        let report = fs::read_to_string(here("RESULTS.md")).expect("it is in the tree");
        assert!(composed.text == report, "compose it: cargo run -p entourage-bench -- compose");
    }

    #[test]
    fn a_record_replaces_its_own_and_no_other() {
        let folder = std::env::temp_dir().join(format!("entourage-bench-{}", std::process::id()));
        let book = Book::new(folder.clone());
        let golden = |name: &str| fs::read_to_string(here("golden/results").join(name)).expect("it is in the tree");
        let import: Record = serde_json::from_str(&golden("import.json")).expect("a record");
        let growth: Record = serde_json::from_str(&golden("growth.json")).expect("a record");
        let keep = |measurement, record: &Record| {
            let finished = Finished { measurement, record: record.clone(), picture: None };
            book.keep(&finished).expect("the folder can be written");
        };
        keep(Measurement::Import, &import);
        keep(Measurement::Growth, &growth);
        assert_eq!(fs::read_to_string(folder.join("results/growth.json")).expect("kept"), golden("growth.json"));
        keep(Measurement::Growth, &Record { versions: vec!["Redis 9".to_owned()], ..growth });
        let warnings = book.write_results().expect("composed");
        let report = fs::read_to_string(folder.join("RESULTS.md")).expect("written");
        assert!(report.contains("import of edges") && report.contains("Redis 9"), "{report}");
        assert_eq!(warnings.len(), 2, "nobody has said yet what bounds either: {warnings:?}");
        fs::remove_dir_all(folder).expect("it is there");
    }
}
