/* answer.c - what a tick's answer means for the tasks that it names: verdicts, claimed rows, news, refused content. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "scheduler/state.h"

static void count_end(struct scheduler *s, const struct store_verdict *verdict) {
    s->done_tasks += verdict->done;
    s->failed_tasks += verdict->failed;
}

/* A row that has left stands ready: at the stage in hand again, or where its chain did not expect it. */
static void expect_after_exit(const struct held *h, const struct store_verdict *verdict) {
    const struct sched_pipeline *pipeline = h->stage->pipeline;
    int position = h->first_position + h->count;
    position = position < pipeline->stage_count && h->sent_ending != STORE_FINISH ? position : pipeline->stage_count - 1;
    int expected = h->sent_ending == STORE_ROUTE ? h->route_stage : pipeline->stages[position].id;
    bool was_all = h->sent_ending == STORE_FINISH || h->first_position + h->count >= pipeline->stage_count;
    if (h->sent_ending == STORE_RELEASE || h->superseded || expected != verdict->stage || (was_all && !verdict->done)) {
        stage_expect_row(h->stage, verdict->stage);
    }
}

void answer_verdict(struct scheduler *s, struct held *h, const struct store_verdict *verdict, int64_t now) {
    if (h->lost) {
        held_free_if_lost(s, h);
        return;
    }
    switch (verdict->answer) {
    case STORE_BUSY:
        /* Somebody's transaction has the row, perhaps for long: the others do not wait for it, nor do we spin. */
        h->busy_delay_ms = plan_poll_delay_ms(h->busy_delay_ms, false);
        h->not_before_ms = now + h->busy_delay_ms;
        return;
    case STORE_REFUSED:
        log_event(LOG_INFO, "claim.lost", "task=%lld claim=%lld", (long long)h->task, (long long)h->claim);
        held_lose(s, h);
        tick_doubt(s, now);
        return;
    case STORE_APPLIED:
        count_end(s, verdict);
        expect_after_exit(h, verdict);
        held_lose(s, h);
        return;
    case STORE_ACCEPTED:
        break;
    }
    h->busy_delay_ms = h->not_before_ms = 0;
    if (!verdict->running) {
        count_end(s, verdict);
        expect_after_exit(h, verdict);
        held_lose(s, h);
        return;
    }
    int accepted = verdict->step - h->step;
    bool kept = h->sent_ending == STORE_KEEP && accepted == h->count;
    if ((h->sent_ending != STORE_STAY && !kept) || accepted < 0 || accepted > h->count) {
        held_lose(s, h);
        tick_doubt(s, now);
        return;
    }
    if (kept) {
        held_go_on(s, h, verdict->stage);
        return;
    }
    held_accept(h, accepted);
    int position = h->first_position;
    bool agrees = position < h->stage->pipeline->stage_count &&
                  h->stage->pipeline->stages[position].id == verdict->stage;
    if (!agrees && h->state == HELD_ENDED) {
        return; /* what follows is judged when it is sent */
    }
    if (!agrees) {
        /* The pipeline's definition has changed: what runs here is not what comes next. The row stays ours until it is
         * over. */
        held_cut(s, h, &(struct plan_failure){.ending = STORE_RELEASE}, NULL);
    }
}

static void hold_claimed(struct scheduler *s, const struct asked *asked, const struct store_claimed *claimed) {
    if (claimed->count == 0) {
        return;
    }
    struct stage *stage = asked->stage;
    struct claim_use *use = mem_alloc(sizeof *use);
    use->claim = asked->claim;
    use->tasks = claimed->count;
    map_put(&s->claims, use->claim, use);
    int64_t bytes = 0;
    for (int i = 0; i < claimed->count; i++) {
        const struct store_task *row = &claimed->tasks[i];
        bytes += (int64_t)(row->payload.length + row->input.length + row->inputs.length);
        struct held *h = held_new(s, stage, row, asked->claim);
        if (h->alone) {
            log_event(LOG_INFO, "task.alone", "pipeline=%s stage=%s task=%lld crashes=%d rescues=%d",
                      stage->pipeline->name, stage->spec->name, (long long)h->task, h->crashes, h->rescues);
        }
    }
    if (!asked->fair) {
        const struct store_task *last = &claimed->tasks[claimed->count - 1];
        stage->from_priority = last->priority;
        snprintf(stage->from_ready_at, sizeof stage->from_ready_at, "%s", last->ready_at);
    }
    int64_t mean = bytes / claimed->count + 1;
    stage->mean_bytes = mean > stage->mean_bytes ? mean : (stage->mean_bytes * 7 + mean) / 8;
}

