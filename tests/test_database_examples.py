"""The pages for database servers: what they show is run on real ones, what they say is tried."""
# ruff: noqa: S608

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sysconfig
import tempfile
import tomllib
from collections.abc import AsyncGenerator, Generator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

import pytest

from resource_server.providers.database.engines import server_base, slots
from tests.cases import for_each
from tests.cli.conftest import Lines, started
from tests.providers.database.servers import server_url, unique_name

ROOT = Path(__file__).parent.parent
NAME = "teashop"
"""Of the database and the mount, and the beginning of the login's; here each run has its own."""
PLACE = "127.0.0.1"
"""Of the server; here it may be another."""
_END = "\x1e"
"""Printed behind the output of each command."""
_PATIENCE_S = 120
"""So long all commands of a page may take."""

KEY = "0123456789abcdef" * 2
SERVERS = {
    "postgresql": urlsplit(
        server_url("RESOURCE_SERVER_TEST_POSTGRES", "postgresql://postgres@127.0.0.1:5432")
    ),
    "mariadb": urlsplit(server_url("RESOURCE_SERVER_TEST_MYSQL", "mysql://root@127.0.0.1:3306")),
}
PORTS = {"postgresql": 5432, "mariadb": 3306}
DRIVERS = {"postgresql": "asyncpg", "mariadb": "asyncmy"}
CLIENTS = {
    "postgresql": "psql -X -q -A -t -v ON_ERROR_STOP=1 -d",
    "mariadb": "mariadb --batch --skip-column-names",
}
CLEANUPS = {
    "postgresql": "dropdb --if-exists --force {0}; dropuser --if-exists {0}_reader",
    "mariadb": "mariadb -e 'DROP DATABASE IF EXISTS {0}; DROP USER IF EXISTS {0}_reader'",
}


@dataclass
class Example:
    """An example under another name, and what the commands of its page have printed."""

    engine: str
    folder: Path
    """In which the commands have run."""
    name: str
    page: str
    environment: Mapping[str, str]
    """In which `DATABASE_URL` is that of the login that only reads."""
    printed: Mapping[str, str]

    @property
    def manifest(self) -> str:
        """The manifest, with the URL and the key in it."""
        text = (self.folder / f"examples/{self.engine}/mcp-resources.yaml").read_text("utf-8")
        text = text.replace("${RESOURCE_SERVER_KEY}", KEY)
        return text.replace("${DATABASE_URL}", self.environment["DATABASE_URL"])

    def with_options(self, *options: str) -> str:
        """Return a manifest of the database with these options alone."""
        lines = ("databases:", f"  {self.name}:", f"    url: {self.environment['DATABASE_URL']}")
        return "".join(f"{line}\n" for line in (*lines, *(f"    {each}" for each in options)))

    def uri(self, table: str) -> str:
        """Return the URI of what lies below a table."""
        schema = "public/" if self.engine == "postgresql" else ""
        return f"{self.engine}://{self.name}/{schema}{table}"

    def run(self, script: str) -> str:
        """Run a shell script as a reader of the page; return what it prints, errors too."""
        return run(script, self.folder, self.environment)

    def owner(self, *statements: str) -> str:
        """Run SQL as the owner of the database; return the values of the rows."""
        (self.folder / "owner.sql").write_text(";\n".join((*statements, "")), "utf-8")
        return self.run(f"{CLIENTS[self.engine]} {self.name} < owner.sql").strip()

    def make(self, table: str, *statements: str) -> None:
        """Run SQL that makes a table, and let the login read it."""
        assert not self.owner(*statements, f"GRANT SELECT ON {table} TO {self.name}_reader")

    def read(self, uri: str, manifest: str | None = None) -> str:
        """Return what clients read at a URI, or why they do not."""
        (self.folder / "read.yaml").write_text(manifest or self.manifest, "utf-8")
        said = self.run(f"resource-server read read.yaml '{uri}'")
        # On a busy machine, the check of all queries warns of others before this one is read.
        return re.sub(
            r"^resource-server: warning: query .*\n", "", said, flags=re.MULTILINE
        ).strip()


