"""A worker for `pgstage conform` that breaks one rule of docs/worker-protocol.md, named by its argument; "none" breaks none.

Written from that page alone, without the module: it is the proof that "none" is enough, and that each rule is looked at.
"""
import json
import os
import signal
import sys

rule = sys.argv[1]
hello = {}


def breaks(name):
    return rule == name


def read():
    line = sys.stdin.readline()
    if breaks("cuts_lines") and len(line) > 65536:
        line = line[:65536]
    if not line:
        if breaks("outlives_its_input"):
            signal.pause()
        os._exit(0)
    if not line.strip():
        return {"type": "nothing"} if not breaks("dies_of_empty_lines") else sys.exit("empty")
    if breaks("loses_digits"):
        return json.loads(line, parse_int=lambda digits: int(float(digits)) if len(digits) > 15 else int(digits))
    return json.loads(line)


def say(message):
    # Text of other languages and large values need no thought when all is ASCII.
    text = json.dumps(message)
    if breaks("loses_unicode"):
        text = json.dumps(message, ensure_ascii=False).encode("ascii", "replace").decode()
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def wait_told(task, what):
    while True:
        message = read()
        if message["type"] == "tell" and (message["id"] == task["id"] or breaks("takes_any_tell")) and message[what]:
            return


def do(task):
    payload = task["payload"]
    action = payload["do"]
    if action == "echo":
        return {"output": payload["value"]}
    if action == "nothing":
        return {}
    if action == "task":
        names = ["key", "version", "attempt", "input", "inputs"] + (["progress"] if "progress" in task else [])
        if breaks("forgets_progress"):
            names = names[:5]
        return {"output": {name: task[name] for name in names}}
    if action == "with":
        return {"output": {} if breaks("forgets_with") else hello["with"]}
    if action in ("fail", "retry"):
        outcome = "retry" if breaks("always_retries") else action
        return {"outcome": outcome} if breaks("gives_no_reason") else {"outcome": outcome, "message": payload["message"]}
    if action == "sql":
        params = payload["params"][1:] if breaks("loses_parameters") else payload["params"]
        return {"sql": [{"sql": payload["sql"], "params": params}]}
    if action == "route":
        return {"route": payload["stage"]} if not breaks("routes_and_finishes") else {"route": payload["stage"], "finish": True}
    if action == "finish":
        return {"finish": True, "output": None}
    if action == "snooze":
        return {"snooze_ms": payload["ms"] / 1000 if breaks("snoozes_seconds") else payload["ms"], "route": None}
    if action == "progress":
        note = {"type": "progress", "id": task["id"], "fraction": payload["fraction"], "message": payload["message"]}
        if breaks("reports_percent"):
            note["fraction"] *= 100
        say(note)
        return {}
    if action == "log":
        note = {"type": "log", "id": task["id"], "message": payload["message"], "fields": payload["fields"]}
        if breaks("logs_without_id"):
            del note["id"]
        say(note)
        return {}
    if action == "print":
        print(payload["text"], file=sys.stdout if breaks("prints") else sys.stderr, flush=True)
        return {}
    if action == "wait_cancel":
        if breaks("is_deaf"):
            signal.pause()
        wait_told(task, "cancelled")
        return {"outcome": "retry", "message": "cancelled"}
    if action == "wait_superseded":
        wait_told(task, "superseded")
        return {"output": {"superseded": True}}
    return {"outcome": "fail", "message": "cannot do " + action} if not breaks("accepts_all") else {}


def answer(task):
    result = {"type": "result", "id": task["id"], **do(task)}
    if breaks("answers_with_numbers"):
        result["id"] = int(task["id"]) if task["id"].isdigit() else task["id"]
    if breaks("changes_ids") and task["id"].isdigit():
        result["id"] = str(int(task["id"]))
    say(result)
    if breaks("answers_twice"):
        say(result)


def run_batch(message):
    failing = [task["payload"] for task in message["tasks"] if task["payload"]["do"] == "fail_batch"]
    if failing and not breaks("fails_one_by_one"):
        say({"type": "result", "id": message["id"], "outcome": "retry", "message": failing[0]["message"]})
        return
    if breaks("forgets_one") and len(message["tasks"]) > 1:
        message["tasks"].pop()
    for task in reversed(message["tasks"]):
        answer(task)


def main():
    signal.signal(signal.SIGTERM, signal.SIG_IGN if breaks("ignores_sigterm") else signal.SIG_DFL)
    hello.update(read())
    if breaks("greets"):
        print("loading the model", flush=True)
    if "refuse" in hello["with"] and not breaks("refuses_nothing"):
        say({"type": "refused", "message": hello["with"]["refuse"]})
        return
    say({"type": "ready"})
    while True:
        message = read()
        if "colour" in message and breaks("dies_of_unknown_members"):
            sys.exit("colour?")
        if message["type"] == "task":
            answer(message)
        elif message["type"] == "batch":
            run_batch(message)
        elif message["type"] == "stop" and not breaks("ignores_stop"):
            if breaks("adds_a_farewell"):
                print("bye", flush=True)
            if breaks("stops_with_status_3"):
                sys.exit(3)
            return
        elif message["type"] == "tell" and breaks("dies_of_late_tells"):
            sys.exit("which task?")
        elif message["type"] == "weather" and breaks("dies_of_unknown_types"):
            sys.exit("weather?")


main()
