//! Large responses are compressed with gzip or zstd, as the client prefers.
//!
//! BREACH does not apply. An attacker cannot make a victim send requests: credentials are headers that a program sets,
//! never cookies, and a ticket in a URL is valid once and for streams only, which are not compressed. Nor is there a
//! secret to guess: responses hold no credential but a new ticket, which is too short to be compressed; tokens are in
//! headers, which HTTP/1 does not compress; cursors are ciphertext, useless without a credential.

use tower_http::{
    CompressionLevel,
    compression::{
        CompressionLayer, Predicate,
        predicate::{NotForContentType, SizeAbove},
    },
};

/// Smaller responses fit into one packet anyway.
const SMALLEST_BYTES: u64 = 1_024;

/// Not for event streams: an encoder would hold events back.
pub(super) fn layer() -> CompressionLayer<impl Predicate> {
    let worth_it = SizeAbove::new(SMALLEST_BYTES).and(NotForContentType::SSE);
    CompressionLayer::new().quality(CompressionLevel::Fastest).compress_when(worth_it)
}