def run(script: str, folder: Path, environment: Mapping[str, str]) -> str:
    """Run a shell script and return what it prints, errors too."""
    with subprocess.Popen(
        ["bash", "-c", script],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        start_new_session=True,
    ) as process:
        try:
            return process.communicate(timeout=_PATIENCE_S)[0]
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise


def blocks(page: str, language: str) -> list[str]:
    """Return the fenced blocks of one language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def shown(page: str) -> dict[str, str]:
    """Return the commands that a page shows after a `$`, each with the output below it."""
    parts = re.split(r"^\$ ", "".join(blocks(page, "console")), flags=re.MULTILINE)[1:]
    commands = [part.partition("\n") for part in parts]
    return {command: output.rstrip() for command, _, output in commands}


def environment_of(folder: Path) -> dict[str, str]:
    """Return an environment in which `psql` and `mariadb` reach the servers as their owners."""
    postgres, mariadb = SERVERS["postgresql"], SERVERS["mariadb"]
    (folder / ".my.cnf").write_text(
        f"[client]\nhost={mariadb.hostname}\nport={mariadb.port or 3306}\n"
        f"user={unquote(mariadb.username or '')}\npassword={unquote(mariadb.password or '')}\n"
    )
    return {
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "PATH": f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ['PATH']}",
        "PGHOST": postgres.hostname or "",
        "PGPORT": str(postgres.port or 5432),
        "PGUSER": unquote(postgres.username or ""),
        "PGPASSWORD": unquote(postgres.password or ""),
        "PGDATABASE": "postgres",
        "RESOURCE_SERVER_KEY": KEY,
    }


def here(text: str, name: str, server: SplitResult) -> str:
    """Return what a page says where the database has this name and place."""
    login, _, place = server.netloc.rpartition("@")
    text = re.sub(rf"://(?:postgres|root)@{PLACE}", f"://{login}@{PLACE}", text)
    return text.replace(PLACE, place).replace(NAME, name)


@pytest.fixture(scope="module", params=["postgresql", "mariadb"])
def example(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Example]:
    """An example whose page's commands were all run, one after the other in one shell."""
    engine: str = request.param
    pytest.importorskip(DRIVERS[engine])
    client = CLIENTS[engine].split()[0]
    if shutil.which(client) is None:
        pytest.skip(f"{client} is not installed")
    folder = tmp_path_factory.mktemp(engine)
    environment = environment_of(folder)
    if "1" not in run(f"{client} <<< 'SELECT 1'", folder, environment).split():
        pytest.skip(f"{client} reaches no server")
    name = unique_name()
    copies = folder / "examples" / engine
    copies.mkdir(parents=True)
    for file in (ROOT / "examples" / engine).iterdir():
        text = here(file.read_text("utf-8"), name, SERVERS[engine])
        (copies / file.name).write_text(text, "utf-8")
    page = (copies / "README.md").read_text("utf-8")
    commands = list(shown(page))
    try:
        script = "".join(f"{command}\nprintf '{_END}'\n" for command in commands)
        outputs = run(script, folder, environment).split(_END)
        printed = dict(zip(commands, [text.strip("\n") for text in outputs], strict=False))
        _, reader = re.findall(r"^\$ export DATABASE_URL=(.*)$", page, re.MULTILINE)
        yield Example(engine, folder, name, page, {**environment, "DATABASE_URL": reader}, printed)
    finally:
        run(CLEANUPS[engine].format(name), folder, environment)


# The first of them runs the page.
pytestmark = pytest.mark.timeout(_PATIENCE_S + 60)

# What clients see.


@pytest.mark.deep
def test_the_documented_output_is_printed(example: Example) -> None:
    assert example.printed == shown(example.page)


def test_the_documented_extra_installs_the_driver(example: Example) -> None:
    [extra] = re.findall(r"pip install '\.\[(\w+)\]'", example.page)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    requirements = project["optional-dependencies"][extra]
    assert any(each.startswith(DRIVERS[example.engine]) for each in requirements)


