"""Starter manifests, commented, for a folder or a database."""

from __future__ import annotations

import glob
import json
import pathlib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from resource_server.manifest.sources import mount_name
from resource_server.providers.database.private_columns import private_columns, yaml_name, yaml_text
from resource_server.uris import is_unicode

if TYPE_CHECKING:
    from resource_server.providers.database.engines.reflection import Table

SCHEMA_NAME = "mcp-resources.schema.json"

_FOLDER_TEMPLATE = """\
# yaml-language-server: $schema=./{schema}
# Editors check and complete this file: resource-server schema > {schema}
version: 1

roots:
  {name}:
    path: .                         # relative to this file; URIs are file:///{name}/...
    title: {title}
    # Hidden by default: paths matched by .gitignore, .ignore and .mcpignore files, names that
    # start with a dot, symbolic links, and secrets such as .env, private keys and credentials.
    # `resource-server check` lists what is hidden; `check --explain URI` gives the reason.
    # exclude: ["*.log", "build/"]  # hide more, with the syntax of .gitignore
    # gitignore: false              # serve ignored files too
    # hidden: true                  # serve names that start with a dot; secrets stay hidden
    # max_size: 10MiB               # larger documents are read in ranges
    # directories:                  # other rules for subfolders
    #   docs: {{title: Documentation, annotations: {{priority: 0.9}}}}
    #   drafts: {{listed: false}}
"""


def folder_manifest(folder: pathlib.Path) -> str:
    """Return the text of a manifest that serves its own folder."""
    name, title = mount_name(folder)
    title = "".join(c if c.isprintable() else "\ufffd" for c in title)
    # A JSON string is valid YAML, unless it escapes emoji as surrogates.
    quoted = json.dumps(title.replace("${", "$${"), ensure_ascii=False)
    return _FOLDER_TEMPLATE.format(schema=SCHEMA_NAME, name=name, title=quoted)


MAX_TABLES = 200
"""Maximum tables named in the manifest; the rest follow the default rule."""

_HEAD = """\
# yaml-language-server: $schema=./{schema}
# Editors check and complete this file: resource-server schema > {schema}
version: 1

databases:
  {name}:
    {url}
    title: {title}
    # Every table and view is served read-only, unless a rule below says otherwise. A name may be
    # a pattern, and the first match counts: "audit_*": false, above the names, hides all matching
    # tables. A view that shows a hidden or masked column of its tables is hidden, too.
    # `resource-server check` lists what is hidden, and privileges that are too broad.
"""
_SQL = """\
    # sql: true                       # models may send one SELECT: the tool query_database
"""
_TAIL = """\
    # queries:                        # documents with parameters
    #   some_rows:
    #     title: Some rows
    #     sql: {sql}
    #     parameters:
    #       count: {{type: integer, default: 10, maximum: 100}}
    # limits: {{rows: 100, max_rows: 1000, timeout: 2s, query_timeout: 10s}}
"""
_STATEMENT = re.compile(r"[a-z0-9_.*: ]+")


class RowCount(NamedTuple):
    """Number of rows of a table; `about` marks an estimate."""

    number: int
    about: bool = False


class SurveyedTable(NamedTuple):
    """A table under its manifest name."""

    name: str
    table: Table | None
    """None if it cannot be read, such as a view on a dropped table."""
    rows: RowCount | None = None


class SurveyedDatabase(NamedTuple):
    """A database with its tables."""

    name: str
    """Name of the mount."""
    title: str
    url: str
    """URL for the manifest; may contain `${NAME}`."""
    note: str
    """Comment after the URL."""
    tables: Sequence[SurveyedTable]
    schemas: Sequence[str] = ()
    example: str | None = None
    """A table as SQL names it, for the example of a query."""
    takes_sql: bool = False
    """Whether `sql: true` is possible."""


def database_manifest(database: SurveyedDatabase) -> str:
    """Return the text of a manifest for a database."""
    name, title, url, note, tables, schemas, example, takes_sql = database
    head = _HEAD.format(
        schema=SCHEMA_NAME,
        name=yaml_name(name),
        url=f"url: {yaml_text(url)}  # {note}",
        title=yaml_text(title.replace("${", "$${")),
    )
    lines = [head]
    if schemas:
        lines.append(f"    schemas: [{', '.join(map(yaml_text, schemas))}]\n")
    # SQLite allows tables without a name, which a manifest cannot express.
    shown = [each for each in tables if each.name and is_unicode(each.name)]
    if shown:
        lines.append("    tables:\n")
        lines += [f"      {line}\n" for line in _tables(shown[:MAX_TABLES])]
        if (rest := len(tables) - min(len(shown), MAX_TABLES)) > 0:
            lines.append(f"    # and {rest:,} others, served without options\n")
        lines.append(_SQL if takes_sql else "")
        statement = f"select * from {example or '…'} limit :count"  # noqa: S608
        if not _STATEMENT.fullmatch(statement):
            statement = yaml_text(statement.replace("${", "$${"))
        lines.append(_TAIL.format(sql=statement))
    return "".join(lines)


def _tables(tables: Iterable[SurveyedTable]) -> Iterator[str]:
    for found in tables:
        name, table = yaml_name(glob.escape(found.name)), found.table
        if table is None:
            # Not `false`: that would silence the warning of `check`.
            yield f"{name}:  # cannot be read: it refers to a missing table"
            continue
        yield f"{name}:  # {', '.join(_facts(table, found.rows))}"
        if table.comment and is_unicode(table.comment):
            yield f"  description: {yaml_text(table.comment.replace('${', '$${'))}"
        in_key = private_columns(table.key)
        if any(in_key):
            mark = "" if in_key.secret else "# "
            named = map(yaml_name, in_key.secret + in_key.personal)
            yield f"  {mark}expose: false  # URIs of rows would contain {', '.join(named)}"
            continue
        if (column := _key_column(table)) is not None:
            key = yaml_name(column)
            yield f"  # key: [{key}]  # columns that identify a row; rows then have URIs"
        yield from _columns(table)


def _facts(table: Table, rows: RowCount | None) -> Iterator[str]:
    if table.type != "table":
        yield table.type
    if rows is not None:
        unit = "row" if rows.number == 1 else "rows"
        yield f"{'about ' if rows.about else ''}{rows.number:,} {unit}"
    match table.key_kind:
        case "none":
            yield "no key"
        case "rowid":
            yield "no primary key; rowid is not stable"
        case "number":
            yield "rows are addressed by their number"
        case _:
            yield f"key {', '.join(map(yaml_name, table.key))}"


def _key_column(table: Table) -> str | None:
    """Return a suggestion for the key of a table without one, or None."""
    names = [
        column.name
        for column in table.columns
        if column.is_address and is_unicode(column.name) and not any(private_columns([column.name]))
    ]
    if table.key_kind != "none" or not names:
        return None
    return min(names, key=lambda name: (name.casefold() != "id", not name.endswith("_id")))


def _columns(table: Table) -> Iterator[str]:
    """Yield options for columns with private names: personal data is masked in a comment only.

    A view gets none: they would consent to its other columns, which may be hidden ones renamed.
    """
    if table.type in ("view", "materialized view"):
        return
    found = private_columns([name for name in table.column_names if is_unicode(name)])
    if found.secret:
        yield "  columns:"
        yield f"    {found.hide}  # by their names; remove those that hold no secret"
        if found.personal:
            yield f"    # {found.mask}"
    elif found.personal:
        yield f"  # columns: {{{found.mask}}}"
