/* inbox.c - the reading thread, and the queue of jobs between it and the main thread.
 *
 * Small messages are cut from a fixed staging area; one that is longer than what has arrived is
 * read straight into its own memory, so that a payload of 200 MB is in memory once.
 */
#include "worker/inbox.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/memory.h"
#include "worker/channel.h"
#include "worker/lifeline.h"

enum { STAGING_BYTES = 64 * 1024, READER_STACK_BYTES = 256 * 1024 };

static char staging[STAGING_BYTES];
static size_t staged;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct job *first, **last = &first;
static bool is_stopping;
static uint16_t node_minor;
static atomic_int notice_fd = -1;

/* Nobody who is not asked pays for it. */
static void give_notice(void) {
    int fd = atomic_load(&notice_fd);
    if (fd >= 0) {
        eventfd_write(fd, 1);
    }
}

/* ---- frames ---- */

static void read_exactly(char *to, size_t length) {
    while (length > 0) {
        size_t got = channel_receive(to, length);
        to += got;
        length -= got;
    }
}

/* Ownership: the frame's bytes are the caller's to free(). */
static char *next_frame(struct wire_frame *frame) {
    struct error err = ERROR_NONE;
    enum status status;
    while ((status = wire_next_frame(staging, staged, frame, &err)) == STATUS_AGAIN &&
           frame->frame_length == 0) {
        staged += channel_receive(staging + staged, sizeof staging - staged);
    }
    if (status != STATUS_OK && status != STATUS_AGAIN) {
        channel_breach("the node sent %s", err.text);
    }
    size_t length = frame->frame_length, here = length < staged ? length : staged;
    char *bytes = mem_resize(NULL, length, 1);
    memcpy(bytes, staging, here);
    staged -= here;
    memmove(staging, staging + here, staged);
    read_exactly(bytes + here, length - here);
    frame->body = bytes + WIRE_HEADER_BYTES;
    return bytes;
}

enum status inbox_wait_hello(struct wire_hello *hello, struct error *err) {
    struct wire_frame frame;
    char *bytes = next_frame(&frame);
    enum status status = wire_get_hello(&frame, hello, err);
    if (status != STATUS_OK) {
        free(bytes);
    }
    node_minor = hello->minor;
    return status; /* the texts in `hello` are borrowed from the bytes, which stay */
}

/* ---- the reading thread ---- */

static void take_run(const struct wire_frame *frame, char *bytes) {
    struct error err = ERROR_NONE;
    struct job *job = mem_alloc(sizeof *job);
    if (wire_get_run(frame, node_minor, &job->run, &err) != STATUS_OK) {
        channel_breach("the node sent %s", err.text);
    }
    job->frame = bytes;
    lifeline_set_lease_end(job->run.lease_end_ms);
    pthread_mutex_lock(&lock);
    *last = job;
    last = &job->next;
    if (job->run.batch_left == 0) { /* nobody waits for less than a whole batch */
        pthread_cond_signal(&changed);
    }
    pthread_mutex_unlock(&lock);
    give_notice();
}

/* The job may be waiting, running, or done already. */
static void take_tell(const struct wire_tell *tell) {
    pthread_mutex_lock(&lock);
    for (struct job *job = first; job != NULL; job = job->next) {
        if (job->run.run == tell->run) {
            atomic_store(&job->cancelled, tell->cancelled);
            atomic_store(&job->superseded, tell->superseded);
        }
    }
    pthread_mutex_unlock(&lock);
    give_notice();
}

static void take_stop(void) {
    pthread_mutex_lock(&lock);
    is_stopping = true;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
    give_notice();
}

static enum status take_notice(const struct wire_frame *frame, struct error *err) {
    struct wire_tell tell;
    struct wire_beat beat;
    enum status status;
    if (frame->type == WIRE_TELL) {
        status = wire_get_tell(frame, &tell, err);
        if (status == STATUS_OK) {
            take_tell(&tell);
        }
    } else if (frame->type == WIRE_BEAT) {
        status = wire_get_beat(frame, &beat, err);
        if (status == STATUS_OK) {
            lifeline_set_lease_end(beat.lease_end_ms);
        }
    } else if (frame->type == WIRE_STOP) {
        status = wire_get_stop(frame, err);
        if (status == STATUS_OK) {
            take_stop();
        }
    } else {
        status = error_set(err, STATUS_PROTOCOL, "a message of type %d, which does not belong here",
                           (int)frame->type);
    }
    return status;
}

static void *read_messages(void *unused) {
    (void)unused;
    for (;;) {
        struct wire_frame frame;
        char *bytes = next_frame(&frame);
        if (frame.type == WIRE_RUN) {
            take_run(&frame, bytes);
            continue;
        }
        struct error err = ERROR_NONE;
        if (take_notice(&frame, &err) != STATUS_OK) {
            channel_breach("the node sent %s", err.text);
        }
        free(bytes);
    }
    return NULL;
}

void inbox_start(void) {
    /* Signals are for the main thread: a handler's own signal handlers run where its code does. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, READER_STACK_BYTES);
    pthread_t reader;
    if (pthread_create(&reader, &attributes, read_messages, NULL) != 0) {
        channel_breach("no thread can be started");
    }
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* ---- the main thread ---- */

/* How many of the jobs that are here belong to the batch that the first one begins. Only in a batch can one of them be
 * missing. */
static size_t count_batch(bool *whole) {
    size_t count = 0;
    for (const struct job *job = first; job != NULL; job = job->next) {
        if (count > 0 && job->run.batch_left + count != first->run.batch_left) {
            channel_breach("the node sent a batch that is not counted down to 0");
        }
        count++;
        if (job->run.batch_left == 0) {
            *whole = true;
            return count;
        }
    }
    *whole = false;
    return count;
}

struct job *inbox_next(size_t *count) {
    bool whole;
    pthread_mutex_lock(&lock);
    while ((*count = count_batch(&whole), !whole) && !is_stopping) {
        pthread_cond_wait(&changed, &lock);
    }
    if (!whole && *count > 0) {
        channel_breach("the node sent STOP in the middle of a batch");
    }
    struct job *job = first;
    pthread_mutex_unlock(&lock);
    return job;
}

bool inbox_has_more(const struct job *job) {
    pthread_mutex_lock(&lock);
    bool more = job->next != NULL;
    pthread_mutex_unlock(&lock);
    return more;
}

void inbox_done(struct job *job) {
    pthread_mutex_lock(&lock);
    first = job->next;
    if (first == NULL) {
        last = &first;
    }
    pthread_mutex_unlock(&lock);
    free(job->frame);
    free(job);
}

/* ---- for an engine that waits ---- */

int inbox_notice_fd(void) {
    if (atomic_load(&notice_fd) < 0) {
        int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (fd < 0) {
            channel_breach("no eventfd can be made");
        }
        atomic_store(&notice_fd, fd);
    }
    return atomic_load(&notice_fd);
}

void inbox_take_notice(void) {
    eventfd_t count;
    if (eventfd_read(inbox_notice_fd(), &count) != 0) {
        return; /* nothing came */
    }
}

bool inbox_is_empty(void) {
    bool whole;
    pthread_mutex_lock(&lock);
    count_batch(&whole);
    bool empty = !whole && !is_stopping;
    pthread_mutex_unlock(&lock);
    return empty;
}