def test_a_mask_hides_a_column_but_not_the_output_of_an_exposed_view(example: Example) -> None:
    page = example.read(example.uri("customers/~rows?format=csv"))
    assert "Ada Winter" in page
    assert "example.org" not in page
    assert re.fullmatch("[a-z2-7]{12}", example.read(example.uri("customers/1/~cell/email")))
    example.make("every_order", "CREATE VIEW every_order AS SELECT * FROM orders")
    uri = example.uri("every_order/~rows?format=csv")
    listed = "every_order" in example.read(example.uri(""))
    # MariaDB does not show the definition to this login.
    assert listed == (example.engine == "mariadb")
    exposed = example.manifest.replace(
        "    tables:\n", "    tables:\n      every_order: {expose: true}\n"
    )
    page = example.read(uri, exposed)
    assert "draft" in page
    assert "4000111122220009" in page


def test_a_query_sees_exactly_the_documented_parts_of_tables(example: Example) -> None:
    schema = "public" if example.engine == "postgresql" else example.name
    queries = {
        "shown": "select * from orders order by id",
        "masked": "select card_number from orders",
        "hidden": "select entry from audit_log",
        "qualified": f"select id from {schema}.orders order by id",
        "grouped": "select name from customers group by id",
    }
    added = "".join(f"      {name}: {{sql: {sql}}}\n" for name, sql in queries.items())
    manifest = example.manifest.replace("    queries:\n", f"    queries:\n{added}")
    uri = f"{example.engine}://{example.name}/~query/"
    for name in ("qualified", "shown"):
        rows = json.loads(example.read(f"{uri}{name}", manifest))["rows"]
        assert [row["id"] for row in rows] == [1, 2, 4]
    assert list(rows[0]) == ["id", "customer_id", "state", "total", "ordered_at"]
    refused = {"masked", "hidden"}
    refused |= {"grouped"} if example.engine == "postgresql" else set[str]()
    for name in refused:
        assert "the database refuses this query" in example.read(f"{uri}{name}", manifest)


def test_each_value_has_its_documented_form(example: Example) -> None:
    forms = re.findall(r"^\| `(.+)` \| `(.+)` \| `(.+)` \|$", example.page, re.MULTILINE)
    assert len(forms) > 15
    columns = ", ".join(f"c{place} {type_}" for place, (type_, _, _) in enumerate(forms))
    values = ", ".join(value for _, value, _ in forms)
    example.make(
        "forms",
        f"CREATE TABLE forms (id int PRIMARY KEY, {columns})",
        "SET sql_mode = ''" if example.engine == "mariadb" else "SET TimeZone = 'Asia/Tokyo'",
        f"INSERT INTO forms VALUES (1, {values})",
    )
    expected = "".join(f',"c{place}":{form}' for place, (_, _, form) in enumerate(forms))
    assert example.read(example.uri("forms/1")) == f'{{"id":1{expected}}}'


def test_the_columns_of_a_query_have_no_types(example: Example) -> None:
    bits = "b'101'" if example.engine == "mariadb" else "B'101'"
    example.make(
        "facts",
        "CREATE TABLE facts (id int PRIMARY KEY, fact json, bits bit(3), yes boolean)",
        f"""INSERT INTO facts VALUES (1, '{{"a": 1}}', {bits}, true)""",
    )
    manifest = example.with_options("queries: {f: {sql: 'select fact, bits, yes from facts'}}")
    result = json.loads(example.read(f"{example.engine}://{example.name}/~query/f", manifest))
    row = json.loads(example.read(example.uri("facts/1"), manifest))
    queried = {"id": 1, **result["rows"][0]}
    if example.engine == "postgresql":
        assert row == {"id": 1, "fact": {"a": 1}, "bits": "101", "yes": True}
        assert queried == {**row, "fact": '{"a": 1}'}
        return
    assert row == {"id": 1, "fact": {"a": 1}, "bits": 5, "yes": True}
    blob = {"$blob": "BQ==", "bytes": 1}
    assert queried == {**row, "fact": '{"a": 1}', "bits": blob, "yes": 1}


# Changes.


