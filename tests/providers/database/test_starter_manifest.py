"""Starter manifests of databases with views: they change nothing, and their advice can be taken."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from resource_server import plugins
from resource_server.manifest.databases.database_url import parse_database_url
from resource_server.manifest.databases.table_survey import starter_manifest
from resource_server.manifest.load import load
from tests.providers.database.owners import Owner

pytestmark = pytest.mark.anyio

SCHEMA = (
    "CREATE TABLE customers (id int PRIMARY KEY, name varchar(40), email varchar(40),"
    " password varchar(40), email_note varchar(40))",
    "CREATE TABLE sessions (token varchar(40) PRIMARY KEY, customer int)",
    "CREATE TABLE loose (customer int)",
    "CREATE VIEW mails AS SELECT email FROM customers",
    "CREATE VIEW renamed AS SELECT id, email, password AS word FROM customers",
    "CREATE VIEW totals AS SELECT customer, count(*) AS number FROM sessions GROUP BY customer",
)
Found = tuple[list[tuple[str, str]], list[str]]


@pytest.fixture
async def starter(url: str, owner: Owner) -> str:
    """The manifest of a database with views."""
    await owner.run(*SCHEMA)
    if owner.engine in ("sqlite", "mariadb"):  # others refuse to drop the table of a view
        await owner.run(
            "CREATE TABLE gone (a int)",
            "CREATE VIEW broken AS SELECT a FROM gone",
            "DROP TABLE gone",
        )
    return await starter_manifest(parse_database_url(url))


async def found(folder: Path, text: str, url: str) -> Found:
    """Return the warnings of `check` for a manifest, and the hidden paths."""
    written = next(line for line in text.splitlines() if line.startswith("    url: "))
    file = folder / "m.yaml"
    file.write_text(text.replace(written, f'    url: "{url}"'), "utf-8")
    manifest = load(file)
    (spec,) = manifest.mounts
    loaded: Any = plugins.load_provider(spec, manifest)
    async with loaded as database:
        hidden = ["/".join(path) for path, _ in await database.hides(limit=100)]
        return sorted(await database.warnings()), hidden


def uncommented(text: str) -> str:
    """Return the manifest with all its advice taken."""
    head, tables, options = text.partition("    tables:\n")
    return head + tables + re.sub("^( *)# ", r"\1", options, flags=re.MULTILINE)


async def test_it_hides_secrets_and_silences_no_other_warning_of_check(
    tmp_path: Path, url: str, starter: str
) -> None:
    name = starter.partition("databases:\n  ")[2].partition(":")[0]
    warnings, hidden = await found(tmp_path, f'databases:\n  {name}:\n    url: ""\n', url)
    secrets = [text for _, text in warnings if "look secret" in text]
    assert sorted(text.split("'")[1] for text in secrets) == ["customers", "sessions"]
    told, now_hidden = await found(tmp_path, starter, url)
    others = [text for _, text in told if not text.startswith("view ")]
    assert others == [
        text for _, text in warnings if text not in secrets and not text.startswith("view ")
    ]
    assert {path.rpartition("/")[2] for path in set(now_hidden) - set(hidden)} == {
        "password",
        "renamed",
        "sessions",
    }


async def test_its_advice_can_be_taken(tmp_path: Path, url: str, starter: str) -> None:
    warnings, hidden = await found(tmp_path, uncommented(starter), url)
    about = [text for option, text in warnings if not option]
    assert [option for option, _ in warnings if option] == []
    # No advice for a view consents to what it shows.
    for view in ("mails", "renamed"):
        assert any(f"view '{view}' is hidden" in text for text in about)
        assert any(path.endswith(view) for path in hidden)
    assert any(path.endswith("sessions") for path in hidden)
    assert not any(path.endswith("totals") for path in hidden)
