"""The sandbox of a worker: limits, no files but modules, no network and no processes.

`confine` returns the names of the protections that the system has: Linux has all of them, macOS
only the limits.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import struct
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

MEMORY_BYTES: Final = 512 * 1024 * 1024
CPU_S: Final = 10
"""CPU time of one document."""

PATH_ONLY: Final = getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK) | os.O_CLOEXEC
"""Flags of a descriptor that stands for a file, and is none to read from."""
PROTECTIONS: Final = ("landlock", "seccomp")
"""What `confine` may enforce: landlock refuses files, seccomp network and processes."""

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_SET_MODE_FILTER = 1
_SECCOMP_OF_ALL_THREADS = 1
_LANDLOCK_CREATE_RULESET = 444
_LANDLOCK_ADD_RULE = 445
_LANDLOCK_RESTRICT_SELF = 446
_LANDLOCK_VERSION = 1
_LANDLOCK_PATH_BENEATH = 1
_FILE_RIGHTS = {1: (1 << 13) - 1, 2: 1 << 13, 3: 1 << 14, 5: 1 << 15}
"""The file rights that each version of Landlock adds."""
_READ_FILE = 1 << 2
_READ_RIGHTS = _READ_FILE | 1 << 3
_PACKAGE = str(Path(__file__).parent.parent)
"""This package, which may be installed elsewhere (`pip install -e`)."""
_LIBRARIES = ("/usr/lib", "/usr/lib64", "/lib", "/lib64", "/usr/share/fonts", "/usr/share/zoneinfo")
_TCP_RIGHTS = 3
_SCOPES = 3
"""Signals, and sockets without a file, reach no process outside."""
_CAPABILITY_VERSION = 0x20080522
_READ_SEARCH = 1 << 2
"""The capability of root to read what belongs to others: the modules may."""

_ALLOW = 0x7FFF0000
_DENY = 0x00050000  # SECCOMP_RET_ERRNO
_EPERM, _ENOSYS = 1, 38
_CLONE_THREAD = 0x00010000
_F_SETLK, _F_SETOWN, _F_SETSIG, _F_SETOWN_EX = 6, 8, 10, 15
_O_TRUNC = 0o1000
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _GIVE = 0x20, 0x15, 0x35, 0x45, 0x06
"""Instructions of classic BPF."""
_HARMLESS_IOCTLS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451, 0x802C542A)
"""About terminals, pending bytes and inheritance; others change files, or send signals."""

# Calls of the kernel, each with its number on x86-64 and on ARM; "-" is one that it does not have.
_REFUSED: Final = {
    "network": """
        socket 41 198, connect 42 203, bind 49 200, listen 50 201, socketpair 53 199
    """,
    "programs and other processes": """
        fork 57 -, vfork 58 -, execve 59 221, execveat 322 281, kill 62 129, tkill 200 130,
        tgkill 234 131, rt_sigqueueinfo 129 138, rt_tgsigqueueinfo 297 240,
        pidfd_send_signal 424 424, pidfd_open 434 434, pidfd_getfd 438 438, ptrace 101 117,
        process_vm_readv 310 270, process_vm_writev 311 271, process_madvise 440 440,
        process_mrelease 448 448, migrate_pages 256 238, move_pages 279 239, setpriority 141 140,
        ioprio_set 251 30, sched_setparam 142 118, sched_setscheduler 144 119,
        sched_setaffinity 203 122, sched_setattr 314 274
    """,
    "files by name, of which Landlock only refuses to open, make and remove them": """
        truncate 76 45, creat 85 -, openat2 437 437, open_by_handle_at 304 265, chmod 90 -,
        fchmod 91 52, fchmodat 268 53, fchmodat2 452 452, chown 92 -, fchown 93 55, lchown 94 -,
        fchownat 260 54, utime 132 -, utimes 235 -, futimesat 261 -, utimensat 280 88,
        setxattr 188 5, lsetxattr 189 6, fsetxattr 190 7, setxattrat 463 463, removexattr 197 14,
        lremovexattr 198 15, fremovexattr 199 16, removexattrat 466 466, file_setattr 469 469,
        inotify_init 253 -, inotify_init1 294 26, fanotify_init 300 262
    """,
    "memory that is not the process's own, and outlives it": """
        shmget 29 194, shmat 30 196, semget 64 190, msgget 68 186, mq_open 240 180, add_key 248 217,
        request_key 249 218, keyctl 250 219, memfd_secret 447 447
    """,
    "the system": """
        mount 165 40, unshare 272 97, setns 308 268, bpf 321 280, io_uring_setup 425 425,
        perf_event_open 298 241, userfaultfd 323 282
    """,
}
"""Calls that are refused."""
_LIMITED: Final = """
    clone 56 220, clone3 435 435, fcntl 72 25, ioctl 16 29, prlimit64 302 261, seccomp 317 277
