"""Starter manifests, commented, for a folder or a database."""

from __future__ import annotations

import glob
import json
import pathlib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from resource_server.manifest.sources import mount_name

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
    # Not served by default: what .gitignore, .ignore and .mcpignore files leave out, names that
    # begin with a dot, secrets such as .env, private keys and credentials, symbolic links.
    # `resource-server check` lists what is hidden here, and `check --explain URI` says why.
    # exclude: ["*.log", "build/"]  # more to leave out, as in .gitignore
    # gitignore: false              # serve what is ignored
    # hidden: true                  # serve names that begin with a dot; secrets stay hidden
    # max_size: 10MiB               # larger documents are read in ranges
    # directories:                  # other rules for a folder in here
    #   docs: {{title: Documentation, annotations: {{priority: 0.9}}}}
    #   drafts: {{listed: false}}
"""


def folder_manifest(folder: pathlib.Path) -> str:
    """Return the text of a manifest that serves `folder` and lies in it."""
    name, title = mount_name(folder)
    title = "".join(c if c.isprintable() else "\ufffd" for c in title)
    # In YAML a JSON string means the same, unless it escapes emoji as surrogates.
    quoted = json.dumps(title.replace("${", "$${"), ensure_ascii=False)
    return _FOLDER_TEMPLATE.format(schema=SCHEMA_NAME, name=name, title=quoted)


MAX_TABLES = 200
"""More are left to the rule that what is not named is served as it is."""

_HEAD = """\
# yaml-language-server: $schema=./{schema}
# Editors check and complete this file: resource-server schema > {schema}
version: 1

databases:
  {name}:
    {url}
    title: {title}
    # Served read-only: every table and view, unless it is said otherwise below. A name may be a
    # pattern, and the first that fits counts: "audit_*": false hides all of these.
    # `resource-server check` lists what is hidden, and privileges that are too broad.
"""
_TAIL = """\
    # queries:                        # documents with parameters, written by you
    #   newest:
    #     title: The newest rows
    #     sql: select * from {table} limit :count
    #     parameters:
    #       count: {{type: integer, default: 10, maximum: 100}}
    # limits: {{rows: 100, max_rows: 1000, timeout: 2s, query_timeout: 10s}}
"""
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?")
_WORDS = re.compile(r"y|n|yes|no|on|off|true|false|null", re.IGNORECASE)
_SECRET = re.compile(r"passw|secret|token|salt|api_?key|card(?!i)|cvv|iban|ssn", re.IGNORECASE)
_PERSONAL = re.compile(r"e_?mail|phone|mobile", re.IGNORECASE)
_SPOKEN = re.compile(r"name|title|subject|descr|summary|note|comment|text|body", re.IGNORECASE)


class RowCount(NamedTuple):
    """How many rows a table has; `about` where only an estimate is known."""

    number: int
    about: bool = False


class SurveyedTable(NamedTuple):
    """A table as a manifest names it, as it was found."""

    name: str
    table: Table | None
    """None where it cannot be read, as a view on what is gone."""
    rows: RowCount | None = None


class SurveyedDatabase(NamedTuple):
    """A database as it was found."""

    name: str
    """Of the mount."""
    title: str
    url: str
    """As the manifest has it: it may hold `${NAME}`."""
    note: str
    """In a few words, where the URL leads."""
    tables: Sequence[SurveyedTable]
    schemas: Sequence[str] = ()


def database_manifest(database: SurveyedDatabase) -> str:
    """Return the text of a manifest that serves a database."""
    name, title, url, note, tables, schemas = database
    head = _HEAD.format(
        schema=SCHEMA_NAME,
        name=_key(name),
        url=f"url: {_quoted(url)}  # {note}",
        title=_quoted(title.replace("${", "$${")),
    )
    lines = [head]
    if schemas:
        lines.append(f"    schemas: [{', '.join(map(_quoted, schemas))}]\n")
    # SQLite has tables without a name, which no manifest can write.
    shown = [each for each in tables if each.name and _is_text(each.name)]
    if shown:
        lines.append("    tables:\n")
        lines += [f"      {line}\n" for line in _tables(shown[:MAX_TABLES])]
        if (rest := len(tables) - min(len(shown), MAX_TABLES)) > 0:
            lines.append(f"    # and {rest:,} others, which are served as they are\n")
        first = next((each.name for each in shown if each.table is not None), shown[0].name)
        lines.append(_TAIL.format(table=first if _NAME.fullmatch(first) else "…"))
    return "".join(lines)


def _tables(tables: Iterable[SurveyedTable]) -> Iterator[str]:
    for found in tables:
        name, table = _key(glob.escape(found.name)), found.table
        if table is None:
            yield f"{name}: false  # cannot be read: it names what is not there"
            continue
        yield f"{name}:  # {', '.join(_facts(table, found.rows))}"
        if table.comment and _is_text(table.comment):
            yield f"  description: {_quoted(table.comment.replace('${', '$${'))}"
        if table.key_kind == "none":
            yield "  # key: [id]  # the columns that tell its rows apart: these then have URIs"
        if columns := _columns(table.column_names):
            yield f"  # columns: {{{columns}}}"
        if names := _texts(table):
            yield f"  # search: [{', '.join(map(_key, names))}]  # rows are found by these"


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
            yield "no key but a number that VACUUM may change"
        case _:
            yield f"key {', '.join(map(_key, table.key))}"


def _columns(names: Iterable[str]) -> str:
    """Return what to hide and mask, judged by the names of columns."""
    names = [name for name in names if _is_text(name)]
    hide = [name for name in names if _SECRET.search(name)]
    mask = [name for name in names if _PERSONAL.search(name) and name not in hide]
    found = [f"hide: [{', '.join(map(_key, hide))}]"] if hide else []
    if mask:
        found.append(f"mask: {{{', '.join(f'{_key(name)}: hash' for name in mask)}}}")
    return ", ".join(found)


def _texts(table: Table) -> Sequence[str]:
    """Return the columns by whose values rows may well be found."""
    if table.key_kind == "none":
        return ()
    names = [c.name for c in table.columns if c.kind == "text" and _SPOKEN.search(c.name)]
    return [name for name in names if not _SECRET.search(name) and _is_text(name)]


def _key(text: str) -> str:
    return text if _PLAIN.fullmatch(text) and not _WORDS.fullmatch(text) else _quoted(text)


def _quoted(text: str) -> str:
    # In YAML a JSON string means the same; what YAML cannot hold is escaped as it does.
    return "".join(
        c if c.isprintable() else f"\\U{ord(c):08x}" for c in json.dumps(text, ensure_ascii=False)
    )


def _is_text(text: str) -> bool:
    return not any("\ud800" <= c <= "\udfff" for c in text)
