//! Stores that misbehave in one known way each. A checker that lets one of them pass is not trusted.

use std::panic::{AssertUnwindSafe, catch_unwind};

mod cache;
mod distort;
mod durable;
mod seen;
mod store;

use self::{durable::planted_durable, store::planted};
use super::{
    Case, Fixture, block_on,
    random::{self, Plan},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    None,
    /// Every seventh change has no event; the numbers close the gap.
    DropsEvents,
    /// A write that changes nothing has an event.
    EventForNothing,
    /// An unfollow without an edge counts.
    CountsAbsentUnfollow,
    /// A page begins with the row of its cursor.
    RepeatsRowOfCursor,
    /// A page of a cursor of time alone: rows of the same moment are skipped.
    SkipsEqualPositions,
    /// The same from the oldest row up.
    SkipsEqualPositionsUpwards,
    /// Quiet follows are taken for open ones.
    QuietIsOpen,
    /// Unblocking restores what the block removed.
    UnblockRestores,
    /// A block leaves the blocked user's follow.
    BlocksOneWay,
    /// A repeated follow is a new one.
    RepeatMovesPosition,
    /// A changed flag moves the row.
    QuietMovesPosition,
    IgnoresCap,
    /// Requests are not counted towards the cap.
    CapForgetsRequests,
    /// A follow is never parked.
    ParksNobody,
    /// A retry is executed again.
    RetriesTwice,
    /// The key of a refused write is used up.
    RecordsRefusals,
    /// A fresh edge is a "no" until the next write.
    PeekLags,
    /// A request is a "yes".
    PeekTakesRequests,
    PeeksAtTheErased,
    PeeksOutOfOrder,
    CommonTakesRequests,
    /// The id is not compared: the key is enough.
    PeeksAtTheKeyAlone,
    /// Unfollow leaves requests.
    KeepsRequests,
    /// A patch replaces.
    MergeReplaces,
    /// A batch ends with its first refusal.
    BatchStops,
    /// The clock goes back now and then.
    VersionsGoBack,
    ForgetsFloor,
    /// Every fiftieth acked write is lost.
    LosesWrites,
    /// The block is checked before the commit.
    BlockCheckedOutside,
    /// The cap is checked before the commit.
    CapCheckedOutside,
    /// The existing edge is read before the commit.
    EdgeCheckedOutside,
    /// The idempotency key is looked up before the commit.
    KeyCheckedOutside,
    WritesAfterClose,
    ReopensWithoutTheLast,
    ReopensWithoutKeys,
    ReopensWithItsClockBack,
    IgnoresRecordCap,
    IgnoresCondition,
    /// Members stay when their group goes.
    MembersOutliveGroups,
    ManyRecordsOutOfOrder,
    /// The lists of several owners share one limit.
    LimitsAllListsTogether,
    /// The record of its author stays when a post is removed.
    IndexOutlivesPosts,
    /// Posts of an erased author are not searched for.
    PostsOutliveAuthors,
    /// Replacing a missing post writes a new one.
    ReplacesNothing,
    /// An external id is not looked up: each post is another one.
    ForgetsExternalIds,
    /// The record of its external id stays when a post is removed.
    ExternalIdsOutlivePosts,
    /// An imported edge gets the position of the write.
    ImportsMoveToNow,
    /// Only active follows leave history.
    HistoryForgetsRequests,
    /// An id is reused while edges of the predecessor are left.
    RecreatesTooSoon,
    SuspensionIsForShow,
    /// Muting again never changes when a mute ends.
    MutesKeepTheirEnd,
    /// The record of when a mute was to end stays when it is muted again.
    MuteEndsPileUp,
    /// The record of when a mute ends stays when it is removed.
    MuteEndsOutliveMutes,
    /// The record of when a mute ends stays when one of the two is erased.
    MuteEndsOutliveTheErased,
    /// No record says when a mute ends.
    MuteEndsAreLost,
    /// A scan of records begins with the one it continues from.
    RepeatsRecordOfCursor,
    /// Erasing edges begins with one end and forgets the other.
    ErasesOneDirection,
    /// Progress covers one outcome more than is listed.
    ProgressRunsAhead,
    /// Replies are found by commits alone.
    LooksUpNoReply,
    IgnoresQuota,
    IgnoresChallenges,
    /// The quota is read before the commit.
    QuotaCheckedOutside,
    RefusalsTakeQuota,
    RetriesTakeQuota,
    RepeatsTakeQuota,
    ImportsTakeQuota,
    /// A recreated user has the quota of the predecessor.
    QuotasOutliveUsers,
    QuotasOutOfOrder,
    ForgetsFlips,
    /// A follow that ended because its target was erased counts as a flip.
    ErasingIsAFlip,
    ReopensWithoutQuotas,
    SweepsMissTheLastOfAPage,
    IgnoresFences,
    /// Progress is written before its effect.
    ProgressRunsBeforeItsEffect,
}

