"""The worker of DuckDB: what it cannot reach."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.providers.database.engines.duckdb.numbered import write
from tests.waiting import PATIENCE_S

TRIES = """
import ctypes, json, os, socket, sys, threading
from resource_server.providers.database.engines.duckdb import worker
from resource_server.providers.database.engines.duckdb.messages import (
    Open, CallerTables, CallerTable
)

database, other, for_callers = sys.argv[1:]
relation = CallerTable("t", "main", "t", ("id",), where="id < 5")
opened = worker._opened(Open(database, visible=CallerTables((relation,)) if for_callers else None))
connection, answer = opened.connections[0], opened.answer
libc = ctypes.CDLL(None, use_errno=True)


def try_out(*attempts):
    found = {}
    for name, attempt in attempts:
        try:
            found[name] = f"done: {attempt()!r}"[:80]
        except BaseException as error:
            found[name] = type(error).__name__
    return found


def fork():
    if os.fork() == 0:
        os._exit(0)


def run(sql):
    return lambda: connection.execute(sql).fetchall()


found = try_out(
    ("its file", lambda: open(database, "rb").read(4)),
    ("its table", run("SELECT count(*) FROM t")),
    ("all of its table", run("SELECT count(*) FROM it.main.t")),
    ("a thread", lambda: threading.Thread(target=int).start()),
    ("another file", lambda: open(other).read()),
    ("a listing", lambda: os.listdir(os.path.dirname(other))),
    ("the passwords", lambda: open("/etc/passwd").read()),
    ("the environment", lambda: open("/proc/self/environ").read()),
    ("the memory", lambda: open("/proc/self/mem", "rb").read()),
    ("a new file", lambda: open(other + ".new", "w")),
    ("its file, to write", lambda: open(database, "r+b")),
    ("a removal", lambda: os.remove(other)),
    ("a renaming", lambda: os.rename(other, other + ".moved")),
    ("a folder", lambda: os.mkdir(other + ".folder")),
    ("a link", lambda: os.symlink(other, other + ".link")),
    ("a fork", fork),
    ("a program", lambda: os.execv("/bin/true", ["true"])),
    ("a shell", lambda: __import__("subprocess").run(["/bin/true"])),
    ("a socket", lambda: socket.socket()),
    ("a Unix socket", lambda: socket.socket(socket.AF_UNIX)),
    ("a pair of sockets", lambda: socket.socketpair()),
    ("a signal", lambda: os.kill(os.getppid(), 0)),
    ("reading text", run(f"SELECT * FROM read_text('{other}')")),
    ("a glob", run(f"SELECT * FROM glob('{other}*')")),
    ("attaching", run(f"ATTACH '{other}.duckdb'")),
    ("copying", run(f"COPY t TO '{other}.csv'")),
    ("an extension", run("INSTALL httpfs")),
    ("a setting", run("SET enable_external_access = true")),
    ("a write to its file", run("INSERT INTO it.main.t VALUES (1, 'x')")),
)
memory = run("SELECT * FROM duckdb_memory()")()
print(json.dumps([found, list(answer.protections), list(os.environ), memory]))
sys.stdout.flush()
os._exit(0)
"""
ALLOWED = {"its file", "its table", "all of its table", "a thread"}


def _tried(database: Path, other: Path, *, for_callers: bool = False) -> list[Any]:
    """Return what a worker did, its protections, its environment and the memory of DuckDB."""
    ran = subprocess.run(
        [
            *(sys.executable, "-I", "-B", "-X", "utf8", "-c", TRIES),
            *(str(database), str(other), "callers" if for_callers else ""),
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd="/",
        env={},
        timeout=PATIENCE_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    found, protections, environment, memory = json.loads(ran.stdout)
    if "landlock" not in protections or "seccomp" not in protections:
        pytest.skip("this kernel has no Landlock or no seccomp")
    assert "secret" not in ran.stdout
    assert set(environment) <= {"LC_CTYPE"}
    done = {name for name, outcome in found.items() if outcome.startswith("done")}
    return [done, found, memory]


@pytest.mark.guarantee("duckdb-is-confined")
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has these protections")
def test_a_worker_reads_its_database_and_reaches_nothing_else(tmp_path: Path) -> None:
    path = write(tmp_path / "it.duckdb")
    other = tmp_path / "other.txt"
    other.write_text("secret")
    before = sorted(tmp_path.iterdir())
    done, found, _ = _tried(path, other)
    assert done == ALLOWED, found
    done, found, memory = _tried(path, other, for_callers=True)
    assert done == ALLOWED - {"its file", "all of its table"}, found
    assert found["its table"] == "done: [(5,)]"
    assert sorted(tmp_path.iterdir()) == before
    # What is hidden leaves nothing behind.
    path.unlink()
    write(path, 200_000)
    assert _tried(path, other, for_callers=True) == [done, found, memory]
