"""The sandbox of a worker: limits, no files but modules, no network and no processes.

`confine` returns the names of the protections that the system has: Linux has all of them, macOS
only the limits.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import resource
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

MEMORY_BYTES: Final = 512 * 1024 * 1024
CPU_S: Final = 10
"""CPU time of one document."""

PROTECTIONS: Final = ("landlock", "seccomp")
"""What `confine` may enforce: landlock refuses files, seccomp network and processes."""

_PR_SET_DUMPABLE = 4
_PR_SET_NO_NEW_PRIVS = 38
_PR_SET_SECCOMP = 22
_SECCOMP_MODE_FILTER = 2
_LANDLOCK_CREATE_RULESET = 444
_LANDLOCK_ADD_RULE = 445
_LANDLOCK_RESTRICT_SELF = 446
_LANDLOCK_VERSION = 1
_LANDLOCK_PATH_BENEATH = 1
_ALL_FILE_RIGHTS = (1 << 13) - 1
"""The file rights of the first version."""
_READ_FILE = 1 << 2
_READ_RIGHTS = _READ_FILE | 1 << 3
_PACKAGE = str(Path(__file__).parent.parent)
"""This package, which may be installed elsewhere (`pip install -e`)."""
_LIBRARIES = ("/usr/lib", "/usr/lib64", "/lib", "/lib64", "/usr/share/fonts")
_TCP_RIGHTS = 3

_ALLOW = 0x7FFF0000
_DENY = 0x00050000  # SECCOMP_RET_ERRNO
_EPERM, _ENOSYS = 1, 38
_CLONE_THREAD = 0x00010000
_FCNTL = {0xC000003E: 72, 0xC00000B7: 25}
_F_SETLK = 6

# Architecture as the kernel audits it, and the numbers of the calls that are refused.
_ARCHITECTURES = {
    "x86_64": (
        0xC000003E,
        {
            "socket": 41,
            "connect": 42,
            "bind": 49,
            "listen": 50,
            "socketpair": 53,
            "fork": 57,
            "vfork": 58,
            "execve": 59,
            "kill": 62,
            "ptrace": 101,
            "mount": 165,
            "tkill": 200,
            "tgkill": 234,
            "unshare": 272,
            "process_vm_readv": 310,
            "process_vm_writev": 311,
            "bpf": 321,
            "execveat": 322,
            "io_uring_setup": 425,
            "pidfd_open": 434,
        },
        {"clone": 56, "clone3": 435},
    ),
    "aarch64": (
        0xC00000B7,
        {
            "mount": 40,
            "unshare": 97,
            "ptrace": 117,
            "kill": 129,
            "tkill": 130,
            "tgkill": 131,
            "socket": 198,
            "socketpair": 199,
            "bind": 200,
            "listen": 201,
            "connect": 203,
            "execve": 221,
            "process_vm_readv": 270,
            "process_vm_writev": 271,
            "bpf": 280,
            "execveat": 281,
            "io_uring_setup": 425,
            "pidfd_open": 434,
        },
        {"clone": 220, "clone3": 435},
    ),
}


def limit_process(memory_bytes: int = MEMORY_BYTES) -> None:
    """Limit memory, files, processes and core dumps of this process, for good."""
    _limit(resource.RLIMIT_AS, memory_bytes)
    _limit(resource.RLIMIT_FSIZE, 0)
    _limit(resource.RLIMIT_NOFILE, 16)
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


def confine(files: Sequence[int] = (), *, has_locks: bool = True) -> Sequence[str]:
    """Refuse files, network, programs and processes from now on; return what is in force.

    The open `files` may still be opened by name, for reading. Without `has_locks`, locks on files
    are not taken, and their owner is told that they are.
    """
    if sys.platform != "linux":
        return ()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return ()
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    in_force = (_refuse_files(libc, files), _refuse_calls(libc, has_locks=has_locks))
    return [name for name, is_there in zip(PROTECTIONS, in_force, strict=True) if is_there]


def _refuse_files(libc: ctypes.CDLL, files: Sequence[int]) -> bool:
    """Refuse to open files by name, but for libraries and modules; and TCP where possible."""
    version = libc.syscall(_LANDLOCK_CREATE_RULESET, None, 0, _LANDLOCK_VERSION)
    if version < 1:
        return False
    attributes = struct.pack("QQ", _ALL_FILE_RIGHTS, _TCP_RIGHTS if version >= 4 else 0)
    if version < 4:
        attributes = attributes[:8]
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
    known = _ARCHITECTURES.get(platform.machine())
    if known is None or sys.maxsize < 2**32:
        return False
    architecture, refused, clones = known
    program = b"".join(_filter(architecture, refused, clones, has_locks=has_locks))
    code = ctypes.create_string_buffer(program, len(program))
    description = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(code))
    filled = ctypes.create_string_buffer(description, len(description))
    return libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, filled, 0, 0) == 0


def _filter(
    architecture: int, refused: dict[str, int], clones: dict[str, int], *, has_locks: bool
) -> Sequence[bytes]:
    """Return the instructions (classic BPF) of the filter."""
    load, equal, at_least, any_bit, give = 0x20, 0x15, 0x35, 0x45, 0x06

    def step(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
        return struct.pack("HBBI", code, then, otherwise, value)

    steps = [
        step(load, 4),  # the architecture: another one has other numbers
        step(equal, architecture, 1, 0),
        step(give, _DENY | _EPERM),
        step(load, 0),  # the number of the call
        step(at_least, 0x40000000, 0, 1),  # x32
        step(give, _DENY | _EPERM),
    ]
    for number in refused.values():
        steps += [step(equal, number, 0, 1), step(give, _DENY | _EPERM)]
    if not has_locks:
        steps += [
            step(equal, _FCNTL[architecture], 0, 4),
            step(load, 24),  # the lower half of the second argument, the command
            step(equal, _F_SETLK, 0, 1),
            step(give, _DENY),  # error 0 is success
            step(load, 0),
        ]
    # The C library falls back to `clone`, whose flags a filter can see.
    steps += [step(equal, clones["clone3"], 0, 1), step(give, _DENY | _ENOSYS)]
    steps += [
        step(equal, clones["clone"], 0, 3),
        step(load, 16),  # the lower half of the first argument
        step(any_bit, _CLONE_THREAD, 1, 0),
        step(give, _DENY | _EPERM),
        step(give, _ALLOW),
    ]
    return steps
