"""The choice of an engine, with and without its driver installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from resource_server.providers.database.engines.factory import engine_name
from resource_server.runtime.extras import install_command
from tests.waiting import PATIENCE_S

MANIFEST = """
version: 1
roots:
  here: {path: .}
databases:
  pg: {url: "postgresql://reader@127.0.0.1:1/shop"}
  my: {url: "mysql://reader@127.0.0.1:1/shop"}
"""

WITHOUT_DRIVERS = """
import sys
sys.modules.update(asyncpg=None, asyncmy=None)
from resource_server.cli import main
main()
"""


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("sqlite:///shop.db", "sqlite"),
        ("postgres://h/d", "postgresql"),
        ("PostgreSQL+asyncpg://h/d", "postgresql"),
        ("mariadb://h/d", "mariadb"),
        ("postgresql+psycopg://h/d", "generic"),
        ("oracle://h/d", "generic"),
    ],
)
def test_the_scheme_of_a_url_names_the_engine(url: str, name: str) -> None:
    assert engine_name(url) == name


def test_a_url_of_no_database_is_refused_without_quoting_it() -> None:
    with pytest.raises(ValueError, match=r"^url: not a database; write sqlite:///") as caught:
        engine_name("scott:tiger@h/d")
    assert "tiger" not in str(caught.value)


def test_a_missing_driver_fails_its_mount_and_not_the_manifest(
    tmp_path: Path,
) -> None:
    (tmp_path / "mcp-resources.yaml").write_text(MANIFEST)
    found = subprocess.run(
        [sys.executable, "-c", WITHOUT_DRIVERS, "check", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert found.returncode == 1
    assert "template   file:///here/{+path}" in found.stdout
    assert (
        f"PostgreSQL needs more packages; install them: {install_command('postgres')}"
        in found.stdout
    )
    assert f"MariaDB needs more packages; install them: {install_command('mysql')}" in found.stdout