/// Which case finds which bug.
const CAUGHT_BY_CASES: &[(Bug, &str)] = &[
    (Bug::DropsEvents, "events::each_change_has_its_event_in_order"),
    (Bug::EventForNothing, "events::nothing_changed_is_no_event"),
    (Bug::CountsAbsentUnfollow, "counts::repeated_removals_never_count_twice"),
    (Bug::RepeatsRowOfCursor, "lists::pages_of_every_size_are_newest_first"),
    (Bug::RepeatsRowOfCursor, "lists::paging_while_others_write_misses_nobody"),
    (Bug::SkipsEqualPositions, "lists::equal_positions_are_ordered_by_key"),
    (Bug::SkipsEqualPositionsUpwards, "lists::read_from_the_oldest_up_they_are_the_same"),
    (Bug::QuietIsOpen, "checks::peeks_at_open_follows_take_quiet_ones_for_none"),
    (Bug::UnblockRestores, "blocks::unblock_restores_nothing"),
    (Bug::BlocksOneWay, "blocks::block_removes_follows_both_ways"),
    (Bug::RepeatMovesPosition, "follows::repeated_follow_changes_nothing"),
    (Bug::QuietMovesPosition, "follows::quiet_changes_the_flag_only"),
    (Bug::IgnoresCap, "follows::cap_below_at_and_above"),
    (Bug::CapForgetsRequests, "requests::requests_count_towards_the_cap"),
    (Bug::ParksNobody, "parked::a_parked_follow_is_in_nothing_else"),
    (Bug::RetriesTwice, "idempotency::a_late_retry_does_not_undo_an_unfollow"),
    (Bug::LooksUpNoReply, "idempotency::what_a_key_came_to_can_be_looked_up"),
    (Bug::RecordsRefusals, "idempotency::only_success_is_recorded"),
    (Bug::PeekLags, "checks::peek_agrees_with_the_exact_read"),
    (Bug::PeekLags, "checks::peek_agrees_while_others_write"),
    (Bug::PeekTakesRequests, "checks::peek_agrees_with_the_exact_read"),
    (Bug::PeeksAtTheErased, "checks::peeks_at_many_are_those_of_each"),
    (Bug::CommonTakesRequests, "checks::common_follows_are_in_both_lists"),
    (Bug::PeeksAtTheKeyAlone, "checks::peeks_at_ids_know_the_very_id"),
    (Bug::PeeksOutOfOrder, "checks::peeks_at_many_are_those_of_each"),
    (Bug::KeepsRequests, "requests::unfollow_cancels_a_request"),
    (Bug::MergeReplaces, "users::patch_merges_and_needs_a_user"),
    (Bug::BatchStops, "follows::commit_all_is_in_order_and_goes_on_after_a_refusal"),
    (Bug::VersionsGoBack, "versions::versions_strictly_increase"),
    (Bug::ForgetsFloor, "versions::versions_exceed_the_floor"),
    (Bug::LosesWrites, "lists::pages_of_every_size_are_newest_first"),
    (Bug::BlockCheckedOutside, "races::block_against_follow_ends_with_no_edge"),
    (Bug::CapCheckedOutside, "races::cap_is_exact_at_99"),
    (Bug::EdgeCheckedOutside, "races::equal_follows_create_once"),
    (Bug::BlockCheckedOutside, "races::histories_are_linear"),
    (Bug::EdgeCheckedOutside, "races::histories_are_linear"),
    (Bug::DropsEvents, "races::histories_are_linear"),
    (Bug::EventForNothing, "races::histories_are_linear"),
    (Bug::CountsAbsentUnfollow, "races::histories_are_linear"),
    (Bug::UnblockRestores, "races::histories_are_linear"),
    (Bug::BlocksOneWay, "races::histories_are_linear"),
    (Bug::VersionsGoBack, "races::histories_are_linear"),
    (Bug::LosesWrites, "races::histories_are_linear"),
    (Bug::KeyCheckedOutside, "idempotency::equal_keys_at_once_have_one_effect"),
    (Bug::IgnoresRecordCap, "records::caps_are_exact"),
    (Bug::IgnoresCondition, "records::conditions_hold_inside_the_commit"),
    (Bug::MembersOutliveGroups, "records::groups_have_members_among_the_connected"),
    (Bug::ManyRecordsOutOfOrder, "records::many_at_once_are_those_of_each"),
    (Bug::LimitsAllListsTogether, "records::many_at_once_are_those_of_each"),
    (Bug::IndexOutlivesPosts, "posts::replaced_and_taken_away"),
    (Bug::PostsOutliveAuthors, "posts::an_erased_author_leaves_them_to_chunks"),
    (Bug::ReplacesNothing, "posts::refusals"),
    (Bug::ForgetsExternalIds, "posts::an_external_id_names_one_post_of_its_author"),
    (Bug::ForgetsExternalIds, "posts::equal_external_ids_at_once_are_one_post"),
    (Bug::ExternalIdsOutlivePosts, "posts::an_external_id_names_one_post_of_its_author"),
    (Bug::ImportsMoveToNow, "blocks::from_a_file_they_stand_where_their_time_says"),
    (Bug::HistoryForgetsRequests, "past::each_end_is_told_once_newest_first"),
    (Bug::RecreatesTooSoon, "erasing::a_user_is_gone_at_once_and_edges_in_chunks"),
    (Bug::SweepsMissTheLastOfAPage, "sweeps::everybody_is_shown_once"),
    (Bug::SweepsMissTheLastOfAPage, "sweeps::nobody_is_missed_while_others_come_and_go"),
    (Bug::IgnoresFences, "fences::an_older_epoch_changes_nothing"),
    (Bug::IgnoresFences, "fences::once_taken_over_no_older_write_comes_through"),
    (Bug::ProgressRunsBeforeItsEffect, "fences::progress_stands_with_its_effect"),
    (Bug::SuspensionIsForShow, "users::the_suspended_may_not_follow"),
    (Bug::MutesKeepTheirEnd, "blocks::a_mute_may_end_by_itself"),
    (Bug::MuteEndsPileUp, "blocks::the_record_of_a_mutes_end_goes_with_it"),
    (Bug::MuteEndsOutliveMutes, "blocks::the_record_of_a_mutes_end_goes_with_it"),
    (Bug::MuteEndsOutliveTheErased, "blocks::the_record_of_a_mutes_end_goes_with_it"),
    (Bug::MuteEndsAreLost, "blocks::the_record_of_a_mutes_end_goes_with_it"),
    (Bug::RepeatsRecordOfCursor, "records::listed_by_id_from_anywhere"),
    (Bug::ErasesOneDirection, "erasing::a_user_is_gone_at_once_and_edges_in_chunks"),
    (Bug::ProgressRunsAhead, "events::progress_tells_which_outcomes_are_listed"),
    (Bug::IgnoresQuota, "quotas::a_burst_and_then_one_at_a_time"),
    (Bug::IgnoresChallenges, "quotas::past_so_many_follows_a_proof_is_needed"),
    (Bug::QuotaCheckedOutside, "quotas::races_of_one_actor_get_exactly_the_limit"),
    (Bug::RefusalsTakeQuota, "quotas::what_makes_no_new_follow_takes_nothing"),
    (Bug::RetriesTakeQuota, "quotas::what_makes_no_new_follow_takes_nothing"),
    (Bug::RepeatsTakeQuota, "quotas::what_makes_no_new_follow_takes_nothing"),
    (Bug::ImportsTakeQuota, "quotas::what_makes_no_new_follow_takes_nothing"),
    (Bug::QuotasOutliveUsers, "quotas::whoever_is_created_again_has_everything_left"),
    (Bug::QuotasOutOfOrder, "quotas::of_many_they_are_those_of_each"),
    (Bug::ForgetsFlips, "quotas::an_edge_that_ended_too_often_cools_down"),
    (Bug::ErasingIsAFlip, "quotas::an_end_by_erasure_is_no_flip"),
];

