/* fake_worker.c - a worker that does what no proper one would: the tests of the pools start it.
 *
 * It speaks the wire protocol and has no handler. HELLO's handler name says how it starts
 * ("normal", or a fault), each RUN's key what it does, in part with an argument after a colon
 * ("sleep:20").
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "wire/messages.h"

enum { FD_NODE = 3, NOISE_BYTES = 10 * 1024 * 1024, NOISE_LINE_BYTES = 100 };

static struct buf in;
static char start_mode[64]; /* the handler's name, without its argument */

static void die(const char *what) {
    fprintf(stderr, "fake worker: %s\n", what);
    _exit(70);
}

static void send_bytes(const char *bytes, size_t length) {
    while (length > 0) {
        ssize_t sent = write(FD_NODE, bytes, length);
        if (sent < 0 && errno != EINTR) {
            _exit(71);
        }
        if (sent > 0) {
            bytes += sent;
            length -= (size_t)sent;
        }
    }
}

/* The next frame; borrowed until the call after. Ends the process with the node's end of the pipe.
 */
static struct wire_frame receive(void) {
    static size_t taken;
    buf_drop_front(&in, taken);
    taken = 0;
    for (;;) {
        struct wire_frame frame;
        struct error err = ERROR_NONE;
        enum status code = wire_next_frame(in.data, in.length, &frame, &err);
        if (code == STATUS_OK) {
            taken = frame.frame_length;
            return frame;
        }
        if (code != STATUS_AGAIN) {
            die(err.text);
        }
        char *room = buf_reserve(&in, 65536);
        ssize_t got = read(FD_NODE, room, 65536);
        if (got <= 0) {
            _exit(0);
        }
        in.length += (size_t)got;
    }
}

static void ignore_term(void) {
    signal(SIGTERM, SIG_IGN);
}

static void hang(void) {
    for (;;) {
        pause();
    }
}

static void sleep_ms(long ms) {
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    while (nanosleep(&left, &left) != 0) {
    }
}

/* Also under a sanitizer, which would turn the signal into an exit. */
static void die_of(int number) {
    struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    signal(number, SIG_DFL);
    raise(number);
    hang();
}

static struct wire_bytes text(const char *string) {
    return (struct wire_bytes){.data = string, .length = (uint32_t)strlen(string)};
}

static void check(enum status code) {
    if (code != STATUS_OK) {
        die("a message cannot be put");
    }
}

static struct buf *fresh_out(void) {
    static struct buf out;
    if (out.data == NULL) {
        buf_init(&out, (size_t)WIRE_FRAME_MAX + 1000);
    }
    buf_clear(&out);
    return &out;
}

static void send_buf(struct buf *out) {
    send_bytes(out->data, out->length);
}

/* ---- answers -------------------------------------------------------------------------------- */

static struct wire_result answer_to(const struct wire_run *run) {
    return (struct wire_result){.run = run->run, .outcome = WIRE_OK, .run_us = 100};
}

static void send_answer(const struct wire_result *result) {
    struct buf *out = fresh_out();
    check(wire_put_result(out, result, NULL));
    send_buf(out);
}

static void answer_text(const struct wire_run *run, const char *json) {
    struct wire_result result = answer_to(run);
    result.output = text(json);
    send_answer(&result);
}

static void answer_failure(const struct wire_run *run, enum wire_outcome outcome,
                           struct wire_bytes message) {
    struct wire_result result = answer_to(run);
    result.outcome = outcome;
    result.message = message;
    send_answer(&result);
}

static void answer_number(const struct wire_run *run, int64_t number) {
    char json[32];
    snprintf(json, sizeof json, "%" PRId64, number);
    answer_text(run, json);
}

static void answer_with_statements(const struct wire_run *run) {
    const struct wire_bytes parameters[] = {text("a"), {.data = NULL, .length = 0}, text("c")};
    const struct wire_statement statements[] = {
        {.sql = text("insert 1"), .parameter_count = 2, .parameters = parameters},
        {.sql = text("insert 2"), .parameter_count = 0, .parameters = NULL},
        {.sql = text("insert 3"), .parameter_count = 1, .parameters = parameters + 2},
    };
    struct wire_result result = answer_to(run);
    result.statement_count = 3;
    result.statements = statements;
    send_answer(&result);
}

