//! The list of all cases, with the clauses each tests. `if` names the guarantee that a case needs.

use super::{
    Case, blocks, checks, counts, erasing, events, fences, follows, idempotency, life, lists, parked, past, posts,
    quotas, races, records, requests, sweeps, users, versions,
};

/// Passes the list to another macro. A case that is missing here is dead code, which the lints refuse.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_cases {
    ($stamp:ident $argument:tt) => {
        $crate::$stamp! { $argument
            users {
                put_creates_and_replaces [C1 C2];
                omitted_fields_keep_their_value [C3];
                patch_merges_and_needs_a_user [C3];
                keep_creates_once [C3 C5];
                a_second_id_with_the_same_key_is_refused [C3];
                the_same_user_again_changes_nothing [C3 C12];
                unknown_users_are_none [C9];
                the_suspended_may_not_follow [C3];
            }
            sweeps {
                everybody_is_shown_once [C2 C23];
                nobody_is_missed_while_others_come_and_go [C23];
                a_cursor_stays_good_after_reopening [C14 C23] if durable;
            }
            follows {
                new_follow_is_active_at_its_version [C1 C2];
                repeated_follow_changes_nothing [C3 C5];
                quiet_changes_the_flag_only [C1 C3];
                refusals [C3 C12];
                cap_below_at_and_above [C3];
                unfollow_present_absent_and_self [C1 C3];
                following_again_takes_a_new_position [C4];
                removed_follower_is_gone [C1];
                going_private_keeps_followers [C3];
                import_keeps_the_time_of_the_file [C1 C10];
                import_leaves_an_existing_edge [C3];
                import_needs_no_request_and_no_cap_but_minds_blocks [C3];
                commit_all_is_in_order_and_goes_on_after_a_refusal [C7];
            }
            requests {
                following_a_private_user_asks [C1 C9];
                accepting_makes_it_active_from_now [C1 C4];
                accepting_twice_is_accepting_once [C3 C5];
                rejecting_removes_the_request [C1];
                unfollow_cancels_a_request [C1];
                remove_follower_takes_a_request_away [C1];
                nothing_to_answer_is_refused [C3];
                requests_count_towards_the_cap [C3];
                a_private_user_is_not_followed_quietly [C3];
                requests_are_listed_apart [C10 C11];
                an_accepted_follow_says_so [C1];
            }
            parked {
                a_parked_follow_is_in_nothing_else [C1 C9 C12 C28];
                only_what_others_would_see_is_parked [C3 C28];
                accepted_it_is_active_from_now [C1 C4 C28];
                accepted_on_a_private_account_it_is_a_request [C1 C3 C28];
                dropped_or_taken_back_it_is_gone [C1 C12 C17 C28];
                nothing_else_is_released [C3];
                parked_follows_count_towards_the_cap [C3 C28];
                an_erased_end_takes_it_along [C18 C28];
                accepting_against_dropping_has_one_winner [C3 C5 C11];
                parked_follows_survive_reopening [C14 C28] if durable;
            }
            blocks {
                block_removes_follows_both_ways [C1];
                block_removes_requests_both_ways [C1];
                block_refuses_follows_both_ways [C3];
                block_again_changes_nothing [C3 C5];
                unblock_restores_nothing [C1];
                both_may_block [C3];
                mute_leaves_follows [C1];
                from_a_file_they_stand_where_their_time_says [C1 C3 C10];
                a_mute_may_end_by_itself [C1 C3];
                the_record_of_a_mutes_end_goes_with_it [C1 C3];
                refusals [C3];
                blocks_and_mutes_are_listed [C10];
            }
            lists {
                pages_of_every_size_are_newest_first [C10];
                equal_positions_are_ordered_by_key [C10];
                read_from_the_oldest_up_they_are_the_same [C10];
                the_row_of_a_cursor_may_be_gone [C10];
                paging_while_others_write_misses_nobody [C10];
                totals_are_what_paging_counts [C10 C11];
                an_open_list_leaves_quiet_follows_out [C10 C11];
                unknown_users_have_empty_lists [C10];
                whoever_reads_on_and_on_gives_way [C20];
                the_newest_of_many_are_what_pages_show [C27];
                whole_rows_of_many_are_what_pages_show [C31];
            }
            counts {
                counts_follow_every_change [C1 C11];
                counts_equal_lists_while_others_write [C11];
                repeated_removals_never_count_twice [C11];
                unknown_users_have_no_counts [C11];
                counts_of_many_are_those_of_each [C11];
            }
            checks {
                answers_come_in_the_order_asked [C9];
                peek_agrees_with_the_exact_read [C8];
                peek_agrees_while_others_write [C2 C8];
                peeks_at_many_are_those_of_each [C8 C18];
                peeks_at_open_follows_take_quiet_ones_for_none [C8 C18];
                peeks_at_many_of_one_follower [C8 C18];
                peeks_at_many_go_on_while_others_write [C8 C18];
                common_follows_are_in_both_lists [C8 C18];
                common_follows_are_those_of_one_moment [C8];
                peeks_at_ids_know_the_very_id [C8 C18];
                a_row_that_is_read_while_it_changes_is_not_believed [C2 C8];
            }
            versions {
                versions_strictly_increase [C4];
                versions_exceed_the_floor [C4];
                a_floor_far_ahead_does_not_reorder_later_writes [C4];
            }
            idempotency {
                a_retry_replays_the_first_reply [C6];
                another_body_is_refused [C6];
                only_success_is_recorded [C6];
                a_late_retry_does_not_undo_an_unfollow [C6];
                a_success_without_change_is_recorded [C6];
                equal_keys_at_once_have_one_effect [C5 C6];
                what_a_key_came_to_can_be_looked_up [C6];
            }
            events {
                each_change_has_its_event_in_order [C12];
                the_last_event_is_the_end [C13];
                nothing_changed_is_no_event [C12];
                events_are_gapless_under_concurrent_writes [C12 C13];
                order_on_each_edge_is_version_order [C4 C12];
                pages_of_events_go_on_where_they_ended [C13];
                watermarks_cover_their_outcome [C2 C12];
                progress_tells_which_outcomes_are_listed [C13] if one_order;
            }
            races {
                equal_follows_create_once [C5];
                equal_unfollows_change_once [C5 C11];
                equal_blocks_create_once [C5];
                cap_is_exact_at_99 [C3 C5];
                cap_is_exact_at_9_999 [C3 C5] if peeks;
                block_against_follow_ends_with_no_edge [C3];
                following_each_other_is_two_edges [C1 C11];
                accept_against_cancel_has_one_winner [C3 C11];
                one_id_for_one_key [C3 C5];
                histories_are_linear [C1 C2 C3 C4 C11 C12] if one_order;
            }
            quotas {
                a_burst_and_then_one_at_a_time [C3 C22];
                what_makes_no_new_follow_takes_nothing [C3 C6 C22];
                races_of_one_actor_get_exactly_the_limit [C5 C22];
                batches_get_exactly_the_limit_in_order [C7 C22];
                past_so_many_follows_a_proof_is_needed [C22];
                an_edge_that_ended_too_often_cools_down [C22];
                an_end_by_erasure_is_no_flip [C18 C22];
                whoever_is_created_again_has_everything_left [C18 C22];
                of_many_they_are_those_of_each [C22];
                what_was_taken_survives_reopening [C14 C22] if durable;
            }
            records {
                written_read_back_and_removed [C2 C12 C16];
                listed_by_id_from_anywhere [C16];
                conditions_hold_inside_the_commit [C3 C16];
                refusals [C3 C12];
                what_is_about_somebody_lies_in_their_bucket [C24];
                the_server_has_records_of_its_own [C16];
                caps_are_exact [C3 C16];
                added_under_an_id_of_their_own [C3 C6 C16];
                groups_have_members_among_the_connected [C3 C12 C16];
                a_large_group_goes_in_chunks [C3 C16] if peeks;
                many_at_once_are_those_of_each [C19];
                records_survive_reopening [C14 C16 C17] if durable;
            }
            fences {
                an_older_epoch_changes_nothing [C3 C12 C25];
                once_taken_over_no_older_write_comes_through [C25];
                progress_stands_with_its_effect [C1 C3 C6 C26];
                they_survive_reopening [C14 C25 C26] if durable;
            }
            posts {
                written_under_an_id_of_their_own [C2 C12 C16];
                refusals [C3 C12];
                replaced_and_taken_away [C3 C12 C16];
                a_retry_is_the_same_post [C6];
                written_at_once_each_has_its_id [C4 C16];
                an_erased_author_leaves_them_to_chunks [C12 C18];
                how_they_spread_is_forgotten_with_the_author [C3 C18];
                an_external_id_names_one_post_of_its_author [C3 C12 C18 C21];
                equal_external_ids_at_once_are_one_post [C5 C21];
                from_a_file_they_have_their_time [C3 C12 C16 C21];
                from_a_file_at_once_each_has_its_id [C5 C21];
                they_survive_reopening [C14 C16 C18] if durable;
            }
            past {
                each_end_is_told_once_newest_first [C17];
                a_mute_is_taken_away_when_it_is_over [C3 C12];
            }
            erasing {
                a_user_is_gone_at_once_and_edges_in_chunks [C12 C17 C18];
                whoever_comes_next_is_a_new_person [C18];
                only_the_person_who_is_meant_is_erased [C3 C18];
                the_erased_are_named_until_their_id_is_let_go_of [C12 C16 C18];
                erasing_against_follows_leaves_no_edge_behind [C3 C11 C18];
                erasing_survives_reopening [C14 C18] if durable;
            }
            life {
                verify_is_clean_while_others_write [C15];
                processes_that_share_a_store_hear_of_each_other [C29];
                a_store_that_answers_is_not_away [C8 C30];
                a_closed_store_refuses_writes [C14] if durable;
                acked_writes_survive_reopening [C14] if durable;
                retries_are_recognised_after_reopening [C6 C14] if durable;
                versions_and_sequences_go_on_after_reopening [C4 C12 C14] if durable;
            }
        }
    };
}

/// The list as a table.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_table {
    (() $($topic:ident { $($name:ident [$($clause:ident)+] $(if $promise:ident)?;)+ })+) => {
        &[$($(Case {
            name: concat!(stringify!($topic), "::", stringify!($name)),
            clauses: &[$(stringify!($clause)),+],
            applies: |_guarantees| true $(&& super::promise::$promise(_guarantees))?,
            run: |world| Box::pin(async move {
                $topic::$name(world.clone()).await;
                world.assert_sound().await;
            }),
        },)+)+]
    };
}

pub const CASES: &[Case] = crate::conformance_cases! { conformance_table() };
