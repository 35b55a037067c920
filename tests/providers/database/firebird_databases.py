"""A server of Firebird for the tests of one process, with an empty database."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.ports import free_port
from tests.waiting import PATIENCE_S, block_until

SERVER = "/usr/sbin/firebird"
"""Of Debian's package firebird3.0-server."""
LOGIN = "SYSDBA:masterkey"
_CONFIGURATION = """\
RemoteServicePort = {port}
RemoteBindAddress = 127.0.0.1
AuthServer = Srp
AuthClient = Srp
UserManager = Srp
SecurityDatabase = security.db
TempDirectories = {folder}/tmp
"""
_DATABASES = """\
it = {folder}/it.fdb
security.db = {folder}/security.fdb
{{
RemoteAccess = false
}}
"""
_MAKE = """\
from firebird.driver import create_database, driver_config
driver_config.db_defaults.page_size.value = 16384  # keys have at most a quarter of it
driver_config.db_defaults.db_charset.value = "UTF8"
with create_database("{folder}/security.fdb", user="SYSDBA", charset="UTF8") as made:
    made.execute_immediate("create user SYSDBA password 'masterkey' using plugin Srp")
    made.commit()
create_database("{folder}/it.fdb", user="SYSDBA", charset="UTF8").close()
"""


@contextmanager
def empty_firebird_database() -> Generator[str]:
    """Start a server of its own, and yield the URL of its database."""
    pytest.importorskip("firebird.driver")
    pytest.importorskip("sqlalchemy_firebird")
    if not os.access(SERVER, os.X_OK):
        pytest.skip("no Firebird to test with: Debian has it as firebird3.0-server")
    with tempfile.TemporaryDirectory(prefix="rs-firebird-") as made:
        folder, port = Path(made), free_port()
        for each in ("lock", "tmp"):
            (folder / each).mkdir()
        for each in ("plugins.conf", "fbintl.conf"):
            shutil.copy(f"/etc/firebird/3.0/{each}", folder)
        places = {"folder": folder, "port": port}
        (folder / "firebird.conf").write_text(_CONFIGURATION.format_map(places))
        (folder / "databases.conf").write_text(_DATABASES.format_map(places))
        environment = {
            **os.environ,
            "FIREBIRD": made,
            "FIREBIRD_LOCK": str(folder / "lock"),
            "FIREBIRD_TMP": str(folder / "tmp"),
        }
        subprocess.run(
            [sys.executable, "-c", _MAKE.format_map(places)],
            env=environment,
            check=True,
            timeout=PATIENCE_S,
        )
        server = subprocess.Popen([SERVER], env=environment)
        try:
            block_until(lambda: _answers(port))
            yield f"firebird+firebird://{LOGIN}@127.0.0.1:{port}/{made}/it.fdb?charset=UTF8"
        finally:
            server.kill()  # it would wait for its connections
            server.wait(PATIENCE_S)


def _answers(port: int) -> bool:
    with suppress(OSError):
        socket.create_connection(("127.0.0.1", port)).close()
        return True
    return False
