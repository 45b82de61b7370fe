/* each_call.c - a handler's life with each event at each of its SDK calls, and the search for leaks.
 *
 * What a run leaves in memory for good looks like a leak once, a leak each time: only what grows by each of several equal
 * runs is one.
 */
#include <stdio.h>
#include <string.h>

#include "kit.h"

enum { REPEATS = 5 };

/* Units: bytes that one run, with its worker's life around it, left behind; what `check` keeps is not counted. */
static long long growth(pgstage_test *test, bool *is_checked, pgstage_test_check check, void *context) {
    kit_forget_run(test);
    long long before = kit_memory_in_use(), kept = 0;
    bool ran = kit_run_afresh(test);
    *is_checked = ran && atomic_load(&test->happened) != 0;
    if (*is_checked && check != NULL) {
        long long before_check = kit_memory_in_use();
        check(test, test->events, test->at_call, context);
        kit_forget_parsed(test);
        kept = kit_memory_in_use() - before_check;
    }
    kit_forget_run(test);
    return kit_memory_in_use() - before - kept;
}

/* Units: bytes a run; 0: none. */
static size_t steady_growth(pgstage_test *test) {
    long long least = 0;
    for (int i = 0; i < REPEATS; i++) {
        bool is_checked;
        long long grown = growth(test, &is_checked, NULL, NULL);
        if (grown <= 0) {
            return 0;
        }
        least = i == 0 || grown < least ? grown : least;
    }
    return (size_t)least;
}

size_t pgstage_test_leaked_bytes(pgstage_test *test) {
    bool is_checked;
    return growth(test, &is_checked, NULL, NULL) > 0 ? steady_growth(test) : 0;
}

static const char *name_of(unsigned event) {
    switch (event) {
    case PGSTAGE_TEST_CANCEL:
        return "a cancel";
    case PGSTAGE_TEST_DEADLINE:
        return "a time-out";
    case PGSTAGE_TEST_SUPERSEDE:
        return "a newer version";
    case PGSTAGE_TEST_NO_MEMORY:
        return "no memory";
    default:
        return "several events";
    }
}

const char *pgstage_test_injected(const pgstage_test *test) {
    pgstage_test *to = (pgstage_test *)test; /* where the words are kept does not matter to anyone */
    to->injected[0] = '\0';
    if (atomic_load(&test->happened) != 0) {
        snprintf(to->injected, sizeof to->injected, "%s at call %d, %s", name_of(test->events), test->at_call, test->function);
    }
    return test->injected;
}

const char *pgstage_test_problem(const pgstage_test *test) {
    return test->problem;
}

/* 1: it was checked, 0: it was not reached. */
static int try_event(pgstage_test *test, unsigned event, int call, pgstage_test_check check, void *context) {
    bool is_checked;
    pgstage_test_inject(test, event, call);
    size_t leaked = growth(test, &is_checked, check, context) > 0 ? steady_growth(test) : 0;
    if (leaked == 0) {
        return is_checked;
    }
    snprintf(test->problem, sizeof test->problem, "the handler leaks %zu bytes after %s at call %d, %s", leaked,
             name_of(event), call, is_checked ? test->function : "which it did not come to");
    return PGSTAGE_TEST_LEAK;
}

static int count_calls(pgstage_test *test) {
    pgstage_test_inject(test, 0, 0);
    bool started = kit_run_afresh(test);
    int calls = started ? atomic_load(&test->calls) : 0;
    kit_forget_run(test);
    return calls < PGSTAGE_TEST_CALLS_MAX ? calls : PGSTAGE_TEST_CALLS_MAX;
}

int pgstage_test_each_call(pgstage_test *test, unsigned events, pgstage_test_check check, void *context) {
    unsigned events_before = test->events;
    int call_before = test->at_call, checked = 0;
    test->problem[0] = '\0';
    pgstage_test_inject(test, events, 1);
    const int calls = count_calls(test);
    for (unsigned event = 1; event < PGSTAGE_TEST_ALL_EVENTS && checked >= 0; event <<= 1) {
        for (int call = 1; (events & event) != 0 && call <= calls && checked >= 0; call++) {
            int result = try_event(test, event, call, check, context);
            checked = result < 0 ? result : checked + result;
        }
    }
    pgstage_test_inject(test, events_before, call_before);
    return checked;
}
