"""Reflection of PostgreSQL tables: catalog queries and their results."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec

from resource_server.providers.database.addressing.key_types import Enumerated, KeyType
from resource_server.providers.database.engines.postgres.key_types import key_type
from resource_server.providers.database.engines.reflection import (
    Column,
    ColumnKind,
    ForeignKey,
    FoundKey,
    Index,
    Key,
    Table,
    TableInfo,
    TableName,
    TableType,
    WordIndex,
    best_first,
    quoted,
)

_CONFIGURATION = re.compile(r"\bto_tsvector\(('(?:[^'\\]|'')+'::regconfig),")
_TYPES: dict[str, TableType] = {
    "r": "table",
    "p": "table",
    "f": "table",
    "v": "view",
    "m": "materialized view",
}

_KINDS: dict[str, ColumnKind] = {
    "int2": "integer",
    "int4": "integer",
    "int8": "integer",
    "oid": "integer",
    "float4": "real",
    "float8": "real",
    "numeric": "numeric",
    "text": "text",
    "varchar": "text",
    "bpchar": "text",
    "name": "text",
    "char": "text",  # The type written "char", with quotes
    "citext": "text",
    "bytea": "blob",
    "bool": "boolean",
    "date": "date",
    "time": "time",
    "timetz": "time",
    "timestamp": "datetime",
    "timestamptz": "datetime",
    "uuid": "uuid",
    "json": "json",
    "jsonb": "json",
}
"""By the base type's name in `pg_catalog`, and `citext`; enumerations are text."""

_SERVED = """
    c.relkind IN ('r', 'p', 'f', 'v', 'm') AND NOT c.relispartition AND c.relpersistence <> 't'
    AND CASE WHEN $1::text[] IS NULL
        THEN n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
        ELSE n.nspname = ANY ($1::text[]) END
    AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d
        WHERE d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.objid = c.oid
        AND d.deptype = 'e')
    AND NOT EXISTS (SELECT FROM pg_catalog.pg_class p
        WHERE p.relnamespace = n.oid AND p.relname = '~policy' AND p.relkind = 'v')"""
"""Tables of the users: without partitions, temporary tables, tables of extensions and the views of
policies."""
_VISIBLE = f"""{_SERVED}
    AND pg_catalog.has_schema_privilege(n.oid, 'USAGE')
    AND (pg_catalog.has_table_privilege(c.oid, 'SELECT')
        OR pg_catalog.has_any_column_privilege(c.oid, 'SELECT'))"""
"""Those that the login may read."""

EXISTS = f"""
SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE {_SERVED} AND n.nspname = $2 AND c.relname = $3
"""
"""Whether there is a table, readable or not."""

TABLES = f"""
SELECT n.nspname::text, c.relname::text, c.relkind::text,
    pg_catalog.obj_description(c.oid, 'pg_class')
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE {_VISIBLE}
ORDER BY n.nspname::text COLLATE "C", c.relname::text COLLATE "C"
"""  # noqa: S608

UNSERVED = f"""
SELECT n.nspname::text, c.relname::text
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'f', 'v', 'm') AND n.nspname !~ '^pg_' AND ({_VISIBLE}) IS NOT TRUE
"""  # noqa: S608