static void answer_large(const struct wire_run *run, long bytes) {
    char *json = malloc((size_t)bytes);
    memset(json, 'x', (size_t)bytes);
    json[0] = json[bytes - 1] = '"';
    struct wire_result result = answer_to(run);
    result.output = (struct wire_bytes){.data = json, .length = (uint32_t)bytes};
    send_answer(&result);
    free(json);
}

static void make_noise(int fd) {
    char line[NOISE_LINE_BYTES];
    memset(line, '.', sizeof line);
    line[sizeof line - 1] = '\n';
    for (size_t written = 0; written < NOISE_BYTES; written += sizeof line) {
        for (size_t done = 0; done < sizeof line;) {
            ssize_t count = write(fd, line + done, sizeof line - done);
            if (count < 0) {
                _exit(72);
            }
            done += (size_t)count;
        }
    }
}

/* `megabytes` of the shortest lines there are. */
static void chatter(long megabytes) {
    enum { CHUNK_BYTES = 64 * 1024, CHUNKS_PER_MB = 16 };
    static char lines[CHUNK_BYTES];
    for (size_t i = 0; i < sizeof lines; i++) {
        lines[i] = i % 2 == 0 ? 'y' : '\n';
    }
    for (long i = 0; i < megabytes * CHUNKS_PER_MB; i++) {
        for (size_t done = 0; done < sizeof lines;) {
            ssize_t count = write(STDERR_FILENO, lines + done, sizeof lines - done);
            if (count < 0) {
                _exit(72);
            }
            done += (size_t)count;
        }
    }
}

/* ---- faults --------------------------------------------------------------------------------- */

static void send_half_an_answer(const struct wire_run *run) {
    struct wire_result result = answer_to(run);
    result.output = text("\"only the half of this arrives\"");
    struct buf *out = fresh_out();
    check(wire_put_result(out, &result, NULL));
    send_bytes(out->data, out->length / 2);
}

static void send_garbage(void) {
    char bytes[64];
    memset(bytes, 0xFF, sizeof bytes);
    send_bytes(bytes, sizeof bytes);
}

/* A grandchild in the same group that ignores TERM, with its pid in the log of the group's end. */
static pid_t fork_stubborn(void) {
    pid_t child = fork();
    if (child == 0) {
        ignore_term();
        hang();
    }
    return child;
}

static void say_pid(const char *name, pid_t pid) {
    fprintf(stderr, "%s=%d\n", name, (int)pid);
}

/* Waits until the child left the group: the group is killed when its leader goes. */
static void say_left(pid_t child) {
    while (getpgid(child) == getpgid(0)) {
        sleep_ms(1);
    }
    say_pid("daemon", child);
}

/* A child that left the group and keeps every descriptor open, for a minute. */
static void fork_daemon(void) {
    pid_t child = fork();
    if (child == 0) {
        setsid();
        ignore_term();
        sleep_ms(60000);
        _exit(0);
    }
    say_left(child);
}

/* ---- what a key means ----------------------------------------------------------------------- */

static void run_echo(const struct wire_run *run, long argument) {
    (void)argument;
    struct wire_result result = answer_to(run);
    result.output = run->payload;
    send_answer(&result);
}

static void run_sleep(const struct wire_run *run, long ms) {
    sleep_ms(ms);
    struct wire_result result = answer_to(run);
    result.run_us = ms * 1000;
    send_answer(&result);
}

static void run_pid(const struct wire_run *run, long argument) {
    (void)argument;
    answer_number(run, getpid());
}

static void run_attempt(const struct wire_run *run, long argument) {
    (void)argument;
    answer_number(run, run->attempt * 1000 + run->version);
}

/* What it got beside its payload, as one text. */
static void run_extras(const struct wire_run *run, long argument) {
    (void)argument;
    char json[512];
    snprintf(json, sizeof json, "%.*s %d %.2f %.*s", (int)run->inputs.length,
             run->inputs.data != NULL ? run->inputs.data : "none", run->has_progress, run->progress,
             (int)run->progress_text.length,
             run->progress_text.data != NULL ? run->progress_text.data : "");
    answer_text(run, json);
}

static void run_lease(const struct wire_run *run, long argument) {
    (void)argument;
    answer_number(run, run->lease_end_ms);
}

