/* scenarios.h - what the statements promise, each as a function over a world (see world.h). */
#ifndef TESTS_SCENARIOS_H
#define TESTS_SCENARIOS_H

#include "world.h"

/* X(name): bool name(struct world *) */
#define SCENARIOS(X)                                                                               \
    /* complete */                                                                                 \
    X(late_completion_is_refused)                                                                  \
    X(late_completion_of_the_same_claim_is_applied_once)                                           \
    X(predecessor_first)                                                                           \
    X(an_old_chain_takes_nothing_back)                                                             \
    X(a_locked_row_is_busy)                                                                        \
    X(a_row_that_is_gone_is_refused)                                                               \
    X(a_chain_may_grow_while_its_answer_is_lost)                                                   \
    X(applied_means_this_very_chain)                                                               \
    X(an_older_definition_counts_as_far_as_it_agrees)                                              \
    X(a_failure_counts_at_its_own_stage_only)                                                      \
    X(a_stage_that_is_gone_is_not_done)                                                            \
    X(a_chain_sent_again_under_a_new_definition)                                                   \
    X(three_submits_in_a_run_cost_one_more)                                                        \
    X(a_run_goes_on_while_its_claim_stays)                                                         \
    X(outputs_of_older_versions_go)                                                                \
    X(a_release_keeps_its_place)                                                                   \
    X(a_version_for_later_waits)                                                                   \
    X(an_exit_clears_the_error)                                                                    \
    /* claim */                                                                                    \
    X(a_claim_reads_the_newest_version)                                                            \
    X(a_paused_stage_is_not_claimed)                                                               \
    X(an_ended_node_claims_nothing)                                                                \
    X(only_the_named_stage_is_claimed)                                                             \
    X(a_claim_sent_again_takes_nothing)                                                            \
    X(claimers_do_not_wait_for_each_other)                                                         \
    X(claims_follow_the_order)                                                                     \
    X(a_claim_goes_on_at_a_tie)                                                                    \
    X(a_claim_of_nothing_leaves_nothing)                                                           \
    X(an_input_is_of_this_version)                                                                 \
    X(a_claim_begins_at_step_zero)                                                                 \
    /* the way of a task */                                                                        \
    X(a_route_goes_where_it_says)                                                                  \
    X(a_route_is_applied_once)                                                                     \
    X(a_finish_skips_the_rest)                                                                     \
    X(a_route_to_a_stage_that_is_gone_fails)                                                       \
    X(a_route_of_an_older_definition_counts_as_far_as_it_agrees)                                   \
    X(too_many_steps_fail)                                                                         \
    X(steps_are_of_one_version)                                                                    \
    X(a_stage_that_runs_again_overwrites)                                                          \
    X(an_inserted_stage_takes_no_input_away)                                                       \
    X(what_an_older_program_leaves_is_not_believed)                                                \
    X(a_rerun_gives_the_input_that_it_had)                                                         \
    X(a_snooze_uses_no_attempt)                                                                    \
    /* what earlier stages and runs left */                                                        \
    X(a_claim_is_kept_for_a_newer_version)                                                         \
    X(a_kept_claim_sent_again_is_kept)                                                             \
    X(progress_is_kept_of_held_tasks)                                                              \
    X(progress_passes_by_a_locked_row)                                                             \
    X(progress_comes_with_the_next_claim)                                                          \
    X(progress_goes_with_its_stage)                                                                \
    X(progress_is_shown_of_what_runs)                                                              \
    X(inputs_are_of_the_claimed_version)                                                           \
    X(inputs_are_of_held_tasks)                                                                    \
    X(inputs_are_there_after_a_rerun)                                                              \
    /* shares and limits */                                                                        \
    X(a_fair_claim_takes_the_longest_ready)                                                        \
    X(a_fair_claim_passes_by_locked_rows)                                                          \
    X(a_fair_claim_keeps_the_fences)                                                               \
    X(a_fair_claim_leaves_what_was_taken_meanwhile)                                                \
    X(a_limit_counts_what_runs)                                                                    \
    X(a_limit_is_for_one_claimer_at_a_time)                                                        \
    X(a_limit_counts_with_a_fresh_snapshot)                                                        \
    X(a_place_is_free_when_its_holder_is_gone)                                                     \
    X(settings_make_limits_hold)                                                                   \
    /* rescue and release */                                                                       \
    X(rescue_takes_from_ended_nodes_only)                                                          \
    X(rescue_leaves_what_was_done_meanwhile)                                                       \
    X(rescue_leaves_what_was_claimed_anew_meanwhile)                                               \
    X(rescue_leaves_what_has_left)                                                                 \
    X(rescue_counts_a_task_once)                                                                   \
    X(rescue_passes_by_a_locked_row)                                                               \
    X(rescue_takes_a_few_at_a_time)                                                                \
    X(orphans_are_found_by_what_is_not_there)                                                      \
    X(release_spares_what_is_known)                                                                \
    X(release_knows_claims_not_tasks)                                                              \
    X(release_spares_a_later_claim)                                                                \
    X(release_spares_other_nodes)                                                                  \
    X(release_leaves_what_was_done_meanwhile)                                                      \
    X(release_leaves_what_has_left)                                                                \
    X(release_passes_by_a_locked_row)                                                              \
    /* submit */                                                                                   \
    X(a_newer_stamp_is_accepted)                                                                   \
    X(if_changed_takes_any_change)                                                                 \
    X(a_newer_stamp_is_accepted_or_nothing)                                                        \
    X(a_submit_starts_afresh)                                                                      \
    X(a_submit_starts_at_the_first_stage)                                                          \
    X(a_submit_is_of_one_pipeline)                                                                 \
    X(a_submit_wakes_who_sleeps)                                                                   \
    X(a_submit_waits_for_the_claim_and_sees_it)                                                    \
    X(a_submit_sees_what_changed_while_it_waited)                                                  \
    X(a_submit_is_not_lost_to_a_delete)                                                            \
    X(a_set_names_each_key_once)                                                                   \
    X(names_of_any_kind_are_keys)                                                                  \
    X(a_claimer_says_that_it_is_busy)                                                              \
    X(due_tasks_are_staged)                                                                        \
    X(staging_leaves_what_left_meanwhile)                                                          \
    X(staging_passes_by_a_locked_row)                                                              \
    X(tasks_of_a_stage_that_is_gone_begin_anew)                                                    \
    X(moving_passes_by_a_locked_row)                                                               \
    X(moving_wakes_who_sleeps)                                                                     \
    /* schedules and periods */                                                                    \
    X(ticks_come_from_the_grid)                                                                    \
    X(a_tick_fires_once_with_two_leaders)                                                          \
    X(a_tick_that_was_judged_is_not_judged_again)                                                  \
    X(missed_ticks_are_made_up_for_as_they_should)                                                 \
    X(a_long_absence_is_bounded)                                                                   \
    X(an_overlap_is_skipped_once_a_tick)                                                           \
    X(an_overlap_is_queued)                                                                        \
    X(an_overlap_is_of_its_own_version)                                                            \
    X(a_schedule_survives_what_fails)                                                              \
    X(a_lock_that_is_not_had_loses_no_tick)                                                        \
    X(a_schedule_that_cannot_be_judged_fails_alone)                                                \
    X(a_look_that_fails_takes_no_tick_that_is_to_come)                                             \
    X(a_deadlock_ends_the_look)                                                                    \
    X(what_is_pending_goes_with_its_action)                                                        \
    X(a_pause_holds_and_is_not_made_up_for)                                                        \
    X(a_grid_survives_registering)                                                                 \
    X(an_unknown_zone_is_refused)                                                                  \
    X(a_jitter_is_the_same_whoever_asks)                                                           \
    X(what_takes_too_long_is_cancelled)                                                            \
    X(a_rerun_goes_on_in_batches)                                                                  \
    X(a_rerun_passes_by_what_is_locked)                                                            \
    X(a_rerun_that_goes_on_overlaps)                                                               \
    X(a_scan_is_asked_for)                                                                         \
    X(a_schedule_is_fired_by_hand)                                                                 \
    X(a_schedule_is_fired_where_its_labels_are)                                                    \
    X(a_schedule_that_rests_wakes_nobody)                                                          \
    X(a_task_with_a_period_is_not_forgotten)                                                       \
    X(a_period_runs_a_task_again)                                                                  \
    X(a_period_sends_nothing_back)                                                                 \
    X(a_period_marks_what_runs_and_goes_on_after_a_failure)                                        \
    X(a_cancel_ends_a_period)                                                                      \
    X(a_period_is_set_changed_and_ended)                                                           \
    X(a_period_runs_once_with_two_leaders)                                                         \
    /* lost answers */                                                                             \
    X(endings_sent_again_change_nothing)                                                           \
    X(endings_sent_after_a_rescue_are_refused)                                                     \
    X(duties_sent_again_change_nothing)                                                            \
    /* definitions */                                                                              \
    X(an_inserted_stage_is_not_skipped)                                                            \
    X(a_last_stage_that_is_removed_ends_the_task_before_it)                                        \
    X(stages_in_another_order_are_run_in_that_order)                                               \
    X(a_renamed_stage_keeps_what_is_its)                                                           \
    X(a_refused_definition_renames_nothing)                                                        \
    X(an_earlier_stage_may_have_had_the_name)                                                      \
    X(a_stage_that_has_its_name_is_not_renamed)                                                    \
    /* nodes, leader, batches, fences */                                                           \
    X(an_ended_lease_does_not_revive)                                                              \
    X(leases_end_in_time)                                                                          \
    X(a_dead_peer_is_of_the_same_host)                                                             \
    X(one_node_leads)                                                                              \
    X(leadership_ends_before_the_lease)                                                            \
    X(a_batch_goes_with_its_last_task)                                                             \
    X(nodes_are_forgotten_when_they_hold_nothing)                                                  \
    X(a_node_ends_with_what_it_holds)                                                              \
    X(fences_hold_what_they_check)                                                                 \
    X(fences_lock_what_they_check)                                                                 \
    X(steps_are_required)                                                                          \
    X(a_look_tells_held_applied_and_lost)                                                          \
    X(news_are_of_this_claim)                                                                      \
    X(news_of_a_wish_alone)                                                                        \
    X(folding_keeps_the_sums)                                                                      \
    /* people */                                                                                   \
    X(a_hurried_task_is_claimed_next)                                                              \
    X(a_priority_reaches_whatever_is_not_over)                                                     \
    X(who_is_busy_hears_of_a_hurried_task)                                                         \
    X(a_pause_is_of_what_it_names)                                                                 \
    X(a_pause_is_of_one_pipeline)                                                                  \
    X(a_wait_ends_with_its_version_or_a_newer_one)                                                 \
    X(stats_sent_again_count_once)                                                                 \
    X(folding_keeps_what_stats_say)                                                                \
    X(percentiles_are_near_the_truth)                                                              \
    X(a_claim_tells_how_long_a_task_was_ready)                                                     \
    X(a_wait_of_a_year_is_stored_as_such)                                                          \
    X(each_end_has_its_time)                                                                       \
    X(a_walk_takes_small_steps_and_rests)                                                          \
    X(what_may_be_needed_is_kept)                                                                  \
    X(a_newer_version_is_not_forgotten)                                                            \
    X(two_pruners_do_not_wait_for_each_other)                                                      \
    X(what_is_forgotten_is_new_again)                                                              \
    X(failed_runs_have_their_time)                                                                 \
    X(failed_runs_are_of_their_pipeline)                                                           \
    X(old_revisions_go_when_nobody_runs_them)

