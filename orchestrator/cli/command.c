#include "cli/command.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/require.h"
#include "base/units.h"
#include "cli/output.h"
#include "db/migrate.h"

static int option_count(const struct command *command) {
    int count = 0;
    while (command->options != NULL && command->options[count].name != NULL) {
        count++;
    }
    return count;
}

static int option_index(const struct args *args, const char *name) {
    int count = option_count(args->command);
    for (int i = 0; i < count; i++) {
        if (strcmp(args->command->options[i].name, name) == 0) {
            return i;
        }
    }
    REQUIRE(false);
    return -1;
}

const char *args_get(const struct args *args, const char *name) {
    return args->values[option_index(args, name)];
}

bool args_has(const struct args *args, const char *name) {
    return args_get(args, name) != NULL;
}

static bool may_come_again(const struct option_spec *option) {
    size_t length = option->value == NULL ? 0 : strlen(option->value);
    return length >= 3 && strcmp(option->value + length - 3, "...") == 0;
}

const char *args_each(const struct args *args, const char *name, int *at) {
    int index = option_index(args, name);
    while (*at < args->given_count) {
        int one = (*at)++;
        if (args->given[one].option == index) {
            return args->given[one].value;
        }
    }
    return NULL;
}

enum exit_status usage_error(const struct args *args, const char *format, ...) {
    struct buf said;
    va_list list;
    buf_init(&said, SIZE_MAX);
    va_start(list, format);
    buf_append_format_list(&said, format, list);
    va_end(list);
    fprintf(stderr, "pgstage %s: %s\nusage: pgstage %s%s%s\n", args->command->name, text_shown(said.data), args->command->name,
            args->command->usage[0] == '\0' ? "" : " ", args->command->usage);
    buf_finish(&said);
    return EXIT_WRONG;
}

enum exit_status error_exit_status(const struct error *err) {
    switch (err->code) {
    case STATUS_OK:
        return EXIT_OK;
    case STATUS_UNAVAILABLE:
    case STATUS_UNCERTAIN:
    case STATUS_TIMEOUT:
    case STATUS_AGAIN:
        return EXIT_NO_DATABASE;
    case STATUS_CONFLICT: /* one that the server names is a clash with other sessions: it may work later */
        return strncmp(err->sqlstate, "40", 2) == 0 ? EXIT_NO_DATABASE : EXIT_REFUSED;
    case STATUS_INVALID:
    case STATUS_NOT_FOUND:
    case STATUS_PROTOCOL:
    case STATUS_LIMIT:
    case STATUS_INTERNAL:
        return EXIT_WRONG;
    }
    return EXIT_WRONG;
}

const char *error_hint(const struct error *err) {
    return strcmp(err->sqlstate, "42501") != 0
               ? ""
               : "\nhint: this role lacks rights on the schema pgstage; see pgstage migrate --roles: pgstage_orchestrator runs "
                 "nodes and all commands, pgstage_viewer reads, pgstage_enqueuer submits, pgstage_owner migrates";
}

enum exit_status report_error(const struct error *err) {
    struct buf text;
    buf_init(&text, SIZE_MAX);
    text_show_lines(&text, err->text);
    fprintf(stderr, "pgstage: %s%s\n", text.data, error_hint(err));
    buf_finish(&text);
    return error_exit_status(err);
}

void command_help(const struct command *command) {
    printf("%s\n\nusage: pgstage %s%s%s\n", command->summary, command->name, command->usage[0] == '\0' ? "" : " ",
           command->usage);
    int count = option_count(command);
    for (int i = 0; i < count; i++) {
        const struct option_spec *option = &command->options[i];
        char left[64];
        snprintf(left, sizeof left, "--%s%s%s", option->name, option->value == NULL ? "" : " ",
                 option->value == NULL ? "" : option->value);
        printf("  %-24s %s\n", left, option->help);
    }
    if (command->no_database) {
        return;
    }
    printf("  %-24s %s\n  %-24s %s\n", "--database URL", "instead of the embedded PostgreSQL", "--home FOLDER",
           "where the embedded PostgreSQL lives");
}

enum { CODE_ARGUMENT = 1, CODE_DATABASE, CODE_HOME, CODE_HELP, CODE_FIRST_OPTION = 1000 };

static void fill_options(const struct command *command, struct option options[ARGS_MAX_OPTIONS + 4]) {
    int count = option_count(command);
    REQUIRE(count <= ARGS_MAX_OPTIONS);
    for (int i = 0; i < count; i++) {
        const struct option_spec *spec = &command->options[i];
        options[i] = (struct option){spec->name, spec->value == NULL ? no_argument : required_argument, NULL,
                                     CODE_FIRST_OPTION + i};
    }
    options[count] = (struct option){"database", required_argument, NULL, CODE_DATABASE};
    options[count + 1] = (struct option){"home", required_argument, NULL, CODE_HOME};
    options[count + 2] = (struct option){"help", no_argument, NULL, CODE_HELP};
}

static enum exit_status take_option(struct args *args, int code, char **argv, bool *help) {
    if (code >= CODE_FIRST_OPTION) {
        int index = code - CODE_FIRST_OPTION;
        if (may_come_again(&args->command->options[index])) {
            if (args->given_count == ARGS_MAX_GIVEN) {
                return usage_error(args, "--%s is given too often", args->command->options[index].name);
            }
            args->given[args->given_count].option = index;
            args->given[args->given_count++].value = optarg;
        } else if (optarg != NULL && args->values[index] != NULL) {
            return usage_error(args, "--%s is given twice", args->command->options[index].name);
        }
        args->values[code - CODE_FIRST_OPTION] = optarg == NULL ? "" : optarg;
    } else if (code == CODE_DATABASE) {
        args->database = optarg;
    } else if (code == CODE_HOME) {
        args->home = optarg;
    } else if (code == CODE_HELP || code == 'h') {
        *help = true;
    } else if (code == ':') {
        return usage_error(args, "%s wants a value", argv[optind - 1]);
    } else {
        return usage_error(args, "unknown option %s", argv[optind - 1]);
    }
    return EXIT_OK;
}