static void run_fail(const struct wire_run *run, long argument) {
    (void)argument;
    static const char message[] = "bad \xFF byte \0 and a cut \xF0\x9F";
    fprintf(stdout, "first line\n");
    fflush(stdout);
    fprintf(stderr, "last line \x1b[31m\n");
    answer_failure(run, WIRE_FAIL, (struct wire_bytes){message, sizeof message - 1});
}

static void run_retry(const struct wire_run *run, long argument) {
    (void)argument;
    answer_failure(run, WIRE_RETRY, text("later"));
}

static void run_signal(const struct wire_run *run, long number) {
    (void)run;
    fprintf(stderr, "about to die\n");
    die_of((int)number);
}

static void run_exit(const struct wire_run *run, long status) {
    (void)run;
    _exit((int)status);
}

static void run_half(const struct wire_run *run, long status) {
    send_half_an_answer(run);
    _exit((int)status);
}

static void run_ok_then_signal(const struct wire_run *run, long number) {
    answer_text(run, "\"done\"");
    die_of((int)number);
}

/* Answers, takes nothing more, and goes a moment later. */
static void run_leave(const struct wire_run *run, long status) {
    shutdown(FD_NODE, SHUT_RD);
    answer_text(run, "\"good-bye\"");
    sleep_ms(100);
    _exit((int)status);
}

static void run_hang(const struct wire_run *run, long argument) {
    (void)run;
    (void)argument;
    fprintf(stderr, "hanging\n");
    hang();
}

static void run_stubborn(const struct wire_run *run, long argument) {
    (void)run;
    (void)argument;
    ignore_term();
    say_pid("grandchild", fork_stubborn());
    hang();
}

/* TERM is ignored, and the answer comes late. */
static void run_late(const struct wire_run *run, long ms) {
    ignore_term();
    fprintf(stderr, "ignoring TERM\n");
    sleep_ms(ms);
    answer_text(run, "\"late\"");
}

static void run_orphan(const struct wire_run *run, long number) {
    (void)run;
    say_pid("grandchild", fork_stubborn());
    die_of((int)number);
}

/* Dies with a grandchild in its group whose parent left the group and never reaps. */
static void run_unreaped(const struct wire_run *run, long number) {
    (void)run;
    pid_t child = fork();
    if (child == 0) {
        fork_stubborn();
        setsid();
        ignore_term();
        sleep_ms(60000);
        _exit(0);
    }
    say_left(child);
    die_of((int)number);
}

static void run_daemon(const struct wire_run *run, long status) {
    fork_daemon();
    answer_text(run, "\"left one behind\"");
    _exit((int)status);
}

static void run_close(const struct wire_run *run, long argument) {
    (void)run;
    (void)argument;
    close(FD_NODE);
    hang();
}

static void run_garbage(const struct wire_run *run, long argument) {
    (void)argument;
    send_garbage();
    answer_text(run, "\"too late\"");
    hang();
}

static void run_wrong_run(const struct wire_run *run, long argument) {
    (void)argument;
    struct wire_result result = answer_to(run);
    result.run++;
    send_answer(&result);
    hang();
}

static void run_twice(const struct wire_run *run, long argument) {
    (void)argument;
    answer_text(run, "1");
    answer_text(run, "2");
    hang();
}

static void run_noise(const struct wire_run *run, long fd) {
    make_noise((int)fd);
    fprintf(stderr, "the very last line\n");
    answer_failure(run, WIRE_FAIL, text("noisy"));
}

static void run_quiet_noise(const struct wire_run *run, long fd) {
    make_noise((int)fd);
    run_echo(run, 0);
}

static void run_chatter(const struct wire_run *run, long megabytes) {
    chatter(megabytes);
    fprintf(stderr, "the very last line\n");
    answer_failure(run, WIRE_FAIL, text("talkative"));
}

/* As a worker whose program died: nothing more is begun. */
static void answer_last(const struct wire_run *run, enum wire_outcome outcome) {
    struct buf *out = fresh_out();
    check(wire_put_last(out, NULL));
    send_buf(out);
    struct wire_result result = answer_to(run);
    result.outcome = outcome;
    result.message = text("the program died");
    result.kind = text("no_answer");
    send_answer(&result);
}

