"""The stage `clean`: a file of HTML becomes {"title", "pieces", "links"}; a worker that stays.

What is wrong with a file fails that file for good, with a reason; what is wrong with the machine is tried again.
"""
import errno
import os
import stat
import urllib.parse

import page
import pgstage_worker as pgstage

SETTINGS = {"max_mb": 20, "piece": 2000}


def settings(given):
    for name, value in given.items():
        if name not in SETTINGS:
            raise ValueError(f"with: there is no setting '{name}'; there are {' and '.join(SETTINGS)}")
        if type(value) is not int or value < 1:
            raise ValueError(f"with: {name} must be a whole number from 1")
    return {**SETTINGS, **given}


KINDS = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket"}
REASONS = {
    errno.ENOENT: "the file is gone: it was moved or removed after it was found",
    errno.ENOTDIR: "the file is gone: it was moved or removed after it was found",
    errno.ELOOP: "is a link that leads back to itself",
    errno.EACCES: "the file cannot be read: permission denied",
    errno.EPERM: "the file cannot be read: permission denied",
    errno.ENAMETOOLONG: "the file cannot be read: its path is too long",
}


def read_file(path, max_mb):
    """All bytes of a regular file. Never waits for a pipe or a device, never reads more than the limit."""
    try:
        check(os.stat(path), max_mb)
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            before = os.fstat(file.fileno())
            check(before, max_mb)  # it may be another one by now
            data = file.read((max_mb << 20) + 1)
            after = os.fstat(file.fileno())
    except OSError as error:
        if error.errno == errno.ENOENT and os.path.islink(path):
            raise pgstage.Fail("is a link to a file that does not exist") from None
        if error.errno in REASONS:
            raise pgstage.Fail(REASONS[error.errno]) from None
        raise pgstage.Retry(f"the file cannot be read now: {error.strerror}") from None
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise pgstage.Retry("the file was being written while it was read")
    if not data:
        raise pgstage.Fail("the file is empty")
    if b"\0" in data[:4096] and not data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise pgstage.Fail("is not text")
    return data


def check(status, max_mb):
    kind = stat.S_IFMT(status.st_mode)
    if kind != stat.S_IFREG:
        raise pgstage.Fail(f"is {KINDS.get(kind, 'a device')}, not a document")
    if status.st_size > max_mb << 20:
        raise pgstage.Fail(f"the file is too large: it has {status.st_size >> 20} MB, the limit (max_mb) is {max_mb} MB")


@pgstage.handler
def clean(task):
    path = (task.payload or {}).get("path")
    if not isinstance(path, str) or not path.startswith("/"):
        raise pgstage.Fail('the payload has no "path" that is absolute')
    if task.payload.get("escaped"):
        path = urllib.parse.unquote_to_bytes(path)
    found = page.read(read_file(path, task.state["max_mb"]), task.key)
    return {
        "title": found["title"],
        "pieces": page.pieces(found["text"], task.state["piece"]),
        "links": found["links"],
    }


if __name__ == "__main__":
    pgstage.run(init=settings)