TABLE = f"""
SELECT pg_catalog.json_build_object(
  'type', c.relkind,
  'comment', pg_catalog.obj_description(c.oid, 'pg_class'),
  'definition', CASE WHEN c.relkind IN ('v', 'm') THEN pg_catalog.pg_get_viewdef(c.oid, true) END,
  'columns', (
    SELECT pg_catalog.json_agg(pg_catalog.json_build_object(
      'name', a.attname,
      'type', pg_catalog.format_type(a.atttypid, a.atttypmod),
      'base', b.typname,
      'domain', b.oid <> a.atttypid,
      'found', pg_catalog.pg_type_is_visible(b.oid),
      'system', b.typnamespace = 'pg_catalog'::pg_catalog.regnamespace,
      'nullable', NOT (a.attnotnull OR (b.required AND c.relkind NOT IN ('v', 'm'))),
      'required', a.attnotnull,
      'bytewise', l.oid IS NOT NULL AND l.collnamespace = 'pg_catalog'::pg_catalog.regnamespace
        AND l.collname IN ('C', 'POSIX', 'ucs_basic')
        AND pg_catalog.getdatabaseencoding() = 'UTF8',
      'deterministic', l.oid IS NULL OR l.collisdeterministic,
      'default', pg_catalog.pg_get_expr(d.adbin, d.adrelid),
      'generated', a.attgenerated,
      'identity', a.attidentity,
      'comment', pg_catalog.col_description(c.oid, a.attnum),
      'values', (SELECT pg_catalog.json_agg(e.enumlabel ORDER BY e.enumsortorder)
        FROM pg_catalog.pg_enum e WHERE e.enumtypid = b.oid)
    ) ORDER BY a.attnum)
    FROM pg_catalog.pg_attribute a
    LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    LEFT JOIN pg_catalog.pg_collation l ON l.oid = a.attcollation
    CROSS JOIN LATERAL (
      WITH RECURSIVE base AS (
        SELECT t.oid, t.typname, t.typnamespace, t.typtype, t.typbasetype, t.typnotnull
        FROM pg_catalog.pg_type t WHERE t.oid = a.atttypid
        UNION ALL
        SELECT t.oid, t.typname, t.typnamespace, t.typtype, t.typbasetype,
          base.typnotnull OR t.typnotnull
        FROM base JOIN pg_catalog.pg_type t ON t.oid = base.typbasetype
        WHERE base.typtype = 'd')
      SELECT base.oid, base.typname, base.typnamespace, base.typnotnull AS required
      FROM base WHERE base.typtype <> 'd') b
    WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
      AND pg_catalog.has_column_privilege(c.oid, a.attnum, 'SELECT')),
  'unread', (SELECT pg_catalog.json_agg(a.attname) FROM pg_catalog.pg_attribute a
    WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
      AND NOT pg_catalog.has_column_privilege(c.oid, a.attnum, 'SELECT')),
  'indexes', (
    SELECT pg_catalog.json_agg(pg_catalog.json_build_object(
      'name', i.relname,
      'columns', (SELECT pg_catalog.json_agg(a.attname ORDER BY k.place)
        FROM pg_catalog.unnest(x.indkey::int2[]) WITH ORDINALITY k (number, place)
        LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.number
          AND k.number <> 0
        WHERE k.place <= x.indnkeyatts),
      'same_collations', (SELECT pg_catalog.bool_and(k.collation_oid = a.attcollation)
        FROM ROWS FROM (pg_catalog.unnest(x.indkey::int2[]),
          pg_catalog.unnest(x.indcollation::oid[])) WITH ORDINALITY k (number, collation_oid, place)
        JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.number
        WHERE k.place <= x.indnkeyatts),
      'unique', x.indisunique,
      'primary', x.indisprimary,
      'partial', x.indpred IS NOT NULL,
      'whole', x.indpred IS NULL AND x.indimmediate AND x.indisvalid
        AND NOT EXISTS (SELECT FROM pg_catalog.unnest(x.indclass::oid[]) k (class)
          JOIN pg_catalog.pg_opclass o ON o.oid = k.class
          WHERE NOT o.opcdefault AND o.opcname !~ '^(text|varchar|bpchar)_pattern_ops$')
        AND (c.relkind <> 'r' OR NOT EXISTS (
          SELECT FROM pg_catalog.pg_inherits h WHERE h.inhparent = c.oid))
    ) ORDER BY i.relname)
    FROM pg_catalog.pg_index x JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid
    WHERE x.indrelid = c.oid AND x.indislive),
  'trigrams', (
    SELECT pg_catalog.json_agg(DISTINCT a.attname)
    FROM pg_catalog.pg_index x
    CROSS JOIN LATERAL ROWS FROM (pg_catalog.unnest(x.indkey::int2[]),
      pg_catalog.unnest(x.indclass::oid[])) k (number, class)
    JOIN pg_catalog.pg_opclass o ON o.oid = k.class AND o.opcname ~ '^g(in|ist)_trgm_ops$'
    JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.number
      AND a.attcollation = 'pg_catalog."default"'::pg_catalog.regcollation
    -- Turkish has another lower case of I, which a search in any language must not have.
    WHERE x.indrelid = c.oid AND x.indisvalid AND x.indpred IS NULL
      AND pg_catalog.lower('ABCDEFGHIJKLMNOPQRSTUVWXYZ') = 'abcdefghijklmnopqrstuvwxyz'),
  'words', (
    SELECT pg_catalog.json_agg(pg_catalog.json_build_object(
      'columns', (SELECT pg_catalog.json_agg(DISTINCT s.attname) FROM pg_catalog.pg_depend u
        JOIN pg_catalog.pg_attribute s ON s.attrelid = c.oid AND s.attnum = u.refobjsubid
        WHERE u.refobjid = c.oid AND u.refobjsubid > 0 AND u.refobjsubid <> x.indkey[0] AND (
          (u.objid = x.indexrelid AND x.indkey[0] = 0) OR u.objid = d.oid
          OR (u.objid = c.oid AND u.objsubid = a.attnum))),
      'column', a.attname,
      'expression', COALESCE(pg_catalog.pg_get_expr(x.indexprs, c.oid),
        pg_catalog.pg_get_expr(d.adbin, c.oid))
    ) ORDER BY x.indexrelid)
    FROM pg_catalog.pg_index x
    JOIN pg_catalog.pg_opclass o ON o.oid = x.indclass[0] AND o.opcname = 'tsvector_ops'
    LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = x.indkey[0]
      AND a.attgenerated <> ''
    LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
    WHERE x.indrelid = c.oid AND x.indnkeyatts = 1 AND x.indisvalid AND x.indpred IS NULL
      AND (x.indexprs IS NOT NULL OR d.oid IS NOT NULL)),
  'foreign_keys', (
    SELECT pg_catalog.json_agg(pg_catalog.json_build_object(
      'schema', rn.nspname,
      'table', r.relname,
      'columns', (SELECT pg_catalog.json_agg(a.attname ORDER BY k.place)
        FROM pg_catalog.unnest(f.conkey) WITH ORDINALITY k (number, place)
        JOIN pg_catalog.pg_attribute a ON a.attrelid = f.conrelid AND a.attnum = k.number),
      'referred', (SELECT pg_catalog.json_agg(a.attname ORDER BY k.place)
        FROM pg_catalog.unnest(f.confkey) WITH ORDINALITY k (number, place)
        JOIN pg_catalog.pg_attribute a ON a.attrelid = f.confrelid AND a.attnum = k.number)
    ) ORDER BY f.conname)
    FROM pg_catalog.pg_constraint f
    JOIN pg_catalog.pg_class r ON r.oid = f.confrelid
    JOIN pg_catalog.pg_namespace rn ON rn.oid = r.relnamespace
    WHERE f.conrelid = c.oid AND f.contype = 'f' AND f.conparentid = 0)
)::text
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE {_VISIBLE} AND n.nspname = $2 AND c.relname = $3
"""  # noqa: S608

