//! Metrics: one recorder for the whole process, its buckets and descriptions.

mod routes;

use std::sync::OnceLock;

use entourage_model::Code;
use metrics::{counter, describe_counter, describe_gauge, describe_histogram};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};

pub(crate) use self::routes::Routes;

/// Seconds, from 0.1 ms, where most responses are, to the deadline.
const LATENCY_BUCKETS: &[f64] = &[0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.0, 10.0];
/// Writes per batch: one for a single caller, thousands under load.
const BATCH_BUCKETS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 4096.0];
/// Seconds of a checkpoint, from an empty store to one of a hundred million edges.
const CHECKPOINT_BUCKETS: &[f64] = &[0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];

/// Seconds of an audit, which pauses between steps.
const AUDIT_BUCKETS: &[f64] = &[1.0, 10.0, 60.0, 300.0, 900.0, 1_800.0, 3_600.0, 7_200.0, 21_600.0, 86_400.0];

/// Seconds from a write to its repair; the promise is thirty.
const HEAL_BUCKETS: &[f64] = &[1.0, 2.0, 3.0, 4.0, 5.0, 7.5, 10.0, 15.0, 20.0, 30.0, 60.0, 3_600.0];

static RECORDER: OnceLock<PrometheusHandle> = OnceLock::new();

/// Starts recording. A second server in the process shares the recorder. Handles made before this record nothing, so
/// call it before opening a store.
pub(crate) fn install() {
    RECORDER.get_or_init(|| {
        let recorder = builder().unwrap_or_default().build_recorder();
        let handle = recorder.handle();
        if metrics::set_global_recorder(recorder).is_err() {
            tracing::warn!("another recorder was installed before; /metrics stays empty");
        }
        describe();
        handle
    });
}

fn builder() -> Result<PrometheusBuilder, BuildError> {
    PrometheusBuilder::new()
        .set_buckets(LATENCY_BUCKETS)?
        .set_buckets_for_metric(Matcher::Full("entourage_batch_writes".to_owned()), BATCH_BUCKETS)?
        .set_buckets_for_metric(Matcher::Full("entourage_checkpoint_seconds".to_owned()), CHECKPOINT_BUCKETS)?
        .set_buckets_for_metric(Matcher::Full("entourage_audit_seconds".to_owned()), AUDIT_BUCKETS)?
        .set_buckets_for_metric(Matcher::Full("entourage_heal_seconds".to_owned()), HEAL_BUCKETS)
}

