"""Declared queries: SQL of the manifest with parameters, as templates and tools."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from typing import Any, NamedTuple, Protocol, TypeAlias, cast

import msgspec

from resource_server.errors import InvalidParameter, MountUnavailable, ResourceNotFound
from resource_server.provider import Template
from resource_server.provider.tools import Schema, Tool
from resource_server.providers.database import row_claims
from resource_server.providers.database.engines.contract import EngineName, Rows, Statement
from resource_server.providers.database.engines.reflection import TableName
from resource_server.providers.database.formats import charts
from resource_server.providers.database.formats.pages import FORMATS
from resource_server.providers.database.options import Query, ReadLimits
from resource_server.providers.database.policy import Policy
from resource_server.providers.database.queries import parameters, sql_tokenizer
from resource_server.providers.database.queries.parameters import Parameter, ParameterValue, echo
from resource_server.providers.database.queries.sql_tokenizer import SqlToken
from resource_server.runtime import json_numbers
from resource_server.runtime.near_name import did_you_mean

SEGMENT = "~query"
"""First segment of a query's path."""
LIMIT = "limit"
"""Name of the parameter that limits rows, if it is declared and not used in the SQL."""

TOOL_RESULT: Schema = {
    "type": "object",
    "properties": {
        "columns": {"type": "array", "items": {"type": "string"}},
        "rows": {"type": "array", "items": {"type": "array"}, "description": json_numbers.RULE},
        "truncated": {"type": "boolean"},
        "note": {"type": "string"},
    },
    "required": ["columns", "rows"],
    "additionalProperties": False,
}
"""JSON Schema of the structured result of a query called as a tool."""

_RESERVED = frozenset(("format",))
_QUERY_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
_PARAMETER_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_FIRST_WORDS = ("select", "with", "values", "table")
_AFTER_ORDER = frozenset(("limit", "fetch", "offset", "for", "lock", "into", "procedure"))
"""What may follow ORDER BY and cannot follow a LIMIT."""

_BEFORE_TABLES = frozenset(("from", "join", "only", "straight_join", "table"))
"""Words before the name of a table, and rarely before the name of a column."""
_AMONG_TABLES = frozenset((*_BEFORE_TABLES, ",", "(", "in"))
"""Every word or sign that can precede the name of a table."""
_BEGINNINGS = frozenset(("select", "with", "values", "where", "group", "having", "order", "window"))
"""Words that begin a clause in which no comma precedes the name of a table."""
_HOMES: Mapping[EngineName, Sequence[str | None]] = {
    "postgresql": ("public",),
    "duckdb": ("main", None),
}
"""Schemas assumed for unqualified names, without asking the database."""

_NO_CLAIMS: Mapping[str, Any] = {}

ParameterReader: TypeAlias = Callable[[str, Parameter, Any], ParameterValue]
"""Converts a client's value: `parameters.value_from_text` or `value_from_json`."""


class BoundQuery(NamedTuple):
    """A query with its bound values."""

    statement: Statement
    limit: int
    """Maximum number of rows."""
    is_nobodys: bool = False
    """Whether the caller lacks a claim: then there are no rows, whatever the query returns."""