void answer_claimed(struct scheduler *s, const struct asked *asked, const struct store_claimed *claimed, int count,
                    int64_t now) {
    struct stage *stage = asked->stage;
    int wanted = 0, got = 0, fair_wanted = 0, fair_got = 0;
    bool busy = false;
    for (int i = 0; i < count; i++) {
        hold_claimed(s, &asked[i], &claimed[i]);
        wanted += asked[i].count;
        got += claimed[i].count;
        fair_wanted += asked[i].fair ? asked[i].count : 0;
        fair_got += asked[i].fair ? claimed[i].count : 0;
        busy = busy || claimed[i].busy;
    }
    if (!busy) {
        stage->credit = plan_fair_credit(stage->credit, stage->spec->share_percent, got, fair_got, fair_wanted);
    }
    stage->last_claim_ms = now;
    stage->hand_overs = 0;
    stage->last_claim_short = got < wanted;
    stage->last_claim_empty = got == 0 && !busy;
    stage->poll_delay_ms = plan_poll_delay_ms(got > 0 || busy ? 0 : stage->poll_delay_ms, !stage->last_claim_short);
    stage->next_poll_ms = now + stage->poll_delay_ms;
    if (stage->expected) {
        stage_expect(stage); /* this claim may have come too early for what was announced meanwhile */
    }
}

void answer_told(struct scheduler *s, const struct store_told *told, int64_t now) {
    struct held *h = map_get(&s->by_task, told->task);
    if (h == NULL || h->lost || h->claim != told->claim) {
        return;
    }
    enum sched_on_update policy = h->stage->pipeline->on_update;
    h->keep = h->keep || (told->superseded && policy == SCHED_FINISH);
    bool superseded = told->superseded && !h->keep;
    bool news = (told->cancelled && !h->cancelled) || (superseded && !h->superseded);
    h->cancelled = told->cancelled;
    h->superseded = superseded;
    if (!news) {
        return;
    }
    if (h->state == HELD_RUNNING && !h->cut) {
        s->workers->tell(h->stage->pool, h->run, h->cancelled, h->superseded);
        bool must_end = h->cancelled || (h->superseded && policy == SCHED_INTERRUPT);
        if (must_end && h->interrupt_at_ms == 0) {
            h->interrupt_at_ms = now + h->stage->spec->grace_ms;
        }
    } else if (h->state == HELD_QUEUED && (h->cancelled || h->superseded) && !h->effect_open) {
        held_end(h, STORE_RELEASE);
    } else if (h->state == HELD_EFFECT && h->cancelled && !h->effect_open) {
        held_dequeue(h);
        shared_text_drop(h->outputs[--h->count]);
        held_end(h, STORE_RELEASE);
    }
}

/* A tick was refused for what is in it: look for the chain by halving, then blame the one that stands alone. */
void answer_bad_content(struct scheduler *s, const struct store_tick_answer *answer) {
    int bad = answer->bad_chain >= 0 ? answer->bad_chain : s->tick_chains == 1 ? 0 : -1;
    if (s->tick_chains == 0) {
        log_event(LOG_ERROR, "tick.refused", "chains=0 reason=%s", log_text(answer->error.text));
        return;
    }
    if (bad < 0) {
        s->chain_limit = s->tick_chains > 1 ? s->tick_chains / 2 : 1;
        log_event(LOG_WARN, "tick.refused", "chains=%d reason=%s", s->tick_chains, log_text(answer->error.text));
        return;
    }
    s->chain_limit = 0;
    struct held *h = s->tick_held[bad];
    log_event(LOG_WARN, "task.unstorable", "task=%lld reason=%s", (long long)h->task, log_text(answer->error.text));
    if (!h->lost) {
        held_cut(s, h, &(struct plan_failure){.ending = STORE_FAILED, .attempts = 1, .kind = "output"},
                 answer->error.text);
    }
}
