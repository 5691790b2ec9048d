//! Everything a run has measured so far.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::{
    arguments::Measurement,
    record::{Record, Run},
    table::{self, Row},
    tools,
};

pub(crate) struct Results {
    run: Run,
    parts: Vec<Part>,
    /// The current measurement, and since when it runs.
    current: Option<(Measurement, Instant)>,
}

/// The results of one measurement so far.
struct Part {
    /// Rows without a measurement have none, and are not kept.
    measurement: Option<Measurement>,
    took: Duration,
    rows: Vec<Row>,
    picture: Option<String>,
}

/// A measurement's results, ready to be kept.
pub(crate) struct Finished {
    pub(crate) measurement: Measurement,
    pub(crate) record: Record,
    /// An SVG.
    pub(crate) picture: Option<String>,
}

impl Results {
    pub(crate) const fn new(run: Run) -> Self {
        Self { run, parts: Vec::new(), current: None }
    }

    /// The rows that `extend` adds next belong to this measurement, which begins now.
    pub(crate) fn of(&mut self, measurement: Measurement) -> &mut Self {
        self.current = Some((measurement, Instant::now()));
        self
    }

    pub(crate) fn extend(&mut self, data: &str, rows: impl IntoIterator<Item = Row>) {
        let (measurement, began) = self.current.take().unzip();
        let part = self.part(measurement);
        part.took += began.map_or(Duration::ZERO, |began| began.elapsed());
        for row in rows {
            let row = row.on(data);
            eprintln!("  {}", row.line());
            part.rows.push(row);
        }
    }

    /// Shown under the measurement's table.
    pub(crate) fn picture(&mut self, measurement: Measurement, svg: String) {
        self.part(Some(measurement)).picture = Some(svg);
    }

    fn part(&mut self, measurement: Option<Measurement>) -> &mut Part {
        let known = self.parts.iter().position(|part| part.measurement == measurement);
        let index = known.unwrap_or_else(|| {
            self.parts.push(Part { measurement, took: Duration::ZERO, rows: Vec::new(), picture: None });
            self.parts.len() - 1
        });
        &mut self.parts[index]
    }

    pub(crate) fn text(&self) -> String {
        let rows = self.parts.iter().flat_map(|part| &part.rows);
        format!(
            "{}\nFigures are medians; a ratio of 1 and above meets the goal.\n\n{}",
            self.run.lines().join("\n"),
            table::text(rows)
        )
    }

    pub(crate) fn finish(self) -> Result<Vec<Finished>> {
        let mut finished = Vec::new();
        for part in self.parts {
            let Some(measurement) = part.measurement else {
                eprintln!("{} rows belong to no measurement: they are not kept", part.rows.len());
                continue;
            };
            let record = Record {
                run: self.run.clone(),
                took_seconds: Some(part.took.as_secs_f64().round() as u64),
                versions: tools::versions(measurement)?,
                rows: part.rows,
            };
            finished.push(Finished { measurement, record, picture: part.picture });
        }
        Ok(finished)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_go_to_the_measurement_that_was_named_and_to_no_other() {
        let about = Vec::new();
        let text = String::new;
        let run = Run { commit: text(), date: text(), flags: None, machine: text(), disk: text(), load: text(), about };
        let mut results = Results::new(run);
        let row = |what: &str| Row::new(what, "s", vec![1.0]);
        results.of(Measurement::Disk).extend("10M", [row("one")]);
        results.of(Measurement::Memory).extend("10M", [row("two")]);
        results.of(Measurement::Disk).extend("100M", [row("three")]);
        results.extend("10M", [row("four")]);
        let finished = results.finish().expect("no program has a version to tell");
        let names: Vec<(Measurement, Vec<String>)> =
            finished.iter().map(|part| (part.measurement, part.record.rows.iter().map(Row::name).collect())).collect();
        let expected = [
            (Measurement::Disk, vec!["10M: one".to_owned(), "100M: three".to_owned()]),
            (Measurement::Memory, vec!["10M: two".to_owned()]),
        ];
        assert_eq!(names, expected);
    }
}