class DeclaredQuery:
    """One declared query, checked.

    Args:
        name: its name in the manifest and in its URI.
        query: its options.
        engine: the engine that reads it.
        limits: limits of the database.
        dialect: the SQL in which claims are compared; by default that of the engine.

    Raises:
        ValueError: the declaration cannot be used; begins with the option's path below the query
            (`sql: …`), for the manifest's author.
    """

    def __init__(
        self,
        name: str,
        query: Query,
        engine: EngineName,
        limits: ReadLimits,
        dialect: str | None = None,
    ) -> None:
        if not _QUERY_NAME.fullmatch(name):
            raise ValueError("the name of a query has only letters, digits and _ - . (at most 64)")
        self.name = name
        self.title = query.title or name
        self._title = query.title
        self.is_tool = query.tool
        self.description = query.description
        self.parameters: Mapping[str, Parameter] = query.parameters
        self._engine: EngineName = engine
        self._dialect = dialect or engine
        self._rows = query.rows
        self._page_rows = min(query.rows or limits.rows, limits.max_rows)
        self._max_rows = min(query.rows or limits.max_rows, limits.max_rows)
        for given in query.parameters:
            _check_name(given)
        try:
            tokens = sql_tokenizer.statement(query.sql, engine)
            check_select(tokens, engine)
            tokens, self._claims = row_claims.claims_joined(tokens, query.parameters, self._dialect)
        except ValueError as error:
            raise ValueError(f"sql: {error}") from None
        self.references = sql_tokenizer.references(tokens, engine)
        """Names in its SQL."""
        self.claims = frozenset(self._claims.values())
        """Names of the claims of callers in its SQL, which are no parameters of clients."""
        used = dict.fromkeys(t.text for t in tokens if t.kind == "parameter")
        self.used = tuple([name for name in used if name not in self._claims])
        """Parameters in its SQL, each once, in order."""
        self._limits_rows = LIMIT in query.parameters and LIMIT not in self.used
        self._check_parameters()
        self.sql, self.order = positional(tokens, engine)
        """SQL with placeholders, and the parameter names in placeholder order."""
        self.text = "".join([":" * (t.kind == "parameter") + t.text for t in tokens])
        """SQL with parameters as :name, without comments."""
        if engine in ("mysql", "mariadb") and _loses_order(tokens):
            self.sql += f"\nLIMIT {self._max_rows + 1}"
            self.text += f"\nLIMIT {self._max_rows + 1}"

    @property
    def is_complete(self) -> bool:
        """Whether it can be read without parameters."""
        return all(map(_may_be_left_out, self.parameters.values()))

    @property
    def template(self) -> Template:
        """Its URI template, with the parameters it needs; the description has all of them."""
        needed = [name for name, each in self.parameters.items() if not _may_be_left_out(each)]
        optional = [name for name in self.parameters if name not in needed]
        about = [self.description] if self.description else []
        about += [_described(name, self.parameters[name]) for name in needed]
        about.append("Optional URI parameters:")
        about += [_described(name, self.parameters[name]) for name in optional]
        about.append(f"format: {', '.join((*FORMATS, *charts.FORMATS))}")
        query = "&".join(f"{name}={{{name}}}" for name in needed)
        return Template(
            f"{SEGMENT}/{self.name}{'?' * bool(needed)}{query}",
            name=self.name,
            title=self.title,
            description="\n".join(about),
            mime_type="application/json",
            type="document",
            optional=(*optional, "format"),
        )

    @property
    def tool(self) -> Tool | None:
        """The query as a tool, or None if models may not call it."""
        if not self.is_tool:
            return None
        schemas = {
            name: parameters.parameter_schema(each) for name, each in self.parameters.items()
        }
        if self._limits_rows:
            limit = schemas[LIMIT]
            limit |= {"type": "integer", "minimum": max(1, limit.get("minimum", 1))}
        needed = [name for name, each in self.parameters.items() if not _may_be_left_out(each)]
        return Tool(
            name=self.name,
            title=self._title,
            description=self.description or f"Rows of the query {self.title}.",
            input_schema={
                "type": "object",
                "properties": schemas,
                **({"required": needed} if needed else {}),
                "additionalProperties": False,
            },
            output_schema=TOOL_RESULT,
        )

    def bind(
        self,
        given: Mapping[str, Any],
        read: ParameterReader = parameters.value_from_text,
        claims: Mapping[str, Any] = _NO_CLAIMS,
    ) -> BoundQuery:
        """Return the query with the client's values, checked and bound, and those of claims.

        Values are texts of URI parameters, unless `read` takes others. `format` is ignored here.

        Raises:
            InvalidParameter: names every unknown or missing parameter and every unusable value.
        """
        problems = [_unknown(n, self.parameters) for n in given if n not in self.parameters]
        problems = [problem for problem in problems if problem]
        values: dict[str, ParameterValue | None] = {}
        for name, parameter in self.parameters.items():
            try:
                values[name] = self._value(name, parameter, given, read)
            except InvalidParameter as error:
                problems.append(str(error))
        if problems:
            raise InvalidParameter("; ".join(problems[:5]))
        limit = self._page_rows
        if self._limits_rows and isinstance(asked := values.pop(LIMIT), int):
            limit = min(asked, self._max_rows)
        for_driver = {
            name: parameters.driver_value(value, self._engine) for name, value in values.items()
        }
        for name, claim in self._claims.items():
            for_driver[name] = self._claim_for_driver(claims.get(claim))
        lacks = any(claims.get(claim) is None for claim in self.claims)
        statement = Statement(self.sql, tuple([for_driver[name] for name in self.order]))
        return BoundQuery(statement, limit, lacks)

    def _claim_for_driver(self, value: Any) -> object:
        """Return the value of a claim as a driver binds it; a list as JSON, but on PostgreSQL."""
        if isinstance(value, list):
            items = cast("list[object]", value)
            is_array = self._dialect == "postgresql"
            return items if is_array else msgspec.json.encode(items).decode()
        return parameters.driver_value(value, self._engine)

    def scopes(self, policy: Policy) -> frozenset[str]:
        """Return the scopes that it requires by the tables after FROM and JOIN.

        Works from the names in its SQL, without a connection. PostgreSQL's search path
        is unknown then, so unqualified names are assumed to be in `public`.
        """
        every = [policy.of(table) for table in self._tables()]
        return frozenset[str]().union(*(each.access.scopes for each in every if each))

    def claims_of(self, policy: Policy) -> frozenset[str]:
        """Return its claims and those of the tables after FROM and JOIN, named as in `scopes`."""
        rows = [policy.row_claims(table) for table in self._tables()]
        return self.claims.union(*rows)

    def _tables(self) -> Iterator[TableName]:
        among_tables = False
        for reference in self.references:
            parts, word, before = reference.parts, reference.parts[0].lower(), reference.before
            is_table = before in _BEFORE_TABLES or (among_tables and before in _AMONG_TABLES)
            if is_table and not reference.doubtful and word not in _BEGINNINGS:
                for home in _HOMES.get(self._engine, ()) or (None,):
                    schema = (home, *parts)[-2] if self._engine in _HOMES else None
                    yield TableName(schema, parts[-1])
            among_tables = word in _BEFORE_TABLES or (among_tables and word not in _BEGINNINGS)

    def complete(self, variable: str, value: str) -> Sequence[str]:
        """Return known values of a parameter that contain the text typed so far."""
        parameter = self.parameters.get(variable)
        if parameter is None:
            return ()
        known: list[ParameterValue] = [*parameter.enum]
        if not known:
            known = [True, False] if parameter.type == "boolean" else [*parameter.examples]
            known += [] if parameter.default is None else [parameter.default]
        typed = value.casefold()
        texts = dict.fromkeys(map(parameters.parameter_text, known))
        return [text for text in texts if typed in text.casefold()]

    def _value(
        self, name: str, parameter: Parameter, given: Mapping[str, Any], read: ParameterReader
    ) -> ParameterValue | None:
        if name not in given:
            if parameter.default is not None:
                return parameters.declared_value(parameter, parameter.default)
            if parameter.optional:
                return None
            raise InvalidParameter(f"{name} is required: {parameters.expected_value(parameter)}")
        value = read(name, parameter, given[name])
        if self._limits_rows and name == LIMIT and isinstance(value, int) and value < 1:
            raise InvalidParameter(f"{name} must be a number of rows, at least 1")
        return value

    def _check_parameters(self) -> None:
        """Refuse parameters that are declared but not used, or used but not declared."""
        names = list(self.parameters)
        for name in self.used:
            if name not in self.parameters:
                hint = did_you_mean(name, [n for n in names if n not in self.used] or names)
                raise ValueError(f"sql: parameter :{echo(name)} is not declared{hint}")
        for name, parameter in self.parameters.items():
            if name not in self.used and name != LIMIT:
                hint = did_you_mean(name, self.used)
                raise ValueError(f"parameters.{name}: there is no :{name} in the SQL{hint}")
            if name == LIMIT and self._limits_rows:
                self._check_limit(parameter)

    def _check_limit(self, parameter: Parameter) -> None:
        where = f"parameters.{LIMIT}"
        if parameter.type != "integer":
            raise ValueError(f"{where}.type: {parameter.type}, but a number of rows is an integer")
        if isinstance(parameter.default, int) and parameter.default < 1:
            raise ValueError(f"{where}.default: {parameter.default} is not a number of rows")
        for option, value in (("maximum", parameter.maximum), ("default", parameter.default)):
            if self._rows is not None and isinstance(value, int | float) and value > self._rows:
                raise ValueError(f"{where}.{option}: {value:g} exceeds `rows` ({self._rows})")


