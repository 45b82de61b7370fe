#!/bin/sh
# worker.sh - a worker in shell, with jq (Debian: apt-get install jq). Copy it, and put your commands into do_task.
#
#   - name: convert
#     worker: [sh, worker.sh]
#
# It does what `pgstage conform -- sh worker.sh` asks for (docs/worker-protocol.md, "Conformance"). It takes no batches. Two
# jq are started for each task, and the shell reads a large payload byte by byte: this is for stages whose commands take
# longer than that.

# The protocol has standard output for itself, as descriptor 3: what commands print goes to the log. They read nothing of
# the protocol's: standard input is descriptor 4.
exec 3>&1 1>&2 4<&0 </dev/null

say() { # a message; printf is a part of the shell, so that the text may have any length
    printf '%s\n' "$1" >&3
}

of_line() { # options and a filter of jq, for the message in hand
    printf '%s\n' "$line" | jq -c "$@"
}

# Answers the task in hand with the members that a filter makes of it.
answer() {
    result=$(of_line "{type: \"result\", id} + ($1)") || result=$(of_line '{type: "result", id, outcome: "retry", message: "jq failed"}')
    say "$result"
}

# Waits until the task in hand is told to be $1 (cancelled, superseded).
wait_told() {
    task=$line id=$(of_line .id)
    while IFS= read -r line <&4; do
        [ "$(of_line "select(.type == \"tell\" and .id == $id) | .$1")" = true ] && break
        [ "$(of_line -r .type)" = stop ] && exit 0
    done
    line=$task
}

do_task() { # what
    case $1 in
    echo) # jq holds whole numbers up to 2^53, and would change others
        answer 'if any(.payload.value | .. | numbers; fabs >= 9007199254740992)
                then {outcome: "fail", message: "a number that jq cannot hold"} else {output: .payload.value} end' ;;
    nothing) answer '{}' ;;
    task) answer '{output: ({key, version, attempt, input, inputs} + if .progress then {progress} else {} end)}' ;;
    with) say "$(of_line --argjson with "$with" '{type: "result", id, output: $with}')" ;;
    fail) answer '{outcome: "fail", message: .payload.message}' ;;
    retry) answer '{outcome: "retry", message: .payload.message}' ;;
    sql) answer '{sql: [.payload | {sql, params}]}' ;;
    route) answer '{route: .payload.stage}' ;;
    finish) answer '{finish: true}' ;;
    snooze) answer '{snooze_ms: .payload.ms}' ;;
    progress)
        say "$(of_line '{type: "progress", id} + (.payload | {fraction, message})')"
        answer '{}' ;;
    log)
        say "$(of_line '{type: "log", id} + (.payload | {message, fields})')"
        answer '{}' ;;
    print)
        of_line -r .payload.text
        answer '{}' ;;
    wait_cancel)
        wait_told cancelled
        answer '{outcome: "retry", message: "cancelled"}' ;;
    wait_superseded)
        wait_told superseded
        answer '{output: {superseded: true}}' ;;
    *) answer '{outcome: "fail", message: "this worker cannot do \(.payload.do)"}' ;;
    esac
}

start() {
    with=$(of_line .with)
    if [ "$(of_line 'has("batch")')" = true ]; then
        say '{"type":"refused","message":"this worker takes no batches: remove batch: from its stage"}'
        exit 1
    elif [ "$(of_line '.with | has("refuse")')" = true ]; then
        say "$(of_line '{type: "refused", message: .with.refuse}')"
        exit 1
    fi
    say '{"type":"ready"}'
}

while IFS= read -r line <&4; do
    what=$(of_line -r '"\(.type) \((.payload? | objects | .do) // "")"')
    case $what in
    'hello '*) start ;;
    'task '*) do_task "${what#task }" ;;
    'stop '*) exit 0 ;;
    esac
done
