#include "cli/conform_program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/children.h"
#include "base/clock.h"
#include "base/environment.h"
#include "base/find_program.h"
#include "base/memory.h"
#include "base/remove_tree.h"

enum { LINE_MAX_BYTES = 256 * 1024 * 1024, CHUNK_BYTES = 256 * 1024, LOOK_MS = 10, END_LOOKS = 1000 };

int64_t program_now_ms(void) {
    return clock_now_ms(&clock_boottime);
}

static void close_fd(int *fd) {
    if (*fd >= 0) {
        close(*fd);
    }
    *fd = -1;
}

/* ---- its folder, its environment, its arguments: as in a stage whose pipeline lies in the current folder ---- */

/* FOLDER/run, as a worker's. */
static enum status make_folder(struct program *program, struct error *err) {
    const char *above = getenv("TMPDIR");
    program->folder = mem_format("%s/pgstage-conform-XXXXXX", above != NULL && above[0] == '/' ? above : "/tmp");
    if (mkdtemp(program->folder) == NULL) {
        error_set_errno(err, STATUS_UNAVAILABLE, errno, "a folder of the program's own: %s", program->folder);
        free(program->folder);
        program->folder = NULL;
        return err->code;
    }
    char *run = mem_format("%s/run", program->folder);
    bool made = mkdir(run, 0700) == 0;
    free(run);
    return made ? STATUS_OK : error_set_errno(err, STATUS_UNAVAILABLE, errno, "%s/run", program->folder);
}

static void remove_folder(struct program *program) {
    struct error err = ERROR_NONE;
    if (program->folder != NULL && remove_tree(AT_FDCWD, program->folder, &err) != STATUS_OK) {
        fprintf(stderr, "pgstage conform: %s stays: %s\n", program->folder, err.text);
    }
    free(program->folder);
    program->folder = NULL;
}

/* What is to be started; in the arena. */
struct launch {
    char *path, **arguments, **environment, *folder;
};

static enum status fill_arguments(struct arena *arena, char *const *argv, const char *here, struct launch *launch,
                                  struct error *err) {
    size_t count = 0;
    while (argv[count] != NULL) {
        count++;
    }
    launch->arguments = arena_alloc(arena, (count + 1) * sizeof *launch->arguments);
    for (size_t i = 0; i < count; i++) {
        char *file = NULL;
        if (i > 0 && find_file_of(argv[i], here, &file, err) != STATUS_OK) {
            return err->code;
        }
        launch->arguments[i] = arena_copy_string(arena, file != NULL ? file : argv[i]);
        free(file);
    }
    launch->arguments[count] = NULL;
    return STATUS_OK;
}

static enum status prepare(struct arena *arena, struct program *program, char *const *argv, struct launch *launch,
                           struct error *err) {
    char *here = getcwd(NULL, 0), *path = NULL;
    enum status status = here == NULL ? error_set_errno(err, STATUS_UNAVAILABLE, errno, "the current folder")
                                      : find_program(argv[0], here, &path, err);
    if (status == STATUS_OK) {
        launch->path = arena_copy_string(arena, path);
        status = fill_arguments(arena, argv, here, launch, err);
    }
    if (status == STATUS_OK) {
        status = make_folder(program, err);
    }
    if (status == STATUS_OK) {
        struct environment_spec spec = {.pipeline = "conformance", .stage = "test", .work = program->folder};
        launch->environment = environment_build(arena, &spec);
        launch->folder = arena_format(arena, "%s/run", program->folder);
    }
    free(path);
    free(here);
    return status;
}

/* ---- start and end ---- */

static void end_child(void *context, pid_t child) {
    bool *found = context;
    *found = children_end(child) || *found;
}

/* What one leaves is ours as soon as it is dead: hence another look. Async-signal-safe. */
static void end_children(void) {
    bool found = true;
    for (int look = 0; look < END_LOOKS && found; look++) {
        found = false;
        children_each(end_child, &found);
    }
}

/* The program is in a group of its own: a Ctrl-C does not reach it. */
static void on_end_wanted(int number) {
    end_children();
    signal(number, SIG_DFL);
    raise(number);
}

void program_take_over(void) {
    (void)children_take_over(); /* else only its own group can be ended */
    struct sigaction action = {.sa_handler = on_end_wanted};
    sigfillset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
}

static int spawn(pid_t *pid, const struct launch *launch, int in, int out) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t all, none;
    sigfillset(&all);
    sigemptyset(&none);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
    posix_spawn_file_actions_addchdir_np(&actions, launch->folder);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    int code = posix_spawn(pid, launch->path, &actions, &attributes, launch->arguments, launch->environment);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return code;
}