VIEW_READS = """
SELECT DISTINCT vn.nspname::text, v.relname::text, n.nspname::text, c.relname::text,
  -- The catalog does not record columns that are read as a part of whole rows (`o.*`).
  CASE WHEN pg_catalog.pg_get_viewdef(v.oid) ~ '[\\w"][.][*]' THEN '*'
    ELSE coalesce(a.attname::text, '') END
FROM pg_catalog.pg_class v
JOIN pg_catalog.pg_namespace vn ON vn.oid = v.relnamespace
JOIN pg_catalog.pg_rewrite r ON r.ev_class = v.oid
JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass
  AND d.objid = r.oid AND d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass
  AND d.refobjid <> v.oid
LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
-- Rows of a partition are rows of the tables that it is a part of.
CROSS JOIN LATERAL (SELECT d.refobjid AS oid
  UNION SELECT p.relid FROM pg_catalog.pg_partition_ancestors(d.refobjid) p) o
JOIN pg_catalog.pg_class c ON c.oid = o.oid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE v.relkind IN ('v', 'm') AND v.relname = ANY ($1::text[])"""

ESTIMATE = f"""
SELECT CASE WHEN c.relkind = 'p' THEN (
    SELECT pg_catalog.sum(CASE WHEN l.reltuples >= 0 THEN l.reltuples END)
    FROM pg_catalog.pg_partition_tree(c.oid) p JOIN pg_catalog.pg_class l ON l.oid = p.relid
    WHERE p.isleaf)
  WHEN c.relkind <> 'v' AND (c.reltuples > 0 OR c.relpages > 0) THEN c.reltuples END::float8
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE {_VISIBLE} AND n.nspname = $2 AND c.relname = $3
"""  # noqa: S608

