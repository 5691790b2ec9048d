//! The move from the embedded store to PostgreSQL, as `docs/growing.md` says it.

use std::fs;

use crate::documents_kit::reader::Reader;
use crate::postgres_kit::Database;
use crate::server_kit::text;

#[test]
fn a_store_moves_from_its_folder_to_postgres_as_the_page_says() {
    let database = Database::new();
    let mut reader = Reader::new();
    let data = reader.path("var/lib/entourage-cache");
    let settings = format!("[store]\nurl = \"{}\"\n\n[data]\ndir = \"{}\"\n", database.url, text(&data));
    fs::write(reader.path("etc/entourage/postgres.toml"), settings).unwrap();
    reader.prepare(&["entourage user put alice", "entourage user put bob", "entourage follow alice bob"]);
    reader.read("docs/growing.md");
    assert!(reader.commands >= 5, "only {} commands were found", reader.commands);
    assert_eq!(database.value("SELECT count(*) FROM edges"), "1");
    // The server that the page starts in the end is one of PostgreSQL.
    reader.prepare(&["entourage followers bob | grep alice", "entourage servers | grep alive"]);
}