static enum status start(struct program *program, const char *name, const struct launch *launch, struct error *err) {
    int in[2], out[2];
    if (pipe2(in, O_CLOEXEC) != 0) {
        return error_set_errno(err, STATUS_INTERNAL, errno, "cannot make a pipe");
    }
    if (pipe2(out, O_CLOEXEC) != 0) {
        int code = errno;
        close(in[0]);
        close(in[1]);
        return error_set_errno(err, STATUS_INTERNAL, code, "cannot make a pipe");
    }
    program->in = in[1];
    program->out = out[0];
    int code = spawn(&program->pid, launch, in[0], out[1]);
    close(in[0]);
    close(out[1]);
    fcntl(program->in, F_SETFL, O_NONBLOCK);
    if (code != 0) {
        program->pid = 0;
        return error_set_errno(err, STATUS_NOT_FOUND, code, "cannot start %s", name);
    }
    return STATUS_OK;
}

enum status program_start(struct program *program, char *const *argv, struct error *err) {
    *program = (struct program){.in = -1, .out = -1};
    buf_init(&program->said, (size_t)LINE_MAX_BYTES + CHUNK_BYTES);
    struct arena arena = {0};
    struct launch launch = {0};
    enum status status = prepare(&arena, program, argv, &launch, err);
    if (status == STATUS_OK) {
        status = start(program, argv[0], &launch, err);
    }
    arena_finish(&arena);
    program->is_open = true;
    if (status != STATUS_OK) {
        program_kill(program);
    }
    return status;
}

void program_kill(struct program *program) {
    if (!program->is_open) {
        return;
    }
    if (program->pid > 0) {
        kill(-program->pid, SIGKILL);
        waitpid(program->pid, NULL, 0);
    }
    end_children();
    close_fd(&program->in);
    close_fd(&program->out);
    buf_finish(&program->said);
    remove_folder(program);
    *program = (struct program){0};
}

/* ---- bytes ---- */

static void read_some(struct program *program) {
    static char chunk[CHUNK_BYTES];
    ssize_t got = read(program->out, chunk, sizeof chunk);
    if (got > 0) {
        buf_append(&program->said, chunk, (size_t)got);
    } else if (got == 0 || errno != EINTR) {
        close_fd(&program->out);
    }
}

/* Waits until the program can take more, or said something, which is read then. */
static void move_bytes(struct program *program, bool wants_to_write, int64_t deadline_ms, int at_most_ms) {
    int64_t left = deadline_ms - program_now_ms();
    left = left > at_most_ms ? at_most_ms : left > 0 ? left : 0;
    bool full = program->said.length > LINE_MAX_BYTES;
    struct pollfd fds[] = {{.fd = full ? -1 : program->out, .events = POLLIN},
                           {.fd = wants_to_write ? program->in : -1, .events = POLLOUT}};
    if (poll(fds, 2, (int)left) > 0 && fds[0].revents != 0) {
        read_some(program);
    }
}

bool program_write(struct program *program, const char *bytes, size_t length, int64_t deadline_ms) {
    while (length > 0 && program->in >= 0 && program_now_ms() < deadline_ms) {
        ssize_t sent = write(program->in, bytes, length);
        if (sent > 0) {
            bytes += sent;
            length -= (size_t)sent;
        } else if (errno == EAGAIN) {
            move_bytes(program, true, deadline_ms, INT32_MAX);
        } else if (errno != EINTR) {
            close_fd(&program->in);
        }
    }
    return length == 0;
}

void program_close_input(struct program *program) {
    close_fd(&program->in);
}

/* ---- lines ---- */

static bool take_line(struct program *program, struct buf *line) {
    struct buf *said = &program->said;
    const char *from = said->data + program->searched;
    const char *newline = memchr(from, '\n', said->length - program->searched);
    if (newline == NULL) {
        program->searched = said->length;
        return false;
    }
    size_t length = (size_t)(newline - said->data);
    buf_clear(line);
    buf_append(line, said->data, length);
    buf_drop_front(said, length + 1);
    program->searched = 0;
    return true;
}

enum program_read program_read_line(struct program *program, struct buf *line, int64_t deadline_ms) {
    for (;;) {
        if (take_line(program, line)) {
            return PROGRAM_LINE;
        }
        if (program->said.length > LINE_MAX_BYTES) {
            return PROGRAM_FLOOD;
        }
        if (program->out < 0) {
            return PROGRAM_END;
        }
        if (program_now_ms() >= deadline_ms) {
            return PROGRAM_SILENT;
        }
        move_bytes(program, false, deadline_ms, INT32_MAX);
    }
}

bool program_wait(struct program *program, int *status, int64_t deadline_ms) {
    pid_t got;
    while ((got = waitpid(program->pid, status, WNOHANG)) == 0 && program_now_ms() < deadline_ms) {
        move_bytes(program, false, deadline_ms, LOOK_MS);
    }
    if (got == program->pid) {
        kill(-program->pid, SIGKILL); /* what it left */
        program->pid = 0;
        return true;
    }
    return false;
}
