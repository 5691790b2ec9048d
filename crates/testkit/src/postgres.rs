//! The PostgreSQL that `make test` starts. A suite that cannot run is red, not skipped.

pub fn url() -> String {
    std::env::var("ENTOURAGE_TEST_POSTGRES").expect(
        "ENTOURAGE_TEST_POSTGRES names no PostgreSQL: run `make test`, or set it to what `scripts/postgres start` prints",
    )
}

/// A schema that nobody else has.
pub fn fresh_schema() -> String {
    format!("test_{:016x}", rand::random::<u64>())
}
