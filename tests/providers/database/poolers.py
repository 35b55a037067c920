"""PgBouncer before the PostgreSQL of the tests."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import os
import shutil
import socket
import subprocess
from collections.abc import Generator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.ports import free_port
from tests.providers.database.postgres_databases import ADMIN, Database, asyncpg
from tests.providers.database.servers import with_parts
from tests.waiting import block_until

IGNORED = (
    "default_transaction_read_only, idle_in_transaction_session_timeout, jit, lock_timeout, options"
)
"""What operators let PgBouncer drop, so that clients connect: then no setting of theirs holds."""


@contextlib.contextmanager
def pgbouncer(
    database: Database,
    folder: Path,
    *,
    mode: str = "transaction",
    ignored: str = "",
    certificate: Path | None = None,
) -> Generator[str]:
    """Run PgBouncer with two sessions for each database and login; yield the database's URL.

    With a certificate, the key of which is in the same file, it takes encrypted connections only.
    """
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip("PgBouncer is not installed")
    server = urlsplit(ADMIN)
    port = free_port()
    folder.chmod(0o755)
    for parent in folder.parents[:2]:
        parent.chmod(0o755)
    (folder / "users").write_text(f'"{database.role}" "hunter2secret"\n')
    (folder / "ini").write_text(
        f"[databases]\n* = host={server.hostname} port={server.port or 5432}\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n"
        f"auth_type = trust\nauth_file = {folder}/users\npool_mode = {mode}\n"
        f"default_pool_size = 2\nignore_startup_parameters = {ignored}\n"
        + (
            f"client_tls_sslmode = require\nclient_tls_key_file = {certificate}\n"
            f"client_tls_cert_file = {certificate}\n"
            if certificate
            else ""
        )
    )
    user = ["-u", "nobody"] if getpass.getuser() == "root" else []
    with subprocess.Popen(
        [program, "-q", *user, folder / "ini"], stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            _wait(port, process)
            yield with_parts(database.url, port=port)
        finally:
            process.kill()


def _wait(port: int, process: subprocess.Popen[str]) -> None:
    def listens() -> bool:
        assert process.poll() is None, process.stderr and process.stderr.read()
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return True
        return False

    block_until(listens)


async def settings_of_others(url: str) -> set[tuple[object, ...]]:
    """Return the settings that other clients of a pooler find, in each of its sessions."""

    async def found() -> tuple[object, ...]:
        connection = await asyncpg.connect(url, statement_cache_size=0)
        try:
            names = "default_transaction_read_only", "jit", "lock_timeout", "statement_timeout"
            shown = ", ".join(f"current_setting('{name}')" for name in names)
            sql = (
                f"SELECT {shown}, current_setting('search_path'), current_user,"
                " (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
                " AND pid = pg_backend_pid()), (SELECT count(*) FROM pg_listening_channels()),"
                " pg_sleep(0.02)::text"
            )
            return tuple(await connection.fetchrow(sql) or ())
        finally:
            await connection.close()

    return set(await asyncio.gather(found(), found()))