/// The same for stores that are closed and reopened.
const CAUGHT_BY_REOPENING: &[(Bug, &str)] = &[
    (Bug::WritesAfterClose, "life::a_closed_store_refuses_writes"),
    (Bug::ReopensWithoutTheLast, "life::acked_writes_survive_reopening"),
    (Bug::ReopensWithoutKeys, "life::retries_are_recognised_after_reopening"),
    (Bug::ReopensWithItsClockBack, "life::versions_and_sequences_go_on_after_reopening"),
    (Bug::ReopensWithoutQuotas, "quotas::what_was_taken_survives_reopening"),
];

/// Bugs that only show under concurrency: a single writer cannot find them.
const NEEDS_CONCURRENCY: &[Bug] = &[
    Bug::BlockCheckedOutside,
    Bug::CapCheckedOutside,
    Bug::EdgeCheckedOutside,
    Bug::KeyCheckedOutside,
    Bug::QuotaCheckedOutside,
    Bug::ProgressRunsAhead,
];

/// Races and random histories may miss a bug by chance, though rarely.
const TRIES: usize = 5;

fn passes(case: &str, fixture: impl Into<Fixture>) -> bool {
    // Caught here and not in a task, so that the panics of found bugs do not litter the output.
    catch_unwind(AssertUnwindSafe(|| block_on(Case::named(case).run(fixture)))).is_ok()
}

