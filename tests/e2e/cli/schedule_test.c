/* schedule_test.c - pgstage schedule, and submit --every. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"

static void begin(void) {
    cli_begin();
    write_file("cron.yaml", "pipeline: cron\nschedule:\n"
                            "  - {name: sweep, cron: '30 2 * * *', timezone: Europe/Oslo, do: {submit: {key: 'sweep/{tick}'}}}\n"
                            "  - {name: again, every: 1h, do: rerun}\n"
                            "stages: [{name: a, sql: select 1}]\n");
    cli_prints("pipeline 'cron' is at revision 1\n", "apply cron.yaml");
}

TestSuite(schedule, .init = begin, .fini = cli_end, .timeout = 120);

Test(schedule, is_listed_with_its_next_and_last_tick) {
    struct run *run = cli("schedule");
    cr_expect_eq(run->status, 0, "%s", run->err);
    cr_expect(has(run->out, "cron/again  every 1h"), "%s", run->out);
    cr_expect(has(run->out, "cron/sweep  30 2 * * * Europe/Oslo  submit  2"), "%s", run->out);
    run = cli("schedule fire cron sweep");
    cr_expect(run->status == 0 && has(run->out, "fired: sweep/2"), "%s%s", run->out, run->err);
    run = cli("schedule list cron --json");
    cr_expect(has(run->out, "\"schedule\":\"sweep\",\"spec\":\"30 2 * * *\",\"timezone\":\"Europe/Oslo\",\"do\":\"submit\","
                            "\"paused\":false,\"next\":\"2"), "%s", run->out);
    cr_expect(has(run->out, "\"outcome\":\"fired\",\"task\":\"sweep/2"), "%s", run->out);
    cr_expect_eq(number("select count(*) from pgstage.task where key like 'sweep/%Z'"), 1);
}

Test(schedule, is_paused_also_over_a_new_definition) {
    cli_prints("schedule 'again' is paused\n", "schedule pause cron again");
    shell("echo '# changed' >>cron.yaml");
    cli("apply cron.yaml");
    struct run *run = cli("schedule list cron");
    cr_expect(has(run->out, "rerun   paused"), "%s", run->out);
    cli_prints("{\"pipeline\":\"cron\",\"schedule\":\"again\",\"paused\":false}\n", "schedule resume cron again --json");
    cr_expect_eq(number("select count(*) from pgstage.schedule where paused"), 0);
}

Test(schedule, names_what_is_wrong) {
    cli_refuses(2, "pgstage: pipeline 'cron' has no schedule 'sweeb'; did you mean 'sweep'?", "schedule fire cron sweeb");
    cli_refuses(2, "pgstage: there is no pipeline 'corn'; did you mean 'cron'?", "schedule pause corn sweep");
    cli_refuses(2, "pgstage schedule: pause wants a pipeline and the name of a schedule", "schedule pause cron");
    cli_refuses(2, "pgstage schedule: 'cron' is not list, pause, resume or fire", "schedule cron sweep");
    cli_refuses(2, "pgstage schedule: unexpected argument 'sweep'", "schedule list cron sweep");
    cli_refuses(2, "pgstage: there is no pipeline 'corn'; did you mean 'cron'?", "schedule list corn");
    cli_refuses(2, "pgstage: pipeline 'cron' has no schedule 'xyz'; pgstage schedule list cron shows what there is",
                "schedule resume cron xyz");
    shell("sed -i 's,Europe/Oslo,Europe/Osl,' cron.yaml");
    struct run *run = cli("apply cron.yaml");
    cr_expect_eq(run->status, 2);
    cr_expect(has(run->err, "the database knows no time zone \"Europe/Osl\""), "%s", run->err);
    cr_expect_eq(number("select revision from pgstage.pipeline where name = 'cron'"), 1);
}

/* What a person made of a task is not undone by the next tick; a priority in the file is. */
Test(schedule, a_tick_leaves_the_priority_of_its_task) {
    write_file("cron.yaml", "pipeline: cron\nschedule:\n"
                            "  - {name: keeps, every: 52w, do: {submit: {key: mine}}}\n"
                            "  - {name: sets, every: 52w, do: {submit: {key: yours, priority: -7}}}\n"
                            "stages: [{name: a, sql: select 1}]\n");
    cli_prints("pipeline 'cron' is at revision 2\n", "apply cron.yaml");
    for (int i = 0; i < 2; i++) {
        cr_expect_eq(cli("schedule fire cron keeps")->status, 0);
        cr_expect_eq(cli("schedule fire cron sets")->status, 0);
        cr_expect_eq(number("select priority from pgstage.task where key = 'mine'"), i == 0 ? 0 : 5);
        cr_expect_eq(number("select priority from pgstage.task where key = 'yours'"), -7);
        cr_expect_eq(cli("priority cron 5 mine yours")->status, 0);
    }
}

