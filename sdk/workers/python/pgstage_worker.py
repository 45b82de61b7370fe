"""pgstage_worker - a worker of a pgstage pipeline from a Python function.

    import pgstage_worker as pgstage

    @pgstage.handler
    def embed(task):
        return {"length": len(task.payload["text"])}

    pgstage.run()

This one file is all there is to it: Python 3.9 or newer, standard library only. Copy it beside your program, or name its
folder in the stage's `env: [PYTHONPATH=...]`. In the pipeline:

    - name: embed
      worker: [python3, embed.py]

What the handler returns is the stage's output (anything that json.dumps takes; None: no output). It fails by raising Retry
("may succeed later") or Fail ("running it again would not help"); any other exception is as Retry, and its traceback goes to
the log. From run() on, print() goes to the log as well, as does whatever else writes to standard output, and standard input
is empty: both belong to the protocol, which docs/worker-protocol.md describes.

Settings, and what is made once a process:

    def load(config):                   # the stage's `with:` block, a dict
        return Model(config["model"])   # an exception here: the worker is refused with its text

    pgstage.run(init=load)              # the handler finds it in task.state

Batches, for a stage with `batch:`, are handed to a handler that asks for them; it returns one output a task, in their order:

    @pgstage.handler(batch=True)
    def embed(tasks):
        return model.encode([task.payload["text"] for task in tasks])

Put Retry("...") or Fail("...") into that list, or call task.retry("...") or task.fail("..."), for a task that failed. What is
raised fails the batch as a whole: pgstage then finds out by halves which task is to blame.
"""
import json
import os
import queue
import sys
import threading
import time
import traceback

__all__ = ["Fail", "Retry", "Task", "handler", "log", "run"]

_LEVELS_MAX = 2048  # of JSON, as PostgreSQL stores it
_DIGITS_MAX = 200_000  # of a number, likewise


class Retry(Exception):
    """The task failed, and may succeed later: an attempt is used."""


class Fail(Exception):
    """The task failed for good."""


class Task:
    """One task. Its methods may be called from any thread while the handler runs.

    key, version, attempt     which document, which state of it, the how-manieth try of this stage (1: the first)
    payload                   of the document
    input                     what the stage before returned
    inputs                    what the stages named by `inputs:` returned, a dict by name
    last_progress             {"fraction": ..., "message": ...} of an earlier run that failed, or None
    pipeline, stage, folder   where it runs; the folder of the pipeline file
    config, state             the stage's `with:` block; what init returned
    """

    def __init__(self, worker, message, deadline):
        self._worker = worker
        self._cancelled = threading.Event()
        self._superseded = threading.Event()
        self._deadline = deadline
        self._result = {}
        self._sql = []
        self.id = message["id"]
        self.key = message.get("key")
        self.version = message.get("version")
        self.attempt = message.get("attempt")
        self.payload = message.get("payload")
        self.input = message.get("input")
        self.inputs = message.get("inputs") or {}
        self.last_progress = message.get("progress")
        self.pipeline = worker.hello.get("pipeline")
        self.stage = worker.hello.get("stage")
        self.folder = worker.hello.get("folder")
        self.config = worker.config
        self.state = worker.state

    def cancelled(self):
        """Whether what this run returns will not count: stop soon, by whatever way."""
        return self._cancelled.is_set()

    def superseded(self):
        """Whether a newer version of the document waits for this run to end."""
        return self._superseded.is_set()

    def wait_told(self, seconds=None):
        """Sleeps until cancelled or superseded, or for so long. Returns whether it is one of them."""
        return self._worker.wait_told(self, seconds)

    def remaining(self):
        """Seconds until the stage's time-out, None when it has none."""
        return None if self._deadline is None else max(0.0, self._deadline - time.monotonic())

    def progress(self, fraction, message=""):
        """How far this run has come, from 0.0 to 1.0."""
        self._worker.send({"type": "progress", "id": self.id, "fraction": fraction, "message": str(message)})

    def log(self, message, **fields):
        """One line in the node's log; the fields are texts, numbers, True, False or None."""
        self._worker.log(message, fields, self.id)

    def sql(self, statement, *parameters):
        """A statement, with $1 to $N, for the transaction that completes the stage: both commit or neither does."""
        self._sql.append({"sql": statement, "params": [_parameter(value) for value in parameters]})

    def route(self, stage):
        """When the handler returns, the task goes on at that stage."""
        self._go({"route": stage})

    def finish(self):
        """When the handler returns, the document is done: the stages behind this one are skipped."""
        self._go({"finish": True})

    def snooze(self, seconds):
        """The stage is not done: it runs again after that time, as the same attempt; its output and SQL do not count."""
        self._go({"snooze_ms": round(seconds * 1000)})

    def retry(self, message):
        """For batches: this task failed, and may succeed later."""
        self._result = {"outcome": "retry", "message": str(message)}

    def fail(self, message):
        """For batches: this task failed for good."""
        self._result = {"outcome": "fail", "message": str(message)}

    def _go(self, where):
        if "outcome" not in self._result:
            self._result = where

    def _failed(self):
        return "outcome" in self._result

    def _finished(self, output):
        result = dict(self._result)
        if not self._failed():
            if output is not None:
                result["output"] = output
            if self._sql:
                result["sql"] = self._sql
        return result