class Confinement(Protocol):
    """Confines declared queries to what the manifest exposes."""

    async def rows(self, query: DeclaredQuery, bound: BoundQuery, within: float) -> Rows:
        """Run a query with its values; what waits in it is awaited through `settle`.

        Raises:
            InvalidParameter: it is refused; the message tells nothing of the SQL.
        """
        ...

    async def refusal(self, query: DeclaredQuery) -> str | None:
        """Return why a query is refused, or None; for the manifest's author. Runs nothing."""
        ...


class DeclaredQueries:
    """The queries of one database by name, in manifest order.

    Raises:
        ValueError: some queries cannot be used; gives every reason, for the manifest's author.
    """

    def __init__(
        self,
        queries: Mapping[str, Query],
        engine: EngineName,
        limits: ReadLimits,
        dialect: str | None = None,
    ) -> None:
        self.confinement: Confinement | None = None
        """Confines the queries to exposed data; without it none can be read."""
        self._every: dict[str, DeclaredQuery] = {}
        problems: list[str] = []
        for name, query in queries.items():
            try:
                self._every[name] = DeclaredQuery(name, query, engine, limits, dialect)
            except ValueError as error:
                problems.append(f"queries.{echo(name)}: {error}")
        if problems:
            raise ValueError("\n".join(problems))
        self._needed = {name: query.claims for name, query in self._every.items()}
        """Claims without which a query does not exist."""
        self.show_to(_NO_CLAIMS)

    def read_by(self, policy: Policy) -> None:
        """Hide queries of tables that do not exist, since claims are lacking."""
        self._needed = {name: query.claims_of(policy) for name, query in self._every.items()}
        self.show_to(self._values)

    @property
    def claims(self) -> frozenset[str]:
        """Names of the claims that queries use."""
        return frozenset[str]().union(*(query.claims for query in self._every.values()))

    def with_claims(self, values: Mapping[str, Any]) -> DeclaredQueries:
        """Return the queries for callers with these values of claims, not confined yet."""
        found = copy(self)
        found.confinement = None
        found.show_to(values)
        return found

    def show_to(self, values: Mapping[str, Any]) -> None:
        """Hide the queries with claims that have no value here and are not known to be absent."""
        self._values = values
        self._declared = {
            name: query
            for name, query in self._every.items()
            if self._needed[name] <= values.keys()
        }

    def lacks_claims(self, name: str) -> Sequence[str]:
        """Return the claims without which a query does not exist."""
        return sorted(self._needed.get(name, frozenset[str]()) - self._values.keys())

    def __len__(self) -> int:
        return len(self._declared)

    def __iter__(self) -> Iterator[str]:
        return iter(self._declared)

    def get(self, name: str) -> DeclaredQuery:
        """Return a query by name.

        Raises:
            ResourceNotFound: there is no such query.
        """
        found = self._declared.get(name)
        if found is None:
            raise ResourceNotFound
        return found

    async def rows(
        self,
        name: str,
        given: Mapping[str, Any],
        read: ParameterReader = parameters.value_from_text,
        *,
        within: float,
    ) -> Rows:
        """Return the rows of a query within a timeout. Raises as `DeclaredQuery.bind`.

        Raises:
            ResourceNotFound: there is no such query.
            InvalidParameter: it is refused; the message tells nothing of the SQL.
        """
        query = self.get(name)
        bound = query.bind(given, read, self._values)
        found = await self._confined.rows(query, bound, within)
        return Rows(found.columns, ()) if bound.is_nobodys else found

    async def refusal(self, name: str, confinement: Confinement | None = None) -> str | None:
        """Return why a query is refused, or None; for the manifest's author. Runs nothing.

        `confinement` replaces the default one, for a caller with fewer scopes.
        """
        return await (confinement or self._confined).refusal(self.get(name))

    @property
    def _confined(self) -> Confinement:
        if self.confinement is None:
            raise MountUnavailable("the queries of this database are not bound to it")
        return self.confinement

    @property
    def templates(self) -> Sequence[Template]:
        """The templates, one per query."""
        return [query.template for query in self._declared.values()]

    @property
    def tools(self) -> Sequence[Tool]:
        """The queries that models may call, in manifest order."""
        return [tool for query in self._declared.values() if (tool := query.tool) is not None]

    def complete(self, variable: str, value: str, given: Mapping[str, str]) -> Sequence[str]:
        """Return values of a parameter, from every query that takes all given parameters."""
        found: dict[str, None] = {}
        for query in self._declared.values():
            if given.keys() <= query.parameters.keys() | _RESERVED:
                found.update(dict.fromkeys(query.complete(variable, value)))
        return list(found)


