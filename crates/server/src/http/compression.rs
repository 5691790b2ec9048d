//! Large answers are compressed for clients that take it: gzip or zstd, whichever they like better.
//!
//! Compression lets whoever sees how long an encrypted answer is guess at a secret in it, if they can make the victim
//! ask again and again with a guess of theirs in the answer (BREACH). Here they cannot make anybody ask: a credential
//! is a header that a program sets, never a cookie that a browser adds by itself, and the one credential that goes
//! into an address, a ticket, is good once and for streams only, which are not compressed. Nor is there anything to
//! guess at: answers hold no credential but a new ticket, which is too short to be compressed; tokens are in headers,
//! which HTTP/1 does not compress; and cursors are ciphertext that opens nothing without a credential.

use tower_http::{
    CompressionLevel,
    compression::{
        CompressionLayer, Predicate,
        predicate::{NotForContentType, SizeAbove},
    },
};

/// Below this an answer fits into one packet anyway.
const SMALLEST_BYTES: u64 = 1_024;

/// Streams of events are left alone: an encoder would hold an event back until more come.
pub(super) fn layer() -> CompressionLayer<impl Predicate> {
    let worth_it = SizeAbove::new(SMALLEST_BYTES).and(NotForContentType::SSE);
    CompressionLayer::new().quality(CompressionLevel::Fastest).compress_when(worth_it)
}