/* Gives a node that has not understood the time to send more. */
static void leave(void) {
    struct pollfd node = {.fd = FD_NODE, .events = POLLIN};
    poll(&node, 1, 100);
    _exit(0);
}

static void run_last(const struct wire_run *run, long argument) {
    (void)argument;
    answer_last(run, WIRE_CRASH);
    leave();
}

static void send_full(void) {
    struct buf *out = fresh_out();
    check(wire_put_full(out, NULL));
    send_buf(out);
}

/* Says with its pid that it has grown too large: 0, before the answer; 1, behind it. */
static void run_full(const struct wire_run *run, long behind) {
    if (!behind) {
        send_full();
    }
    answer_number(run, getpid());
    if (behind) {
        send_full();
    }
}

static void run_large(const struct wire_run *run, long bytes) {
    answer_large(run, bytes);
}

static void run_statements(const struct wire_run *run, long argument) {
    (void)argument;
    answer_with_statements(run);
}

static void run_progress(const struct wire_run *run, long argument) {
    (void)argument;
    struct buf *out = fresh_out();
    const struct wire_progress half = {.run = run->run, .fraction = 0.5, .text = text("half\nway")};
    const struct wire_progress all = {.run = run->run, .fraction = 1.0, .text = text("")};
    const struct wire_progress foreign = {.run = run->run + 1, .fraction = 0.9, .text = text("no")};
    const struct wire_log line = {.run = run->run, .text = text("a line of the handler's")};
    check(wire_put_progress(out, &half, NULL));
    check(wire_put_progress(out, &all, NULL));
    check(wire_put_progress(out, &foreign, NULL));
    const struct wire_log note = {
        .run = run->run,
        .text = text("with fields"),
        .fields = text("{\"page\": 3, \"why\": \"a \\\"b\\\"\\nlevel=x\", \"a =\\n\": true, \"run\": null, \"l\": [1], \"f\": 0.4}")};
    const struct wire_log strange = {.run = run->run, .text = text("strange"), .fields = text("{\"a\": 1e999}\n")};
    check(wire_put_log(out, &line, NULL));
    check(wire_put_log(out, &note, NULL));
    check(wire_put_log(out, &strange, NULL));
    send_buf(out);
    answer_text(run, "true");
}

/* Answers with what it is told meanwhile: 1 cancelled, 2 superseded, and ends with the first. */
static void run_told(const struct wire_run *run, long argument) {
    (void)argument;
    uint64_t id = run->run;
    for (;;) {
        struct wire_frame frame = receive();
        struct wire_tell tell;
        if (frame.type == WIRE_TELL && wire_get_tell(&frame, &tell, NULL) == STATUS_OK &&
            tell.run == id) {
            answer_number(&(struct wire_run){.run = id},
                          (tell.cancelled ? 1 : 0) + (tell.superseded ? 2 : 0));
            return;
        }
    }
}

/* Answers with the lease end of the next BEAT. */
static void run_beat(const struct wire_run *run, long argument) {
    (void)argument;
    uint64_t id = run->run;
    for (;;) {
        struct wire_frame frame = receive();
        struct wire_beat beat;
        if (frame.type == WIRE_BEAT && wire_get_beat(&frame, &beat, NULL) == STATUS_OK) {
            answer_number(&(struct wire_run){.run = id}, beat.lease_end_ms);
            return;
        }
    }
}

static void run_fds(const struct wire_run *run, long argument) {
    (void)argument;
    int64_t open_mask = 0;
    for (int fd = 0; fd < 32; fd++) {
        open_mask |= fcntl(fd, F_GETFD) >= 0 ? INT64_C(1) << fd : 0;
    }
    answer_number(run, open_mask);
}

