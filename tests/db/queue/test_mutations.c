/* I10: every guard in the statements is load-bearing. Each row takes one out, and the scenario that
 * defends it must say no.
 *
 * Guards that only repeat another one are taken out together with it (see `also`): a status that a
 * check constraint ties to a column, a node that a batch and its task name alike. Under "nothing"
 * each scenario holds: see scenarios and exits.
 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <string.h>

#include "scenarios.h"

TestSuite(mutations, .timeout = 600);

#define ONE(where_, from_, to_, scenario_)                                                         \
    { {.where = where_, .from = from_, .to = to_}, scenario_ }
#define TWO(where_, from_, to_, also_from_, also_to_, scenario_)                                   \
    {                                                                                              \
        {.where = where_, .from = from_, .to = to_, .also_from = also_from_, .also_to = also_to_}, \
            scenario_                                                                              \
    }

static const struct trial {
    struct mutation mutation;
    scenario defends;
} trials[] = {
    /* complete: the fence */
    ONE("complete", "where l.status = 'running' and l.claim = i.claim and",
        "where l.status = 'running' and", late_completion_is_refused),
    ONE("complete", "where l.status = 'running' and l.claim", "where l.claim",
        late_completion_of_the_same_claim_is_applied_once),
    ONE("complete", "and l.step between i.first_step and i.first_step + i.count",
        "and l.step <= i.first_step + i.count", predecessor_first),
    ONE("complete", "and l.step between i.first_step and i.first_step + i.count",
        "and l.step >= i.first_step", an_old_chain_takes_nothing_back),
    ONE("complete", " for update of t skip locked) t", ") t", exit_next_last),
    ONE("complete", "for update of t skip locked", "for update of t", a_locked_row_is_busy),
    /* complete: the exit rule */
    ONE("complete", "a.version <> a.claimed_version as newer", "false as newer",
        three_submits_in_a_run_cost_one_more),
    ONE("complete", "pgstage.leave(a.wish, a.newer", "pgstage.leave(null, a.newer", exit_release),
    ONE("complete", "pgstage.leave(a.wish, a.newer, a.run_at",
        "pgstage.leave(a.wish, a.newer, null", a_version_for_later_waits),
    ONE("complete", "case when a.ending = 'stay' then 'stay'",
        "case when a.ending = 'stay' then case when a.newer then 'ready' else 'stay' end",
        a_run_goes_on_while_its_claim_stays),
    ONE("complete", "case when a.ending = 'stay' then 'stay'",
        "case when a.ending = 'stay' then case when a.wish is null then 'stay' else 'ready' end",
        a_run_goes_on_while_its_claim_stays),
    ONE("complete", "wish = case when s.new_status = 'running' then t.wish end", "wish = t.wish",
        exit_release),
    ONE("complete", "wish = case when s.new_status = 'running' then t.wish end", "wish = null",
        a_run_goes_on_while_its_claim_stays),
    ONE("complete", "attempt = case when s.afresh then 0 else s.new_attempt end",
        "attempt = s.new_attempt", exit_delayed),
    ONE("complete", "crashes = case when s.afresh then 0 else s.new_crashes end",
        "crashes = s.new_crashes", exit_crash),
    ONE("complete", "rescues = case when s.afresh then 0 else s.new_rescues end",
        "rescues = s.new_rescues", exit_delayed),
    ONE("complete", "case when a.taken > 0 then 0 else a.old_attempt end", "a.old_attempt",
        exit_next_mid),
    ONE("complete", "case when a.taken > 0 then 0 else a.old_crashes end", "a.old_crashes",
        exit_next_mid),
    ONE("complete", "case when a.taken > 0 then 0 else a.old_rescues end", "a.old_rescues",
        exit_next_mid),
    ONE("complete", "when s.afresh then s.superseded + 1", "when false then 0", exit_release),
    ONE("complete", "when s.next_stage is null then 0\n", "", exit_next_last),
    ONE("complete", "error_text = case when s.afresh then null\n", "error_text = case\n",
        exit_failed),
    ONE("complete", "when s.new_status in ('done', 'ready') then null else t.error_text end",
        "else t.error_text end", an_exit_clears_the_error),
    ONE("complete", "and s.crashes = 0 and not s.newer then s.ready_at",
        "and not s.newer then s.ready_at", a_release_keeps_its_place),
    ONE("complete",
        "when s.new_status = 'ready' and s.taken = 0 and s.ending = 'ready' and s.rescues = 0",
        "when false and s.rescues = 0", a_release_keeps_its_place),
    /* complete: definitions */
    ONE("complete", "and l.step between i.first_step and i.first_step + i.count",
        "and l.step = i.first_step", endings_sent_again_change_nothing),
    ONE("complete", "i.revision = o.revision as agreed", "true as agreed",
        an_older_definition_counts_as_far_as_it_agrees),
    ONE("complete", "and (a.agreed or a.in_hand is not distinct from a.next_stage) as whole",
        "as whole", a_failure_counts_at_its_own_stage_only),
    ONE("complete", "a.taken = a.pending and (a.agreed", "(a.agreed",
        a_failure_counts_at_its_own_stage_only),
    ONE("complete", "+ case when a.whole then a.attempts else 0 end", "+ a.attempts",
        a_failure_counts_at_its_own_stage_only),
    ONE("complete", "when not a.whole or a.ending = 'next' then", "when a.ending = 'next' then",
        a_failure_counts_at_its_own_stage_only),
    ONE("complete", "where s.kind is not null and s.whole and", "where s.kind is not null and",
        a_failure_counts_at_its_own_stage_only),
    ONE("complete", "case when f.position is null then 0\n                when f.agreed",
        "case when f.agreed", a_stage_that_is_gone_is_not_done),
    ONE("complete", "case when a.taken = 0 then a.old_stage end", "null",
        a_stage_that_is_gone_is_not_done),
    ONE("complete", "where u.transition >= s.step - s.first_step and", "where",
        a_chain_sent_again_under_a_new_definition),
    ONE("complete", "and u.transition < s.step - s.first_step + s.taken", "",
        an_older_definition_counts_as_far_as_it_agrees),
    /* complete: what is kept, and answers */
    ONE("complete", "       and o.version < s.claimed_version\n", "", outputs_of_older_versions_go),
    ONE("complete", "and s.claimed_version > 1 and s.next_stage is null",
        "and false and s.next_stage is null", outputs_of_older_versions_go),
    ONE("complete", "and s.claimed_version > 1 and s.next_stage is null and",
        "and s.claimed_version > 1 and", outputs_of_older_versions_go),
    ONE("complete", "done_version = case when s.next_stage is null and", "done_version = case when",
        exit_next_mid),
    ONE("complete", "select s.pipeline, s.new_stage, s.new_status, 1 from settled s",
        "select s.pipeline, s.new_stage, s.new_status, 0 from settled s", exit_release),
    ONE("complete",
        "when l.id is null and exists (select 1 from pgstage.task t where t.id = i.task) then",
        "when l.id is null then", a_row_that_is_gone_is_refused),
    ONE("complete", "and l.claim = i.claim and l.step = i.first_step", "and l.step = i.first_step",
        applied_means_this_very_chain),
    ONE("complete", "and l.claim = i.claim and l.step = i.first_step + i.count\n",
        "and l.claim = i.claim\n", applied_means_this_very_chain),
    ONE("complete", "\n                 and i.ending <> 'stay' then 'applied'", " then 'applied'",
        applied_means_this_very_chain),
    /* claim */
    ONE("claim", "       for update of t skip locked\n", "", claimers_do_not_wait_for_each_other),
    ONE("claim", "for update of t skip locked", "for update of t",
        claimers_do_not_wait_for_each_other),
    ONE("claim", "where t.ready_stage = $1::int", "where t.ready_stage is not null and $1::int > 0",
        only_the_named_stage_is_claimed),
    ONE("claim", "and not s.paused", "", a_paused_stage_is_not_claimed),
    ONE("claim", "and not p.paused", "", a_paused_stage_is_not_claimed),
    ONE("claim", "where n.id = $4::bigint and not n.ended", "where n.id = $4::bigint",
        an_ended_node_claims_nothing),
    ONE("claim", "where n.id = $4::bigint and not n.ended", "where not n.ended",
        an_ended_node_claims_nothing),
    ONE("claim",
        "       and not exists (select 1 from pgstage.claim_batch b where b.claim = $3::bigint)\n",
        "", a_claim_sent_again_takes_nothing),
    ONE("claim", "claimed_version = t.version", "claimed_version = 1",
        a_claim_reads_the_newest_version),
    ONE("claim", ", step = 0,", ",", a_claim_begins_at_step_zero),
    ONE("claim", "     order by t.priority, t.ready_at, t.id", "     order by t.ready_at, t.id",
        claims_follow_the_order),
    ONE("claim", "     order by t.priority, t.ready_at, t.id", "     order by t.priority, t.id",
        claims_follow_the_order),
    ONE("claim", "limit $2::int", "limit $2::int + 100", claims_follow_the_order),
    ONE("claim", "having count(*) > 0", "", a_claim_of_nothing_leaves_nothing),
    ONE("claim", " and o.version = c.version", "", an_input_is_of_this_version),
    ONE("claim", "(values ('ready', -1), ('running', 1))", "(values ('running', 1))",
        a_claim_reads_the_newest_version),
    ONE("claim", "($5::int, $6::timestamptz - interval '1 second')", "($5::int, $6::timestamptz)",
        a_claim_goes_on_at_a_tie),
    /* rescue */
    ONE("rescue", "and t.status = 'running' and t.claim", "and t.claim",
        rescue_leaves_what_has_left),
    ONE("rescue", "and t.status = 'running' and t.claim = h.claim", "and t.status = 'running'",
        rescue_counts_a_task_once),
    TWO("rescue", "where n.id = b.node and not n.ended", "where false",
        "where n.id = t.node and not n.ended", "where false", rescue_takes_from_ended_nodes_only),
    TWO("rescue", "where n.id = b.node and not n.ended", "where n.id = b.node",
        "where n.id = t.node and not n.ended", "where n.id = t.node",
        rescue_takes_from_ended_nodes_only),
    ONE("rescue", "             for update of t skip locked) t", ") t",
        rescue_leaves_what_was_done_meanwhile),
    ONE("rescue", "             for update of t skip locked) t", ") t",
        rescue_leaves_what_was_claimed_anew_meanwhile),
    ONE("rescue", "for update of t skip locked", "for update of t", rescue_passes_by_a_locked_row),
    ONE("rescue", "pgstage.leave(k.wish, k.version <> k.claimed_version",
        "pgstage.leave(k.wish, false", exit_rescue),
    ONE("rescue", "pgstage.leave(k.wish", "pgstage.leave(null", exit_rescue),
    ONE("rescue", "k.claimed_version, k.run_at,\n                                       case",
        "k.claimed_version, null,\n case", a_version_for_later_waits),
    ONE("rescue", "case when k.rescues >= 9 then 'failed' else 'ready' end", "'ready'",
        exit_quarantine),
    ONE("rescue", "and k.wish is null as afresh", "as afresh", exit_rescue),
    ONE("rescue", "case when k.afresh then 0 else t.rescues + 1 end", "t.rescues + 1", exit_rescue),
    ONE("rescue", "case when k.afresh then 0 else t.attempt end", "t.attempt + 1", exit_rescue),
    ONE("rescue", "           wish = null, updated", "           updated", exit_rescue),
    ONE("rescue", "limit $1::int", "limit $1::int + 100", rescue_takes_a_few_at_a_time),
    ONE("rescue", "from settled k where k.status = 'failed'", "from settled k where false",
        exit_quarantine),
    /* release_unknown */
    ONE("release_unknown", "where k.task = u.task and k.claim = b.claim", "where false",
        release_spares_what_is_known),
    ONE("release_unknown", "where k.task = u.task and k.claim = b.claim", "where k.task = u.task",
        release_knows_claims_not_tasks),
    ONE("release_unknown", "and t.status = 'running' and t.claim", "and t.claim",
        release_leaves_what_has_left),
    ONE("release_unknown", "t.claim = h.claim and t.node", "t.node", release_spares_a_later_claim),
    TWO("release_unknown", "where b.node = $1::bigint", "where true", "and t.node = $1::bigint",
        "and $1::bigint > 0", release_spares_other_nodes),
    ONE("release_unknown", "             for update of t skip locked) t", ") t",
        release_leaves_what_was_done_meanwhile),
    ONE("release_unknown", "for update of t skip locked", "for update of t",
        release_passes_by_a_locked_row),
    ONE("release_unknown", "pgstage.leave(k.wish, k.version <> k.claimed_version",
        "pgstage.leave(k.wish, false", exit_release_unknown),
    ONE("release_unknown", "pgstage.leave(k.wish", "pgstage.leave(null", exit_release_unknown),
    ONE("release_unknown", "k.claimed_version, k.run_at, 'ready'",
        "k.claimed_version, null, 'ready'", a_version_for_later_waits),
    ONE("release_unknown", "and k.wish is null as afresh", "as afresh", exit_release_unknown),
    ONE("release_unknown", "           wish = null, updated", "           updated",
        exit_release_unknown),
    ONE("release_unknown", "ready_at = case when k.afresh then pgstage.now() else t.ready_at end",
        "ready_at = pgstage.now()", a_release_keeps_its_place),
    /* the stager */
    ONE("stage_due", "where t.due_at <= pgstage.now() and", "where", due_tasks_are_staged),
    TWO("stage_due", "       for update of t skip locked\n", "",
        "where t.id = due.id and t.status = 'delayed'", "where t.id = due.id",
        staging_leaves_what_left_meanwhile),
    ONE("stage_due", "for update of t skip locked", "for update of t",
        staging_passes_by_a_locked_row),
    ONE("stage_due", "ready_at = due.due_at", "ready_at = pgstage.now()", due_tasks_are_staged),
    ONE("stage_due", "(values ('delayed', -1), ('ready', 1))", "(values ('ready', 1))",
        due_tasks_are_staged),
    /* the mover */
    ONE("move_stranded", "     where s.id <> all (o.stages)\n", "",
        tasks_of_a_stage_that_is_gone_begin_anew),
    ONE("move_stranded", "attempt = 0, crashes = 0, rescues = 0", "crashes = 0, rescues = 0",
        tasks_of_a_stage_that_is_gone_begin_anew),
    ONE("move_stranded", "crashes = 0, rescues = 0, superseded", "superseded",
        tasks_of_a_stage_that_is_gone_begin_anew),
    ONE("move_stranded", "error_text = null, ", "", tasks_of_a_stage_that_is_gone_begin_anew),
    ONE("move_stranded", "rescues = 0, superseded = 0", "rescues = 0",
        tasks_of_a_stage_that_is_gone_begin_anew),
    ONE("move_stranded", "select pgstage.wake(array_agg(distinct m.stage))",
        "select array_agg(distinct m.stage)", moving_wakes_who_sleeps),
    ONE("move_stranded", "             for update of t skip locked) t", "             for update of t) t",
        moving_passes_by_a_locked_row),
    ONE("move_stranded", "'ready', sum(d.n)", "'ready', 1",
        tasks_of_a_stage_that_is_gone_begin_anew),
    /* leases and leadership */
    ONE("beat", "and not ended and lease_until", "and lease_until", an_ended_lease_does_not_revive),
    ONE("beat", " and lease_until > pgstage.now() returning", " returning",
        an_ended_lease_does_not_revive),
    ONE("beat", "where id = $1::bigint and", "where $1::bigint > 0 and",
        an_ended_lease_does_not_revive),
    ONE("end_leases", "where not ended and lease_until <= pgstage.now()", "where not ended",
        leases_end_in_time),
    ONE("end_leases", "where not ended and", "where", leases_end_in_time),
    ONE("end_nodes", "and host = $2::text", "and $2::text is not null",
        a_dead_peer_is_of_the_same_host),
    ONE("end_nodes", "and id = any($1::bigint[])", "and $1::bigint[] is not null",
        an_ended_lease_does_not_revive),
    ONE("node_peers", "and not ended", "", a_dead_peer_is_of_the_same_host),
    ONE("node_peers", "where host = $1::text and", "where $1::text is not null and",
        a_dead_peer_is_of_the_same_host),
    ONE("lead", "where l.until <= pgstage.now() or l.node = excluded.node", "", one_node_leads),
    ONE("lead", "where l.until <= pgstage.now() or l.node", "where l.node", one_node_leads),
    ONE("lead", "l.until <= pgstage.now() or l.node = excluded.node", "l.until <= pgstage.now()",
        one_node_leads),
    ONE("lead", "when l.node = excluded.node and l.until > pgstage.now() then",
        "when l.node = excluded.node then", one_node_leads),
    ONE("lead", "where n.id = $1::bigint and not n.ended", "where n.id = $1::bigint",
        one_node_leads),
    ONE("lead_end", " where node = $1::bigint", " where $1::bigint > 0", one_node_leads),
    ONE("node_end", "update pgstage.node set ended = true where id = $1::bigint",
        "delete from pgstage.node where false and id = $1::bigint", a_node_ends_with_what_it_holds),
    ONE("node_end",
        "       and not exists (select 1 from pgstage.task t\n                        where t.id = "
        "any(b.ids) and t.status = 'running' and t.claim = b.claim offset 0)\n",
        "", a_node_ends_with_what_it_holds),
    /* batches */
    ONE("drop_claims",
        "   and not exists (select 1 from pgstage.task t\n                    where t.id = "
        "any(b.ids) and t.status = 'running' and t.claim = b.claim offset 0)",
        "", a_batch_goes_with_its_last_task),
    ONE("drop_claims", "and t.status = 'running'", "", a_batch_goes_with_its_last_task),
    ONE("drop_claims", " and t.claim = b.claim", "", a_batch_goes_with_its_last_task),
    ONE("drop_claims", "where b.node = $1::bigint and", "where $1::bigint > 0 and",
        a_batch_goes_with_its_last_task),
    ONE("drop_empty_claims",
        "   and not exists (select 1 from pgstage.task t\n                    where t.id = "
        "any(b.ids) and t.status = 'running' and t.claim = b.claim offset 0)",
        "", a_batch_goes_with_its_last_task),
    ONE("drop_empty_claims", "and b.claim <> all($2::bigint[])", "and $2::bigint[] is not null",
        a_batch_goes_with_its_last_task),
    ONE("drop_empty_claims", "where b.node = $1::bigint and", "where $1::bigint > 0 and",
        a_batch_goes_with_its_last_task),
    ONE("forget_nodes", "where n.id = b.node and not n.ended", "where false",
        nodes_are_forgotten_when_they_hold_nothing),
    ONE("forget_nodes",
        "       and not exists (select 1 from pgstage.task t\n                        where t.id = "
        "any(b.ids) and t.status = 'running' and t.claim = b.claim offset 0)\n",
        "", nodes_are_forgotten_when_they_hold_nothing),
    ONE("forget_nodes", " and not exists (select 1 from pgstage.claim_batch b where b.node = n.id)",
        "", nodes_are_forgotten_when_they_hold_nothing),
    ONE("forget_nodes", "where n.ended and", "where", nodes_are_forgotten_when_they_hold_nothing),
    /* effects */
    ONE("pgstage.hold_fences", "where t.status = 'running' and t.claim", "where t.claim",
        fences_hold_what_they_check),
    ONE("pgstage.hold_fences", "and t.claim = u.claim", "", fences_hold_what_they_check),
    ONE("pgstage.hold_fences", "and t.step between u.first_step and u.last_step",
        "and t.step >= u.first_step", fences_hold_what_they_check),
    ONE("pgstage.hold_fences", "and t.step between u.first_step and u.last_step",
        "and t.step <= u.last_step", fences_hold_what_they_check),
    ONE("pgstage.hold_fences", " for update of t", "", fences_lock_what_they_check),
    ONE("pgstage.hold_fences", "is distinct from 'on'", "= 'off'", fences_hold_what_they_check),
    ONE("pgstage.require_steps", "t.claim = u.claim and", "", steps_are_required),
    ONE("pgstage.require_steps", " and t.step = u.step", "", steps_are_required),
    ONE("look_at_fences", "when t.claim is distinct from u.claim then 'lost'",
        "when false then 'lost'", a_look_tells_held_applied_and_lost),
    ONE("look_at_fences", "and (t.status = 'running') = (u.ending = 'stay')", "",
        a_look_tells_held_applied_and_lost),
    ONE("look_at_fences", "when t.status = 'running' and t.step", "when t.step",
        a_look_tells_held_applied_and_lost),
    ONE("look_at_fences", "and t.step between u.first_step and u.first_step + u.count - 1", "",
        a_look_tells_held_applied_and_lost),
    ONE("look_at_fences", "- 1 and d.agrees", "- 1", a_look_tells_held_applied_and_lost),
    ONE("told", "and t.claim = u.claim", "", news_are_of_this_claim),
    ONE("told", "where t.status = 'running' and t.claim = u.claim and (t.version",
        "where t.claim = u.claim and (false and t.version", news_are_of_this_claim),
    ONE("told", " or t.wish is not null)", ")", news_of_a_wish_alone),
    /* counts */
    ONE("fold_counts", "set n = c.n + excluded.n", "set n = excluded.n", folding_keeps_the_sums),
    ONE("fold_stats", "where z.minute <= pgstage.now() - interval '1 day'", "where false",
        folding_keeps_the_sums),
    /* submit */
    ONE("pgstage.submit_set", "where l.stamp > l.old_stamp", "where l.stamp >= l.old_stamp",
        a_newer_stamp_is_accepted),
    ONE("pgstage.submit_set", "where l.stamp > l.old_stamp", "where true",
        a_newer_stamp_is_accepted),
    ONE("pgstage.submit_set", "l.stamp <> l.old_stamp or ", "", if_changed_takes_any_change),
    ONE("pgstage.submit_set", " or l.payload is distinct from l.old_payload", "",
        if_changed_takes_any_change),
    ONE("pgstage.submit_set", "l.payload is distinct from l.old_payload",
        "l.payload <> l.old_payload", if_changed_takes_any_change),
    ONE("pgstage.submit_set", "or (if_changed and (", "or (true and (",
        a_newer_stamp_is_accepted_or_nothing),
    ONE("pgstage.submit_set", "set version = t.version + 1,", "set version = t.version,",
        a_submit_starts_afresh),
    ONE("pgstage.submit_set", "status = case when t.status = 'running' then t.status when w.later",
        "status = case when w.later", a_run_goes_on_while_its_claim_stays),
    ONE("pgstage.submit_set",
        "stage = case when t.status = 'running' then t.stage else first_stage end",
        "stage = t.stage", a_submit_starts_at_the_first_stage),
    ONE("pgstage.submit_set", "wish = null, priority", "priority", exit_release),
    ONE("pgstage.submit_set", "attempt = case when t.status = 'running' then t.attempt else 0 end",
        "attempt = t.attempt", a_submit_starts_afresh),
    ONE("pgstage.submit_set", "crashes = case when t.status = 'running' then t.crashes else 0 end",
        "crashes = t.crashes", a_submit_starts_afresh),
    ONE("pgstage.submit_set", "rescues = case when t.status = 'running' then t.rescues else 0 end",
        "rescues = t.rescues", a_submit_starts_afresh),
    ONE("pgstage.submit_set", "attempt = case when t.status = 'running' then t.attempt else 0 end",
        "attempt = 0", exit_delayed),
    ONE("pgstage.submit_set", "payload = w.payload,", "", a_submit_starts_afresh),
    ONE("pgstage.submit_set", "order by t.key for update of t", "order by t.key",
        a_submit_sees_what_changed_while_it_waited),
    ONE("pgstage.submit_set", "for pass in 1 .. 100 loop", "for pass in 1 .. 1 loop",
        a_submit_is_not_lost_to_a_delete),
    ONE("pgstage.submit_set", "where t.pipeline = pipeline_id order", "where true order",
        a_submit_is_of_one_pipeline),
    ONE("pgstage.submit_set", "having count(*) > 1 limit 1", "having count(*) > 2 limit 1",
        a_set_names_each_key_once),
    ONE("pgstage.leave", "when newer and run_at > pgstage.now() then 'delayed'\n", "\n",
        a_version_for_later_waits),
    ONE("pgstage.leave", "case when wish = 'cancel' then 'cancelled' when newer and",
        "case when newer and", exit_release),
    ONE("pgstage.leave",
        "case when wish = 'cancel' or not newer then want_stage else first_stage end", "want_stage",
        exit_failed),
    ONE("pgstage.leave", "case when wish = 'cancel' or not newer then", "case when not newer then",
        exit_release),
    ONE("pgstage.wake", "and s.busy_until < pgstage.now()", "and s.busy_until > pgstage.now()",
        a_submit_wakes_who_sleeps),
};