def _parameter(value):
    """As the protocol takes it: texts, numbers, booleans and None as they are."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (dict, list, tuple)):
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    if isinstance(value, (bytes, bytearray)):
        return "\\x" + bytes(value).hex()  # bytea's input form
    return str(value)  # Decimal, datetime, UUID ...


class _Worker:
    """The two ends of the protocol: a thread that reads, and whoever sends."""

    def __init__(self):
        self._protect()
        self._sending = threading.Lock()
        self._told = threading.Condition()
        self._open = {}
        self.work = queue.Queue()
        self.hello, self.config, self.state = {}, {}, None
        threading.Thread(target=self._read, name="pgstage-reader", daemon=True).start()

    def _protect(self):
        """Takes the protocol's two descriptors away from everybody else, children included."""
        self._in = os.dup(0)
        self._out = os.dup(1)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        os.dup2(2, 1)
        if sys.stdout is not None:
            sys.stdout.flush()  # what was printed so far goes to the log, too
            if hasattr(sys.stdout, "reconfigure"):
                sys.stdout.reconfigure(line_buffering=True, errors="backslashreplace")

    # ---- reading

    def _lines(self):
        """Without a file object, whose lock a process that ends while this thread reads would trip over."""
        parts = []
        while chunk := os.read(self._in, 1 << 18):
            *ended, rest = chunk.split(b"\n")
            for line in ended:
                yield b"".join([*parts, line])
                parts = []
            parts.append(rest)

    def _read(self):
        try:
            for line in self._lines():
                if line.strip():
                    self._take(json.loads(line))
        except BaseException:  # nothing will be heard any more
            traceback.print_exc()
        with self._told:
            for task in self._open.values():
                task._cancelled.set()
            self._told.notify_all()
        self.work.put({"type": "stop"})

    def _take(self, message):
        kind = message.get("type")
        if kind == "tell":
            self._tell(message)
        elif kind in ("hello", "task", "batch", "stop"):
            message["_at"] = time.monotonic()
            if kind in ("task", "batch"):
                self._announce(message)
            self.work.put(message)

    def _announce(self, message):
        """Before the handler gets its turn: a tell may be right behind."""
        limit = message.get("timeout_ms")
        deadline = None if limit is None else message["_at"] + limit / 1000
        with self._told:
            message["_tasks"] = [
                self._open.setdefault(one["id"], Task(self, one, deadline)) for one in message.get("tasks", [message])
            ]

    def _tell(self, message):
        with self._told:
            task = self._open.get(message.get("id"))
            if task is not None:
                for event, value in ((task._cancelled, message.get("cancelled")), (task._superseded, message.get("superseded"))):
                    event.set() if value else event.clear()
                self._told.notify_all()

    def wait_told(self, task, seconds):
        with self._told:
            return self._told.wait_for(lambda: task.cancelled() or task.superseded(), seconds)

    def close(self, task):
        with self._told:
            self._open.pop(task.id, None)

    # ---- sending

    def encode(self, message):
        return json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8") + b"\n"

    def write(self, line):
        with self._sending:
            view = memoryview(line)
            try:
                while view:
                    view = view[os.write(self._out, view) :]
            except BrokenPipeError:
                os._exit(1)  # the node is gone

    def send(self, message):
        self.write(self.encode(message))

    def log(self, message, fields, task_id=None):
        line = {"type": "log", "message": str(message)}
        if task_id is not None:
            line["id"] = task_id
        if fields:
            line["fields"] = {name: _parameter(value) for name, value in fields.items()}
        self.send(line)