#define X(name) bool name(struct world *world);
SCENARIOS(X)
#undef X

/* Ways out of the matrix, as scenarios. */
#define EXIT_SCENARIOS(X)                                                                          \
    X(exit_next_mid, EXIT_NEXT_MID)                                                                \
    X(exit_next_last, EXIT_NEXT_LAST)                                                              \
    X(exit_route, EXIT_ROUTE)                                                                      \
    X(exit_finish, EXIT_FINISH)                                                                    \
    X(exit_delayed, EXIT_DELAYED)                                                                  \
    X(exit_failed, EXIT_FAILED)                                                                    \
    X(exit_release, EXIT_RELEASE)                                                                  \
    X(exit_crash, EXIT_CRASH)                                                                      \
    X(exit_rescue, EXIT_RESCUE)                                                                    \
    X(exit_quarantine, EXIT_QUARANTINE)                                                            \
    X(exit_release_unknown, EXIT_RELEASE_UNKNOWN)

#define X(name, way) bool name(struct world *world);
EXIT_SCENARIOS(X)
#undef X

/* "" when the row is gone. Compared before and after, to see that no column changed. Borrowed until
 * the next reset. */
const char *scenario_row_text(struct world *world, int64_t task);
bool scenario_is(const struct verdict *verdict, const char *answer);

#endif