/* "-5" is a number: no option is a digit. */
static bool is_negative_number(const char *text) {
    return text != NULL && text[0] == '-' && text[1] != '\0' && text[1 + strspn(text + 1, "0123456789")] == '\0';
}

/* getopt gives arguments as they come ("-"): they are gathered at the front of argv, where it has been already. */
static enum exit_status parse(struct args *args, int argc, char **argv, bool *help) {
    const char *pass_after = args->command->pass_after;
    struct option options[ARGS_MAX_OPTIONS + 4] = {{0}};
    fill_options(args->command, options);
    opterr = 0;
    optind = 1;
    args->positional = argv + 1;
    bool passing = false;
    for (int code; !passing;) {
        if (is_negative_number(argv[optind])) {
            args->positional[args->count++] = argv[optind++];
            continue;
        }
        if ((code = getopt_long(argc, argv, "-:h", options, NULL)) == -1) {
            break;
        }
        if (code == CODE_ARGUMENT) {
            args->positional[args->count++] = optarg;
            passing = pass_after != NULL && strcmp(optarg, pass_after) == 0;
        } else {
            enum exit_status status = take_option(args, code, argv, help);
            if (status != EXIT_OK) {
                return status;
            }
        }
    }
    for (; optind < argc; optind++) {
        args->positional[args->count++] = argv[optind];
    }
    return EXIT_OK;
}

/* What stands in the usage line for the argument behind `given` others: the words that are no option, and not in brackets. */
static const char *missing_word(const struct command *command, int given, size_t *length) {
    int depth = 0;
    for (const char *word = command->usage; *word != '\0'; word += *length + (word[*length] != '\0')) {
        *length = strcspn(word, " \n");
        bool counts = depth == 0 && word[0] != '[' && word[0] != '-';
        if (counts && given-- == 0) {
            return word;
        }
        for (size_t i = 0; i < *length; i++) {
            depth += (word[i] == '[') - (word[i] == ']');
        }
    }
    *length = 0;
    return "";
}

enum exit_status command_run(const struct command *command, int argc, char **argv) {
    struct args args = {.command = command};
    bool help = false;
    enum exit_status status = parse(&args, argc, argv, &help);
    if (help) {
        command_help(command);
        return EXIT_OK;
    }
    if (status != EXIT_OK) {
        return status;
    }
    if (args.count < command->min_positional) {
        size_t length;
        const char *word = missing_word(command, args.count, &length);
        return usage_error(&args, "an argument is missing: %.*s", (int)length, word);
    }
    if (command->max_positional >= 0 && args.count > command->max_positional) {
        return usage_error(&args, "unexpected argument '%s'", args.positional[command->max_positional]);
    }
    log_set_level(LOG_WARN); /* what a command does is seen from its output; `run` sets its own */
    return command->run(&args);
}

bool args_int(const struct args *args, const char *name, int64_t min, int64_t max, int64_t *value) {
    const char *text = args_get(args, name);
    if (text == NULL) {
        return true;
    }
    char *end = NULL;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || number < min || number > max) {
        usage_error(args, "--%s wants a whole number from %lld to %lld, not '%s'", name, (long long)min, (long long)max,
                    text);
        return false;
    }
    *value = number;
    return true;
}

bool args_duration(const struct args *args, const char *name, int64_t *ms) {
    const char *text = args_get(args, name);
    if (text == NULL) {
        return true;
    }
    if (!units_parse_duration(text, ms)) {
        usage_error(args, "--%s wants a duration such as 10s, 5m or 1h30m, not '%s'", name, text);
        return false;
    }
    if (*ms > ARGS_MAX_WEEKS * UNITS_WEEK_MS) {
        usage_error(args, "--%s wants at most %dw, not '%s'", name, ARGS_MAX_WEEKS, text);
        return false;
    }
    return true;
}

/* ---- the database ------------------------------------------------------------------------------------------------- */

static enum status session_connect(const struct args *args, struct session *session, struct error *err) {
    *session = (struct session){0};
    enum status status = database_locate(args->database, args->home, &session->database, err);
    if (status == STATUS_OK) {
        status = sync_open(session->database.url, args->command->name, &session->db, err);
    }
    if (status != STATUS_OK) {
        session_close(session);
    }
    return status;
}

enum status session_connect_checked(const struct args *args, struct session *session, struct error *err) {
    enum status status = session_connect(args, session, err);
    if (status != STATUS_OK) {
        return status;
    }
    if (session->database.cluster != NULL) {
        status = migrate_up(session->db, NULL, err);
    }
    if (status == STATUS_OK) {
        status = migrate_check(session->db, err);
        if (status == STATUS_NOT_FOUND) { /* no schema: a choice for its owner to make */
            status = err->code = STATUS_CONFLICT;
        }
    }
    if (status != STATUS_OK) {
        session_close(session);
    }
    return status;
}

enum exit_status session_open_raw(const struct args *args, struct session *session) {
    struct error err = ERROR_NONE;
    return session_connect(args, session, &err) == STATUS_OK ? EXIT_OK : report_error(&err);
}

enum exit_status session_open(const struct args *args, struct session *session) {
    struct error err = ERROR_NONE;
    return session_connect_checked(args, session, &err) == STATUS_OK ? EXIT_OK : report_error(&err);
}

void session_close(struct session *session) {
    sync_close(session->db);
    session->db = NULL;
    database_release(&session->database);
}