def _may_be_left_out(parameter: Parameter) -> bool:
    return parameter.optional or parameter.default is not None


def _check_name(name: str) -> None:
    if name in _RESERVED:
        raise ValueError(f"parameters.{name}: every query already has a parameter of this name")
    if not _PARAMETER_NAME.fullmatch(name):
        raise ValueError(
            f"parameters: '{echo(name)}' is not a parameter name; write at most 64 letters, digits "
            "and _, beginning with no digit"
        )


def check_select(tokens: Sequence[SqlToken], engine: EngineName) -> None:
    """Check that a statement begins like a SELECT.

    Raises:
        ValueError: it does not.
    """
    first = next((token for token in tokens if token.kind not in ("space", "open")), None)
    words = (*_FIRST_WORDS, "from") if engine == "duckdb" else _FIRST_WORDS
    if first is None or first.kind != "word" or first.text.lower() not in words:
        raise ValueError("is not a SELECT; begin with select, with or values")


def positional(tokens: Sequence[SqlToken], engine: EngineName) -> tuple[str, tuple[str, ...]]:
    """Return SQL with placeholders, and the parameter names in placeholder order."""
    order: list[str] = []
    pieces: list[str] = []
    for before, token in zip((None, *tokens), tokens, strict=False):
        if token.kind != "parameter":
            pieces.append(_escaped(token.text, engine))
            continue
        numbered = engine in ("postgresql", "duckdb", "generic")
        if not numbered or token.text not in order:
            order.append(token.text)
        if before is not None and before.kind in ("word", "parameter"):
            pieces.append(" ")
        match engine:
            case "sqlite":
                pieces.append("?")
            case "postgresql" | "duckdb":
                pieces.append(f"${order.index(token.text) + 1}")
            case "mysql" | "mariadb":
                pieces.append("%s")
            case "generic":
                pieces.append(f":p{order.index(token.text) + 1}")
    return "".join(pieces), tuple(order)