"""
"""Calls that are refused with some arguments, and the one that sets the filter."""
_OPENING: Final = "open 2 -, openat 257 56"
_FLAGS: Final = {"open": 1, "openat": 2}
"""Calls that open files, and the place of the flags in each."""
_ARCHITECTURES: Final = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""The place of the numbers above, and the architecture as the kernel audits it."""


def end_with_parent() -> None:
    """Let the kernel end this process when the thread that has started it ends; on Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def limit_process(memory_bytes: int = MEMORY_BYTES, *, is_prepared: bool = False) -> None:
    """Limit memory, files, processes and core dumps of this process, for good.

    A library that `is_prepared` may have files open, and has reserved addresses: of memory, only
    what it can write to counts.
    """
    _limit(resource.RLIMIT_DATA if is_prepared else resource.RLIMIT_AS, memory_bytes)
    _limit(resource.RLIMIT_FSIZE, 0)
    _limit(resource.RLIMIT_NOFILE, 64 if is_prepared else 16)
    _limit(resource.RLIMIT_CORE, 0)
    if hasattr(resource, "RLIMIT_NPROC"):
        _limit(resource.RLIMIT_NPROC, 0)


def allow_cpu_time() -> None:
    """Let this process use `CPU_S` seconds more; beyond them it is ended."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    used = int(usage.ru_utime + usage.ru_stime)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CPU, (used + CPU_S + 1, hard))


def _limit(what: int, value: int) -> None:
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(what, (value, value))


def opened_limits() -> list[int]:
    """Return descriptors of what a library may read of the system's limits at its start."""
    found: list[int] = []
    for path in ("/proc/self/cgroup", "/sys/fs/cgroup"):
        with contextlib.suppress(OSError):
            found.append(os.open(path, PATH_ONLY))
    return found


def confine(files: Sequence[int] = (), *, has_locks: bool = True) -> Sequence[str]:
    """Refuse files, network, programs and processes from now on; return what is in force.

    The open `files` may still be opened by name, for reading. Without `has_locks`, a lock on a file
    seems to be taken, and is not.
    """
    if sys.platform != "linux":
        return ()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return ()
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    _drop_capabilities(libc)
    in_force = (_refuse_files(libc, files), _refuse_calls(libc, has_locks=has_locks))
    return [name for name, is_there in zip(PROTECTIONS, in_force, strict=True) if is_there]


def refuse_files() -> None:
    """Refuse the files of `confine`, too, in this thread and those that it starts from now on."""
    if sys.platform == "linux":
        _refuse_files(ctypes.CDLL(None, use_errno=True), ())


def _drop_capabilities(libc: ctypes.CDLL) -> None:
    """Give up the rights of root but that to read; another user has none."""
    head = struct.pack("Ii", _CAPABILITY_VERSION, 0)
    now = ctypes.create_string_buffer(24)
    if libc.capget(head, now) == 0:
        effective, permitted, *_ = struct.unpack("6I", now.raw)
        kept = (effective & _READ_SEARCH, permitted & _READ_SEARCH, 0, 0, 0, 0)
        libc.capset(head, struct.pack("6I", *kept))


def _refuse_files(libc: ctypes.CDLL, files: Sequence[int]) -> bool:
    """Refuse to open files by name, but for libraries and modules; and TCP where possible."""
    version = libc.syscall(_LANDLOCK_CREATE_RULESET, None, 0, _LANDLOCK_VERSION)
    if version < 1:
        return False
    rights = sum(each for since, each in _FILE_RIGHTS.items() if since <= version)
    # A kernel takes no more of the attributes than it knows.
    attributes = struct.pack("QQQ", rights, _TCP_RIGHTS, _SCOPES)
    attributes = attributes[: 24 if version >= 6 else 16 if version >= 4 else 8]
    ruleset = libc.syscall(
        _LANDLOCK_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0
    )
    if ruleset < 0:
        return False
    try:
        for folder in {sys.prefix, sys.base_prefix, _PACKAGE, *_LIBRARIES}:
            _allow_reading(libc, ruleset, folder)
        for file in files:
            _allow(libc, ruleset, file, _READ_FILE)
        return libc.syscall(_LANDLOCK_RESTRICT_SELF, ruleset, 0) == 0
    finally:
        os.close(ruleset)