#[test]
fn each_planted_bug_fails_its_case_and_only_the_bug_does() {
    for &(bug, case) in CAUGHT_BY_CASES {
        assert!(passes(case, planted(Bug::None)), "{case} fails without a bug");
        let noticed = (0..TRIES).any(|_| !passes(case, planted(bug)));
        assert!(noticed, "{case} does not notice {bug:?}");
    }
    for &(bug, case) in CAUGHT_BY_REOPENING {
        assert!(passes(case, planted_durable(Bug::None)), "{case} fails without a bug");
        assert!(!passes(case, planted_durable(bug)), "{case} does not notice {bug:?}");
    }
}

#[test]
fn random_runs_with_restarts_notice_what_a_restart_forgot() {
    let passes = |bug| {
        let run = || random::run_seeds(2, 2_000, async || planted_durable(bug));
        catch_unwind(AssertUnwindSafe(run)).is_ok()
    };
    assert!(passes(Bug::None));
    assert!(!passes(Bug::ReopensWithoutTheLast));
    assert!(!passes(Bug::ReopensWithoutKeys));
    assert!(!passes(Bug::ReopensWithoutQuotas));
}

#[test]
fn random_runs_notice_each_planted_bug() {
    for &(bug, _) in CAUGHT_BY_CASES {
        let run = |seed| block_on(random::run(planted(bug), Plan::new(seed, 2_000), random::straight_on));
        let noticed = (0..6).any(|seed| run(seed).is_err());
        assert_eq!(noticed, !NEEDS_CONCURRENCY.contains(&bug), "{bug:?}");
    }
}

#[test]
fn a_failure_names_its_seed_and_the_last_writes() {
    let plan = Plan::new(5, 2_000);
    let failure = block_on(random::run(planted(Bug::IgnoresCap), plan, random::straight_on)).unwrap_err();
    let text = failure.to_string();
    assert!(text.contains("ENTOURAGE_SEED=5") && text.contains("following_limit"), "{text}");
    assert!(!failure.recent.is_empty() && failure.step > 0);
    let again = block_on(random::run(planted(Bug::IgnoresCap), plan, random::straight_on)).unwrap_err();
    assert_eq!(again.step, failure.step, "a seed replays");
}