def _escaped(text: str, engine: EngineName) -> str:
    """Return a piece of SQL without what the driver, or SQLAlchemy, takes for a parameter."""
    if engine == "generic":
        return text.replace(":", "\\:")
    return text.replace("%", "%%") if engine in ("mysql", "mariadb") else text


def _loses_order(tokens: Sequence[SqlToken]) -> bool:
    """Return whether the statement ends with ORDER BY and no LIMIT.

    MariaDB ignores such an ORDER BY once the statement is in parentheses.
    """
    depth = 0
    ordered = False
    for token in tokens:
        depth += (token.kind == "open") - (token.kind == "close")
        if depth == 0 and token.kind == "word":
            word = token.text.lower()
            ordered = word == "order" or (ordered and word not in _AFTER_ORDER)
    return ordered


def _described(name: str, parameter: Parameter) -> str:
    said = [f"{parameter.description}: "] if parameter.description else []
    said.append(parameters.expected_value(parameter))
    if parameter.default is not None:
        said.append(f"; by default {parameters.parameter_text(parameter.default)}")
    elif parameter.optional:
        said.append("; optional")
    return f"{name}: {''.join(said)}"


def _unknown(name: str, known: Mapping[str, Parameter]) -> str | None:
    if name in _RESERVED:
        return None
    hint = did_you_mean(name, known)
    if not hint:
        hint = f"; the parameters are {', '.join((*known, *_RESERVED))}"
    return f"unknown query parameter '{echo(name)}'{hint}"