Test(schedule, a_task_has_a_period_of_its_own) {
    cli_prints("new (version 1)\n", "submit cron k --every 6h");
    struct run *run = cli("show cron k");
    cr_expect(has(run->out, "\nagain      2"), "%s", run->out);
    run = cli("show cron k --json");
    cr_expect(has(run->out, "\"every_ms\": 21600000"), "%s", run->out);
    run = cli("run cron.yaml --until-idle --log error");
    cr_expect_eq(run->status, 0, "%s", run->err);
    run = cli("cancel cron k");
    cr_expect_eq(run->status, 0, "%s", run->err);
    cr_expect_eq(number("select count(*) from pgstage.periodic"), 0, "the period goes on");
    shell("printf '%%s\\n' '{\"key\": \"a\", \"every\": \"1h\"}' '{\"key\": \"b\"}' '{\"key\": \"c\", \"every\": \"2h\"}' >lines");
    cli_prints("3 submitted: 3 new, 0 updated, 0 unchanged\n", "submit cron --from lines");
    cr_expect_eq(number("select sum(every_ms) from pgstage.periodic"), 3 * 3600000);
    cli("submit cron a --every none");
    cr_expect_eq(number("select count(*) from pgstage.periodic"), 1);
    cli_refuses(2, "pgstage submit: --every wants a duration from 1s to 52w, like 6h, or none, not 'soon'",
                "submit cron k --every soon");
    shell("echo '{\"key\": \"a\", \"every\": 5}' >lines");
    run = cli("submit cron --from lines");
    cr_expect(has(run->err, "lines:1: every wants a duration"), "%s", run->err);
}

static void expect_once_with_payload(const char *key) {
    char sql[160];
    snprintf(sql, sizeof sql, "select count(*) from pgstage.task where key = '%s' and version = 1 and payload is not null", key);
    cr_expect_eq(number(sql), 1, "'%s' was submitted again", key);
}

/* The first words, up to the instant. */
static void expect_begins(const struct run *run, const char *words) {
    cr_expect_eq(run->status, 0, "%s", run->err);
    cr_expect_eq(strncmp(run->out, words, strlen(words)), 0, "%s: %s%s", words, run->out, run->err);
}

Test(schedule, a_period_alone_submits_no_document_that_is_there) {
    cli_prints("new (version 1)\n", "submit cron k --payload 1 --updated-at 2026-01-01T00:00:00Z");
    cli_prints("no period\n", "submit cron k --every none");
    expect_begins(cli("submit cron k --every 90m"), "period: every 1h30m, next at 2");
    expect_begins(cli("submit cron k --every 2h"), "period: every 2h, next at 2");
    cr_expect_eq(number("select every_ms from pgstage.periodic"), 7200000);
    /* A document that is not newer is left alone, and its period is not. */
    struct run *run = cli("submit cron k --every 3h --updated-at 2025-01-01T00:00:00Z");
    expect_begins(run, "unchanged (version 1): not newer than the stored one");
    cr_expect(has(run->out, "\nperiod: every 3h, next at 2"), "%s", run->out);
    cli_refuses(2, "pgstage: there is no task 'typo' whose period could end; nothing was submitted", "submit cron typo --every none");
    cli_refuses(2, "pgstage: there is no pipeline 'corn'; did you mean 'cron'?", "submit corn k --every none");
    cr_expect_eq(number("select count(*) from pgstage.task where key = 'typo'"), 0);
    cli_prints("period ended\n", "submit cron k --every none");
    cr_expect_eq(number("select count(*) from pgstage.periodic"), 0);
    expect_once_with_payload("k");
    cli_prints("updated (version 2)\n", "submit cron k --every 1h --payload 2");
    cli_prints("updated (version 3)\n", "submit cron k --every 1h --if-changed");
    cr_expect_eq(number("select count(*) from pgstage.periodic"), 1);
}

