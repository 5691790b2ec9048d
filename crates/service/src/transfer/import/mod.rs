//! Import: files of users, edges, groups and posts become commits, line by line, with an account of every line.
//!
//! A thread reads and parses ([`read`]), chunks of rows go to the store in the order of the file ([`commit`]), and what
//! is durable is noted beside the data ([`progress`]), so that a killed import goes on where it was.

mod columns;
mod commit;
mod dialect;
mod groups;
mod head;
mod known;
mod limits;
mod lines;
mod parse;
mod person;
mod plan;
mod progress;
mod read;
mod rejects;
mod resume;
mod row;
mod run;
mod source;
mod suggested;
mod tally;
mod time;

pub use dialect::{Contents, Form, Format};
pub use progress::{Progress, ProgressFile};
pub use rejects::Rejects;
pub use run::{Import, Imported, Seen};
pub use source::Source;
pub use tally::Tally;