static const struct {
    const char *key;
    void (*run)(const struct wire_run *run, long argument);
} keys[] = {
    {"echo", run_echo},
    {"sleep", run_sleep},
    {"pid", run_pid},
    {"attempt", run_attempt},
    {"extras", run_extras},
    {"lease", run_lease},
    {"fail", run_fail},
    {"retry", run_retry},
    {"signal", run_signal},
    {"exit", run_exit},
    {"half", run_half},
    {"ok_then", run_ok_then_signal},
    {"hang", run_hang},
    {"stubborn", run_stubborn},
    {"late", run_late},
    {"orphan", run_orphan},
    {"daemon", run_daemon},
    {"close", run_close},
    {"garbage", run_garbage},
    {"wrong_run", run_wrong_run},
    {"twice", run_twice},
    {"noise", run_noise},
    {"quiet_noise", run_quiet_noise},
    {"chatter", run_chatter},
    {"large", run_large},
    {"full", run_full},
    {"last", run_last},
    {"statements", run_statements},
    {"progress", run_progress},
    {"told", run_told},
    {"beat", run_beat},
    {"fds", run_fds},
    {"leave", run_leave},
    {"unreaped", run_unreaped},
};

/* ---- batches -------------------------------------------------------------------------------- */

enum { BATCH_MAX = 256 };
enum poison { POISON_SAYS = 1, POISON_HANGS, POISON_EXITS, POISON_GARBLES, POISON_STUBBORN, POISON_LAST, POISON_SIGNAL };

static struct {
    char *frames[BATCH_MAX];
    struct wire_run runs[BATCH_MAX];
    int count;
} batch;

/* All that have no answer yet. */
static void answer_split(int from) {
    for (int i = from; i < batch.count; i++) {
        answer_failure(&batch.runs[i], batch.count > 1 ? WIRE_SPLIT : WIRE_FAIL, text("it tastes bad"));
    }
}

/* What the whole batch comes to: 1 it says so, 2 hangs, 3 exits, 4 garbage, 5 hangs and ignores TERM, 6 is the end
 * of the worker, which says so, above: a signal, plus 100. */
static void be_poisoned(long how, int from) {
    fprintf(stderr, "poisoned\n");
    switch (how) {
    case POISON_SAYS:
        answer_split(from);
        return;
    case POISON_STUBBORN:
        ignore_term();
        hang();
        return;
    case POISON_HANGS:
        hang();
        return;
    case POISON_EXITS:
        _exit(0);
    case POISON_LAST:
        for (int i = from; i < batch.count; i++) {
            answer_last(&batch.runs[i], batch.count > 1 ? WIRE_SPLIT : WIRE_CRASH);
        }
        leave();
        return;
    case POISON_GARBLES:
        send_garbage();
        hang();
        return;
    default:
        die_of((int)how - 100);
    }
}

/* Splits "name:number"; 0 without a number. */
static long split(char *word) {
    char *colon = strchr(word, ':');
    if (colon == NULL) {
        return 0;
    }
    *colon = '\0';
    return strtol(colon + 1, NULL, 10);
}

static long key_of(const struct wire_run *run, char key[64]) {
    if (run->key.length >= 64) {
        die("a key that is too long");
    }
    memcpy(key, run->key.data, run->key.length);
    key[run->key.length] = '\0';
    return split(key);
}

static void run_one(const struct wire_run *run) {
    char key[64];
    long argument = key_of(run, key);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (strcmp(keys[i].key, key) == 0) {
            keys[i].run(run, argument);
            return;
        }
    }
    die("an unknown key");
}

/* "poison:HOW" spoils the whole batch, "late_poison:HOW" what is behind it. */
static void run_batch(void) {
    char key[64];
    fprintf(stderr, "batch of %d\n", batch.count);
    for (int i = 0; i < batch.count; i++) {
        long how = key_of(&batch.runs[i], key);
        if (strcmp(key, "poison") == 0) {
            be_poisoned(how, 0);
            return;
        }
    }
    for (int i = 0; i < batch.count; i++) {
        long how = key_of(&batch.runs[i], key);
        if (strcmp(key, "late_poison") == 0) {
            be_poisoned(how, i);
            return;
        }
        if (strcmp(key, "last_first") == 0) {
            answer_text(&batch.runs[batch.count - 1], "\"last\"");
            batch.count--;
        }
        if (strcmp(key, "place") == 0) {
            answer_number(&batch.runs[i], i);
        } else if (strcmp(key, "sour") == 0) {
            answer_failure(&batch.runs[i], batch.count > 1 ? WIRE_SPLIT : WIRE_FAIL, text("sour"));
        } else if (strcmp(key, "last_first") == 0) {
            answer_text(&batch.runs[i], "\"first\"");
        } else {
            run_one(&batch.runs[i]);
        }
    }
}