Test(schedule, a_line_with_a_period_alone_submits_no_document_that_is_there) {
    cli("submit cron a --payload 1");
    cli("submit cron b --payload 1");
    write_file("l", "{\"key\": \"new\", \"every\": \"1h\"}\n{\"key\": \"a\", \"every\": \"2h\"}\n"
                    "{\"key\": \"b\", \"every\": \"3h\", \"payload\": 2, \"priority\": 5}\n{\"key\": \"c\", \"payload\": 3}\n");
    cli_prints("3 submitted: 2 new, 1 updated, 0 unchanged; periods set without a submit: 1\n", "submit cron --from l");
    expect_once_with_payload("a");
    cr_expect_eq(number("select count(*) from pgstage.task where key = 'b' and version = 2 and payload = '2' and priority = 5"),
                 1);
    cr_expect_eq(number("select count(*) from pgstage.task where key = 'c' and payload = '3'"), 1);
    cr_expect_eq(number("select sum(every_ms) from pgstage.periodic"), 6 * 3600000);
    write_file("l", "{\"key\": \"a\", \"every\": \"none\", \"payload\": null, \"priority\": null}\n");
    cli_prints("0 submitted: 0 new, 0 updated, 0 unchanged; periods set without a submit: 1\n", "submit cron --from l");
    expect_once_with_payload("a");
    cr_expect_eq(number("select count(*) from pgstage.periodic"), 2);
}

/* A tick that cannot be fired, and one that nobody fires, are told to whoever looks. */
Test(schedule, status_warns_of_what_does_not_fire) {
    cr_expect(!has(cli("status cron")->out, "schedule '"));
    free(text("update pgstage.schedule set next_at = next_at - interval '1 year' where name = 'again' returning 1"));
    struct run *run = cli("status cron");
    cr_expect(has(run->out, "schedule 'again' is overdue by 52w"), "%s", run->out);
    cr_expect(has(cli("schedule list cron")->out, " (overdue)"));
    cr_expect(has(cli("schedule list cron --json")->out, ",\"overdue\":true}"));
    free(text("insert into pgstage.schedule_fire (schedule, tick, outcome, error_text)"
              " select id, '2031-01-01 00:00+00', 'failed', 'no such thing' from pgstage.schedule where name = 'sweep' returning 1"));
    run = cli("status cron --json");
    cr_expect(has(run->out, "schedule 'sweep': its tick of 2031-01-01T00:00:00+00:00 could not be fired: no such thing"), "%s",
              run->out);
    cli("schedule pause cron again");
    cr_expect(!has(cli("status cron")->out, "overdue"));
    cr_expect(!has(cli("schedule list cron")->out, "overdue"));
}

Test(schedule, one_that_cannot_be_fired_fails_with_the_reason) {
    free(text("create function refuse() returns trigger language plpgsql as $$ begin raise 'no such thing'; end $$;"
              "create trigger refuse before insert on pgstage.task for each row execute function refuse()"));
    struct run *run = cli("schedule fire cron sweep");
    cr_expect_eq(run->status, 1);
    cr_expect_str_eq(run->out, "failed\n");
    cr_expect_str_eq(run->err, "pgstage: no such thing\n");
    run = cli("schedule fire cron sweep --json");
    cr_expect(has(run->out, "\"outcome\":\"failed\",\"task\":null,\"error_text\":\"no such thing\""), "%s", run->out);
}