_worker = None
_registered = None


def handler(function=None, *, batch=False):
    """Marks the function that run() runs: a task in, its output out; with batch=True a list of tasks in, a list out."""

    def register(marked):
        global _registered
        marked.pgstage_batch = batch
        _registered = marked
        return marked

    return register if function is None else register(function)


def log(message, **fields):
    """One line in the node's log that belongs to no task."""
    if _worker is not None:
        _worker.log(message, fields)
    else:
        print(message, fields or "", file=sys.stderr)


def run(handle=None, *, init=None, fini=None, batch=None):
    """Serves the stage with `handle`, or the function that @handler marked, until the node says stop.

    init(config) is called once before the first task, fini(state) at the end of a worker that is stopped in order.
    """
    global _worker
    handle = handle if handle is not None else _registered
    if handle is None:
        raise TypeError("run() needs a handler: pass a function, or mark one with @handler")
    takes_batch = batch if batch is not None else getattr(handle, "pgstage_batch", False)
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 4 * _LEVELS_MAX))
    if hasattr(sys, "set_int_max_str_digits"):
        sys.set_int_max_str_digits(_DIGITS_MAX)
    worker = _worker = _Worker()
    if not _start(worker, init):
        sys.exit(1)
    while True:
        message = worker.work.get()
        if message["type"] == "stop":
            break
        if message["type"] in ("task", "batch"):
            _serve(worker, message, handle, takes_batch)
        message = None  # a payload may be large, and the next one far
    if fini is not None:
        fini(worker.state)
    sys.stdout.flush()


def _start(worker, init):
    """False: refused, or the node ended first."""
    hello = worker.work.get()
    if hello["type"] != "hello":
        return False
    worker.hello, worker.config = hello, hello.get("with") or {}
    try:
        worker.state = init(worker.config) if init is not None else None
    except Exception as error:
        worker.send({"type": "refused", "message": _reason(error)})
        return False
    worker.send({"type": "ready"})
    return True


def _reason(error):
    """The text of an exception; where it is none of ours, with its type, and the traceback goes to the log."""
    if isinstance(error, (Retry, Fail)):
        return str(error) or type(error).__name__
    traceback.print_exception(type(error), error, error.__traceback__)
    return f"{type(error).__name__}: {error}"


def _failure(error):
    if isinstance(error, SystemExit):
        return {"outcome": "fail", "message": f"the handler called exit({error.code}) instead of returning"}
    return {"outcome": "fail" if isinstance(error, Fail) else "retry", "message": _reason(error)}


def _serve(worker, message, handle, takes_batch):
    tasks = message["_tasks"]
    if not takes_batch:
        lines = [_answer(worker, task, _run_one(handle, task)) for task in tasks]
    else:
        results = _run_batch(handle, tasks)
        if isinstance(results, dict):  # of the batch as a whole
            lines = [worker.encode({"type": "result", "id": message["id"], **results})]
        else:
            lines = [_answer(worker, task, result) for task, result in zip(tasks, results)]
    for task in tasks:
        worker.close(task)
    sys.stdout.flush()
    worker.write(b"".join(lines))


def _answer(worker, task, result):
    """The line of a result; what cannot be written as JSON fails its task."""
    head = {"type": "result", "id": task.id}
    try:
        return worker.encode({**head, **result})
    except (TypeError, ValueError, RecursionError) as error:
        return worker.encode({**head, "outcome": "fail", "message": f"the result cannot be written as JSON: {error}"})


def _run_one(handle, task):
    try:
        return task._finished(handle(task))
    except (Exception, SystemExit) as error:
        return _failure(error)


def _run_batch(handle, tasks):
    """One result a task, or one for the batch."""
    try:
        outputs = handle(tasks)
        outputs = [None] * len(tasks) if outputs is None else list(outputs)
        if len(outputs) != len(tasks):
            raise Fail(f"the handler returned {len(outputs)} outputs for {len(tasks)} tasks")
    except (Exception, SystemExit) as error:
        return _failure(error)
    return [
        _failure(output) if isinstance(output, Exception) else task._finished(output)
        for task, output in zip(tasks, outputs)
    ]