static void take_run(const struct wire_frame *frame, bool in_batches) {
    struct wire_run run;
    check(wire_get_run(frame, WIRE_MINOR, &run, NULL));
    if (!in_batches) {
        run_one(&run);
        return;
    }
    if (batch.count == BATCH_MAX) {
        die("a batch that is too large");
    }
    char *copy = malloc(frame->body_length);
    memcpy(copy, frame->body, frame->body_length);
    struct wire_frame kept = *frame;
    kept.body = copy;
    batch.frames[batch.count] = copy;
    check(wire_get_run(&kept, WIRE_MINOR, &batch.runs[batch.count++], NULL));
    if (run.batch_left > 0) {
        return;
    }
    int count = batch.count;
    run_batch();
    for (int i = 0; i < count; i++) {
        free(batch.frames[i]);
    }
    batch.count = 0;
}

/* ---- how it starts -------------------------------------------------------------------------- */

static void send_ready(uint16_t major) {
    struct buf *out = fresh_out();
    check(wire_put_ready(out, &(struct wire_ready){.major = major, .handler_abi = 1}, NULL));
    send_buf(out);
}

static void send_refused(const char *reason) {
    struct buf *out = fresh_out();
    check(wire_put_refused(out, &(struct wire_refused){text(reason)}, NULL));
    send_buf(out);
}

static void start(long argument) {
    if (strcmp(start_mode, "exit") == 0) {
        fprintf(stderr, "boot: nothing works\nboot: the model file is missing\n");
        _exit((int)argument);
    } else if (strcmp(start_mode, "signal") == 0) {
        die_of((int)argument);
    } else if (strcmp(start_mode, "silent") == 0) {
        ignore_term();
        hang();
    } else if (strcmp(start_mode, "refuse") == 0) {
        send_refused("no such handler: \"shout\"");
        _exit(3);
    } else if (strcmp(start_mode, "refuse_and_stay") == 0) {
        send_refused("cannot work");
        ignore_term();
        hang();
    } else if (strcmp(start_mode, "garbage") == 0) {
        send_garbage();
        hang();
    } else if (strcmp(start_mode, "result") == 0) {
        send_answer(&(struct wire_result){.run = 1});
        hang();
    } else if (strcmp(start_mode, "stop") == 0) {
        struct buf *out = fresh_out();
        check(wire_put_stop(out, NULL));
        send_buf(out);
        hang();
    } else if (strcmp(start_mode, "slow") == 0) {
        sleep_ms(argument);
    }
    send_ready(strcmp(start_mode, "old") == 0 ? WIRE_MAJOR + 1 : WIRE_MAJOR);
    if (strcmp(start_mode, "ready_twice") == 0) {
        send_ready(WIRE_MAJOR);
    } else if (strcmp(start_mode, "full") == 0) {
        send_full();
    } else if (strcmp(start_mode, "idle_exit") == 0) {
        sleep_ms(argument);
        _exit(5);
    } else if (strcmp(start_mode, "deaf") == 0) {
        hang(); /* never reads again */
    }
}

/* Whether it gets its runs in batches. */
static bool wait_hello(void) {
    struct wire_frame frame = receive();
    struct wire_hello hello;
    check(wire_get_hello(&frame, &hello, NULL));
    if (hello.handler_name.length >= sizeof start_mode) {
        die("a handler name that is too long");
    }
    memcpy(start_mode, hello.handler_name.data, hello.handler_name.length);
    bool in_batches = hello.batch_size > 0;
    wire_hello_finish(&hello);
    return in_batches;
}

int main(int argc, char **argv) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (argc != 2 || atoi(argv[1]) != getppid()) {
        die("the argument is not the parent's pid");
    }
    buf_init(&in, (size_t)WIRE_FRAME_MAX + 1000000);
    bool in_batches = wait_hello();
    start(split(start_mode));
    for (;;) {
        struct wire_frame frame = receive();
        if (frame.type == WIRE_RUN) {
            take_run(&frame, in_batches);
        } else if (frame.type == WIRE_STOP) {
            if (strcmp(start_mode, "slow_fini") == 0) {
                ignore_term();
                hang();
            }
            return 0;
        }
    }
}