_NOT_TEMPORARY = "NOT IN (SELECT t.oid FROM temporary t)"
_STATES = {
    "pg_class": "x.relpersistence <> 't'",
    "pg_attribute": f"x.attrelid >= 16384 AND x.attnum > 0 AND x.attrelid {_NOT_TEMPORARY}",
    "pg_attrdef": f"x.adrelid {_NOT_TEMPORARY}",
    "pg_constraint": f"x.conrelid {_NOT_TEMPORARY}",
    "pg_description": "x.objoid >= 16384"
    " AND x.classoid = 'pg_catalog.pg_class'::pg_catalog.regclass",
    "pg_enum": "true",
    "pg_index": f"x.indexrelid {_NOT_TEMPORARY}",
    "pg_namespace": "x.nspname !~ '^pg_(toast_)?temp_'",
    # Row types come with `pg_class`, and array types with their element types.
    "pg_type": "x.typtype IN ('d', 'e', 'r')",
}
"""The rows of each catalog that count: those of temporary tables do not."""

_TEMPORARY = """
WITH temporary AS (SELECT c.oid FROM pg_catalog.pg_class c WHERE c.relpersistence = 't')"""
_STATE_OF_CATALOG = """
  SELECT '{catalog}', pg_catalog.count(*), pg_catalog.sum(x.xmin::text::bigint)
  FROM pg_catalog.{catalog} x WHERE {counts}"""

STATE = _TEMPORARY + " UNION ALL ".join(
    _STATE_OF_CATALOG.format(catalog=catalog, counts=counts) for catalog, counts in _STATES.items()
)
"""A checksum of the schema: each version of a catalog row has its transaction's number, xmin."""

PRIVILEGES = """
WITH me AS (SELECT r.* FROM pg_catalog.pg_roles r WHERE r.rolname = current_user)
SELECT name FROM (
  SELECT 1 AS place, u.name FROM me CROSS JOIN LATERAL (VALUES
    ('SUPERUSER', me.rolsuper), ('CREATEDB', me.rolcreatedb), ('CREATEROLE', me.rolcreaterole),
    ('REPLICATION', me.rolreplication), ('BYPASSRLS', me.rolbypassrls)) u (name, has) WHERE u.has
  UNION ALL
  SELECT 2, 'member of ' || r.rolname FROM pg_catalog.pg_roles r, me
  WHERE NOT me.rolsuper AND r.rolname IN ('pg_write_all_data', 'pg_read_server_files',
      'pg_write_server_files', 'pg_execute_server_program', 'pg_signal_backend')
    AND pg_catalog.pg_has_role(r.oid, 'USAGE')
  UNION ALL
  SELECT 3, 'CREATE on database' FROM me WHERE NOT me.rolsuper
    AND pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE')
  UNION ALL
  SELECT 4, 'CREATE on schema ' || n.nspname FROM pg_catalog.pg_namespace n, me
  WHERE NOT me.rolsuper AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
    AND pg_catalog.has_schema_privilege(n.oid, 'CREATE')
  UNION ALL
  SELECT 5, p.name || ' on ' || n.nspname || '.' || c.relname
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  CROSS JOIN me CROSS JOIN LATERAL (VALUES
    ('INSERT', pg_catalog.has_any_column_privilege(c.oid, 'INSERT')),
    ('UPDATE', pg_catalog.has_any_column_privilege(c.oid, 'UPDATE')),
    ('DELETE', pg_catalog.has_table_privilege(c.oid, 'DELETE')),
    ('TRUNCATE', pg_catalog.has_table_privilege(c.oid, 'TRUNCATE'))) p (name, has)
  WHERE NOT me.rolsuper AND p.has AND c.relkind IN ('r', 'p', 'f', 'v')
    AND c.relpersistence <> 't'
    AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
    AND pg_catalog.has_schema_privilege(n.oid, 'USAGE')
) every ORDER BY place, name
"""

_OWN_VIEWS = """
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid
WHERE c.relnamespace = pg_catalog.to_regnamespace(pg_catalog.quote_ident(current_schema()))
  AND c.relkind = 'v' AND a.attnum > 0 AND NOT a.attisdropped
  AND pg_catalog.has_table_privilege(c.oid, 'SELECT')"""
