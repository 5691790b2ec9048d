//! Whose profiles the viewer looked at.

use std::sync::Arc;

use async_trait::async_trait;
use entourage_model::Result;

use super::source::{Asked, Candidate, Evidence, People, Source};
use crate::Signals;

/// Weights are fractions; only their order counts here.
const WEIGHT_UNITS: f64 = 1_000_000.0;

pub(super) struct ProfileViews(pub(super) Arc<Signals>);

#[async_trait]
impl Source for ProfileViews {
    async fn candidates(&self, asked: &Asked, limit: usize, _: &mut People) -> Result<Vec<Candidate>> {
        let candidate = |(key, weight): (_, f64)| {
            let weight = (weight * WEIGHT_UNITS) as u64;
            Candidate { key, weight, evidence: Evidence::Signal }
        };
        Ok(self.0.viewed(asked.viewer, limit).into_iter().map(candidate).collect())
    }
}