@contextmanager
def watching(example: Example, manifest: str, uri: str) -> Generator[tuple[str, Lines]]:
    """Watch one resource; give what `watch` says once it does, and what it prints of changes."""
    (example.folder / "watch.yaml").write_text(manifest, "utf-8")
    with started("watch", example.folder / "watch.yaml", uri) as (process, errors):
        assert process.stdout is not None
        yield errors.readline().rstrip(), Lines(process.stdout)


def test_a_change_is_reported_as_documented(example: Example) -> None:
    [transcript] = blocks(example.page, "text")
    [update] = [block for block in blocks(example.page, "sh") if "UPDATE" in block]
    command, note, told = transcript.splitlines()
    with watching(example, example.manifest, command.split()[-1]) as (said, lines):
        assert said == note
        assert not example.run(update)
        assert lines.next().split()[1:] == told.split()[1:]


@pytest.mark.deep
@for_each("watch", ["auto", "notify"])
def test_a_change_is_reported_without_a_trigger(example: Example, watch: str) -> None:
    table = f"plain_{watch}"
    example.make(
        table,
        f"CREATE TABLE {table} (id int PRIMARY KEY, word varchar(9))",
        f"INSERT INTO {table} VALUES (1, 'a')",
    )
    manifest = example.with_options(f"watch: {watch}")
    with watching(example, manifest, example.uri(f"{table}/1")) as (_, lines):
        assert not example.owner(f"UPDATE {table} SET word = 'b'")
        assert lines.next().endswith(f"changed  {example.uri(f'{table}/1')}")


@pytest.mark.parametrize("example", ["postgresql"], indirect=True)
def test_with_triggers_a_change_is_reported_without_polling(example: Example) -> None:
    # The page has made them; the next look would be tomorrow.
    manifest = example.with_options("watch: notify", "interval: 1d")
    with watching(example, manifest, example.uri("customers/1")) as (_, lines):
        assert not example.owner("UPDATE customers SET name = 'Ada Summer' WHERE id = 1")
        assert lines.next().endswith(f"changed  {example.uri('customers/1')}")


# Limits and connections.


def test_connection_limits_are_as_documented(example: Example) -> None:
    ours, authors = server_base.POOL_SIZE, server_base.AUTHOR_POOL_SIZE
    assert f"At most {ours} connections read tables, {authors} run queries" in example.page
    assert f"beyond {slots.MAX_WAITING} waiting requests" in example.page


def test_a_url_that_requires_tls_is_refused_without_it(example: Example) -> None:
    if example.engine == "postgresql":
        has_tls, option = example.owner("SHOW ssl") == "on", "ssl=require"
    else:
        found = example.owner("SHOW VARIABLES LIKE 'have_ssl'")
        has_tls, option = found.endswith("YES"), "ssl_check_hostname=false"
    answers = [
        example.run(f'resource-server list "$DATABASE_URL{query}"') for query in ("", f"?{option}")
    ]
    assert ["orders" in answer for answer in answers] == [True, has_tls]


@asynccontextmanager
async def socket_of(server: SplitResult, default_port: int, file: Path) -> AsyncGenerator[None]:
    """Let a server be reached by a socket in the file system."""

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far = await asyncio.open_connection(server.hostname, server.port or default_port)
        await asyncio.gather(pump(reader, far[1]), pump(far[0], writer), return_exceptions=True)

    async with await asyncio.start_unix_server(accept, file):
        yield


@pytest.mark.deep
@pytest.mark.anyio
async def test_a_server_is_reached_by_its_socket(example: Example) -> None:
    port = PORTS[example.engine]
    login = f"{example.name}_reader"
    # Not in the folder of the test: the name of a socket may not be long.
    with tempfile.TemporaryDirectory() as folder:
        if example.engine == "postgresql":
            file = Path(folder) / f".s.PGSQL.{port}"
            url = f"postgresql+asyncpg:///{example.name}?host={folder}&user={login}&password=leaf"
        else:
            file = Path(folder) / "mysqld.sock"
            url = f"mariadb://{login}:leaf@localhost/{example.name}?unix_socket={file}"
        async with socket_of(SERVERS[example.engine], port, file):
            answer = await asyncio.to_thread(example.run, f"resource-server list '{url}'")
    assert "orders" in answer