fn describe() {
    describe_counter!("entourage_http_requests_total", "Requests answered, by route, method and class of status");
    describe_histogram!("entourage_http_request_seconds", "Time to answer, by route and method");
    describe_gauge!("entourage_http_in_flight", "Requests that are being answered, by route and method");
    describe_counter!("entourage_resp_commands_total", "Commands of RESP, by name");
    describe_histogram!("entourage_resp_read_seconds", "Time to answer all commands that one read brought");
    describe_gauge!("entourage_resp_connections", "Open connections of RESP");
    describe_counter!("entourage_resp_connections_refused_total", "Connections of RESP that were one too many");
    describe_counter!("entourage_refusals_total", "Requests refused or failed, by code");
    describe_counter!("entourage_commits_total", "Writes that changed the store, by operation");
    describe_counter!("entourage_limiter_refusals_total", "How often a limit said no, by limit");
    describe_gauge!("entourage_limiter_keys", "Actors, targets or edges that a limit remembers, by limit");
    describe_gauge!("entourage_abuse_open_cases", "Open cases of suspected abuse");
    describe_counter!("entourage_abuse_cases_total", "Cases of suspected abuse, by kind and state");
    describe_counter!("entourage_abuse_refused_total", "Cases that were not opened because too many are open");
    describe_counter!("entourage_abuse_unreadable_total", "Cases that were left out because they cannot be read");
    describe_gauge!("entourage_abuse_remembered", "Actors, targets and edges that detectors of abuse remember");
    describe_counter!("entourage_abuse_unseen_total", "Follows that detectors of abuse did not look at");
    describe_gauge!("entourage_signal_counters", "Counters of profile views in memory");
    describe_counter!("entourage_tasks_total", "Runs of scheduled tasks");
    describe_gauge!("entourage_servers", "Servers of the store, by state");
    describe_counter!("entourage_heartbeat_failures_total", "Heartbeats that did not reach the store");
    describe_gauge!("entourage_clock_skew_seconds", "How far this server's clock is ahead of the database's");
    describe_gauge!("entourage_lease_held", "1 while this server holds the lease");
    describe_counter!("entourage_lease_takeovers_total", "Leases that this server took");
    describe_counter!("entourage_lease_losses_total", "Leases that another server took over from this one");
    describe_gauge!(
        "entourage_limiter_shared",
        "Whether all servers of the store share a limit (1) or each server counts for itself (0), by limit"
    );
    describe_gauge!("entourage_jobs_running", "Jobs that are not finished");
    describe_counter!("entourage_job_edges_total", "Edges that jobs changed, by kind");
    describe_counter!("entourage_jobs_finished_total", "Jobs that ended, by kind and state");
    describe_histogram!("entourage_batch_writes", "Writes that were made durable together");
    describe_histogram!("entourage_sync_seconds", "Time to write a batch to the log and sync it");
    describe_gauge!("entourage_queue_writes", "Writes that wait for the one thread that decides");
    describe_histogram!("entourage_checkpoint_seconds", "Time of a finished checkpoint");
    describe_counter!("entourage_checkpoint_failures_total", "Checkpoints that failed and are tried again");
    describe_gauge!("entourage_log_bytes", "Bytes of log on the disk");
    describe_gauge!("entourage_memory_bytes", "Bytes that the store holds in memory, by its own estimate");
    describe_gauge!("entourage_users", "Users of the store");
    describe_gauge!("entourage_edges", "Edges of the store that are in a list");
    describe_counter!("entourage_cache_hits_total", "Checks that the cache answered");
    describe_counter!("entourage_cache_misses_total", "Checks that the cache did not answer");
    describe_counter!("entourage_cache_fills_total", "Rows that the cache read from the store");
    describe_counter!("entourage_cache_evictions_total", "Rows that the cache let go of for others");
    describe_counter!("entourage_cache_clears_total", "How often the cache let go of everything");
    describe_counter!(
        "entourage_cache_stale_total",
        "Checks that the cache answered with an age, the store being away"
    );
    describe_gauge!("entourage_breaker_open", "1 while PostgreSQL is known to be away and requests fail at once");
    describe_counter!("entourage_breaker_trips_total", "How often PostgreSQL was found to be away");
    describe_gauge!("entourage_cache_bytes", "Bytes that the cache holds, by its own estimate");
    describe_gauge!("entourage_cache_rows", "Rows that the cache holds");
    describe_gauge!("entourage_cache_lag_seconds", "How old what the cache knows may be");
    describe_counter!("entourage_audit_users_total", "Users whose lists and counts were compared");
    describe_histogram!("entourage_audit_seconds", "Time of an audit of everybody");
    describe_gauge!("entourage_audit_drifted_users", "Users of whom something did not agree in the last audit");
    describe_gauge!(
        "entourage_credentials_stale",
        "1 while the files of a setting cannot be read as they are now, so that older ones are in use"
    );
    describe_gauge!("entourage_audit_alert", "1 when the last audit found more than 1 % of users drifted");
    describe_counter!(
        "entourage_audit_left_out_total",
        "Callers who were not let in and not written to the audit log, because their address had its share"
    );
    describe_counter!(
        "entourage_audit_unwritten_total",
        "Records that were not in the audit log when their request was answered"
    );
    describe_counter!("entourage_healer_edges_total", "Changes of edges that the healer looked at");
    describe_counter!("entourage_healed_edges_total", "Edges whose directions differed and were set right");
    describe_histogram!("entourage_heal_seconds", "From a write to the healing of what it left wrong");
    describe_counter!("entourage_healer_skipped_total", "Changes that the healer left to the audit");
    describe_counter!("entourage_healer_unclear_total", "Edges that could not be healed");
    describe_gauge!("entourage_fanout_lag_seconds", "How long the oldest post that waits for fan-out has waited");
    describe_gauge!("entourage_fanout_depth", "Posts that wait for fan-out or are under way");
    describe_histogram!("entourage_fanout_seconds", "From a post to its being in the last inbox");
    describe_counter!("entourage_fanout_deliveries_total", "Entries that fan-out put into inboxes");
    describe_histogram!("entourage_feed_page_seconds", "Time to put a page of a feed together");
    describe_gauge!("entourage_inboxes", "Inboxes in memory");
    describe_gauge!("entourage_inbox_bytes", "About what inboxes take");
    describe_counter!("entourage_inboxes_rebuilt_total", "Inboxes that were built anew for a read");
    describe_counter!("entourage_inboxes_evicted_total", "Inboxes that were given up for want of room");
    describe_gauge!("entourage_feed_streams", "Live feeds that are listened to");
    describe_counter!("entourage_feed_streams_resynced_total", "Live feeds whose listener was too slow");
    describe_counter!("entourage_count_clamp_total", "Counts that would have gone below zero; always 0");
}

pub(crate) fn render() -> String {
    RECORDER.get().map(PrometheusHandle::render).unwrap_or_default()
}

/// Folds histogram samples; call it every few seconds.
pub(crate) fn fold() {
    if let Some(handle) = RECORDER.get() {
        handle.run_upkeep();
    }
}

pub(crate) fn refusal(code: Code) {
    counter!("entourage_refusals_total", "code" => code.as_str()).increment(1);
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_measure_is_on_the_page_for_operators() {
        let page = include_str!("../../../../docs/operations.md");
        let source = include_str!("mod.rs");
        let names: Vec<_> = source.split("!(\"entourage_").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert!(names.len() > 10, "{names:?}");
        for name in names {
            assert!(page.contains(&format!("`entourage_{name}`")), "entourage_{name} is not described");
        }
    }
}