def _allow_reading(libc: ctypes.CDLL, ruleset: int, folder: str) -> None:
    try:
        fd = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return
    _allow(libc, ruleset, fd, _READ_RIGHTS)
    os.close(fd)


def _allow(libc: ctypes.CDLL, ruleset: int, fd: int, rights: int) -> None:
    rule = struct.pack("=Qi", rights, fd)
    libc.syscall(_LANDLOCK_ADD_RULE, ruleset, _LANDLOCK_PATH_BENEATH, rule, 0)


def _refuse_calls(libc: ctypes.CDLL, *, has_locks: bool) -> bool:
    """Refuse network, programs, processes and signals to others by a seccomp filter."""
    known = _ARCHITECTURES.get(os.uname().machine)
    if known is None or sys.maxsize < 2**32:
        return False
    at, architecture = known
    limited = _numbers(_LIMITED, at)
    program = b"".join(_filter(architecture, at, limited, has_locks=has_locks))
    code = ctypes.create_string_buffer(program, len(program))
    description = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(code))
    filled = ctypes.create_string_buffer(description, len(description))
    # A converter may have started threads when it was imported.
    call = (limited["seccomp"], _SECCOMP_SET_MODE_FILTER, _SECCOMP_OF_ALL_THREADS, filled)
    return libc.syscall(*call) == 0


def _numbers(table: str, at: int) -> Mapping[str, int]:
    """Return the numbers of the calls in a table, by name, from the place of an architecture."""
    rows = (each.split() for each in table.split(","))
    return {name: int(numbers[at]) for name, *numbers in rows if numbers[at] != "-"}


def _filter(
    architecture: int, at: int, others: Mapping[str, int], *, has_locks: bool
) -> Sequence[bytes]:
    """Return the instructions (classic BPF) of the filter."""
    refuse = _DENY | _EPERM
    steps = [
        _step(_LOAD, 4),  # the architecture: another one has other numbers
        _step(_EQUAL, architecture, 1, 0),
        _step(_GIVE, refuse),
        _step(_LOAD, 0),  # the number of the call
        _step(_AT_LEAST, 0x40000000, 0, 1),  # x32
        _step(_GIVE, refuse),
    ]
    for number in (each for table in _REFUSED.values() for each in _numbers(table, at).values()):
        steps += [_step(_EQUAL, number, 0, 1), _step(_GIVE, refuse)]
    if not has_locks:  # error 0 is success
        steps += _rule(others["fcntl"], 1, _EQUAL, (_F_SETLK,), _DENY)
    steps += _rule(others["fcntl"], 1, _EQUAL, (_F_SETOWN, _F_SETSIG, _F_SETOWN_EX), refuse)
    steps += _rule(others["ioctl"], 1, _EQUAL, _HARMLESS_IOCTLS, refuse, is_unless=True)
    steps += _rule(others["prlimit64"], 0, _EQUAL, (0,), refuse, is_unless=True)  # its own
    for name, number in _numbers(_OPENING, at).items():
        steps += _rule(number, _FLAGS[name], _ANY_BIT, (_O_TRUNC,), refuse)
    # The C library falls back to `clone`, whose flags a filter can see.
    steps += [_step(_EQUAL, others["clone3"], 0, 1), _step(_GIVE, _DENY | _ENOSYS)]
    steps += _rule(others["clone"], 0, _ANY_BIT, (_CLONE_THREAD,), refuse, is_unless=True)
    return [*steps, _step(_GIVE, _ALLOW)]


def _rule(
    number: int,
    argument: int,
    test: int,
    values: Sequence[int],
    result: int,
    *,
    is_unless: bool = False,
) -> Sequence[bytes]:
    """Return what gives a result to a call with one of some values in an argument, or without."""
    count = len(values)
    # A match goes to the result, or over it; so does the last value without a match.
    tests = [
        _step(test, value, count - at - (not is_unless), at == count - 1 and not is_unless)
        for at, value in enumerate(values)
    ]
    # The lower half of the argument; then the number again.
    body = [_step(_LOAD, 16 + 8 * argument), *tests, _step(_GIVE, result), _step(_LOAD, 0)]
    return [_step(_EQUAL, number, 0, len(body)), *body]


def _step(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("HBBI", code, then, otherwise, value)
