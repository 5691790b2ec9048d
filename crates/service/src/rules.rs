//! What an operator can set about the rules.

use std::time::Duration;

use crate::{AbuseRules, FeedRules, Limits, SignalRules, SuggestionRules};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Ids exist on their first use in a write.
    pub auto_create: bool,
    /// Active + pending + parked follows of one user; `None` is no bound.
    pub following_max: Option<u64>,
    pub limits: Limits,
    /// How long a notification is shown.
    pub notification_retention: Duration,
    /// Within which time everybody is audited once; `None` is never.
    pub audit_interval: Option<Duration>,
    pub feed: FeedRules,
    pub suggestions: SuggestionRules,
    pub abuse: AbuseRules,
    pub signals: SignalRules,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            auto_create: false,
            following_max: Some(10_000),
            limits: Limits::default(),
            notification_retention: Duration::from_secs(30 * 24 * 60 * 60),
            audit_interval: Some(Duration::from_secs(60 * 60)),
            feed: FeedRules::default(),
            suggestions: SuggestionRules::default(),
            abuse: AbuseRules::default(),
            signals: SignalRules::default(),
        }
    }
}