enum { GROUP = 15, TRIALS = sizeof trials / sizeof *trials };

ParameterizedTestParameters(mutations, are_noticed) {
    static int firsts[(TRIALS + GROUP - 1) / GROUP];
    for (int i = 0; i * GROUP < TRIALS; i++) {
        firsts[i] = i * GROUP;
    }
    return cr_make_param_array(int, firsts, sizeof firsts / sizeof *firsts);
}

/* A statement that is refused as such says nothing about its guard. */
static bool is_broken(const char *why) {
    static const char *const states[] = {" 42601 ", " 42703 ", " 42804 ",
                                         " 42883 ", " 42P18 ", " 08P01 "};
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        if (strstr(why, states[i]) != NULL) {
            return true;
        }
    }
    return false;
}

ParameterizedTest(int *first, mutations, are_noticed, .timeout = 600) {
    struct world *world = world_open();
    for (int i = *first; i < TRIALS && i < *first + GROUP; i++) {
        const struct trial *trial = &trials[i];
        world_reset(world);
        world_mutate(world, &trial->mutation);
        bool held = trial->defends(world) && world->why[0] == '\0';
        cr_expect_not(held, "nobody notices that %s has '%s' for '%s'", trial->mutation.where,
                      trial->mutation.to, trial->mutation.from);
        cr_expect_not(is_broken(world->why), "%s with '%s' for '%s' is no SQL: %s",
                      trial->mutation.where, trial->mutation.to, trial->mutation.from, world->why);
        world_mutate(world, NULL);
    }
    world_close(world);
}