HAS_DIGEST = f"SELECT 1 {_OWN_VIEWS} AND c.relname = $1 AND a.attname = 'whole'"
VIEW_COLUMNS = f"""
SELECT c.relname::text, a.attname::text {_OWN_VIEWS}
ORDER BY c.relname::text COLLATE "C", a.attnum"""
BEYOND_POLICY = """
WITH visible AS (
  SELECT n.oid, n.nspname, n.nspname = current_schema() AS ours FROM pg_catalog.pg_namespace n
  WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
    AND pg_catalog.has_schema_privilege(n.oid, 'USAGE'))
SELECT name FROM (
  SELECT 1 AS place, 'member of ' || r.rolname AS name FROM pg_catalog.pg_roles r
  WHERE r.rolname <> current_user AND pg_catalog.pg_has_role(r.oid, 'MEMBER')
  UNION ALL
  SELECT 2, 'a search path of other than one schema'
  WHERE pg_catalog.cardinality(pg_catalog.current_schemas(false)) IS DISTINCT FROM 1
  UNION ALL
  SELECT 3, 'SELECT on ' || v.nspname || '.' || c.relname
  FROM pg_catalog.pg_class c JOIN visible v ON v.oid = c.relnamespace
  WHERE c.relkind IN ('r', 'p', 'f', 'm', 'v', 'S') AND NOT (v.ours AND c.relkind = 'v')
    AND CASE c.relkind WHEN 'S' THEN pg_catalog.has_sequence_privilege(c.oid, 'USAGE, SELECT')
      ELSE pg_catalog.has_any_column_privilege(c.oid, 'SELECT') END
  UNION ALL
  SELECT 4, 'EXECUTE on ' || v.nspname || '.' || p.proname
  FROM pg_catalog.pg_proc p JOIN visible v ON v.oid = p.pronamespace
  WHERE (p.prosecdef OR p.provolatile = 'v' OR v.ours)
    AND pg_catalog.has_function_privilege(p.oid, 'EXECUTE')
  UNION ALL
  SELECT 4, 'EXECUTE on ' || p.proname FROM pg_catalog.pg_proc p
  WHERE p.pronamespace = 'pg_catalog'::pg_catalog.regnamespace
    AND (p.proname ~ '^(pg_read_|pg_ls_|pg_stat_file|pg_file_)'
      OR p.proname IN ('lo_import', 'lo_export', 'pg_reload_conf', 'pg_terminate_backend'))
    AND p.proacl IS NOT NULL AND pg_catalog.has_function_privilege(p.oid, 'EXECUTE')
  UNION ALL
  SELECT 5, 'USAGE on foreign server ' || s.srvname FROM pg_catalog.pg_foreign_server s
  WHERE pg_catalog.has_server_privilege(s.oid, 'USAGE')
) every ORDER BY place, name LIMIT 1
"""
"""The first right of a login for callers' SQL beyond the views of its only schema."""


class _CatalogColumn(msgspec.Struct):
    name: str
    type: str
    base: str
    domain: bool
    found: bool
    """The type is found without its schema, and so are the operators beside it."""
    system: bool
    nullable: bool
    required: bool
    """NOT NULL by itself: a domain that is NOT NULL may still hold NULL."""
    bytewise: bool
    """Its collation compares the bytes of UTF-8."""
    deterministic: bool
    """Its collation takes only equal bytes for equal."""
    default: str | None
    generated: Literal["", "s", "v"]
    identity: Literal["", "a", "d"]
    comment: str | None
    values: tuple[str, ...] | None


class _CatalogIndex(msgspec.Struct):
    name: str
    columns: tuple[str | None, ...]
    same_collations: bool | None
    """Whether every column has the collation that the index has for it."""
    unique: bool
    primary: bool
    partial: bool
    whole: bool
    """Holds at any time for all rows that a SELECT returns, those of inheriting tables included."""


class _CatalogForeignKey(msgspec.Struct):
    schema: str
    table: str
    columns: tuple[str, ...]
    referred: tuple[str, ...]


class _CatalogWords(msgspec.Struct):
    """An index of a generated column, or of an expression."""

    columns: tuple[str, ...] | None
    column: str | None
    expression: str


class _CatalogTable(msgspec.Struct):
    type: str
    comment: str | None
    definition: str | None
    columns: tuple[_CatalogColumn, ...] | None
    unread: tuple[str, ...] | None
    indexes: tuple[_CatalogIndex, ...] | None
    trigrams: tuple[str, ...] | None
    words: tuple[_CatalogWords, ...] | None
    foreign_keys: tuple[_CatalogForeignKey, ...] | None


_decode = msgspec.json.Decoder(_CatalogTable).decode


def postgres_table_info(row: Sequence[Any]) -> TableInfo:
    """Return the table that a row of `TABLES` describes."""
    schema, name, type_, comment = row
    return TableInfo(TableName(schema, name), _TYPES[type_], comment)


def postgres_table(name: TableName, text: str) -> Table:
    """Build a table from the JSON that `TABLE` returns."""
    row = _decode(text)
    columns = tuple(map(_column, row.columns or ()))
    keys = _keys(row.indexes or (), row.columns or (), columns)
    readable = {column.name for column in columns}
    foreign_keys = tuple(
        ForeignKey(one.columns, TableName(one.schema, one.table), one.referred)
        for one in row.foreign_keys or ()
        if readable.issuperset(one.columns)
    )
    found = Table(
        name,
        _TYPES[row.type],
        columns,
        foreign_keys=foreign_keys,
        indexes=tuple(
            Index(one.name, one.columns, one.unique, one.partial) for one in row.indexes or ()
        ),
        comment=row.comment,
        ddl=row.definition,
        unread=row.unread or (),
        trigrams=row.trigrams or (),
        words=tuple(_word_indexes(row.words or ())),
    ).with_key(keys)
    if found.type != "table":
        return found
    return msgspec.structs.replace(found, ddl=_create_statement(found, row))


def _word_indexes(found: Sequence[_CatalogWords]) -> Iterator[WordIndex]:
    """Yield the indexes whose text is read by one configuration, known from their expressions."""
    for each in found:
        configurations = set(_CONFIGURATION.findall(each.expression))
        # The catalog does not name the columns of a whole row.
        if len(configurations) == 1 and each.columns and ".*" not in each.expression:
            indexed = f"({each.expression})" if each.column is None else quoted(each.column)
            yield WordIndex(each.columns, expression=indexed, configuration=configurations.pop())


def _create_statement(table: Table, row: _CatalogTable) -> str:
    """Build the CREATE statement of a table, since PostgreSQL does not keep it."""
    lines: list[str] = []
    for column in row.columns or ():
        words = [quoted(column.name), column.type]
        if column.generated:
            kept = "STORED" if column.generated == "s" else "VIRTUAL"
            words.append(f"GENERATED ALWAYS AS ({column.default}) {kept}")
        elif column.identity:
            when = "ALWAYS" if column.identity == "a" else "BY DEFAULT"
            words.append(f"GENERATED {when} AS IDENTITY")
        elif column.default is not None:
            words.append(f"DEFAULT {column.default}")
        if not column.nullable:
            words.append("NOT NULL")
        lines.append(" ".join(words))
    for index in row.indexes or ():
        names = [name for name in index.columns if name in table.column_names]
        if index.primary and len(names) == len(index.columns):
            lines.append(f"PRIMARY KEY ({_listed(names)})")
    for foreign in table.foreign_keys:
        referred = f"{_name(foreign.table)} ({_listed(foreign.referred)})"
        lines.append(f"FOREIGN KEY ({_listed(foreign.columns)}) REFERENCES {referred}")
    return f"CREATE TABLE {_name(table.name)} (\n    " + ",\n    ".join(lines) + "\n)"


def _name(table: TableName) -> str:
    return f"{quoted(table.schema or 'public')}.{quoted(table.name)}"


def _listed(columns: Sequence[str]) -> str:
    return ", ".join(map(quoted, columns))


def _column(row: _CatalogColumn) -> Column:
    kind: ColumnKind = "other"
    if row.values is not None:
        kind = "text"
    elif row.system or row.base == "citext":
        kind = _KINDS.get(row.base, "other")
    default = None if row.generated else row.default
    return Column(
        row.name,
        row.type,
        kind,
        row.nullable,
        "generated as identity" if row.identity else default,
        bool(row.generated),
        row.comment,
        row.values or (),
        _key_type(row),
    )


def _key_type(row: _CatalogColumn) -> KeyType | None:
    if row.values is not None:
        # PostgreSQL compares enumerations, and no domains over them.
        return Enumerated(values=row.values, is_compared=not row.domain)
    if row.system or (row.base == "citext" and row.found):
        return key_type(row.base, is_bytewise=row.bytewise)
    return None


def _keys(
    indexes: Sequence[_CatalogIndex],
    catalog_columns: Sequence[_CatalogColumn],
    columns: Sequence[Column],
) -> list[Key]:
    """Return the primary key, then unique ones, shortest first, of columns without NULL."""
    usable = {
        row.name: row
        for row, column in zip(catalog_columns, columns, strict=True)
        if row.required and column.is_address
    }
    found: list[FoundKey] = []
    for index in indexes:
        names = tuple(name for name in index.columns if name is not None)
        whole = index.unique and index.whole and len(names) == len(index.columns)
        if not whole or not usable.keys() >= set(names):
            continue
        # Bytes that differ are unequal in every deterministic collation. `citext` folds case.
        exact = all(usable[name].deterministic and usable[name].system for name in names)
        if index.same_collations or exact:
            found.append(FoundKey(index.primary, index.name, names))
    return best_first(found)
